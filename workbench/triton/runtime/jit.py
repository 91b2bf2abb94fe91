"""`triton.runtime.jit`: kernel objects."""

from typing import Any, TypeVar

from workbench.launch.binding import Call, classify
from workbench.launch.facts import triton_word
from workbench.launch.stand_ins import MockTensor, TensorWrapper, reinterpret
from workbench.runtime import knobs
from workbench.runtime.callables import (
    BoundConstexprFunction,
    ConstexprFunction,
    JITCallable,
    constexpr_function,
    get_jit_fn_file_line,
)
from workbench.runtime.interface import KernelInterface
from workbench.runtime.jit import JITFunction, JitFunctionInfo, jit
from workbench.source import kernel_source
from workbench.source.parameters import Parameter, undeclared
from workbench.triton._utils import type_canonicalisation_dict
from workbench.triton.runtime.driver import driver

__all__ = [
    "BoundConstexprFunction", "ConstexprFunction", "JITCallable", "JITFunction", "JitFunctionInfo",
    "KernelInterface", "KernelParam", "MockTensor", "T", "TensorWrapper", "constexpr_function",
    "driver", "get_full_name", "get_jit_fn_file_line", "jit", "knobs", "mangle_type", "reinterpret",
    "type_canonicalisation_dict",
]  # fmt: skip

T = TypeVar("T")
#: What a kernel declares of a parameter: `kernel.params`.
KernelParam = Parameter


def get_full_name(fn: Any) -> str:
    """Return a function's module and name."""
    return f"{fn.__module__}.{fn.__qualname__}"


def _one(x: Any) -> None: ...


def mangle_type(arg: Any, specialize: bool = False) -> Any:
    """Return the word of a signature that an argument has.

    >>> mangle_type(3), mangle_type(2**40), mangle_type(0.5), mangle_type(1, specialize=True)
    ('i32', 'i64', 'fp32', 'constexpr')
    """
    call = Call({"x": arg}, {}, {})
    classify(kernel_source(_one), [undeclared(name="x", fixed=not specialize)], call)
    return triton_word(call.known[0][1])
