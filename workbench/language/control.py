"""Loop ranges and what happens at compile time."""

from __future__ import annotations

import sys
from builtins import range as builtin_range
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from workbench.ir import Block, Op, Value, element_of
from workbench.language.constexprs import is_tuple
from workbench.language.shapes import (
    broadcast_tensor,
    common_shape,
    join,
    reshape_tensor,
    split,
)
from workbench.language.state import current, wrapping_index
from workbench.language.table import builtin
from workbench.language.values import (
    describe,
    describe_type,
    kind_of,
    static,
    tensor,
    to_tensor,
    wrap,
)
from workbench.ops import Map, While, Yield
from workbench.source import ConstexprError, KernelTypeError, ShapeError, StaticAssertError

_HINTS = (
    "loop_unroll_factor", "disallow_acc_multi_buffer", "flatten", "warp_specialize", "disable_licm",
)  # fmt: skip


@dataclass(frozen=True)
class LoopRange:
    """What a `for` runs over: bounds as written, and hints that never change a result."""

    lower: Any
    upper: Any
    step: Any
    stages: int | None = None
    hints: tuple[tuple[str, Any], ...] = ()
    unrolled: bool = False


def _bounds(arg1: Any, arg2: Any, step: Any) -> tuple[Any, Any, Any]:
    lower, upper = (0, arg1) if arg2 is None else (arg1, arg2)
    return lower, upper, 1 if step is None else step


@builtin
def range(
    arg1: Any,
    arg2: Any = None,
    step: Any = None,
    num_stages: Any = None,
    loop_unroll_factor: Any = None,
    disallow_acc_multi_buffer: Any = False,
    flatten: Any = False,
    warp_specialize: Any = False,
    disable_licm: Any = False,
) -> LoopRange:
    """Return a loop range with hints for the compiler: any value gives the same result.

    `num_stages` is how many rounds' copies may be under way, `loop_unroll_factor` how many rounds
    become one. A hint that a target does not obey is answered by a remark at the loop.
    """
    values = loop_unroll_factor, disallow_acc_multi_buffer, flatten, warp_specialize, disable_licm
    given = {name: static(raw, name) for name, raw in zip(_HINTS, values, strict=True)}
    stages = static(num_stages, "num_stages")
    _check_count("num_stages", stages, 0)
    _check_count("loop_unroll_factor", given["loop_unroll_factor"], 1)
    for name in _HINTS[1:]:
        if not isinstance(given[name], bool | None) and given[name] not in (0, 1):
            raise ConstexprError(
                f"{name} is True or False, got {given[name]!r}",
                hint="write True or False, or a constexpr that is one",
            )
    hints = tuple((name, value) for name, value in given.items() if value)
    return LoopRange(*_bounds(arg1, arg2, step), stages=stages, hints=hints)


def _check_count(name: str, value: Any, least: int) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConstexprError(
            f"{name} of a loop is an integer from {least} on, got {value!r}",
            hint=f"leave {name} out, or give a number such as {name}={max(least, 2)}",
        )


@builtin
def static_range(arg1: Any, arg2: Any = None, step: Any = None) -> LoopRange:
    """Return a loop range that is unrolled, with its variable known at compile time."""
    lower, upper, by = (static(v, "a bound of static_range") for v in _bounds(arg1, arg2, step))
    for bound in (lower, upper, by):
        if not isinstance(bound, int):
            raise ConstexprError(
                f"static_range needs integers, got {kind_of(bound)} {bound!r}",
                hint="use // where / gives a float",
            )
    if by == 0:
        raise ConstexprError(
            "static_range needs a step other than 0", hint="step by 1 or more, or back"
        )
    return LoopRange(lower, upper, by, unrolled=True)


@dataclass(frozen=True)
class LoopCondition:
    """What a `while` goes on for, with hints that never change a result."""

    test: Any
    hints: tuple[tuple[str, Any], ...] = ()


@builtin
def condition(arg1: Any, disable_licm: Any = False) -> LoopCondition:
    """Return the condition of a `while` with hints for the compiler.

    `disable_licm` keeps what does not change inside the loop.
    """
    keeps = static(disable_licm, "disable_licm")
    if not isinstance(keeps, bool | None) and keeps not in (0, 1):
        raise ConstexprError(
            f"disable_licm is True or False, got {keeps!r}", hint="write True or False"
        )
    return LoopCondition(arg1, (("disable_licm", True),) if keeps else ())


@builtin
def map_elementwise(scalar_fn: Any, *args: Any, pack: Any = 1) -> Any:
    """Call a device function once per element (`pack`: per so many neighbours of the last axis).

    The function takes scalars, `pack` of each block one after the other, and takes its own way
    through branches and loops for each; it may not touch memory. Blocks are broadcast together.
    The result is a block per value that the function returns (per `pack` values).
    """
    count = static(pack, "pack")
    if isinstance(count, bool) or not isinstance(count, int) or count < 1 or count & (count - 1):
        raise ConstexprError(
            f"pack is a power of two from 1 on, got {count!r}",
            hint="leave it out, or write e.g. pack=2",
        )
    inputs = [to_tensor(x) for x in args]
    shape = common_shape(*inputs, what="the blocks of map_elementwise")
    if not shape:
        raise ShapeError("map_elementwise needs a block", hint="call the function itself")
    if shape[-1] % count:
        raise ShapeError(
            f"map_elementwise with pack={count} on blocks of shape {shape}",
            hint="the last extent must be a multiple of pack",
        )
    blocks = [part for x in inputs for part in _neighbours(broadcast_tensor(x, shape), count)]
    found, single = _mapped(scalar_fn, blocks, count)
    parts = [_interleaved(found[i : i + count]) for i in builtin_range(0, len(found), count)]
    return parts[0] if single and count == 1 else tuple(parts)


def _mapped(function: Any, blocks: list[tensor], count: int) -> tuple[list[tensor], bool]:
    """Return the results of a function for all elements, and whether it returns a single one."""
    values = [x.stored() for x in blocks]
    arguments = tuple(Value(element_of(v.type), f"a{number}") for number, v in enumerate(values))
    builder = current().builder
    with builder.block() as ops, wrapping_index():
        given = [wrap(a, x.dtype) for a, x in zip(arguments, blocks, strict=True)]
        result = current().call(function, given)
        results = [to_tensor(r) for r in (result if is_tuple(result) else (result,))]
        builder.insert(Yield(tuple(r.stored() for r in results)))
    for part in results:
        if part.shape:
            raise ShapeError(
                f"the function of map_elementwise returns {describe(part)}, no scalar",
                hint="it sees one element at a time: return a scalar of it",
            )
    if len(results) % count:
        raise KernelTypeError(
            f"the function of map_elementwise returns {len(results)} values for pack={count}",
            hint="return one value per neighbour for each result",
        )
    touching = [op for op in _walk(ops) if op.own_effects() and not isinstance(op, While)]
    if touching:
        raise KernelTypeError(
            f"the function of map_elementwise touches memory ({touching[0].name})",
            hint="load before the call and store what it returns",
        )
    op = builder.insert(Map(tuple(values), Block(arguments, tuple(ops))))
    found = [wrap(r, x.dtype) for r, x in zip(op.results, results, strict=True)]
    return found, not is_tuple(result)


def _walk(ops: Iterable[Op]) -> Iterator[Op]:
    for op in ops:
        yield op
        for region in op.regions:
            yield from _walk(region.ops)


def _neighbours(block: tensor, count: int) -> list[tensor]:
    """Return the blocks of every `count`-th element of the last axis."""
    if count == 1:
        return [block]
    *before, last = block.shape
    even, odd = split(reshape_tensor(block, (*before, last // 2, 2)))
    first, second = (_neighbours(half, count // 2) for half in (even, odd))
    return [part for pair in zip(first, second, strict=True) for part in pair]


def _interleaved(parts: list[tensor]) -> tensor:
    """Undo `_neighbours`."""
    if len(parts) == 1:
        return parts[0]
    both = join(_interleaved(parts[0::2]), _interleaved(parts[1::2]))
    *before, last, two = both.shape
    return reshape_tensor(both, (*before, last * two))


@builtin
def static_assert(cond: Any, msg: Any = "") -> None:
    """Stop the compilation where a compile-time condition does not hold."""
    try:
        holds = static(cond, "the condition of static_assert")
    except ConstexprError as error:
        error.hint = "tl.device_assert(condition) checks it when the kernel runs"
        raise
    if not isinstance(holds, bool):
        raise ConstexprError(
            f"static_assert needs a bool, got {kind_of(holds)} {holds!r}", hint="compare it first"
        )
    if not holds:
        text = f": {static(msg, 'the message')}" if msg else ""
        raise StaticAssertError(f"static assertion failed{text}")


@builtin
def static_print(
    *values: Any, sep: Any = " ", end: Any = "\n", file: Any = None, flush: Any = False
) -> None:
    """Print values while compiling; of a run-time value, its type."""
    words = [
        describe_type(v) if isinstance(v, tensor) and v.constant is None else _text(v)
        for v in values
    ]
    text = str(sep).join(words)
    sys.stdout.write(text + str(end))
    current().remark(f"static_print: {text}")


def _text(value: Any) -> str:
    return str(value.constant if isinstance(value, tensor) else value)
