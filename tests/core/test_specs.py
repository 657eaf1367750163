"""Names with parameters, and the checks of single values."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tensorplan.core.errors import BadInput, shown
from tensorplan.core.specs import call, literal, lookup, number, one_of, parse, suggestion, truth, whole


@pytest.mark.parametrize(
    ("spec", "parts"),
    [
        ("hanoi", ("hanoi", "", {})),
        ("hanoi/8", ("hanoi", "8", {})),
        ("layered/4x10:horizon=20", ("layered", "4x10", {"horizon": 20})),
        (" uct : simulations = 500 : c=1.5 ", ("uct", "", {"simulations": 500, "c": 1.5})),
        ("a/b/c:k=x=y", ("a", "b/c", {"k": "x=y"})),
        ("a:k=", ("a", "", {"k": ""})),
        ("", ("", "", {})),
    ],
)
def test_parse(spec, parts):
    assert parse(spec) == parts


@pytest.mark.parametrize(
    ("spec", "option"), [("a:", ""), ("a:b", "b"), ("a:=1", "=1"), ("a:b=1:", ""), ("a::b=1", ""), ("a/3:b=1:c", "c")]
)
def test_parse_says_what_it_expected(spec, option):
    with pytest.raises(BadInput) as info:
        parse(spec)
    assert str(info.value) == f"{spec!r}: expected key=value after ':', got {option!r}"


def test_nothing_is_said_twice():
    with pytest.raises(BadInput, match=r"^'a/3:b=1: b =2': 'b' is given twice$"):
        parse("a/3:b=1: b =2")


words = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=8)
values = st.one_of(st.integers(), st.floats(allow_nan=False), st.booleans(), st.none(), st.sampled_from(["v", "4x10"]))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(name=words, size=st.one_of(st.just(""), words), params=st.dictionaries(words, values, max_size=3))
def test_parse_takes_apart_what_was_put_together(name, size, params):
    spec = name + ("/" + size if size else "") + "".join(f":{key}={value}" for key, value in params.items())
    assert parse(spec) == (name, size, params)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("-2", -2),
        ("1e3", 1000.0),
        ("0.25", 0.25),
        ("true", True),
        ("False", False),
        ("NONE", None),
        ("inf", math.inf),
        ("4x10", "4x10"),
        ("", ""),
        ("exact", "exact"),
    ],
)
def test_literal(text, value):
    result = literal(text)
    assert result == value
    assert type(result) is type(value)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.one_of(st.integers(), st.floats(allow_nan=False), st.booleans(), st.none()))
def test_literal_reads_what_python_prints(value):
    result = literal(str(value))
    assert result == value
    assert type(result) is type(value)


def test_lookup():
    known = {"uct": 1, "ocp": 2, "tensorplan": 3}
    assert lookup("planner", "ocp", known) == 2
    with pytest.raises(BadInput, match=r"^unknown planner 'tensorpaln'; did you mean 'tensorplan'\?$"):
        lookup("planner", "tensorpaln", known)
    with pytest.raises(BadInput, match=r"^unknown planner 'xyz'; there are: ocp, tensorplan, uct$"):
        lookup("planner", "xyz", known)
    assert suggestion("utc", known) == "did you mean 'uct'?"


def build(size, *, depth=2, wide=False):
    return size, depth, wide


def test_what_is_too_large_to_be_made_is_said_in_a_sentence():
    def room(size):
        return np.zeros(size)

    huge = r"^'thing' is too large with size=1000000000 ... 00000: ValueError: Maximum allowed dimension exceeded$"
    with pytest.raises(BadInput, match=huge):
        call("thing", room, {"size": 10**40})
    with pytest.raises(BadInput, match=r"^'thing' is too large with size=10000000000000000: .*Unable to allocate"):
        call("thing", room, {"size": 10**16})
    with pytest.raises(BadInput, match=r"^'thing' is too large with size=.*: OverflowError: int too large"):
        call("thing", lambda size: size / 3.0, {"size": 10**400})
    with pytest.raises(ValueError, match="negative dimensions"):  # a mistake of somebody else's
        call("thing", room, {"size": -1})


def test_call():
    assert call("thing", build, {"size": 3}) == (3, 2, False)
    assert call("thing", build, {"size": 3, "depth": 5, "wide": True}) == (3, 5, True)
    with pytest.raises(BadInput, match=r"^'thing' needs the parameter 'size'$"):
        call("thing", build, {"depth": 5})
    with pytest.raises(BadInput, match=r"^'thing' has no parameter 'deep'; did you mean 'depth'\?$"):
        call("thing", build, {"size": 3, "deep": 5})
    with pytest.raises(BadInput, match=r"^'thing' has no parameter 'q'; there are: depth, size, wide$"):
        call("thing", build, {"size": 3, "q": 5})


@pytest.mark.parametrize("value", [3, 3.0, np.int64(3), np.float64(3.0), np.uint8(3)])
def test_whole_accepts_whole_numbers(value):
    result = whole("n", value, 3, 3)
    assert result == 3
    assert type(result) is int


@pytest.mark.parametrize("value", [2, 5, 2.5, math.nan, math.inf, True, None, "3", [3], 10**400])
def test_whole_refuses_the_rest(value):
    with pytest.raises(BadInput) as info:
        whole("n", value, 3, 4)
    assert str(info.value) == f"n must be a whole number from 3 to 4, got {shown(value)}"


def test_whole_without_an_upper_end():
    assert whole("n", 10**400, 0) == 10**400
    with pytest.raises(BadInput, match=r"^n must be a whole number >= 0, got -1$"):
        whole("n", -1, 0)


@pytest.mark.parametrize("value", [1, 1.0, np.float32(1.0), np.int64(1)])
def test_number_accepts_numbers(value):
    result = number("x", value, 0.0, 1.0)
    assert result == 1.0
    assert type(result) is float


@pytest.mark.parametrize("value", [-0.1, math.nan, math.inf, np.float32("inf"), True, None, "1", [1.0], 10**400])
def test_number_refuses_the_rest(value):
    with pytest.raises(BadInput) as info:
        number("x", value, 0.0)
    assert str(info.value) == f"x must be a number >= 0, got {shown(value)}"


def test_number_names_both_ends():
    with pytest.raises(BadInput, match=r"^x must be a number from 0 to 0.5, got 0.6$"):
        number("x", 0.6, 0.0, 0.5)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(value=st.one_of(st.integers(), st.floats(), st.text(max_size=5), st.booleans(), st.none()))
@example(value=2**2000)
def test_numbers_are_in_range_or_refused(value):
    try:
        x = number("x", value, -1.0, 1.0)
    except BadInput:
        assert not (isinstance(value, int | float) and not isinstance(value, bool) and -1 <= value <= 1)
    else:
        assert -1 <= x == value <= 1


@pytest.mark.parametrize("value", [True, np.True_, 1])
def test_truth(value):
    assert truth("noise", value) is True
    assert truth("noise", not value) is False


@pytest.mark.parametrize("value", ["true", "no", 2, 0.0, None])
def test_truth_refuses_the_rest(value):
    with pytest.raises(BadInput) as info:
        truth("noise", value)
    assert str(info.value) == f"noise must be true or false, got {value!r}"


def test_one_of():
    assert one_of("mode", "exact", ("auto", "exact")) == "exact"
    for value in ("exct", None, 3):
        with pytest.raises(BadInput) as info:
            one_of("mode", value, ("auto", "exact"))
        assert str(info.value) == f"mode must be one of auto, exact, got {value!r}"
