"""Configurations: values of constexprs and compile options that are tried together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from workbench.launch.options import SHORT_FORMS
from workbench.source import OptionError, shown
from workbench.source.given import by_name, function, instance, told
from workbench.source.warning import warn_user


class ConflictError(OptionError, ValueError):
    """A value that both the caller and a configuration give."""

    code = "K112"


def _constexpr_or_option(word: str) -> str:
    name = SHORT_FORMS.get(word, word)
    options = "num_warps", "num_stages", "num_ctas", "maxnreg"
    if name in options:
        return f"write Config({{...}}, {name}=...)"
    return f'constexprs stand in the dict: Config({{"{word}": ...}}, num_warps=4)'


class Config:
    """One configuration: values of constexprs, and compile options.

    Attributes:
        kwargs: constexprs by name.
        pre_hook: called with the dict of all arguments before each run with this configuration.
    """

    @told("Config", _constexpr_or_option)
    def __init__(
        self,
        kwargs: Mapping[str, Any],
        num_warps: int | None = 4,
        num_stages: int | None = 3,
        num_ctas: int = 1,
        maxnreg: int | None = None,
        pre_hook: Callable[[dict[str, Any]], object] | None = None,
        ir_override: str | None = None,
    ) -> None:
        self.kwargs = by_name(kwargs, "a Config takes constexprs by name", 'e.g. {"BLOCK": 128}')
        given = {"num_warps": num_warps, "num_stages": num_stages, "maxnreg": maxnreg}
        for name, value in given.items():
            instance(value, int | None, f"{name} of a Config is an integer", f"e.g. {name}=4")
        for name, value in (*given.items(), ("num_ctas", num_ctas)):
            if value is not None and self.kwargs.get(name, value) != value:
                warn_user(
                    f"{name}={shown(self.kwargs[name], 40)} among a Config's constexprs gives way "
                    f"to its option {name}={value}: write Config({{...}}, {name}=...)"
                )
        self.num_warps = num_warps
        self.num_stages = num_stages
        self.num_ctas = num_ctas
        self.maxnreg = maxnreg
        if pre_hook is not None:
            function(pre_hook, "pre_hook of a Config is a function", "pre_hook(all_arguments)")
        self.pre_hook = pre_hook
        self.ir_override = ir_override

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__init__({})
        self.__dict__.update(state)

    def all_kwargs(self) -> dict[str, Any]:
        """Return constexprs and set options in one dict."""
        options = {
            "num_warps": self.num_warps,
            "num_ctas": self.num_ctas,
            "num_stages": self.num_stages,
            "maxnreg": self.maxnreg,
            "ir_override": self.ir_override,
        }
        return {**self.kwargs, **{k: v for k, v in options.items() if v is not None}}

    def launch_kwargs(self) -> dict[str, Any]:
        """Return what a launch has to be told: options at their default are left out."""
        found = self.all_kwargs()
        if found.get("num_ctas") == 1:
            del found["num_ctas"]
        found.pop("ir_override", None)
        return found

    def tell_contradictions(self, parameters: Sequence[str]) -> None:
        """Warn of options under their short names (no kernel's parameters) that launches refuse."""
        own = self.launch_kwargs()
        for short, name in SHORT_FORMS.items():
            if short in own.keys() - {*parameters} and own.get(name, own[short]) != own[short]:
                warn_user(
                    f"{short}={shown(own[short], 40)} among a Config's constexprs contradicts its "
                    f"option {name}={own[name]}: write Config({{...}}, {name}=...)"
                )

    def short(self) -> str:
        """Return what it sets in few words.

        >>> Config({"BLOCK": 64}, num_warps=8, num_stages=None).short()
        'BLOCK=64 num_warps=8'
        """
        return " ".join(f"{name}={value}" for name, value in self.launch_kwargs().items())

    def __str__(self) -> str:
        words = [f"{name}: {value}" for name, value in self.kwargs.items()]
        words += [
            f"{name}: {getattr(self, name)}"
            for name in ("num_warps", "num_ctas", "num_stages", "maxnreg")
        ]
        if self.ir_override is not None:
            words.append(f"ir_override: {self.ir_override}")
        return ", ".join(words)

    def __repr__(self) -> str:
        return f"Config({self})"

    def _identity(self) -> tuple[Any, ...]:
        return (tuple(self.all_kwargs().items()), self.pre_hook)

    def __hash__(self) -> int:
        return hash(self._identity())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Config):
            return False
        return self.pre_hook == other.pre_hook and self.all_kwargs() == other.all_kwargs()
