"""What a cell's own code launched: the last launch is what options without `--args` are about.

`%%kernel --check "x + y"` over a body that launches its kernel checks that launch, `--bench` times it,
`--tune` and `--set` change it: it is launched again, over what the arrays held before it. Afterwards they
hold again what the cell left in them. Where the cell goes on launching with other arrays (it times itself),
the last launch with those that `--check` names is meant.
"""  # noqa: E501, an option line

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from workbench.bench.arrays import bytes_of, is_array, is_tensor, shape_of
from workbench.bench.plan import Names, Plan
from workbench.magics.kept import Kept
from workbench.magics.options import Request
from workbench.magics.values import Expression
from workbench.runtime.jit import LaunchRecord, observing
from workbench.source import KernelSource, OptionError, parsed_expression

MOST_LAUNCHES = 64  # of a cell's own code that are recorded


@dataclass(slots=True)
class OwnLaunches:
    """The launches of a cell's own code, the latest last.

    Attributes:
        wanted: the arrays of the notebook that the options speak of, in the moment of the call.
        records: at most `MOST_LAUNCHES`.
        meant: by a kernel's Python function, the launch that options are about: of those that got
            most of the wanted arrays, the last one that did not fail.
        before: by a kernel's Python function, what the memory that this launch writes held before.
    """

    wanted: Callable[[], Sequence[Any]] = tuple
    records: list[LaunchRecord] = field(default_factory=list[LaunchRecord])
    meant: dict[Any, LaunchRecord] = field(default_factory=dict[Any, LaunchRecord])
    before: dict[Any, Kept] = field(default_factory=dict[Any, Kept])
    _spare: dict[Any, Kept] = field(default_factory=dict[Any, Kept])
    _next: tuple[LaunchRecord, Kept] | None = None

    def of(self, source: KernelSource) -> list[LaunchRecord]:
        """Return the launches of one kernel."""
        return [one for one in self.records if one.kernel.source.function is source.function]

    def keep(self, launch: LaunchRecord) -> None:
        """Copy what a launch that is about to run will overwrite, if options may be about it."""
        function = launch.kernel.source.function
        earlier = self.meant.get(function)
        self._next = None
        if earlier is None or self._fitting(launch) >= self._fitting(earlier):
            self._next = launch, Kept.of(launch, self._spare.pop(function, None))

    def ran(self, launch: LaunchRecord) -> None:
        """Note a launch that has been made."""
        self.records.append(launch)
        if self._next is not None and self._next[0] is launch:
            function = launch.kernel.source.function
            if function in self.before:
                self._spare[function] = self.before[function]
            self.meant[function], self.before[function] = self._next

    def _fitting(self, launch: LaunchRecord) -> int:
        given = {id(value) for value in launch.values.values()}
        return sum(id(array) in given for array in self.wanted())

    def why_not_again(self, source: KernelSource) -> str:
        """Return why the launch meant cannot be made again as it was; empty if it can."""
        return self.before[source.function].lost

    @contextmanager
    def as_before(self, source: KernelSource) -> Iterator[None]:
        """Have the memory of the launch meant hold what it held before it, for a while."""
        kept = self.before[source.function]
        after = kept.now()
        try:
            kept.put_back()
            yield
        finally:
            after.put_back()


@contextmanager
def watched_launches(request: Request, namespace: Mapping[str, Any]) -> Iterator[OwnLaunches]:
    """Collect the launches that a cell's own code makes; of those that options are about, more.

    Watched launches are slower, so after some of them nobody watches any more: a cell that times
    its kernel itself then times what it would without us.
    """
    seen = OwnLaunches(lambda: _wanted(request, namespace))
    with ExitStack() as stack:

        def note(launch: LaunchRecord) -> None:
            seen.ran(launch)
            if len(seen.records) >= MOST_LAUNCHES:
                stack.close()

        stack.enter_context(observing(note, seen.keep if is_about_launch(request) else None))
        yield seen


def _wanted(request: Request, namespace: Mapping[str, Any]) -> list[Any]:
    """Return the arrays that `--check` names as the notebook does, in this moment of the cell."""
    check = request.check
    if not isinstance(check, Expression) or check.is_object:
        return []
    try:
        tree = parsed_expression(check.text.strip())
    except SyntaxError:  # whoever evaluates it says so
        return []
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return [namespace[name] for name in names if is_array(namespace.get(name))]


def names_arguments(request: Request) -> bool:
    """Say whether the options themselves tell what a kernel is to be compiled for."""
    return request.args is not None or request.make is not None or request.sig is not None


def is_about_launch(request: Request) -> bool:
    """Say whether options ask for more of the cell's own launch than that it was made."""
    return not names_arguments(request) and bool(
        request.check is not None or request.bench or request.tune or request.tune_for is not None
        or request.settings or request.grid is not None or request.isolate or request.axes
        or request.baselines or request.target != "auto"
    )  # fmt: skip


def plan_of(launch: LaunchRecord, namespace: Mapping[str, Any]) -> Plan:
    """Return the plan that makes a launch again; names of the notebook mean its arguments."""
    source = launch.kernel.source
    runtime = [p.name for p in source.parameters if not p.is_constexpr]
    arguments = {name: launch.values[name] for name in runtime if name in launch.values}
    constants = {n: v for n, v in launch.values.items() if n not in arguments}
    named = {id(value): name for name, value in arguments.items() if is_array(value)}
    parameters = {p.name for p in source.parameters}
    words = {
        word: named[id(value)]
        for word, value in namespace.items()
        if id(value) in named and word not in parameters and not word.startswith("_")
    }
    return Plan(
        arguments=arguments, words=words, grid=_given(launch.asked_grid),
        settings={**constants, **launch.options}, namespace=namespace,
    )  # fmt: skip


def _given(grid: Any) -> Callable[[Names], Any]:
    return lambda names: grid


def _with_views(
    reference: Callable[[Names], Any] | None, plan: Plan, namespace: Mapping[str, Any]
) -> Callable[[Names], Any] | None:
    """Have a reference see by the notebook's names, too, what arguments held before the launch.

    An array of the notebook in another shape (`x` of a launch with `x.ravel()`) is the argument.
    """
    arguments = {_place(v): name for name, v in (plan.arguments or {}).items() if is_array(v)}
    views = {
        word: (arguments[_place(value)], shape_of(value))
        for word, value in namespace.items()
        if is_array(value) and _place(value) in arguments
        if word not in plan.words and word not in (plan.arguments or {})
    }
    if reference is None or not views:
        return reference
    own = reference

    def seen(names: Names) -> Any:
        held = {word: names[name].reshape(shape) for word, (name, shape) in views.items()}
        return own({**names, **held})

    return seen


def _place(array: Any) -> tuple[Any, ...]:
    """Return what two arrays have alike that are one in different shapes; else themselves alone."""
    if not bytes_of(array):
        return (id(array),)
    if is_tensor(array):
        return (array.data_ptr(), bytes_of(array), str(array.dtype), array.is_contiguous())
    return (array.ctypes.data, array.nbytes, str(array.dtype), bool(array.flags.c_contiguous))


def again(launch: LaunchRecord, asked: Plan, namespace: Mapping[str, Any]) -> Plan:
    """Return the plan that makes a launch again as options ask.

    Raises OptionError K111 where they change what a grid should follow, and it was given as numbers.
    """  # noqa: E501
    known = plan_of(launch, namespace)
    source = launch.kernel.source
    constants = {p.name for p in source.parameters if p.is_constexpr}
    changed = [name for name in (*asked.settings, *asked.tune) if name in constants]
    if changed and asked.grid is None and not callable(launch.asked_grid):
        raise OptionError(
            f"the cell launches a grid of {launch.asked_grid}, whatever {changed[0]} is",
            asked.place(f"settings.{changed[0]}") or asked.place("tune") or asked.place("settings"),
            code="K111",
            hint=f'say how many for each {changed[0]}: --grid "cdiv(n, {changed[0]})", or launch '
            f"{source.name}[lambda meta: …]",
        )  # fmt: skip
    return replace(
        asked,
        reference=_with_views(asked.reference, known, namespace),
        arguments=known.arguments,
        words=known.words,
        grid=asked.grid or known.grid,
        settings={**known.settings, **asked.settings},
    )
