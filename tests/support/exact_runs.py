"""What tests of the exact mode share."""

import numpy as np
from random_graphs import TINY, star_survives

import tensorplan as tp


def random_layered(seed, **options):
    rng = np.random.default_rng([seed, 500])
    A, d, H, S = (int(rng.integers(low, high + 1)) for low, high in ((2, 4), (2, 15), (5, 20), (50, 200)))
    return tp.make("layered", actions=A, d=d, horizon=H, states=S, seed=seed, **options)


def solved(task, episode, gap=1e-6):
    """The episode is optimal and its certificate is right."""
    value, certificate, slack = task.optimal_value(episode.start), episode.certificate, TINY * (1 + task.bound)
    if certificate.status == "doubtful":
        assert value == 0
        assert certificate.warnings[0] == "no reward other than zero was ever seen"
    elif certificate.status == "limit":  # digits run out where the ball just holds θ*, now and then
        assert task.bound <= (1 + TINY) * np.linalg.norm(task.theta)
    else:
        assert certificate.status == "certified"
    assert certificate.status == "limit" or certificate.gap <= gap * (1 + task.bound)
    assert certificate.lower - slack <= value <= certificate.upper + slack
    assert certificate.failure == 0
    assert episode.complete
    assert abs(value - episode.total_reward) <= slack
    if episode.trace is not None:
        star_survives(task, episode.trace, value)
