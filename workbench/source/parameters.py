"""What a kernel declares of its parameters."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from workbench.source.budgets import shown
from workbench.source.elements import annotated_type, triton_name
from workbench.source.given import several
from workbench.source.warning import warn_user


class Parameter:
    """One parameter of a kernel or of a function that kernels call, as declared.

    The names are those of Triton's `KernelParam`, which this is.

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

    @property
    def is_variadic(self) -> bool:
        """Whether it stands for as many arguments as a call gives: `*rest`, `**rest`."""
        return self._param.kind in (self._param.VAR_POSITIONAL, self._param.VAR_KEYWORD)

    @cached_property
    def annotation(self) -> str:
        """The annotation as text, types in Triton's spelling; empty without one."""
        note = self._param.annotation
        if note is inspect.Parameter.empty or not note:
            return ""
        if self._word is not None:
            return triton_name(self._word)
        return note if isinstance(note, str) else str(getattr(note, "__name__", note))

    @cached_property
    def annotation_type(self) -> str:
        """The type that the annotation fixes, in Triton's spelling; empty if it fixes none."""
        return "" if self._word is None else triton_name(self._word)

    @cached_property
    def is_constexpr(self) -> bool:
        """Whether the value is known at compile time: by name, also as a string."""
        return "constexpr" in self.annotation

    @cached_property
    def is_const(self) -> bool:
        """Whether it points to memory that the kernel does not write."""
        return not self.is_constexpr and (
            "const" in self.annotation or self.annotation.strip("'\"").startswith("*k")
        )

    @cached_property
    def is_pointer_to_nothing(self) -> bool:
        """Whether the annotation is a pointer's, of a dtype that there is not."""
        return self._word is None and self.annotation.strip("'\"").startswith("*")

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

    # -- what launches are specialised on -------------------------------------------------
    @cached_property
    def type(self) -> str | None:
        """The type that the annotation fixes, as `Argument` spells it; None if it fixes none."""
        return None if self.is_constexpr else self._word

    @cached_property
    def by_value(self) -> bool:
        """Whether it is looked at whether the value is 1."""
        plain = self.type is not None and self.type.startswith(("f", "bf", "i1"))
        return not (self.do_not_specialize or plain)

    @property
    def by_alignment(self) -> bool:
        """Whether it is looked at what divides the value, or the address."""
        return self.by_value and not self.do_not_specialize_on_alignment

    @cached_property
    def _word(self) -> str | None:
        return annotated_type(self._param.annotation)

    def __repr__(self) -> str:
        return f"<parameter {self.num} {self._param}>"


def undeclared(type: str | None = None, name: str = "_", *, fixed: bool = False) -> Parameter:
    """Return what stands for the parameter of a value that no text declares.

    `fixed`: the value is not looked at.
    """
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    note = inspect.Parameter.empty if type is None else type
    return Parameter(0, inspect.Parameter(name, kind, annotation=note), fixed)


def parameters_of(
    signature: inspect.Signature,
    fixed: Sequence[str | int] = (),
    unaligned: Sequence[str | int] = (),
) -> tuple[Parameter, ...]:
    """Return the parameters of a signature; the lists name those that are not specialised."""
    return tuple(
        Parameter(
            number,
            parameter,
            number in fixed or name in fixed,
            number in unaligned or name in unaligned,
        )
        for number, (name, parameter) in enumerate(signature.parameters.items())
    )


def named_parameters(
    kernel: str, signature: inspect.Signature, option: str, given: Any
) -> tuple[str | int, ...]:
    """Return the parameters that an option names; raises K105 for what is no list of names.

    Triton passes over names and places that the kernel does not have; here that is told.
    """
    what, hint = f"{option} is a list of names or places", f'e.g. {option}=["n"]'
    named = () if given is None else tuple(several(given, what, hint, (str, int)))
    names = list(signature.parameters)
    for one in named:
        if one in names or (isinstance(one, int) and 0 <= one < len(names)):
            continue
        warn_user(
            f"{option} names {shown(one)}, which is no parameter of {kernel} "
            f"({', '.join(names)}): nothing comes of it"
        )
    return named
