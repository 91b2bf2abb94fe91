"""Texts of kernels that many tests of magics have in their cells."""

#: Adds two vectors. Its first line is empty: what stands before it keeps its own lines.
ADD = """
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)
"""

#: Multiplies a[N, K] and b[K, N] in one program.
PRODUCT = """
def product(a_ptr, b_ptr, c_ptr, K, N: tl.constexpr, BK: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    total = tl.zeros((N, N), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a, b = tl.load(a_ptr + i * K + k[None, :]), tl.load(b_ptr + k[:, None] * N + j)
        total = tl.dot(a, b, total)
    tl.store(c_ptr + i * N + j, total)
"""

#: A file with that kernel.
PRODUCT_FILE = (
    """
import triton
import triton.language as tl

@triton.jit"""
    + PRODUCT
)
