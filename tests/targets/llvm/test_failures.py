"""What LLVM cannot generate ends LLVM's process, not ours, and is told with the line."""

from __future__ import annotations

import os
import signal
from dataclasses import asdict

import pytest

import workbench as wb
from workbench import tl
from workbench.source import ToolError
from workbench.targets.llvm import emit, generator
from workbench.targets.llvm.failures import culprit
from workbench.targets.llvm.toolchain import LlvmError, assembly, baseline

GOOD = "define void @f(ptr %p) {\n  store i32 1, ptr %p\n  ret void\n}\n"


def roots(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    for _ in range(n):
        x = tl.sqrt(x) + 1
        x = tl.exp2(x)
    tl.store(x_ptr + i, x, mask=i < n)


def _intrinsic(e: emit.Emitter, name: str) -> None:
    e.declare(name, f"declare void @{name}()")
    e.do(f"call void @{name}()")


def _scalable(e: emit.Emitter, kind: str) -> None:
    """Write a vector of unknown length, which neither target has: the words name no line."""
    e.declare("step", f"declare {kind} @llvm.stepvector.nxv4i32()")
    e.do(f"store volatile {kind} {e.effect(f'call {kind} @llvm.stepvector.nxv4i32()')}, ptr null")


PLANTED = {
    ("cpu", "Cannot select"): lambda e: _intrinsic(e, "llvm.nvvm.membar.gl"),
    ("sm_90a", "Cannot select"): lambda e: _intrinsic(e, "llvm.x86.sse2.pause"),
    ("sm_90a", "calable"): lambda e: _scalable(e, "<vscale x 4 x i32>"),
}


@pytest.mark.parametrize(("target", "words"), PLANTED, ids=str)
def test_the_kernel_the_line_and_the_words_are_told(target, words, monkeypatch):
    pure, plant = emit.Emitter.pure, PLANTED[target, words]

    def planting(self: emit.Emitter, text: str) -> str:
        if "sqrt" in text:
            plant(self)
        return pure(self, text)

    given = {"constexprs": {"BLOCK": 64}, "target": target, "cached": False}
    monkeypatch.setattr(emit.Emitter, "pure", planting)
    with pytest.raises(ToolError) as caught:
        _ = wb.compile(roots, "*fp32 i32", **given).code
    error = caught.value
    assert error.code == "K415"
    assert "roots" in error.message
    assert words in error.message
    assert error.span is not None
    assert "tl.sqrt" in str(error)
    monkeypatch.undo()
    assert "sqrt" in wb.compile(roots, "*fp32 i32", **given).asm["llvm"]


def test_a_process_that_crashes_is_told_and_replaced():
    assembly(GOOD, baseline())
    held = generator._helper
    assert held is not None
    os.kill(held.process.pid, signal.SIGSEGV)
    held.process.wait()
    with pytest.raises(LlvmError, match="SIGSEGV"):
        held.ask("assembly", asdict(baseline()), GOOD.encode())
    assert "f:" in assembly(GOOD, baseline())


def test_one_that_was_interrupted_is_replaced():
    assembly(GOOD, baseline())
    held = generator._helper
    assert held is not None
    held.busy = True  # as if nobody had waited for the answer
    assert "f:" in assembly(GOOD, baseline())
    assert generator._helper is not held


def test_what_does_not_parse_is_said():
    with pytest.raises(RuntimeError, match="expected top-level entity"):
        assembly("nonsense", baseline())


LOOP = """define void @k(ptr %p) !dbg !5 {
entry:
  %v1 = load i32, ptr %p
  br label %head
head:
  %v2 = phi i32 [ 0, %entry ], [ %v4, %head ]
  %v3 = mul i32 %v2, %v1
  %v4 = add i32 %v2, 1
  %v5 = icmp slt i32 %v4, 9
  br i1 %v5, label %head, label %out
out:
  store i32 %v3, ptr %p
  ret void
}
"""


@pytest.mark.parametrize("word", ["load", "mul", "icmp", "store i32"])
def test_the_first_line_after_which_it_fails_is_found(word):
    types = dict.fromkeys(("v1", "v2", "v3", "v4"), "i32") | {"v5": "i1"}
    texts: list[str] = []

    def fails(text: str) -> bool:
        texts.append(text)
        return word in text

    number = culprit(LOOP, types, fails)
    assert number is not None
    assert word in LOOP.splitlines()[number]
    for text in texts:  # each is a program
        assembly(text.replace(" !dbg !5", ""), baseline())
