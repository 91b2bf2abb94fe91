"""Loop ranges and what happens at compile time."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from workbench.language.state import current
from workbench.language.table import builtin
from workbench.language.values import describe_type, kind_of, static, tensor
from workbench.source import ConstexprError, StaticAssertError

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
            raise ConstexprError(f"{name} is True or False, got {given[name]!r}")
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
            raise ConstexprError(f"static_range needs integers, got {kind_of(bound)} {bound!r}")
    if by == 0:
        raise ConstexprError("static_range needs a step other than 0")
    return LoopRange(lower, upper, by, unrolled=True)


@builtin
def static_assert(cond: Any, msg: Any = "") -> None:
    """Stop the compilation where a compile-time condition does not hold."""
    holds = static(cond, "the condition of static_assert")
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
