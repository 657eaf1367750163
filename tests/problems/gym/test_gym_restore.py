"""Environments that hide something: what is captured, what is refused, and whose random numbers are used."""

import copy
import itertools
import pickle
import random
import struct

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import tensorplan as tp
from tensorplan.access import LocalAccess
from tensorplan.problems.gym.restoring.ways import Held
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


def get(env):
    return env.unwrapped.x


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


def test_what_python_cannot_look_into_is_content_too():
    mdp = opened(InCounter).mdp
    one, two = mdp.start(np.random.default_rng(0)), mdp.start(np.random.default_rng(1))
    assert one == two
    assert mdp.step(one, 1, None)[1] != one


def test_states_without_known_content_are_told_apart_by_their_past():
    mdp = opened(Base, restore="deepcopy").mdp
    start = mdp.start(np.random.default_rng(0))
    states = [mdp.step(start, action, None)[1] for action in (0, 1, 1)]
    assert len({start, *states}) == 3
    assert states[1] == states[2]
    assert tp.run(opened(InList, restore="deepcopy"), "uct:simulations=5", budget=100).episodes


@pytest.mark.parametrize("kind", [Base, InList, InObject, InCounter, GrowsAttributes])
def test_states_travel(kind):
    """To another process, and back to another environment of the same kind."""
    here, there = opened(kind).mdp, opened(kind).mdp
    state = here.start(np.random.default_rng(0))
    for action in (1, 0, 1):
        _, state = here.step(state, action, None)
    sent = pickle.loads(pickle.dumps(state))
    assert sent == state
    assert there.step(sent, 1, None) == here.step(state, 1, None)


# ------------------------------------------------------------------------------------ what lives outside of Python


class Outside(bytearray):
    """Stands for what lives outside of Python: it cannot be saved, and a copy of it is a new one."""

    def __init__(self):
        super().__init__(8)

    @property
    def x(self):
        return struct.unpack("d", self)[0]

    @x.setter
    def x(self, x):
        self[:] = struct.pack("d", x)

    def __deepcopy__(self, memo):
        return Outside()

    def __reduce_ex__(self, protocol):
        raise TypeError("a handle cannot be pickled")


class InOutside(Base):
    """As LunarLander and MuJoCo with EzPickle: its copy starts anew (gym #402, #1292, Gymnasium #779)."""

    def begin(self):
        self.world = Outside()

    def move(self, action):
        self.world.x += 1 if action else -0.5

    def value(self):
        return self.world.x


def test_a_copy_that_starts_anew_is_found_out():
    with pytest.raises(tp.BadInput, match=r"InOutside cannot be restored \(deepcopy: step .*: observation was array"):
        opened(InOutside, restore="deepcopy")
    with pytest.raises(tp.BadInput, match=r"attributes: .*Outside cannot be saved \(TypeError: a handle cannot"):
        opened(InOutside, restore="attributes")


class NoisyOutside(InOutside):
    def move(self, action):
        self.world.x += (1 if action else -0.5) * self.np_random.random()


@pytest.mark.parametrize("kind", [InOutside, NoisyOutside])
def test_the_last_resort_takes_the_actions_again(kind):
    with pytest.warns(UserWarning, match="restored by taking its actions again .*a state t steps after it takes t"):
        problem = opened(kind)
    mdp = problem.mdp
    assert mdp.way.name == "replay"
    assert problem.deterministic == (kind is InOutside)
    check_problem(problem, episodes=4)
    rng = np.random.default_rng(0)
    states = [mdp.start(rng)]
    for _ in range(5):
        states.append(mdp.step(states[-1], 1, rng)[1])
    before = mdp.way.replayed
    assert mdp.step(states[5], 1, rng)[1] != states[0]
    assert mdp.way.replayed == before  # it was there
    mdp.step(states[3], 1, rng)
    assert mdp.way.replayed == before + 4  # a reset and three steps
    again = pickle.loads(pickle.dumps(states[4]))
    one, two = (mdp.step(state, 0, np.random.default_rng(1)) for state in (again, states[4]))
    assert one[0] == two[0]
    np.testing.assert_array_equal(mdp.observation(one[1]), mdp.observation(two[1]))


def test_the_way_to_save_a_part_can_be_registered():
    class Handle(Outside):
        pass

    class InHandle(InOutside):
        def begin(self):
            self.world, self.steps = Handle(), [0]

    tp.register_restore(Handle, lambda handle: handle.x, lambda handle, x: setattr(handle, "x", x))
    problem = opened(gymnasium.wrappers.TransformReward(InHandle(), lambda reward: reward / 2))
    assert problem.mdp.way.name == "attributes"
    assert problem.deterministic
    check_problem(problem, episodes=4)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [((3, get, get), "needs a class or its name, got 3"), ((Outside, 3, get), "get_state must be a function, got 3")],
)
def test_what_cannot_be_registered(given, sentence):
    with pytest.raises(tp.BadInput, match=sentence):
        tp.register_restore(*given)


def test_the_user_can_say_how():
    problem = opened(
        InOutside,
        get_state=lambda env: env.unwrapped.world.x,
        set_state=lambda env, x: setattr(env.unwrapped.world, "x", x),
    )
    assert problem.mdp.way.name == "functions"
    assert problem.deterministic
    check_problem(problem, episodes=4)


def test_wrong_functions_are_found_out():
    with pytest.raises(tp.BadInput, match=r"cannot be restored \(functions: step"):
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
    assert hash(problem.mdp.start(np.random.default_rng(0))) is not None
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
        (Elsewhere, "is not reproducible .*: its steps depend on something that is neither in its attributes nor"),
    ],
)
def test_what_cannot_be_controlled(kind, sentence):
    with pytest.raises(tp.BadInput, match=f"{kind.__name__} {sentence}") as error:
        opened(kind)
    assert "\n" not in str(error.value)


def test_a_single_global_draw_is_noticed():
    """NumPy's global generator changes its words after 624 draws only; before that it moves on in them."""
    before = np.random.get_state()
    try:
        np.random.seed(0)
        np.random.random(10)
        with pytest.raises(tp.BadInput, match="draws from a global random generator"):
            opened(Global, verify=1)
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


# ------------------------------------------------------------------------------------ counters and leftovers


class Counting(Base):
    """A hidden counter of steps, on which nothing depends for a while."""

    def begin(self):
        super().begin()
        self.count = 0

    def step(self, action):
        self.count += 1
        observation, reward, ended, *rest = super().step(action)
        return observation, reward, ended or self.count > 15, *rest


def test_a_counter_of_steps_is_found_and_can_be_ignored():
    with pytest.warns(UserWarning, match=r"states of Counting differ by count, .*ignore=\['count'\]"):
        new = opened(Counting)
    assert new.mdp.restoring.counters == ("count",)
    problem = opened(Counting, ignore=["count"], horizon=None)
    mdp = problem.mdp
    start = mdp.start(np.random.default_rng(0))
    states = [start]
    for action in (1, 0, 0) * 7:  # more steps than the counter allows
        states.append(mdp.step(states[-1], action, None)[1])
    assert states[3] == states[-1] == start
    check_problem(opened(Counting, ignore="count"), episodes=4)


@pytest.mark.parametrize("ignore", [5, [5], [None]])
def test_what_is_to_be_ignored_is_named(ignore):
    with pytest.raises(tp.BadInput, match="ignore must be names of attributes, got"):
        opened(Counting, ignore=ignore)


def test_what_is_to_be_ignored_must_exist():
    with pytest.raises(tp.BadInput, match=r"ignore: .* has no attribute 'cuont'; did you mean 'count'\?"):
        opened(Counting, ignore=["cuont"])


class Timed(Counting):
    """A timer that matters is not offered to be ignored."""

    def value(self):
        return self.x + self.count % 4


def test_a_counter_that_matters_is_not_offered(recwarn):
    assert opened(Timed).mdp.restoring.counters == ()
    assert not [each for each in recwarn if "counting steps" in str(each.message)]


class Fuse(Base):
    """A timer that counts down: what happens at its end was not seen yet."""

    def begin(self):
        super().begin()
        self.left = 30

    def step(self, action):
        self.left -= 1
        observation, reward, ended, *rest = super().step(action)
        return observation, reward, ended or self.left == 0, *rest


def test_a_timer_is_not_offered(recwarn):
    assert opened(Fuse).mdp.restoring.counters == ()
    assert not [each for each in recwarn if "counting steps" in str(each.message)]


class LeftOver(Base):
    """The last action of an episode is the first of the next, as with MinAtar's sticky actions."""

    last = 0

    def move(self, action):
        super().move(self.last)
        self.last = action


def test_nothing_of_an_episode_is_left_over():
    mdp = opened(LeftOver).mdp
    start = mdp.start(np.random.default_rng(0))
    mdp.step(start, 1, None)
    assert mdp.start(np.random.default_rng(0)) == start


@pytest.mark.filterwarnings("ignore:.*is restored by taking its actions again")
def test_nothing_of_an_episode_is_left_over_in_wrappers():
    """NormalizeObservation goes on counting from episode to episode."""
    mdp = opened(lambda: gymnasium.wrappers.NormalizeObservation(InOutside()), outside="clip").mdp
    seen = [mdp.observation(mdp.start(np.random.default_rng(0))) for _ in range(2)]
    np.testing.assert_array_equal(*seen)


# ------------------------------------------------------------------------------------ the effort of a verification


def test_a_slow_environment_is_verified_in_the_time_there_is(monkeypatch):
    clock = itertools.count()

    class Slow(Base):
        def step(self, action):
            next(clock)
            return super().step(action)

    now = itertools.count()
    monkeypatch.setattr("tensorplan.problems.gym.restoring.faithful.perf_counter", lambda: next(now) * 0.2)
    problem = opened(Slow)
    assert problem.unmetered == next(clock) < 60
    assert problem.mdp.way.name == "attributes"


@pytest.mark.parametrize("verify", [0, -1, "yes", 2.5])
def test_efforts_that_are_none(verify):
    with pytest.raises(tp.BadInput, match="verify must be True, False, or a number of steps, got"):
        opened(Base, verify=verify)


# ------------------------------------------------------------------------------------ what steps return


class FourThings(Base):
    def step(self, action):
        return super().step(action)[:4]


class Returning(Base):
    reward = None

    def step(self, action):
        observation, _, *rest = super().step(action)
        return observation, self.reward, *rest


class ArrayReward(Returning):
    reward = np.zeros(2)


class TextReward(Returning):
    reward = "much"


class NoTuple(Base):
    def step(self, action):
        return None


class NoInfo(Base):
    def reset(self, **options):
        return super().reset(**options)[0]


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (FourThings, r"step\(\) returned 4 values, as in Gym before 0.26, expected \(observation, reward, terminated"),
        (Returning, r"step\(\) returned the reward None, expected a number"),
        (ArrayReward, r"step\(\) returned a reward of shape \(2,\), expected a number"),
        (TextReward, r"step\(\) returned the reward 'much', expected a number"),
        (NoTuple, r"step\(\) returned None, expected \(observation, reward, terminated"),
        (NoInfo, r"reset\(\) returned array\(\[0.\]\), expected \(observation, info\)"),
    ],
)
def test_what_steps_must_return(kind, sentence):
    with pytest.raises(tp.ProblemError, match=sentence) as error:
        opened(kind)
    assert "\n" not in str(error.value)


class Raising(Base):
    def step(self, action):
        raise KeyError("no such\nvalve")


class NoStart(Base):
    def reset(self, **options):
        raise RuntimeError("no ROM")


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (Raising, r"random play of Raising raised KeyError: 'no such\\nvalve'"),
        (NoStart, r"random play of NoStart raised RuntimeError: no ROM"),
    ],
)
def test_an_environment_that_raises(kind, sentence):
    with pytest.raises(tp.ProblemError, match=sentence) as error:
        opened(kind)
    assert isinstance(error.value.__cause__, KeyError | RuntimeError)


class Late(Base):
    """Goes wrong after ten steps, which random episodes do not reach."""

    def step(self, action):
        observation, reward, _, truncated, info = super().step(action)
        return observation, None if self.x >= 10 else reward, action == 0, truncated, info


def test_a_late_mistake_is_one_sentence_too():
    problem = opened(Late, horizon=20, seed=1)
    access = LocalAccess(problem, problem.mdp.start(np.random.default_rng(0)), np.random.default_rng(0))
    with pytest.raises(tp.ProblemError, match=r"step\(.*\) at stage 9 .*the reward None, expected a number"):
        access.follow(access.root, [1] * 12)
