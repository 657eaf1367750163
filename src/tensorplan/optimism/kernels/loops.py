"""The operations of :mod:`tensorplan.optimism.kernels.vectors` for compiled code; imported only where that is made."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from tensorplan.optimism.kernels.vectors import LANES, Vector

WITHOUT_CALL = ("dot",)
"""What is a part of the machine code of all that calls it: thousands of rows may be multiplied by a point in a row."""

_INDEX, _REAL = ir.IntType(64), ir.DoubleType()


def _block(builder: Any, data: Any, at: Any, width: int) -> Any:
    """So many numbers of an array, from that place on."""
    pointer = builder.bitcast(builder.gep(data, [at]), ir.VectorType(_REAL, width).as_pointer())
    return builder.load(pointer, align=8)


def _fold(builder: Any, block: Any) -> Any:
    """The first half of a block plus the second."""
    width = block.type.count // 2
    halves = []
    for first in (0, width):
        mask = ir.Constant(ir.VectorType(ir.IntType(32), width), [first + i for i in range(width)])
        halves.append(builder.shuffle_vector(block, block, mask))
    return builder.fadd(*halves)


@intrinsic  # type: ignore[untyped-decorator]
def _dot(typing_context: Any, a: Any, b: Any, start: Any, stop: Any) -> Any:
    """Written for LLVM, since a loop over numbers may be vectorised only where sums may be taken in any order."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        x, y = (
            context.make_array(kind)(context, builder, value).data
            for kind, value in zip(signature.args[:2], arguments[:2], strict=True)
        )
        start, stop = arguments[2:]

        def products(at: Any, width: int) -> Any:
            return builder.fmul(_block(builder, x, at, width), _block(builder, y, at, width))

        blocks = builder.and_(builder.sub(stop, start), ir.Constant(_INDEX, -LANES))
        sums = cgutils.alloca_once_value(builder, ir.Constant(ir.VectorType(_REAL, LANES), [0.0] * LANES))
        end = builder.add(start, blocks)
        with cgutils.for_range_slice(builder, start, end, ir.Constant(_INDEX, LANES), inc=True) as (at, _):
            builder.store(builder.fadd(builder.load(sums), products(at, LANES)), sums)
        four = cgutils.alloca_once_value(builder, _fold(builder, builder.load(sums)))
        place = cgutils.alloca_once_value(builder, end)
        after = builder.add(end, ir.Constant(_INDEX, 4))
        with builder.if_then(builder.icmp_signed("<=", after, stop)):
            builder.store(builder.fadd(builder.load(four), products(end, 4)), four)
            builder.store(after, place)
        two = _fold(builder, builder.load(four))
        rest = cgutils.alloca_once_value(builder, ir.Constant(_REAL, 0.0))
        one = ir.Constant(_INDEX, 1)
        with cgutils.for_range_slice(builder, builder.load(place), stop, one, inc=True) as (at, _):
            p = builder.fmul(builder.load(builder.gep(x, [at])), builder.load(builder.gep(y, [at])))
            builder.store(builder.fadd(builder.load(rest), p), rest)
        low, high = (builder.extract_element(two, ir.Constant(ir.IntType(32), i)) for i in (0, 1))
        return builder.fadd(builder.fadd(low, high), builder.load(rest))

    return types.float64(a, b, types.intp, types.intp), generate


def dot(a: Vector, b: Vector) -> float:  # noqa: D103
    return float(_dot(a, b, 0, len(a)))


def partial_dot(a: Vector, b: Vector, start: int, stop: int) -> float:  # noqa: D103
    return float(_dot(a, b, start, stop))


def fill(target: Vector, s: float, n: int) -> None:  # noqa: D103
    for h in range(n):
        target[h] = s


def copy(source: Vector, target: Vector, n: int) -> None:  # noqa: D103
    for h in range(n):
        target[h] = source[h]


def multiply(source: Vector, s: float, target: Vector, n: int) -> None:  # noqa: D103
    for h in range(n):
        target[h] = source[h] * s


def divide(source: Vector, s: float, target: Vector, n: int) -> None:  # noqa: D103
    for h in range(n):
        target[h] = source[h] / s


def add(target: Vector, s: float, source: Vector, n: int) -> None:  # noqa: D103
    for h in range(n):
        target[h] += s * source[h]


def rotate(top: Vector, low: Vector, cos: float, sin: float, start: int, stop: int) -> None:  # noqa: D103
    for h in range(start, stop):
        before, below = top[h], low[h]
        top[h] = cos * before + sin * below
        low[h] = cos * below - sin * before
