"""What was seen: the model that it makes, the policy that is best by it, and exploring episodes."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from helpers import local

import tensorplan as tp
from tensorplan.planners.evidence.challenge import Explorer, candidates, find_path, find_rival
from tensorplan.planners.evidence.evaluation import RANDOM, EpisodePlayer
from tensorplan.planners.evidence.experience import Experience
from tensorplan.planners.evidence.ledger import SHARES, Ledger
from tensorplan.planners.evidence.queries import Queries


def task(mdp):
    return tp.Problem(mdp, lambda state, stage: [1.0], bound=100.0)


class Chain:
    """Ten places in a row: action 1 goes on, 0 back to the first; the last place pays 1."""

    actions = 2
    deterministic_transitions = deterministic_rewards = True

    def __init__(self, horizon=12, length=10):
        self.horizon, self.length = horizon, length

    def start(self, rng):
        return 0

    def step(self, state, action, rng):
        if not action:
            return 0.0, 0
        return (1.0, tp.END) if state + 1 == self.length else (0.0, state + 1)


def asking(mdp, **options):
    access = local(task(mdp), **options)
    return Queries(access, None, 1.0, Experience(access, 1.0))


@pytest.mark.parametrize("horizon", [12, None])
def test_exploring_a_chain_finds_its_end_with_one_question_for_each_pair(horizon):
    """Random play would get there once in a thousand episodes."""
    queries = asking(Chain(horizon))
    Explorer(queries, 12, np.random.default_rng(0), 0.0).explore(1_000)
    assert queries.spent == 20
    path = find_path(queries, 12, np.random.default_rng(0), queries.spent, 0.0)
    assert [step.action for step in path] == [1] * 10
    assert path[-1].reward == 1.0


def test_the_end_of_time_is_not_the_end_of_a_state():
    """At the last stage every action ends the episode; elsewhere the same pair goes on."""
    queries = asking(Chain(horizon=3, length=2))
    access = queries.access
    node = access.root
    for _ in range(2):
        node = queries.step(node, 0)[1]
    assert queries.step(node, 0)[1] is tp.END
    (pairs,) = queries.experience.pairs.values()
    assert set(pairs) == {0, -2}
    assert queries.experience.greedy()(access.root) == 0
    assert queries.experience.curious(1.0)(access.root) == 1


def test_the_best_policy_by_all_that_was_seen_is_that_of_the_table():
    """With many samples of every pair, the model is the problem."""
    problem = tp.make("layered-stochastic/2x3:horizon=4:states=6")
    access = local(problem)
    experience, nodes = Experience(access, 1.0), [access.root]
    for node in nodes:
        for action in range(2):
            batch = access.sample(node, action, 4_000)
            experience.add(node, action, batch)
            nodes += [n for n in batch.successors if n is not tp.END and n not in nodes]
    choices = experience.greedy()
    table = [[choices(access._admit(s, h)) or 0 for s in problem.mdp.states(h)] for h in range(4)]
    value = tp.evaluate_tabular(problem, table).value(0, 0)
    assert value == pytest.approx(problem.optimal_value(0), abs=0.03)


def test_rewards_and_time_are_noticed():
    blind, timed = (tp.Problem(Chain(), lambda s, h, t=t: [0.5, t * h / 12], bound=100.0) for t in (0.0, 0.5))
    for problem, timeless in ((blind, True), (timed, False)):
        access = local(problem)
        queries = Queries(access, None, 1.0, Experience(access, 1.0))
        node = access.root
        queries.experience.meet(node)
        for _ in range(3):
            node = queries.step(node, 0)[1]
            queries.experience.meet(node)
        assert queries.experience.timeless == timeless
        assert not queries.experience.paid


def test_states_that_cannot_be_hashed_leave_no_trace():
    class Lists(Chain):
        def start(self, rng):
            return [0]

        def step(self, state, action, rng):
            reward, following = super().step(state[0], action, rng)
            return reward, following if following is tp.END else [following]

    queries = asking(Lists())
    Explorer(queries, 12, np.random.default_rng(0), 0.0).explore(100)
    assert queries.experience.size == 0
    assert queries.experience.greedy()(queries.access.root) is None


def test_rivals_are_random_play_the_model_and_a_tree():
    access = local(tp.make("layered-stochastic/2x3:horizon=4:states=6"))
    queries = Queries(access, None, 1.0, Experience(access, 1.0))
    player = EpisodePlayer(queries, 4, np.random.default_rng(0))
    assert candidates(player, queries.experience, 0) == [RANDOM]
    rival, visits = find_rival(player, 5_000, 4.0)
    assert {c.name for c in candidates(player, queries.experience, 100)} == {"random", "model", "uct"}
    assert queries.spent <= 5_000
    assert rival is not RANDOM
    assert len(visits.returns) >= 10


# ------------------------------------------------------------------------------------------- the ledger


def test_shares_add_up_to_at_most_the_whole_however_long_a_session_is():
    """The table of shares in :mod:`tensorplan.planners.evidence.ledger`, and in docs/certificate.md."""
    zeta, kinds = 0.05, {"rows": 1 / 8, "sum": 3 / 8, "policy": 1 / 2}
    ledger, total = Ledger(zeta), 0.0
    assert set(SHARES) == set(kinds)
    for kind, part in kinds.items():
        assert ledger.next(kind) == pytest.approx(part * zeta / 2)
        shares = [ledger.take(kind) for _ in range(10_000)]
        assert [number for number, _ in shares] == list(range(1, 10_001))
        assert all(share == ledger.share(kind, number) for number, share in shares)
        assert 0.999 * part * zeta < sum(share for _, share in shares) <= part * zeta
        total += sum(share for _, share in shares)
    assert 0.999 * zeta < total <= zeta


def test_the_documentation_has_the_same_table_of_shares():
    text = (Path(__file__).parents[3] / "docs" / "certificate.md").read_text(encoding="utf-8")
    lines = {"rows": "| rows of the i-th", "sum": "| sum over states", "policy": "| lower bound of the i-th"}
    total = Fraction(0)
    for kind, start in lines.items():
        (line,) = (line for line in text.splitlines() if line.startswith(start))
        each, together = (cell.strip() for cell in line.strip("| ").split("|")[-2:])
        part = Fraction(together.replace("ζ", "1") if together[0] == "ζ" else together.replace("ζ", ""))
        assert part == pytest.approx(SHARES[kind])
        assert each.split(" i (i+1)")[0].replace("(", "") == together.replace("(", "")
        total += part
    assert total == 1
