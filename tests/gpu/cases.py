"""Kernels on a CUDA device against torch in float64: the cases that `make gpu` runs.

Each case is a function that returns (name, largest error, allowed error).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch

import workbench
import workbench.language as tl
from tests.corpus import every
from tests.corpus.sample import Maker, Sample, failures
from tests.corpus.sample import run as run_problem
from tests.kernels import matmul as matmul_kernels
from tests.kernels import reductions, softmax, vector_add

add = workbench.jit(vector_add.add)
row_softmax = workbench.jit(softmax.softmax)
matmul = workbench.jit(matmul_kernels.matmul)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one case gave: the largest error and what is allowed."""

    name: str
    error: float
    allowed: float

    @property
    def ok(self) -> bool:
        return self.error <= self.allowed  # False for NaN


Case = tuple[str, Callable[[], Outcome]]


def _worst(name: str, got: torch.Tensor, want: torch.Tensor, allowed: float) -> Outcome:
    error = (got.double() - want.double()).abs().max().item() if got.numel() else 0.0
    return Outcome(name, error, allowed)


def vector_add_cases() -> Iterator[Case]:
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int8):
        for n, block in ((7, 3), (1, 128), (1023, 1024), (1025, 256), (98432, 1024)):
            for shift in (0, 1):

                def run(dtype=dtype, n=n, block=block, shift=shift) -> Outcome:
                    floating = dtype.is_floating_point
                    make = (
                        torch.randn
                        if floating
                        else lambda k, device: torch.randint(-50, 50, (k,), device=device)
                    )
                    x, y = (make(n + shift, device="cuda").to(dtype)[shift:] for _ in "xy")
                    guard = torch.full((n + shift + 64,), 77, dtype=dtype, device="cuda")
                    out = guard[shift : n + shift]
                    add[(workbench.cdiv(n, block),)](x, y, out, n, BLOCK=block)
                    name = f"add {dtype} n={n} BLOCK={block} shift={shift}"
                    if (guard[n + shift :] != 77).any() or (guard[:shift] != 77).any():
                        return Outcome(name + " wrote outside", 1.0, 0.0)
                    return _worst(name, out, x + y, 0.0)

                yield f"add {dtype} {n} {block} {shift}", run


def softmax_cases() -> Iterator[Case]:
    for dtype, allowed in ((torch.float32, 1e-6), (torch.bfloat16, 4e-3), (torch.float16, 1e-3)):
        for rows, columns in ((5, 1), (3, 127), (4, 781), (16, 4096), (2, 20000)):
            for warps in (None, 1, 8):
                if warps == 1 and columns > 8192:
                    continue

                def run(
                    dtype=dtype, allowed=allowed, rows=rows, columns=columns, warps=warps
                ) -> Outcome:
                    x = torch.randn(rows, columns, device="cuda").to(dtype)
                    out = torch.full_like(x, float("nan"))
                    options = {} if warps is None else {"num_warps": warps}
                    block = workbench.next_power_of_2(columns)
                    row_softmax[(rows,)](
                        out, x, x.stride(0), out.stride(0), columns, BLOCK=block, **options
                    )
                    return _worst(f"softmax {dtype} {rows}x{columns} warps={warps}", out,
                                  torch.softmax(x.double(), -1), allowed)  # fmt: skip

                yield f"softmax {dtype} {rows} {columns} {warps}", run


def reduction_cases() -> Iterator[Case]:
    wanted = {
        "row_sum": lambda x: x.double().sum(1),
        "row_max": lambda x: x.max(1).values,
        "row_min": lambda x: x.min(1).values,
        "row_argmax": lambda x: x.argmax(1),
        "row_argmin": lambda x: x.argmin(1),
    }
    for name, reference in wanted.items():
        kernel = workbench.jit(getattr(reductions, name))
        for columns in (1, 3, 100, 1000, 3000):
            for warps in (1, 4, 16):

                def run(
                    kernel=kernel, name=name, reference=reference, columns=columns, warps=warps
                ) -> Outcome:
                    x = torch.randint(-8, 9, (6, columns), device="cuda").float()
                    want = reference(x)
                    if "arg" in name:
                        # Ties: the smallest index wins; torch does not promise it, so ask NumPy.
                        import numpy as np

                        found = getattr(np, name[4:])(x.cpu().numpy(), axis=1)
                        want = torch.from_numpy(found).to("cuda")
                    out = torch.full(
                        (6,),
                        -1,
                        device="cuda",
                        dtype=torch.int32 if "arg" in name else torch.float32,
                    )
                    kernel[(6,)](x, out, x.stride(0), columns, BLOCK=columns if columns == 3 else
                                 workbench.next_power_of_2(columns), num_warps=warps)  # fmt: skip
                    return _worst(f"{name} {columns} warps={warps}", out, want, 1e-3)

                yield f"{name} {columns} {warps}", run


def matmul_cases() -> Iterator[Case]:
    shapes = [(128, 128, 128), (257, 511, 129), (64, 96, 40), (1, 17, 31), (512, 256, 1024)]
    blocks = [
        (128, 128, 32, 4, 4),
        (64, 64, 64, 4, 3),
        (32, 64, 32, 2, 2),
        (128, 64, 32, 8, 3),
        (16, 16, 16, 1, 1),
    ]
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        for m, n, k in shapes:
            for bm, bn, bk, warps, stages in blocks:
                for kind in ("nn", "nt", "tn"):
                    if dtype == torch.float32 and (bm, bn, bk) == (128, 128, 32) and kind != "nn":
                        continue
                    if kind != "nn" and (m, n, k) not in ((128, 128, 128), (257, 511, 129)):
                        continue

                    def run(
                        dtype=dtype,
                        m=m,
                        n=n,
                        k=k,
                        bm=bm,
                        bn=bn,
                        bk=bk,
                        warps=warps,
                        stages=stages,
                        kind=kind,
                    ) -> Outcome:
                        # Small integers: every product and sum is exact, so any misplaced
                        # element shows and any order of summation gives the same.
                        a = torch.randint(
                            -4, 5, (m, k) if kind[0] == "n" else (k, m), device="cuda"
                        ).to(dtype)
                        b = torch.randint(
                            -4, 5, (k, n) if kind[1] == "n" else (n, k), device="cuda"
                        ).to(dtype)
                        a = a if kind[0] == "n" else a.T
                        b = b if kind[1] == "n" else b.T
                        c = torch.full((m, n), float("nan"), device="cuda", dtype=torch.float32)
                        grid = (workbench.cdiv(m, bm) * workbench.cdiv(n, bn),)
                        matmul[grid](
                            a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride(), BLOCK_M=bm,
                            BLOCK_N=bn, BLOCK_K=bk, GROUP_M=4, num_warps=warps, num_stages=stages,
                        )  # fmt: skip
                        want = a.double() @ b.double()
                        return _worst(
                            f"matmul {dtype} {m}x{n}x{k} {bm}x{bn}x{bk} w{warps} s{stages} {kind}",
                            c,
                            want,
                            0.0,
                        )

                    yield f"matmul {dtype} {(m, n, k)} {(bm, bn, bk, warps, stages)} {kind}", run


def product(
    a_ptr, b_ptr, c_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr
):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(a_ptr + m[:, None] * K + k[None, :])
    b = tl.load(b_ptr + k[:, None] * N + n[None, :])
    c = tl.dot(a, b, input_precision=PRECISION, out_dtype=c_ptr.dtype.element_ty)
    tl.store(c_ptr + m[:, None] * N + n[None, :], c)


def chained(q_ptr, k_ptr, v_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    m, n, d = tl.arange(0, M), tl.arange(0, N), tl.arange(0, D)
    q = tl.load(q_ptr + m[:, None] * D + d[None, :])
    k = tl.load(k_ptr + n[:, None] * D + d[None, :])
    v = tl.load(v_ptr + n[:, None] * D + d[None, :])
    scores = tl.dot(q, tl.trans(k))
    weights = tl.exp(scores - tl.max(scores, 1)[:, None])
    weights = weights / tl.sum(weights, 1)[:, None]
    tl.store(out_ptr + m[:, None] * D + d[None, :], tl.dot(weights.to(v.dtype), v))


def product_cases() -> Iterator[Case]:
    """Products of every type and of extents that are not powers of two, in one program."""
    kernel = workbench.jit(product)
    types = {
        "float16": (torch.float16, torch.float32, "tf32"),
        "bfloat16": (torch.bfloat16, torch.float32, "tf32"),
        "float16 to float16": (torch.float16, torch.float16, "tf32"),
        "tf32": (torch.float32, torch.float32, "tf32"),
        "ieee": (torch.float32, torch.float32, "ieee"),
        "int8": (torch.int8, torch.int32, "tf32"),
        "float64": (torch.float64, torch.float64, "ieee"),
        "e4m3": (torch.float8_e4m3fn, torch.float32, "tf32"),
        "e5m2": (torch.float8_e5m2, torch.float32, "tf32"),
    }
    extents = [
        (16, 16, 16),
        (32, 8, 32),
        (64, 64, 64),
        (128, 32, 64),
        (48, 80, 24),
        (5, 7, 3),
        (1, 1, 1),
        (17, 33, 96),
    ]
    for name, (dtype, result, precision) in types.items():
        for m, n, k in extents:
            for warps in (1, 4):

                def run(
                    name=name,
                    dtype=dtype,
                    result=result,
                    precision=precision,
                    m=m,
                    n=n,
                    k=k,
                    warps=warps,
                ) -> Outcome:
                    a, b = (
                        torch.randint(-2, 3, shape, device="cuda").float()
                        for shape in ((m, k), (k, n))
                    )
                    c = torch.zeros((m, n), device="cuda", dtype=result)
                    kernel[(1,)](a.to(dtype), b.to(dtype), c, m, n, k, precision, num_warps=warps)
                    return _worst(
                        f"product {name} {m}x{n}x{k} w{warps}", c, a.double() @ b.double(), 0.0
                    )

                yield f"product {name} {(m, n, k)} w{warps}", run
    attention = workbench.jit(chained)
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        for m, n, d in ((64, 64, 32), (16, 128, 64), (128, 64, 16)):
            for warps in (1, 4, 8):

                def run_chain(dtype=dtype, m=m, n=n, d=d, warps=warps) -> Outcome:
                    q, k, v = (torch.randn(r, d, device="cuda").to(dtype) for r in (m, n, n))
                    out = torch.zeros(m, d, device="cuda")
                    attention[(1,)](q, k, v, out, m, n, d, num_warps=warps)
                    weights = torch.softmax(q.double() @ k.double().T, -1)
                    return _worst(
                        f"chained {dtype} {(m, n, d)} w{warps}", out, weights @ v.double(), 3e-2
                    )

                yield f"chained {dtype} {(m, n, d)} w{warps}", run_chain


def _corpus_outcome(entry: Sample, dtype: torch.dtype, size: tuple, layout: str) -> Outcome:
    """Run one sample, and once more where both runs have to give the same bits."""
    words = f"{entry.suite} {entry.name} {dtype} {size} {layout}"
    results = []
    for _ in range(2 if entry.repeatable and dtype is entry.dtypes[0] else 1):
        make = Maker(dtype, "cuda", layout)
        problem = entry.build(make, *size)
        run_problem(problem)
        torch.cuda.synchronize()
        wrong = list(failures(problem, make))
        if wrong:
            return Outcome(f"{words}: {'; '.join(wrong)}", 1.0, 0.0)
        results.append([check.got.clone() for check in problem.checks()])
    for one, other in zip(results[0], results[-1], strict=True):
        if not torch.equal(one.nan_to_num(), other.nan_to_num()):
            return Outcome(f"{words}: two runs differ", 1.0, 0.0)
    return Outcome(words, 0.0, 0.0)


def corpus_cases() -> Iterator[Case]:
    """Every kernel of the corpus at all its sizes, the large ones too."""
    for entry in every.SAMPLES:
        for dtype, size, layout in entry.combinations((*entry.fast, *entry.slow, *entry.gpu)):
            yield (
                f"{entry.suite} {entry.name} {dtype} {size} {layout}",
                partial(_corpus_outcome, entry, dtype, size, layout),
            )


ALL = (corpus_cases, product_cases, vector_add_cases, softmax_cases, reduction_cases, matmul_cases)
