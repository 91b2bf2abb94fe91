"""One case for every row of the table of names: an expression or statements, and what they give.

In a case `a` and `b` are blocks of 16 positive fp32, `m` of int32, `i` counts them, `x y k` are the
arrays behind them, `out` is where the result goes (`dtype`), and `s` is the run-time integer 3.
The reference gets the same as float32 and int32 arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

N = 16
COUNT = np.arange(N)


@dataclass(frozen=True)
class Case:
    """`text` is an expression, or statements that store to `out` where `shape` is given."""

    text: str
    want: Callable[..., Any]
    dtype: str = "float32"
    shape: tuple[int, ...] | None = None
    bound: float = 2e-6


def _words(text: str) -> list[str]:
    return text.split()


def _floats(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda a, b, m: function(a.astype(np.float64))


def _softmax(a: Any, b: Any, m: Any) -> Any:
    powers = np.exp(a.astype(np.float64) - a.max())
    return powers / powers.sum()


def philox(seed: int, offsets: Any, rounds: int = 10) -> list[Any]:
    """Return four blocks of 32-bit words: Philox-4x32-10 as its authors define it."""
    mask = np.uint64(0xFFFFFFFF)
    words = [np.asarray(offsets, np.uint64), *(np.zeros(len(offsets), np.uint64) for _ in range(3))]
    keys = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(rounds):
        products = [words[0] * np.uint64(0xD2511F53), words[2] * np.uint64(0xCD9E8D57)]
        high, low = [p >> np.uint64(32) for p in products], [p & mask for p in products]
        words = [high[1] ^ words[1] ^ np.uint64(keys[0]), low[1],
                 high[0] ^ words[3] ^ np.uint64(keys[1]), low[0]]  # fmt: skip
        keys = [(keys[0] + 0x9E3779B9) & 0xFFFFFFFF, (keys[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return [w.astype(np.uint32) for w in words]


def _uniform(words: Any) -> Any:
    signed = words.astype(np.uint32).view(np.int32).astype(np.int64)
    folded = np.where(signed < 0, -signed - 1, signed).astype(np.float32)
    return folded * np.float32(4.6566127342e-10)


def _normals(u: Any, v: Any) -> tuple[Any, Any]:
    radius = np.sqrt(-2 * np.log(np.maximum(1e-7, u.astype(np.float64))))
    angle = 2 * np.pi * v
    return radius * np.cos(angle), radius * np.sin(angle)


_WORDS = philox(7, COUNT)
_UNIFORMS = [_uniform(w) for w in _WORDS]
_NORMALS = [*_normals(*_UNIFORMS[:2]), *_normals(*_UNIFORMS[2:])]

CASES: dict[str, Case] = {
    # -- programs and promises ------------------------------------------------------------------
    "program_id": Case("i + tl.program_id(0) + tl.program_id(axis=2)", lambda a, b, m: COUNT),
    "num_programs": Case("i + tl.num_programs(0) * 10", lambda a, b, m: COUNT + 10),
    "multiple_of": Case("tl.multiple_of(i * 4, 4)", lambda a, b, m: COUNT * 4),
    "max_contiguous": Case("tl.max_contiguous(i, [16])", lambda a, b, m: COUNT),
    "max_constancy": Case("tl.max_constancy(i // 4, (4,))", lambda a, b, m: COUNT // 4),
    "assume": Case("tl.assume(s > 0)\ntl.store(out + i, i + s)", lambda a, b, m: COUNT + 3,
                   shape=(N,)),
    "debug_barrier": Case("tl.store(out + i, a)\ntl.debug_barrier()\n"
                          "tl.store(out + i, tl.load(out + 15 - i))",
                          lambda a, b, m: a[::-1], shape=(N,)),
    # -- dtypes ---------------------------------------------------------------------------------
    "constexpr": Case("n: tl.constexpr = tl.constexpr(4) * 4\ntl.store(out + tl.arange(0, n), a)",
                      lambda a, b, m: a, shape=(N,)),
    **{name: Case(f"(m.to(tl.{name}) + 1).to(tl.{name})", lambda a, b, m: m + 1,
                  name if name != "int1" else "int32")
       for name in _words("int8 int16 int32 int64")},
    **{name: Case(f"m.to(tl.{name}) // 2", lambda a, b, m: m // 2, name)
       for name in _words("uint8 uint16 uint32 uint64")},
    "int1": Case("(m > 5).to(tl.int1)", lambda a, b, m: m > 5, "bool"),
    **{name: Case(f"a.to(tl.{name})", lambda a, b, m: a, name)
       for name in _words("float16 float32 float64")},
    **{name: Case(f"(m % 8 * 0.5).to(tl.{name}).to(tl.float32)", lambda a, b, m: m % 8 * 0.5)
       for name in _words("bfloat16 float8e4nv float8e5")},
    "dtype": Case('a.to(tl.dtype("fp16"))', lambda a, b, m: a.astype(np.float16), "float16"),
    "pointer_type": Case("tl.load((x.to(tl.int64) + 8).to(tl.pointer_type(tl.float32)) + 0 * i)",
                         lambda a, b, m: np.full(N, a[2])),
    "tensor": Case("tl.static_assert(isinstance(a, tl.tensor))\n"
                   "tl.static_assert(a.shape == (16,) and a.numel == 16)\n"
                   "tl.static_assert(a.dtype == tl.float32 and a[None].T.shape == (16, 1))\n"
                   "tl.store(out + i, a)", lambda a, b, m: a, shape=(N,)),
    "const": Case("tl.store(out + i, tl.load(constant + i))", lambda a, b, m: a, shape=(N,)),
    "tuple": Case("t = tl.tuple((a, b))\ntl.store(out + i, t[1])", lambda a, b, m: b, shape=(N,)),
    # -- shapes ---------------------------------------------------------------------------------
    "arange": Case("tl.arange(3, end=19)", lambda a, b, m: COUNT + 3),
    "full": Case("tl.full((4, 2), value=s, dtype=tl.float32)",
                 lambda a, b, m: np.full((4, 2), 3.0)),
    "zeros": Case("tl.zeros([2, 8], dtype=tl.float32) + s", lambda a, b, m: np.full((2, 8), 3.0)),
    "zeros_like": Case("tl.zeros_like(input=a)", lambda a, b, m: np.zeros(N)),
    "broadcast_to": Case("tl.broadcast_to(a[:, None], 16, 2)", lambda a, b, m: np.stack([a, a], 1)),
    "expand_dims": Case("tl.expand_dims(a, (0, 2))", lambda a, b, m: a[None, :, None]),
    "broadcast": Case("tl.broadcast(a[:, None], tl.arange(0, 2)[None, :])[0]",
                      lambda a, b, m: np.stack([a, a], 1)),
    "reshape": Case("tl.reshape(a, (2, 8), can_reorder=False)", lambda a, b, m: a.reshape(2, 8)),
    "view": Case("tl.view(a, 8, 2)", lambda a, b, m: a.reshape(8, 2)),
    "ravel": Case("tl.ravel(tl.reshape(a, 4, 4), can_reorder=False)", lambda a, b, m: a),
    "trans": Case("tl.trans(tl.reshape(a, 2, 8))", lambda a, b, m: a.reshape(2, 8).T),
    "permute": Case("tl.permute(tl.reshape(a, 2, 4, 2), (2, 0, 1))",
                    lambda a, b, m: a.reshape(2, 4, 2).transpose(2, 0, 1)),
    "join": Case("tl.join(a, b)", lambda a, b, m: np.stack([a, b], -1)),
    "split": Case("tl.split(tl.reshape(a, 8, 2))[1]", lambda a, b, m: a[1::2]),
    "interleave": Case("tl.interleave(a, b)", lambda a, b, m: np.stack([a, b], -1).ravel()),
    "cat": Case("tl.cat(a, b, can_reorder=True)", lambda a, b, m: np.concatenate([a, b])),
    "flip": Case("tl.flip(tl.reshape(a, 2, 8), dim=0)", lambda a, b, m: a.reshape(2, 8)[::-1]),
    "item": Case("tl.store(out, tl.sum(a, keep_dims=True).item())", lambda a, b, m: a.sum(),
                 shape=()),
    "cast": Case('tl.cast(a, tl.int32, fp_downcast_rounding=None, bitcast=True)',
                 lambda a, b, m: a.view(np.int32), "int32"),
    # -- control --------------------------------------------------------------------------------
    "static_range": Case("t = a\nfor j in tl.static_range(1, 7, 2):\n    t += j\n"
                         "tl.store(out + i, t)", lambda a, b, m: a + 9, shape=(N,)),
    "range": Case("t = a\nfor j in tl.range(0, s, 1, num_stages=2, loop_unroll_factor=2,\n"
                  "                  disallow_acc_multi_buffer=True, flatten=True,\n"
                  "                  warp_specialize=False, disable_licm=True):\n    t += j\n"
                  "tl.store(out + i, t)", lambda a, b, m: a + 3, shape=(N,)),
    "static_assert": Case('tl.static_assert(True, "never")\ntl.store(out + i, a)',
                          lambda a, b, m: a, shape=(N,)),
    "static_print": Case('tl.static_print("a is", a, sep=" ")\ntl.store(out + i, a)',
                         lambda a, b, m: a, shape=(N,)),
    # -- memory ---------------------------------------------------------------------------------
    "load": Case('tl.load(x + i, mask=i < 9, other=-1.0, cache_modifier=".ca",\n'
                 '        eviction_policy="evict_last", volatile=False)',
                 lambda a, b, m: np.where(COUNT < 9, a, -1)),
    "store": Case('tl.store(out + i, a, mask=i > 3, cache_modifier=".wb",\n'
                  '         eviction_policy="evict_first")',
                  lambda a, b, m: np.where(COUNT > 3, a, 0), shape=(N,)),
    "make_block_ptr": Case("tl.load(tl.make_block_ptr(base=x, shape=(4, 4), strides=(4, 1),\n"
                           "    offsets=(1, 2), block_shape=(2, 2), order=(1, 0)))",
                           lambda a, b, m: a.reshape(4, 4)[1:3, 2:4]),
    "advance": Case("p = tl.make_block_ptr(x, (16,), (1,), (0,), (8,), (0,))\n"
                    "tl.store(out + tl.arange(0, 8), tl.load(tl.advance(p, (s,))))",
                    lambda a, b, m: a[3:11], shape=(8,)),
    "make_tensor_descriptor": Case(
        'tl.make_tensor_descriptor(x, [4, 4], [4, 1], [2, 4], padding_option="zero").load([3, 0])',
        lambda a, b, m: np.stack([a[12:], np.zeros(4)])),
    "load_tensor_descriptor": Case(
        "tl.load_tensor_descriptor(tl.make_tensor_descriptor(x, [16], [1], [4]), offsets=[s])",
        lambda a, b, m: a[3:7]),
    "store_tensor_descriptor": Case(
        "d = tl.make_tensor_descriptor(out, [16], [1], [16])\n"
        "tl.store_tensor_descriptor(d, [s], a)",
        lambda a, b, m: np.concatenate([np.zeros(3), a[:13]]), shape=(N,)),
    "tensor_descriptor": Case(
        "d = tl.make_tensor_descriptor(out, [4, 4], [4, 1], [4, 4])\n"
        "tl.static_assert(isinstance(d, tl.tensor_descriptor))\n"
        "d.store([0, 0], tl.reshape(a, 4, 4) * d.shape[0] * d.strides[0])",
        lambda a, b, m: a * 16, shape=(N,)),
    "tensor_descriptor_type": Case(
        "d = tl.make_tensor_descriptor(out, [16], [1], [16])\n"
        "tl.static_assert(isinstance(d.type, tl.tensor_descriptor_type))\n"
        "tl.static_assert(d.type.nbytes == 64)\nd.store([0], a)",
        lambda a, b, m: a, shape=(N,)),
    # -- atomics --------------------------------------------------------------------------------
    "atomic_add": Case('tl.atomic_add(out + i % 4, a, mask=i < 12, sem="relaxed", scope="gpu")',
                       lambda a, b, m: a[:12].reshape(3, 4).sum(0), shape=(4,)),
    "atomic_max": Case("tl.atomic_max(out + i % 4, a)",
                       lambda a, b, m: a.reshape(4, 4).max(0), shape=(4,)),
    "atomic_min": Case("tl.atomic_min(out + i % 4, -a)",
                       lambda a, b, m: (-a).reshape(4, 4).min(0), shape=(4,)),
    "atomic_and": Case("tl.atomic_xchg(out, -1)\ntl.debug_barrier()\n"
                       "tl.atomic_and(out + i * 0, m | 32)",
                       lambda a, b, m: np.bitwise_and.reduce(m | 32), "int32", ()),
    "atomic_or": Case("tl.atomic_or(out + i * 0, m)", lambda a, b, m: np.bitwise_or.reduce(m),
                      "int32", ()),
    "atomic_xor": Case("tl.atomic_xor(out + i * 0, m)", lambda a, b, m: np.bitwise_xor.reduce(m),
                       "int32", ()),
    "atomic_xchg": Case("tl.store(out + 16 + i, tl.atomic_xchg(out + i, a))",
                        lambda a, b, m: np.concatenate([a, np.zeros(N)]), shape=(2 * N,)),
    "atomic_cas": Case('tl.atomic_cas(out + i, i % 2, m, sem="acq_rel", scope="sys")',
                       lambda a, b, m: np.where(COUNT % 2, 0, m), "int32", (N,)),
    # -- arithmetic -----------------------------------------------------------------------------
    "where": Case("tl.where(m > 5, a, 0.0)", lambda a, b, m: np.where(m > 5, a, 0)),
    "maximum": Case("tl.maximum(a, b, propagate_nan=tl.PropagateNan.NONE)",
                    lambda a, b, m: np.maximum(a, b)),
    "minimum": Case("tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)",
                    lambda a, b, m: np.minimum(a, b)),
    "PropagateNan": Case('tl.maximum(a, float("nan"), tl.PropagateNan.ALL)',
                         lambda a, b, m: np.full(N, np.nan)),
    "clamp": Case("tl.clamp(a, 0.5, max=1.0)", lambda a, b, m: np.clip(a, 0.5, 1)),
    "exp": Case("tl.exp(a)", _floats(np.exp)), "exp2": Case("tl.exp2(a)", _floats(np.exp2)),
    "log": Case("tl.log(a)", _floats(np.log)), "log2": Case("tl.log2(a)", _floats(np.log2)),
    "sqrt": Case("tl.sqrt(a)", _floats(np.sqrt)), "sin": Case("tl.sin(a)", _floats(np.sin)),
    "cos": Case("tl.cos(a)", _floats(np.cos)), "floor": Case("tl.floor(a)", _floats(np.floor)),
    "ceil": Case("tl.ceil(a)", _floats(np.ceil)),
    "rsqrt": Case("tl.rsqrt(a)", _floats(lambda v: 1 / np.sqrt(v))),
    "sqrt_rn": Case("tl.sqrt_rn(a)", lambda a, b, m: np.sqrt(a), bound=0),
    "abs": Case("tl.abs(m - 6)", lambda a, b, m: abs(m - 6)),
    "sigmoid": Case("tl.sigmoid(a)", _floats(lambda v: 1 / (1 + np.exp(-v)))),
    "erf": Case("tl.erf(a)", _floats(np.vectorize(__import__("math").erf))),
    "fma": Case("tl.fma(a, b, 2.0)", lambda a, b, m: a.astype(np.float64) * b + 2),
    "math": Case("tl.math.exp(a) + tl.math.tanh(b)", lambda a, b, m: np.exp(a) + np.tanh(b)),
    "cdiv": Case("tl.cdiv(m, 3)", lambda a, b, m: -(-m // 3)),
    "add": Case("tl.add(a, b, sanitize_overflow=True)", lambda a, b, m: a + b),
    "sub": Case("tl.sub(a, b, sanitize_overflow=False)", lambda a, b, m: a - b),
    "mul": Case("tl.mul(a, b)", lambda a, b, m: a * b),
    "fdiv": Case("tl.fdiv(a, b, ieee_rounding=False)", lambda a, b, m: a / b),
    "div_rn": Case("tl.div_rn(a, b)", lambda a, b, m: a / b, bound=0),
    "umulhi": Case("tl.umulhi(m * 123456789, m * 987654321)",
                   lambda a, b, m: ((m * np.int64(123456789) & 0xFFFFFFFF).astype(object)
                                    * (m * np.int64(987654321) & 0xFFFFFFFF) // 2**32), "uint32"),
    "swizzle2d": Case("tl.swizzle2d(i // 4, i % 4, size_i=4, size_j=4, size_g=2)[0]",
                      lambda a, b, m: [0, 1, 0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3, 2, 3]),
    # -- reductions and scans -------------------------------------------------------------------
    "sum": Case("tl.sum(tl.reshape(a, 4, 4), axis=1, keep_dims=True, dtype=tl.float32)",
                lambda a, b, m: a.reshape(4, 4).sum(1, keepdims=True)),
    "max": Case("tl.max(tl.reshape(a, 4, 4), axis=0, return_indices=True,\n"
                "       return_indices_tie_break_left=True)[1]",
                lambda a, b, m: a.reshape(4, 4).argmax(0)),
    "min": Case("tl.min(tl.reshape(a, 4, 4), 1)", lambda a, b, m: a.reshape(4, 4).min(1)),
    "argmax": Case("tl.argmax(tl.reshape(m, 2, 8), axis=1, tie_break_left=True, keep_dims=True)",
                   lambda a, b, m: m.reshape(2, 8).argmax(1)[:, None]),
    "argmin": Case("tl.argmin(tl.reshape(m, 2, 8), 1)", lambda a, b, m: m.reshape(2, 8).argmin(1)),
    "softmax": Case("tl.softmax(a, dim=0, keep_dims=False, ieee_rounding=False)", _softmax),
    "reduce": Case("tl.reduce(tl.reshape(a, 4, 4), axis=1, combine_fn=smaller, keep_dims=True)",
                   lambda a, b, m: a.reshape(4, 4).min(1, keepdims=True)),
    "xor_sum": Case("tl.xor_sum(tl.reshape(m, 4, 4), axis=0, keep_dims=True)",
                    lambda a, b, m: np.bitwise_xor.reduce(m.reshape(4, 4), 0)[None]),
    "reduce_or": Case("tl.reduce_or(tl.reshape(m, 4, 4), axis=1)",
                      lambda a, b, m: np.bitwise_or.reduce(m.reshape(4, 4), 1)),
    "associative_scan": Case("tl.associative_scan(m, axis=0, combine_fn=smaller, reverse=True)",
                             lambda a, b, m: np.minimum.accumulate(m[::-1])[::-1]),
    "cumsum": Case("tl.cumsum(m, axis=0, reverse=True, dtype=tl.int32)",
                   lambda a, b, m: m[::-1].cumsum()[::-1]),
    "cumprod": Case("tl.cumprod(tl.reshape(a, 4, 4), axis=1, reverse=False)",
                    lambda a, b, m: a.reshape(4, 4).astype(np.float64).cumprod(1)),
    # -- order and picking ----------------------------------------------------------------------
    "sort": Case("tl.sort(a, dim=0, descending=True)", lambda a, b, m: np.sort(a)[::-1]),
    "topk": Case("tl.topk(a, k=4, dim=-1)", lambda a, b, m: np.sort(a)[::-1][:4]),
    "bitonic_merge": Case("tl.bitonic_merge(tl.where(i < 8, i, 23 - i), dim=0, descending=0)",
                          lambda a, b, m: np.sort(np.where(COUNT < 8, COUNT, 23 - COUNT))),
    "histogram": Case("tl.histogram(m, num_bins=8, mask=i < 12)",
                      lambda a, b, m: np.bincount(m[:12], minlength=8)[:8]),
    "gather": Case("tl.gather(src=a, index=15 - i, axis=0)", lambda a, b, m: a[::-1]),
    # -- products -------------------------------------------------------------------------------
    "dot": Case('tl.dot(tl.reshape(a, 4, 4), tl.reshape(b, 4, 4),\n'
                '       acc=tl.zeros((4, 4), tl.float32), input_precision="ieee",\n'
                '       max_num_imprecise_acc=None, out_dtype=tl.float32)',
                lambda a, b, m: a.reshape(4, 4).astype(np.float64) @ b.reshape(4, 4)),
    "dot_scaled": Case('tl.dot_scaled(tl.zeros((16, 32), tl.bfloat16) + 1, None, "bf16",\n'
                       '              tl.zeros((32, 16), tl.bfloat16) + 2, None, "bf16")',
                       lambda a, b, m: np.full((16, 16), 64.0)),
    # -- random ---------------------------------------------------------------------------------
    "rand": Case("tl.rand(7, i, n_rounds=10)", lambda a, b, m: _UNIFORMS[0], bound=0),
    "randint": Case("tl.randint(7, i)", lambda a, b, m: _WORDS[0].view(np.int32), "int32"),
    "randn": Case("tl.randn(7, i)", lambda a, b, m: _NORMALS[0], bound=1e-5),
    "rand4x": Case("tl.rand4x(7, i)[3]", lambda a, b, m: _UNIFORMS[3], bound=0),
    "randn4x": Case("tl.randn4x(7, i)[3]", lambda a, b, m: _NORMALS[3], bound=1e-5),
    "randint4x": Case("tl.randint4x(7, i)[2]", lambda a, b, m: _WORDS[2].view(np.int32), "int32"),
    "philox": Case("tl.philox(7, i, i * 0, i * 0, i * 0, n_rounds=10)[1]",
                   lambda a, b, m: _WORDS[1].view(np.int32), "int32"),
    "philox_impl": Case(
        "z = (i * 0).to(tl.uint32)\n"
        "w = tl.philox_impl(i.to(tl.uint32), z, z, z, z + 7, z, 10)\ntl.store(out + i, w[0])",
        lambda a, b, m: _WORDS[0].view(np.int32), "int32", (N,)),
    "uint_to_uniform_float": Case("tl.uint_to_uniform_float(tl.randint(7, i))",
                                  lambda a, b, m: _UNIFORMS[0], bound=0),
    "pair_uniform_to_normal": Case(
        "tl.pair_uniform_to_normal(tl.rand(7, i), tl.rand4x(7, i)[1])[1]",
        lambda a, b, m: _NORMALS[1], bound=1e-5),
    # -- debugging, assembly, extras --------------------------------------------------------------
    "device_print": Case('tl.device_print("i: ", i, hex=True)\ntl.store(out + i, a)',
                         lambda a, b, m: a, shape=(N,)),
    "device_assert": Case('tl.device_assert(i < 16, "i is small", mask=i > 0)\n'
                          "tl.store(out + i, a)", lambda a, b, m: a, shape=(N,)),
    "inline_asm_elementwise": Case(
        'tl.inline_asm_elementwise(asm="add.s32 $0, $1, $2;", constraints="=r,r,r", args=[m, s],\n'
        "                          dtype=tl.int32, is_pure=True, pack=1)",
        lambda a, b, m: m + 3),
    "extra": Case("tl.extra.libdevice.atan2(a, b)", lambda a, b, m: np.arctan2(a, b)),
    "target_info": Case("i + tl.target_info.is_hip()", lambda a, b, m: COUNT),
    "core": Case("tl.core.to_tensor(2) * a", lambda a, b, m: 2 * a),
    "standard": Case("a * tl.standard._log2(16)", lambda a, b, m: 4 * a),
}  # fmt: skip
