"""inline_asm_elementwise: on a GPU as written, elsewhere by what its instructions compute."""

import numpy as np
import pytest
import torch

import workbench.language as tl
from tests.execution import default_target
from tests.language.harness import error_of, from_text, result, run
from workbench.ir import print_module
from workbench.source import TargetError

RANDOM = np.random.default_rng(11)


def _kernel(asm, constraints, dtype, args="a", pack=1, n=32, pure=True):
    return from_text(f"""
        def kernel(out, x, y):
            i = tl.arange(0, {n})
            a, b = tl.load(x + i), tl.load(y + i)
            r = tl.inline_asm_elementwise({asm!r}, {constraints!r}, [{args}], tl.{dtype},
                                          is_pure={pure}, pack={pack})
            tl.store(out + i, r)
    """)


def _run(asm, constraints, x, y=None, dtype="float32", out=np.float32, **rest):
    y = np.zeros_like(x) if y is None else y
    return result(_kernel(asm, constraints, dtype, **rest), out, len(x), x=x, y=y)


FLOATS = RANDOM.uniform(0.25, 3, 32).astype(np.float32)


@pytest.mark.parametrize(
    ("asm", "want"),
    [
        ("ex2.approx.ftz.f32 $0, $1;", np.exp2), ("lg2.approx.f32 $0, $1;", np.log2),
        ("rcp.approx.ftz.f32 $0, $1;", lambda v: 1 / v), ("sqrt.approx.f32 $0, $1;", np.sqrt),
        ("rsqrt.approx.f32 $0, $1;", lambda v: 1 / np.sqrt(v)), ("sin.approx.f32 $0, $1;", np.sin),
        ("cos.approx.f32 $0, $1;", np.cos), ("neg.f32 $0, $1;", np.negative),
        ("add.sat.f32 $0, $1, 0f00000000;", lambda v: np.clip(v, 0, 1)),
        ("{ .reg .f32 t; mul.f32 t, $1, 2.0; add.f32 $0, t, 1.0; }", lambda v: 2 * v + 1),
        ("cvt.rni.f32.f32 $0, $1; // nearest", np.rint), ("cvt.rzi.f32.f32 $0, $1;", np.trunc),
        ("fma.rn.f32 $0, $1, $1, 0f3F800000;", lambda v: v * v + 1),
        ("max.f32 $0, $1, 1.5;", lambda v: np.maximum(v, 1.5)),
    ],
)  # fmt: skip
def test_instructions_on_floats(asm, want):
    got = _run(asm, "=f,f", FLOATS)
    assert np.allclose(got, want(FLOATS.astype(np.float64)), rtol=2e-6, atol=2e-6)


def test_the_approximate_tanh():
    x = np.linspace(-3, 3, 32).astype(np.float32)
    got = _run("tanh.approx.f32 $0, $1;", "=f,f", x)
    # PTX ISA, tanh.approx.f32: relative error up to 2^-11.
    assert np.allclose(got, np.tanh(x), rtol=2.0**-10)


@pytest.mark.parametrize(
    ("asm", "want"),
    [
        ("add.s32 $0, $1, $2;", lambda a, b: a + b), ("mul.lo.u32 $0, $1, $2;", lambda a, b: a * b),
        ("and.b32 $0, $1, $2;", lambda a, b: a & b), ("shl.b32 $0, $1, 3;", lambda a, b: a << 3),
        ("shr.u32 $0, $1, 5;", lambda a, b: (a.view(np.uint32) >> 5).view(np.int32)),
        ("shr.s32 $0, $1, 5;", lambda a, b: a >> 5), ("not.b32 $0, $1;", lambda a, b: ~a),
        ("lop3.b32 $0, $1, $2, 0xF0F0F0F0, 0x6A;",
         lambda a, b: (a & b) ^ np.int32(np.uint32(0xF0F0F0F0).view(np.int32))),
        ("popc.b32 $0, $1;", lambda a, b: np.bitwise_count(a.view(np.uint32))),
        ("bfe.u32 $0, $1, 4, 8;", lambda a, b: a >> 4 & 0xFF),
        ("prmt.b32 $0, $1, $2, 0x5410;", lambda a, b: (a & 0xFFFF) | (b << 16)),
        ("{ .reg .pred p; setp.lt.s32 p, $1, $2; selp.b32 $0, $1, $2, p; }", np.minimum),
        ("mov.b32 $0, $1;", lambda a, b: a),
        ("mad.lo.s32 $0, $1, $2, 7;", lambda a, b: a * b + 7),
        ("mul.hi.u32 $0, $1, $2;", lambda a, b: (
            a.view(np.uint32).astype(np.uint64) * b.view(np.uint32) >> np.uint64(32)
        ).astype(np.uint32).view(np.int32)),
    ],
)  # fmt: skip
def test_instructions_on_integers(asm, want):
    a = RANDOM.integers(-(2**31), 2**31, 32).astype(np.int32)
    b = RANDOM.integers(-(2**31), 2**31, 32).astype(np.int32)
    constraints = "=r,r,r" if "$2" in asm else "=r,r"
    args = "a, b" if "$2" in asm else "a"
    got = _run(asm, constraints, a, b, dtype="int32", out=np.int32, args=args)
    with np.errstate(all="ignore"):
        assert np.array_equal(got, want(a, b).astype(np.int32))


@pytest.mark.parametrize("n", [32, 100, 7])
def test_four_bytes_in_a_register(n):
    x = RANDOM.integers(0, 256, n).astype(np.uint8)
    asm = "and.b32 $0, $1, 0x0F0F0F0F;"
    got = _run(asm, "=r,r", x, dtype="uint8", out=np.uint8, pack=4, n=n)
    assert np.array_equal(got, x & 15)


def test_two_halves_in_a_register_and_several_results():
    kernel = from_text("""
        def kernel(out, low, x):
            i = tl.arange(0, 64)
            v = tl.load(x + i)
            h, d = tl.inline_asm_elementwise(
                "add.rn.f16x2 $0, $3, $3; { .reg .b16 l, h; mov.b32 {l, h}, $3;"
                " cvt.f32.f16 $1, l; cvt.f32.f16 $2, h; }",
                "=r,=f,=f,r", [v], dtype=(tl.float16, tl.float32), is_pure=True, pack=2)
            tl.store(out + i, h)
            tl.store(low + i, d)
    """)
    x = RANDOM.standard_normal(64).astype(np.float16)
    out, low = np.zeros(64, np.float16), np.zeros(64, np.float32)
    run(kernel, out=out, low=low, x=x)
    assert np.array_equal(out, x + x)
    assert np.array_equal(low, x.astype(np.float32))


def test_packed_conversions_to_small_floats():
    kernel = from_text("""
        def kernel(out, x):
            i = tl.arange(0, 32)
            v = tl.load(x + i)
            r = tl.inline_asm_elementwise("cvt.rn.bf16x2.f32 $0, $2, $1;", "=r,f,f", [v],
                                          dtype=tl.bfloat16, is_pure=True, pack=2)
            tl.store(out + i, r)
    """)
    x = torch.from_numpy(FLOATS)
    out = torch.zeros(32, dtype=torch.bfloat16)
    run(kernel, out=out, x=x)
    assert torch.equal(out, x.to(torch.bfloat16))


def test_operands_are_broadcast_and_scalars_are_possible():
    def kernel(out, x, s):
        i = tl.arange(0, 4)
        v = tl.load(x + i)
        r = tl.inline_asm_elementwise(
            asm="add.f32 $0, $1, $2;", constraints="=f,f,f", args=[v[:, None], v[None, :]],
            dtype=tl.float32, is_pure=True, pack=1,
        )  # fmt: skip
        t = tl.inline_asm_elementwise("neg.s32 $0, $1;", "=r,r", [s], tl.int32, True, 1)
        tl.store(out + i[:, None] * 4 + i[None, :], r + t)

    x = np.arange(4, dtype=np.float32)
    want = x[:, None] + x[None, :] - 5
    assert np.array_equal(result(kernel, np.float32, (4, 4), x=x, s=5), want)


def test_assembly_that_is_not_known_says_so_away_from_a_gpu():
    kernel = _kernel("vote.sync.any.pred $0, $1;", "=r,r", "int32")
    x = np.zeros(32, np.int32)
    if default_target().startswith("sm_"):
        pytest.skip("the chip knows it")
    with pytest.raises(TargetError, match=r"'vote\.sync\.any\.pred .* has no meaning known away"):
        run(kernel, out=x, x=x, y=x)


def test_wrong_assembly_is_refused():
    head = "def kernel(x):\n    a = tl.zeros((4,), tl.float32)\n    "
    for line, message in [
        ("tl.inline_asm_elementwise(1, '=f', [a], tl.float32, True, 1)", "as strings"),
        ("tl.inline_asm_elementwise('x', '=f', [a], 3, True, 1)", "a dtype is needed"),
        ("tl.inline_asm_elementwise('x', '=f', [a], tl.float32, True, 3)", "not a power of two"),
    ]:
        assert message in error_of(head + line + "\n", x=None).message


def test_the_constraints_fit_the_operands():
    from workbench.passes.manager import Recorder
    from workbench.passes.pipeline import tile_passes
    from workbench.targets.nvidia import pipeline

    def built(constraints):
        from tests.language.harness import lowered

        kernel = _kernel("neg.f32 $0, $1;", constraints, "float32")
        x = np.zeros(32, np.float32)
        module, _ = lowered(kernel, out=x, x=x, y=x)
        recorder = Recorder()
        return pipeline.build(tile_passes(module, recorder), "sm_90a", recorder)

    assert "neg.f32" in built("=f,f").texts["ptx"]().text
    with pytest.raises(TargetError, match="1 results and 2 operands in the constraints, 1 and 1"):
        built("=f,f,f")
    with pytest.raises(TargetError, match="the constraint 'q' is not known"):
        built("=f,q")


def test_the_chip_can_be_asked():
    def kernel(out, time):
        tl.extra.cuda.gdc_wait()
        tl.store(out, tl.extra.cuda.num_warps())
        tl.store(out + 1, tl.extra.cuda.num_threads())
        tl.store(out + 2, (tl.extra.cuda.smid() >= 0).to(tl.int32))
        tl.store(time, tl.extra.cuda.globaltimer())
        tl.extra.cuda.gdc_launch_dependents()

    out, time = np.zeros(3, np.int32), np.full(1, -1, np.int64)
    run(kernel, out=out, time=time)
    assert out.tolist() == [4, 128, 1]
    assert time[0] >= 0


def test_assembly_prints_and_parses():
    from tests.language.harness import lowered
    from workbench.ir import parse_module

    x = np.zeros(32, np.float32)
    kernel = _kernel('{\n  neg.f32 $0, $1; // "quoted"\n}', "=f,f", "float32")
    module, _ = lowered(kernel, out=x, x=x, y=x)
    text = print_module(module)
    assert print_module(parse_module(text)) == text
    assert tl.extra.cuda.libdevice is tl.extra.libdevice


_CLOCK = 'tl.inline_asm_elementwise("mov.u64 $0, %globaltimer;", "=l", [], tl.int64, False, 1)'


@pytest.mark.parametrize("rounds", [False, True])
def test_a_loop_that_waits_for_a_clock_that_stands_still_is_refused(rounds):
    import workbench as wb

    kernel = from_text(f"""
        def kernel(out, n):
            start = {_CLOCK}
            now = start
            i = 0
            while {"(i < 5) & " if rounds else ""}(now - start < n):
                now = {_CLOCK}
                i += 1
            tl.store(out, i)
    """)
    if rounds:
        wb.compile(kernel, "*i32 i32", target="cpu")
        return
    with pytest.raises(TargetError, match="stands still here"):
        wb.compile(kernel, "*i32 i32", target="cpu")
