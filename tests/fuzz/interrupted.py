"""Kernels that `interrupts.py` interrupts: an ordinary one, a large one, some that never end."""

from workbench import tl


def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr, TAG: tl.constexpr = 0):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + tl.load(y_ptr + offsets, mask=mask), mask=mask)


def reduce(x_ptr, out_ptr, n, BLOCK: tl.constexpr, TAG: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        x = tl.load(x_ptr + start + offsets, mask=start + offsets < n, other=0.0)
        total += tl.exp(x * 1e-3) * TAG
    order = tl.sort(total)
    tl.store(out_ptr + tl.program_id(0), tl.sum(tl.cumsum(order)))


def poll(flag_ptr):
    while tl.load(flag_ptr + tl.program_id(0), volatile=True) == 0:
        pass


def spin(flag_ptr):
    i = tl.load(flag_ptr)
    while i >= 0:
        i = (i + 1) % 7
    tl.store(flag_ptr, i)


def count(flag_ptr, n):
    found = tl.full((), 0, tl.int64)
    for i in range(n):
        found = (found + i) % 7
    tl.store(flag_ptr + tl.program_id(0), (0 * found).to(tl.int32))
