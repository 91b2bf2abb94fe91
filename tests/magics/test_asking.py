"""What a line has to say: everything that is missing at once, and nothing that is known."""

from __future__ import annotations

import numpy as np
import pytest

from workbench.magics import lines, registry
from workbench.magics.cells import run_cell
from workbench.magics.grammar import Origin, parse
from workbench.source import KernelError

CELL = """
def scale(x_ptr, out_ptr, n, BLOCK: tl.constexpr, FACTOR: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=inside) * FACTOR, mask=inside)
"""


@pytest.fixture
def names():
    registry.clear()
    return {"x": np.ones(64, np.float32), "out": np.zeros(64, np.float32)}


@pytest.mark.parametrize(
    ("given", "code", "said", "hint"),
    [
        ("", "K111", "a grid, and values for constexprs 'BLOCK', 'FACTOR'",
         'add --grid "cdiv(n, BLOCK)" --set BLOCK=… --set FACTOR=…'),
        ("--set BLOCK=64", "K111", "a grid, and a value for constexpr 'FACTOR'",
         'add --grid "cdiv(n, BLOCK)" --set FACTOR=…'),
        ("--grid 1", "K220", "values for constexprs 'BLOCK', 'FACTOR'",
         "add --set BLOCK=… --set FACTOR=…"),
    ],
)  # fmt: skip
def test_what_is_missing_is_told_at_once(names, given, code, said, hint):
    with pytest.raises(KernelError) as caught:
        run_cell(CELL, f"--args x,out,64 --target cpu {given}", names)
    assert caught.value.code == code
    assert caught.value.message == f"scale needs {said}"
    assert caught.value.hint == hint


def line(command, text, names):
    request = parse(command, text, names, Origin("In[9]", 1, len(command) + 3))
    return getattr(lines, command)(request.name, request, names)


def test_a_line_magic_takes_what_the_cell_said(names):
    asked = '--args x,out,64 --grid "cdiv(n, BLOCK)" --set BLOCK=64 --set FACTOR=2 --target cpu'
    run_cell(CELL, asked, names)
    checked = line("check", "scale", names)
    assert checked.trace.runs.checks[-1].ok
    assert checked.trace.runs.launches[-1].grid == (1,)
    other = line("check", "scale --set BLOCK=32", names)
    assert other.trace.runs.launches[-1].grid == (2,)
    assert other.plan.settings == {"BLOCK": 32, "FACTOR": 2}


def test_a_kernel_that_nobody_ran_is_asked_about(names):
    names["scale"] = run_cell(CELL, "", names).kernel
    with pytest.raises(KernelError, match="what are the arguments of scale"):
        line("check", "scale", names)
