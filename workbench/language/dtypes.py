"""The data types an author names: `tl.float32`, pointers, and what can be asked of them.

A dtype stands for one `ir.Scalar`; `int32` alone has two faces in the IR, `i32` where it is
stored and `index` while it is counted with (see values.py).
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Any

from workbench.ir import (
    BF16,
    F8E4B8,
    F8E4B15,
    F8E4M3,
    F8E5B16,
    F8E5M2,
    F16,
    F32,
    F64,
    I1,
    I8,
    I16,
    I32,
    I64,
    INDEX,
    U8,
    U16,
    U32,
    U64,
    Element,
    Pointer,
    Scalar,
)

# Explicit mantissa bits and exponent bias, of the floats alone.
_FLOATS = {"fp8e4b15": (3, 15), "fp8e4nv": (3, 7), "fp8e4b8": (3, 8), "fp8e5": (2, 15),
           "fp8e5b16": (2, 16), "fp16": (10, 15), "bf16": (7, 127),
           "fp32": (23, 127), "fp64": (52, 1023)}  # fmt: skip
_SCALARS: dict[str, Scalar] = {
    "int1": I1, "int8": I8, "int16": I16, "int32": I32, "int64": I64, "uint8": U8, "uint16": U16,
    "uint32": U32, "uint64": U64, "fp8e4nv": F8E4M3, "fp8e5": F8E5M2, "fp8e4b8": F8E4B8,
    "fp8e5b16": F8E5B16, "fp8e4b15": F8E4B15, "fp16": F16, "bf16": BF16,
    "fp32": F32, "fp64": F64,
}  # fmt: skip


class dtype:
    """A number type, compared by name: `dtype("fp32") == tl.float32`."""

    SINT_TYPES = ("int8", "int16", "int32", "int64")
    UINT_TYPES = ("int1", "uint8", "uint16", "uint32", "uint64")
    FP_TYPES = tuple(_FLOATS)
    STANDARD_FP_TYPES = ("fp16", "bf16", "fp32", "fp64")
    OTHER_TYPES = ("void",)

    class SIGNEDNESS(enum.Enum):
        """Whether an integer type has a sign."""

        SIGNED = 0
        UNSIGNED = 1

    class KIND(enum.IntEnum):
        """The kinds of numbers, in the order of promotion."""

        BOOLEAN = 0
        INTEGRAL = 1
        FLOATING = 2

    def __init__(self, name: Any) -> None:
        name = getattr(name, "value", name)
        if name not in _SCALARS:
            raise ValueError(f"unknown dtype {name!r}; known: {', '.join(_SCALARS)}")
        self.name: str = name
        self.element: Element = _SCALARS[name]
        self.primitive_bitwidth: int = self.element.bits
        self.int_bitwidth: int = 0 if self.element.is_float else self.element.bits
        self.itemsize: int = self.element.itemsize
        self.fp_mantissa_width, self.exponent_bias = _FLOATS.get(name, (0, 0))

    @property
    def spelling(self) -> str:
        """Return the dtype as an author writes it, e.g. `tl.float32`."""
        words = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64"}
        return "tl." + words.get(self.name, self.name.replace("fp8", "float8"))

    # -- what the whole family answers ------------------------------------------------------
    @property
    def scalar(self) -> dtype:
        """Return the element type: the dtype itself, or that of a block."""
        return self

    def is_floating(self) -> bool:
        """Say whether this is a float type."""
        return self.element.is_float

    def is_standard_floating(self) -> bool:
        """Say whether this is a float of 16 bits or more."""
        return self.element.is_float and self.element.bits >= 16

    def is_fp8(self) -> bool:
        """Say whether this is an 8-bit float."""
        return self.element.is_float and self.element.bits == 8

    def is_fp8e4nv(self) -> bool:
        """Say whether this is the 8-bit float e4m3."""
        return self.name == "fp8e4nv"

    def is_fp8e5(self) -> bool:
        """Say whether this is the 8-bit float e5m2."""
        return self.name == "fp8e5"

    def is_fp8e4b8(self) -> bool:
        """Say whether this is the 8-bit float e4m3 of bias 8."""
        return self.name == "fp8e4b8"

    def is_fp8e5b16(self) -> bool:
        """Say whether this is the 8-bit float e5m2 of bias 16."""
        return self.name == "fp8e5b16"

    def is_fp8e4b15(self) -> bool:
        """Say whether this is the 8-bit float e4m3 of bias 15."""
        return self.name == "fp8e4b15"

    def is_fp16(self) -> bool:
        """Say whether this is fp16."""
        return self.name == "fp16"

    def is_bf16(self) -> bool:
        """Say whether this is bf16."""
        return self.name == "bf16"

    def is_fp32(self) -> bool:
        """Say whether this is fp32."""
        return self.name == "fp32"

    def is_fp64(self) -> bool:
        """Say whether this is fp64."""
        return self.name == "fp64"

    def is_int1(self) -> bool:
        """Say whether this is int1."""
        return self.name == "int1"

    def is_bool(self) -> bool:
        """Say whether this is int1."""
        return self.name == "int1"

    def is_int8(self) -> bool:
        """Say whether this is int8."""
        return self.name == "int8"

    def is_int16(self) -> bool:
        """Say whether this is int16."""
        return self.name == "int16"

    def is_int32(self) -> bool:
        """Say whether this is int32."""
        return self.name == "int32"

    def is_int64(self) -> bool:
        """Say whether this is int64."""
        return self.name == "int64"

    def is_uint8(self) -> bool:
        """Say whether this is uint8."""
        return self.name == "uint8"

    def is_uint16(self) -> bool:
        """Say whether this is uint16."""
        return self.name == "uint16"

    def is_uint32(self) -> bool:
        """Say whether this is uint32."""
        return self.name == "uint32"

    def is_uint64(self) -> bool:
        """Say whether this is uint64."""
        return self.name == "uint64"

    def is_int(self) -> bool:
        """Say whether this is an integer type, int1 included."""
        return not self.element.is_float

    def is_int_signed(self) -> bool:
        """Say whether this is a signed integer type."""
        return self.name in self.SINT_TYPES

    def is_int_unsigned(self) -> bool:
        """Say whether this is an unsigned integer type; int1 counts as one."""
        return self.name in self.UINT_TYPES

    def is_ptr(self) -> bool:
        """Say whether this is a pointer type."""
        return False

    def is_block(self) -> bool:
        """Say whether this is the type of a block."""
        return False

    def is_void(self) -> bool:
        """Say whether this is the type of no value."""
        return False

    def is_const(self) -> bool:
        """Say whether what is pointed at may only be read."""
        return False

    def is_tuple(self) -> bool:
        """Say whether this is the type of a tuple; none here is."""
        return False

    @staticmethod
    def is_dtype(type_str: str) -> bool:
        """Say whether a text names a dtype."""
        return type_str in _SCALARS

    def kind_rank(self) -> int:
        """Return 0, 1 or 2 for bool, integers, floats: the order weak numbers are held against."""
        return 2 if self.element.is_float else int(self.element.bits > 1)

    def kind(self) -> KIND:
        """Return the kind of numbers."""
        return dtype.KIND(min(self.kind_rank(), 2))

    @property
    def int_signedness(self) -> SIGNEDNESS:
        """Whether an integer type has a sign."""
        return self.SIGNEDNESS.SIGNED if self.is_int_signed() else self.SIGNEDNESS.UNSIGNED

    @property
    def cache_key_part(self) -> str:
        """Return a text that tells dtypes apart."""
        return self.name

    def codegen_name(self) -> str:
        """Return the dtype's name after `tl.`, as NumPy and torch spell it."""
        return self.spelling.removeprefix("tl.")

    def mangle(self) -> str:
        """Return a short text for names of specialised functions."""
        return self.name

    def with_element_ty(self, scalar_ty: dtype) -> dtype:
        """Return the type with another element type: a scalar's is the other itself."""
        return scalar_ty

    def get_int_max_value(self) -> int:
        """Return the largest value of an integer type."""
        return self.int_limits()[1]

    def get_int_min_value(self) -> int:
        """Return the smallest value of an integer type."""
        return self.int_limits()[0]

    def int_limits(self) -> tuple[int, int]:
        """Return the smallest and the largest value of an integer type."""
        bits = self.element.bits
        if self.is_int_signed():
            return -(1 << (bits - 1)), (1 << (bits - 1)) - 1
        return 0, (1 << bits) - 1

    def __eq__(self, other: object) -> bool:
        return self is other or (type(other) is dtype and other.name == self.name)

    # Not kept: a kernel's key is made of all that a constant holds, and hashes of words differ
    # between processes.
    def __hash__(self) -> int:
        return hash(("dtype", self.name))

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"triton.language.{self.codegen_name()}"


class pointer_type(dtype):
    """The type of an address of `element_ty`; `const` memory may not be written."""

    def __init__(self, element_ty: Any, address_space: int = 1, const: bool = False) -> None:
        element_ty = getattr(element_ty, "value", element_ty)
        if not isinstance(element_ty, dtype):
            raise TypeError(f"pointer_type needs a dtype, got {element_ty!r}")
        self.element_ty: dtype = element_ty
        self.address_space = address_space
        self.const = const
        self.element = Pointer(element_ty.element, const)
        self.name = f"pointer<{element_ty}>" if not const else f"const_pointer<{element_ty}>"
        self.primitive_bitwidth = 64
        self.int_bitwidth = 0
        self.itemsize = 8
        self.fp_mantissa_width = self.exponent_bias = 0

    def is_ptr(self) -> bool:
        """Say whether this is a pointer type."""
        return True

    def is_int(self) -> bool:
        """Say whether this is an integer type, int1 included."""
        return False

    def is_const(self) -> bool:
        """Say whether what is pointed at may only be read."""
        return self.const

    def kind_rank(self) -> int:
        """Return the rank of a pointer, above all numbers."""
        return 3

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, pointer_type)
            and other.element_ty == self.element_ty
            and other.address_space == self.address_space
            and other.const == self.const
        )

    def __hash__(self) -> int:
        return hash(("pointer", self.element_ty, self.const))

    def __repr__(self) -> str:
        return self.name


class block_type(dtype):
    """The type of a whole block, as `x.type` gives it: `.shape`, `.element_ty`, `.scalar`."""

    def __init__(self, element_ty: dtype, shape: tuple[int, ...]) -> None:
        self.__dict__.update(element_ty.__dict__)
        self.element_ty = element_ty
        self.shape = shape
        self.name = f"<{list(shape)}, {element_ty.name}>"

    @property
    def scalar(self) -> dtype:
        """Return the element type: the dtype itself, or that of a block."""
        return self.element_ty

    def is_block(self) -> bool:
        """Say whether this is the type of a block."""
        return True

    def is_ptr(self) -> bool:
        """Say whether this is a pointer type."""
        return self.element_ty.is_ptr()

    def get_block_shapes(self) -> tuple[int, ...]:
        """Return the shape."""
        return self.shape

    def with_element_ty(self, scalar_ty: dtype) -> dtype:
        """Return the type of a block of the same shape with other elements."""
        return block_type(scalar_ty, self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the whole block."""
        count = self.element_ty.itemsize
        for extent in self.shape:
            count *= extent
        return count

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, block_type)
            and other.element_ty == self.element_ty
            and other.shape == self.shape
        )

    def __hash__(self) -> int:
        return hash(("block", self.element_ty, self.shape))

    def __repr__(self) -> str:
        return self.name


class _Void(dtype):
    """The type of no value: what a kernel returns."""

    def __init__(self) -> None:
        self.name = "void"
        self.element = Scalar("void", "uint", 0)
        self.primitive_bitwidth = self.int_bitwidth = self.itemsize = 0
        self.fp_mantissa_width = self.exponent_bias = 0

    def is_void(self) -> bool:
        """Say whether this is the type of no value."""
        return True

    def is_int(self) -> bool:
        """Say whether this is an integer type, int1 included."""
        return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Void)

    def __hash__(self) -> int:
        return hash(("dtype", "void"))


class tuple_type:
    """The type of a tuple: those of its items, with the names of a namedtuple's fields."""

    __compile_time__ = True

    def __init__(self, types: Any, fields: Any = None) -> None:
        self.types = list(types)
        self.fields = list(fields) if fields else [""] * len(self.types)
        words = (f"{k}:{v}" for k, v in zip(self.fields, types, strict=True))
        self.name = f"[{','.join(words)}]"

    def mangle(self) -> str:
        """Return a short text for names of specialised functions."""
        return "T" + "_".join(item.mangle() for item in self.types) + "T"

    def __iter__(self) -> Iterator[Any]:
        return iter(self.types)

    def __getitem__(self, index: int) -> Any:
        return self.types[index]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, tuple_type)
            and self.types == other.types
            and self.fields == other.fields
        )

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name


class const:
    """Annotation `x: tl.const`: the kernel only reads through this pointer."""


int1, int8, int16, int32, int64 = (dtype(f"int{bits}") for bits in (1, 8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (dtype(f"uint{bits}") for bits in (8, 16, 32, 64))
float8e4nv, float8e5 = dtype("fp8e4nv"), dtype("fp8e5")
float8e4b8, float8e5b16, float8e4b15 = dtype("fp8e4b8"), dtype("fp8e5b16"), dtype("fp8e4b15")
float16, bfloat16, float32, float64 = dtype("fp16"), dtype("bf16"), dtype("fp32"), dtype("fp64")

void = _Void()
pi32_t = pointer_type(int32)

DTYPES: dict[str, dtype] = {
    d.name: d
    for d in (
        int1, int8, int16, int32, int64, uint8, uint16, uint32, uint64,
        float8e4nv, float8e5, float8e4b8, float8e5b16, float8e4b15, float16, bfloat16, float32,
        float64,
    )
}  # fmt: skip
_BY_ELEMENT: dict[Element, dtype] = {d.element: d for d in DTYPES.values()} | {INDEX: int32}


def str_to_ty(name: str, c: object = None) -> dtype:
    """Return the dtype that a word of a signature names, as "i32", "fp16" or "*kfp32".

    Raises KeyError for any other word; `c` is the value of a constexpr, which is no dtype here.

    >>> str_to_ty("*u8")
    pointer<uint8>
    """
    if name.startswith("*"):
        return pointer_type(str_to_ty(name[1:].removeprefix("k")), const=name.startswith("*k"))
    for short, long in (("i", "int"), ("u", "uint")):
        if name.startswith(short) and name[1:].isdecimal():
            return int1 if name == "u1" else DTYPES[long + name[1:]]
    return DTYPES[name]


def number_type(dtype: dtype) -> Scalar:
    """Return the IR type that a dtype of numbers stands for."""
    assert isinstance(dtype.element, Scalar), f"{dtype} is not a number"
    return dtype.element


def dtype_of(element: Element) -> dtype:
    """Return the dtype that an IR element type stands for."""
    if isinstance(element, Pointer):
        return pointer_type(dtype_of(element.pointee), const=element.constant)
    return _BY_ELEMENT[element]
