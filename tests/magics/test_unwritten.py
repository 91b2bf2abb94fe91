"""`--check` sees what a kernel left as it was, though it is right."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from workbench import run_cell
from workbench.source import CheckError

COPY = """
def copy(x_ptr, out_ptr, n, last, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, x, mask=offsets < last)
"""
ADD_INTO = """
def add_into(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out_ptr + offsets, tl.load(x_ptr + offsets))
"""
LINE = "--args x,out,7,{last} --grid 3 --set BLOCK=3 --target cpu"


def notes(result) -> list[str]:
    return [s.why for t in result.traces for s in t.runs.skipped if s.what == "check"]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8", "bool", "int64"])
def test_what_was_right_before_is_said(dtype: str):
    x = torch.arange(7).to(getattr(torch, dtype))
    names = {"x": x, "out": x.clone()}
    result = run_cell(COPY, LINE.format(last=5) + " --check x", names)
    assert result.trace_with("asm").runs.checks[0].ok
    said = "2 of 7 elements of out were not written, the first is out[5]: what they hold was right"
    assert notes(result) == [f"{said} before the launch"]
    assert torch.equal(names["out"], x)
    assert "not done: check: 2 of 7 elements of out were not written" in repr(result)


def test_a_launch_that_writes_nothing_is_no_check():
    x = np.arange(7, dtype=np.float32)
    with pytest.raises(CheckError) as e:
        run_cell(COPY, LINE.format(last=0) + " --check x", {"x": x, "out": x.copy()})
    assert e.value.code == "K604"
    assert e.value.message.startswith("nothing was written to out: what it holds, which is right,")
    assert (e.value.span.line, e.value.span.column) == (6, 5)
    with pytest.raises(CheckError, match="nothing was written to out"):
        run_cell(COPY, LINE.format(last=0) + " --check", {"x": x, "out": x.copy()})


def test_a_kernel_that_writes_all_is_not_talked_about():
    x = torch.arange(7.0)
    for out in (torch.zeros(7), x.clone(), -x):
        result = run_cell(COPY, LINE.format(last=7) + " --check x", {"x": x, "out": out})
        assert notes(result) == []
        assert torch.equal(out, x)


def test_a_reference_that_reads_the_output_says_what_stays():
    names = {"x": torch.ones(7), "out": torch.zeros(7), "torch": torch}
    check = ' --check "torch.cat([x[:3], out[3:]])"'
    assert notes(run_cell(COPY, LINE.format(last=3) + check, names)) == []
    assert names["out"].tolist() == [1, 1, 1, 0, 0, 0, 0]
    assert notes(run_cell(COPY, LINE.format(last=0) + " --check out", names)) == []


def test_the_interpreter_as_reference_lets_parts_stay():
    names = {"x": torch.ones(7), "out": torch.zeros(9)}
    assert notes(run_cell(COPY, LINE.format(last=7) + " --check", names)) == []


def test_outputs_that_are_updated_or_shared_are_launched_once():
    names = {"x": torch.ones(6), "out": torch.zeros(6), "both": torch.arange(7.0)}
    line = "--args x,out --grid 2 --set BLOCK=3 --target cpu --check 'x'"
    assert notes(run_cell(ADD_INTO, line, names)) == []
    assert names["out"].tolist() == [1.0] * 6
    line = LINE.format(last=4).replace("x,out", "both,both") + " --check x_ptr"
    assert notes(run_cell(COPY, line, names)) == []
    assert names["both"].tolist() == list(range(7))


def test_strides_are_followed():
    base = torch.zeros(7, 2)
    names = {"x": torch.zeros(7), "out": base[:, 0], "zeros": torch.zeros(7)}
    body = COPY.replace("out_ptr + offsets", "out_ptr + offsets * 2")
    result = run_cell(body, LINE.format(last=6) + " --check zeros", names)
    assert notes(result)[0].startswith(
        "1 of 7 elements of out were not written, the first is out[6]"
    )
    assert not base.any()
