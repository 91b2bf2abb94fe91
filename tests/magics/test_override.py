"""`%%override`: a cell to edit, what comes of it, compared with the kernel on the same inputs."""

from __future__ import annotations

import pytest

import workbench as wb
from tests.magics.sources import ADD
from workbench.magics import lines, overriding, registry
from workbench.magics.cells import default_names
from workbench.magics.grammar import parse
from workbench.source import CheckError, CompileError, LaunchError, OptionError

torch = pytest.importorskip("torch")

CELL = """
import torch
x, y, out = torch.arange(200.0), torch.ones(200), torch.zeros(200)

@kernel(grid=lambda n, BLOCK: (cdiv(n, BLOCK),))"""
CELL += ADD


@pytest.fixture(scope="module")
def names():
    registry.clear()
    found = default_names()
    wb.run_cell(CELL, "--args x,y,out,200 --set BLOCK=64 --target cpu", found, file="In[1]")
    return found


def edit(names, stage, old="", new="", options=""):
    head, _, body = overriding.override_text("add", stage, namespace=names).partition("\n")
    assert old in body
    line = f"{head.removeprefix('%%override ')} {options}"
    return overriding.run_override(body.replace(old, new), line, names, file="In[2]")


def test_the_cell_holds_the_present_text(names):
    cell = overriding.override_text("add", "tile", namespace=names)
    assert cell.startswith("%%override add@cpu tile\nkernel @add(")


@pytest.mark.parametrize("stage", ["tile", "llvm"])
def test_an_edit_is_run_beside_the_kernel(names, stage):
    add, swapped = {"tile": ("[%x, %y]", "[%y, %x]"), "llvm": ("fadd", "fadd")}[stage]
    before = names["out"].clone()
    found = edit(names, stage, add, swapped, "--as edited")
    assert names["edited"] is found is names["_kernel"]
    rows = {name: (one, two) for name, one, two in found.rows}
    assert rows["result"] == ("out_ptr", "the same, bit for bit")
    assert all(text.endswith(" ms") for text in rows["run"])
    assert found.check.ok
    assert found.traces[0].kernel.overridden == stage
    assert found.traces[1].kernel.overridden is None
    assert found.comparison.startswith(f"add for cpu\n  {stage} edited")
    assert torch.equal(names["out"], before)
    assert registry.find("add").trace.kernel.overridden is None


def test_another_result_is_an_error_with_everything(names):
    with pytest.raises(CheckError, match="differs from the unedited kernel") as raised:
        edit(names, "tile", "tile.add [%x, %y]", "tile.sub [%x, %y]")
    rows = {name: two for name, _, two in raised.value.result.rows}
    assert rows["result"].startswith("WRONG")
    assert "bisect" not in raised.value.render(), "it would look at the unedited kernel"
    assert edit(names, "tile", "[%x, %y]", "[%y, %x]", "--no-run").check is None


def test_errors_point_into_the_cell(names):
    with pytest.raises(CompileError) as raised:
        edit(names, "llvm", "fadd", "faxd")
    span = raised.value.span
    assert span.file == "In[2]"
    assert "faxd" in raised.value.render().splitlines()[2]


def test_a_line_that_asks_for_the_text_says_what_it_does_not_do(names):
    def asked(line):
        return overriding.text_asked_for(parse("override", line, names), names)

    assert asked("add tile --target cpu").startswith("%%override add@cpu tile\n")
    assert asked("add llvm --target sm_80").startswith("%%override add@sm_80 llvm\n")
    for line in ("add tile --set BLOCK=128", "add tile --sig i32", "add tile --assume n>3"):
        with pytest.raises(OptionError, match="names settings"):
            asked(line)
    with pytest.raises(OptionError, match="another target than --target sm_80"):
        asked("add@cpu tile --target sm_80")


def test_what_cannot_be_edited_is_said(names):
    with pytest.raises(OptionError, match="compiled for cpu, which cannot go on from 'ptx'"):
        overriding.override_text("add", "ptx", namespace=names)
    with pytest.raises(OptionError, match="'sass' is no stage that can be edited"):
        overriding.override_text("add", "sass", namespace=names)
    with pytest.raises(OptionError, match="a kernel and a stage"):
        overriding.run_override("", "add", names)


def test_the_passes_of_llvm(names):
    listed = lines.passes("add", llvm_passes=True, namespace=names)
    assert "LLVM's passes that changed add for cpu" in listed
    assert "Instruction Selection" in listed
    shown = lines.passes("add", "codegenprepare", llvm_passes=True, namespace=names)
    assert "+++ after codegenprepare" in shown
    with pytest.raises(OptionError, match="no pass of LLVM's 'nothing'"):
        lines.passes("add", "nothing", llvm_passes=True, namespace=names)


@pytest.fixture
def of_a_gpu():
    """Return the names after a cell that was run on the CPU and compiled for a chip to look at."""
    if torch.cuda.is_available():
        pytest.skip("the edit is launched")
    registry.clear()
    found = default_names()
    wb.run_cell(CELL, "--args x,y,out,200 --set BLOCK=64", found, file="In[1]")
    yield found
    registry.clear()


def of_gpu_ir(names, old, new):
    head, _, body = overriding.override_text("add", "gpu", namespace=names).partition("\n")
    assert old in body
    return overriding.run_override(
        body.replace(old, new), head.removeprefix("%%override "), names, file="In[2]"
    )


def test_without_a_gpu_gpu_ir_is_compared_in_the_interpreter(of_a_gpu):
    found = of_gpu_ir(of_a_gpu, "[%x, %y]", "[%y, %x]")
    rows = {name: (one, two) for name, one, two in found.rows}
    assert rows["result"] == ("out_ptr", "the same, bit for bit")
    assert rows["run"][0] == "GPU IR in the interpreter: no CUDA device"
    assert found.check.ok
    with pytest.raises(CheckError, match="differs from the unedited kernel"):
        of_gpu_ir(of_a_gpu, "tile.add [%x, %y]", "tile.sub [%x, %y]")
    with pytest.raises(LaunchError) as raised:
        of_gpu_ir(of_a_gpu, "tile.lt", "tile.le")
    assert raised.value.code == "K502"
    assert raised.value.span.file == "In[2]"


def test_many_programs_are_not_interpreted(of_a_gpu, monkeypatch):
    monkeypatch.setattr(overriding, "MOST_INTERPRETED", 3)
    found = of_gpu_ir(of_a_gpu, "[%x, %y]", "[%y, %x]")
    said = "not launched: no CUDA device, and 4 programs are many for the interpreter"
    assert ("run", said, "") in found.rows


def test_as_replaces_an_earlier_edit_and_nothing_else(names):
    first = edit(names, "tile", "[%x, %y]", "[%y, %x]", "--as edited")
    assert edit(names, "tile", "[%x, %y]", "[%y, %x]", "--as edited") is names["edited"]
    assert names["edited"] is not first
    with pytest.raises(OptionError, match="--as out would replace out") as caught:
        edit(names, "tile", "[%x, %y]", "[%y, %x]", "--as out")
    assert caught.value.code == "K123"
