"""Launches in which every access is right; each says what must come out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

import workbench
import workbench.language as tl
from tests.guards.planted import f, i

Given = tuple[tuple[Any, ...], Any, Any]  # arguments, what is looked at, what it must be


@dataclass(frozen=True, slots=True)
class Legal:
    """A launch: `make` gives its arguments, an array, and what that must hold afterwards."""

    kernel: Any
    make: Callable[[], Given]
    grid: tuple[int, ...] = (1,)
    named: dict[str, Any] = field(default_factory=dict[str, Any])


LEGAL: dict[str, Legal] = {}


def legal(
    name: str, kernel: Any, make: Callable[[], Given], grid: tuple[int, ...] = (1,), **named: Any
) -> None:
    """Add one."""
    assert name not in LEGAL
    LEGAL[name] = Legal(kernel, make, grid, named)


# -- one axis: x[start + i * stride] for i < n ----------------------------------------------------
@workbench.jit
def copies(x, out, n, stride, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + at, tl.load(x + at * stride, mask=at < n, other=0.0), mask=at < n)


def _copied(x: torch.Tensor, take: Callable[[torch.Tensor], torch.Tensor] | None = None) -> Given:
    out = torch.zeros(x.shape)
    want = x.clone() if take is None else take(x).clone()
    return (x, out, x.numel(), x.stride(0) if x.dim() else 0), out, want


legal("a_tail", copies, lambda: _copied(f(100)), (7,), B=16)
legal("more_programs_than_needed", copies, lambda: _copied(f(100)), (50,), B=16)
legal("a_slice", copies, lambda: _copied(f(100)[10:60]), (4,), B=16)
legal("every_second", copies, lambda: _copied(f(100)[::2]), (4,), B=16)
legal("a_column", copies, lambda: _copied(f(8, 9)[:, 4]), (1,), B=8)
legal("the_last_column", copies, lambda: _copied(f(8, 9)[:, 8]), (1,), B=8)
legal("expanded", copies, lambda: _copied(f(1).expand(64)), (4,), B=16)
legal("one_element", copies, lambda: _copied(f(1)), (1,), B=16)
legal("nothing_at_all", copies, lambda: _copied(f(0)), (1,), B=16)
legal("an_empty_grid", copies, lambda: ((f(4), (o := f(4)), 4, 1), o, f(4)), (0,), B=16)
legal("nothing_of_null", copies, lambda: ((torch.empty(0), (o := f(4)), 0, 1), o, f(4)), (1,), B=16)
legal("halves", copies, lambda: (lambda x, o: ((x, o, 50, 1), o, x.clone()))(
    f(50).half(), torch.zeros(50, dtype=torch.float16)), (4,), B=16)  # fmt: skip
legal("bytes", copies, lambda: (lambda x, o: ((x, o, 50, 1), o, x.clone()))(
    torch.arange(50).byte(), torch.zeros(50).byte()), (4,), B=16)  # fmt: skip


def _backwards() -> Given:
    x, out = np.arange(20, dtype=np.float32)[::-1], np.zeros(20, np.float32)
    return (x, out, 20, -1), out, x.copy()


legal("negative_strides", copies, _backwards, (2,), B=16)


def _in_numpy(view: Callable[[np.ndarray], np.ndarray]) -> Given:
    x = view(np.arange(64, dtype=np.float32))
    out = np.zeros(x.shape, np.float32)
    return (x, out, x.size, x.strides[0] // 4), out, x.copy()


legal("a_numpy_slice", copies, lambda: _in_numpy(lambda x: x[5:37]), (2,), B=16)
legal("a_numpy_column", copies, lambda: _in_numpy(lambda x: x.reshape(8, 8)[:, 3]), (1,), B=8)
legal("a_read_only_input", copies, lambda: _in_numpy(lambda x: np.broadcast_to(x[:1], 40)), (3,),
      B=16)  # fmt: skip
legal("from_bytes", copies, lambda: _in_numpy(lambda x: np.frombuffer(x.tobytes(), np.float32)),
      (4,), B=16)  # fmt: skip


def _dlpack() -> Given:
    class Speaks:
        def __init__(self, held: torch.Tensor) -> None:
            self.held = held

        def __dlpack__(self, **given: Any) -> Any:
            return self.held.__dlpack__()

        def __dlpack_device__(self) -> Any:
            return self.held.__dlpack_device__()

    out = torch.zeros(20)
    return (Speaks(f(20)), out, 20, 1), out, f(20)


legal("dlpack", copies, _dlpack, (2,), B=16)


# -- inside the storage, outside the view ---------------------------------------------------------
@workbench.jit
def halos(x, out, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    on = at < n
    left, right = tl.load(x + at - 1, mask=on, other=0.0), tl.load(x + at + 1, mask=on, other=0.0)
    tl.store(out + at, left + right, mask=on)


def _halo() -> Given:
    whole = f(34)
    out = torch.zeros(32)
    return (whole[1:33], out, 32), out, whole[:32] + whole[2:]


legal("a_halo", halos, _halo, (2,), B=16)


@workbench.jit
def packed(qkv, out, n_heads, width, B: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, B)
    start = qkv + row * 3 * width + at
    on = at < width
    q = tl.load(start, mask=on, other=0.0)
    k = tl.load(start + width, mask=on, other=0.0)
    v = tl.load(start + 2 * width, mask=on, other=0.0)
    tl.store(out + row * width + at, q * k + v, mask=on)


def _packed(view: bool) -> Given:
    whole = f(5, 3, 12)
    out = torch.zeros(5, 12)
    want = whole[:, 0] * whole[:, 1] + whole[:, 2]
    return (whole[:, 0] if view else whole, out, 5, 12), out, want


legal("packed_rows", packed, lambda: _packed(False), (5,), B=16)
legal("the_first_of_packed_rows", packed, lambda: _packed(True), (5,), B=16)


# -- two axes -------------------------------------------------------------------------------------
@workbench.jit
def tiles(x, out, rows, columns, sr, sc, so, R: tl.constexpr, C: tl.constexpr):
    r = tl.program_id(0) * R + tl.arange(0, R)
    c = tl.program_id(1) * C + tl.arange(0, C)
    on = (r[:, None] < rows) & (c[None, :] < columns)
    value = tl.load(x + r[:, None] * sr + c[None, :] * sc, mask=on, other=0.0)
    tl.store(out + r[:, None] * so + c[None, :], value, mask=on)


def _tiled(x: torch.Tensor) -> Given:
    out = torch.zeros(x.shape)
    return (x, out, *x.shape, *x.stride(), out.stride(0)), out, x.clone()


legal("a_matrix", tiles, lambda: _tiled(f(7, 19)), (2, 3), R=4, C=8)
legal("its_transpose", tiles, lambda: _tiled(f(7, 19).t()), (5, 1), R=4, C=8)
legal("a_window", tiles, lambda: _tiled(f(20, 30)[3:10, 5:24]), (2, 3), R=4, C=8)
legal("rows_repeated", tiles, lambda: _tiled(f(1, 19).expand(7, 19)), (2, 3), R=4, C=8)
legal("columns_repeated", tiles, lambda: _tiled(f(7, 1).expand(7, 19)), (2, 3), R=4, C=8)
legal("every_third_row", tiles, lambda: _tiled(f(21, 19)[::3]), (2, 3), R=4, C=8)


@workbench.jit
def wrapped(x, out, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + at, tl.load(x + at % n), mask=at < n)


def _wrapped() -> Given:
    x, out = f(50), torch.zeros(50)
    return (x, out, 50), out, x.clone()


legal("wrapped_indices", wrapped, _wrapped, (4,), B=16)


@workbench.jit
def clamped(x, out, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + at, tl.load(x + tl.minimum(at, n - 1)), mask=at < n)


legal("clamped_indices", clamped, _wrapped, (4,), B=16)


@workbench.jit
def boxed(x, out, rows, columns, R: tl.constexpr, C: tl.constexpr):
    block = tl.make_block_ptr(
        x, (rows, columns), (columns, 1), (tl.program_id(0) * R, 0), (R, C), (1, 0)
    )
    to = tl.make_block_ptr(
        out, (rows, columns), (columns, 1), (tl.program_id(0) * R, 0), (R, C), (1, 0)
    )
    tl.store(to, tl.load(block, boundary_check=(0, 1)), boundary_check=(0, 1))


@workbench.jit
def described(x, out, rows, columns, R: tl.constexpr, C: tl.constexpr):
    source = tl.make_tensor_descriptor(x, (rows, columns), (columns, 1), (R, C))
    to = tl.make_tensor_descriptor(out, (rows, columns), (columns, 1), (R, C))
    to.store((tl.program_id(0) * R, 0), source.load((tl.program_id(0) * R, 0)))


def _boxed() -> Given:
    x, out = f(7, 12), torch.zeros(7, 12)
    return (x, out, 7, 12), out, x.clone()


legal("boxes", boxed, _boxed, (2,), R=4, C=16)
legal("descriptors", described, _boxed, (2,), R=4, C=16)


# -- in place, data, control flow -----------------------------------------------------------------
@workbench.jit
def in_place(x, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(x + at, tl.load(x + at, mask=at < n, other=0.0) + 1, mask=at < n)


def _in_place() -> Given:
    x = f(50)
    return (x, 50), x, f(50) + 1


legal("in_place", in_place, _in_place, (4,), B=16)


@workbench.jit
def gathered(x, index, out, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    where = tl.load(index + at, mask=at < n, other=1 << 28)
    tl.store(out + at, tl.load(x + where, mask=at < n, other=0.0), mask=at < n)


@workbench.jit
def scattered(x, index, out, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    where = tl.load(index + at, mask=at < n, other=-5)
    tl.store(out + where, tl.load(x + at, mask=at < n, other=0.0), mask=where >= 0)


@workbench.jit
def counted(x, index, out, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    where = tl.load(index + at, mask=at < n, other=-5)
    tl.atomic_add(out + where, 1.0, mask=where >= 0)


def _indexed(want: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Given:
    x, index, out = f(50), (torch.arange(50) * 7 % 50).int(), torch.zeros(50)
    return (x, index, out, 50), out, want(x, index.long())


legal("a_gather", gathered, lambda: _indexed(lambda x, at: x[at]), (4,), B=16)
legal("a_scatter", scattered, lambda: _indexed(lambda x, at: torch.zeros(50).scatter(0, at, x)),
      (4,), B=16)  # fmt: skip
legal("a_histogram", counted, lambda: _indexed(lambda x, at: torch.ones(50)), (4,), B=16)


@workbench.jit
def behind_a_branch(x, out, n, B: tl.constexpr):
    row = tl.program_id(0)
    if row < n:
        tl.store(out + row, tl.load(x + row))


legal("behind_a_branch", behind_a_branch, _wrapped, (64,), B=1)


@workbench.jit
def no_rounds(x, out, n, B: tl.constexpr):
    for k in range(n - 50):
        tl.store(out + 1000 + k, tl.load(x + 100000 + k))
    at = tl.arange(0, B)
    tl.store(out + at, tl.load(x + at, mask=at < n, other=0.0), mask=at < n)


legal("a_loop_without_rounds", no_rounds, _wrapped, (1,), B=64)


@workbench.jit
def through_tables(table, out, n, B: tl.constexpr):
    at = tl.arange(0, B)
    held = tl.load(table + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    tl.store(out + tl.program_id(0) * n + at, tl.load(held + at, mask=at < n), mask=at < n)


def _table() -> Given:
    rows = [f(12) + k for k in range(3)]
    _KEPT.append(rows)
    table = i(*(row.data_ptr() for row in rows), dtype=torch.int64)
    out = torch.zeros(3, 12)
    return (table, out, 12), out, torch.stack(rows)


_KEPT: list[Any] = []
legal("a_table_of_pointers", through_tables, _table, (3,), B=16)


@workbench.jit
def chosen_pointer(x, y, out, n, B: tl.constexpr):
    at = tl.arange(0, B)
    from_ = tl.where(at < 4, x + at, y + at)
    tl.store(out + at, tl.load(from_, mask=at < n), mask=at < n)


def _chosen() -> Given:
    x, y, out = f(4), f(12) + 50, torch.zeros(12)
    return (x, y, out, 12), out, torch.cat([x, y[4:]])


legal("one_of_two_pointers", chosen_pointer, _chosen, (1,), B=16)


@workbench.jit
def by_integers(x, out, n, B: tl.constexpr):
    at = tl.arange(0, B)
    moved = (x.to(tl.int64) + 4).to(tl.pointer_type(tl.float32))
    tl.store(out + at, tl.load(moved + at, mask=at < n), mask=at < n)


def _moved() -> Given:
    x, out = f(13), torch.zeros(12)
    return (x, out, 12), out, x[1:].clone()


legal("an_address_that_was_added_to", by_integers, _moved, (1,), B=16)


@workbench.jit
def for_a_dtype(x, like, out, n, B: tl.constexpr):
    at = tl.arange(0, B)
    of = tl.load(like).dtype
    tl.store(out + at, tl.load(x + at, mask=at < n).to(of), mask=at < n)


def _like_nothing() -> Given:
    x, out = f(12) + 0.25, torch.zeros(12)
    return (x, torch.empty(0, dtype=torch.float16), out, 12), out, x.half().float()


legal("a_load_for_its_dtype", for_a_dtype, _like_nothing, (1,), B=16)


@workbench.jit
def for_its_shape(x, out, B: tl.constexpr):
    raised = tl.load(x + 10**9 + tl.arange(0, B)) + 1.0
    tl.store(out + tl.arange(0, B), tl.zeros_like(raised) + 3.0)


def _three() -> Given:
    out = torch.zeros(16)
    return (f(3), out), out, torch.full((16,), 3.0)


legal("a_load_for_the_shape_of_what_is_made_of_it", for_its_shape, _three, (1,), B=16)
