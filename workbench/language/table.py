"""The names of the language: one row per name, its family (the file that has it) and its tier.

The rows are the contract: tests walk them, did-you-mean reads them, and a name whose tier is not
there yet is told apart from a misspelt one. `builtin` marks the function that implements a row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar


@dataclass(frozen=True, slots=True)
class Name:
    """One name of `tl`: family file, tier 0 to 3, and whether tensors have it as a method."""

    name: str
    family: str
    tier: int
    method: bool = False


_ROWS: dict[str, dict[int, str]] = {
    # A star marks names that are tensor methods too.
    "program": {
        0: "program_id num_programs",
        1: "multiple_of max_contiguous debug_barrier",
        2: "max_constancy assume",
    },
    "dtypes": {
        0: "constexpr float16 float32 int32 int1",
        1: "bfloat16 float64 int8 int16 int64 uint8 uint32 float8e4nv float8e5",
        2: "uint16 uint64 dtype pointer_type tensor const tuple",
        3: "float8e4b8 float8e5b16 float8e4b15 void pi32_t block_type tuple_type constexpr_type "
           "slice TRITON_MAX_TENSOR_NUMEL",
    },
    "shapes": {
        0: "arange full zeros broadcast_to* expand_dims*",
        1: "zeros_like reshape* trans* permute*",
        2: "broadcast view* ravel* join split* interleave cat",
    },
    # A method alone.
    "indexing": {2: "item"},
    # Under tl.math alone.
    "math": {2: "tanh pow"},
    "casts": {0: "cast*"},
    "control": {
        1: "static_range range static_assert static_print",
        3: "condition map_elementwise",
    },
    "memory": {0: "load store*"},
    "block_pointers": {1: "make_block_ptr advance"},
    "descriptors": {
        1: "make_tensor_descriptor load_tensor_descriptor store_tensor_descriptor "
           "tensor_descriptor tensor_descriptor_type",
    },
    "atomics": {
        1: "atomic_add* atomic_cas* atomic_xchg* atomic_max* atomic_min*",
        2: "atomic_and* atomic_or* atomic_xor*",
    },
    "arithmetic": {
        0: "where* maximum minimum exp* sqrt* cdiv*",
        1: "exp2* log* log2* rsqrt* abs* sigmoid* sin* cos* erf* floor* ceil* fma math",
        2: "add sub mul clamp PropagateNan fdiv div_rn sqrt_rn* umulhi swizzle2d",
    },
    "reductions": {
        0: "sum* max*",
        1: "min* argmax* argmin* softmax*",
        2: "reduce* xor_sum* reduce_or*",
    },
    "scans": {1: "cumsum*", 2: "associative_scan* cumprod*"},
    "sorts": {2: "sort* topk bitonic_merge histogram* gather* flip*"},
    "dots": {0: "dot"},
    "scaled_dots": {2: "dot_scaled"},
    "random": {
        1: "rand",
        2: "randint randn rand4x randn4x randint4x philox philox_impl uint_to_uniform_float "
           "pair_uniform_to_normal",
    },
    "debug": {1: "device_print device_assert"},
    "inline_assembly": {2: "inline_asm_elementwise"},
    "extra": {2: "extra target_info core standard"},
}  # fmt: skip

NAMES: dict[str, Name] = {
    word.rstrip("*"): Name(word.rstrip("*"), family, tier, word.endswith("*"))
    for family, tiers in _ROWS.items()
    for tier, words in tiers.items()
    for word in words.split()
}

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Signature:
    """What a call of a builtin may look like, checked before the call."""

    name: str
    parameters: tuple[str, ...]
    required: int
    variadic: bool

    def text(self) -> str:
        """Return the signature as an author would write it."""
        return f"{self.name}({', '.join(self.parameters)}{', ...' if self.variadic else ''})"


#: Implemented functions by name; methods of tensors are the same objects.
BUILTINS: dict[str, Callable[..., Any]] = {}


def builtin(function: F) -> F:
    """Mark the implementation of a row of the table; a name outside the table is our mistake."""
    name = function.__name__
    if name not in NAMES:
        raise LookupError(f"{name} is not in the table of names")
    code = function.__code__
    positional = code.co_varnames[: code.co_argcount]
    keyword = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    function.__signature_row__ = Signature(  # type: ignore[attr-defined]
        name,
        positional + keyword,
        code.co_argcount - len(function.__defaults__ or ()),
        bool(code.co_flags & 0x04),
    )
    BUILTINS[name] = function
    return function
