"""The content of an environment's Python objects as bytes, and the objects made from it again.

Bytes are equal iff the contents are: types, values, and which parts are one and the same object.  So they are the
identity of a state, what it is restored from, and what is sent to another process.  Plain data are written by
``marshal``, which is several times faster than ``pickle`` and writes equal data equally; an object is written as its
attributes, and an array as its bytes.

Not everything is content.  The layers of an environment are written as their numbers, since they stay; a random
generator as its kind, since each query brings its own; functions, classes, spaces and windows are kept as they are;
and what lives outside of Python is saved and loaded by an adapter (:mod:`tensorplan.problems.gym.restoring.adapters`).
"""

from __future__ import annotations

import enum
import marshal
import pickle
import sys
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from hashlib import blake2b
from importlib import import_module
from operator import attrgetter
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple
from uuid import uuid4

import gymnasium
import numpy as np

from tensorplan.core.errors import BadInput
from tensorplan.problems.gym.restoring.adapters import Adapter, adapter_of, full_name
from tensorplan.problems.gym.restoring.randomness import GENERATORS, Generators, kind_of

FORMAT = 2
"""Of marshal: the last one without references between objects, which depend on more than the data."""

ATOMS = frozenset({type(None), bool, int, float, complex, bytes})
"""Exact types that are written as they are.  Strings are interned first: marshal writes interned ones differently."""

KEPT = (type, FunctionType, BuiltinFunctionType, ModuleType, gymnasium.Space, np.dtype, np.ufunc)
"""Types of values that are kept as they are."""

KEPT_MODULES = frozenset(
    {"pygame", "logging", "threading", "_thread", "_io", "matplotlib", "weakref", "OpenGL", "glfw", "mujoco"}
)
"""Modules of windows, locks, files and models, which are kept as they are: steps do not change them."""

HEAP_TYPE = 1 << 9
"""Py_TPFLAGS_HEAPTYPE: a class that was made by Python code."""

PROCESS = uuid4().hex
"""Marks what is kept as it is, which means nothing in another process."""


_SLOTS: dict[type, tuple[str, ...]] = {}
"""By class, as far as they were looked up."""


class Unsaved(Exception):
    """Something cannot be written; the message says what."""


class Shape(NamedTuple):
    """A class, and the names of the attributes that an object of it has."""

    module: str
    name: str
    attributes: tuple[str, ...]

    @property
    def number(self) -> int:
        """Stands for the shape in contents, in every process."""
        return int.from_bytes(blake2b(repr(tuple(self)).encode(), digest_size=7).digest())

    @property
    def kind(self) -> Any:
        """The class."""
        return attrgetter(self.name)(import_module(self.module))


SHAPES: dict[int, Shape] = {}
"""Shapes by their numbers; sent along with contents to other processes."""


class Mark:
    """What a tuple in a content stands for: its first entry."""

    LIST, TUPLE, DICT, SET, FROZENSET, DEQUE, ARRAY, SCALAR = range(8)
    OBJECT, ENUM, SAME, LAYER, GENERATOR, PART, METHOD, KEPT, PICKLED = range(8, 17)


class Content:
    """Writes and reads the states of environments of one kind; ``skipped(layer, attribute)`` are no part of them."""

    def __init__(self, skipped: Callable[[Any, str], bool]) -> None:
        self.generators = Generators()
        """What generators are read as."""
        self._skipped = skipped
        self._layers: Sequence[Any] = ()
        self._names: dict[type, tuple[Any, tuple[str, ...], int]] = {}
        """Of a class of layers: the attributes when they were last looked at, those that are content, their shape."""
        self._shapes: dict[tuple[type, tuple[str, ...]], int] = {}
        self._kinds: dict[int, Any] = {}
        self._parts: dict[Any, list[Any]] = {}
        """The parts that adapters save, by class, in the order in which they are met."""
        self._kept: dict[Any, int] = {}
        self._kept_things: list[Any] = []
        self._memo: dict[int, tuple[int, int]] = {}
        """How to write again what was written before, by its id."""
        self._states: list[Any] = []
        """What adapters returned, kept while it is written: ids are those of living objects."""
        self._written = 0
        """Objects so far that can be referred to."""
        self._met: dict[Any, int] = {}
        """Parts so far, by class."""
        self._made: list[Any] = []
        """The objects that can be referred to, as they are read."""
        self._writers: dict[type, Callable[[Any], Any]] = {
            str: sys.intern,
            list: self._write_list,
            tuple: self._write_tuple,
            dict: self._write_dict,
            OrderedDict: self._write_dict,
            defaultdict: self._write_dict,
            set: self._write_set,
            frozenset: self._write_frozenset,
            deque: self._write_deque,
            np.ndarray: self._write_array,
            MethodType: self._write_method,
        }
        self._readers: dict[int, Callable[..., Any]] = {
            Mark.LIST: self._read_list,
            Mark.TUPLE: self._read_tuple,
            Mark.DICT: self._read_dict,
            Mark.SET: self._read_set,
            Mark.FROZENSET: self._read_frozenset,
            Mark.DEQUE: self._read_deque,
            Mark.ARRAY: self._read_array,
            Mark.SCALAR: self._read_scalar,
            Mark.OBJECT: self._read_object,
            Mark.ENUM: self._read_enum,
            Mark.SAME: self._read_same,
            Mark.LAYER: self._read_layer,
            Mark.GENERATOR: self.generators.like,
            Mark.PART: self._read_part,
            Mark.METHOD: self._read_method,
            Mark.KEPT: self._read_kept,
            Mark.PICKLED: self._read_pickled,
        }

    # ----------------------------------------------------------------- writing

    def write(self, layers: Sequence[Any], outer: int | None = None) -> bytes:
        """The content of the layers of an environment, or of the outer ones only."""
        self._begin({id(layer): (Mark.LAYER, depth) for depth, layer in enumerate(layers)})
        try:
            return marshal.dumps([self._layer(layer) for layer in layers[:outer]], FORMAT)
        except Unsaved as reason:
            raise Unsaved(f"{self._culprit(layers)}{reason}") from None

    def _culprit(self, layers: Sequence[Any]) -> str:
        """The attribute that cannot be written."""
        for layer in layers:
            for name in self._named(layer, layer.__dict__)[0]:
                self._begin({id(each): (Mark.LAYER, depth) for depth, each in enumerate(layers)})
                try:
                    self._write(layer.__dict__[name])
                except Unsaved:
                    return f"in its attribute {name!r} "
        return ""

    def write_value(self, x: Any) -> bytes:
        """The content of anything else."""
        self._begin({})
        return marshal.dumps(self._write(x), FORMAT)

    def _begin(self, memo: dict[int, tuple[int, int]]) -> None:
        self._memo, self._states, self._written, self._met = memo, [], 0, {}

    def _adapted(self, x: Any, adapter: Adapter) -> Any:
        state = adapter.get_state(x)
        self._states.append(state)
        return self._write(state)

    def _layer(self, layer: Any) -> tuple[Any, ...]:
        """What a layer is: what its adapter says, or a shape and its attributes."""
        adapter = adapter_of(type(layer))
        if adapter is not None:
            return (Mark.PART, self._adapted(layer, adapter))
        own = layer.__dict__
        names, number = self._named(layer, own)
        return (number, *[x if type(x) in ATOMS else self._write(x) for x in [own[name] for name in names]])

    def _named(self, layer: Any, own: dict[str, Any]) -> tuple[tuple[str, ...], int]:
        """The attributes of a layer that are content, and their shape; looked up while it has the same attributes."""
        before, names, number = self._names.get(type(layer), (None, (), 0))
        if own.keys() != before:
            names = tuple(sorted(name for name in own if not self._skipped(layer, name)))
            number = self._shape(type(layer), names)
            self._names[type(layer)] = (dict.fromkeys(own).keys(), names, number)
        return names, number

    def _write(self, x: Any) -> Any:
        kind = type(x)
        if kind in ATOMS:
            return x
        try:
            writer = self._writers[kind]
        except KeyError:
            writer = self._writers[kind] = self._writer(kind)
        return writer(x)

    def _all(self, items: Iterable[Any]) -> list[Any]:
        return [x if type(x) in ATOMS else self._write(x) for x in items]

    def _writer(self, kind: type) -> Callable[[Any], Any]:
        """How objects of a class are written."""
        if (adapter := adapter_of(kind)) is not None:
            return lambda x: self._again(x) or self._part(x, adapter)
        if issubclass(kind, GENERATORS):
            return lambda x: (Mark.GENERATOR, kind_of(x))
        if issubclass(kind, enum.Enum):
            number = self._shape(kind, ())
            return lambda x: (Mark.ENUM, number, sys.intern(x.name))
        if issubclass(kind, KEPT) or full_name(kind).partition(".")[0] in KEPT_MODULES:
            return self._write_kept
        if issubclass(kind, np.generic):
            return lambda x: (Mark.SCALAR, sys.intern(x.dtype.str), x.tobytes())
        if not _in_python(kind):
            return self._write_pickled
        return self._write_slotted if slots(kind) else self._write_object

    def _again(self, x: Any) -> tuple[int, int] | None:
        """How something is written that was written before; else it gets a number."""
        found = self._memo.get(id(x))
        if found is None:
            self._memo[id(x)] = (Mark.SAME, self._written)
            self._written += 1
        return found

    def _write_list(self, x: list[Any]) -> Any:
        return self._again(x) or (Mark.LIST, *self._all(x))

    def _write_tuple(self, x: tuple[Any, ...]) -> Any:
        return (Mark.TUPLE, *self._all(x))

    def _write_dict(self, x: dict[Any, Any]) -> Any:
        if (again := self._again(x)) is not None:
            return again
        factory = self._write(x.default_factory) if isinstance(x, defaultdict) else type(x) is OrderedDict
        return (Mark.DICT, factory, *self._all(x), *self._all(x.values()))

    def _write_set(self, x: set[Any]) -> Any:
        return self._again(x) or (Mark.SET, *self._sorted(x))

    def _write_frozenset(self, x: frozenset[Any]) -> Any:
        return (Mark.FROZENSET, *self._sorted(x))

    def _sorted(self, x: Iterable[Any]) -> list[Any]:
        """The elements of a set in one order, unless there are numbered ones, which are read as they are written."""
        before = self._written
        written = self._all(x)
        return sorted(written, key=lambda each: marshal.dumps(each, FORMAT)) if self._written == before else written

    def _write_deque(self, x: deque[Any]) -> Any:
        return self._again(x) or (Mark.DEQUE, x.maxlen, *self._all(x))

    def _write_array(self, x: np.ndarray[Any, Any]) -> Any:
        if x.dtype.kind in "OV":
            return self._write_pickled(x)
        return self._again(x) or (Mark.ARRAY, sys.intern(x.dtype.str), x.shape, x.tobytes())

    def _write_object(self, x: Any) -> Any:
        if (again := self._again(x)) is not None:
            return again
        own = x.__dict__
        return (
            Mark.OBJECT,
            self._shape(type(x), tuple(own)),
            *[y if type(y) in ATOMS else self._write(y) for y in own.values()],
        )

    def _write_slotted(self, x: Any) -> Any:
        if (again := self._again(x)) is not None:
            return again
        own = {name: getattr(x, name) for name in slots(type(x)) if hasattr(x, name)} | getattr(x, "__dict__", {})
        return (Mark.OBJECT, self._shape(type(x), tuple(own)), *self._all(own.values()))

    def _part(self, x: Any, adapter: Adapter) -> Any:
        kind, found = type(x), self._parts.setdefault(type(x), [])
        place = self._met.get(kind, 0)
        self._met[kind] = place + 1
        if place == len(found):
            found.append(x)
        return (Mark.PART, self._shape(kind, ()), place, self._adapted(x, adapter))

    def _write_method(self, x: MethodType) -> Any:
        return (Mark.METHOD, self._write(x.__self__), sys.intern(x.__name__))

    def _write_kept(self, x: Any) -> Any:
        key = repr(x) if isinstance(x, gymnasium.Space) else id(x)  # equal spaces of two environments are one
        if key not in self._kept:
            self._kept[key] = len(self._kept_things)
            self._kept_things.append(x)
        return (Mark.KEPT, PROCESS, self._kept[key])

    def _write_pickled(self, x: Any) -> Any:
        try:
            return self._again(x) or (Mark.PICKLED, pickle.dumps(x))
        except Exception as error:
            raise Unsaved(f"a {full_name(type(x))} cannot be saved ({type(error).__name__}: {error})") from error

    def _shape(self, kind: type, names: tuple[str, ...]) -> int:
        try:
            return self._shapes[kind, names]
        except KeyError:
            shape = Shape(kind.__module__, kind.__qualname__, names)
            number = shape.number
            SHAPES[number], self._shapes[kind, names], self._kinds[number] = shape, number, kind
            return number

    # ----------------------------------------------------------------- reading

    def read(self, content: bytes, layers: Sequence[Any]) -> None:
        """Put the layers of an environment, as many as were written, into the state of that content."""
        self._made, self._layers = [], layers
        for layer, (what, *written) in zip(layers, marshal.loads(content), strict=False):
            if what == Mark.PART:
                self._load(layer, written[0])
                continue
            names = SHAPES[what].attributes
            own = layer.__dict__
            present, number = self._named(layer, own)
            if number != what:
                for name in set(present).difference(names):
                    del own[name]
            for name, x in zip(names, written):  # noqa: B905  # in the inner loop of every query
                own[name] = self._read(x) if type(x) is tuple else x

    def _load(self, part: Any, written: Any) -> None:
        adapter = adapter_of(type(part))
        assert adapter is not None
        adapter.set_state(part, self._read(written))

    def _read(self, written: Any) -> Any:
        if type(written) is not tuple:
            return written
        return self._readers[written[0]](*written[1:])

    def _new(self, x: Any) -> Any:
        """Something that can be referred to, in the order of writing."""
        self._made.append(x)
        return x

    def _items(self, written: Iterable[Any]) -> list[Any]:
        return [self._read(x) if type(x) is tuple else x for x in written]

    def _read_list(self, *written: Any) -> Any:
        found = self._new([])
        found += self._items(written)
        return found

    def _read_tuple(self, *written: Any) -> Any:
        return tuple(self._items(written))

    def _read_dict(self, factory: Any, *written: Any) -> Any:
        if isinstance(factory, bool):
            found = self._new(OrderedDict() if factory else {})
        else:
            found = self._new(defaultdict())
            found.default_factory = self._read(factory)
        items = self._items(written)
        half = len(items) // 2
        found.update(zip(items[:half], items[half:], strict=True))
        return found

    def _read_set(self, *written: Any) -> Any:
        found = self._new(set())
        found.update(self._items(written))
        return found

    def _read_frozenset(self, *written: Any) -> Any:
        return frozenset(self._items(written))

    def _read_deque(self, longest: int | None, *written: Any) -> Any:
        found = self._new(deque(maxlen=longest))
        found.extend(self._items(written))
        return found

    def _read_array(self, dtype: str, shape: tuple[int, ...], data: bytes) -> Any:
        return self._new(np.frombuffer(data, dtype).reshape(shape).copy())

    def _read_scalar(self, dtype: str, data: bytes) -> Any:
        return np.frombuffer(data, dtype)[0]

    def _read_object(self, number: int, *written: Any) -> Any:
        kind = self._kind(number)
        found = self._new(kind.__new__(kind))
        put = partial(object.__setattr__, found) if slots(kind) else found.__dict__.__setitem__
        for name, x in zip(SHAPES[number].attributes, written):  # noqa: B905
            put(name, self._read(x) if type(x) is tuple else x)
        return found

    def _read_enum(self, number: int, name: str) -> Any:
        return self._kind(number)[name]

    def _read_same(self, number: int) -> Any:
        return self._made[number]

    def _read_layer(self, depth: int) -> Any:
        return self._layers[depth]

    def _read_part(self, number: int, place: int, written: Any) -> Any:
        parts = self._parts.get(self._kind(number), [])
        if place >= len(parts):
            raise BadInput(f"a state has more parts of the class {SHAPES[number].name} than this environment ever had")
        part = self._new(parts[place])
        self._load(part, written)
        return part

    def _read_method(self, owner: Any, name: str) -> Any:
        return getattr(self._read(owner), name)

    def _read_kept(self, process: str, number: int) -> Any:
        if process != PROCESS:
            raise BadInput("a state refers to a function, a space or a window, and does so in one process only")
        return self._kept_things[number]

    def _read_pickled(self, data: bytes) -> Any:
        return self._new(pickle.loads(data))

    def _kind(self, number: int) -> Any:
        if number not in self._kinds:
            self._kinds[number] = SHAPES[number].kind
        return self._kinds[number]


def slots(kind: type) -> tuple[str, ...]:
    """The attributes of a class that are not in a dictionary."""
    if kind not in _SLOTS:
        _SLOTS[kind] = _slots(kind)
    return _SLOTS[kind]


def _slots(kind: type) -> tuple[str, ...]:
    named = [base.__dict__.get("__slots__", ()) for base in kind.__mro__]
    listed = [name for names in named for name in ((names,) if isinstance(names, str) else names)]
    return tuple(name for name in listed if name not in ("__dict__", "__weakref__"))


def _in_python(kind: type) -> bool:
    """Whether objects of a class keep all their data in attributes: no base class is built in or compiled."""
    made_by_python = all(base is object or base.__flags__ & HEAP_TYPE for base in kind.__mro__)
    return made_by_python and bool(kind.__dictoffset__ or slots(kind))
