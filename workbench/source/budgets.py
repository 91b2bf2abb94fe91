"""What a compilation may cost: one table, and the error for what is over it.

Budgets keep a slip of the pen (`9**9**9`, a range a billion long) from taking the machine along.
They are far above what kernels need: who meets one has written something else than was meant.
What is counted is counted before it is made, so that refusing takes no time either.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, cast

from workbench.source.errors import ResourceError
from workbench.source.spans import Span


@dataclass(frozen=True, slots=True)
class Budget:
    """One row of the table: how much there may be of what, and what to do about more.

    What is `raisable` costs a user's time alone; the others keep a compilation sane.
    """

    limit: int
    unit: str
    what: str
    hint: str
    raisable: bool = False


BUDGETS = {
    "integer": Budget(
        8192, "bits", "an integer known at compile time",
        "use a float, or compute it where the kernel runs",
    ),
    "value": Budget(
        65_536, "items", "a text or tuple known at compile time, in characters or members",
        "keep data in memory and load it",
    ),
    "rounds": Budget(
        65_536, "rounds", "one unrolled loop, and one comprehension",
        "use range, which goes round while the kernel runs",
    ),
    "steps": Budget(
        150_000, "steps", "expressions and statements looked at, each time they are",
        "unroll less, and end recursion sooner",
    ),
    "calls": Budget(
        64, "levels", "device functions inlined into each other",
        "recursion must end by a constexpr condition; use a loop instead",
    ),
    "operations": Budget(
        32_768, "operations", "tile IR of one kernel",
        "unroll less: use range, which goes round while the kernel runs",
    ),
    "elements": Budget(
        1 << 20, "elements", "one tile",
        "use smaller blocks and a loop, or more programs",
    ),
    "interpreted": Budget(
        5_000, "rounds", "all loops of one program of a puzzle, when it is checked",
        "every round must come nearer to the loop's end: change what its condition asks for",
        raisable=True,
    ),
    "checked": Budget(
        60, "seconds", "a launch that is checked: all of it on the CPU, one program's loops in the "
        "interpreter",
        "every round must come nearer to the loop's end; %workbench config checked=600 gives a "
        "launch that takes so long more time (on the command line WORKBENCH_LIMIT_CHECKED=600)",
        raisable=True,
    ),
    "instructions": Budget(
        500_000, "instructions", "LLVM IR of one kernel",
        "use smaller tiles, more warps, or unroll less",
    ),
    "kept": Budget(
        64 << 20, "bytes", "what is kept in memory of compiled kernels, the latest used",
        "",
    ),
    "kernels": Budget(
        512, "kernels", "compiled kernels found again though nobody holds them, the latest used",
        "",
    ),
    "results": Budget(
        256, "results", "results of cells found again by name, the latest of each kernel longest",
        "",
    ),
}  # fmt: skip


def table() -> str:
    """Return the budgets as text, one a line."""
    rows = [(name, f"{b.limit:,} {b.unit}", b.what) for name, b in BUDGETS.items()]
    names, limits = (max(len(row[column]) for row in rows) for column in (0, 1))
    return "\n".join(f"{name:<{names}}  {limit:>{limits}}  {what}" for name, limit, what in rows)


def limit_of(name: str) -> int:
    """Return a budget's limit."""
    return BUDGETS[name].limit


def raise_limit(name: str, limit: int) -> None:
    """Give a budget that is the user's to change another limit, for this process."""
    assert BUDGETS[name].raisable
    BUDGETS[name] = replace(BUDGETS[name], limit=limit)


_checking: ContextVar[bool] = ContextVar("checking", default=False)


@contextmanager
def checking() -> Generator[None]:
    """Have what is interpreted now end by itself: it is a check, which nobody wants to stop."""
    token = _checking.set(True)
    try:
        yield
    finally:
        _checking.reset(token)


def seconds_of_loops() -> float | None:
    """Return how long the loops of one program may take now; None: as long as they like."""
    return limit_of("checked") if _checking.get() else None


def over_budget(name: str, what: str, found: int, span: Span | None = None) -> ResourceError:
    """Return the error K406: `what` (a sentence's subject with its verb) comes to `found`."""
    budget = BUDGETS[name]
    number = shown_count(found)
    return refused(
        name, f"{what} {number} {budget.unit}, the limit is {budget.limit:,}", found, span
    )


def refused(name: str, said: str, found: int, span: Span | None = None) -> ResourceError:
    """Return the error K406 with a sentence of its own."""
    budget = BUDGETS[name]
    error = ResourceError(
        said,
        span,
        hint=budget.hint,
        notes=["%workbench config lists all limits"],
        code="K406",
    )
    return error.counted(name, found, budget.limit)


def shown_count(number: int) -> str:
    """Return a number that may be of any size."""
    return f"{number:,}" if number.bit_length() <= 64 else f"about 2**{number.bit_length() - 1}"


def check_integer(bits: int, what: str = "this integer has") -> None:
    """Raise K406 for an integer of more bits than there may be, before it is made."""
    if bits > BUDGETS["integer"].limit:
        raise over_budget("integer", what, bits)


def check_size(size: int, what: str = "this value has") -> None:
    """Raise K406 for a text or tuple of more items than there may be, before it is made."""
    if size > BUDGETS["value"].limit:
        raise over_budget("value", what, size)


def check_value(value: Any, what: str = "this value has") -> Any:
    """Return a compile-time value; raises K406 for one that is over its budget."""
    if isinstance(value, int):
        check_integer(value.bit_length(), what)
    elif isinstance(value, str | bytes):
        check_size(len(value), what)
    elif isinstance(value, tuple):
        members(cast("tuple[Any, ...]", value), what)
    return cast("Any", value)


def members(value: tuple[Any, ...], what: str = "this tuple has") -> int:
    """Return how many members a tuple has, those of tuples in it included.

    A tuple that holds another twice has its members twice. Raises K406 for too many.
    """
    count, left = 0, [value]
    while left:
        inner = left.pop()
        count += len(inner)
        check_size(count, what)
        for item in inner:
            if isinstance(item, tuple):
                left.append(cast("tuple[Any, ...]", item))
            elif isinstance(item, int):
                check_integer(item.bit_length())
    return count


def exact_text(value: int) -> str:
    """Return an integer as text, of any size: Python writes no more than 4,300 decimal digits."""
    return str(value) if value.bit_length() <= 4096 else hex(value)


def shown(value: Any, most: int = 80) -> str:
    """Return a value's text for a message: short, whatever it is.

    >>> shown(1 << 10_000), shown("a" * 100)
    ('an integer of 10,001 bits', "'aaaaaaaaaaaaaaaaa…aaaaaaaaaaaaaaaaaa'")
    """
    if isinstance(value, int) and value.bit_length() > 256:
        return f"an integer of {value.bit_length():,} bits"
    if isinstance(value, str | bytes) and len(value) > most:
        value = cast("str", value)[:most]
    if isinstance(value, tuple) and len(cast("tuple[Any, ...]", value)) > most:
        return f"a tuple of {len(cast('tuple[Any, ...]', value)):,} values"
    try:
        text = repr(cast("object", value))
    except Exception:
        return f"a {type(cast('object', value)).__name__}"
    half = most // 4
    return text if len(text) <= most else f"{text[: half - 2]}…{text[1 - half :]}"
