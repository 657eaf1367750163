"""Sweeps as data: problems × planners × seeds, with grids of parameters, in a YAML file.

At its simplest three lines:

    problems: [hanoi/3, layered/2x4]
    planners: [tensorplan, uct]
    seeds: 6

A problem or planner may have parameters, and a list stands for each of its entries in turn (a grid):

    planners:
      - uct: {simulations: [100, 1000], exploration: [0.5, 1.0]}
      - tensorplan: {delta: 0.1}

``seeds`` is their number, counted from 0, or a list of them.  The options are the other fields of :class:`Suite`.

Your own problems and planners are named as in ``./mine.py:make_problem``, relative to the working directory.

The units of a suite are :class:`tensorplan.sweeps.unit.PlannerUnit`, one planner on one instance with one seed each.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import yaml

from tensorplan.core.errors import BadInput, shown
from tensorplan.core.specs import literal, number, suggestion, truth, whole
from tensorplan.loop import MAX_STEPS
from tensorplan.sweeps.names import checked_planner, checked_problem, normal_planner, normal_problem, spell
from tensorplan.sweeps.unit import Experiment, PlannerUnit

LIMIT = 1_000_000
"""The most units in a suite."""


@dataclass(frozen=True)
class Suite(Experiment):
    """The problems, planners, seeds and options of a sweep; names are normalised."""

    kind: ClassVar[str] = "sweep"

    problems: tuple[str, ...]
    planners: tuple[str, ...]
    seeds: tuple[int, ...]
    _: KW_ONLY
    episodes: int = 1
    """Episodes of each unit; a planner with a memory keeps it from one to the next."""
    budget: int | None = None
    """Queries per episode."""
    max_steps: int = MAX_STEPS
    """Steps of an episode without a horizon."""
    trace: bool = False
    """Whether planners that can record a trace do so."""
    timeout: float | None = None
    """The most seconds of a unit."""
    memory: float | None = None
    """The most MB (10^6 bytes) of memory of a unit; see :class:`tensorplan.sweeps.unit.Experiment`."""
    retries: int = 0
    """How often a failed unit is tried again."""

    def __post_init__(self) -> None:
        for field in ("problems", "planners"):
            _only_names(field, getattr(self, field))
        fix: dict[str, Any] = {
            "problems": tuple(dict.fromkeys(map(normal_problem, self.problems))),
            "planners": tuple(dict.fromkeys(map(normal_planner, self.planners))),
            "seeds": tuple(dict.fromkeys(whole("seeds", seed, 0) for seed in self.seeds)),
            "episodes": whole("episodes", self.episodes, 1),
            "budget": None if self.budget is None else whole("budget", self.budget, 0),
            "max_steps": whole("max_steps", self.max_steps, 1),
            "trace": truth("trace", self.trace),
            "timeout": None if self.timeout is None else _positive("timeout", self.timeout),
            "memory": None if self.memory is None else _positive("memory", self.memory),
            "retries": whole("retries", self.retries, 0),
        }
        for name, value in fix.items():
            if value == ():
                raise BadInput(f"{name} must name at least one")
            object.__setattr__(self, name, value)
        count = len(self.problems) * len(self.planners) * len(self.seeds)
        if count > LIMIT:
            raise BadInput(f"seeds, problems and planners make {count:,} units; a suite has at most {LIMIT:,}")

    def check(self) -> None:
        """Raise BadInput if user code cannot be loaded."""
        for problem in self.problems:
            checked_problem(problem)
        for planner in self.planners:
            checked_planner(planner)

    @classmethod
    def read(cls, path: str | Path) -> Suite:
        """The suite in a YAML file; BadInput with the file, the line and the reason."""
        return _File(Path(path)).suite()

    def units(self) -> list[PlannerUnit]:
        """All units, each once: problem by problem, planner by planner, seed by seed."""
        return list(self._units)

    @cached_property
    def _units(self) -> tuple[PlannerUnit, ...]:
        found: dict[str, PlannerUnit] = {}
        for problem, planner, seed in itertools.product(self.problems, self.planners, self.seeds):
            unit = PlannerUnit(problem, planner, seed, self.episodes, self.budget, self.max_steps, self.trace)
            found.setdefault(unit.id, unit)
        return tuple(found.values())

    def parameters(self) -> dict[str, Any]:
        """The fields as a dict."""
        return asdict(self)

    def as_json(self) -> str:
        """The suite as JSON; its units follow from it."""
        return json.dumps(self.parameters())


def _only_names(field: str, given: Any) -> None:
    """Raise BadInput unless all are names: a suite is stored, and run by other processes."""
    if isinstance(given, str):
        raise BadInput(f"{field} must be a list of names, got {given!r}")
    for each in given:
        if not isinstance(each, str):
            raise BadInput(
                f"{field} of a suite are names, as in './mine.py:make_problem' or 'uct', got {shown(each)}; "
                "tp.compare takes objects"
            )


def _positive(name: str, value: Any) -> float:
    if number(name, value, 0.0) > 0:
        return float(value)
    raise BadInput(f"{name} must be positive, got {value!r}")


# ------------------------------------------------------------------------------------------------- the file


class _File:
    """A YAML file with the line of every node."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.loader = yaml.SafeLoader(path.read_bytes())
            self.root = self.loader.get_single_node()
        except OSError as error:
            raise BadInput(f"cannot read the suite {str(path)!r}: {error.strerror}") from None
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            raise self._error(mark, f"this is not YAML: {error.problem or error.context}") from None
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise BadInput(f"{path}: this is not YAML: {' '.join(str(error).split())}") from None
        except RecursionError:
            raise BadInput(f"{path}: this is not a suite: its lists are nested too deeply") from None

    def suite(self) -> Suite:
        names = [f.name for f in fields(Suite) if f.name != "_"]
        if not isinstance(self.root, yaml.MappingNode):
            mark = None if self.root is None else self.root.start_mark
            raise self._error(mark, f"a suite is a list of 'key: value', with the keys {', '.join(names)}")
        keys: dict[str, yaml.Node] = {}
        given: dict[str, Any] = {}
        for key, node in self._pairs(self.root):
            if key.value not in names:
                raise self._error(key.start_mark, f"unknown key {key.value!r}; {suggestion(key.value, names)}")
            keys[key.value] = key
            if key.value == "problems":
                given["problems"] = tuple(self._specs(node, checked_problem))
            elif key.value == "planners":
                given["planners"] = tuple(self._specs(node, checked_planner))
            else:
                given[key.value] = self._value(node)
        for name in ("problems", "planners", "seeds"):
            if name not in given:
                raise BadInput(f"{self.path}: {name!r} is missing")
        try:
            given["seeds"] = _seeds(given["seeds"])
            return Suite(**given)
        except BadInput as error:
            raise self._error(self._place(error, keys, self.root), str(error)) from None

    def _specs(self, node: yaml.Node, normal: Callable[[str], str]) -> Iterator[str]:
        """The specs of a node: a name, a name with parameters, or a list of these."""
        for entry in node.value if isinstance(node, yaml.SequenceNode) else [node]:
            if isinstance(entry, yaml.ScalarNode):
                yield self._checked(entry.value, normal, entry, {})
            elif isinstance(entry, yaml.MappingNode):
                for name, params in self._pairs(entry):
                    yield from self._grid(name, params, normal)
            else:
                raise self._error(entry.start_mark, "expected a name, or a name with parameters")

    def _grid(self, name: yaml.ScalarNode, params: yaml.Node, normal: Callable[[str], str]) -> Iterator[str]:
        """One spec for every combination of the listed values."""
        keys: dict[str, yaml.Node] = {}
        axes: list[list[str]] = []
        if isinstance(params, yaml.MappingNode):
            for key, node in self._pairs(params):
                keys[key.value] = key
                value = self._value(node)
                values = value if isinstance(value, list) else [value]
                if not values or not all(x is None or isinstance(x, str | int | float) for x in values):
                    sentence = f"{key.value} must be a number, a word, or a list of them, got {value!r}"
                    raise self._error(key.start_mark, sentence)
                axes.append([f"{key.value}={spell(literal(x) if isinstance(x, str) else x)}" for x in values])
        elif not (isinstance(params, yaml.ScalarNode) and self._value(params) is None):
            raise self._error(params.start_mark, f"expected the parameters of {name.value!r} as {{key: value}}")
        for combination in itertools.product(*axes):
            yield self._checked(":".join([name.value, *combination]), normal, name, keys)

    def _checked(self, spec: str, normal: Callable[[str], str], node: yaml.Node, keys: Mapping[str, yaml.Node]) -> str:
        try:
            return normal(spec)
        except BadInput as error:
            raise self._error(self._place(error, keys, node), str(error)) from None

    def _pairs(self, node: yaml.MappingNode) -> Iterator[tuple[yaml.ScalarNode, yaml.Node]]:
        seen: set[str] = set()
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self._error(key.start_mark, "expected a name in front of the colon")
            if key.value in seen:
                raise self._error(key.start_mark, f"{key.value!r} is given twice")
            seen.add(key.value)
            yield key, value

    def _value(self, node: yaml.Node) -> Any:
        try:
            value = self.loader.construct_object(node, deep=True)
        except yaml.MarkedYAMLError as error:
            raise self._error(node.start_mark, f"this cannot be read: {error.problem}") from None
        except (ValueError, KeyError, AttributeError):  # PyYAML's own: a day with 25 hours, an int of 5,000 digits
            raise self._error(node.start_mark, f"cannot read {_text(node)} as a number or a date") from None
        return literal(value) if isinstance(value, str) else value

    @staticmethod
    def _place(error: BadInput, keys: Mapping[str, yaml.Node], other: yaml.Node) -> Any:
        """The mark of the key that an error mentions."""
        words = re.findall(r"[\w-]+", str(error))
        return next((keys[word] for word in words if word in keys), other).start_mark

    def _error(self, mark: Any, sentence: str) -> BadInput:
        line = "" if mark is None else f", line {mark.line + 1}"
        return BadInput(f"{self.path}{line}: {sentence}")


def _text(node: yaml.Node) -> str:
    """The text of a scalar node, or a description."""
    return shown(node.value) if isinstance(node, yaml.ScalarNode) else "an entry of this list"


def _seeds(value: Any) -> Iterable[int]:
    if isinstance(value, list):
        return [whole("seeds", seed, 0) for seed in value]
    return range(whole("seeds", value, 1, LIMIT))
