from __future__ import annotations

import numpy as np

import workbench as wb
from tests.runtime.kernels import add, fill
from workbench import tl
from workbench.devices.cuda import STICKY
from workbench.runtime.faults import locate
from workbench.source import LaunchError


@wb.jit
def unmasked(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets))


LOST = LaunchError(STICKY[700], notes=["the CUDA context is lost"], code="K502")


def test_an_access_is_located_by_its_line_and_element():
    x, out = np.zeros(7, np.float32), np.zeros(9, np.float32)
    kernel = unmasked.warmup(x, out, BLOCK=3, grid=(3,), target="interpreter")
    error = locate(kernel, (3,), {"x_ptr": x, "out_ptr": out}, LOST)
    assert error.code == "K502"
    assert error.message.startswith("load outside every argument: 0 to 4 bytes past the end of x")
    assert error.span.line == unmasked.kernel_source.first_line + 2
    notes = [note.text for note in error.notes]
    assert "located by running program (2, 0, 0) in the interpreter with the same shapes" in notes
    assert notes[-1] == "the CUDA context is lost"


def test_an_access_that_is_not_found_leaves_the_error_as_it_is(seven):
    kernel = add.warmup(*seven, 7, BLOCK=3, grid=(3,), target="interpreter")
    values = dict(zip(add.arg_names, (*seven, 7, 3), strict=True))
    assert locate(kernel, (3,), values, LOST) is LOST


def test_strided_arrays_reach_as_far_as_their_last_element():
    out = np.zeros((4, 8), np.float32)[:, 0]
    kernel = fill.warmup(out, 1.0, 25, BLOCK=25, grid=(1,), target="interpreter")
    values = {"out_ptr": out, "value": 1.0, "n": 25, "BLOCK": 25}
    assert locate(kernel, (1,), values, LOST) is LOST
    values["n"] = 26
    kernel = fill.warmup(out, 1.0, 26, BLOCK=26, grid=(1,), target="interpreter")
    assert locate(kernel, (1,), values, LOST).message.startswith("store outside every argument")
