"""What is known of an argument, as plain data: what launches find out and kernels are compiled for.

Types are words, so that a launch which finds its code on disk loads no IR.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from workbench.source.captures import describe_value


@dataclass(frozen=True, slots=True)
class Argument:
    """What is known of one argument: a type name or a constant.

    Names of types are such as "i32" and "*f32"; "*k…" marks read-only memory.
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
    items: tuple[Argument, ...] | None = None

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


def constant(value: Any) -> Argument:
    """Return what is known of a parameter with a fixed value."""
    return Argument(None, value)
