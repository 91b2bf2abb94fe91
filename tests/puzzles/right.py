"""Twenty-four kernels that solve puzzles in another way, two for each: none may be refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.puzzles.wrong import edited
from workbench.runtime.host import cdiv


@dataclass(frozen=True)
class Right:
    puzzle: int
    name: str
    text: str
    launch: dict[str, Any] = field(default_factory=dict)
    #: The answer to the question, where it is another one than the solution's.
    answer: Any = None

    def __str__(self) -> str:
        return f"{self.puzzle}-{self.name.replace(' ', '_')}"


def changed(puzzle: int, name: str, *changes: str, answer: Any = None, **launch: Any) -> Right:
    """Return the solution with some texts replaced by those that follow them."""
    return Right(puzzle, name, edited(puzzle, name, "", *changes).text, launch, answer)


RIGHT = [
    changed(1, "in fours", BLOCK=4, answer=1),
    Right(1, "one program goes along", """
@wb.jit
def add_ten(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + i, mask=i < n, other=-10.0)
        tl.store(out_ptr + i, 10 + x, mask=i < n)
""", {"grid": 1}, 2),
    Right(2, "numbered along the output", """
@wb.jit
def copy(x_ptr, out_ptr, rows, columns, stride_row, stride_column,
         BM: tl.constexpr, BN: tl.constexpr):
    at = tl.program_id(0) * BM * BN + tl.arange(0, BM * BN)
    mask = at < rows * columns
    i = at // columns
    x = tl.load(x_ptr + i * stride_row + at % columns * stride_column, mask=mask)
    tl.store(out_ptr + at, x, mask=mask)
""", {"grid": lambda rows, columns: cdiv(rows * columns, 256)}),
    Right(2, "turned on the way", """
@wb.jit
def copy(x_ptr, out_ptr, rows, columns, stride_row, stride_column,
         BM: tl.constexpr, BN: tl.constexpr):
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    j = tl.program_id(1) * BN + tl.arange(0, BN)
    turned = (j[:, None] < columns) & (i[None, :] < rows)
    x = tl.load(x_ptr + j[:, None] * stride_column + i[None, :] * stride_row, mask=turned)
    out = out_ptr + i[:, None] * columns + j[None, :]
    tl.store(out, tl.trans(x), mask=tl.trans(turned))
"""),
    Right(3, "row by row", """
@wb.jit
def table(x_ptr, y_ptr, out_ptr, rows, columns, stride_out, BM: tl.constexpr, BN: tl.constexpr):
    i = tl.program_id(0)
    x = tl.load(x_ptr + i)
    for start in range(0, columns, BN):
        j = start + tl.arange(0, BN)
        y = tl.load(y_ptr + j, mask=j < columns)
        tl.store(out_ptr + i * stride_out + j, x + y, mask=j < columns)
""", {"grid": lambda rows: rows}, 14),
    changed(3, "loads a matrix twice", "tl.load(x_ptr + i, mask=i < rows)",
            "tl.load(x_ptr + i[:, None] + 0 * j[None, :], mask=(i[:, None] < rows) & "
            "(j[None, :] < columns))", "x[:, None] + y", "x + y", answer=40),
    Right(4, "one program for a pair", """
@wb.jit
def mirror(x_ptr, n, stride, BLOCK: tl.constexpr):
    i = tl.program_id(0)
    a = tl.load(x_ptr + i * stride)
    tl.store(x_ptr + i * stride, tl.load(x_ptr + (n - 1 - i) * stride))
    tl.store(x_ptr + (n - 1 - i) * stride, a)
""", {"grid": lambda n: n // 2}, {4}),
    Right(4, "one program for all pairs", """
@wb.jit
def mirror(x_ptr, n, stride, BLOCK: tl.constexpr):
    for start in range(0, n // 2, BLOCK):
        i = start + tl.arange(0, BLOCK)
        left, right = x_ptr + i * stride, x_ptr + (n - 1 - i) * stride
        a, b = tl.load(left, mask=i < n // 2), tl.load(right, mask=i < n // 2)
        tl.store(right, a, mask=i < n // 2)
        tl.store(left, b, mask=i < n // 2)
""", {"grid": (1,)}, {0}),
    changed(5, "carries a number", "tl.zeros((BLOCK,), tl.float32)", "0.0",
            "sums += tl.load(x_ptrs, mask=j < columns, other=0.0)",
            "sums += tl.sum(tl.load(x_ptrs, mask=j < columns, other=0.0))", "tl.sum(sums)", "sums",
            answer=["f32"]),
    Right(5, "eight rows at once", """
@wb.jit
def row_sums(x_ptr, out_ptr, rows, columns, stride_row, stride_column, BLOCK: tl.constexpr):
    i = tl.program_id(0) * 8 + tl.arange(0, 8)
    total = tl.zeros((8,), tl.float32)
    j = tl.arange(0, BLOCK)
    start = 0
    while start < columns:
        x_ptrs = x_ptr + i[:, None] * stride_row + (start + j)[None, :] * stride_column
        mask = (i[:, None] < rows) & ((start + j)[None, :] < columns)
        total += tl.sum(tl.load(x_ptrs, mask=mask, other=0.0), 1)
        start += BLOCK
    tl.store(out_ptr + i, total, mask=i < rows)
""", {"grid": lambda rows: cdiv(rows, 8)}, ["tile<8xf32>", "index"]),
    changed(6, "divides before exp", "shares = tl.exp(x - tl.max(x))", "x -= tl.max(x)",
            "shares / tl.sum(shares)", "tl.exp(x - tl.log(tl.sum(tl.exp(x))))"),
    Right(6, "in three walks", """
@wb.jit
def softmax(x_ptr, out_ptr, rows, columns, stride_x, stride_out, BLOCK: tl.constexpr):
    x_ptr += tl.program_id(0) * stride_x
    top = float("-inf")
    for start in range(0, columns, 16):
        j = start + tl.arange(0, 16)
        x = tl.load(x_ptr + j, mask=j < columns, other=float("-inf"))
        top = tl.maximum(top, tl.max(x))
    total = 0.0
    for start in range(0, columns, 16):
        j = start + tl.arange(0, 16)
        x = tl.load(x_ptr + j, mask=j < columns, other=float("-inf"))
        total += tl.sum(tl.exp(x - top))
    for start in range(0, columns, 16):
        j = start + tl.arange(0, 16)
        x = tl.load(x_ptr + j, mask=j < columns)
        out = out_ptr + tl.program_id(0) * stride_out + j
        tl.store(out, tl.exp(x - top) / total, mask=j < columns)
""", answer=12),
    changed(7, "a histogram first", "    tl.atomic_add(counts_ptr + keys, 1, mask=i < n)",
            "    found = tl.histogram(keys, 8, mask=i < n)\n"
            "    tl.atomic_add(counts_ptr + tl.arange(0, 8), found)", answer=(24, "gpu")),
    changed(7, "a table of ones", "    tl.atomic_add(counts_ptr + keys, 1, mask=i < n)",
            "    b = tl.arange(0, 8)\n"
            "    ones = ((keys[:, None] == b[None, :]) & (i < n)[:, None]).to(tl.int32)\n"
            '    tl.atomic_add(counts_ptr + b, tl.sum(ones, 0), sem="relaxed")',
            answer=(24, "gpu")),
    changed(8, "carries the last sum", "tl.store(out_ptr + i, tl.cumsum(x, 0) + carry, mask=i < n)",
            "sums = tl.cumsum(x, 0) + carry\n        tl.store(out_ptr + i, sums, mask=i < n)",
            "carry += tl.sum(x)",
            "carry = tl.sum(tl.where(tl.arange(0, BLOCK) == BLOCK - 1, sums, 0.0))",
            answer={"tile.reduce"}),
    Right(8, "a scan of its own", """
@wb.jit
def plus(a, b):
    return a + b

@wb.jit
def running_total(x_ptr, out_ptr, n, stride, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    before = tl.zeros((BLOCK,), tl.float32)
    while tl.max(i) < n + BLOCK - 1:
        x = tl.load(x_ptr + i * stride, mask=i < n, other=0.0)
        tl.store(out_ptr + i, tl.associative_scan(x, 0, plus) + before, mask=i < n)
        before += tl.sum(x)
        i += BLOCK
"""),
    changed(9, "all partial sums at once", "        total = 0.0\n", "",
            "        for p in range(programs):\n            total += tl.load(partial_ptr + p)\n",
            "        p = tl.arange(0, 64)\n"
            "        total = tl.sum(tl.load(partial_ptr + p, mask=p < programs, other=0.0))\n"),
    Right(9, "three programs in strides", """
@wb.jit
def mean(x_ptr, partial_ptr, arrived_ptr, out_ptr, n, stride, BLOCK: tl.constexpr):
    sums = tl.zeros((BLOCK,), tl.float32)
    for start in range(tl.program_id(0) * BLOCK, n, 3 * BLOCK):
        i = start + tl.arange(0, BLOCK)
        sums += tl.load(x_ptr + i * stride, mask=i < n, other=0.0)
    tl.store(partial_ptr + tl.program_id(0), tl.sum(sums))
    if tl.atomic_add(arrived_ptr, 1, sem="acq_rel", scope="gpu") == 2:
        a, b = tl.load(partial_ptr), tl.load(partial_ptr + 1)
        tl.store(out_ptr, (a + b + tl.load(partial_ptr + 2)) / n)
""", {"grid": 3}),
    Right(10, "pointers that move on", """
@wb.jit
def matmul(a_ptr, b_ptr, c_ptr, M, N, K, stride_a, stride_b, stride_c,
           BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    a_ptrs = a_ptr + m[:, None] * stride_a + k[None, :]
    b_ptrs = b_ptr + k[:, None] * stride_b + n[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for step in range(tl.cdiv(K, BK)):
        left = K - step * BK
        a = tl.load(a_ptrs, mask=(m[:, None] < M) & (k[None, :] < left), other=0.0)
        b = tl.load(b_ptrs, mask=(k[:, None] < left) & (n[None, :] < N), other=0.0)
        acc += tl.dot(a, b)
        a_ptrs += BK
        b_ptrs += BK * stride_b
    tl.store(c_ptr + m[:, None] * stride_c + n[None, :], acc,
             mask=(m[:, None] < M) & (n[None, :] < N))
"""),
    Right(10, "block pointers", """
@wb.jit
def matmul(a_ptr, b_ptr, c_ptr, M, N, K, stride_a, stride_b, stride_c,
           BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    a_block = tl.make_block_ptr(a_ptr, (M, K), (stride_a, 1), (m, 0), (BM, BK), (1, 0))
    b_block = tl.make_block_ptr(b_ptr, (K, N), (stride_b, 1), (0, n), (BK, BN), (1, 0))
    acc = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, BK):
        a = tl.load(a_block, boundary_check=(0, 1), padding_option="zero")
        b = tl.load(b_block, boundary_check=(0, 1), padding_option="zero")
        acc = tl.dot(a, b, acc)
        a_block = tl.advance(a_block, (0, BK))
        b_block = tl.advance(b_block, (BK, 0))
    c_block = tl.make_block_ptr(c_ptr, (M, N), (stride_c, 1), (m, n), (BM, BN), (1, 0))
    tl.store(c_block, acc, boundary_check=(0, 1))
"""),
    Right(11, "even and odd rows apart", """
@wb.jit
def four_bits(x_ptr, w_ptr, scale_ptr, out_ptr, M, N, K, stride_x, stride_w, stride_s,
              BM: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for group in range(0, K // GROUP):
        r = group * (GROUP // 2) + tl.arange(0, GROUP // 2)
        x_ptrs = x_ptr + m[:, None] * stride_x + 2 * r[None, :]
        even = tl.load(x_ptrs, mask=m[:, None] < M, other=0.0)
        odd = tl.load(x_ptrs + 1, mask=m[:, None] < M, other=0.0)
        w = tl.load(w_ptr + r[:, None] * stride_w + n[None, :], mask=n[None, :] < N, other=0)
        low = ((w & 15).to(tl.int8) - 8).to(tl.float16)
        high = ((w >> 4).to(tl.int8) - 8).to(tl.float16)
        scale = tl.load(scale_ptr + group * stride_s + n, mask=n < N, other=0.0)
        acc += tl.dot(odd, high, tl.dot(even, low)) * scale[None, :].to(tl.float32)
    tl.store(out_ptr + m[:, None] * N + n[None, :], acc,
             mask=(m[:, None] < M) & (n[None, :] < N))
""", answer=2 * 8 * 24 * 64 / (2 * 8 * 64 + 32 * 24 + 2 * 2 * 24 + 4 * 8 * 24)),
    changed(11, "weights in float16", "product = tl.dot(x, (q.to(tl.int8) - 8).to(tl.float16))",
            "weights = (q.to(tl.int8) - 8).to(tl.float16) * scale[None, :]",
            "acc += product * scale[None, :].to(tl.float32)", "acc = tl.dot(x, weights, acc)"),
    changed(12, "no further than the diagonal", "range(0, n, BN)",
            "range(0, tl.minimum(n, (tl.program_id(0) + 1) * BM), BN)"),
    changed(12, "powers of two", "tl.trans(k)) / 4", "tl.trans(k)) * (0.25 * 1.4426950408889634)",
            "tl.exp(", "tl.exp2("),
]  # fmt: skip
