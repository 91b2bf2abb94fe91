"""Copies by threads tell the L2 how long to keep what they bring, and ptxas does not lose it."""

from __future__ import annotations

import re
from typing import Any

import pytest

import workbench as wb
from tests.kernels.products_by_shares import stream_k_product
from tests.language.harness import from_text
from tests.targets.nvidia.test_ptx import CHIPS, EVICTIONS, needs_nvdisasm, needs_ptxas
from tests.targets.nvidia.uniform import complaints
from workbench.targets.llvm.emit import Emitter
from workbench.targets.nvidia import copies, toolchain
from workbench.targets.nvidia.lost_policies import has_policies, may_be_lost, without_policies
from workbench.targets.nvidia.toolchain import find

PRODUCT = """
def kernel(x, w, out, K):
    i = tl.arange(0, 64)
    acc = tl.zeros((64, 64), tl.float32)
    for k in range(0, K, 64):
        a = tl.load(x + i[:, None] * K + k + i[None, :])
        b = tl.load(w + i[None, :] * K + k + i[:, None], eviction_policy={policy!r})
        acc = tl.dot(a, b, acc)
    tl.store(out + i[:, None] * 64 + i[None, :], acc)
"""


def product(policy: str, chip: str, rows: str = "i32:16", **options: Any) -> wb.CompiledKernel:
    """`rows`: what is known of their length."""
    source = from_text(PRODUCT.format(policy=policy))
    words = f"*fp16:16 *fp16:16 *fp32:16 {rows}"
    return wb.compile(source, words, {}, target=chip, tma=False, num_stages=3, **options)


def by_shares(*blocks: int, warps: int = 4, stages: int = 3) -> wb.CompiledKernel:
    """Stream-K of K = 1000, whose copies have masks and whose weights are read once."""
    words = "*fp16:16 *fp16:16 *fp16:16 *fp32:16 *i32:16 i32 i32:16 i32:8 i32:8 i32=1 i32=1 i32:8"
    names = "BLOCK_M", "BLOCK_N", "BLOCK_K"
    named: dict[str, Any] = dict(zip(names, blocks, strict=True))
    return wb.compile(
        stream_k_product, f"{words} i32:16", named, target="sm_90a", num_warps=warps,
        num_stages=stages, cached=False,
    )  # fmt: skip


@needs_ptxas
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("policy", EVICTIONS)
def test_copies_tell_the_l2_how_long_to_keep_what_they_bring(policy: str, chip: str):
    """Those of the operand that asks for it, in front of the loop and in it."""
    compiled = product(policy, chip)
    assert compiled.n_regs is not None
    text = compiled.asm["ptx"]
    plain = len(re.findall(r"cp\.async\.cg\.shared\.global \[", text))
    told = len(re.findall(r"cp\.async\.cg\.shared\.global\.L2::cache_hint \[.*, %rd\d+;", text))
    assert plain == (told or plain)
    assert bool(told) is bool(policy)
    assert text.count(f"createpolicy.fractional.L2::{policy}.b64") == told  # each has its own
    assert not any("eviction_policy" in remark.text for remark in compiled.trace.remarks)


def test_without_the_option_the_hint_is_answered():
    twin = product("evict_first", "sm_90a", l2_policies=False)
    assert not has_policies(twin.asm["ptx"])
    assert any("eviction_policy 'evict_first'" in remark.text for remark in twin.trace.remarks)


@pytest.mark.parametrize(("policy", "obeyed"), [("evict_first", False), ("evict_last", True)])
def test_what_is_asked_for_later_rounds_does_not_leave_first(policy: str, obeyed: bool):
    """Of one row of int4 (an H200) 36.0 us, and 38.6 where it did; mxfp8 72.7 and 84.1."""
    compiled = product(policy, "sm_90a", prefetch_l2=True)
    assert has_policies(compiled.asm["ptx"]) is obeyed
    assert ".L2::256B" in compiled.asm["ptx"]
    said = [remark.text for remark in compiled.trace.remarks if "eviction_policy" in remark.text]
    assert bool(said) is not obeyed
    assert all("which later rounds read (prefetch_l2=False" in text for text in said)


def test_narrow_copies_ask_for_nothing_around_and_obey():
    """Of rows that begin at 8 bytes a copy brings no more."""
    compiled = product("evict_first", "sm_90a", "i32:4", prefetch_l2=True)
    text = compiled.asm["ptx"]
    assert has_policies(text)
    assert ".L2::256B" not in text
    assert not any("eviction_policy" in remark.text for remark in compiled.trace.remarks)


@needs_nvdisasm
@pytest.mark.parametrize(
    ("blocks", "stages"), [((64, 128, 64), 3), ((64, 64, 128), 3), ((16, 64, 128), 4)]
)
def test_uniform_registers_of_copies_hold_policies(blocks: tuple[int, ...], stages: int):
    """The first ended with an illegal instruction on an H100 where addresses were sums."""
    compiled = by_shares(*blocks, stages=stages)
    assert has_policies(compiled.asm["ptx"])
    assert not may_be_lost(compiled.asm["cubin"])
    assert re.search(r"LDGSTS.*\], desc\[UR\d+\]", compiled.asm["sass"])  # what the model looks at
    assert not list(complaints(compiled.asm["sass"]))
    assert not any("eviction_policy" in remark.text for remark in compiled.trace.remarks)


@needs_nvdisasm
def test_what_a_ptxas_may_have_lost_is_not_taken(monkeypatch: pytest.MonkeyPatch):
    """With addresses that are sums; what the assembler made of them is complained of."""

    def as_they_are(emit: Emitter, address: str) -> str:
        return emit.pure(f"ptrtoint ptr addrspace(3) {address} to i32")

    monkeypatch.setattr(copies, "_sum_of_its_own", as_they_are)
    compiled = by_shares(64, 128, 64)
    assert has_policies(compiled.asm["ptx"])
    listed = compiled.asm["sass"]
    assert "LDGSTS" in listed
    assert not list(complaints(listed))
    assert any("eviction_policy is not obeyed" in r.text for r in compiled.trace.remarks)
    path = find("ptxas")
    assert path is not None
    lost = toolchain._assemble(path, compiled.asm["ptx"], "sm_90a", None)
    assert may_be_lost(lost.cubin)
    assert list(complaints(toolchain.listed(lost.cubin)))


#: Made by ptxas 13.0.88, the rows that matter.
LOST = """
        /*1140*/                   UMOV UR6, URZ ;
        /*1150*/                   ULDC.64 UR14, c[0x0][0x208] ;
        /*1180*/                   UMOV UR7, 0x12f00000 ;
        /*15e0*/                   UMOV UR6, UR12 ;
        /*1b70*/                   LDGSTS.E.BYPASS.128 [R21+0xd800], desc[UR14][R44.64], P0 ;
        /*1b90*/                   LDGSTS.E.BYPASS.128 [R47+UR0], desc[UR1][R24.64], P2 ;
.L_x_7:
        /*2d20*/                   LDGSTS.E.BYPASS.128 [R13], desc[UR6][R94.64], P0 ;
        /*2e90*/               @P1 BRA `(.L_x_7) ;
        /*2ea0*/                   EXIT ;
"""


def test_the_model_finds_registers_that_nobody_writes():
    first, second, third = (said for said in complaints(LOST) if "nothing has written" in said)
    assert first.endswith("UR0")
    assert second.endswith("UR1")
    assert third.endswith("UR6")  # what is added to addresses is made of UR12, which nobody has


def test_the_model_finds_what_is_added_in_half_a_policy():
    made = LOST.replace("UMOV UR6, UR12", "ULEA UR6, UR12, UR4, 0x18")
    (said,) = (said for said in complaints(made) if "half a policy" in said)
    assert "ULEA" in said
    right = LOST.replace("UMOV UR6, UR12", "NOP").replace(
        "[R47+UR0], desc[UR1]", "[R47], desc[UR6]"
    )
    assert not list(complaints(right))


def test_a_text_without_policies_has_as_many_rows():
    text = "\tcreatepolicy.fractional.L2::evict_first.b64 %rd4;\n\tcp.async.ca.shared.global"
    hinted = f"{text}.L2::cache_hint.L2::128B [%r1+16], [%rd2], 4, %p3, %rd4;\n"
    plain = without_policies(hinted)
    assert plain == "\n\tcp.async.ca.shared.global.L2::128B [%r1+16], [%rd2], 4, %p3;\n"
    assert plain.count("\n") == hinted.count("\n")
    assert has_policies(hinted)
    assert not has_policies(plain)


def test_a_policy_that_an_author_takes_is_still_made():
    """Loads of an author's own keep theirs: nobody else would write the register."""
    own = "\tcreatepolicy.fractional.L2::evict_last.b64 %rd7, 0f3F000000;\n"
    load = "\tld.global.L2::cache_hint.b32 %r5, [%rd6], %rd7;\n"
    copies = "\tcreatepolicy.fractional.L2::evict_first.b64 %rd4;\n\tcp.async.ca.shared.global"
    hint, shared = ".L2::cache_hint", " [%r1], [%rd2], 4, %p3"
    text = f"{own}{load}{copies}{hint}{shared}, %rd4;\n"
    assert without_policies(text) == f"{own}{load}\n\tcp.async.ca.shared.global{shared};\n"
    taken = f"{own}{load}\tcp.async.ca.shared.global{hint}{shared}, %rd7;\n"
    assert without_policies(taken) == f"{own}{load}\tcp.async.ca.shared.global{shared};\n"
