"""Grouped products: many products of different sizes in one launch.

`product_of_tables` has a table of addresses and sizes, as the tutorials do; a program does every
num_programs-th block of all of them. `ragged_product` has the rows of all groups one behind the
other; programs draw tickets, so that none waits while another has long blocks. `ragged_blocks` has
a program for each block of such rows, and leaves it to the compiler who takes which.
"""

import workbench.language as tl


def product_of_tables(
    a_table, b_table, c_table, like_ptr, size_ptr, stride_ptr, n_groups,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Sizes are (M, N, K) by group, strides those of rows of A, B and C.

    What a table holds is promised, for nothing is known of it: arrays begin at 16 bytes, 8 divides
    N, K and the strides. Their type is that of `like_ptr`.
    """
    DTYPE: tl.constexpr = like_ptr.dtype.element_ty
    tile = tl.program_id(0)
    done = 0
    for group in range(n_groups):
        M = tl.load(size_ptr + group * 3)
        N = tl.multiple_of(tl.load(size_ptr + group * 3 + 1), 8)
        K = tl.multiple_of(tl.load(size_ptr + group * 3 + 2), 8)
        blocks_n = tl.cdiv(N, BLOCK_N)
        blocks = tl.cdiv(M, BLOCK_M) * blocks_n
        while tile < done + blocks:
            stride_a = tl.multiple_of(tl.load(stride_ptr + group * 3), 8)
            stride_b = tl.multiple_of(tl.load(stride_ptr + group * 3 + 1), 8)
            stride_c = tl.multiple_of(tl.load(stride_ptr + group * 3 + 2), 8)
            a_ptr = tl.multiple_of(tl.load(a_table + group), 16).to(tl.pointer_type(DTYPE))
            b_ptr = tl.multiple_of(tl.load(b_table + group), 16).to(tl.pointer_type(DTYPE))
            c_ptr = tl.multiple_of(tl.load(c_table + group), 16).to(tl.pointer_type(DTYPE))
            own = tile - done
            m = own // blocks_n * BLOCK_M + tl.arange(0, BLOCK_M)
            n = own % blocks_n * BLOCK_N + tl.arange(0, BLOCK_N)
            k = tl.arange(0, BLOCK_K)
            a_ptrs = a_ptr + m[:, None] * stride_a + k[None, :]
            b_ptrs = b_ptr + k[:, None] * stride_b + n[None, :]
            acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
            for start in range(0, K, BLOCK_K):
                live_a = (m[:, None] < M) & (k[None, :] < K - start)
                live_b = (k[:, None] < K - start) & (n[None, :] < N)
                a = tl.load(a_ptrs, mask=live_a, other=0.0)
                b = tl.load(b_ptrs, mask=live_b, other=0.0)
                acc = tl.dot(a, b, acc)
                a_ptrs += BLOCK_K
                b_ptrs += BLOCK_K * stride_b
            c_ptrs = c_ptr + m[:, None] * stride_c + n[None, :]
            tl.store(c_ptrs, acc.to(DTYPE), mask=(m[:, None] < M) & (n[None, :] < N))
            tile += tl.num_programs(0)
        done += blocks


def ragged_product(
    x_ptr, w_ptr, c_ptr, starts_ptr, ticket_ptr, n_groups, N, K, stride_xm, stride_wg, stride_wk,
    stride_wn, stride_cm, GROUPS: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Rows starts[g] to starts[g + 1] of X times W[g]; GROUPS is a power of two that holds all.

    A ticket is one more than what others drew before; the last program that leaves resets it:
    ticket_ptr has two int32 of 0, before and after.
    """
    g = tl.arange(0, GROUPS)
    start = tl.load(starts_ptr + g, mask=g < n_groups, other=0)
    end = tl.load(starts_ptr + g + 1, mask=g < n_groups, other=0)
    blocks_n = tl.cdiv(N, BLOCK_N)
    blocks = tl.cdiv(end - start, BLOCK_M) * blocks_n
    after = tl.cumsum(blocks, 0)
    total = tl.sum(blocks, 0)
    tile = tl.atomic_add(ticket_ptr, 1, sem="relaxed")
    while tile < total:
        group = tl.sum((after <= tile).to(tl.int32), 0)
        before = tl.sum(tl.where(g < group, blocks, 0), 0)
        own = tl.maximum(tile - before, 0)  # it is not below, which nothing says of draws
        first = tl.load(starts_ptr + group)
        rows = tl.load(starts_ptr + group + 1) - first
        m = own // blocks_n * BLOCK_M + tl.arange(0, BLOCK_M)
        n = own % blocks_n * BLOCK_N + tl.arange(0, BLOCK_N)
        k = tl.arange(0, BLOCK_K)
        x_ptrs = x_ptr + (first + m)[:, None] * stride_xm + k[None, :]
        w_ptrs = (w_ptr + group.to(tl.int64) * stride_wg + k[:, None] * stride_wk
                  + n[None, :] * stride_wn)  # fmt: skip
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for begin in range(0, K, BLOCK_K):
            x = tl.load(x_ptrs, mask=(m[:, None] < rows) & (k[None, :] < K - begin), other=0.0)
            w = tl.load(w_ptrs, mask=(k[:, None] < K - begin) & (n[None, :] < N), other=0.0)
            acc = tl.dot(x, w, acc)
            x_ptrs += BLOCK_K
            w_ptrs += BLOCK_K * stride_wk
        c_ptrs = c_ptr + (first + m)[:, None] * stride_cm + n[None, :]
        live = (m[:, None] < rows) & (n[None, :] < N)
        tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=live)
        tile = tl.atomic_add(ticket_ptr, 1, sem="relaxed")
    if tl.atomic_add(ticket_ptr + 1, 1) == tl.num_programs(0) - 1:
        tl.store(ticket_ptr, 0)
        tl.store(ticket_ptr + 1, 0)


def group_of(starts_ptr, block, n_groups, BLOCK_M: tl.constexpr):
    """The group of a block of rows, whose blocks begin at starts[g] // BLOCK_M + g."""
    low = 0
    high = n_groups
    while low < high:
        middle = (low + high) // 2
        if tl.load(starts_ptr + middle) // BLOCK_M + middle <= block:
            low = middle + 1
        else:
            high = middle
    return low - 1


def ragged_blocks(
    x_ptr, w_ptr, c_ptr, starts_ptr, n_groups, N, K, stride_xm, stride_wg, stride_wk, stride_wn,
    stride_cm, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Rows starts[g] to starts[g + 1] of X times W[g].

    A grid of blocks of columns and of rows // BLOCK_M + groups covers all: a group's blocks begin
    where the next one's cannot yet, so some of the grid have no rows.
    """
    block = tl.program_id(1)
    group = group_of(starts_ptr, block, n_groups, BLOCK_M)
    first = tl.load(starts_ptr + group)
    rows = tl.load(starts_ptr + group + 1) - first
    own = block - (first // BLOCK_M + group)
    if own * BLOCK_M >= rows:
        return
    m = own * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    x_ptrs = x_ptr + (first + m)[:, None] * stride_xm + k[None, :]
    w_ptrs = (w_ptr + group.to(tl.int64) * stride_wg + k[:, None] * stride_wk
              + n[None, :] * stride_wn)  # fmt: skip
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for begin in range(0, K, BLOCK_K):
        x = tl.load(x_ptrs, mask=(m[:, None] < rows) & (k[None, :] < K - begin), other=0.0)
        w = tl.load(w_ptrs, mask=(k[:, None] < K - begin) & (n[None, :] < N), other=0.0)
        acc = tl.dot(x, w, acc)
        x_ptrs += BLOCK_K
        w_ptrs += BLOCK_K * stride_wk
    c_ptrs = c_ptr + (first + m)[:, None] * stride_cm + n[None, :]
    live = (m[:, None] < rows) & (n[None, :] < N)
    tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=live)
