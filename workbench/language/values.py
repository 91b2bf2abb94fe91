"""What names hold while a kernel is lowered: tensors, and Python objects known at compile time.

Three kinds of value meet in every operator:

- *weak*: a Python number, as a literal or a constexpr has it. It takes the tensor's dtype.
- *strong constant*: a scalar tensor whose number is known (`n = 4` makes one). It has a dtype
  like any tensor, yet may stand where a compile-time value is needed.
- *tensor*: a scalar (shape ()) or a block, known at run time only.

`int32` has two faces. Counting (`+ - *`, program ids, ranges, integer arguments) happens in the
IR type `index`, which is exact; memory, bit operations, reductions and conversions happen in `i32`.
`tensor.stored()` and `tensor.exact()` give the one or the other.
"""

from __future__ import annotations

from typing import Any

from workbench.ir import INDEX, Element, Scalar, Type, Value, element_of, shape_of, tile
from workbench.language.constexprs import is_tuple, like
from workbench.language.dtypes import (
    DTYPES,
    block_type,
    dtype,
    dtype_of,
    float32,
    float64,
    int1,
    int32,
    int64,
    number_type,
    uint32,
    uint64,
)
from workbench.language.state import current
from workbench.ops import Cast, Constant
from workbench.ops.numbers import to_integer
from workbench.source import (
    ConstexprError,
    KernelTypeError,
    Note,
    ShapeError,
    Span,
    limit_of,
    shown,
)

Number = int | float | bool
MAX_ELEMENTS = limit_of("elements")
Shape = tuple[int, ...]


class tensor:
    """A scalar or block: an IR value with its language dtype.

    `constant` is the number a strong constant holds; it has no op of its own: each use inserts
    one, of the element type that is needed there. `name` is the variable it was assigned to, at
    `place`.
    """

    __slots__ = ("_value", "constant", "dtype", "name", "place", "shape")

    def __init__(
        self,
        value: Value | None,
        dtype: dtype,
        shape: Shape = (),
        constant: Number | None = None,
        name: str = "",
    ) -> None:
        self._value = value
        self.dtype = dtype
        self.shape = shape
        self.constant = constant
        self.name = name
        self.place: Span | None = None

    @property
    def value(self) -> Value:
        """The IR value, of either face."""
        if self._value is None:
            return constant_value(self.constant, self.exact_element(), self.shape)
        return self._value

    @property
    def known_value(self) -> Value | None:
        """The IR value if there is one already; None for a strong constant."""
        return self._value

    def bind(self, value: Value) -> None:
        """Give a tensor that was made ahead of its op the value it stands for."""
        self._value = value
        if self.name and not value.hint:
            value.hint = self.name

    @property
    def is_exact(self) -> bool:
        """Whether the IR value is an `index`."""
        return self._value is not None and element_of(self._value.type) is INDEX

    def exact_element(self) -> Element:
        """Return the element type that a new constant of this dtype takes."""
        return INDEX if self.dtype == int32 and current().exact_index else self.dtype.element

    def stored(self) -> Value:
        """Return the value in the type it has in memory: an `index` is truncated to `i32`."""
        if self._value is None:
            return constant_value(self.constant, self.dtype.element, self.shape)
        if element_of(self._value.type) is INDEX:
            return emit(Cast(self._value, number_type(self.dtype)))
        return self._value

    def exact(self) -> Value:
        """Return an int32's value as `index`; any other dtype's as it is."""
        if self._value is None or self.dtype != int32 or not current().exact_index:
            return self.value
        if element_of(self._value.type) is INDEX:
            return self._value
        return emit(Cast(self._value, INDEX))

    # -- what kernels ask of a tensor -------------------------------------------------------
    @property
    def type(self) -> dtype:
        """Return the block type, or the dtype of a scalar."""
        return block_type(self.dtype, self.shape) if self.shape else self.dtype

    @property
    def numel(self) -> int:
        """Return the number of elements."""
        count = 1
        for extent in self.shape:
            count *= extent
        return count

    def __repr__(self) -> str:
        return describe(self)


def emit(op: Any) -> Value:
    """Insert an op with one result into the kernel being lowered."""
    return current().builder.add(op)


def made(op: Any, dtype: dtype | None = None) -> tensor:
    """Insert an op with one result and return its tensor."""
    value = current().builder.add(op)
    return wrap(value, dtype)


def wrap(value: Value, dtype: dtype | None = None) -> tensor:
    """Return the tensor of an IR value."""
    return tensor(value, dtype or dtype_of(element_of(value.type)), shape_of(value.type))


def constant_value(number: Number | None, element: Element, shape: Shape) -> Value:
    """Insert a constant of an element type."""
    return emit(Constant(fit_number(number or 0, element), tile(shape, element)))


def fit_number(number: Number, element: Element) -> Number:
    """Return a number as a constant of an element type, as a cast at run time would.

    Integers wrap; floats become integers by the rules of `tile.cast`. Raises ConstexprError for an
    integer that is too large for any float.
    """
    kind = element.kind
    if kind == "float":
        try:
            return float(number)
        except OverflowError:
            raise ConstexprError(
                f"{shown(number)} is too large for {element}",
                hint="write float('inf') if infinity is meant",
            ) from None
    if kind == "bool":
        return bool(number)
    if isinstance(number, float) and isinstance(element, Scalar):
        return to_integer(number, element).item()
    whole = int(number)
    if kind == "index" or kind == "pointer":
        return whole
    bits = element.bits
    whole &= (1 << bits) - 1
    return whole - (1 << bits) if kind == "int" and whole >> (bits - 1) else whole


def is_number(value: Any) -> bool:
    """Say whether a value is weak: a Python number."""
    return isinstance(value, bool | int | float)


def strong_dtype(number: Number) -> dtype:
    """Return the dtype that a Python number has once it is a tensor of its own."""
    if isinstance(number, bool):
        return int1
    if isinstance(number, int):
        for candidate in (int32, uint32, int64, uint64):
            low, high = candidate.int_limits()
            if low <= number <= high:
                return candidate
        raise KernelTypeError(
            f"the integer {shown(number)} does not fit 64 bits",
            hint="use a float, or split the number",
        )
    magnitude = abs(number)
    # The range of normal fp32; zero, infinities and NaN are fp32 too.
    inside = magnitude == 0 or magnitude != magnitude or magnitude == float("inf")
    if inside or 2.0**-126 <= magnitude <= (2 - 2**-23) * 2.0**127:
        return float32
    return float64


def to_tensor(value: Any) -> tensor:
    """Return a number as a strong constant, a tensor as it is."""
    if isinstance(value, tensor):
        return value
    if is_number(value):
        return tensor(None, strong_dtype(value), (), value)
    raise KernelTypeError(
        f"a {kind_of(value)} cannot be used as a number: {shown(value)}",
        hint="use its parts, e.g. a, b = ..." if is_tuple(value) else "pass a number or a tensor",
    )


def splat_constant(number: Number, dtype: dtype, shape: Shape) -> tensor:
    """Return a constant block, or a strong constant for the empty shape."""
    if not shape:
        return tensor(None, dtype, (), fit_number(number, dtype.element))
    return wrap(constant_value(number, dtype.element, shape), dtype)


def static(value: Any, what: str) -> Any:
    """Return the compile-time value of something; raises ConstexprError for a run-time tensor.

    A strong constant serves, which Triton refuses: it leaves a remark.
    """
    if isinstance(value, tensor):
        if value.constant is not None and not value.shape:
            current().superset(
                f"{what} is an ordinary variable, there it would have to be a tl.constexpr"
            )
            return value.constant
        name = f"'{value.name}'" if value.name else "a value"
        raise ConstexprError(
            f"{what} must be known at compile time, {name} is a run-time {describe_type(value)}",
            hint="make it a tl.constexpr parameter, or compute it from constexprs only",
        )
    if is_tuple(value):
        return like(value, [static(item, what) for item in value])
    return value


def as_dtype(value: Any) -> dtype:
    """Return a dtype; raises for anything else."""
    found = static(value, "the dtype")
    if not isinstance(found, dtype):
        raise KernelTypeError(
            f"a dtype is needed, got {kind_of(found)} {shown(found)}",
            hint=f"write {_own_name(found)}",
        )
    return found.scalar


def _own_name(found: Any) -> str:
    """Return what a dtype of another library, or its name, is called here."""
    name = found if isinstance(found, str) else getattr(found, "__name__", str(found))
    word = name.rpartition(".")[2]
    own = f"tl.{_OTHER_NAMES.get(word, word)}"
    known = any(dtype.spelling == own for dtype in DTYPES.values())
    return own if known else "one of tl's, e.g. tl.float32"


#: What other libraries, and Python, call some dtypes.
_OTHER_NAMES = {
    "float": "float32", "double": "float64", "half": "float16", "int": "int32", "long": "int64",
    "bool": "int1", "bool_": "int1", "float8_e4m3fn": "float8e4nv", "float8_e5m2": "float8e5",
}  # fmt: skip


def static_int(value: Any, what: str) -> int:
    """Return a compile-time integer."""
    number = static(value, what)
    if not isinstance(number, int):
        hint = "give it a number when the kernel is launched, e.g. 64"
        if isinstance(number, float) and number.is_integer():
            hint = f"pass {int(number)}; // divides integers, / gives floats"
        found = "None" if number is None else f"{kind_of(number)} {shown(number)}"
        raise ConstexprError(f"{what} must be an integer, got {found}", hint=hint)
    return int(number)


def static_shape(shape: Any, what: str = "the shape") -> Shape:
    """Return a shape given as one integer or a sequence of them, checked."""
    if is_number(shape) or isinstance(shape, tensor):
        shape = (shape,)
    if not is_tuple(shape):
        raise ConstexprError(
            f"{what} must be integers, got {kind_of(shape)} {shown(shape)}",
            hint="use // where / gives a float",
        )
    extents = tuple(static_int(extent, what) for extent in shape)
    check_shape(extents, what)
    return extents


def check_shape(shape: Shape, what: str = "the shape") -> None:
    """Raise ShapeError for extents no tile may have; remark on those Triton would refuse."""
    count = 1
    for extent in shape:
        if extent < 1:
            raise ShapeError(
                f"{what} {shape} has an extent below 1",
                hint="write every extent out; none is computed of the others",
            )
        count *= extent
        if extent & (extent - 1):
            current().superset(f"extent {extent} is not a power of two", once=True)
    if count > MAX_ELEMENTS:
        raise ShapeError(
            f"a block of shape {shape} has {count:,} elements, the limit is {MAX_ELEMENTS:,}",
            hint="use smaller blocks and a loop, or more programs",
        )


# -- words for messages -----------------------------------------------------------------------
def kind_of(value: Any) -> str:
    """Return one word for what a value is."""
    if isinstance(value, tensor):
        return "block" if value.shape else "scalar"
    if value is None:
        return "None"
    return type(value).__name__


def describe_type(value: Any) -> str:
    """Return dtype and shape in words, e.g. `fp32 of shape (64,)`."""
    if isinstance(value, tensor):
        return f"{value.dtype} of shape {value.shape}" if value.shape else str(value.dtype)
    if is_number(value):
        return f"{type(value).__name__} {shown(value)}"
    return kind_of(value)


def describe(value: Any) -> str:
    """Return a value in words for a message, with its variable's name if it has one."""
    if isinstance(value, tensor) and value.name:
        return f"'{value.name}' ({describe_type(value)})"
    return describe_type(value)


def origins(*operands: Any) -> list[Note]:
    """Return a note for each operand that has a name: its type, and where it was assigned."""
    return [
        Note(f"{x.name} is {describe_type(x)}", x.place)
        for x in operands
        if isinstance(x, tensor) and x.name and x.place is not None
    ]


def typed(value: Value, dtype: dtype) -> Type:
    """Return the stored type of a value of a dtype."""
    return tile(shape_of(value.type), dtype.element)
