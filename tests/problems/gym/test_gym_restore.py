"""Environments that hide something: what is captured, what is refused, and whose random numbers are used."""

import copy
import itertools
import random

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import tensorplan as tp
from tensorplan.access import LocalAccess
from tensorplan.problems.gym.restore import Held, Nameless
from tensorplan.testing import check_problem


class Base(gymnasium.Env):
    """A counter that an action moves; subclasses keep it somewhere else."""

    observation_space = spaces.Box(-100, 100, (1,), np.float64)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.begin()
        return self.seen(), {}

    def begin(self):
        self.x = 0.0

    def move(self, action):
        self.x += 1 if action else -0.5

    def value(self):
        return self.x

    def seen(self):
        return np.array([self.value()])

    def step(self, action):
        self.move(action)
        return self.seen(), float(np.tanh(self.value())), abs(self.value()) > 6.2, False, {}


def opened(env, **options):
    return tp.from_gym(env, features="poly1", reward_range=(-1, 1), bound=10.0, **{"horizon": 8, **options})


def outcomes(problem, n=40):
    access = LocalAccess(problem, problem.mdp.start(np.random.default_rng(0)), np.random.default_rng(1), cache=False)
    return [float(problem.mdp.observation(o.next._state)[0]) for o in access.query(access.root, 1, n)]


# ------------------------------------------------------------------------------------ what is captured


class InList(Base):
    def begin(self):
        self.trail = [0.0]
        self.alias = self.trail  # one list with two names

    def move(self, action):
        self.alias.append(self.trail[-1] + (1 if action else -0.5))

    def value(self):
        return self.trail[-1]


class Part:
    def __init__(self, env):
        self.env, self.x, self.seen = env, 0.0, {"a": np.zeros(2)}


class InObject(Base):
    def begin(self):
        self.part = Part(self)  # which knows the environment

    def move(self, action):
        assert self.part.env is self
        self.part.seen["a"][0] += 1 if action else -0.5

    def value(self):
        return float(self.part.seen["a"][0])


class InCounter(Base):
    """In an object of a compiled type, which can be copied but not looked into."""

    def begin(self):
        self.count = itertools.count()

    def move(self, action):
        self.last = next(self.count) if action else 0

    def value(self):
        return getattr(self, "last", 0)

    def reset(self, **options):
        self.__dict__.pop("last", None)
        return super().reset(**options)


class GrowsAttributes(Base):
    """With attributes that come and go."""

    def move(self, action):
        super().move(action)
        if self.x > 1.5:
            self.high = self.x
        elif hasattr(self, "high"):
            del self.high

    def value(self):
        return self.x + (10.0 if hasattr(self, "high") else 0.0) * 0.1

    def begin(self):
        super().begin()
        self.__dict__.pop("high", None)


@pytest.mark.parametrize("kind", [Base, InList, InObject, InCounter, GrowsAttributes])
@pytest.mark.parametrize("way", ["attributes", "deepcopy"])
def test_state_is_captured_wherever_it_is(kind, way):
    problem = opened(kind, restore=way)
    assert problem.mdp.way.name == way
    assert problem.deterministic
    check_problem(problem, episodes=4)


def test_plain_data_make_states_comparable():
    for kind in (Base, InList, InObject):
        mdp = opened(kind).mdp
        one, two = mdp.start(np.random.default_rng(0)), mdp.start(np.random.default_rng(1))
        assert isinstance(one, Held)
        assert one == two
        assert hash(one) == hash(two)
        assert mdp.step(one, 0, None)[1] != mdp.step(two, 1, None)[1]
        assert mdp.step(one, 1, None)[1] == mdp.step(two, 1, None)[1]


def test_states_without_identity():
    problem = opened(InCounter)
    state = problem.mdp.start(np.random.default_rng(0))
    assert isinstance(state, Nameless)
    with pytest.raises(TypeError):
        hash(state)
    with pytest.raises(tp.NotRealizable) as refuted:  # which it is, by 0.46
        tp.run(problem, tp.TensorPlan(), budget=500)
    assert refuted.value.run.episodes[0].complete


# ------------------------------------------------------------------------------------ what is refused


class Outside:
    """Stands for what lives outside of Python: a copy of it is a new one."""

    __slots__ = ("x",)

    def __init__(self):
        self.x = 0.0

    def __deepcopy__(self, memo):
        return Outside()


class InOutside(Base):
    """As LunarLander and MuJoCo with EzPickle: its copy starts anew (gym #402, #1292, Gymnasium #779)."""

    def begin(self):
        self.world = Outside()

    def move(self, action):
        self.world.x += 1 if action else -0.5

    def value(self):
        return self.world.x


def test_a_copy_that_starts_anew_is_found_out():
    with pytest.raises(tp.BadInput, match=r"InOutside cannot be restored \(attributes: .* instead of .*deepcopy: .*"):
        opened(InOutside)


def test_the_user_can_say_how():
    problem = opened(
        InOutside,
        get_state=lambda env: env.unwrapped.world.x,
        set_state=lambda env, x: setattr(env.unwrapped.world, "x", x),
    )
    assert problem.mdp.way.name == "functions"
    assert problem.deterministic
    check_problem(problem, episodes=4)


def get(env):
    return env.unwrapped.x


def test_wrong_functions_are_found_out():
    with pytest.raises(tp.BadInput, match=r"cannot be restored \(functions: restored: step"):
        opened(Base, get_state=get, set_state=lambda env, x: setattr(env.unwrapped, "x", x + 0.1))
    with pytest.raises(tp.BadInput, match=r"cannot be restored \(functions: ZeroDivisionError"):
        opened(Base, get_state=lambda env: 1 / 0, set_state=lambda env, x: None)


def test_functions_that_round():
    noise = itertools.cycle([1e-13, -1e-13, 3e-13])

    def set_state(env, x):
        env.unwrapped.x = x + next(noise)

    options = {"get_state": get, "set_state": set_state}
    with pytest.warns(UserWarning, match="set_state restores Base up to rounding only"):
        problem = opened(Base, **options)
    assert not problem.deterministic
    assert isinstance(problem.mdp.start(np.random.default_rng(0)), Nameless)
    with (
        pytest.raises(tp.BadInput, match="Base is not deterministic: it is restored up to rounding only"),
        pytest.warns(UserWarning, match="up to rounding"),
    ):
        opened(Base, **options, deterministic=True)


class DisturbedByLooking(Base):
    def __deepcopy__(self, memo):
        self.x += 1
        made = copy.copy(self)
        return made


def test_capturing_must_not_disturb():
    with pytest.raises(tp.BadInput, match="capturing its state disturbs it"):
        opened(DisturbedByLooking, restore="deepcopy")


class Global(Base):
    def move(self, action):
        self.x += np.random.random()


class PythonGlobal(Base):
    def move(self, action):
        self.x += random.random()


class Elsewhere(Base):
    clock = itertools.count()

    def move(self, action):
        self.x += next(self.clock) % 7


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (Global, "draws from a global random generator"),
        (PythonGlobal, "draws from a global random generator"),
        (Elsewhere, "is not reproducible .*: its steps depend on something that is neither its state nor"),
    ],
)
def test_what_cannot_be_controlled(kind, sentence):
    with pytest.raises(tp.BadInput, match=f"{kind.__name__} {sentence}") as error:
        opened(kind)
    assert "\n" not in str(error.value)


def test_a_single_global_draw_is_noticed(monkeypatch):
    """NumPy's global generator changes its words after 624 draws only; before that it moves on in them."""
    monkeypatch.setattr("tensorplan.problems.gym.faithful.EPISODES", 1)
    monkeypatch.setattr("tensorplan.problems.gym.faithful.STEPS", 1)
    before = np.random.get_state()
    try:
        np.random.seed(0)
        np.random.random(10)
        with pytest.raises(tp.BadInput, match="draws from a global random generator"):
            opened(Global)
    finally:
        np.random.set_state(before)


# ------------------------------------------------------------------------------------ whose random numbers


class Own(Base):
    def move(self, action):
        self.x += self.np_random.normal()


class Second(Base):
    """A generator of its own, which Gymnasium does not know."""

    def __init__(self):
        self.dice = np.random.default_rng(3)

    def move(self, action):
        self.x += self.dice.normal()


class Old(Second):
    def __init__(self):
        self.dice = np.random.RandomState(3)


class Deep(Base):
    def __init__(self):
        self.part = Part(None)
        self.part.inner = Part(None)
        self.part.inner.dice = random.Random(3)

    def begin(self):
        self.x = 0.0

    def move(self, action):
        self.x += self.part.inner.dice.gauss(0, 1)


@pytest.mark.parametrize("kind", [Own, Second, Old, Deep])
@pytest.mark.parametrize("way", ["attributes", "deepcopy"])
def test_local_access_really_resamples(kind, way):
    problem = opened(kind, restore=way)
    assert not problem.deterministic
    found = outcomes(problem)
    assert len(set(found)) == len(found)
    assert abs(np.mean(found)) < 6 / np.sqrt(len(found))
    assert outcomes(problem) == found  # the seed decides


class Rarely(Base):
    """Draws only after twelve steps to the right, where random episodes do not come."""

    def move(self, action):
        super().move(action)
        if self.x >= 12:
            self.x += self.np_random.random()

    def step(self, action):
        observation, reward, *_ = super().step(action)
        return observation, reward, action == 0, False, {}


def test_a_rare_draw_is_an_error_not_a_silent_mistake():
    problem = opened(Rarely, seed=1)
    assert problem.deterministic
    state = problem.mdp.start(np.random.default_rng(0))
    for _ in range(11):
        _, state = problem.mdp.step(state, 1, np.random.default_rng(0))
    with pytest.raises(RuntimeError, match=r"draws a random number.*from_gym\(..., deterministic=False\)"):
        problem.mdp.step(state, 1, np.random.default_rng(0))
    assert not opened(Rarely, deterministic=False).deterministic
