"""`tl.core`: the language under the path it has in Triton, with private names libraries import."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from types import ModuleType
from typing import Any

from workbench.language.aggregates import Aggregate, aggregate
from workbench.language.casts import cast_tensor
from workbench.language.constexprs import constexpr
from workbench.language.constexprs import unwrap as _unwrap_if_constexpr
from workbench.language.dtypes import DTYPES, block_type, dtype
from workbench.language.extra.libdevice import LIBRARY
from workbench.language.shapes import broadcast_tensor, common_shape
from workbench.language.table import HIDDEN, Signature, mark
from workbench.language.values import static, tensor
from workbench.language.values import to_tensor as _to_tensor
from workbench.source import KernelTypeError, UnknownNameError

TRITON_BUILTIN = "__triton_builtin__"
CONSTEXPR_0 = constexpr(0)


mark(_unwrap_if_constexpr, __compile_time__=True)


def hidden_arguments(function: Callable[..., Any]) -> dict[str, ModuleType]:
    """Return what a function of a library expects in its hidden parameters.

    It is this module: what builtins ask of it are functions on tensors.
    """
    this = sys.modules[__name__]
    return dict.fromkeys(HIDDEN & inspect.signature(function).parameters.keys(), this)


def _aggregate(cls: type) -> type[Aggregate]:
    """Return a class of tuples for a class that declares fields by annotations."""
    return aggregate(cls, hidden_arguments)


def must_use_result(x: Any, s: Any = True) -> Any:
    """Mark a function whose result is not to be dropped; a text says why (`@must_use_result("…")`).

    A call in a kernel whose result nobody takes is an error then.
    """
    if isinstance(x, str):
        return partial(must_use_result, s=x)
    x._must_use_result = s
    return x


def get_int_dtype(bitwidth: int, signed: bool) -> dtype:
    """Return the integer dtype of a width."""
    width, kind = _unwrap_if_constexpr(bitwidth), _unwrap_if_constexpr(signed)
    name = "int1" if width == 1 else f"{'' if kind else 'u'}int{width}"
    if name not in DTYPES:
        raise ValueError(f"there is no integer of {width} bits; expected 1, 8, 16, 32 or 64")
    return DTYPES[name]


mark(get_int_dtype, __compile_time__=True)


def builtin(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a Python function that kernels call while they are compiled, on tensors."""
    given = inspect.signature(fn).parameters
    shown = [p for name, p in given.items() if name not in HIDDEN]
    hidden = hidden_arguments(fn)
    variadic = any(p.kind is p.VAR_POSITIONAL for p in shown)
    plain = [p for p in shown if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]

    @wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        known = {name: _known(value) for name, value in kwargs.items()}
        found = fn(*map(_known, args), **{**hidden, **known})
        return found if isinstance(found, Aggregate) else _unwrap_if_constexpr(found)

    required = sum(p.default is p.empty for p in plain)
    row = Signature(fn.__name__, tuple(p.name for p in plain), required, variadic)
    return mark(call, __signature_row__=row, **{TRITON_BUILTIN: True})


def _known(value: Any) -> Any:
    """Return a number or text as builtins get it: as a constexpr."""
    return constexpr(value) if isinstance(value, bool | int | float | str) else value


def extern(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a Python function that stands for functions of a device library."""
    return builtin(fn)


def is_builtin(fn: Any) -> bool:
    """Say whether a function was marked by `builtin`."""
    return getattr(fn, TRITON_BUILTIN, False) or hasattr(fn, "__signature_row__")


@builtin
def to_tensor(x: Any, _semantic: Any = None) -> tensor:
    """Return a number as a scalar tensor, a tensor as it is."""
    return _to_tensor(_unwrap_if_constexpr(x))


@builtin
def extern_elementwise(
    lib_name: Any,
    lib_path: Any,
    args: Any,
    arg_type_symbol_dict: Any,
    is_pure: Any,
    _semantic: Any = None,
) -> tensor:
    """Return a function of a device library, found by the dtypes of its operands.

    Only functions that `tl.extra.libdevice` has are known; no library is linked.
    """
    operands = [_to_tensor(_unwrap_if_constexpr(x)) for x in args]
    shape = common_shape(*operands, what="the operands of an extern function")
    types = tuple(x.dtype for x in operands)
    table: Mapping[tuple[dtype, ...], tuple[str, Any]] = static(arg_type_symbol_dict, "the table")
    if types not in table:
        known = "; ".join(", ".join(map(str, row)) for row in table)
        raise KernelTypeError(
            f"this function takes operands of types ({known}), got ({', '.join(map(str, types))})",
            hint="cast the operands to one of these rows with .to(...)",
        )
    symbol, result = table[types]
    function = _library_function(symbol)
    found = function(*(broadcast_tensor(x, shape) for x in operands))
    wanted = _unwrap_if_constexpr(result)
    if isinstance(wanted, dtype) and found.dtype != wanted:
        return cast_tensor(found, wanted)
    return found


def _library_function(symbol: str) -> Callable[..., Any]:
    """Return the function that a symbol such as `__nv_fast_expf` stands for."""
    name = symbol.removeprefix("__nv_")
    choices: Sequence[str] = (name, name.removesuffix("f"), name.removesuffix("d"), name + "d")
    for choice in (*choices, name.removeprefix("f"), name.removeprefix("f").removesuffix("f")):
        if choice in LIBRARY:
            return LIBRARY[choice]
    raise UnknownNameError(
        f"the library function '{symbol}' is not known",
        hint="libraries of other makers are not linked; see tl.extra.libdevice",
    )


def __getattr__(name: str) -> Any:
    """Return a name of the language: Triton keeps all of them in this module."""
    import workbench.language as tl

    if name in tl.__all__:
        return getattr(tl, name)
    raise AttributeError(f"tl.core has no {name!r}")


__all__ = [
    "CONSTEXPR_0", "TRITON_BUILTIN", "_aggregate", "_unwrap_if_constexpr", "block_type", "builtin",
    "constexpr", "dtype", "extern", "extern_elementwise", "get_int_dtype", "is_builtin",
    "must_use_result", "tensor",
    "to_tensor",
]  # fmt: skip
