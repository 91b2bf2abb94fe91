"""What a launch is specialised on, as plain data: its half of a compile key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.source.arguments import Argument
from workbench.source.elements import triton_name
from workbench.source.overrides import Override

if TYPE_CHECKING:
    from workbench.frontend.specialization import Specialization


@dataclass(frozen=True, slots=True)
class DescriptorKind:
    """What is known of a descriptor that the host made; its items are base, shape and strides."""

    block_shape: tuple[int, ...]
    padding: str = "zero"

    def __call__(self, base: Any, shape: Any, strides: Any) -> Any:
        """Return the kernel's descriptor: called by the front end, while it lowers."""
        from workbench.language import make_tensor_descriptor

        return make_tensor_descriptor(base, shape, strides, self.block_shape, self.padding)


@dataclass(frozen=True, slots=True)
class Signature:
    """Everything a kernel is specialised on, as plain data.

    An edited stage is part of it: what was made of one is never taken for the kernel itself.
    """

    arguments: tuple[tuple[str, Argument], ...]
    options: tuple[tuple[str, Any], ...] = ()
    override: Override | None = None

    def text(self) -> str:
        """Return the signature as text for the compile key."""
        words = [f"{name}: {known.text()}" for name, known in self.arguments]
        words += [f"{name} = {value!r}" for name, value in self.options]
        words += [self.override.key] if self.override is not None else []
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


def triton_word(known: Argument) -> Any:
    """Return the word of a Triton signature for an argument, a tuple of them for a tuple."""
    if isinstance(known.value, DescriptorKind):
        pointer = (known.items[0].type if known.items else None) or ""
        return f"tensordesc<{triton_name(pointer)[1:]}{list(known.value.block_shape)}>"
    if known.items is not None:
        return tuple(triton_word(item) for item in known.items)
    return "constexpr" if known.type is None else triton_name(known.type)


def _flatten(name: str, known: Argument, found: list[tuple[str, str]]) -> None:
    if known.items is not None:
        for number, item in enumerate(known.items):
            _flatten(f"{name}.{number}", item, found)
    elif known.type is not None:
        found.append((name, known.type))


def to_specialization(signature: Signature) -> Specialization:
    """Return the front end's form of a signature."""
    from workbench.frontend.specialization import Options, Specialization

    options = Options.of(dict(signature.options))
    return Specialization(signature.arguments, options, signature.override)
