"""Sixty kernels that solve no puzzle, five for each: none may be accepted.

Most are the solution with something replaced. `code` is what the verdict has to say.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from workbench.puzzles import PUZZLES
from workbench.runtime.host import cdiv


@dataclass(frozen=True)
class Wrong:
    puzzle: int
    name: str
    text: str
    code: str
    launch: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.puzzle}-{self.name.replace(' ', '_')}"


def edited(puzzle: int, name: str, code: str, *changes: str, **launch: Any) -> Wrong:
    """Return the solution with some texts replaced by those that follow them."""
    text = PUZZLES[puzzle - 1].solution
    for old, new in zip(changes[::2], changes[1::2], strict=True):
        assert old in text, (puzzle, name, old)
        text = text.replace(old, new)
    return Wrong(puzzle, name, text, code, launch)


def wrapper(puzzle: int, body: str) -> Wrong:
    """Return a Python function that leaves the work to torch."""
    found = PUZZLES[puzzle - 1]
    names = ", ".join((*found.parameters, *found.constants))
    text = f"def {found.name}({names}):\n    {body}\n"
    return Wrong(puzzle, "torch in a wrapper", text, "K610")


WRONG = [
    # 1 Seven in threes
    edited(1, "writes past the end", "K502", "x + 10, mask=mask", "x + 10"),
    edited(1, "constants for an input", "K601", "x + 10", "offsets * 0.5 + 10"),
    edited(1, "knows the shown size", "K502", "offsets < n", "offsets < 7"),
    edited(1, "nearly ten", "K601", "x + 10", "x + 10.0001"),
    wrapper(1, "out_ptr.copy_(x_ptr + 10)"),
    # 2 Any stride
    edited(2, "rows one after another", "K601",
           "i[:, None] * stride_row + j[None, :] * stride_column",
           "i[:, None] * columns + j[None, :]"),
    edited(2, "no mask of columns", "K502", " & (j[None, :] < columns)", ""),
    edited(2, "writes it transposed", "K601", "i[:, None] * columns + j[None, :]",
           "j[None, :] * rows + i[:, None]"),
    edited(2, "reads past the end", "K502", "j[None, :] * stride_column, mask=mask",
           "j[None, :] * stride_column"),
    wrapper(2, "out_ptr.copy_(x_ptr)"),
    # 3 Two into a table
    edited(3, "no stride", "K601", "* stride_out", "* columns"),
    edited(3, "writes between the rows", "K612",
           "mask = (i[:, None] < rows) & (j[None, :] < columns)",
           "mask = (i[:, None] < rows) & (j[None, :] < stride_out) & "
           "(i[:, None] * stride_out + j[None, :] < (rows - 1) * stride_out + columns)"),
    edited(3, "a product", "K601", "x[:, None] + y[None, :]", "x[:, None] * y[None, :]"),
    edited(3, "the mask of the other axis", "K601", "mask=j < columns", "mask=j < rows"),
    edited(3, "a race that is right", "K514", "tl.program_id(0) * BM", "tl.program_id(0) * 2",
           grid=lambda rows, columns, BN: (cdiv(rows, 2), cdiv(columns, BN))),
    # 4 Mirror
    edited(4, "all store the middle back", "K514", "    a = tl.load",
           "    if n % 2 == 1:\n        middle = x_ptr + n // 2 * stride\n"
           "        tl.store(middle, tl.load(middle))\n    a = tl.load"),
    edited(4, "stores before it loads", "K601", "    b = tl.load(right, mask=mask)\n", "",
           "tl.store(left, b, mask=mask)", "tl.store(left, tl.load(right, mask=mask), mask=mask)\n"
           "    a = tl.load(left, mask=mask)"),
    edited(4, "swaps twice", "K514", "mask = i < n // 2", "mask = i < n"),
    edited(4, "no stride", "K601", " * stride", ""),
    wrapper(4, "x_ptr.copy_(x_ptr.flip(0))"),
    # 5 Long rows
    edited(5, "no mask", "K502", ", mask=j < columns, other=0.0", ""),
    edited(5, "the first block only", "K601", "range(0, columns, BLOCK)", "range(0, BLOCK, BLOCK)"),
    edited(5, "sums in float16", "K614", "tl.float32", "tl.float16", "other=0.0)",
           "other=0.0).to(tl.float16)"),
    edited(5, "reads twice", "K613", "        sums +=",
           "        sums += 0 * tl.load(x_ptrs, mask=j < columns, other=0.0)\n        sums +="),
    edited(5, "a row in one tile", "K611", "BLOCK)", "1024)", "(BLOCK,)", "(1024,)"),
    # 6 Steady softmax
    edited(6, "not steady", "K601", "x - tl.max(x)", "x"),
    edited(6, "lanes behind the end count", "K601", 'other=float("-inf")', "other=0.0"),
    edited(6, "the largest magnitude", "K601", "tl.max(x)", "tl.max(tl.abs(x))"),
    edited(6, "no stride", "K601", "row * stride_out", "row * columns"),
    edited(6, "a sum that is never 0", "K601", "tl.sum(shares)", "(tl.sum(shares) + 1e-3)"),
    # 7 Votes
    edited(7, "no atomics", "K514", "tl.atomic_add(counts_ptr + keys, 1, mask=i < n)",
           "tl.store(counts_ptr + keys, tl.load(counts_ptr + keys, mask=i < n) + 1, mask=i < n)"),
    edited(7, "lanes that are off vote", "K601", "1, mask=i < n", "1"),
    edited(7, "atomics of a program", "K514", "1, mask=i < n", '1, mask=i < n, scope="cta"'),
    edited(7, "a race that is right", "K514", "tl.atomic_add(counts_ptr + keys, 1, mask=i < n)",
           "b = tl.arange(0, 8)\n"
           "    ones = ((keys[:, None] == b[None, :]) & (i < n)[:, None]).to(tl.int32)\n"
           "    tl.store(counts_ptr + b, tl.load(counts_ptr + b) + tl.sum(ones, 0))"),
    edited(7, "no stride", "K502", "i * stride", "i"),
    # 8 Running total
    edited(8, "no carry", "K601", " + carry", ""),
    edited(8, "without its own element", "K601", " + carry", " + carry - x"),
    edited(8, "carries one block", "K601", "carry += tl.sum(x)", "carry = tl.sum(x)"),
    edited(8, "reads again", "K613", "carry += tl.sum(x)",
           "carry += tl.sum(tl.load(x_ptr + i * stride, mask=i < n, other=0.0))"),
    edited(8, "writes past the end", "K502", " + carry, mask=i < n", " + carry"),
    # 9 Last one adds up
    edited(9, "a race that is right", "K516", "before == programs - 1",
           "tl.program_id(0) == programs - 1"),
    edited(9, "orders nobody", "K514", "arrived_ptr, 1)", 'arrived_ptr, 1, sem="relaxed")'),
    edited(9, "counts first", "K516", "    tl.store(partial_ptr + tl.program_id(0), tl.sum(x))\n",
           "", "    programs =",
           "    tl.store(partial_ptr + (tl.program_id(0) + 1) % 64, tl.sum(x))\n    programs ="),
    edited(9, "divides by the lanes", "K601", "total / n", "total / (programs * BLOCK)"),
    edited(9, "nobody waits", "K516", "before == programs - 1", "before >= 0"),
    # 10 Ragged matmul
    edited(10, "no mask along K in a", "K502", " & (k[None, :] < K)", ""),
    edited(10, "no mask along K at all", "K502", " & (k[None, :] < K)", "", "(k[:, None] < K) & ",
           ""),
    edited(10, "sums in float16", "K614", "tl.zeros((BM, BN), tl.float32)",
           "tl.zeros((BM, BN), tl.float16)", "acc = tl.dot(a, b, acc)",
           "acc += tl.dot(a, b).to(tl.float16)"),
    edited(10, "no mask of columns", "K502", "c_mask = (m[:, None] < M) & (n[None, :] < N)",
           "c_mask = m[:, None] < M"),
    edited(10, "forgets the tail", "K601", "range(0, K, BK)", "range(0, K // BK * BK, BK)"),
    # 11 Four bits
    edited(11, "halves swapped", "K601", "4 * (k % 2)", "4 * (1 - k % 2)"),
    edited(11, "minus seven", "K601", " - 8)", " - 7)"),
    edited(11, "one scale", "K601", "group * stride_s", "0"),
    edited(11, "signed halves", "K601", "(q.to(tl.int8) - 8)", "((q.to(tl.int8) ^ 8) - 8)"),
    edited(11, "writes past the end", "K502", "mask = (m[:, None] < M) & (n[None, :] < N)",
           "mask = n[None, :] < N"),
    # 12 One pass
    edited(12, "sees the future", "K601", "(j[None, :] <= i[:, None]) & ", ""),
    edited(12, "does not shrink", "K601", "acc * shrink[:, None]", "acc"),
    edited(12, "not itself", "K601", "j[None, :] <= i[:, None]", "j[None, :] < i[:, None]"),
    edited(12, "no scale", "K601", "tl.trans(k)) / 4", "tl.trans(k))"),
    edited(12, "all in one tile", "K611", "range(0, n, BN)", "range(0, n, 64)",
           "tl.arange(0, BN)", "tl.arange(0, 64)"),
]  # fmt: skip
