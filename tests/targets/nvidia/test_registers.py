"""Registers: what is said before code is written, and what is done where ptxas gives up."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest

import workbench as wb
import workbench.language as tl
from tests.kernels import attention
from tests.targets.nvidia.configurations import QUICK, SLOW, Configuration
from tests.targets.nvidia.test_ptx import needs_nvdisasm, needs_ptxas
from workbench.ir import parse_module
from workbench.passes.manager import Recorder, Remark
from workbench.targets.built import Built
from workbench.targets.nvidia import pipeline, spills
from workbench.targets.nvidia.chip import chip
from workbench.targets.nvidia.toolchain import Assembled, disassemble
from workbench.targets.simt.pressure import peak


def backward(head: int, **options: int) -> Configuration:
    """Return the backward pass of attention with blocks as in the tutorials."""
    return Configuration(
        f"attention backward {head}", lambda: attention.attention_backward,
        "*fp16:16 *fp16:16 *fp16:16 f32 *fp16:16 *fp16:16 *fp16:16 *fp16:16 *fp32:16 *fp32:16 "
        "i32:16 i32:16 i32:16 i32=1 i32 i32:16",
        {"BLOCK_M1": 32, "BLOCK_N1": 128, "BLOCK_M2": 128, "BLOCK_N2": 32, "SLICE": 2,
         "HEAD": head},
        {"num_warps": 4, "num_stages": 1, **options},
    )  # fmt: skip


@cache
def built(head: int) -> tuple[Built, Recorder]:
    recorder = Recorder()
    # Without wgmma: with it operands lie in shared memory, and more fits.
    return backward(head).built("sm_90", recorder), recorder


def said(recorder: Recorder, words: str) -> list[Remark]:
    return [r for r in recorder.remarks.items if words in r.text]


def test_tiles_that_cannot_fit_are_a_remark_before_there_is_code():
    """dK and dV of 128 by 128 numbers are 256 registers of 128 threads, and there is more."""
    _, recorder = built(128)
    (remark,) = said(recorder, "alive here")
    count = int(re.findall(r"about (\d+) registers", remark.text)[0])
    assert 384 <= count < 1024
    assert remark.span is not None
    assert "num_warps=8 comes nearest" in remark.text


@pytest.mark.parametrize("configuration", QUICK, ids=lambda c: c.name)
def test_what_assembles_without_spills_is_not_warned_of(configuration: Configuration):
    recorder = Recorder()
    configuration.built("sm_90a", recorder)
    assert not said(recorder, "alive here")


def test_what_a_loop_reads_is_alive_in_all_of_it():
    """%x is needed in every round, %y up to its sum; %acc is carried; each fills 8 registers."""
    tile = "tile<256xf32, blocked>"
    module = parse_module(LOOP.replace("TILE", tile))
    op, registers = peak(module)
    assert op is not None
    assert op.name == "tile.mul"
    assert registers == 32


LOOP = """
#blocked = linear<256, register=[(1),(2),(4)], lane=[(8),(16),(32),(64),(128)]>
kernel @k(%p: ptr<f32>, %n: i32) {num_warps = 1} {
  %zero = tile.constant {value = 0, type = i32} : i32
  %one = tile.constant {value = 1, type = i32} : i32
  %q = tile.splat %p {shape = (256,)} : tile<256xptr<f32>, #blocked>
  %x = tile.load %q : tile<256xf32, #blocked>
  %y = tile.load %q : tile<256xf32, #blocked>
  %s = tile.add [%x, %y] : tile<256xf32, #blocked>
  %r = tile.for %zero, %n, %one, [%s] {
  ^(%k: i32, %acc: tile<256xf32, #blocked>):
    %v = tile.load %q : tile<256xf32, #blocked>
    %w = tile.mul [%v, %v] : tile<256xf32, #blocked>
    %z = tile.add [%w, %v] : tile<256xf32, #blocked>
    %a = tile.add [%acc, %z] : tile<256xf32, #blocked>
    %b = tile.add [%a, %x] : tile<256xf32, #blocked>
    tile.yield [%b]
  } : tile<256xf32, #blocked>
  tile.store %q, %r
  tile.return
}
"""


@needs_ptxas
@needs_nvdisasm
def test_where_the_assembler_gives_up_it_is_asked_again_with_a_limit(monkeypatch):
    looked: list[bytes] = []
    monkeypatch.setattr(
        pipeline, "disassemble", lambda cubin: looked.append(cubin) or disassemble(cubin)
    )
    made, recorder = built(128)
    resources = made.assemble().resources
    assert not looked  # whoever launches does not wait until it is known where registers spill
    assert resources.registers == 255
    assert resources.spill_store_bytes is not None
    assert resources.spill_store_bytes < 12_000  # of 20,928 with the 32 registers it takes alone
    first = recorder.remarks.items[0]
    total = resources.spill_store_bytes + (resources.spill_load_bytes or 0)
    assert first.text.startswith(f"{total:,} bytes spilled")
    assert first.span is not None
    assert ".reqntid 128 .maxnreg 255" in made.texts["ptx"]().text


def result(registers: int, spills: int) -> Assembled:
    return Assembled(b"", registers, spills, spills, 0, 0, 0, ())


@pytest.mark.parametrize(
    ("warps", "first", "second", "kept", "limit"),
    [
        (4, result(32, 9000), result(255, 100), 255, 255),
        (16, result(32, 9000), result(128, 100), 128, 128),
        (4, result(32, 9000), result(255, 9999), 32, 255),
        (4, result(255, 9000), None, 255, None),
        (4, result(40, 0), None, 40, None),
    ],
)
def test_the_better_of_two_assemblies_is_kept(
    monkeypatch: pytest.MonkeyPatch, warps: int, first: Assembled, second: Assembled | None,
    kept: int, limit: int | None,
):  # fmt: skip
    texts: list[str] = []
    results = iter([first, second])

    def assemble(ptx: str, chip: str) -> Assembled | None:
        texts.append(ptx)
        return next(results)

    monkeypatch.setattr(spills, "assemble", assemble)
    found = spills.fitted(".entry k()\n.reqntid 128\n{ }", chip("sm_90a"), warps)
    assert found.result.registers == kept
    if limit is None:
        assert len(texts) == 1
    else:
        assert texts[1] == f".entry k()\n.reqntid 128 .maxnreg {limit}\n{{ }}"
        assert found.ptx == (texts[1] if kept == limit else texts[0])


@pytest.mark.parametrize(
    ("warps", "lacking", "enough", "limits"),
    [
        (8, 8, 40, [None, 40]),  # of 7 blocks warps have 32, of 6 40
        (8, 400, 132, [None, 255]),  # of 2 blocks warps have 128
        (8, 300, 140, [None, 128, 255]),  # what was spilled at 32 does not tell all
        (8, 56, 48, [None, 48]),
        (12, 8, 40, [None, 40]),
        (4, 8, 39, [None, 40]),
        (32, 8, 34, [None, 64]),
    ],
)
def test_a_little_that_is_lacking_is_not_paid_with_all_registers(
    monkeypatch: pytest.MonkeyPatch,
    warps: int, lacking: int, enough: int, limits: list[int | None],
):  # fmt: skip
    """ptxas uses what it may: 102 registers where 40 hold all, and a third of the warps."""
    asked: list[int | None] = []

    def assemble(ptx: str, chip: str) -> Assembled:
        stated = re.search(r"maxnreg (\d+)", ptx)
        asked.append(int(stated[1]) if stated else None)
        have = asked[-1] or 32
        return result(have, lacking if have < enough else 0)

    monkeypatch.setattr(spills, "assemble", assemble)
    text = f".entry k()\n.reqntid {32 * warps}\n{{ }}"
    found = spills.fitted(text, chip("sm_90a"), warps)
    assert asked == limits
    assert spills.spilled(found.result) == 0


@pytest.mark.parametrize("spilled", [0, 16])
def test_a_block_more_is_not_paid_with_spills(monkeypatch: pytest.MonkeyPatch, spilled: int):
    def assemble(ptx: str, chip: str) -> Assembled:
        return result(168, spilled) if ".minnctapersm" in ptx else result(200, 0)

    monkeypatch.setattr(spills, "assemble", assemble)
    text = ".entry k()\n.reqntid 128\n.minnctapersm 3\n{ wgmma }"
    found = spills.fitted(text, chip("sm_90a"), 4)
    assert found.result == (result(200, 0) if spilled else result(168, 0))
    assert (".minnctapersm" in found.ptx) == (not spilled)


@pytest.mark.parametrize(
    ("spilled", "rows", "told"),
    [
        (8, ".L_x_1:\n LDL R1, [R2] ;\n BRA `(.L_x_1) ;", True),  # few
        (64, ".L_x_1:\n LDL R1, [R2] ;\n BRA `(.L_x_1) ;", False),
        (64, " LDL R1, [R2] ;\n.L_x_1:\n BRA `(.L_x_1) ;", True),  # in front of the loop
    ],
)
def test_where_warps_multiply_a_block_more_is_worth_a_few(
    monkeypatch: pytest.MonkeyPatch, spilled: int, rows: str, told: bool
):
    def assemble(ptx: str, chip: str) -> Assembled:
        return result(128, spilled) if ".minnctapersm" in ptx else result(200, 0)

    monkeypatch.setattr(spills, "assemble", assemble)
    monkeypatch.setattr(spills, "listed", lambda cubin: rows)
    text = ".entry k()\n.reqntid 256\n.minnctapersm 2\n{ mma.sync }"
    found = spills.fitted(text, chip("sm_90a"), 8)
    assert (".minnctapersm" in found.ptx) == told


@needs_ptxas
def test_a_limit_that_the_author_states_holds():
    product = next(c for c in SLOW if c.name == "matmul 128x128x32 w4 s4 wide")
    limited = Configuration(product.name, product.function, product.signature, product.constexprs,
                            {**product.options, "maxnreg": 128})  # fmt: skip
    assert limited.built("sm_90a").assemble().resources.registers == 128


def test_the_backward_pass_computes_the_gradients_of_attention():
    rows, head, block, scale = 32, 16, 16, 0.25
    random = np.random.default_rng(0)
    q, k, v, do = (random.standard_normal((rows, head)).astype(np.float16) for _ in range(4))
    scores = (q.astype(np.float64) @ k.T.astype(np.float64)) * scale
    scores[np.triu_indices(rows, 1)] = -np.inf
    weights = np.exp(scores - scores.max(1, keepdims=True))
    p = weights / weights.sum(1, keepdims=True)
    sums = (scores.max(1) + np.log(weights.sum(1))) / np.log(2)
    delta = ((p @ v.astype(np.float64)) * do).sum(1)
    ds = p * (do.astype(np.float64) @ v.T.astype(np.float64) - delta[:, None])
    wanted = ds @ k * scale, ds.T @ q * scale, p.T @ do
    scaled = (k * (scale / np.log(2))).astype(np.float16)
    dq, dk, dv = (np.zeros((rows, head), np.float16) for _ in range(3))
    wb.jit(attention.attention_backward).interpret[(rows // block, 1, 1)](
        q, scaled, v, scale, do, dq, dk, dv, sums.astype(np.float32), delta.astype(np.float32),
        rows * head, rows * head, head, 1, 1, rows,
        BLOCK_M1=block, BLOCK_N1=block, BLOCK_M2=block, BLOCK_N2=block, SLICE=1, HEAD=head,
    )  # fmt: skip
    for got, want in zip((dq, dk, dv), wanted, strict=True):
        assert np.abs(got - want).max() < 0.02


@wb.jit
def carried(x, out, n, B: tl.constexpr):
    """Two tiles that a loop carries and reads."""
    at = tl.arange(0, B)
    a = tl.load(x + at)
    b = tl.load(x + at + n)
    for k in range(n):
        a, b = a * b + tl.load(out + k), b * a - tl.load(out + k + 1)
    tl.store(out + at, a)
    tl.store(out + at + n, b)


def _pressure(block: int, **options: int) -> tuple[int, list[Remark]]:
    given = {"B": block}
    kernel = wb.compile(carried, "*f32:16 *f32:16 i32", given, cached=False, **options)
    compiled = kernel.compiled
    return compiled.built.num_warps, said(compiled.lowered.recorder, "alive here")


@pytest.mark.parametrize("block", [1 << 10, 1 << 14])
def test_warps_that_nobody_named_are_enough_for_the_tiles(block: int):
    assert _pressure(block)[1] == []
    if block == 1 << 14:
        assert _pressure(block, num_warps=4)[1]


def test_what_a_remark_says_would_fit_does():
    (remark,) = _pressure(1 << 14, num_warps=4)[1]
    warps = int(re.findall(r"num_warps=(\d+)", remark.text)[0])
    smaller = int(re.findall(r"1/(\d+) of the elements", remark.text)[0])
    assert _pressure(1 << 14, num_warps=warps)[1] == []
    assert _pressure((1 << 14) // smaller, num_warps=4)[1] == []
    assert _pressure((1 << 14) // smaller * 2, num_warps=4)[1]


def test_what_no_warps_hold_is_said():
    (remark,) = _pressure(1 << 18, num_warps=16)[1]
    assert "no num_warps holds them" in remark.text
