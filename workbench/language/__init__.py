"""The kernel language: what an author writes as `tl.*`, with Triton's names and meanings.

Functions here build ops into the kernel being lowered (state.py); what the ops mean belongs to
ops/, how Python syntax becomes calls of these functions belongs to frontend/. Names that only some
versions of Triton have are here where the version that is claimed has them (versions.py).
"""

from builtins import slice, tuple

from workbench.language import core, extra, later, math, semantic, standard, target_info
from workbench.language.arithmetic import (
    PropagateNan,
    add,
    cdiv,
    clamp,
    maximum,
    minimum,
    mul,
    sub,
    swizzle2d,
    where,
)
from workbench.language.atomics import (
    atomic_add,
    atomic_and,
    atomic_cas,
    atomic_max,
    atomic_min,
    atomic_or,
    atomic_xchg,
    atomic_xor,
)
from workbench.language.block_pointers import advance as _advance
from workbench.language.block_pointers import make_block_ptr
from workbench.language.casts import cast
from workbench.language.constexprs import constexpr, constexpr_type
from workbench.language.control import (
    condition,
    map_elementwise,
    range,
    static_assert,
    static_print,
    static_range,
)
from workbench.language.debug import device_assert, device_print
from workbench.language.descriptors import (
    load_tensor_descriptor,
    make_tensor_descriptor,
    store_tensor_descriptor,
    tensor_descriptor,
    tensor_descriptor_type,
)
from workbench.language.dots import dot
from workbench.language.dtypes import (
    bfloat16,
    block_type,
    const,
    dtype,
    float8e4b8,
    float8e4b15,
    float8e4nv,
    float8e5,
    float8e5b16,
    float16,
    float32,
    float64,
    int1,
    int8,
    int16,
    int32,
    int64,
    pi32_t,
    pointer_type,
    tuple_type,
    uint8,
    uint16,
    uint32,
    uint64,
    void,
)
from workbench.language.dtypes import (
    str_to_ty as str_to_ty,
)
from workbench.language.functions import (
    abs,
    ceil,
    cos,
    div_rn,
    erf,
    exp,
    exp2,
    fdiv,
    floor,
    fma,
    log,
    log2,
    rsqrt,
    sigmoid,
    sin,
    sqrt,
    sqrt_rn,
    umulhi,
)
from workbench.language.inline_assembly import inline_asm_elementwise
from workbench.language.memory import load, store
from workbench.language.methods import add_methods
from workbench.language.program import (
    assume,
    debug_barrier,
    max_constancy,
    max_contiguous,
    multiple_of,
    num_programs,
    program_id,
)
from workbench.language.random import (
    pair_uniform_to_normal,
    philox,
    philox_impl,
    rand,
    rand4x,
    randint,
    randint4x,
    randn,
    randn4x,
    uint_to_uniform_float,
)
from workbench.language.reductions import (
    argmax,
    argmin,
    max,
    min,
    reduce,
    reduce_or,
    softmax,
    sum,
    xor_sum,
)
from workbench.language.scaled_dots import dot_scaled
from workbench.language.scans import associative_scan, cumprod, cumsum
from workbench.language.shapes import (
    arange,
    broadcast,
    broadcast_to,
    cat,
    expand_dims,
    full,
    interleave,
    join,
    permute,
    ravel,
    reshape,
    split,
    trans,
    view,
    zeros,
    zeros_like,
)
from workbench.language.sorts import bitonic_merge, flip, gather, histogram, sort, topk
from workbench.language.values import MAX_ELEMENTS, tensor
from workbench.language.versions import versioned

__all__ = [  # pyright: ignore[reportUnsupportedDunderAll]
    "TRITON_MAX_TENSOR_NUMEL",
    "PropagateNan",
    "abs",
    "add",
    "advance",  # pyright: ignore[reportUnsupportedDunderAll]: __getattr__ has it
    "arange",
    "argmax",
    "argmin",
    "associative_scan",
    "assume",
    "atomic_add",
    "atomic_and",
    "atomic_cas",
    "atomic_max",
    "atomic_min",
    "atomic_or",
    "atomic_xchg",
    "atomic_xor",
    "bfloat16",
    "bitonic_merge",
    "block_type",
    "broadcast",
    "broadcast_to",
    "cast",
    "cat",
    "cdiv",
    "ceil",
    "clamp",
    "condition",
    "const",
    "constexpr",
    "constexpr_type",
    "core",
    "cos",
    "cumprod",
    "cumsum",
    "debug_barrier",
    "device_assert",
    "device_print",
    "div_rn",
    "dot",
    "dot_scaled",
    "dtype",
    "erf",
    "exp",
    "exp2",
    "expand_dims",
    "extra",
    "fdiv",
    "flip",
    "float8e4b8",
    "float8e4b15",
    "float8e4nv",
    "float8e5",
    "float8e5b16",
    "float16",
    "float32",
    "float64",
    "floor",
    "fma",
    "full",
    "gather",
    "histogram",
    "inline_asm_elementwise",
    "int1",
    "int8",
    "int16",
    "int32",
    "int64",
    "interleave",
    "join",
    "load",
    "load_tensor_descriptor",
    "log",
    "log2",
    "make_block_ptr",
    "make_tensor_descriptor",
    "map_elementwise",
    "math",
    "max",
    "max_constancy",
    "max_contiguous",
    "maximum",
    "min",
    "minimum",
    "mul",
    "multiple_of",
    "num_programs",
    "pair_uniform_to_normal",
    "permute",
    "philox",
    "philox_impl",
    "pi32_t",
    "pointer_type",
    "program_id",
    "rand",
    "rand4x",
    "randint",
    "randint4x",
    "randn",
    "randn4x",
    "range",
    "ravel",
    "reduce",
    "reduce_or",
    "reshape",
    "rsqrt",
    "semantic",
    "sigmoid",
    "sin",
    "slice",
    "softmax",
    "sort",
    "split",
    "sqrt",
    "sqrt_rn",
    "standard",
    "static_assert",
    "static_print",
    "static_range",
    "store",
    "store_tensor_descriptor",
    "sub",
    "sum",
    "swizzle2d",
    "target_info",
    "tensor",
    "tensor_descriptor",
    "tensor_descriptor_type",
    "topk",
    "trans",
    "tuple",
    "tuple_type",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "uint_to_uniform_float",
    "umulhi",
    "view",
    "void",
    "where",
    "xor_sum",
    "zeros",
    "zeros_like",
]  # fmt: skip


#: The most elements that a block may have.
TRITON_MAX_TENSOR_NUMEL = MAX_ELEMENTS

_of_versions = versioned("tl", {
    "advance": (None, "3.9.0", lambda: _advance),
    **{name: ("3.7.0", None, lambda name=name: getattr(later, name))
       for name in ("squeeze", "to_tensor", "unsqueeze")},
    **{name: ("3.8.0", None, lambda name=name: getattr(later, name))
       for name in ("aggregate_replace", "expect_zero")},
    **{name: ("3.9.0", None, lambda name=name: getattr(later, name))
       for name in ("atomic_load", "atomic_poll", "atomic_store")},
})  # fmt: skip


def __getattr__(name: str) -> object:
    """Return a name that only some versions of Triton have."""
    return _of_versions(name)


add_methods()
