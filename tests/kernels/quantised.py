"""Products with quantised weights: fp16 or bf16 times int4, int8, fp8 or microscaled formats.

A run of GROUP numbers along K shares a scale for each column, (groups, N); the last group may be
shorter. Weights are dequantised where they are multiplied: nothing but their bytes is read. They
are W of C = X @ W, (K, N) by strides; 4-bit ones are packed along K. Of an odd K the last byte
holds one number, and what is beside it may be anything.
"""

import workbench.language as tl


def scales_of(scale_ptr, start, k, n, K, N, GROUP: tl.constexpr, BLOCK_K: tl.constexpr):
    """The scales of a block of W: a row where its rows share them, else one for each element."""
    if GROUP % BLOCK_K == 0:
        row = scale_ptr + start // GROUP * N
        found = tl.load(row + n, mask=n < N, other=0.0)[None, :]
    else:
        at = (k // GROUP)[:, None] * N + n[None, :]
        found = tl.load(scale_ptr + at, mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
    return found


def last_of_x(x_ptr, m, M, K, stride_xm):
    """The last column of a block of rows of X, (BLOCK_M, 1)."""
    return tl.load(x_ptr + m * stride_xm + (K - 1), mask=m < M, other=0.0)[:, None]


def e2m1_number(code):
    """What a code of four bits stands for, in fp32."""
    low = code & 7
    above = (2 + (low & 1)).to(tl.float32) * tl.exp2((low >> 1).to(tl.float32) - 2)
    size = tl.where(low < 2, low.to(tl.float32) / 2, above)
    return tl.where((code & 8) != 0, -size, size)


def product_with_8_bits(
    x_ptr, w_ptr, scale_ptr, c_ptr, M, N, K, stride_xm, stride_wk, stride_wn, stride_cm,
    GROUP: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    EVEN_K: tl.constexpr = False, BEHIND: tl.constexpr = False, UNROLL: tl.constexpr = 1,
):  # fmt: skip
    """Weights are int8 or fp8, times their scale in the type of X.

    EVEN_K: BLOCK_K divides K. BEHIND: a block's scales, which are one row, multiply its products,
    which rounds less often.
    """
    m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in tl.range(0, K, BLOCK_K, loop_unroll_factor=UNROLL):
        k = start + tl.arange(0, BLOCK_K)
        x = tl.load(x_ptr + m[:, None] * stride_xm + k[None, :],
                    mask=(m[:, None] < M) & (EVEN_K or k[None, :] < K), other=0.0)  # fmt: skip
        w = tl.load(w_ptr + k[:, None] * stride_wk + n[None, :] * stride_wn,
                    mask=(EVEN_K or k[:, None] < K) & (n[None, :] < N), other=0.0)  # fmt: skip
        scale = scales_of(scale_ptr, start, k, n, K, N, GROUP, BLOCK_K)
        if BEHIND:
            acc += tl.dot(x, w.to(x.dtype)) * scale.to(tl.float32)
        else:
            acc = tl.dot(x, (w.to(x.dtype) * scale).to(x.dtype), acc)
    c_ptrs = c_ptr + m[:, None] * stride_cm + n[None, :]
    tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=(m[:, None] < M) & (n[None, :] < N))


def product_with_int4(
    x_ptr, w_ptr, scale_ptr, c_ptr, M, N, K, stride_xm, stride_wk, stride_wn, stride_cm,
    GROUP: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    EVEN_K: tl.constexpr = False, BEHIND: tl.constexpr = False, UNROLL: tl.constexpr = 1,
):  # fmt: skip
    """Two signed numbers in a byte (int8), the low half first. EVEN_K, BEHIND: as above."""
    m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in tl.range(0, K, BLOCK_K, loop_unroll_factor=UNROLL):
        k = start + tl.arange(0, BLOCK_K)
        pair = start // 2 + tl.arange(0, BLOCK_K // 2)
        x = tl.load(x_ptr + m[:, None] * stride_xm + k[None, :],
                    mask=(m[:, None] < M) & (EVEN_K or k[None, :] < K), other=0.0)  # fmt: skip
        live = (EVEN_K or pair[:, None] < K // 2) & (n[None, :] < N)
        packed = tl.load(w_ptr + pair[:, None] * stride_wk + n[None, :] * stride_wn,
                         mask=live, other=0)  # fmt: skip
        low = (packed << 4) >> 4
        high = packed >> 4
        w = tl.join(low.to(x.dtype), high.to(x.dtype)).permute(0, 2, 1)
        w = w.reshape(BLOCK_K, BLOCK_N)
        scale = scales_of(scale_ptr, start, k, n, K, N, GROUP, BLOCK_K)
        if BEHIND:
            acc += tl.dot(x, w) * scale.to(tl.float32)
        else:
            acc = tl.dot(x, (w * scale).to(x.dtype), acc)
    if K % 2 == 1:
        x = last_of_x(x_ptr, m, M, K, stride_xm)
        last = tl.load(w_ptr + K // 2 * stride_wk + n * stride_wn, mask=n < N, other=0)
        scale = tl.load(scale_ptr + (K - 1) // GROUP * N + n, mask=n < N, other=0.0)
        w = (((last << 4) >> 4).to(x.dtype) * scale).to(x.dtype)[None, :]
        acc += x.to(tl.float32) * w.to(tl.float32)
    c_ptrs = c_ptr + m[:, None] * stride_cm + n[None, :]
    tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=(m[:, None] < M) & (n[None, :] < N))


def product_by_shares(
    x_ptr, w_ptr, scale_ptr, c_ptr, parts_ptr, flag_ptr, M, N, K, share, stride_xm, stride_wk,
    stride_wn, stride_cm, GROUP: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr, PACKED: tl.constexpr = 2, BEHIND: tl.constexpr = False,
    UNROLL: tl.constexpr = 1,
):  # fmt: skip
    """PACKED numbers in a byte, 2 (int4) or 1; all blocks' steps along K shared out evenly.

    BLOCK_K divides K and GROUP. As in `stream_k_product` a program takes its blocks from the last
    one on; it leaves at most one part, says so by a flag, and waits for programs before it alone.
    BEHIND: as above.
    """
    tl.static_assert(GROUP % BLOCK_K == 0, "BLOCK_K must divide GROUP: a step has a row of scales")
    pid = tl.program_id(0)
    programs = tl.num_programs(0)
    per_block = K // BLOCK_K
    start = pid * share
    end = min(start + share, tl.cdiv(N, BLOCK_N) * per_block)
    i = tl.arange(0, BLOCK_M)
    j = tl.arange(0, BLOCK_N)
    m = tl.program_id(1) * BLOCK_M + i
    flag_ptr += tl.program_id(1) * programs
    part = parts_ptr + tl.program_id(1) * programs * BLOCK_M * BLOCK_N
    part += i[:, None] * BLOCK_N + j[None, :]
    for block in range((end - 1) // per_block, start // per_block - 1, -1):
        first = block * per_block
        at = max(start - first, 0)
        behind = min(end - first, per_block)
        n = block * BLOCK_N + j
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for begun in tl.range(at * BLOCK_K, behind * BLOCK_K, BLOCK_K, loop_unroll_factor=UNROLL):
            k = begun + tl.arange(0, BLOCK_K)
            byte = begun // PACKED + tl.arange(0, BLOCK_K // PACKED)
            x = tl.load(x_ptr + m[:, None] * stride_xm + k[None, :],
                        mask=m[:, None] < M, other=0.0)  # fmt: skip
            packed = tl.load(w_ptr + byte[:, None] * stride_wk + n[None, :] * stride_wn,
                             mask=n[None, :] < N, other=0)  # fmt: skip
            scale = scales_of(scale_ptr, begun, k, n, K, N, GROUP, BLOCK_K)
            if PACKED == 2:
                w = tl.join(((packed << 4) >> 4).to(x.dtype), (packed >> 4).to(x.dtype))
                w = w.permute(0, 2, 1).reshape(BLOCK_K, BLOCK_N)
            else:
                w = packed.to(x.dtype)
            if BEHIND:
                acc += tl.dot(x, w) * scale.to(tl.float32)
            else:
                acc = tl.dot(x, (w * scale).to(x.dtype), acc)
        if behind == per_block:
            other = pid
            begin = first + at
            while begin > first:
                other -= 1
                begin = other * share
                while tl.atomic_add(flag_ptr + other, 0, sem="acquire") == 0:
                    pass
                acc += tl.load(part + other * BLOCK_M * BLOCK_N)
                tl.debug_barrier()
                tl.atomic_xchg(flag_ptr + other, 0, sem="relaxed")
            c_ptrs = c_ptr + m[:, None] * stride_cm + n[None, :]
            live = (m[:, None] < M) & (n[None, :] < N)
            tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=live)
        else:
            tl.store(part + pid * BLOCK_M * BLOCK_N, acc)
            tl.debug_barrier()
            tl.atomic_xchg(flag_ptr + pid, 1, sem="release")


def product_with_words(
    x_ptr, w_ptr, scale_ptr, zero_ptr, c_ptr, M, N, K, stride_xm, stride_wk, stride_wn, stride_cm,
    GROUP: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    UNROLL: tl.constexpr = 1,
):  # fmt: skip
    """Eight unsigned numbers in an int32 along K, as checkpoints have them; zeros along N.

    Each word is read by the eight rows that it holds. BLOCK_K divides GROUP.
    """
    tl.static_assert(
        GROUP % BLOCK_K == 0, "BLOCK_K must divide GROUP: a block has one row of scales"
    )
    m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    i = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in tl.range(0, K, BLOCK_K, loop_unroll_factor=UNROLL):
        k = start + i
        x = tl.load(x_ptr + m[:, None] * stride_xm + k[None, :],
                    mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)  # fmt: skip
        words = tl.load(w_ptr + (k // 8)[:, None] * stride_wk + n[None, :] * stride_wn,
                        mask=(k[:, None] < K) & (n[None, :] < N), other=0)  # fmt: skip
        group = start // GROUP
        scale = tl.load(scale_ptr + group * N + n, mask=n < N, other=0.0)
        zeros = tl.load(zero_ptr + group * tl.cdiv(N, 8) + n // 8, mask=n < N, other=0)
        zero = (zeros >> (n % 8 * 4)) & 15
        number = (words >> (i % 8 * 4)[:, None]) & 15
        w = (number - zero[None, :]).to(x.dtype) * scale[None, :]
        acc = tl.dot(x, w.to(x.dtype), acc)
    c_ptrs = c_ptr + m[:, None] * stride_cm + n[None, :]
    tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=(m[:, None] < M) & (n[None, :] < N))


def product_with_microscales(
    x_ptr, w_ptr, scale_ptr, c_ptr, M, N, K, stride_xm, stride_wn, stride_sn, stride_cm,
    X_FORMAT: tl.constexpr, W_FORMAT: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr, EVEN_K: tl.constexpr = False, UNROLL: tl.constexpr = 1,
):  # fmt: skip
    """Weights are (N, K), fp8 or two 4-bit floats in a byte; 32 of a row share a power of two.

    EVEN_K: BLOCK_K divides K.
    """
    tl.static_assert(BLOCK_K % 32 == 0, "BLOCK_K must be a multiple of 32, which share a scale")
    PACKED: tl.constexpr = 2 if W_FORMAT == "e2m1" else 1
    m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in tl.range(0, K, BLOCK_K, loop_unroll_factor=UNROLL):
        k = start + tl.arange(0, BLOCK_K)
        byte = start // PACKED + tl.arange(0, BLOCK_K // PACKED)
        run = start // 32 + tl.arange(0, BLOCK_K // 32)
        x = tl.load(x_ptr + m[:, None] * stride_xm + k[None, :],
                    mask=(m[:, None] < M) & (EVEN_K or k[None, :] < K), other=0.0)  # fmt: skip
        w = tl.load(w_ptr + n[:, None] * stride_wn + byte[None, :],
                    mask=(n[:, None] < N) & (EVEN_K or byte[None, :] < K // PACKED),
                    other=0.0)  # fmt: skip
        scale = tl.load(scale_ptr + n[:, None] * stride_sn + run[None, :],
                        mask=(n[:, None] < N) & (EVEN_K or run[None, :] < tl.cdiv(K, 32)),
                        other=0)  # fmt: skip
        acc = tl.dot_scaled(x, None, X_FORMAT, tl.trans(w), scale, W_FORMAT, acc)
    if PACKED == 2:  # noqa: SIM102, known before the kernel runs
        if K % 2 == 1:
            x = last_of_x(x_ptr, m, M, K, stride_xm)
            last = tl.load(w_ptr + n * stride_wn + K // 2, mask=n < N, other=0)
            scale = tl.load(scale_ptr + n * stride_sn + (K - 1) // 32, mask=n < N, other=127)
            w = e2m1_number(last & 15) * tl.exp2(scale.to(tl.float32) - 127)
            acc += x.to(tl.float32) * w[None, :]
    c_ptrs = c_ptr + m[:, None] * stride_cm + n[None, :]
    tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=(m[:, None] < M) & (n[None, :] < N))
