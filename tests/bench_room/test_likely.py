"""What a failed check says where the arguments alone show what is wrong."""

from __future__ import annotations

import pytest
import torch

import workbench as wb
from workbench import tl
from workbench.source import CheckError, OptionError

N = 64


@wb.jit
def doubled(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, 2 * tl.load(x_ptr + i, mask=i < n), mask=i < n)


@wb.jit
def rows_doubled(x_ptr, out_ptr, stride, BLOCK: tl.constexpr):
    i, j = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    tl.store(out_ptr + i * BLOCK + j, 3 * tl.load(x_ptr + i + j * stride))


@wb.jit
def total(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out_ptr, tl.sum(tl.load(x_ptr + i, mask=i < n, other=0.0)))


def failed(kernel, grid, *arguments, reference, **constants) -> str:
    with pytest.raises(CheckError) as caught:
        wb.check(kernel, reference, args=arguments, grid=grid, target="cpu", **constants)
    return str(caught.value)


@pytest.mark.parametrize("kind", ["torch", "numpy"])
def test_an_array_that_is_read_as_if_it_were_contiguous(kind: str):
    x = torch.arange(float(N)).reshape(8, 8).t()
    out = torch.zeros(8, 8)
    given = (x.numpy(), out.numpy()) if kind == "numpy" else (x, out)
    text = failed(doubled, (2,), *given, N, reference=lambda x_ptr: 2 * x_ptr, BLOCK=32)
    assert "x_ptr is not contiguous, (1, 8) elements apart along its axes" in text
    assert "x_ptr.contiguous()" in text


@pytest.mark.parametrize("shape", [(8, 8), (1, 64), (64, 1)])
def test_nothing_of_the_sort_where_strides_are_given_or_arrays_lie_in_order(shape):
    x = torch.arange(float(N)).reshape(8, 8).t()
    text = failed(rows_doubled, (1,), x, torch.zeros(8, 8), 8, reference=lambda x_ptr: x_ptr,
                  BLOCK=8)  # fmt: skip
    assert "contiguous" not in text
    x = torch.arange(float(N)).reshape(shape)
    text = failed(doubled, (2,), x, torch.zeros(shape), N, reference=lambda x_ptr: x_ptr, BLOCK=32)
    assert "contiguous" not in text


def test_what_was_there_before_a_launch_that_adds():
    x, out = torch.rand(N), torch.full((1,), 7.0)
    text = failed(total, (2,), x, out, N, reference=lambda x_ptr: x_ptr.sum()[None], BLOCK=32)
    assert "out_ptr[0] held 7 before the launch, which adds to it" in text


def test_nothing_of_what_was_there_before_where_the_sum_is_another():
    x = torch.ones(N)
    for before in (0.0, 7.0):
        out = torch.full((1,), before)
        text = failed(total, (2,), x, out, N, reference=lambda x_ptr: 3 * x_ptr.sum()[None],
                      BLOCK=32)  # fmt: skip
        assert "held" not in text


def test_nobody_stored_what_held_the_difference_to_zero():
    out = torch.full((N,), 5.0)
    text = failed(
        doubled, (1,), torch.zeros(N), out, N, reference=lambda x_ptr: 2 * x_ptr, BLOCK=32
    )
    assert "no program stored it" in text
    assert "held" not in text


def test_meta_in_a_grid_is_told_how_it_is_written():
    names = {"x": torch.ones(N), "out": torch.ones(N)}
    line = "k --set BLOCK=32 --args x,out --target cpu --grid \"cdiv(64, META['BLOCK'])\""
    body = "def k(x_ptr, out_ptr, BLOCK: tl.constexpr):\n    pass\n"
    with pytest.raises(OptionError, match=r"cdiv\(n, BLOCK\)"):
        wb.run_cell(body, line, names)
    wb.run_cell(body, line.replace('"cdiv', '"lambda META: cdiv'), names)
