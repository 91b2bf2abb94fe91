"""The size of the code is that of its instructions, not of the file around them."""

from __future__ import annotations

import pytest

import workbench as wb
from workbench import tl
from workbench.targets.nvidia.toolchain import find
from workbench.targets.objects import code_bytes


@wb.jit
def fill(out_ptr, BLOCK: tl.constexpr):
    tl.store(out_ptr + tl.arange(0, BLOCK), tl.zeros((BLOCK,), tl.float32))


def test_other_files_have_no_known_size():
    assert code_bytes(b"") is None
    assert code_bytes(b"\x7fELF\x02\x01" + bytes(20)) is None
    assert code_bytes(b".version 8.0") is None


def test_an_object_of_the_cpu_is_larger_than_its_code():
    compiled = wb.compile(fill, "*f32", {"BLOCK": 8}, target="cpu")
    found = compiled.trace.resources.code_bytes
    assert 0 < found < 600


@pytest.mark.skipif(find("ptxas") is None, reason="needs ptxas")
@pytest.mark.skipif(find("nvdisasm") is None, reason="needs nvdisasm")
def test_sass_takes_sixteen_bytes_an_instruction():
    compiled = wb.compile(fill, "*f32", {"BLOCK": 128}, target="sm_90a")
    rows = [row for row in compiled.asm["sass"].split("\n") if row.lstrip().startswith("/*")]
    assert compiled.trace.resources.code_bytes == 16 * len(rows)


@wb.jit
def größe(out_ptr, 数: tl.constexpr):
    δ = tl.arange(0, 数)
    tl.store(out_ptr + δ, δ.to(tl.float32))


@pytest.mark.parametrize("target", ["cpu", "sm_90a"])
def test_names_may_have_any_letters(target):
    compiled = wb.compile(größe, "*f32", {"数": 32}, target=target)
    assert compiled.trace.kernel.name == "größe"
    assert compiled.trace.kernel.entry.isascii()
    text = compiled.asm["asm" if target == "cpu" else "ptx"]
    assert compiled.trace.kernel.entry in text


def test_a_kernel_with_a_foreign_name_runs():
    torch = pytest.importorskip("torch")
    out = torch.zeros(8)
    größe[(1,)](out, 数=8)
    assert torch.equal(out, torch.arange(8.0))
