"""Going on from the edited text of a stage: same text, same code; edits; refusals at their row."""

from __future__ import annotations

import re

import numpy as np
import pytest

import workbench as wb
from workbench import tl
from workbench.runtime import guards
from workbench.source import CompileError, LaunchError, OptionError
from workbench.targets.nvidia.toolchain import find


@wb.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


@wb.jit
def product(a_ptr, b_ptr, c_ptr, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    i, j = tl.arange(0, BM)[:, None], tl.arange(0, BN)[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a, b = tl.load(a_ptr + i * K + k[None, :]), tl.load(b_ptr + k[:, None] * BN + j)
        total = tl.dot(a, b, total)
    tl.store(c_ptr + i * BN + j, total)


ADD = ("*f32:16 *f32:16 *f32:16 i32", {"BLOCK": 128})
PRODUCT = ("*f16:16 *f16:16 *f32:16 i32:16", {"BM": 32, "BN": 32, "BK": 16})
_PLACE = re.compile(r"\s*(\.loc|//|\.file|\$L__tmp|\$L__func)")


def compiled(target, override=None, kernel=add, words=ADD):
    return wb.compile(kernel, *words, target, num_warps=4, override=override)


def code(kernel):
    text = kernel.asm["asm" if kernel.target == "cpu" else "ptx"]
    return [line for line in text.splitlines() if not _PLACE.match(line)]


@pytest.mark.parametrize(("kernel", "words"), [(add, ADD), (product, PRODUCT)])
@pytest.mark.parametrize(
    ("target", "stages"), [("cpu", ("tile", "llvm")), ("sm_90a", ("tile", "gpu", "llvm", "ptx"))]
)
def test_the_text_as_it_was_gives_the_code_as_it_was(kernel, words, target, stages):
    plain = compiled(target, None, kernel, words)
    for stage in stages:
        again = compiled(target, {stage: plain.asm[stage]}, kernel, words)
        assert code(again) == code(plain), stage
        assert again.hash != plain.hash
        assert again.trace.kernel.overridden == stage
        assert plain.trace.kernel.overridden is None
        assert compiled(target, None, kernel, words).hash == plain.hash


def test_an_edit_is_compiled_and_shown():
    plain = compiled("sm_90a")
    text = plain.asm["gpu"]
    edited = compiled("sm_90a", {"gpu": text.replace("tile.add [%x, %y]", "tile.sub [%x, %y]")})
    assert "sub.f32" in edited.asm["ptx"]
    assert "sub.f32" not in compiled("sm_90a").asm["ptx"]
    step = edited.trace.passes[-1]
    assert (step.name, step.pipe, step.changed) == ("override", "gpu", True)
    source = edited.trace.sources[-1]
    assert (
        edited.trace.strings[source.text].rstrip() == text.replace("add [%x,", "sub [%x,").rstrip()
    )


def test_edited_code_runs_and_the_kernel_stays_what_it_was():
    x, y = (np.arange(200, dtype=np.float32) + n for n in (0, 5))
    plain = compiled("cpu")
    edits = {"tile": ("tile.add [%x, %y]", "tile.sub [%x, %y]"), "llvm": ("fadd", "fsub")}
    with guards.guarding(True):
        for stage, (old, new) in edits.items():
            edited = compiled("cpu", {stage: plain.asm[stage].replace(old, new)})
            for kernel, want in ((edited, x - y), (plain, x + y)):
                out = np.zeros_like(x)
                kernel[2,](x, y, out, 200)
                np.testing.assert_array_equal(out, want)
        unmasked = plain.asm["tile"].replace("tile.lt", "tile.le")
        with pytest.raises(LaunchError) as raised:  # edited tile IR is guarded as any
            compiled("cpu", {"tile": unmasked})[2,](x, y, np.zeros_like(x), 200)
    assert raised.value.code == "K502"
    assert raised.value.span.file == "add.tile"
    interpreted = compiled("interpreter", {"tile": plain.asm["tile"].replace("add [%x", "mul [%x")})
    out = np.zeros_like(x)
    interpreted[2,](x, y, out, 200)
    np.testing.assert_array_equal(out, x * y)


REFUSED = [
    ("sm_90a", "tile", "tile.lt", "tile.lx", "unknown op 'tile.lx'"),
    ("sm_90a", "tile", "%n: index", "%m: index", "unknown value '%n'"),
    ("sm_90a", "tile", "%y_ptr: ptr<f32> {divisible = 16}", "%y_ptr: ptr<f32>, %z: i8", "fixed by"),
    ("sm_90a", "gpu", "warp=[32,64]", "warp=[32]", "lies on 2 warps of 4"),
    ("sm_90a", "gpu", "num_warps = 4", "num_warps = 8", "lies on 4 warps of 8"),
    ("sm_90a", "llvm", "mul nsw i64 %v2, 128", "mul nsw i64 %v2, 1.5", "floating point constant"),
    ("sm_90a", "llvm", "mul nsw i64 %v3, 4", "mul nsw i64 %v8, 4", "does not dominate"),
    ("sm_90a", "llvm", "i32 %a3)", "i32 %a3, i32 %a4)", "fixed by its launch"),
    ("sm_90a", "llvm", "@add(", "@sub(", "no kernel called add"),
    ("sm_90a", "ptx", "add_param_3\n", "add_param_3,\n .param .u32 more\n", "fixed by its launch"),
    ("sm_90a", "ptx", "add.f32", "add.f33", "Unknown modifier"),
    ("sm_90a", "ptx", "add.f32", "ädd.f32", "Unexpected non-ASCII character"),
    ("sm_90a", "llvm", 'target triple = "nvptx64-nvidia-cuda"\n', "", "the text is for the CPU"),
    ("cpu", "llvm", "define", 'target triple = "nvptx64-nvidia-cuda"\ndefine', "for nvptx64"),
    ("cpu", "llvm", "fadd", "faxd", "expected instruction opcode"),
]  # fmt: skip


@pytest.mark.parametrize(("target", "stage", "old", "new", "said"), REFUSED)
def test_what_a_stage_does_not_take_is_refused_at_its_row(target, stage, old, new, said):
    if said.startswith("Un") and stage == "ptx" and find("ptxas") is None:
        pytest.skip("ptxas says it")
    text = compiled(target).asm[stage]
    assert old in text
    edited = text.replace(old, new, 1)
    with pytest.raises(CompileError, match=re.escape(said)) as raised:
        compiled(target, {stage: edited})
    error = raised.value
    assert error.code in ("K290", "K291")
    assert error.span is not None
    assert error.span.file == f"add.{stage}"
    assert error.span.line <= len(edited.splitlines())
    assert "^" in error.render()


@pytest.mark.parametrize(("target", "stage"), [("cpu", "ptx"), ("cpu", "gpu"), ("sm_80", "sass")])
def test_a_stage_that_a_target_cannot_go_on_from(target, stage):
    with pytest.raises(
        OptionError, match=f"{target} cannot go on from '{stage}'; it can from tile"
    ):
        compiled(target, {stage: "text"})


def test_one_stage_at_a_time():
    with pytest.raises(OptionError, match="takes the text of one stage, got 2"):
        compiled("cpu", {"tile": "", "llvm": ""})
