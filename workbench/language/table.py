"""The names of the language: one row per name, its family (the file that has it) and its tier.

The rows are the contract: tests walk them and did-you-mean reads them. `builtin` marks the function
that implements a row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar, cast

from workbench.language.constexprs import unwrap
from workbench.source import UnknownNameError


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
    "extra": {2: "extra target_info core standard", 3: "semantic"},
}  # fmt: skip

NAMES: dict[str, Name] = {
    word.rstrip("*"): Name(word.rstrip("*"), family, tier, word.endswith("*"))
    for family, tiers in _ROWS.items()
    for tier, words in tiers.items()
    for word in words.split()
}

#: Names of `tl.extra.libdevice`, those of tier 3 last.
_LIBDEVICE_ROWS: dict[int, str] = {
    2: """
        abs acos acosh add_rn asin asinh atan atan2 atanh brev cbrt ceil clz copysign cos cosh
        cospi div_rn double2float_rn double2int_rd double2int_rn double2int_ru double2int_rz
        double2ll_rd double2ll_rn double2ll_ru double2ll_rz double2uint_rd double2uint_rn
        double2uint_ru double2uint_rz double2ull_rd double2ull_rn double2ull_ru double2ull_rz
        double_as_longlong erf erfc erfinv exp exp10 exp2 expm1 fast_cosf fast_dividef
        fast_exp10f fast_expf fast_log10f fast_log2f fast_logf fast_powf fast_sinf fast_tanf
        fast_tanhf fdim ffs finitef float2int_rd float2int_rn float2int_ru float2int_rz
        float2ll_rd float2ll_rn float2ll_ru float2ll_rz float2uint_rd float2uint_rn float2uint_ru
        float2uint_rz float2ull_rd float2ull_rn float2ull_ru float2ull_rz float_as_int
        float_as_uint floor fma fma_rn fmod hypot int2double_rn int2float_rn int_as_float isfinited
        isinf isnan ldexp lgamma ll2double_rn ll2float_rn llrint llround log log10 log1p log2
        longlong_as_double mul_rn mulhi nearbyint nextafter popc pow rcbrt rcp_rn rhypot rint round
        rsqrt rsqrt_rn saturatef scalbn signbit sin sinh sinpi sqrt sqrt_rn sub_rn tan tanh trunc
        uint2double_rn uint2float_rn uint_as_float ull2double_rn ull2float_rn
    """,
    3: """
        add_rd add_ru add_rz byte_perm cyl_bessel_i0 cyl_bessel_i1 div_rd div_ru div_rz
        double2float_rd double2float_ru double2float_rz double2hiint double2loint erfcinv erfcx
        fma_rd fma_ru fma_rz hadd hiloint2double ilogb int2float_rd int2float_ru int2float_rz j0 j1
        jn ll2double_rd ll2double_ru ll2double_rz ll2float_rd ll2float_ru ll2float_rz logb mul24
        mul_rd mul_ru mul_rz norm3d norm4d normcdf normcdfinv rcp64h rcp_rd rcp_ru rcp_rz remainder
        rhadd rnorm3d rnorm4d sad sqrt_rd sqrt_ru sqrt_rz sub_rd sub_ru sub_rz tgamma uint2float_rd
        uint2float_ru uint2float_rz ull2double_rd ull2double_ru ull2double_rz ull2float_rd
        ull2float_ru ull2float_rz y0 y1 yn
    """,
}
LIBDEVICE: dict[str, int] = {
    word: tier for tier, words in _LIBDEVICE_ROWS.items() for word in words.split()
}

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Signature:
    """What a call of a builtin may look like, checked before the call."""

    name: str
    parameters: tuple[str, ...]
    required: int
    variadic: bool
    #: Any keyword is accepted.
    keywords: bool = False

    def text(self) -> str:
        """Return the signature as an author would write it."""
        return f"{self.name}({', '.join(self.parameters)}{', ...' if self.variadic else ''})"


#: Implemented functions by name; methods of tensors are the same objects.
BUILTINS: dict[str, Callable[..., Any]] = {}


def mark(function: F, **marks: Any) -> F:
    """Set attributes by which the front end knows a function."""
    function.__dict__.update(marks)
    return function


def described(function: F, name: str = "") -> F:
    """Have the front end call a function, its calls checked by its parameters."""
    code = function.__code__
    positional = code.co_varnames[: code.co_argcount]
    keyword = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    row = Signature(
        name or function.__name__,
        positional + keyword,
        code.co_argcount - len(function.__defaults__ or ()),
        bool(code.co_flags & 0x04),
        bool(code.co_flags & 0x08),
    )
    return mark(function, __signature_row__=row)


def builtin(function: F) -> F:
    """Mark the implementation of a row of the table; a name outside the table is our mistake.

    Builtins that libraries define hand on the hidden arguments they were given, and constexprs.
    """
    name = function.__name__
    if name not in NAMES:
        raise LookupError(f"{name} is not in the table of names")

    @wraps(function)
    def called(*args: Any, **given: Any) -> Any:
        if given and not HIDDEN.isdisjoint(given):
            plain = {n: unwrap(value) for n, value in given.items() if n not in HIDDEN}
            return function(*(unwrap(value) for value in args), **plain)
        return function(*args, **given)

    described(function)
    called.__dict__.update(function.__dict__)
    BUILTINS[name] = called
    return cast("F", called)


#: Names of Triton that are here and raise when they are used -> what to do instead.
ONLY_RAISES: dict[str, str] = {}


def only_raises(name: str, instead: str) -> Callable[..., Any]:
    """Return what stands for a name of Triton that does nothing here but say what to do."""
    ONLY_RAISES[name] = instead

    def refuse(*args: Any, **given: Any) -> Any:
        raise UnknownNameError(f"{name} is not supported", hint=instead)

    refuse.__name__ = refuse.__qualname__ = name.rpartition(".")[2]
    refuse.__doc__ = f"Not supported: {instead}."
    return described(refuse, name)


#: Parameters by which Triton hands a function its compiler; authors do not write them.
HIDDEN = frozenset({"_semantic", "_builder", "_generator"})
