"""Results that are found again by name: how many, and what they hold on to."""

from __future__ import annotations

import gc
import types

import numpy as np
import pytest

from workbench import run_cell
from workbench.bench.results import KernelResult
from workbench.launch.options import check_options
from workbench.magics import lines, registry
from workbench.source import KernelError

WRONG = """import triton
import triton.language as tl

@triton.jit
def k(x):
    y = tl.load(x)
    tl.store(x, y + there_is_no_such_name)
"""


@pytest.fixture
def empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_results", {})
    monkeypatch.setattr(registry, "_order", [])
    monkeypatch.setattr(registry, "_latest", [])
    monkeypatch.setattr(registry.compiled_by_torch, "results", list)


@pytest.mark.usefixtures("empty")
def test_the_oldest_go_and_the_latest_of_each_kernel_stay_longest(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(registry, "IN_ALL", 4)
    made = [KernelResult(None, name, []) for name in "aabbcca"]
    for result in made[:6]:
        registry.add(result)
    assert list(registry.results()) == [made[1], made[3], made[4], made[5]]
    registry.add(made[6])
    assert list(registry.results()) == [made[6], made[3], made[4], made[5]]
    for name in "defg":
        registry.add(KernelResult(None, name, []))
    assert registry.names() == ["d", "e", "f", "g"]


@pytest.mark.usefixtures("empty")
def test_only_the_latest_error_holds_the_frames_of_the_compiler():
    def compiler_frames() -> int:
        gc.collect()
        found = (o for o in gc.get_objects() if type(o) is types.TracebackType)
        return sum("frontend" in step.tb_frame.f_code.co_filename for step in found)

    counts: list[int] = []
    for _ in range(4):
        with pytest.raises(KernelError):
            run_cell(WRONG, "k --sig *f32 --target cpu -q", {}, file="cell")
        counts.append(compiler_frames())
    assert counts[0] > 0
    assert counts[1:] == counts[:1] * 3
    known = list(registry.results())
    assert [result.error.__traceback__ is None for result in known] == [True, True, True, False]
    assert "there_is_no_such_name" in str(known[0].error)


@pytest.mark.usefixtures("empty")
def test_a_cell_that_knew_no_types_is_found_as_its_launches_compiled_it():
    """As a tutorial has it: the kernel in one cell, its launch in a later one."""
    names: dict[str, object] = {"np": np}
    text = (
        "def twice(x, n: tl.constexpr):\n"
        "    i = tl.arange(0, n)\n"
        "    tl.store(x + i, 2 * tl.load(x + i))\n"
    )
    run_cell(text, "-q", names, file="cell")
    with pytest.raises(KernelError, match="twice for python has no tile IR"):
        lines.tile("twice", namespace=names)
    exec("x = np.ones(4, np.float32)\ntwice[(1,)](x, n=4)", names)
    assert "kernel @twice" in lines.tile("twice", namespace=names)
    assert [result.records[0].trace.kernel.target for result in registry.results()] == ["cpu"]
    with pytest.raises(KernelError) as caught:
        lines.ptx("twice", namespace=names)
    assert "%ptx twice@sm_90a" in str(caught.value)


def test_options_of_triton_for_amd_change_nothing():
    """Triton's tutorials list them for every device that is not CUDA's."""
    assert check_options({"matrix_instr_nonkdim": 16, "waves_per_eu": 2, "num_warps": 8}) == (
        ("num_warps", 8),
    )
