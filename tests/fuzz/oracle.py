"""The language on NumPy arrays, as far as random sources use it: an oracle that shares no code.

A kernel's source is ordinary Python. Executed with the names of this file in place of `tl`, it
computes what the kernel means, one program after the other: Python's own control flow is the
meaning of loops, `break`, branches and calls.

Integers are int64 here (the sources keep them small), floats are float32 and exact; words are
integers of a width, which wrap (`Word`). `//` and `%` round toward zero, as the language's do on
run-time values.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


class Num:
    """A tile or a scalar that the kernel computes."""

    def __init__(self, values: Any) -> None:
        held = np.asarray(values)
        wide = {"f": np.float32, "b": np.bool_}.get(held.dtype.kind, np.int64)
        self.values: Array = held.astype(wide)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape

    def __bool__(self) -> bool:
        return bool(self.values)

    def __index__(self) -> int:
        return int(self.values)

    def __getitem__(self, key: Any) -> Num:
        return Num(self.values[key])

    def __neg__(self) -> Num:
        return Num(-self.values)

    def __invert__(self) -> Num:
        return Num(~self.values)

    def to(self, kind: Any) -> Num:
        values = self.values
        if isinstance(kind, SmallFloat):
            return Num(kind.rounded(values))
        if kind is np.int32:
            whole = np.trunc(values) if values.dtype.kind == "f" else values
            return Num(whole.astype(np.int64).astype(np.int32))
        if kind in WORDS:
            return Word(values.astype(np.int64).astype(kind))
        return Num(values.astype(kind))

    def sum(self, axis: int) -> Num:
        return added(self, axis)

    def trans(self, *order: int) -> Num:
        return Num(self.values.transpose(order or None))

    def reshape(self, *shape: Any) -> Num:
        return Num(self.values.reshape(*shape))

    T = property(trans)


class Word(Num):
    """Integers of a width that wrap; with a number they stay what they are."""

    def __init__(self, values: Any) -> None:
        self.values = np.asarray(values)

    def __neg__(self) -> Num:
        return Word(-self.values)

    def __invert__(self) -> Num:
        return Word(~self.values)

    def to(self, kind: Any) -> Num:
        if kind in WORDS:
            return Word(self.values.astype(kind))
        return Num(self.values).to(kind)


#: Widths whose arithmetic wraps; an int32 is exact in kernels.
WORDS = (np.int8, np.int16, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)


class SmallFloat:
    """A narrow float: digits of its mantissa, the lowest exponent, the largest number."""

    def __init__(self, digits: int, lowest: int, largest: float, saturates: bool) -> None:
        self.digits, self.lowest, self.largest = digits, lowest, largest
        self.saturates = saturates

    def rounded(self, values: Array, toward_zero: bool = False) -> Array:
        """Return the nearest numbers of this type, ties to even, or those nearer to 0."""
        wide = values.astype(np.float64)
        _, exponents = np.frexp(wide)
        steps = np.exp2(np.maximum(exponents - 1, self.lowest) - self.digits)
        found = (np.trunc if toward_zero else np.rint)(wide / steps) * steps
        most = self.largest if self.saturates or toward_zero else np.inf
        outside = (np.abs(found) > self.largest) & (np.isfinite(values) | self.saturates)
        return np.where(outside, np.copysign(most, found), found).astype(np.float32)


def _quotient(a: Array, b: Array) -> Array:
    """Divide and truncate, from NumPy's floor: the magnitude of the lowest number does not fit."""
    floor = a // b
    return floor + (((a < 0) ^ (b < 0)) & (floor * b != a))


_OPERATORS: dict[str, Callable[[Array, Array], Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "floordiv": _quotient,
    "mod": lambda a, b: a - b * _quotient(a, b), "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "lshift": np.left_shift, "rshift": np.right_shift, "lt": np.less,
    "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal,
    "ne": np.not_equal,
}  # fmt: skip


def _together(a: Any, b: Any) -> tuple[Array, Array]:
    for one in (a, b):
        if isinstance(one, Word):
            kind = one.values.dtype
            pair = (np.asarray(getattr(v, "values", v)).astype(kind) for v in (a, b))
            return next(pair), next(pair)
    x, y = (v.values if isinstance(v, Num) else np.asarray(v) for v in (a, b))
    if "f" in (x.dtype.kind, y.dtype.kind):
        return x.astype(np.float32), y.astype(np.float32)
    if x.dtype.kind == y.dtype.kind == "b":
        return x, y
    return x.astype(np.int64), y.astype(np.int64)


def _alike(values: Any, *inputs: Any) -> Num:
    """Return words if words went in and integers came out."""
    held = np.asarray(values)
    words = held.dtype.kind in "iu" and any(isinstance(v, Word) for v in inputs)
    return Word(held) if words else Num(held)


def _install(name: str, function: Callable[[Array, Array], Any]) -> None:
    def forward(self: Num, other: Any) -> Any:
        if isinstance(other, Ptr):
            return NotImplemented
        return _alike(function(*_together(self, other)), self, other)

    def backward(self: Num, other: Any) -> Num:
        return _alike(function(*_together(other, self)), self, other)

    setattr(Num, f"__{name}__", forward)
    setattr(Num, f"__r{name}__", backward)


class Ptr:
    """Addresses: a flat array and places in it."""

    def __init__(self, held: Array, places: Any = 0) -> None:
        self.held, self.places = held, np.asarray(places, np.int64)

    def __add__(self, offset: Any) -> Ptr:
        return Ptr(self.held, self.places + np.asarray(getattr(offset, "values", offset)))

    __radd__ = __add__

    def to(self, kind: type) -> Ptr:
        return Ptr(self.held.view(kind), self.places)


for _name, _function in _OPERATORS.items():
    _install(_name, _function)


class Block:
    """A block pointer or a descriptor: a box of an array that moves."""

    def __init__(self, base: Ptr, shape: Any, strides: Any, offsets: Any, block: Any) -> None:
        self.base, self.block = base, tuple(block)
        self.shape, self.strides = [int(n) for n in shape], [int(n) for n in strides]
        self.offsets = [int(n) for n in offsets]

    def at(self, offsets: Any) -> Block:
        return Block(self.base, self.shape, self.strides, offsets, self.block)

    def pointers(self, checked: Any = ()) -> tuple[Ptr, Array]:
        """Return where the elements lie, and which are inside on the checked axes."""
        place, inside = self.base.places, np.ones(self.block, bool)
        for axis, extent in enumerate(self.block):
            line = self.offsets[axis] + np.arange(extent)
            line = line.reshape([-1 if a == axis else 1 for a in range(len(self.block))])
            place = place + line * self.strides[axis]
            if axis in np.atleast_1d(checked):
                inside = inside & (line >= 0) & (line < self.shape[axis])
        return Ptr(self.base.held, place), inside

    def load(self, offsets: Any) -> Num:
        return load(*self.at(offsets).pointers(range(len(self.block))))

    def store(self, offsets: Any, value: Any) -> None:
        where, inside = self.at(offsets).pointers(range(len(self.block)))
        store(where, value, inside)


def make_block_ptr(
    base: Ptr, shape: Any, strides: Any, offsets: Any, block_shape: Any, order: Any
) -> Block:
    return Block(base, shape, strides, offsets, block_shape)


def make_tensor_descriptor(base: Ptr, shape: Any, strides: Any, block_shape: Any) -> Block:
    return Block(base, shape, strides, [0] * len(shape), block_shape)


def advance(block: Block, by: Any) -> Block:
    return block.at([a + int(b) for a, b in zip(block.offsets, by, strict=True)])


def _mask(mask: Any, shape: tuple[int, ...]) -> Array:
    return np.broadcast_to(np.asarray(getattr(mask, "values", mask), bool), shape)


def load(
    where: Any, mask: Any = True, other: Any = 0, boundary_check: Any = (), padding_option: str = ""
) -> Num:
    if isinstance(where, Block):
        where, mask = where.pointers(boundary_check)
    on = _mask(mask, where.places.shape)
    rest = np.broadcast_to(getattr(other, "values", other), where.places.shape)
    found = np.where(on, where.held[np.where(on, where.places, 0)], rest.astype(where.held.dtype))
    return Word(found) if found.dtype in WORDS else Num(found)


def store(where: Any, value: Any, mask: Any = True, boundary_check: Any = ()) -> None:
    if isinstance(where, Block):
        where, mask = where.pointers(boundary_check)
    on = _mask(mask, where.places.shape)
    values = np.broadcast_to(getattr(value, "values", value), where.places.shape)
    where.held[where.places[on]] = values[on].astype(where.held.dtype)


def atomic_add(where: Ptr, value: Any, mask: Any = True, sem: str = "") -> Num:
    on = _mask(mask, where.places.shape)
    values = np.broadcast_to(getattr(value, "values", value), where.places.shape)
    old = np.where(on, where.held[np.where(on, where.places, 0)], 0)
    np.add.at(where.held, where.places[on], values[on].astype(where.held.dtype))
    return Num(old)


def atomic_xchg(where: Ptr, value: Any, sem: str = "") -> Num:
    old = where.held[where.places].copy()
    where.held[where.places] = getattr(value, "values", value)
    return Num(old)


def atomic_cas(where: Ptr, expected: Any, value: Any, sem: str = "") -> Num:
    old = where.held[where.places].copy()
    same = old == getattr(expected, "values", expected)
    where.held[where.places] = np.where(same, getattr(value, "values", value), old)
    return Num(old)


def cast(x: Num, kind: Any, fp_downcast_rounding: str = "rtne") -> Num:
    return Num(kind.rounded(x.values, fp_downcast_rounding == "rtz"))


def _of(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of Nums made of one of arrays; the rest of the arguments stays."""

    def call(*given: Any, **named: Any) -> Num:
        values = [getattr(v, "values", v) for v in given]
        return _alike(function(*values, **named), *given)

    return call


def where(test: Any, a: Any, b: Any) -> Num:
    x, y = _together(a, b)
    return _alike(np.where(getattr(test, "values", test), x, y), a, b)


def maximum(a: Any, b: Any) -> Num:
    return _alike(np.maximum(*_together(a, b)), a, b)


def minimum(a: Any, b: Any) -> Num:
    return _alike(np.minimum(*_together(a, b)), a, b)


def clamp(x: Any, low: Any, high: Any) -> Num:
    return minimum(maximum(x, low), high)


def _wide(values: Array) -> Array:
    return values.astype(np.float64) if values.dtype.kind == "f" else values.astype(np.int64)


def added(x: Num, axis: int | None = None) -> Num:
    kind = np.float32 if x.values.dtype.kind == "f" else np.int64
    return Num(_wide(x.values).sum(axis).astype(kind))


def cumsum(x: Num, axis: int = 0, reverse: bool = False) -> Num:
    values = np.flip(x.values, axis) if reverse else x.values
    done = _wide(values).cumsum(axis)
    kind = np.float32 if x.values.dtype.kind == "f" else np.int64
    return Num((np.flip(done, axis) if reverse else done).astype(kind))


def dot(a: Num, b: Num, acc: Any = None, input_precision: str = "") -> Num:
    done = a.values.astype(np.float64) @ b.values.astype(np.float64)
    return Num((done + (0 if acc is None else acc.values)).astype(np.float32))


def flip(x: Num, dim: int) -> Num:
    return Num(np.flip(x.values, dim))


def sort(x: Num, descending: bool = False) -> Num:
    ordered = np.sort(x.values, axis=-1)
    return Num(ordered[..., ::-1] if descending else ordered)


def gather(source: Num, index: Num, axis: int) -> Num:
    return Num(np.take_along_axis(source.values, index.values, axis))


def join(a: Num, b: Num) -> Num:
    return Num(np.stack(_together(a, b), axis=-1))


def split(x: Num) -> tuple[Num, Num]:
    return Num(x.values[..., 0]), Num(x.values[..., 1])


def interleave(a: Num, b: Num) -> Num:
    both = np.stack(_together(a, b), axis=-1)
    return Num(both.reshape(*both.shape[:-2], -1))


def map_elementwise(function: Callable[..., Any], *inputs: Any, pack: int = 1) -> Any:
    blocks = np.broadcast_arrays(*(x.values for x in inputs))
    shape = blocks[0].shape
    parts = [b.reshape(-1, pack)[:, k] for b in blocks for k in builtins.range(pack)]
    rows = [function(*(Num(x) for x in row)) for row in zip(*parts, strict=True)]
    single = not isinstance(rows[0], tuple)
    columns = [[r] for r in rows] if single else rows
    values = np.array([[part.values for part in row] for row in columns])
    count = values.shape[1] // pack
    found = [values[:, k * pack : (k + 1) * pack].reshape(shape) for k in builtins.range(count)]
    return Num(found[0]) if single and pack == 1 else tuple(Num(f) for f in found)


def cdiv(a: Any, b: Any) -> Any:
    return (a + (b - 1)) // b


def histogram(x: Num, bins: int) -> Num:
    return Num(np.bincount(x.values.ravel(), minlength=bins)[:bins])


def counted(*bounds: Any, **options: Any) -> Iterator[Num]:
    """Count as `range` does; what comes out is known at run time only."""
    return map(Num, builtins.range(*map(int, bounds)))


class Language:
    """Stands for `tl`."""

    constexpr = int
    int8, int16, int32, int64 = np.int8, np.int16, np.int32, np.int64
    uint8, uint16, uint32, uint64 = np.uint8, np.uint16, np.uint32, np.uint64
    float32, float16 = np.float32, SmallFloat(10, -14, 65504.0, saturates=False)
    bfloat16 = SmallFloat(7, -126, 3.3895313892515355e38, saturates=False)
    float8e4nv = SmallFloat(3, -6, 448.0, saturates=True)
    float8e5 = SmallFloat(2, -14, 57344.0, saturates=True)
    int1 = np.bool_
    range = staticmethod(counted)
    static_range = staticmethod(builtins.range)
    abs, floor = staticmethod(_of(np.abs)), staticmethod(_of(np.floor))
    max, min = staticmethod(_of(np.max)), staticmethod(_of(np.min))
    argmax, argmin = staticmethod(_of(np.argmax)), staticmethod(_of(np.argmin))
    xor_sum = staticmethod(_of(np.bitwise_xor.reduce))
    trans = permute = staticmethod(_of(np.transpose))
    ravel, reshape = staticmethod(_of(np.ravel)), staticmethod(_of(np.reshape))
    expand_dims = staticmethod(_of(np.expand_dims))
    broadcast_to = staticmethod(_of(np.broadcast_to))

    def __init__(self, program: int, programs: int) -> None:
        self.program_id = lambda axis: Num(program)
        self.num_programs = lambda axis: Num(programs)
        for function in (
            load, store, atomic_add, atomic_xchg, atomic_cas, cast, make_block_ptr,
            make_tensor_descriptor, advance, where, maximum, minimum, clamp, cumsum, dot, flip,
            sort, gather, join, split, interleave, cdiv, histogram, map_elementwise,
        ):  # fmt: skip
            setattr(self, function.__name__, function)
        self.sum = added
        # What authors say of a value changes nothing.
        self.multiple_of = self.max_contiguous = self.max_constancy = lambda x, _: x
        self.assume = lambda condition: None
        self.pointer_type = lambda element: element

    @staticmethod
    def arange(start: int, end: int) -> Num:
        return Num(np.arange(start, end))

    @staticmethod
    def full(shape: Any, value: Any, dtype: type) -> Num:
        return Num(np.full(shape, getattr(value, "values", value))).to(dtype)

    @staticmethod
    def zeros(shape: Any, dtype: type) -> Num:
        return Num(np.zeros(shape, dtype))


def run(text: str, name: str, programs: int, arguments: list[Any]) -> None:
    """Run every program of a kernel given as text; arrays hold the results afterwards."""
    given = [Ptr(a) if isinstance(a, np.ndarray) else Num(a) for a in arguments]
    code = compile(text, "<source>", "exec")
    for program in builtins.range(programs):
        names: dict[str, Any] = {"tl": Language(program, programs), "range": counted}
        exec(code, names)
        names[name](*given)


__all__ = ["Language", "Num", "Ptr", "run"]
