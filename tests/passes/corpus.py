"""The kernels of tests/kernels with facts, options and small arguments, to try passes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.kernels import matmul, reductions, softmax, vector_add
from workbench.compiler import lower
from workbench.ir import BF16, Module
from workbench.launch.facts import Signature, to_specialization
from workbench.launch.options import check_options
from workbench.launch.signature import read_signature
from workbench.ops.numbers import encode
from workbench.runtime.compiling import source_of


def tile_ir(
    function: Any,
    signature: str,
    constexprs: Mapping[str, Any],
    assume: tuple[str, ...] = (),
    **options: Any,
) -> Module:
    """Return what the front end makes of a kernel, with facts and options as in `compile`."""
    source = source_of(function)
    arguments = read_signature(source, signature, constexprs, assume)
    given = check_options({"num_warps": None, "num_stages": None, **options}, source)
    return lower(source, to_specialization(Signature(arguments, given))).first


@dataclass(frozen=True)
class Case:
    """A kernel with what it is specialised on, and how to run it."""

    name: str
    function: Any
    signature: str
    constexprs: dict[str, Any]
    arguments: Callable[[], list[Any]]
    grid: tuple[int, ...]
    options: dict[str, Any] = field(default_factory=dict)
    assume: tuple[str, ...] = ()

    def module(self) -> Module:
        return tile_ir(self.function, self.signature, self.constexprs, self.assume, **self.options)


def numbers(count: int, dtype: Any = np.float32, seed: int = 1) -> np.ndarray:
    """Return small numbers that every type holds exactly; `dtype` "bf16" gives their bits."""
    values = np.random.default_rng(seed).integers(-4, 5, count)
    if dtype == "bf16":
        return np.asarray(encode(values.astype(np.float32), BF16))
    return values.astype(dtype)


def _add(n: int, block: int, dtype: str = "fp32") -> Case:
    held = {"fp32": np.float32, "fp16": np.float16, "i8": np.int8}[dtype]
    return Case(
        f"add {dtype} {n} by {block}", vector_add.add, f"*{dtype}:16 *{dtype}:16 *{dtype}:16 i32",
        {"BLOCK": block},
        lambda: [numbers(n, held), numbers(n, held, 2), np.zeros(n, held), n],
        (-(-n // block),),
    )  # fmt: skip


def _softmax(rows: int, columns: int, block: int, warps: int) -> Case:
    def arguments() -> list[Any]:
        x = numbers(rows * columns)
        return [np.zeros_like(x), x, columns, columns, columns]

    return Case(f"softmax {rows}x{columns} warps {warps}", softmax.softmax,
                "*fp32:16 *fp32:16 i32 i32 i32", {"BLOCK": block}, arguments, (rows,),
                {"num_warps": warps})  # fmt: skip


def _persistent(rows: int, columns: int, block: int) -> Case:
    def arguments() -> list[Any]:
        x = numbers(rows * columns)
        return [np.zeros_like(x), x, columns, columns, rows, columns]

    return Case(f"persistent softmax {rows}x{columns}", softmax.softmax_persistent,
                "*fp32:16 *fp32:16 i32 i32 i32 i32", {"BLOCK": block, "STAGES": 2}, arguments,
                (3,), {"num_warps": 2})  # fmt: skip


def _reduction(name: str, columns: int, block: int, warps: int) -> Case:
    out = np.int32 if "arg" in name else np.float32

    def arguments() -> list[Any]:
        return [numbers(4 * columns), np.zeros(4, out), columns, columns]

    return Case(f"{name} {columns} warps {warps}", getattr(reductions, name),
                f"*fp32:16 *{'i32' if 'arg' in name else 'fp32'} i32 i32", {"BLOCK": block},
                arguments, (4,), {"num_warps": warps})  # fmt: skip


def _matmul(
    dtype: str, sizes: tuple[int, int, int], blocks: tuple[int, int, int], kind: str, warps: int,
    stages: int, activation: str = "",
) -> Case:  # fmt: skip
    m, n, k = sizes
    held = {"fp16": np.float16, "bf16": "bf16", "fp32": np.float32, "i8": np.int8}[dtype]
    out = "fp32"
    strides = [k, 1] if kind[0] == "n" else [1, m]
    strides += [n, 1] if kind[1] == "n" else [1, k]

    def arguments() -> list[Any]:
        arrays = [numbers(m * k, held), numbers(k * n, held, 2), np.zeros(m * n, np.float32)]
        return [*arrays, m, n, k, *strides, n, 1]

    words = ["i32=1" if s == 1 else "i32" for s in [*strides, n, 1]]
    names = ("BLOCK_M", "BLOCK_N", "BLOCK_K")
    constexprs = dict(zip(names, blocks, strict=True)) | {"GROUP_M": 2, "ACTIVATION": activation}
    grid = (-(-m // blocks[0]) * -(-n // blocks[1]),)

    def received() -> list[Any]:
        """Arguments with a stated value are no parameters of the kernel."""
        given = arguments()
        return [
            a for a, w in zip(given, ["*"] * 3 + ["i32"] * 3 + words, strict=True) if "=" not in w
        ]

    return Case(f"matmul {dtype} {m}x{n}x{k} {kind} warps {warps} stages {stages} {activation}",
                matmul.matmul, f"*{dtype}:16 *{dtype}:16 *{out}:16 i32 i32 i32 {' '.join(words)}",
                constexprs, received, grid, {"num_warps": warps, "num_stages": stages})  # fmt: skip


def cases() -> list[Case]:
    """Return kernels small enough to interpret after every pass."""
    found = [
        _add(7, 3), _add(1000, 512), _add(100, 64, "fp16"), _add(33, 32, "i8"),
        _softmax(3, 17, 32, 1), _softmax(2, 300, 512, 4), _softmax(2, 5, 5, 2),
        _persistent(7, 19, 32),
        _matmul("fp16", (40, 24, 33), (16, 16, 16), "nn", 1, 1),
        _matmul("fp16", (40, 48, 50), (32, 32, 16), "nn", 4, 3, "leaky_relu"),
        _matmul("fp16", (32, 32, 64), (32, 32, 32), "nt", 2, 2),
        _matmul("fp16", (32, 40, 64), (16, 32, 32), "tn", 2, 4),
        _matmul("bf16", (33, 31, 29), (32, 32, 32), "nn", 4, 2),
        _matmul("fp32", (33, 32, 40), (32, 32, 16), "nn", 4, 3),
        _matmul("fp32", (5, 6, 7), (4, 4, 4), "nn", 1, 2),
    ]  # fmt: skip
    for name in ("row_sum", "row_max", "row_min", "row_argmax", "row_argmin", "long_row_sum"):
        found += [_reduction(name, 13, 16, 1), _reduction(name, 100, 128, 4)]
    return found
