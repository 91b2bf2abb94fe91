"""Sixty accesses that leave the memory they may touch; the line of each says `# here`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

import workbench
import workbench.language as tl


@dataclass(frozen=True, slots=True)
class Fault:
    """A launch that goes wrong: what it is launched with, and what the error says."""

    kernel: Any
    arguments: Callable[[], tuple[Any, ...]]
    says: str
    grid: tuple[int, ...] = (1,)
    named: dict[str, Any] = field(default_factory=dict[str, Any])
    code: str = "K502"

    @property
    def line(self) -> int:
        """The line of the access."""
        source = self.kernel.kernel_source
        lines = source.text.splitlines()
        return source.first_line + next(n for n, text in enumerate(lines) if "# here" in text)


PLANTED: dict[str, Fault] = {}


def fault(
    name: str, kernel: Any, arguments: Callable[[], tuple[Any, ...]], says: str, **more: Any
) -> None:
    """Add one."""
    assert name not in PLANTED
    PLANTED[name] = Fault(kernel, arguments, says, **more)


def f(*shape: int) -> torch.Tensor:
    """Return numbers counted from 1."""
    return torch.arange(1, 1 + int(np.prod(shape)), dtype=torch.float32).reshape(shape)


def i(*values: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    """Return integers."""
    return torch.tensor(values, dtype=dtype)


def null() -> torch.Tensor:
    """Return a tensor that has a shape and no memory."""
    found = torch.empty(64)
    found.untyped_storage().resize_(0)
    return found


# -- past the end, before the start ---------------------------------------------------------------
@workbench.jit
def loads(x, out, n, shift, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    value = tl.load(x + at + shift, mask=at < n, other=0.0)  # here
    tl.store(out + at, value, mask=at < 0)


@workbench.jit
def stores(x, out, n, shift, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    value = tl.load(x + at, mask=at < 4, other=1.0)
    tl.store(out + at + shift, value, mask=at < n)  # here


@workbench.jit
def adds(x, out, n, shift, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    value = tl.load(x + at, mask=at < 4, other=1.0)
    tl.atomic_add(out + at + shift, value, mask=at < n)  # here


@workbench.jit
def swaps(x, out, n, shift, B: tl.constexpr):
    at = tl.program_id(0)
    tl.atomic_cas(out + at + shift, 0, 1)  # here
    tl.store(x + at, 0.0, mask=at < n - n)


def _two() -> tuple[Any, ...]:
    return f(64), f(64)


for _name, _kernel, _which in (
    ("load", loads, "x"),
    ("store", stores, "out"),
    ("atomic", adds, "out"),
):
    for _n, _shift, _says, _how in (
        (65, 0, f"0 to 4 bytes past the end of {_which}", "one_past"),
        (64, 1, f"0 to 4 bytes past the end of {_which}", "shifted_past"),
        (64, -1, f"4 bytes before the start of {_which}", "before"),
        (1, 1 << 20, f"past the end of {_which}", "far_past"),
        (1, -(1 << 20), f"before the start of {_which}", "far_before"),
    ):
        fault(f"{_name}_{_how}", _kernel, lambda n=_n, s=_shift: (*_two(), n, s), _says,
              grid=(5,), named={"B": 16})  # fmt: skip
    fault(f"{_name}_last_program_only", _kernel, lambda: (*_two(), 1 << 20, 0),
          f"past the end of {_which}", grid=(5,), named={"B": 16})  # fmt: skip
    fault(f"{_name}_one_lane_of_the_last", _kernel, lambda: (f(127), f(127), 128, 0),
          f"0 to 4 bytes past the end of {_which}", grid=(2,), named={"B": 64})  # fmt: skip
    _null = (lambda: (null(), f(64), 4, 0)) if _which == "x" else (lambda: (f(64), null(), 4, 0))
    fault(f"{_name}_null", _kernel, _null, f"{_which} has no memory", named={"B": 16})
    _empty = (lambda: (f(64)[:0].clone(), f(64), 4, 0)) if _which == "x" else (
        lambda: (f(64), f(64)[:0].clone(), 4, 0))  # fmt: skip
    fault(f"{_name}_empty", _kernel, _empty, f"{_which} ", named={"B": 16})
fault("exchange_past", swaps, lambda: (f(4), i(*range(4)), 1, 1), "past the end of out", grid=(4,),
      named={"B": 16})  # fmt: skip
fault("exchange_before", swaps, lambda: (f(4), i(*range(4)), 1, -1), "before the start of out",
      grid=(4,), named={"B": 16})  # fmt: skip


fault("exchange_null", swaps, lambda: (f(4), null().view(torch.int32), 1, 0), "out has no memory",
      grid=(4,), named={"B": 16})  # fmt: skip


# -- strides, casts -------------------------------------------------------------------------------
@workbench.jit
def rows(x, out, n_rows, n_columns, stride, B: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, B)
    value = tl.load(x + row * stride + at, mask=at < n_columns, other=0.0)  # here
    tl.store(out + row * n_columns + at, value, mask=at < n_columns - n_columns)


fault("stride_too_wide", rows, lambda: (f(4, 8), f(4, 8), 4, 8, 9), "past the end of x", grid=(4,),
      named={"B": 8})  # fmt: skip
fault("stride_of_the_transposed", rows, lambda: (f(4, 8).t(), f(4, 8), 8, 8, 8),
      "past the end of x", grid=(8,), named={"B": 8})  # fmt: skip
fault("negative_stride", rows, lambda: (f(4, 8), f(4, 8), 4, 8, -8), "before the start of x",
      grid=(4,), named={"B": 8})  # fmt: skip
fault("a_row_too_many", rows, lambda: (f(4, 8), f(4, 8), 4, 8, 8), "past the end of x", grid=(5,),
      named={"B": 8})  # fmt: skip


@workbench.jit
def columns(x, out, n_rows, n_columns, stride, B: tl.constexpr):
    row = tl.program_id(0) * 2 + tl.arange(0, 2)
    at = tl.arange(0, B)
    inside = (row[:, None] < n_rows) & (at[None, :] < n_columns)
    value = tl.load(x + row[:, None] * stride + at[None, :], mask=inside, other=0.0)
    tl.store(out + row[:, None] + at[None, :] * stride, value, mask=inside)  # here


fault("transposed_with_the_wrong_stride", columns, lambda: (f(4, 8), f(8, 4), 4, 8, 8),
      "past the end of out", grid=(2,), named={"B": 8})  # fmt: skip


@workbench.jit
def widened(x, out, n, B: tl.constexpr):
    at = tl.arange(0, B)
    wide = x.to(tl.pointer_type(tl.int64))
    value = tl.load(wide + at, mask=at < n, other=0)  # here
    tl.store(out + at, value, mask=at < 0)


fault("wide_cast", widened, lambda: (f(8), i(*range(8), dtype=torch.int64), 8),
      "past the end of x", named={"B": 8})  # fmt: skip
fault("wide_cast_across_the_end", widened, lambda: (f(7), i(*range(8), dtype=torch.int64), 4),
      "past the end of x", named={"B": 4})  # fmt: skip


@workbench.jit
def scalar_rows(x, out, n, B: tl.constexpr):
    row = tl.program_id(0)
    value = tl.load(x + row + n)  # here
    tl.store(out + row, value, mask=row < 0)


fault("one_number", scalar_rows, lambda: (f(4), f(4), 4), "0 to 4 bytes past the end of x",
      named={"B": 1})  # fmt: skip
fault("one_number_before", scalar_rows, lambda: (f(4), f(4), -1), "4 bytes before the start of x",
      named={"B": 1})  # fmt: skip


# -- data decides ---------------------------------------------------------------------------------
@workbench.jit
def gathers(x, index, out, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    where = tl.load(index + at, mask=at < n, other=0)
    value = tl.load(x + where, mask=at < n, other=0.0)  # here
    tl.store(out + at, value, mask=at < n)


@workbench.jit
def scatters(x, index, out, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    where = tl.load(index + at, mask=at < n, other=0)
    value = tl.load(x + at, mask=at < n, other=0.0)
    tl.store(out + where, value, mask=at < n)  # here


@workbench.jit
def counts(x, index, out, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    where = tl.load(index + at, mask=at < n, other=0)
    tl.atomic_add(out + where, 1.0, mask=at < n)  # here


for _name, _kernel, _which in (
    ("gather", gathers, "x"), ("scatter", scatters, "out"), ("histogram", counts, "out"),
):  # fmt: skip
    for _how, _values, _says in (
        ("past", (0, 1, 2, 8), "past the end of"), ("before", (0, -1, 2, 3), "before the start"),
        ("far", (0, 1, 1 << 30, 3), "past the end of"),
    ):  # fmt: skip
        fault(f"{_name}_{_how}", _kernel, lambda v=_values: (f(8), i(*v), f(8), 4),
              f"{_says}", named={"B": 4})  # fmt: skip
    fault(f"{_name}_one_lane_in_the_last_program", _kernel,
          lambda w=_which: (f(256 + (w != "x")), torch.arange(255, -2, -1).int(), f(256), 257),
          "before the start of", grid=(5,), named={"B": 64})  # fmt: skip


@workbench.jit
def loops(x, out, n, B: tl.constexpr):
    total = tl.zeros((B,), tl.float32)
    for start in range(0, n, B):
        total += tl.load(x + start + tl.arange(0, B))  # here
    tl.store(out + tl.arange(0, B), total)


fault("the_last_round_of_a_loop", loops, lambda: (f(60), f(16), 60), "past the end of x",
      named={"B": 16})  # fmt: skip


@workbench.jit
def whiles(x, out, n, B: tl.constexpr):
    at = 0
    while tl.load(x + at) != 0.0:  # here
        at += 1
    tl.store(out, at)


fault("a_loop_that_nothing_ends", whiles, lambda: (f(16), f(16), 60), "past the end of x",
      named={"B": 16})  # fmt: skip


@workbench.jit
def chosen(x, y, out, B: tl.constexpr):
    at = tl.arange(0, B)
    from_ = tl.where(at < 4, x + at, y + at)
    tl.store(out + at, tl.load(from_))  # here


fault("one_of_two", chosen, lambda: (f(8), f(7), f(8)), "past the end of y", named={"B": 8})


@workbench.jit
def divided(x, out, by, n, B: tl.constexpr):
    at = tl.arange(0, B)
    value = tl.load(x + at, mask=at // by < n, other=0.0)  # here
    tl.store(out + at, value)


fault(
    "by_a_negative_number", divided, lambda: (f(8), f(16), -1, 1), "past the end of x",
    named={"B": 16},
)  # fmt: skip


@workbench.jit
def counts_down(x, out, n):
    for k in range(n, 0, -1):
        value = tl.load(x + k)  # here
        tl.store(out + k - 1, value)


fault("first_of_what_counts_down", counts_down, lambda: (f(8), f(8), 8), "past the end of x")


@workbench.jit
def otherwise(x, out, n):
    pid = tl.program_id(0)
    if pid < n:
        tl.store(out + pid, 1.0)
    else:
        tl.store(out + pid, tl.load(x + (n - pid + 8)))  # here


fault("first_of_the_others", otherwise, lambda: (f(8), f(4), 2), "past the end of x", grid=(4,))


def _side_by_side() -> tuple[Any, ...]:
    """Return arrays side by side, each with memory of its own as far as anyone knows."""
    memory = memoryview(np.zeros(32, np.float32)).cast("B")
    return tuple(np.frombuffer(memory[n : n + 64], np.float32) for n in (0, 64))


@workbench.jit
def neighbours(x, out, n, B: tl.constexpr):
    at = tl.arange(0, B)
    tl.store(out + at, tl.load(x + at, mask=at < n, other=0.0) + 1, mask=at < 16)  # here


fault("the_neighbours_array", neighbours, lambda: (*_side_by_side(), 17), "outside x",
      named={"B": 32})  # fmt: skip


@workbench.jit
def tables(table, out, B: tl.constexpr):
    at = tl.arange(0, B)
    address = tl.load(table + tl.program_id(0))
    held = address.to(tl.pointer_type(tl.float32))
    tl.store(out + at, tl.load(held + at))  # here


fault("a_null_in_a_table", tables, lambda: (i(0, dtype=torch.int64), f(8)), "null pointer",
      named={"B": 8})  # fmt: skip
fault("a_wild_address_in_a_table", tables, lambda: (i(1 << 46, dtype=torch.int64), f(8)),
      "load outside every argument", named={"B": 8})  # fmt: skip
fault("a_small_number_in_a_table", tables, lambda: (i(4000, dtype=torch.int64), f(8)),
      "null pointer", named={"B": 8})  # fmt: skip


def _read_only() -> np.ndarray:
    found = np.zeros(16, np.float32)
    found.flags.writeable = False
    return found


@workbench.jit
def through_a_table(table, seen, B: tl.constexpr):
    at = tl.arange(0, B)
    address = tl.load(table)
    held = address.to(tl.pointer_type(tl.float32))
    tl.store(held + at, tl.load(seen + at))  # here


def _table_of_read_only() -> tuple[Any, ...]:
    array = _read_only()
    return np.array([array.ctypes.data], np.int64), array


fault("a_read_only_array_in_a_table", through_a_table, _table_of_read_only, "read-only",
      named={"B": 8}, code="K505")  # fmt: skip


@workbench.jit
def boxes(x, out, n, B: tl.constexpr):
    block = tl.make_block_ptr(x, (n,), (1,), (tl.program_id(0) * B,), (B,), (0,))
    value = tl.load(block)  # here
    tl.store(out + tl.arange(0, B), value)


fault("a_box_without_a_boundary_check", boxes, lambda: (f(24), f(16), 24), "past the end of x",
      grid=(2,), named={"B": 16})  # fmt: skip


@workbench.jit
def turned(x, at, out, B: tl.constexpr):
    place = tl.arange(0, B)[:, None] + tl.arange(0, B)[None, :] * B  # lanes lie along the rows
    value = tl.load(x + tl.load(at + place))  # here
    tl.store(out + place, value)


def _two_wrong_indices() -> tuple[Any, ...]:
    at = torch.zeros(32, 32, dtype=torch.int32)
    at[2, 1], at[0, 3] = 100, 200  # elements (1, 2) and (3, 0)
    return f(64), at, f(32, 32)


fault("the_first_of_two_lanes_of_a_turned_tile", turned, _two_wrong_indices,
      "144 to 148 bytes past the end of x", named={"B": 32})  # fmt: skip
