"""In the style of linear-attention collections: heuristics over autotune, variable lengths."""

import torch
import triton
import triton.language as tl
from packaging import version

exp = tl.exp
TRITON_ABOVE_3_4_0 = version.parse(triton.__version__) >= version.parse("3.4.0")
if hasattr(triton.language, "_experimental_make_tensor_descriptor"):
    make_tensor_descriptor = triton.language._experimental_make_tensor_descriptor
elif hasattr(triton.language, "make_tensor_descriptor"):
    make_tensor_descriptor = triton.language.make_tensor_descriptor
else:
    make_tensor_descriptor = None


def get_multiprocessor_count(index: int = 0) -> int:
    properties = triton.runtime.driver.active.utils.get_device_properties(index)
    return properties["multiprocessor_count"]


@triton.heuristics(
    {
        "USE_INITIAL": lambda args: args["h0"] is not None,
        "IS_VARLEN": lambda args: args["cu_seqlens"] is not None,
    }
)
@triton.autotune(
    configs=[
        triton.Config({"BT": BT}, num_warps=num_warps, num_stages=num_stages)
        for BT in (16, 32)
        for num_warps in (2, 4)
        for num_stages in (2,)
    ],
    key=["D", "IS_VARLEN"],
    warmup=1,
    rep=1,
)
@triton.jit(do_not_specialize=["T"])
def decayed_cumsum_kernel(
    x, g, h0, o, cu_seqlens, T, D: tl.constexpr, BD: tl.constexpr,
    USE_INITIAL: tl.constexpr, IS_VARLEN: tl.constexpr, BT: tl.constexpr,
):  # fmt: skip
    i_d, i_n = tl.program_id(0), tl.program_id(1)
    if IS_VARLEN:
        bos = tl.load(cu_seqlens + i_n).to(tl.int32)
        eos = tl.load(cu_seqlens + i_n + 1).to(tl.int32)
        T = eos - bos
    else:
        bos = i_n * T
    o_d = i_d * BD + tl.arange(0, BD)
    m_d = o_d < D
    b_h = tl.zeros([BD], dtype=tl.float32)
    if USE_INITIAL:
        b_h += tl.load(h0 + i_n * D + o_d, mask=m_d, other=0).to(tl.float32)
    for i_t in range(tl.cdiv(T, BT)):
        o_t = i_t * BT + tl.arange(0, BT)
        m_t = o_t < T
        p = (bos + o_t)[:, None] * D + o_d[None, :]
        b_x = tl.load(x + p, mask=m_t[:, None] & m_d[None, :], other=0).to(tl.float32)
        b_g = tl.load(g + bos + o_t, mask=m_t, other=0).to(tl.float32)
        b_c = tl.cumsum(b_g, axis=0)
        b_a = tl.where(o_t[:, None] >= o_t[None, :], exp(b_c[:, None] - b_c[None, :]), 0)
        b_o = tl.sum(b_a[:, :, None] * b_x[None, :, :], axis=1) + exp(b_c)[:, None] * b_h[None, :]
        tl.store(o + p, b_o.to(o.dtype.element_ty), mask=m_t[:, None] & m_d[None, :])
        last = tl.sum(b_g, axis=0)
        b_h = b_h * exp(last) + tl.sum(
            tl.where(m_t[:, None], exp(last - b_c)[:, None] * b_x, 0), axis=0
        )


def decayed_cumsum(x, g, h0=None, cu_seqlens=None):
    B, T, D = x.shape
    N = B if cu_seqlens is None else len(cu_seqlens) - 1
    o = torch.empty_like(x)
    BD = min(8, triton.next_power_of_2(D))

    def grid(meta):
        return (triton.cdiv(meta["D"], meta["BD"]), N)

    decayed_cumsum_kernel[grid](
        x=x, g=g, h0=h0, o=o, cu_seqlens=cu_seqlens, T=T, D=D, BD=BD,
    )  # fmt: skip
    return o


def reference(x, g, h0=None, cu_seqlens=None):
    B, T, D = x.shape
    flat, gates, out = x.reshape(-1, D), g.reshape(-1), torch.empty_like(x).reshape(-1, D)
    bounds = [i * T for i in range(B + 1)] if cu_seqlens is None else cu_seqlens.tolist()
    for n, (start, end) in enumerate(zip(bounds, bounds[1:])):
        state = torch.zeros(D) if h0 is None else h0[n].clone()
        for t in range(start, end):
            state = state * gates[t].exp() + flat[t]
            out[t] = state
    return out.reshape(B, T, D)
