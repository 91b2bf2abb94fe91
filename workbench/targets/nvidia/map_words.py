"""What a launch needs to make a tensor map, as numbers: a `Parameter`'s data.

The operands of a map are the same throughout a launch, so they are written as instructions over its
arguments. A pass that raises a load asks `is_launch_value` first. Where the numbers of a launch
make no map, another twin of the kernel runs (launch/tensor_maps.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.ir import (
    BF16,
    F16,
    F32,
    F64,
    I32,
    INDEX,
    InvalidModuleError,
    Module,
    Pointer,
    Scalar,
    Value,
)
from workbench.ops import AddPointer, Cast, Constant, Elementwise, Promise
from workbench.targets.nvidia.tensors import tensor_maps
from workbench.targets.simt.ops import is_drawn, is_persistent

MAKER, WALKED_MAKER = "tensor_map", "walked_map"
BYTES, ALIGNMENT = 128, 64

#: Instructions: (which, a, b), where a and b are numbers of earlier ones. "constant" has its value;
#: "argument" the place of an input; "narrow" keeps the 32 bits of a, signed, "unsigned" without
#: their sign.
INSTRUCTIONS = (
    *("constant", "argument", "narrow", "unsigned"),
    *("add", "sub", "mul", "min", "max", "quotient"),
)
#: CUDA 13.0 cuda.h, CUtensorMapDataType: by name what has one, by its bytes what has none.
_TYPES = {F16: 6, F32: 7, F64: 8, BF16: 9}
_WORDS = {1: 0, 2: 1, 4: 2, 8: 4}
_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
_OPERATORS = {"add": "add", "sub": "sub", "mul": "mul", "min": "min", "max": "max",
              "div": "quotient"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class MapWords:
    """One tensor map; axes from the inner one outwards, as the hardware has them.

    type, swizzle: the driver's codes. itemsize: bytes of an element. box: extents of one copy.
    windows: how many axes have one.
    code: the instructions; results: those that give base (an address), extents, strides (elements),
    then first places, how many there are, and how far apart.
    """

    type: int
    swizzle: int
    itemsize: int
    box: tuple[int, ...]
    code: tuple[tuple[str, int, int], ...]
    results: tuple[int, ...]
    windows: int = 0

    def words(self) -> tuple[int, ...]:
        """Return it as numbers."""
        code = [n for name, a, b in self.code for n in (INSTRUCTIONS.index(name), a, b)]
        head = self.type, self.swizzle, self.itemsize, self.windows, len(self.box), *self.box
        return (*head, len(self.code), *code, *self.results)

    @classmethod
    def read(cls, words: Sequence[int]) -> MapWords:
        """Return what some numbers say."""
        type, swizzle, itemsize, windows, rank, *rest = words
        box, count, rest = tuple(rest[:rank]), rest[rank], rest[rank + 1 :]
        rows = [rest[3 * n : 3 * n + 3] for n in range(count)]
        code = tuple((INSTRUCTIONS[which], a, b) for which, a, b in rows)
        return cls(type, swizzle, itemsize, box, code, tuple(rest[3 * count :]), windows)


def made_parameters(module: Module) -> list[dict[str, object]]:
    """Return all parameters of a kernel's code as a launch makes them; none if it makes none.

    They are the fields of `launch.abi.Parameter`s: the arguments one by one, the grid where blocks
    take several of its programs (it comes behind the arguments) and what these are drawn from, then
    the maps.
    """
    maps, persistent = tensor_maps(module), is_persistent(module)
    if not (maps or persistent):
        return []
    places = {p.value: n for n, p in enumerate(module.parameters)}
    own = len(places) + (3 if persistent else 0) + (1 if is_drawn(module) else 0)
    found: list[dict[str, object]] = [{"inputs": (n,)} for n in range(own)]
    for op in maps:
        writer = _Writer(places)
        windows = (axis for part in range(3) for axis in reversed(op.windows[part::3]))
        order = [op.base, *reversed(op.extents), *reversed(op.strides), *windows]
        results = tuple(map(writer.value, order))
        element = op.type.element
        code = _TYPES.get(element, _WORDS[element.itemsize])
        box = tuple(reversed(op.copied))
        words = MapWords(
            code, _SWIZZLES[op.swizzle], element.itemsize, box, tuple(writer.code), results,
            len(op.windows) // 3,
        )  # fmt: skip
        maker = WALKED_MAKER if op.type.walked else MAKER
        found.append({
            "inputs": tuple(writer.inputs), "maker": maker, "size": BYTES, "alignment": ALIGNMENT,
            "data": words.words(),
        })  # fmt: skip
    return found


def is_launch_value(value: Value, module: Module) -> bool:
    """Say whether a launch can compute a value from its arguments before it starts."""
    places = {p.value: n for n, p in enumerate(module.parameters)}
    try:
        _Writer(places).value(value)
    except InvalidModuleError:
        return False
    return True


class _Writer:
    """Writes values as instructions; equal ones once."""

    def __init__(self, places: dict[Value, int]) -> None:
        self.places = places
        self.code: list[tuple[str, int, int]] = []
        self.inputs: list[int] = []
        self._known: dict[Value, int] = {}

    def value(self, value: Value) -> int:
        """Return the number of the instruction that gives a value.

        Raises InvalidModuleError for one that does not follow from arguments alone.
        """
        if value not in self._known:
            self._known[value] = self._written(value)
        return self._known[value]

    def _written(self, value: Value) -> int:
        if value in self.places:
            return self._argument(value)
        match value.op:
            case Constant(value=int(number)):
                return self._put("constant", number)
            case Promise(source=source):
                return self.value(source)
            case Cast(source=source, to=to) if to.is_integer:
                return self._cast(source, to)
            case AddPointer(pointer=pointer, offset=offset):
                base, by = self.value(pointer), self.value(offset)
                assert isinstance(pointer.type, Pointer)
                size = self._put("constant", pointer.type.pointee.itemsize)
                return self._put("add", base, self._put("mul", by, size))
            case Elementwise(function=name, inputs=inputs) if name in _OPERATORS:
                return self._operator(value, name, inputs)
            case _:
                raise InvalidModuleError(f"{value!r} does not follow from a launch's arguments")

    def _operator(self, value: Value, name: str, inputs: Sequence[Value]) -> int:
        assert value.op is not None
        if name == "div" and not _is_positive(inputs[1]):
            raise InvalidModuleError(f"{value!r} divides by what may not be positive")
        a, b = map(self.value, inputs)
        found = self._put(_OPERATORS[name], a, b)
        wraps = value.type == I32 and not value.op.attributes.get("no_wrap")
        return self._put("narrow", found) if wraps else found

    def _cast(self, source: Value, to: Scalar) -> int:
        held = source.type
        if not isinstance(held, Scalar) or not held.is_integer or to.bits < 32 or not to.is_signed:
            raise InvalidModuleError(f"{source!r} becomes a {to}")
        found = self.value(source)
        return self._put("narrow", found) if to.bits < held.bits else found

    def _argument(self, value: Value) -> int:
        place = self.places[value]
        if place not in self.inputs:
            self.inputs.append(place)
        found = self._put("argument", self.inputs.index(place))
        kind = value.type
        if isinstance(kind, Pointer) or kind == INDEX or not isinstance(kind, Scalar):
            return found
        if kind.bits == 64 and kind.is_integer:
            return found
        if kind.bits != 32 or not kind.is_integer:
            raise InvalidModuleError(f"{value!r} is no integer of 32 or 64 bits")
        return self._put("narrow" if kind.is_signed else "unsigned", found)

    def _put(self, name: str, a: int = 0, b: int = 0) -> int:
        instruction = name, a, b
        if instruction not in self.code:
            self.code.append(instruction)
        return self.code.index(instruction)


def _is_positive(value: Value) -> bool:
    return isinstance(value.op, Constant) and value.op.value > 0


__all__ = ["MAKER", "WALKED_MAKER", "MapWords", "is_launch_value", "made_parameters"]
