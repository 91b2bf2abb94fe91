"""Arguments computed from the others at each launch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from workbench.launch.grids import Asked
from workbench.launch.options import is_option
from workbench.runtime import hooks
from workbench.runtime.jit import Plan
from workbench.source.given import by_name, function, told
from workbench.tuning.wrapping import Wrapper, as_kernel, asked

#: What heuristics are, and an example.
_HEURISTICS = "heuristics takes functions by name", 'e.g. {"EVEN": lambda args: ...}'


class Heuristics(Wrapper):
    """A kernel some of whose arguments are computed from the others, in the order given."""

    def __init__(
        self,
        fn: Any,
        arg_names: Sequence[str],
        values: Mapping[str, Callable[[dict[str, Any]], Any]],
    ) -> None:
        super().__init__(fn, arg_names)
        self.values = by_name(values, *_HEURISTICS)
        for name, compute in self.values.items():
            function(compute, *_HEURISTICS)
            if name not in self.arg_names and not is_option(name):
                raise self.no_parameter("heuristics", name)

    def with_values(self, args: Sequence[Any], given: dict[str, Any]) -> dict[str, Any]:
        """Return named arguments with the computed ones added."""
        named = dict(zip(self.arg_names, args, strict=False))
        for name, compute in self.values.items():
            what = f"the heuristic for '{name}'"
            hint = f"it takes the dict of all arguments: lambda args: ... (for '{name}')"
            given[name] = asked(what, hint, compute, Asked({**named, **given}, what))
        return given

    def run(self, *args: Any, **given: Any) -> Any:
        """Launch with the computed arguments added."""
        if hooks.watchers and hooks.is_suppressed():
            return None
        return self.fn.run(*args, **self.with_values(args, given))

    def plan(self, *args: Any, **given: Any) -> Plan:
        """Return what a launch would compile."""
        return self.fn.plan(*args, **self.with_values(args, given))

    def plan_elsewhere(self, *args: Any, **given: Any) -> Plan:
        """Return what a launch would compile for a chip that its arrays need not be on."""
        return self.fn.plan_elsewhere(*args, **self.with_values(args, given))


@told("heuristics")
def heuristics(
    values: Mapping[str, Callable[[dict[str, Any]], Any]],
) -> Callable[[Any], Heuristics]:
    """Compute arguments at each launch: {name: function of the dict of all arguments}."""
    by_name(values, *_HEURISTICS)

    def decorate(fn: Any) -> Heuristics:
        kernel = as_kernel(fn)
        return Heuristics(kernel, kernel.arg_names, values)

    return decorate
