"""dot_scaled against float64 products of the decoded operands."""

import numpy as np
import pytest
import torch

import workbench.language as tl
from tests.language.harness import error_of, from_text, lowered, run
from tests.targets.everywhere import TARGETS, run_on
from workbench.source import ConstexprError, ShapeError

RANDOM = np.random.default_rng(3)
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
M, N, K = 16, 8, 64


def _operand(name, rows, columns, packed_axis):
    """Return (memory, float64 numbers) of a random operand."""
    if name == "e2m1":
        codes = RANDOM.integers(0, 16, (rows, columns))
        numbers = E2M1[codes & 7] * np.where(codes & 8, -1.0, 1.0)
        low, high = (codes[:, i::2] if packed_axis else codes[i::2] for i in (0, 1))
        return torch.from_numpy((low | high << 4).astype(np.uint8)), numbers
    kinds = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2, "bf16": torch.bfloat16,
             "fp16": torch.float16}  # fmt: skip
    memory = torch.from_numpy(RANDOM.standard_normal((rows, columns)).astype(np.float32))
    memory = memory.to(kinds[name])
    return memory, memory.double().numpy()


def _scale(rows, groups, kind):
    if kind is None:
        return None, np.ones((rows, 1))
    if kind in ("e8m0", "signed"):
        bits = RANDOM.integers(120, 134, (rows, groups)).astype(np.uint8)
        shown = bits.view(np.int8) if kind == "signed" else bits
        return torch.from_numpy(shown), 2.0 ** (bits.astype(np.float64) - 127)
    memory = torch.from_numpy(RANDOM.uniform(0.5, 3, (rows, groups)).astype(np.float32))
    memory = memory.to(torch.float8_e4m3fn)
    return memory, memory.double().numpy()


def _kernel(formats, packs, has_scale, acc):
    shapes = []
    for side, (name, pack) in enumerate(zip(formats, packs, strict=True)):
        shape = [M, K] if side == 0 else [K, N]
        if name == "e2m1":
            k_axis = 1 - side
            shape[k_axis if pack else 1 - k_axis] //= 2
        shapes.append(tuple(shape))
    scales = ["None", "None"]
    if has_scale[0]:
        scales[0] = "tl.load(asc + m[:, None] * G0 + tl.arange(0, G0)[None, :])"
    if has_scale[1]:
        scales[1] = "tl.load(bsc + n[:, None] * G1 + tl.arange(0, G1)[None, :])"
    tail = ", acc=tl.load(out + m[:, None] * 8 + n[None, :])" if acc else ""
    return from_text(f"""
        def kernel(out, a, asc, b, bsc, G0: tl.constexpr, G1: tl.constexpr):
            m, n = tl.arange(0, {M}), tl.arange(0, {N})
            i, j = tl.arange(0, {shapes[0][0]}), tl.arange(0, {shapes[0][1]})
            p, q = tl.arange(0, {shapes[1][0]}), tl.arange(0, {shapes[1][1]})
            x = tl.load(a + i[:, None] * {shapes[0][1]} + j[None, :])
            y = tl.load(b + p[:, None] * {shapes[1][1]} + q[None, :])
            r = tl.dot_scaled(x, {scales[0]}, "{formats[0]}", y, {scales[1]}, "{formats[1]}",
                              lhs_k_pack={packs[0]}, rhs_k_pack={packs[1]}{tail})
            tl.store(out + m[:, None] * 8 + n[None, :], r)
    """)


@pytest.mark.parametrize(
    ("formats", "packs", "scales", "run_length"),
    [
        (("e2m1", "e2m1"), (True, True), ("e8m0", "e8m0"), 32),
        (("e2m1", "e2m1"), (False, False), ("e8m0", "e8m0"), 32),
        (("e2m1", "e2m1"), (True, True), ("e4m3", "e4m3"), 16),
        (("e4m3", "e5m2"), (True, True), ("e8m0", "e8m0"), 32),
        (("e5m2", "e5m2"), (True, True), ("signed", "e8m0"), 32),
        (("e5m2", "e2m1"), (True, True), (None, "e8m0"), 32),
        (("e2m1", "bf16"), (True, True), ("e8m0", None), 32),
        (("fp16", "e4m3"), (True, True), (None, "e8m0"), 32),
        (("bf16", "fp16"), (True, True), (None, None), 32),
    ],
)
@pytest.mark.parametrize("acc", [False, True])
def test_operands_are_decoded_and_scaled(formats, packs, scales, run_length, acc):
    a, a_numbers = _operand(formats[0], M, K, int(packs[0]))
    b, b_numbers = _operand(formats[1], K, N, int(not packs[1]))
    groups = K // run_length
    asc, a_factors = _scale(M, groups, scales[0])
    bsc, b_factors = _scale(N, groups, scales[1])
    want = (a_numbers * np.repeat(a_factors, K // a_factors.shape[1], 1)) @ (
        b_numbers * np.repeat(b_factors, K // b_factors.shape[1], 1).T
    )
    out = torch.ones((M, N))
    kernel = _kernel(formats, packs, [s is not None for s in scales], acc)
    run(kernel, out=out, a=a, asc=asc, b=b, bsc=bsc, G0=groups, G1=groups)
    # Exact operands but where fp16 cannot hold a bf16; sums of 64 products in fp32.
    bound = 2e-3 if "fp16" in formats else 1e-5
    assert np.allclose(out.numpy(), want + acc, rtol=bound, atol=bound * np.abs(want).max())


@pytest.mark.parametrize("side", [0, 1])
def test_only_what_is_packed_is_packed_along_another_axis(side):
    packs = (side == 1, side == 0)
    kernel = _kernel(("e4m3", "e4m3"), packs, (False, False), acc=False)
    a, _ = _operand("e4m3", M, K, 1)
    b, _ = _operand("e4m3", K, N, 0)
    name = ("lhs", "rhs")[side]
    with pytest.raises(ConstexprError, match=f"{name}_k_pack=False for {name}_format 'e4m3'") as at:
        run(kernel, out=torch.ones((M, N)), a=a, asc=a, b=b, bsc=b, G0=2, G1=2)
    assert at.value.span is not None
    assert at.value.hint == f"leave {name}_k_pack out"


def test_the_smallest_scale_and_nan():
    def kernel(out, a, asc, b, fast: tl.constexpr):
        m, n, k = tl.arange(0, 16), tl.arange(0, 16), tl.arange(0, 32)
        x = tl.load(a + m[:, None] * 32 + k[None, :])
        y = tl.load(b + k[:, None] * 16 + n[None, :])
        s = tl.load(asc + m[:, None])
        r = tl.dot_scaled(x, s, "bf16", y, None, "bf16", fast_math=fast)
        tl.store(out + m[:, None] * 16 + n[None, :], r)

    a, b = torch.ones((16, 32), dtype=torch.bfloat16), torch.ones((32, 16), dtype=torch.bfloat16)
    asc = torch.full((16, 1), 127, dtype=torch.uint8)
    asc[0], asc[1] = 0, 255
    out = torch.zeros((16, 16))
    run(kernel, out=out, a=a, asc=asc, b=b, fast=False)
    assert out[0, 0] == 32 * 2.0**-127
    assert torch.isnan(out[1]).all()
    assert (out[2:] == 32).all()


#: A case: what is multiplied, a format, whether NaN is one, and codes.
EVERY = [
    ("fp16", "e2m1", True, range(16)), ("bf16", "e2m1", True, range(16)),
    ("fp16", "e2m1", False, (0, 9, 15)),
    ("fp16", "e4m3", True, (0, 1, 2, 3, 7, 8, 9, 21, 56, 90, 113, 126, 127, 129, 135, 254)),
]  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", EVERY, ids=lambda case: "-".join(map(str, case[:3])))
def test_codes_have_the_product_with_every_scale(case, target):
    """As fp32 has it, rounded once; where it is infinite or NaN, too."""
    to, form, exact, chosen = case
    codes = torch.tensor(list(chosen), dtype=torch.uint8)
    per_byte = 2 if form == "e2m1" else 1

    def kernel(out, code_ptr, s_ptr, y_ptr, B: tl.constexpr, form: tl.constexpr,
               to: tl.constexpr, exact: tl.constexpr):  # fmt: skip
        m, k, n = tl.arange(0, 256), tl.arange(0, 32), tl.arange(0, 16)
        number = tl.program_id(0)
        first = (tl.arange(0, B)[None, :] == 0) & (m[:, None] >= 0)
        x = tl.where(first, tl.load(code_ptr + number), 0).to(tl.uint8)
        y = tl.load(y_ptr + k[:, None] * 16 + n[None, :])
        r = tl.dot_scaled(x, tl.load(s_ptr + m[:, None]), form, y, None, to, fast_math=not exact)
        tl.store(out + number * 256 + m, tl.sum(tl.where(n[None, :] == 0, r, 0.0), 1))

    type = torch.float16 if to == "fp16" else torch.bfloat16
    y = torch.zeros((32, 16), dtype=type)
    y[0] = 1
    scales = torch.arange(256, dtype=torch.uint8)
    out = torch.zeros((len(codes), 256))
    run_on(target, kernel, grid=(len(codes),), out=out, code_ptr=codes, s_ptr=scales, y_ptr=y,
           B=32 // per_byte, form=form, to=to, exact=exact)  # fmt: skip
    bits = np.maximum(np.arange(256, dtype=np.uint32) << 23, 1 << 22)
    factors = torch.from_numpy(bits.view(np.float32).copy())
    signed = torch.from_numpy(np.concatenate([E2M1, -E2M1]).astype(np.float32))
    numbers = signed[codes.long() % 16] if per_byte == 2 else codes.view(torch.float8_e4m3fn)
    want = (numbers.float()[:, None] * factors).to(type).float()
    want[:, 255] = np.nan  # beside others, which are zero
    assert torch.equal(torch.nan_to_num(out, 7e30), torch.nan_to_num(want, 7e30))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("exact", [True, False])
def test_sums_of_few_rows_have_every_scale(exact, target):
    """No 16-bit format comes between: 2^-127 to 2^113, beside a sum of another run."""

    def kernel(out, y_ptr, s_ptr, exact: tl.constexpr):
        m, k, n = tl.arange(0, 16), tl.arange(0, 64), tl.arange(0, 256)
        x = tl.where((k[None, :] == m[:, None]) | (k[None, :] == 40), 1.0, 0.0).to(tl.float16)
        y = tl.load(y_ptr + n[:, None] * 32 + tl.arange(0, 32)[None, :])
        s = tl.load(s_ptr + n[:, None] * 2 + tl.arange(0, 2)[None, :])
        start = tl.zeros((16, 256), tl.float32)
        r = tl.dot_scaled(x, None, "fp16", y.T, s, "e2m1", start, fast_math=not exact)
        tl.store(out + m[:, None] * 256 + n[None, :], r)

    y = torch.zeros((256, 64), dtype=torch.uint8)
    y[:, :16] = torch.arange(16)
    y[:, 40] = 2  # 1
    scales = torch.stack([torch.arange(256), torch.full((256,), 127)], 1).to(torch.uint8)
    out = torch.zeros((16, 256))
    run_on(target, kernel, out=out, y_ptr=y[:, ::2] | y[:, 1::2] << 4, s_ptr=scales, exact=exact)
    bits = np.maximum(np.arange(256, dtype=np.uint32) << 23, 1 << 22)
    factors = torch.from_numpy(bits.view(np.float32).copy()).double()
    numbers = torch.from_numpy(np.concatenate([E2M1, -E2M1]))
    want = (numbers[:, None] * factors + 1).float()
    assert torch.equal(out[:, :241], want[:, :241])
    assert out[:, 255].isnan().all()


#: What holds an operand of a format, and how many numbers one element of it holds.
HOLDERS = {"e2m1": ("uint8", 2), "e4m3": ("float8e4nv", 1), "e5m2": ("float8e5", 1),
           "bf16": ("bfloat16", 1), "fp16": ("float16", 1)}  # fmt: skip


@pytest.mark.parametrize("side", ["lhs", "rhs"])
@pytest.mark.parametrize("name", HOLDERS)
@pytest.mark.parametrize(("scale", "run_length"), [("uint8", 32), ("int8", 32), ("float8e4nv", 16)])
def test_a_scale_of_another_shape_is_refused(name, side, scale, run_length):
    """Too many and too few, transposed, wrong rank, another row count: found and expected shown."""
    rows, k = (16, 128) if side == "lhs" else (8, 128)
    groups = k // run_length
    holder, packed = HOLDERS[name]
    operands = {"lhs": (16, k // packed), "rhs": (k // packed, 8)}
    other = {"lhs": ("rhs", (k, 8)), "rhs": ("lhs", (16, k))}[side]
    wrong = [(rows, groups * 2), (rows, groups // 2), (rows, 1), (groups, rows), (rows * 2, groups),
             (1, groups), (groups,), (rows,), (1, rows, groups), (rows * groups,), ()]  # fmt: skip
    for shape in [*wrong, (rows, groups)]:
        block = f"tl.zeros({operands[side]}, tl.{holder})"
        given = {
            side: f"{block}, tl.zeros({shape}, tl.{scale}), {name!r}",
            other[0]: f"tl.zeros({other[1]}, tl.bfloat16), None, 'bf16'",
        }
        text = f"""
            def kernel(x):
                tl.dot_scaled({given["lhs"]}, {given["rhs"]})
        """
        if shape == (rows, groups):
            lowered(from_text(text), x=None)
            continue
        error = error_of(text, x=None)
        assert isinstance(error, ShapeError)
        assert f"{side}_scale is " in error.message
        assert f"expected shape {(rows, groups)}" in error.message
        assert error.span is not None


def test_operands_without_two_axes_are_refused():
    for lhs, rhs, named in [("(64,)", "(64, 16)", "lhs"), ("(16, 64)", "(64,)", "rhs")]:
        error = error_of(
            f"""
            def kernel(x):
                tl.dot_scaled(tl.zeros({lhs}, tl.bfloat16), None, "bf16",
                              tl.zeros({rhs}, tl.bfloat16), None, "bf16")
            """,
            x=None,
        )
        assert isinstance(error, ShapeError)
        assert f"{named} is " in error.message


def test_wrong_operands_are_refused():
    head = """
        def kernel(x):
            a, b = tl.zeros((16, 64), tl.uint8), tl.zeros((64, 16), tl.uint8)
            s, t = tl.zeros((16, 2), tl.uint8), tl.zeros((16, 3), tl.uint8)
            h, n = tl.zeros((16, 64), tl.float16), tl.zeros((16, 16), tl.bfloat16)
    """
    for line, message in [
        ("tl.dot_scaled(a, s, 'e3m2', b, s, 'e4m3')", "knows no lhs_format 'e3m2'"),
        ("tl.dot_scaled(a, s, 'bf16', b, s, 'e4m3')", "got lhs_format 'bf16' for 'a'"),
        ("tl.dot_scaled(h, s, 'e2m1', b, s, 'e4m3')", "takes e2m1 as uint8"),
        ("tl.dot_scaled(a, t, 'e4m3', b, s, 'e4m3')", "lhs_scale is 't'"),
        ("tl.dot_scaled(a, s.to(tl.int32), 'e4m3', b, s, 'e4m3')", "takes scales of uint8"),
        (
            "tl.dot_scaled(n, s, 'bf16', n, None, 'bf16')",
            "K is no multiple of 32, lhs_scale is 's'",
        ),
    ]:
        assert message in error_of(head.rstrip() + "\n" + " " * 12 + line, x=None).message
