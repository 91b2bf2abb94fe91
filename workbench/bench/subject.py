"""A kernel bound to arguments, ready to be launched: what checks and benchmarks work on."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from workbench.bench.arrays import is_array, on_gpu
from workbench.ir import Module


@dataclass(slots=True)
class Subject:
    """One launch that can be repeated.

    `arguments` are the run-time arguments and `constants` the constexprs, by parameter name;
    `roles` says of each array whether the kernel reads it ("in"), writes it ("out") or both
    ("inout"); `module` is the tile IR as the front end made it; `words` maps plain names that the
    user gave as arguments to parameter names; `settings` are the constexprs and options that the
    launch is given. `relaunch` launches over other run-time arguments, where that is possible.
    """

    name: str
    arguments: dict[str, Any]
    constants: dict[str, Any]
    grid: tuple[int, ...]
    launch: Callable[[], object]
    module: Module
    roles: Mapping[str, str]
    target: str
    words: Mapping[str, str] = field(default_factory=dict[str, str])
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    compiled: Any = None
    relaunch: Callable[[Mapping[str, Any]], object] | None = None

    @property
    def gpu(self) -> bool:
        """Whether the launch runs on a GPU."""
        return self.target.startswith("sm_") or any(map(on_gpu, self.arguments.values()))

    @property
    def outputs(self) -> tuple[str, ...]:
        """The array parameters that the kernel stores to, in parameter order."""
        return tuple(
            name
            for name, value in self.arguments.items()
            if is_array(value) and self.roles.get(name) in ("out", "inout")
        )

    @property
    def scalars(self) -> dict[str, Any]:
        """The scalar arguments by parameter name."""
        return {name: value for name, value in self.arguments.items() if not is_array(value)}

    def spelled(self, name: str) -> str:
        """Return what the user calls an argument: the name given for it, or the parameter's."""
        return next((word for word, parameter in self.words.items() if parameter == name), name)

    def names(self) -> dict[str, Any]:
        """What expressions of the user may call the arguments: by parameter, by `--args` word."""
        values = {**self.constants, **self.arguments}
        spelled = {word: self.arguments[name] for word, name in self.words.items()}
        return {**values, **spelled}


def call_by_name(function: Callable[..., Any], names: Mapping[str, Any]) -> Any:
    """Call a function with the arguments that its parameters name.

    A function of one parameter called `meta` (or of one that is no known name) gets all of them as
    one dict, as Triton's grids do.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return function(dict(names))
    required = [p for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
    if len(required) == 1 and required[0].name not in names:
        return function(dict(names))
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return function(**names)
    return function(**{p.name: names[p.name] for p in parameters if p.name in names})
