"""The content of objects as bytes: equal iff the objects are, and the objects can be made from it again."""

import enum
import itertools
import math
import pickle
import random
import threading
from collections import OrderedDict, defaultdict, deque
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorplan.core.errors import BadInput
from tensorplan.problems.gym.restoring.adapters import register_restore
from tensorplan.problems.gym.restoring.content import Content, Unsaved


class Layer(gymnasium.Env):
    """An environment is its attributes here."""


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Node:
    def __init__(self, value, following=None):
        self.value, self.following = value, following

    def jump(self):
        return self.value


class Slotted:
    __slots__ = ("x", "y")

    def __init__(self, x):
        self.x = x


def content():
    made = Content(lambda layer, name: name == "skipped")
    made.generators.use(np.random.default_rng(0))
    return made


def copied(**attributes):
    """The attributes of an environment after a way through bytes; writing them again gives the same bytes."""
    tool, env, other = content(), Layer(), Layer()
    vars(env).update(attributes)
    written = tool.write([env])
    vars(other).update(superfluous=1)
    tool.read(written, [other])
    assert tool.write([other]) == written
    return SimpleNamespace(**vars(other))


atoms = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
data = st.recursive(
    atoms,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=3), inner, max_size=4)
        | st.builds(Node, inner, inner)
    ),
    max_leaves=12,
)


def same(one, two):
    if type(one) is not type(two):
        return False
    if isinstance(one, Node):
        return same(vars(one), vars(two))
    if isinstance(one, list | tuple):
        return len(one) == len(two) and all(map(same, one, two))
    if isinstance(one, dict):
        return list(one) == list(two) and all(same(x, two[key]) for key, x in one.items())
    return one == two and (not isinstance(one, float) or math.copysign(1, one) == math.copysign(1, two))


@given(data)
def test_plain_data_and_objects_come_back(x):
    assert same(copied(x=x).x, x)


@given(data, data)
def test_bytes_are_equal_iff_the_data_are(one, two):
    tool = content()
    assert (tool.write_value(one) == tool.write_value(two)) == same(one, two)
    assert tool.write_value(one) == tool.write_value(pickle.loads(pickle.dumps(one)))


@pytest.mark.parametrize(
    "x",
    [
        np.arange(6, dtype=np.int8).reshape(2, 3),
        np.arange(12.0).reshape(3, 4).T,
        np.array(["a", "bc"]),
        np.zeros((0, 3), dtype=bool),
    ],
    ids=repr,
)
def test_arrays(x):
    found = copied(x=x).x
    np.testing.assert_array_equal(found, x)
    assert found.dtype == x.dtype
    assert found.flags.writeable


@pytest.mark.parametrize(
    "x",
    [
        *(np.float64(0.1), np.int32(-3), np.bool_(True), Color.BLUE, {3, 1, 2}, frozenset({("a", 1)}), range(3)),
        *(deque([1, 2], maxlen=2), OrderedDict(b=1, a=2), defaultdict(list, a=[1]), bytearray(b"abc"), 3 + 4j),
    ],
    ids=repr,
)
def test_other_types(x):
    found = copied(x=x).x
    assert found == x
    assert type(found) is type(x)
    assert getattr(found, "maxlen", None) == getattr(x, "maxlen", None)


def test_one_object_under_two_names_stays_one():
    shared, ring = [1], Node(1)
    ring.following = Node(2, ring)
    found = copied(a=shared, b={"c": shared}, ring=ring)
    assert found.a is found.b["c"]
    assert found.ring.following.following is found.ring
    apart = content()
    assert apart.write_value([[1], [1]]) != apart.write_value([shared, shared])


def test_what_refers_to_the_environment_refers_to_the_one_that_is_restored():
    tool, env, other = content(), Layer(), Layer()
    env.part = Node(3, env)
    env.jump = env.part.jump
    tool.read(tool.write([env]), [other])
    assert other.part.following is other
    assert other.jump() == 3


def test_slots_generators_functions_and_locks():
    slotted, lock = Slotted(1), threading.Lock()
    found = copied(s=slotted, f=math.sin, lock=lock, dice=Node(random.Random(3)), old=Node(np.random.RandomState(1)))
    assert (found.s.x, hasattr(found.s, "y")) == (1, False)
    assert found.f is math.sin
    assert found.lock is lock
    assert 0 <= found.dice.value.random() < 1
    assert found.old.value.randint(5) in range(5)
    assert not hasattr(found, "superfluous")


def test_random_state_is_not_content():
    tool, one, two = content(), Layer(), Layer()
    one.part, two.part = Node(np.random.default_rng(1)), Node(np.random.default_rng(2))
    assert tool.write([one]) == tool.write([two])


def test_what_cannot_be_saved_is_named():
    env = Layer()
    env.fine, env.bad = 1, [Node(x for x in range(3))]
    with pytest.raises(Unsaved, match=r"in its attribute 'bad' a .*generator cannot be saved \(TypeError: "):
        content().write([env])


def test_counters_of_compiled_types():
    count = itertools.count(5)
    next(count)
    assert next(copied(x=count).x) == 6


def test_sets_of_objects_that_are_referred_to():
    nodes = [Node(i) for i in range(20)]
    found = copied_once(chosen=set(nodes[::2]), nodes=nodes)
    assert {node.value for node in found.chosen} == set(range(0, 20, 2))
    assert all(node in found.nodes for node in found.chosen)


def copied_once(**attributes):
    tool, env, other = content(), Layer(), Layer()
    vars(env).update(attributes)
    tool.read(tool.write([env]), [other])
    return other


class Handle(bytearray):
    def __reduce_ex__(self, protocol):
        raise TypeError


class OtherHandle(Handle):
    pass


def test_parts_are_told_apart_by_class_and_order():
    for kind in (Handle, OtherHandle):
        register_restore(kind, bytes, lambda part, data: part.__setitem__(slice(None), data))
    tool, env = content(), Layer()
    env.a, env.b, env.c = Handle(b"1"), OtherHandle(b"2"), Handle(b"3")
    written = tool.write([env])
    first = env.a, env.b, env.c
    env.a, env.b, env.c = OtherHandle(b"7"), Handle(b"8"), Handle(b"9")  # in another order
    tool.write([env])
    tool.read(written, [env])
    assert (bytes(env.a), bytes(env.b), bytes(env.c)) == (b"1", b"2", b"3")
    assert [type(x) for x in (env.a, env.b, env.c)] == [type(x) for x in first]
    with pytest.raises(BadInput, match="more parts of the class Handle than this environment ever had"):
        content().read(written, [env])
