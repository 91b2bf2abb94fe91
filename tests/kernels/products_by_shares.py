"""Products whose steps along K are shared out evenly, whatever blocks they are of."""

import workbench.language as tl


def begin_of(pid, steps, programs):
    """The first step of a program: the first `steps % programs` of them have one more."""
    return pid * (steps // programs) + min(pid, steps % programs)


def stream_k_product(
    a_ptr, b_ptr, c_ptr, parts_ptr, flag_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn,
    stride_cm, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Whoever has a block's last step adds what the programs before it left, in order.

    A program leaves at most one part, in a place of its own, and says so by its flag, which the
    reader takes back: flags are 0 before and after. It waits for programs before it alone. It
    takes its blocks from the last one on, so that what it leaves is there before it waits: else
    each program would wait for one that waits itself, all along the grid. Of few rows each of B's
    elements is read once; what is left lies in the L2 meanwhile, if those do not drive it out.
    """
    pid = tl.program_id(0)
    programs = tl.num_programs(0)
    blocks_n = tl.cdiv(N, BLOCK_N)
    per_block = tl.cdiv(K, BLOCK_K)
    steps = tl.cdiv(M, BLOCK_M) * blocks_n * per_block
    start = begin_of(pid, steps, programs)
    end = begin_of(pid + 1, steps, programs)
    i = tl.arange(0, BLOCK_M)
    j = tl.arange(0, BLOCK_N)
    part = parts_ptr + i[:, None] * BLOCK_N + j[None, :]
    while start < end:
        block = (end - 1) // per_block
        first = block * per_block
        at = max(start, first)
        m = block // blocks_n * BLOCK_M + i
        n = block % blocks_n * BLOCK_N + j
        k = (at - first) * BLOCK_K + tl.arange(0, BLOCK_K)
        a_ptrs = a_ptr + m[:, None] * stride_am + k[None, :] * stride_ak
        b_ptrs = b_ptr + k[:, None] * stride_bk + n[None, :] * stride_bn
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for step in range(at - first, end - first):
            live = tl.arange(0, BLOCK_K) < K - step * BLOCK_K
            a = tl.load(a_ptrs, mask=(m[:, None] < M) & live[None, :], other=0.0)
            inside = live[:, None] & (n[None, :] < N)
            b = tl.load(b_ptrs, mask=inside, other=0.0, eviction_policy="evict_first")
            acc = tl.dot(a, b, acc)
            a_ptrs += BLOCK_K * stride_ak
            b_ptrs += BLOCK_K * stride_bk
        if end == first + per_block:
            other = pid
            begin = at
            while begin > first:
                other -= 1
                begin = begin_of(other, steps, programs)
                while tl.atomic_add(flag_ptr + other, 0, sem="acquire") == 0:
                    pass
                acc += tl.load(part + other * BLOCK_M * BLOCK_N)
                tl.debug_barrier()
                tl.atomic_xchg(flag_ptr + other, 0, sem="relaxed")
            c_ptrs = c_ptr + m[:, None] * stride_cm + n[None, :]
            live_c = (m[:, None] < M) & (n[None, :] < N)
            tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=live_c)
        else:
            tl.store(part + pid * BLOCK_M * BLOCK_N, acc)
            tl.debug_barrier()
            tl.atomic_xchg(flag_ptr + pid, 1, sem="release")
        end = at
