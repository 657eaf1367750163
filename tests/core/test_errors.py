"""Messages are one sentence of at most 300 characters, whatever a simulator does."""

import copy
import pickle

import numpy as np
import pytest
from helpers import Walk, local, problem

import tensorplan as tp
from tensorplan.core import errors
from tensorplan.core.errors import raised, shown


class Mute:
    """Its repr raises."""

    def __repr__(self):
        raise RuntimeError("no words")


class Contrary:
    """Hashable, and its comparisons raise."""

    def __hash__(self):
        return 1

    def __eq__(self, other):
        raise RuntimeError("incomparable")


class Wordy(Exception):
    """Its str raises."""

    def __str__(self):
        raise RuntimeError("no words")


def sentence(error):
    text = str(error.value)
    assert len(text) <= 300
    assert "\n" not in text
    return text


def test_all_errors_have_one_root():
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    assert len(kinds) >= 9
    assert all(issubclass(kind, tp.TensorplanError) for kind in kinds)
    assert issubclass(tp.CertificateError, tp.TensorplanError)
    assert issubclass(tp.ProgramError, tp.TensorplanError)


@pytest.mark.parametrize("said", ["no parameter agrees", "long " * 200])
def test_every_refutation_ends_with_an_offer_whatever_its_length(said):
    error = tp.NotRealizable(said, [], None, None, None)
    assert str(error) == error.sentence + errors.OFFER
    assert "tp.Hindsight (--planner hindsight) plans with any features" in errors.OFFER
    assert len(error.sentence) <= 300
    again = tp.NotRealizable(f"{error.sentence} (once more)", [], None, None, None)
    assert str(again).count("tp.Hindsight") == 1


def test_quoting():
    assert shown("a" * 1000).startswith("'aaa")
    assert len(shown("a" * 1000)) == errors.QUOTED
    assert shown(Mute()) == "<Mute object whose repr raises>"
    assert raised(Wordy()) == "raised Wordy"
    assert raised(KeyError("x\ny")) == r"raised KeyError: 'x\ny'"
    assert raised(RuntimeError("caf\udce9 \n au lait")) == r"raised RuntimeError: caf\udce9 au lait"


@pytest.mark.parametrize(
    "step",
    [
        lambda s, a, rng: (_ for _ in ()).throw(RuntimeError("line\n" * 10_000)),
        lambda s, a, rng: (_ for _ in ()).throw(Wordy()),
        lambda s, a, rng: ("x" * 100_000, 1),
        lambda s, a, rng: Mute(),
        lambda s, a, rng: (Mute(), 1),
        lambda s, a, rng: (7.0, Mute()),
        lambda s, a, rng: (0.5, Mute(), 3),
    ],
)
@pytest.mark.parametrize("state", [0, Mute(), "s" * 100_000])
def test_a_simulator_can_do_what_it_likes(step, state):
    task = problem(Walk(step=step, start=lambda rng: state))
    access = local(task)
    with pytest.raises(tp.ProblemError) as error:
        access.query(access.root, 0)
    assert sentence(error).startswith("step(state=")
    with pytest.raises(tp.ProblemError) as error:
        tp.run(task, tp.RandomPlanner())
    assert "step(state=" in sentence(error)


def test_features_can_do_what_they_like():
    def phi(state, stage):
        raise RuntimeError("x" * 10_000)

    for state in (Mute(), "s" * 10_000):
        with pytest.raises(tp.ProblemError) as error:
            local(problem(Walk(start=lambda rng, state=state: state), phi))
        assert sentence(error).startswith("phi_v(state=")


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("planner", [tp.UCT(simulations=3), tp.SparseSampling(width=2)])
def test_states_whose_comparison_raises_are_named(planner, deterministic):
    mdp = Walk(step=lambda state, action, rng: (0.5, Contrary()), start=lambda rng: Contrary(), horizon=5)
    mdp.deterministic_transitions = mdp.deterministic_rewards = deterministic
    with pytest.raises(tp.ProblemError) as error:
        tp.run(problem(mdp), planner, seed=1)
    assert "comparing the state <test_errors.Contrary" in sentence(error)


def test_rounding_is_forgiven_and_put_right():
    for reward, kept in ((-1e-17, 0.0), (1 + 1e-15, 1.0), (np.float32(1.0), 1.0)):
        access = local(problem(Walk(step=lambda state, action, rng, reward=reward: (reward, state))))
        assert access.query(access.root, 0)[0].reward == kept
    access = local(problem(Walk(step=lambda state, action, rng: (-1e-9, state))))
    with pytest.raises(tp.ProblemError, match=r"gave the reward -1e-09, which is outside of the declared range"):
        access.query(access.root, 0)


def test_rounding_is_forgiven_in_batches():
    class Batches(Walk):
        def step_batch(self, state, action, n, rng):
            return np.full(n, -1e-17), [state], np.zeros(n, dtype=int)

    access = local(problem(Batches()))
    assert (access.sample(access.root, 0, 5).rewards == 0.0).all()


@pytest.mark.parametrize("clone", [copy.copy, copy.deepcopy, lambda a: pickle.loads(pickle.dumps(a))])
def test_an_access_object_cannot_be_copied(clone):
    access = local(problem())
    with pytest.raises(tp.BadInput, match="belongs to one episode: it cannot be copied or pickled"):
        clone(access)
    with pytest.raises(tp.TensorplanError):
        access.query(copy.copy(access.root), 0)
    with pytest.raises(tp.BadInput, match="cannot be copied or pickled"):
        copy.deepcopy(access.root)


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        ((np.zeros((3, 1)), [0], np.zeros(3, int)), r"rewards of shape \(3, 1\)"),
        ((np.zeros(3), [0], np.zeros(3)), "indices of the type float64"),
        ((np.zeros(3), [0], np.array([0, 1, 0])), "indices that are not among 0 .. 0, for 1 successors"),
        ((np.zeros(3), [0]), r"must return \(rewards, successors, which\)"),
        (None, r"must return \(rewards, successors, which\)"),
    ],
)
def test_batches_are_checked(answer, complaint):
    class Batches(Walk):
        def step_batch(self, state, action, n, rng):
            return answer

    access = local(problem(Batches()))
    with pytest.raises(tp.ProblemError, match=complaint):
        access.sample(access.root, 0, 3)
