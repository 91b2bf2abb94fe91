"""What a kernel declares of its parameters, under Triton's names."""

from __future__ import annotations

import inspect
from functools import cached_property
from typing import Any

from workbench.launch.binding import annotated_type
from workbench.launch.facts import triton_name


class KernelParam:
    """One parameter of a kernel.

    Attributes:
        num: its place.
        do_not_specialize: the value 1 and divisibility are not looked at.
        do_not_specialize_on_alignment: divisibility is not looked at.
    """

    def __init__(
        self,
        num: int,
        param: inspect.Parameter,
        do_not_specialize: bool = False,
        do_not_specialize_on_alignment: bool = False,
    ) -> None:
        self.num = num
        self._param = param
        self.do_not_specialize = do_not_specialize
        self.do_not_specialize_on_alignment = do_not_specialize_on_alignment

    @property
    def name(self) -> str:
        """The parameter's name."""
        return self._param.name

    @cached_property
    def annotation(self) -> str:
        """The annotation as text, types in Triton's spelling; empty without one."""
        note = self._param.annotation
        if note is inspect.Parameter.empty or not note:
            return ""
        word = annotated_type(note)
        if word is not None:
            return triton_name(word)
        return note if isinstance(note, str) else str(getattr(note, "__name__", note))

    @cached_property
    def annotation_type(self) -> str:
        """The type that the annotation fixes; empty if it fixes none."""
        word = annotated_type(self._param.annotation)
        return "" if word is None else triton_name(word)

    @cached_property
    def is_constexpr(self) -> bool:
        """Whether the value is known at compile time."""
        return "constexpr" in self.annotation

    @cached_property
    def is_const(self) -> bool:
        """Whether it points to memory that the kernel does not write."""
        return not self.is_constexpr and (
            "const" in self.annotation or self.annotation.startswith("*k")
        )

    @property
    def default(self) -> Any:
        """The default value, `inspect.Parameter.empty` without one."""
        return self._param.default

    @property
    def has_default(self) -> bool:
        """Whether there is a default value."""
        return self._param.default is not inspect.Parameter.empty

    @property
    def required(self) -> bool:
        """Whether a call must give it."""
        return not self.has_default

    def __repr__(self) -> str:
        return f"<parameter {self.num} {self._param}>"
