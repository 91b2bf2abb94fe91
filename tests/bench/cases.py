"""What is measured on a GPU: problems of the corpus at their bench sizes, and those beside cuBLAS.

A case builds its problem on the device, from a seed, so that every process that builds it has the
same inputs. Its launches hold plain functions: whoever runs it chooses who compiles them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType
from typing import Any

import torch

import workbench
from tests.corpus import every
from tests.corpus.sample import BF16, F16, F32, Check, Launch, Maker, Problem
from tests.kernels import matmul as matmul_kernels
from tests.kernels import softmax, vector_add

WORDS = {F32: "fp32", BF16: "bf16", F16: "fp16"}

#: Configurations tried for the matmul rows: BLOCK_M, BLOCK_N, BLOCK_K, warps, stages.
MATMUL_CONFIGS = (
    (128, 128, 32, 4, 4),
    (128, 128, 32, 4, 5),
    (128, 128, 64, 4, 3),
    (128, 256, 32, 8, 4),
    (128, 256, 64, 8, 3),
    (256, 128, 32, 8, 4),
)
#: Products measured under Triton too, with the same options; BLOCK_K is that of 16-bit types.
PRODUCT_CONFIGS = ((128, 128, 64, 8, 3), (64, 64, 64, 4, 4))


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One problem to measure.

    Attributes:
        suite, name, dtype: what it is called in results.
        size: elements, columns of a row, or M = N = K; None: the bytes it moves.
        module: the kernels, which a peer compiles from the same text.
        build: makes the problem with a `Maker`.
        library: what the problem's `torch` is called.
        peer: whether it is measured under Triton too, and `peer_named`, what is set only there.
        group: cases of one group solve one problem with different options; the best one counts.
        checked: whether the result is compared before it is measured; the rest is by `make gpu`.
    """

    suite: str
    name: str
    dtype: torch.dtype
    size: int | None
    module: ModuleType
    build: Callable[[Maker], Problem]
    library: str = "torch"
    peer: bool = True
    peer_named: dict[str, Any] = field(default_factory=dict[str, Any])
    group: str = ""
    checked: bool = False

    @property
    def word(self) -> str:
        """The type as results name it."""
        return WORDS.get(self.dtype, str(self.dtype)[6:])

    @property
    def operand(self) -> str:
        """The type of a product's operands, as data sheets name it."""
        return {"fp32": "tf32", "fp16": "f16", "int8": "i8"}.get(self.word, self.word)

    def make(self, device: str = "cuda") -> Problem:
        """Build the problem, from the seed that all processes share."""
        return self.build(Maker(self.dtype, device))


def _add(make: Maker, n: int) -> Problem:
    x, y, out = make.normal(n), make.normal(n), make.output(n)
    launch = Launch(vector_add.add, (workbench.cdiv(n, 1024),), (x, y, out, n), {"BLOCK": 1024})
    return Problem((launch,), tuple, 3 * x.nbytes, lambda: torch.add(x, y, out=out))


def _softmax(make: Maker, columns: int, rows: int = 4096) -> Problem:
    x, out = make.normal(rows, columns), make.output(rows, columns)
    block = workbench.next_power_of_2(columns)
    launch = Launch(softmax.softmax, (rows,), (out, x, columns, columns, columns), {"BLOCK": block})
    return Problem((launch,), tuple, 2 * x.nbytes, lambda: torch.softmax(x, -1))


def _product(make: Maker, size: int, config: tuple[int, int, int, int, int]) -> Problem:
    bm, bn, bk, warps, stages = config
    a, b = make.normal(size, size), make.normal(size, size)
    c, reference = make.output(size, size), torch.empty(size, size, dtype=a.dtype, device=a.device)
    launch = Launch(
        matmul_kernels.matmul,
        (workbench.cdiv(size, bm) * workbench.cdiv(size, bn),),
        (a, b, c, size, size, size, size, 1, size, 1, size, 1),
        {"BLOCK_M": bm, "BLOCK_N": bn, "BLOCK_K": bk, "GROUP_M": 8, "num_warps": warps,
         "num_stages": stages},
    )  # fmt: skip

    def library() -> None:
        torch.backends.cuda.matmul.allow_tf32 = True  # as `tl.dot` has it by default
        try:
            torch.mm(a, b, out=reference)
        finally:
            torch.backends.cuda.matmul.allow_tf32 = False

    def checks() -> Iterator[Check]:
        library()
        # Sums of up to 8192 products of normal numbers in another order, rounded once.
        yield Check("c", c, reference, 0.5)

    return Problem((launch,), checks, 3 * a.nbytes, library, flops=2 * size**3)


def _library_cases() -> Iterator[Case]:
    """Cases of their own: vector add, softmax, products."""
    for power in range(12, 29, 2):
        build = partial(_add, n=1 << power)
        yield Case("vector_add", "add", F32, 1 << power, vector_add, build, peer=False)
    for dtype in (F32, BF16):
        for power in range(8, 16):
            columns = 1 << power
            # Ours chooses its warps; Triton's default of 4 would be too few.
            named = {"num_warps": max(1, min(32, columns // 512))}
            build = partial(_softmax, columns=columns)
            yield Case("softmax", "4096 rows", dtype, columns, softmax, build, peer_named=named)
    for size in (2048, 4096, 8192):
        for config in MATMUL_CONFIGS:
            bm, bn, bk, warps, stages = config
            yield Case(
                "matmul_mma_sync", f"A@B {bm}x{bn}x{bk} w{warps} s{stages}", F16, size,
                matmul_kernels, partial(_product, size=size, config=config), library="cublas",
                peer=False, group=f"matmul {size}", checked=True,
            )  # fmt: skip
    for dtype, size in ((F16, 1024), (F16, 4096), (BF16, 4096), (F32, 2048)):
        for bm, bn, bk, warps, stages in PRODUCT_CONFIGS:
            config = bm, bn, bk * 2 // dtype.itemsize, warps, stages
            yield Case(
                "matmul", f"matmul {bm}x{bn}x{config[2]} {warps} warps {stages} stages", dtype,
                size, matmul_kernels, partial(_product, size=size, config=config),
                library="cublas", checked=True,
            )  # fmt: skip


def _corpus_cases(*, small: bool) -> Iterator[Case]:
    for entry in every.SAMPLES:
        for dtype in entry.bench_dtypes:
            for size in entry.fast[-1:] if small and entry.bench else entry.bench:
                words = "x".join(str(part) for part in size)
                yield Case(
                    entry.suite, f"{entry.name} {words}", dtype, None, entry.module,
                    lambda make, build=entry.build, size=size: build(make, *size),
                )  # fmt: skip


def all_cases(*, small: bool = False) -> tuple[Case, ...]:
    """Return all cases in the order they are measured; with `small` at a size of the tests.

    Cases that are measured against libraries only are never small.
    """
    own = () if small else tuple(_library_cases())
    return (*own, *_corpus_cases(small=small))


ALL = all_cases()
#: The names of the suites, in the order they are measured.
SUITES: tuple[str, ...] = tuple(dict.fromkeys(case.suite for case in ALL))
