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


def _unsigned(f):
    """Return a function of arrays that computes with Python's integers, as 32 bits."""

    def of(*arrays):
        columns = [[int(x) & 0xFFFFFFFF for x in array] for array in arrays]
        found = [f(*row) & 0xFFFFFFFF for row in zip(*columns, strict=True)]
        return np.array(found, np.uint32).view(np.int32)

    return of


def _signed(x):
    return x - (1 << 32) if x >> 31 else x


def _picked(a, b, c):
    """Return what prmt gives."""
    found = 0
    for place in range(4):
        pick = c >> 4 * place & 15
        byte = (b << 32 | a) >> 8 * (pick & 7) & 255
        found |= (255 * (byte >> 7) if pick & 8 else byte) << 8 * place
    return found


def _field(a, start, length, *, signed=False):
    """Return what bfe gives."""
    start, length = start & 255, length & 255
    value = (_signed(a) if signed else a) >> start & ((1 << length) - 1)
    return value - (1 << length) if signed and length and value >> (length - 1) else value


def _inserted(a, b, start, length):
    """Return what bfi gives."""
    start, length = start & 255, min(length & 255, 32)
    field = (1 << length) - 1 << start
    return b & ~field | a << start & field


def _dot(a, b, c):
    return (
        sum(_signed((a >> n & 255) << 24) // (1 << 24) * (b >> n & 255) for n in (0, 8, 16, 24)) + c
    )


@pytest.mark.parametrize(
    ("asm", "want"),
    [
        ("shf.l.wrap.b32 $0, $1, $2, $3;", lambda a, b, c: (b << 32 | a) << (c & 31) >> 32),
        ("shf.r.wrap.b32 $0, $1, $2, $3;", lambda a, b, c: (b << 32 | a) >> (c & 31)),
        ("shf.l.clamp.b32 $0, $1, $2, $3;", lambda a, b, c: (b << 32 | a) << min(c, 32) >> 32),
        ("shf.r.clamp.b32 $0, $1, $2, $3;", lambda a, b, c: (b << 32 | a) >> min(c, 32)),
        ("prmt.b32 $0, $1, $2, $3;", _picked),
        ("prmt.b32 $0, $1, $2, 0x9A40;", lambda a, b, c: _picked(a, b, 0x9A40)),
        ("bfe.u32 $0, $1, $2, $3;", _field),
        ("bfe.s32 $0, $1, $2, $3;", lambda a, b, c: _field(a, b, c, signed=True)),
        ("bfe.s32 $0, $1, 28, 8;", lambda a, b, c: _field(a, 28, 8, signed=True)),
        ("bfi.b32 $0, $1, $2, $3, 7;", lambda a, b, c: _inserted(a, b, c, 7)),
        ("bfi.b32 $0, $1, $2, 5, $3;", lambda a, b, c: _inserted(a, b, 5, c)),
        ("dp4a.s32.u32 $0, $1, $2, $3;", _dot),
        ("add.sat.s32 $0, $1, $2;",
         lambda a, b, c: max(-(2**31), min(2**31 - 1, _signed(a) + _signed(b)))),
        ("cvt.sat.s8.s32 $0, $1;", lambda a, b, c: max(-128, min(127, _signed(a)))),
        ("{ .reg .pred p; .reg .pred q; setp.ne.s32 q, $3, 0;"
         " setp.lt.and.s32 p, $1, $2, q; selp.b32 $0, 1, 2, p; }",
         lambda a, b, c: 1 if c and _signed(a) < _signed(b) else 2),
        ("{ .reg .pred p, q; setp.lo.u32 p|q, $1, $2; selp.b32 $0, $3, 5, q; }",
         lambda a, b, c: 5 if a < b else c),
    ],
)  # fmt: skip
def test_instructions_on_bits(asm, want):
    a, b = (RANDOM.integers(-(2**31), 2**31, 32).astype(np.int32) for _ in "ab")
    c = np.array([0, 1, 5, 31, 32, 33, 40, 255] * 4, np.int32)
    if "bfe" in asm:
        b = RANDOM.integers(0, 40, 32).astype(np.int32)
    kernel = from_text(f"""
        def kernel(out, x, y, z):
            i = tl.arange(0, 32)
            tl.store(out + i, tl.inline_asm_elementwise(
                {asm!r}, "=r,r,r,r", [tl.load(x + i), tl.load(y + i), tl.load(z + i)], tl.int32,
                True, 1))
    """)
    got = result(kernel, np.int32, 32, x=a, y=b, z=c)
    assert np.array_equal(got, _unsigned(want)(a, b, c))


def test_compares_of_nans():
    """`ne` and the others do not hold with a NaN, those that end in u do."""
    x = np.array([1, np.nan, 2, np.nan], np.float32)
    y = np.array([1, 1, 1, np.nan], np.float32)
    for word, want in [
        ("eq", "1000"), ("ne", "0010"), ("neu", "0111"), ("equ", "1101"), ("ltu", "0101"),
        ("gt", "0010"), ("num", "1010"), ("nan", "0101"),
    ]:  # fmt: skip
        asm = f"{{ .reg .pred p; setp.{word}.f32 p, $1, $2; selp.b32 $0, 1, 0, p; }}"
        got = _run(asm, "=r,f,f", x, y, dtype="int32", out=np.int32, args="a, b", n=4)
        assert "".join(map(str, got)) == want, word


def test_tf32_is_rounded():
    if default_target().startswith("sm_8"):
        pytest.skip("these chips round halves away only")
    bits = np.array([0x3F801000, 0x3F800FFF, 0xBF803000, 0x7F800000, 0x3F801001], np.uint32)
    wanted = {
        "rna": [0x3F802000, 0x3F800000, 0xBF804000, 0x7F800000, 0x3F802000],
        "rn": [0x3F800000, 0x3F800000, 0xBF804000, 0x7F800000, 0x3F802000],
    }
    for word, want in wanted.items():
        asm = f"cvt.{word}.tf32.f32 $0, $1;"
        got = _run(asm, "=r,f", bits.view(np.float32), dtype="int32", out=np.int32, n=5)
        assert [hex(v & 0xFFFFFFFF) for v in got.tolist()] == [hex(v) for v in want], word


@pytest.mark.parametrize(
    ("asm", "bits", "want"),
    [
        ("cvt.rn.relu.tf32.f32 $0, $1;", [0xBF804000, 0x3F801001], [0, 0x3F802000]),
        ("cvt.rz.tf32.f32 $0, $1;", [0x3F801FFF, 0xBF803FFF], [0x3F800000, 0xBF802000]),
        ("cvt.rna.satfinite.tf32.f32 $0, $1;", [0x7F800000, 0xFF7FFFFF], [0x7F7FE000, 0xFF7FE000]),
        ("{ .reg .b16 h; cvt.rn.satfinite.f16.f32 h, $1; cvt.u32.u16 $0, h; }",
         [0x49742400, 0xFF800000, 0x3F800000], [0x7BFF, 0xFBFF, 0x3C00]),
        ("{ .reg .b16 h; cvt.rn.satfinite.e4m3x2.f16x2 h, $1; cvt.u32.u16 $0, h; }",
         [0x3C00C000, 0x7BFFBC00], [0x38C0, 0x7EB8]),
        ("{ .reg .b16 h; cvt.rn.satfinite.relu.e5m2x2.f16x2 h, $1; cvt.u32.u16 $0, h; }",
         [0x3C00C000], [0x3C00]),
        ("{ .reg .b16 h; cvt.u16.u32 h, $1; cvt.rn.relu.f16x2.e4m3x2 $0, h; }",
         [0xB838], [0x00003C00]),
    ],
)  # fmt: skip
def test_conversions_stop_where_their_names_say(asm, bits, want):
    if default_target().startswith("sm_"):
        pytest.skip("not every chip has each")
    x = np.array(bits, np.uint32).view(np.int32)
    x = np.resize(x, 4)
    got = _run(asm, "=r,r", x, dtype="int32", out=np.int32, n=4)
    assert [hex(v & 0xFFFFFFFF) for v in got[: len(want)].tolist()] == [hex(v) for v in want]


@pytest.mark.parametrize("signed", [True, False])
def test_fields_of_64_bits(signed):
    kernel = from_text(f"""
        def kernel(out, x, y, z):
            i = tl.arange(0, 32)
            a, b, c = tl.load(x + i), tl.load(y + i), tl.load(z + i)
            tl.store(out + i, tl.inline_asm_elementwise(
                "bfe.{"s" if signed else "u"}64 $0, $1, $2, $3;", "=l,l,r,r", [a, b, c], tl.int64,
                True, 1))
    """)
    a = RANDOM.integers(-(2**63), 2**63, 32)
    b, c = (RANDOM.choice([0, 1, 9, 63, 64, 65, 255], 32).astype(np.int32) for _ in "bc")
    want: list[int] = []
    for value, start, length in zip(a.tolist(), b.tolist(), c.tolist(), strict=True):
        value = (value if signed else value & (1 << 64) - 1) >> start
        field = value & (1 << length) - 1 if length < 64 else value
        negative = signed and 0 < length < 64 and field >> (length - 1) & 1
        want.append(field - (1 << length) if negative else field)
    got = result(kernel, np.int64, 32, x=a, y=b, z=c)
    assert [v & (1 << 64) - 1 for v in got.tolist()] == [v & (1 << 64) - 1 for v in want]


@pytest.mark.parametrize("way", ["setp.lt.xor.s32 p|q, $1, $2, p;", "@p setp.lt.s32 p|q, $1, $2;"])
def test_a_predicate_is_read_before_any_is_written(way):
    asm = f"""{{
        .reg .pred p, q;
        setp.gt.s32 p, $1, 0;
        setp.gt.s32 q, $1, 100;
        {way}
        selp.b32 $0, 1, 0, p;
        @q add.s32 $0, $0, 2;
    }}"""
    a, b = np.array([1, 1, -1, -1], np.int32), np.array([0, 2, 0, -2], np.int32)
    got = _run(asm, "=r,r,r", a, b, dtype="int32", out=np.int32, args="a, b", n=4)
    less, above = a < b, a > 0
    if "xor" in way:
        want = (less ^ above) + 2 * (~less ^ above)
    else:
        want = np.where(above, less + 2 * ~less, 0)
    assert got.tolist() == want.tolist()


@pytest.mark.parametrize("constraints", ["=r,0,r", "0,=r,r", "=r,~{memory},0,r", "0,r,=r"])
def test_an_operand_that_is_a_result_wherever_its_word_stands(constraints):
    a, b = (RANDOM.integers(-(2**31), 2**31, 32).astype(np.int32) for _ in "ab")
    got = _run("sub.s32 $0, $0, $2;", constraints, a, b, dtype="int32", out=np.int32, args="a, b")
    assert np.array_equal(got, a - b)


def test_results_that_are_written_early_and_operands_that_are_results():
    """`=&r` keeps a result from an operand's register, `0` is the register of result 0."""
    kernel = from_text("""
        def kernel(out, x, y):
            i = tl.arange(0, 32)
            a, b = tl.load(x + i), tl.load(y + i)
            s, d = tl.inline_asm_elementwise("add.s32 $0, $2, $3; sub.s32 $1, $2, $3;",
                                             "=&r,=r,r,r", [a, b], dtype=(tl.int32, tl.int32),
                                             is_pure=True, pack=1)
            t = tl.inline_asm_elementwise("add.s32 $0, $0, $2;", "=r,0,r", [s, d], tl.int32,
                                          True, 1)
            tl.store(out + i, t)
    """)
    a, b = (RANDOM.integers(-(2**31), 2**31, 32).astype(np.int32) for _ in "ab")
    assert np.array_equal(result(kernel, np.int32, 32, x=a, y=b), a + a)


@pytest.mark.parametrize(
    "asm",
    ["add.rz.f32 $0, $1, $2;", "cvt.rz.f32.s32 $0, $1;", "min.s16x2 $0, $1, $2;",
     "prmt.b32.f4e $0, $1, $2, 3;",
     "fma.rn.oob.relu.f16 $0, $1, $2, $2;", "min.xorsign.abs.f32 $0, $1, $2;"],
)  # fmt: skip
def test_what_a_name_says_is_never_left_out(asm):
    """Computing an instruction without a word of its name would give another value."""
    if default_target().startswith("sm_"):
        pytest.skip("the chip knows it")
    x = np.zeros(32, np.int32)
    with pytest.raises(TargetError, match="has no meaning known away"):
        run(_kernel(asm, "=r,r,r", "int32", args="a, b"), out=x, x=x, y=x)


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

    for order in ("=f,f", "f,=f", "=f,~{memory},f"):
        assert "neg.f32" in built(order).texts["ptx"]().text, order
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
