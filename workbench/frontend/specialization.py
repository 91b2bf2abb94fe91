"""What a kernel is compiled for: types, constants and facts of its arguments, and options.

Built by the launcher from real arguments, or by `compile` from a signature text. Everything in
here is hashable plain data: it is (part of) the compile key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from workbench.ir import SCALARS, Element, Pointer
from workbench.source.arguments import Argument
from workbench.source.overrides import Override

__all__ = ["Argument", "Options", "Specialization", "type_of"]


@dataclass(frozen=True, slots=True)
class Options:
    """Compile options: those that the front end reads, and those that passes do.

    `workbench.source.compile_options` says what each means. Beside these `narrow_index` says that
    all index arithmetic on arguments, program ids and ranges is known to fit 32 bits in the
    launches this is compiled for, and `guarded` puts a check in front of every access.
    """

    num_warps: int | None = None
    num_stages: int | None = None
    num_ctas: int = 1
    maxnreg: int | None = None
    enable_fp_fusion: bool = True
    exact: bool = False
    wrap_index: bool = False
    wrap_loaded: bool = False
    debug: bool = False
    #: Those that passes read, by name.
    asked: tuple[tuple[str, bool | int], ...] = ()
    narrow_index: bool = False
    guarded: bool = False
    #: What the code is for, where the kernel asks (tl.target_info).
    target: str = ""

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Options:
        """Return the options of names and values that differ from their defaults, checked ones."""
        own = {field.name for field in fields(cls)}
        asked = tuple(sorted((name, value) for name, value in given.items() if name not in own))
        return cls(**{name: value for name, value in given.items() if name in own}, asked=asked)


@dataclass(frozen=True, slots=True)
class Specialization:
    """All of it: arguments by parameter name in order, options, and an edited stage."""

    arguments: tuple[tuple[str, Argument], ...]
    options: Options = Options()
    override: Override | None = None

    def argument(self, name: str) -> Argument:
        """Return what is known about one parameter; raises KeyError."""
        return dict(self.arguments)[name]


def type_of(word: str) -> Element:
    """Return the IR type of a type name: "i32", "*f32", "*kf32" (memory that is only read).

    >>> str(type_of("*f16"))
    'ptr<f16>'
    """
    if word.startswith("*"):
        constant_memory = word.startswith("*k")
        return Pointer(type_of(word.removeprefix("*").removeprefix("k")), constant_memory)
    return SCALARS[word]
