"""Runs a device function in the interpreter on NumPy arrays and torch tensors."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
import torch

import workbench.language as tl
from tests.execution import default_target, execute
from workbench.frontend import Argument, Options, Specialization, lower_kernel
from workbench.ir import (
    BF16,
    F8E4M3,
    F8E5M2,
    F16,
    F32,
    F64,
    I1,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    Module,
    Type,
    parse_module,
    print_module,
)
from workbench.passes.manager import Remarks
from workbench.source import CompileError, kernel_source, register_text

ELEMENTS = {
    "float16": F16, "float32": F32, "float64": F64, "bool": I1, "int8": I8, "int16": I16,
    "int32": I32, "int64": I64, "uint8": U8, "uint16": U16, "uint32": U32, "uint64": U64,
    "bfloat16": BF16, "float8_e4m3fn": F8E4M3, "float8_e5m2": F8E5M2,
}  # fmt: skip


class Typed:
    """A scalar argument with a type of its own."""

    def __init__(self, value: Any, element: Type) -> None:
        self.value, self.type = value, element


def argument(value: Any, constant: bool) -> Argument:
    """Return what the launcher would say of an argument."""
    if isinstance(value, Argument):
        return value
    if constant or value is None or isinstance(value, str | tuple):
        return Argument(None, value)
    if isinstance(value, Typed):
        return Argument(str(value.type))
    if hasattr(value, "dtype"):
        return Argument(f"*{ELEMENTS[str(value.dtype).removeprefix('torch.')]}")
    if isinstance(value, bool):
        return Argument("i1")
    if isinstance(value, int):
        return Argument("i32" if -(2**31) <= value < 2**31 else "i64")
    return Argument("f32")


def lowered(
    function: Any, *, options: Options | None = None, **values: Any
) -> tuple[Module, Remarks]:
    """Return a function's tile IR for these arguments, and the remarks made."""
    source = kernel_source(function)
    constants = {p.name for p in source.parameters if p.is_constexpr}
    known = tuple((n, argument(v, n in constants)) for n, v in values.items())
    remarks = Remarks()
    return lower_kernel(source, Specialization(known, options or Options()), remarks), remarks


def run(
    function: Any, *, grid: tuple[int, ...] = (1,), options: Options | None = None, **values: Any
) -> list[str]:
    """Lower, print, parse and interpret a function; returns what it printed."""
    module, _ = lowered(function, options=options, **values)
    module = parse_module(print_module(module))
    names = {p.name for p in module.parameters}
    given = [v.value if isinstance(v, Typed) else v for n, v in values.items() if n in names]
    return execute(module, grid, given, default_target())


def result(function: Any, dtype: Any = np.float32, shape: Any = (1,), **values: Any) -> np.ndarray:
    """Return what a function stores into `out`, its first parameter."""
    out = np.zeros(shape, dtype)
    run(function, out=out, **values)
    return out


_COUNT = [0]


def from_text(text: str, **names: Any) -> Any:
    """Return the last function that a text defines, its source known to linecache."""
    import workbench.language as tl

    _COUNT[0] += 1
    file = f"<kernel {_COUNT[0]}>"
    text = textwrap.dedent(text).lstrip("\n")
    register_text(file, text)
    scope: dict[str, Any] = {"tl": tl, **names}
    exec(compile(text, file, "exec"), scope)
    given = {"tl", "__builtins__", *names}
    return [v for k, v in scope.items() if k not in given and hasattr(v, "__code__")][-1]


def error_of(function: Any, **values: Any) -> CompileError:
    """Return the error that lowering a function (or a text of one) raises."""
    if isinstance(function, str):
        function = from_text(function)
    try:
        lowered(function, **values)
    except CompileError as error:
        return error
    raise AssertionError("the kernel compiled")


def store(text: str) -> object:
    """Return a kernel that stores the value of an expression, one element per offset."""
    return from_text(f"""
        def kernel(out, x, y, n, B: tl.constexpr):
            i = tl.arange(0, B)
            a = tl.load(x + i)
            b = tl.load(y + i)
            tl.store(out + i, {text})
    """)


def dtype_of(text: str, x: str, y: str = "float32") -> str:
    """Return the dtype of an expression of `a` and `b`, loaded from arrays of these dtypes."""
    seen = []
    kernel = from_text(
        f"""
        def kernel(x, y, s, B: tl.constexpr):
            i = tl.arange(0, B)
            a = tl.load(x + i)
            b = tl.load(y + i)
            look({text})
        """,
        look=look_into(seen),
    )
    arrays = [torch.zeros(4, dtype=getattr(torch, name)) for name in (x, y)]
    lowered(kernel, x=arrays[0], y=arrays[1], s=0.5, B=4)
    return seen[0]


def look_into(seen: list) -> object:
    def look(value):
        seen.append(str(getattr(value, "dtype", type(value).__name__)))

    look.__signature_row__ = tl.load.__signature_row__
    return look
