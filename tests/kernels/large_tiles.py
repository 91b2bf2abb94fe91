"""Kernels whose tiles are too large to lie in shared memory at once."""

import workbench.language as tl


def batched_dot(a, b, c, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    i = tl.arange(0, B)[:, None, None]
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    x = tl.load(a + i * (M * K) + m[None, :, None] * K + k[None, None, :])
    y = tl.load(b + i * (K * N) + k[None, :, None] * N + n[None, None, :])
    z = tl.dot(x, y, input_precision="ieee")
    tl.store(c + i * (M * N) + m[None, :, None] * N + n[None, None, :], z)


def batched_dot_loop(
    a, b, c, steps, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr
):
    i = tl.arange(0, B)[:, None, None]
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a_ptrs = a + i * (M * K) + m[None, :, None] * K + k[None, None, :]
    b_ptrs = b + i * (K * N) + k[None, :, None] * N + n[None, None, :]
    z = tl.zeros((B, M, N), tl.float32)
    for _ in range(steps):
        z = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), z, input_precision="ieee")
        a_ptrs += B * M * K
        b_ptrs += B * K * N
    tl.store(c + i * (M * N) + m[None, :, None] * N + n[None, None, :], z)


def broadcast_product(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    x = tl.load(a + m[:, None] * K + k[None, :])
    y = tl.load(b + k[:, None] * N + n[None, :])
    tl.store(c + m[:, None] * N + n[None, :], tl.sum(x[:, :, None] * y[None, :, :], 1))


def chained_reductions(a, c, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr):
    i, j, k = tl.arange(0, A), tl.arange(0, B), tl.arange(0, C)
    x = tl.load(a + (i[:, None, None] * B + j[None, :, None]) * C + k[None, None, :])
    tl.store(c + i, tl.max(tl.sum(x, 1), 1))


def normalized(a, c, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr):
    i, j, k = tl.arange(0, A), tl.arange(0, B), tl.arange(0, C)
    place = (i[:, None, None] * B + j[None, :, None]) * C + k[None, None, :]
    x = tl.load(a + place)
    total = tl.sum(tl.sum(x, 2), 0)
    x = x + total[None, :, None]
    tl.store(c + place, x - tl.max(x, 1)[:, None, :])


def chained_arguments(a, c, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr):
    i, j, k = tl.arange(0, A), tl.arange(0, B), tl.arange(0, C)
    x = tl.load(a + (i[:, None, None] * B + j[None, :, None]) * C + k[None, None, :])
    tl.store(c + i, tl.argmin(tl.argmax(x, 1), 1))


def both_ways(a, c, d, A: tl.constexpr, B: tl.constexpr):
    i, j = tl.arange(0, A), tl.arange(0, B)
    x = tl.load(a + i[:, None] * B + j[None, :])
    tl.store(c + i, tl.sum(x, 1))
    tl.store(d + j, tl.max(x, 0))


def transposed(a, c, A: tl.constexpr, B: tl.constexpr):
    i, j = tl.arange(0, A), tl.arange(0, B)
    x = tl.load(a + i[:, None] * B + j[None, :])
    tl.store(c + j[:, None] * A + i[None, :], tl.trans(x))


def gathered(a, places, c, A: tl.constexpr, B: tl.constexpr):
    i, j = tl.arange(0, A), tl.arange(0, B)
    at = i[:, None] * B + j[None, :]
    tl.store(c + at, tl.gather(tl.load(a + at), tl.load(places + at), 0))


def concatenated(a, b, c, N: tl.constexpr):
    i = tl.arange(0, N)
    both = tl.cat(tl.load(a + i), tl.load(b + i), can_reorder=True)
    tl.store(c + tl.arange(0, 2 * N), both)


def counted(a, c, N: tl.constexpr, BINS: tl.constexpr):
    tl.store(c + tl.arange(0, BINS), tl.histogram(tl.load(a + tl.arange(0, N)), BINS))
