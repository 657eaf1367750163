"""A diagnosis ends: states, seconds, Ctrl-C, and what is said of what was left out."""

import json
import math
import time

import numpy as np
import pytest
from lines import Line, Noisy, line

import tensorplan as tp
from tensorplan.diagnosis.clock import Clock
from tensorplan.diagnosis.diagnosis import Fitted, diagnose
from tensorplan.diagnosis.inputs import points_of
from tensorplan.diagnosis.refutation import RefutationAttempt
from tensorplan.features.misfit import Fitter

PAUSE = 0.01
"""Seconds of one slow step, or of one slow feature vector."""


SLACK = 4.0
"""Seconds by which a diagnosis may be late here: machines that run tests may be busy."""


@pytest.fixture(autouse=True, scope="module")
def loaded():
    """The optimiser is compiled when it is first used, which takes longer than these tests."""
    for mdp in (Line(), Noisy()):
        diagnose(line(mdp), states=1, budget=300)


class SlowLine(Line):
    horizon = 30

    def step(self, state, action, rng):
        time.sleep(PAUSE)
        return super().step(state, action, rng)


class SlowNoisy(Noisy):
    horizon = 30

    def step(self, state, action, rng):
        time.sleep(PAUSE)
        return super().step(state, action, rng)


def slow_features(state, stage):
    time.sleep(PAUSE)
    return np.array([1.0, math.cos(state[0])]) / 2


def timed(*arguments, **options):
    told = []
    began = time.perf_counter()
    diagnosis = diagnose(*arguments, progress=told.append, **options)
    return diagnosis, time.perf_counter() - began, told


@pytest.mark.parametrize("mdp", [SlowLine(), SlowNoisy()])
def test_a_slow_simulator(mdp):
    diagnosis, took, told = timed(line(mdp), seconds=1.0)
    assert took < 1.0 + SLACK  # of 2^30 states, or thousands of samples
    assert len(told) >= 2
    (part,) = diagnosis.parts
    assert isinstance(part, RefutationAttempt)
    assert 0 < part.queries < 200
    assert part.refuted or part.out_of_time
    assert not diagnosis.interrupted
    why = "could not be listed within 0.5 s" if mdp.deterministic_transitions else "not deterministic"
    assert why in diagnosis.notes[-1]
    assert diagnosis.notes[-1] in str(diagnosis)
    assert diagnosis.as_json()["notes"] == list(diagnosis.notes)


def test_slow_features_give_a_sample():
    task = tp.Problem(tp.make("grid/20x20").mdp, slow_features, bound=10.0, name="slow")
    diagnosis, took, told = timed(task, seconds=1.0)
    assert took < 1.0 + SLACK
    (part,) = diagnosis.parts
    assert isinstance(part, Fitted)
    assert not part.complete
    assert 0 < part.places < 200
    assert 0 <= part.eta.lower <= 20 < part.eta.upper == math.inf
    assert any("features of" in text for text in told)
    assert f"v* was fitted at {part.places:,} places only" in diagnosis.notes[0]


def test_more_states_than_may_be_listed():
    part = diagnose(tp.make("hanoi/5"), states=242)["v"]
    assert isinstance(part, Fitted)
    fewer = diagnose(tp.make("hanoi/5"), states=241)
    assert isinstance(fewer["v"], RefutationAttempt)
    assert "has more than 241 states" in str(fewer)


def test_every_state_is_new():
    class Counting(Line):
        """A hidden counter of steps, and no horizon."""

        horizon, reward_range = None, (-1.0, 0.0)

        def start(self, rng):
            return (0.25, 0)

        def step(self, state, action, rng):
            return -0.1, (0.7 * state[0], state[1] + 1)

    task = tp.Problem(Counting(), lambda s, h: np.array([1.0, s[0]]) / 2, bound=5.0, discount=0.9, name="counting")
    diagnosis, took, _ = timed(task, states=500, seconds=2.0)
    assert took < 2.0 + SLACK
    assert "has more than 500 states" in diagnosis.notes[-1]


def test_values_that_do_not_converge_in_time():
    """A chain of 20,000 states takes as many sweeps of value iteration."""

    class Chain(Line):
        horizon, actions, reward_range = None, 1, (-1.0, 0.0)

        def start(self, rng):
            return 20_000

        def step(self, state, action, rng):
            return -1.0, state - 1 if state > 1 else tp.END

    task = tp.Problem(Chain(), lambda s, h: np.array([s / 20_000]), bound=20_000.0, name="chain")
    diagnosis, took, _ = timed(task, seconds=1.0, budget=50)
    assert took < 1.0 + SLACK
    assert "did not converge in time" in diagnosis.notes[-1]


# ------------------------------------------------------------------------------------------------------------ fits


def test_a_fit_that_is_stopped_has_valid_bounds():
    rng = np.random.default_rng(0)
    phi, x = rng.standard_normal((400, 12)) / 10, rng.standard_normal(400)
    truth = Fitter(phi, x)
    for rounds in range(6):
        left = [rounds]

        def stop(left=left):
            left[0] -= 1
            return left[0] < 0

        some = Fitter(phi, x, stop)
        best, within, shortest = some.best(100.0), some.within(0.5), some.shortest(3.0)
        assert some.stopped
        assert best.lower <= truth.best(100.0).upper <= best.upper + 1e-12
        assert within.lower <= truth.within(0.5).upper <= within.upper + 1e-9
        assert shortest.lower <= truth.shortest(max(3.0, shortest.residual)).upper + 1e-9


def test_the_decomposition_of_many_rows_goes_block_by_block(monkeypatch):
    rng = np.random.default_rng(0)
    phi, x = rng.standard_normal((500, 4)) / 4, rng.standard_normal(500)
    whole, asked = Fitter(phi, x), []
    monkeypatch.setattr("tensorplan.features.misfit.BLOCK", 16 * 50)
    blocks = Fitter(phi, x, lambda: asked.append(1))
    assert len(asked) == 9
    assert np.allclose(np.abs(blocks.triangle), np.abs(whole.triangle))
    assert blocks.best().upper == pytest.approx(whole.best().upper, abs=1e-9)


def test_many_features_are_fitted_at_as_many_places_as_there_is_time_for(monkeypatch):
    monkeypatch.setattr("tensorplan.diagnosis.diagnosis.PACE", 20.0)
    task = tp.Problem(
        tp.make("grid/20x20").mdp, lambda s, h: np.array([1.0, s[0] / 20, s[1] / 20]) / 2, bound=100.0, name="grid"
    )
    part = diagnose(task, seconds=30.0)["v"]
    assert (part.complete, part.places) == (False, 66)  # 30 seconds, 20 / 3^2 rows in each
    assert diagnose(task, seconds=math.inf)["v"].complete


# ---------------------------------------------------------------------------------------------------------- Ctrl-C


def interrupts(at):
    """A function that Ctrl-C hits at the given call."""
    calls = [0]

    def call():
        calls[0] += 1
        if calls[0] == at:
            raise KeyboardInterrupt

    return call


def test_ctrl_c_while_states_are_listed():
    hit = interrupts(40)

    class Interrupted(Line):
        def step(self, state, action, rng):
            hit()
            return super().step(state, action, rng)

    diagnosis = diagnose(line(Interrupted()))
    assert (diagnosis.parts, diagnosis.interrupted) == ((), True)
    assert diagnosis.notes == ("interrupted while listing states",)
    assert diagnosis.as_json()["interrupted"] is True


def test_ctrl_c_while_features_are_computed_leaves_those_that_are():
    hit = interrupts(100)

    def phi(state, stage):
        hit()
        return np.array([1.0, math.cos(state[0])]) / 2

    diagnosis = diagnose(tp.Problem(tp.make("grid/20x20").mdp, phi, bound=10.0, name="grid"))
    part = diagnosis["v"]
    assert diagnosis.interrupted
    assert not part.complete
    assert 50 < part.places < 100  # a few more told how long features take
    assert f"fitted at {part.places} places only" in str(diagnosis)


def test_ctrl_c_in_a_fit_leaves_its_bounds(monkeypatch):
    task = tp.Problem(
        tp.make("grid/20x20").mdp, lambda s, h: np.cos(np.arange(8.0) * (s[0] + 20 * s[1])) / 4, bound=10.0, name="grid"
    )
    truth, real, hit = diagnose(task)["v"], Fitter._violated, interrupts(2)
    monkeypatch.setattr(Fitter, "_violated", lambda *arguments: (hit(), real(*arguments))[1])
    diagnosis = diagnose(task)
    part = diagnosis["v"]
    assert diagnosis.interrupted
    assert part.stopped
    assert 0 < part.eta.lower <= truth.eta.upper <= part.eta.upper
    assert "Ctrl-C stopped the fit" in str(diagnosis)


def test_ctrl_c_in_a_trial():
    hit = interrupts(300)

    class Interrupted(Noisy):
        def step(self, state, action, rng):
            hit()
            return super().step(state, action, rng)

    diagnosis = diagnose(line(Interrupted()))
    assert diagnosis.interrupted
    assert diagnosis["v"].interrupted
    assert not diagnosis["v"].out_of_time


# ------------------------------------------------------------------------------------------------- clocks, commands


def test_clocks():
    told = []
    clock = Clock(0.05, told.append)
    part = clock.part(0.5)
    assert part.seconds <= 0.025
    assert not clock.stops(lambda: "a")
    assert not clock.stops(lambda: "b")
    assert told == ["a"]
    part.interrupt()
    assert clock.out
    assert clock.interrupted
    assert Clock().left == math.inf


def test_the_search_for_coordinates_is_limited():
    with pytest.raises(tp.BadInput, match="coordinates are not known: problem 'grid/9x9' has more than 10 states"):
        points_of(tp.make("grid/9x9"), states=10)
    with pytest.raises(tp.BadInput, match="could not be listed within 0 s"):
        points_of(tp.make("grid/8x9"), clock=Clock(0.0))


@pytest.mark.parametrize("name", ["hanoi/3", "layered/2x3", "layered-stochastic/2x3", "hard/2x3", "queue-admission/5"])
def test_no_time_at_all(name):
    """Nothing is claimed that is not so, and it is said why."""
    diagnosis = diagnose(name, seconds=0.0)
    assert diagnosis.notes
    for part in diagnosis.parts:
        assert isinstance(part, RefutationAttempt)
        assert (part.refuted, part.queries, part.out_of_time) == (False, 0, True)


@pytest.mark.parametrize(
    ("options", "word"),
    [({"states": 0}, "states"), ({"seconds": -1}, "seconds"), ({"progress": True}, "progress")],
)
def test_bad_limits(options, word):
    with pytest.raises(tp.BadInput, match=f"{word} must be"):
        diagnose("hanoi/3", **options)


def test_the_command(cli):
    code, out, _ = cli("diagnose", "hanoi/6", "--states", "100", "--seconds", "30", "--json")
    data = json.loads(out)
    assert code == 0
    assert data["parts"][0]["method"] == "trial"
    assert data["notes"] == [
        "not all states were fitted: problem 'hanoi/6' has more than 100 states that can be reached"
    ]
    code, out, _ = cli("diagnose", "hanoi/6", "--states", "100")
    assert "more than 100 states" in " ".join(out.split())
    code, _, err = cli("diagnose", "grid/9x9", "--states", "10", "--features", "poly1")
    assert (code, "more than 10 states" in err) == (2, True)
