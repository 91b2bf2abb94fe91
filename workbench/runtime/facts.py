"""What is known about each argument, as plain data: the launch's half of a compile key.

`Known` mirrors the front end's `Argument` with type names instead of IR types, so that a launch
which finds its code on disk never loads the IR. `to_specialization` makes the real thing.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from workbench.source.captures import describe_value

if TYPE_CHECKING:
    from workbench.frontend.specialization import Argument, Specialization
    from workbench.ir import Element

#: Every spelling of an element type that a signature may use -> the compiler's.
TYPE_NAMES = {
    **{name: name for name in ("i1", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")},
    **{name: name for name in ("f16", "bf16", "f32", "f64", "f8e4m3", "f8e5m2")},
    **{f"int{bits}": f"i{bits}" for bits in (1, 8, 16, 32, 64)},
    **{f"uint{bits}": f"u{bits}" for bits in (8, 16, 32, 64)},
    **{f"fp{bits}": f"f{bits}" for bits in (16, 32, 64)},
    **{f"float{bits}": f"f{bits}" for bits in (16, 32, 64)},
    "bool": "i1", "u1": "i1", "bfloat16": "bf16", "half": "f16", "float": "f32", "double": "f64",
    "fp8e4nv": "f8e4m3", "float8e4nv": "f8e4m3", "float8_e4m3fn": "f8e4m3",
    "fp8e5": "f8e5m2", "float8e5": "f8e5m2", "float8_e5m2": "f8e5m2",
}  # fmt: skip

ITEM_BITS = {
    name: 8 if name.startswith("f8") else int(name.lstrip("biuf"))
    for name in set(TYPE_NAMES.values())
}


@dataclass(frozen=True, slots=True)
class Known:
    """One parameter: a type name ("*f32", "i32"; "*k…" marks read-only memory) or a constant.

    `type` is None for a constant (`value`) and for a tuple (`items`; `value` is then what makes one
    of them: a named tuple's class, a DescriptorKind, or None). `divisible` divides an integer, or
    a pointer's address in bytes.
    """

    type: str | None = None
    value: Any = None
    divisible: int = 1
    low: int | None = None
    high: int | None = None
    noalias: bool = False
    items: tuple[Known, ...] | None = None

    @property
    def is_constant(self) -> bool:
        """Whether the value itself is known."""
        return self.type is None and self.items is None

    @property
    def is_pointer(self) -> bool:
        """Whether it is an array's address."""
        return self.type is not None and self.type.startswith("*")

    def text(self) -> str:
        """Return a text that is equal for equal knowledge, also in another process."""
        if self.items is not None:
            kind = "" if self.value is None else describe_value(self.value)
            return f"{kind}({', '.join(item.text() for item in self.items)})"
        if self.type is None:
            return f"={describe_value(self.value)}"
        words = self.type
        if self.divisible != 1:
            words += f":{self.divisible}"
        if self.low is not None or self.high is not None:
            words += f"[{self.low}..{self.high}]"
        return words + (" noalias" if self.noalias else "")


@dataclass(frozen=True, slots=True)
class DescriptorKind:
    """What is known of a descriptor that the host made; its items are base, shape and strides."""

    block_shape: tuple[int, ...]
    padding: str = "zero"

    def __call__(self, base: Any, shape: Any, strides: Any) -> Any:
        """Return the kernel's descriptor: called by the front end, while it lowers."""
        from workbench.language import make_tensor_descriptor

        return make_tensor_descriptor(base, shape, strides, self.block_shape, self.padding)


def constant(value: Any) -> Known:
    """Return what is known of a parameter with a fixed value."""
    return Known(None, value)


@dataclass(frozen=True, slots=True)
class Signature:
    """Everything a kernel is specialised on, as plain data."""

    arguments: tuple[tuple[str, Known], ...]
    options: tuple[tuple[str, Any], ...] = ()

    def text(self) -> str:
        """Return the signature as text for the compile key."""
        words = [f"{name}: {known.text()}" for name, known in self.arguments]
        words += [f"{name} = {value!r}" for name, value in self.options]
        return "\n".join(words)

    def proxy(self) -> Specialized:
        """Return types and constants by name, in Triton's spelling."""
        constants = {name: known.value for name, known in self.arguments if known.is_constant}
        words = {name: triton_word(known) for name, known in self.arguments}
        return Specialized(constants, words)

    def attributes(self) -> dict[tuple[int, ...], list[list[Any]]]:
        """Return Triton's attributes of arguments by place: those that 16 divides."""
        return {
            (place,): [["tt.divisibility", 16]]
            for place, (_, known) in enumerate(self.arguments)
            if known.type is not None and known.divisible % 16 == 0
        }

    def runtime(self) -> list[tuple[str, str]]:
        """Return (path, type name) of every argument that the code receives, in order.

        Members of tuples follow each other in place of their tuple, named `name.0`, `name.1`, ….
        """
        found: list[tuple[str, str]] = []
        for name, known in self.arguments:
            _flatten(name, known, found)
        return found


@dataclass(frozen=True, slots=True)
class Specialized:
    """A specialisation as the function of `jit(repr=...)` receives it."""

    constants: dict[str, Any]
    signature: dict[str, Any]


#: Element types that Triton's signatures spell otherwise.
TRITON_NAMES = {
    "i1": "u1", "f16": "fp16", "f32": "fp32", "f64": "fp64", "f8e4m3": "fp8e4nv",
    "f8e5m2": "fp8e5",
}  # fmt: skip


def triton_name(word: str) -> str:
    """Return a type in the spelling of Triton's signatures.

    >>> triton_name("*f32"), triton_name("i64")
    ('*fp32', 'i64')
    """
    depth = len(word) - len(word.lstrip("*"))
    rest = word[depth:]
    const = "k" if depth and rest.startswith("k") else ""
    name = rest.removeprefix(const)
    return "*" * depth + const + TRITON_NAMES.get(name, name)


def triton_word(known: Known) -> Any:
    """Return the word of a Triton signature for an argument, a tuple of them for a tuple."""
    if isinstance(known.value, DescriptorKind):
        pointer = (known.items[0].type if known.items else None) or ""
        return f"tensordesc<{triton_name(pointer)[1:]}{list(known.value.block_shape)}>"
    if known.items is not None:
        return tuple(triton_word(item) for item in known.items)
    return "constexpr" if known.type is None else triton_name(known.type)


def _flatten(name: str, known: Known, found: list[tuple[str, str]]) -> None:
    if known.items is not None:
        for number, item in enumerate(known.items):
            _flatten(f"{name}.{number}", item, found)
    elif known.type is not None:
        found.append((name, known.type))


def to_specialization(signature: Signature) -> Specialization:
    """Return the front end's form of a signature."""
    from workbench.frontend.specialization import Options, Specialization

    arguments = tuple((name, to_argument(known)) for name, known in signature.arguments)
    names = {field.name for field in fields(Options)}
    options = {name: value for name, value in signature.options if name in names}
    return Specialization(arguments, Options(**options))


def to_argument(known: Known) -> Argument:
    """Return the front end's form of what is known about one argument."""
    from workbench.frontend.specialization import Argument

    if known.items is not None:
        value = known.value  # what puts the members together again
        return Argument(None, value, items=tuple(to_argument(item) for item in known.items))
    if known.type is None:
        return Argument(None, known.value)
    read_only = known.type.startswith("*k")
    return Argument(
        to_type(known.type),
        None,
        known.divisible,
        known.low,
        known.high,
        known.noalias,
        read_only,
    )


def to_type(name: str) -> Element:
    """Return the IR type of a type name."""
    from workbench.ir import SCALARS, Pointer

    if name.startswith("*"):
        constant_memory = name.startswith("*k")
        return Pointer(to_type(name.removeprefix("*").removeprefix("k")), constant_memory)
    return SCALARS[name]


def parse_type(word: str) -> str | None:
    """Return the compiler's spelling of a type word such as `*fp32`, None if there is no such."""
    depth = len(word) - len(word.lstrip("*"))
    rest = word[depth:]
    read_only = depth > 0 and rest.startswith("k")
    name = TYPE_NAMES.get(rest.removeprefix("k") if read_only else rest)
    if name is None:
        return None
    return "*" * depth + ("k" if read_only else "") + name
