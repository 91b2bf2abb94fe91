"""Kernels in the manner of a code generator: flat indices taken apart, numbered names."""

import workbench.language as tl
from workbench.language.extra import libdevice


def poi_add_relu_mul(in_ptr0, in_ptr1, in_ptr2, out_ptr0, xnumel, XBLOCK: tl.constexpr):
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x2 = xindex
    x0 = xindex % 96
    x1 = xindex // 96
    tmp0 = tl.load(in_ptr0 + (x2), xmask).to(tl.float32)
    tmp1 = tl.load(in_ptr1 + (x0), xmask, eviction_policy="evict_last").to(tl.float32)
    tmp4 = tl.load(in_ptr2 + (x1), xmask, eviction_policy="evict_last").to(tl.float32)
    tmp2 = tmp0 + tmp1
    tmp3 = tl.full([1], 0, tl.int32)
    tmp5 = tl.maximum(tmp3, tmp2)
    tmp6 = tmp5 * tmp4
    tl.store(out_ptr0 + (x2), tmp6, xmask)


def poi_permute_pad(in_ptr0, out_ptr0, ks0, ks1, ks2, xnumel, XBLOCK: tl.constexpr):
    """(b, ks0, ks1) to (b, ks1, ks0 + 2 ks2), padded by zeros on both sides."""
    xoffset = tl.program_id(0).to(tl.int64) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:].to(tl.int64)
    xmask = xindex < xnumel
    x0 = xindex % (ks0 + 2 * ks2)
    x1 = (xindex // (ks0 + 2 * ks2)) % ks1
    x2 = xindex // (ks1 * (ks0 + 2 * ks2))
    x3 = xindex
    tmp0 = x0 + (-1) * ks2
    tmp1 = tl.full([1], 0, tl.int64)
    tmp2 = tmp0 >= tmp1
    tmp3 = ks0
    tmp4 = tmp0 < tmp3
    tmp5 = tmp2 & tmp4
    tmp6 = tl.load(
        in_ptr0 + (x1 + ks1 * (x0 + (-1) * ks2) + ks0 * ks1 * x2), tmp5 & xmask, other=0.0
    )
    tl.store(out_ptr0 + (x3), tmp6, xmask)


def poi_cat(in_ptr0, in_ptr1, in_ptr2, out_ptr0, xnumel, XBLOCK: tl.constexpr):
    """Three tensors of 5, 8 and 3 columns side by side; the last one through tanh."""
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x0 = xindex % 16
    x1 = xindex // 16
    x2 = xindex
    tmp0 = x0
    tmp1 = tl.full([1], 5, tl.int64)
    tmp2 = tmp0 < tmp1
    tmp3 = tl.load(in_ptr0 + (5 * x1 + (x0)), tmp2 & xmask, eviction_policy="evict_last", other=0.0)
    tmp4 = tmp0 >= tmp1
    tmp5 = tl.full([1], 13, tl.int64)
    tmp6 = tmp0 < tmp5
    tmp7 = tmp4 & tmp6
    tmp8 = tl.load(in_ptr1 + (8 * x1 + ((-5) + x0)), tmp7 & xmask, other=0.0)
    tmp9 = tmp0 >= tmp5
    tmp10 = tl.load(in_ptr2 + (3 * x1 + ((-13) + x0)), tmp9 & xmask, other=0.0).to(tl.float32)
    tmp11 = libdevice.tanh(tmp10)
    tmp12 = tl.full(tmp11.shape, 0.0, tmp11.dtype)
    tmp13 = tl.where(tmp9, tmp11, tmp12)
    tmp14 = tl.where(tmp7, tmp8, tmp13)
    tmp15 = tl.where(tmp2, tmp3, tmp14)
    tl.store(out_ptr0 + (x2), tmp15, xmask)


def poi_index_put(in_ptr0, in_ptr1, out_ptr0, ks0, xnumel, XBLOCK: tl.constexpr):
    """Look up rows by indices that may be negative; out of range is an error when debugging."""
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x1 = xindex // 48
    x0 = xindex % 48
    x2 = xindex
    tmp0 = tl.load(in_ptr0 + (x1), xmask, eviction_policy="evict_last")
    tmp1 = ks0
    tmp2 = tmp0 + tmp1
    tmp3 = tmp0 < 0
    tmp4 = tl.where(tmp3, tmp2, tmp0)
    tl.device_assert(((tmp4 >= 0) & (tmp4 < ks0)) | ~(xmask), "index out of bounds")
    tmp6 = tl.load(in_ptr1 + (x0 + 48 * tmp4), xmask)
    tl.store(out_ptr0 + (x2), tmp6, xmask)


def poi_math(in_ptr0, out_ptr0, xnumel, XBLOCK: tl.constexpr):
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x0 = xindex
    tmp0 = tl.load(in_ptr0 + (x0), xmask).to(tl.float32)
    tmp1 = libdevice.rsqrt(1.0 + tmp0 * tmp0)
    tmp2 = libdevice.log1p(tl_math_abs(tmp0))
    tmp3 = libdevice.expm1(tmp0 * 0.125)
    tmp4 = libdevice.pow(tl_math_abs(tmp0) + 0.5, 1.5)
    tmp5 = libdevice.isnan(tmp0).to(tl.int1)
    tmp6 = tmp1 + tmp2 + tmp3 + tmp4 + libdevice.floor(tmp0)
    tmp7 = tl.where(tmp5, 0.0, tmp6)
    tl.store(out_ptr0 + (x0), tmp7, xmask)


def tl_math_abs(x):
    return tl.where(x < 0, -x, x)


def red_sum_square(in_ptr0, out_ptr0, out_ptr1, xnumel, r0_numel, XBLOCK: tl.constexpr,
                   R0_BLOCK: tl.constexpr):  # fmt: skip
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_base = tl.arange(0, R0_BLOCK)[None, :]
    x0 = xindex
    _tmp3 = tl.full([XBLOCK, R0_BLOCK], 0, tl.float32)
    _tmp6 = tl.full([XBLOCK, R0_BLOCK], float("-inf"), tl.float32)
    for r0_offset in range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        r0_1 = r0_index
        tmp0 = tl.load(
            in_ptr0 + (r0_1 + r0_numel * x0),
            r0_mask & xmask,
            eviction_policy="evict_first",
            other=0.0,
        ).to(tl.float32)
        tmp1 = tmp0 * tmp0
        tmp2 = tl.broadcast_to(tmp1, [XBLOCK, R0_BLOCK])
        tmp4 = _tmp3 + tmp2
        _tmp3 = tl.where(r0_mask & xmask, tmp4, _tmp3)
        tmp5 = tl.broadcast_to(tmp0, [XBLOCK, R0_BLOCK])
        tmp7 = tl.maximum(_tmp6, tmp5)
        _tmp6 = tl.where(r0_mask & xmask, tmp7, _tmp6)
    tmp3 = tl.sum(_tmp3, 1)[:, None]
    tmp6 = tl.max(_tmp6, 1)[:, None]
    tl.store(out_ptr0 + (x0), tmp3, xmask)
    tl.store(out_ptr1 + (x0), tmp6, xmask)


def per_softmax(in_ptr0, out_ptr2, xnumel, r0_numel, XBLOCK: tl.constexpr, R0_BLOCK: tl.constexpr):
    """The whole row in one block."""
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_index = tl.arange(0, R0_BLOCK)[None, :]
    roffset = 0
    r0_mask = r0_index < r0_numel
    r0_1 = r0_index + roffset
    x0 = xindex
    tmp0 = tl.load(in_ptr0 + (r0_1 + r0_numel * x0), r0_mask & xmask, other=0.0).to(tl.float32)
    tmp1 = tl.broadcast_to(tmp0, [XBLOCK, R0_BLOCK])
    tmp3 = tl.where(r0_mask & xmask, tmp1, float("-inf"))
    tmp4 = tl.max(tmp3, 1)[:, None]
    tmp5 = tmp0 - tmp4
    tmp6 = tl.exp(tmp5)
    tmp7 = tl.broadcast_to(tmp6, [XBLOCK, R0_BLOCK])
    tmp9 = tl.where(r0_mask & xmask, tmp7, 0)
    tmp10 = tl.sum(tmp9, 1)[:, None]
    tmp11 = tmp6 / tmp10
    tl.store(out_ptr2 + (r0_1 + r0_numel * x0), tmp11, r0_mask & xmask)


def per_layer_norm(in_ptr0, in_ptr1, in_ptr2, out_ptr2, xnumel, r0_numel, XBLOCK: tl.constexpr,
                   R0_BLOCK: tl.constexpr):  # fmt: skip
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = tl.full([XBLOCK, R0_BLOCK], True, tl.int1) & (xindex < xnumel)
    r0_index = tl.arange(0, R0_BLOCK)[None, :]
    r0_mask = r0_index < r0_numel
    r0_1 = r0_index
    x0 = xindex
    tmp0 = tl.load(in_ptr0 + (r0_1 + r0_numel * x0), r0_mask & xmask, other=0.0).to(tl.float32)
    tmp24 = tl.load(in_ptr1 + (r0_1), r0_mask, eviction_policy="evict_last", other=0.0).to(
        tl.float32
    )
    tmp26 = tl.load(in_ptr2 + (r0_1), r0_mask, eviction_policy="evict_last", other=0.0).to(
        tl.float32
    )
    tmp1 = tl.broadcast_to(tmp0, [XBLOCK, R0_BLOCK])
    tmp3 = tl.where(r0_mask & xmask, tmp1, 0)
    tmp7 = tl.sum(tmp3, 1)[:, None]
    tmp8 = r0_numel.to(tl.float32)
    tmp9 = tmp7 / tmp8
    tmp10 = tmp1 - tmp9
    tmp11 = tmp10 * tmp10
    tmp14 = tl.where(r0_mask & xmask, tmp11, 0)
    tmp15 = tl.sum(tmp14, 1)[:, None]
    tmp17 = tmp15 / tmp8
    tmp18 = 1e-05
    tmp19 = tmp17 + tmp18
    tmp20 = libdevice.rsqrt(tmp19)
    tmp23 = (tmp0 - tmp9) * tmp20
    tmp25 = tmp23 * tmp24
    tmp27 = tmp25 + tmp26
    tl.store(out_ptr2 + (r0_1 + r0_numel * x0), tmp27, r0_mask & xmask)


def welford_combine(mean_1, m2_1, weight_1, mean_2, m2_2, weight_2):
    delta = mean_2 - mean_1
    new_weight = weight_1 + weight_2
    w2_over_w = tl.where(new_weight == 0.0, 0.0, weight_2 / new_weight)
    return (
        mean_1 + delta * w2_over_w,
        m2_1 + m2_2 + delta * delta * weight_1 * w2_over_w,
        new_weight,
    )


def red_welford(in_ptr0, out_ptr0, out_ptr1, xnumel, r0_numel, XBLOCK: tl.constexpr,
                R0_BLOCK: tl.constexpr):  # fmt: skip
    """Mean and variance over the channels' images: (n, c, hw) with a row for each c."""
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_base = tl.arange(0, R0_BLOCK)[None, :]
    x0 = xindex
    tmp2_mean = tl.zeros([XBLOCK, R0_BLOCK], tl.float32)
    tmp2_m2 = tl.zeros([XBLOCK, R0_BLOCK], tl.float32)
    tmp2_weight = tl.zeros([XBLOCK, R0_BLOCK], tl.float32)
    for r0_offset in range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        r0_mask = r0_index < r0_numel
        r0_1 = r0_index % 49
        r0_2 = r0_index // 49
        tmp0 = tl.load(
            in_ptr0 + (r0_1 + 49 * x0 + 49 * xnumel * r0_2), r0_mask & xmask, other=0.0
        ).to(tl.float32)
        tmp1 = tl.broadcast_to(tmp0, [XBLOCK, R0_BLOCK])
        next_weight = tmp2_weight + 1
        delta = tmp1 - tmp2_mean
        next_mean = tmp2_mean + delta / next_weight
        next_m2 = tmp2_m2 + delta * (tmp1 - next_mean)
        tmp2_mean = tl.where(r0_mask & xmask, next_mean, tmp2_mean)
        tmp2_m2 = tl.where(r0_mask & xmask, next_m2, tmp2_m2)
        tmp2_weight = tl.where(r0_mask & xmask, next_weight, tmp2_weight)
    tmp3, tmp4, tmp5 = tl.reduce((tmp2_mean, tmp2_m2, tmp2_weight), 1, welford_combine)
    tmp2 = tmp3[:, None]
    tmp6 = tmp4[:, None]
    tmp7 = tmp5[:, None]
    tl.store(out_ptr0 + (x0), tmp2, xmask)
    tl.store(out_ptr1 + (x0), tmp6 / tmp7, xmask)


def poi_transpose_add(in_ptr0, in_ptr1, out_ptr0, ynumel, xnumel, YBLOCK: tl.constexpr,
                      XBLOCK: tl.constexpr):  # fmt: skip
    """Two grid axes: read by rows, write by columns."""
    yoffset = tl.program_id(1) * YBLOCK
    yindex = yoffset + tl.arange(0, YBLOCK)[None, :]
    ymask = yindex < ynumel
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    x1 = xindex
    y0 = yindex
    tmp0 = tl.load(in_ptr0 + (y0 + ynumel * x1), xmask & ymask, eviction_policy="evict_last")
    tmp1 = tl.load(in_ptr1 + (y0), ymask, eviction_policy="evict_last")
    tmp2 = tmp0 + tmp1
    tl.store(out_ptr0 + (x1 + xnumel * y0), tmp2, xmask & ymask)
