"""What stands in front of a kernel's careful launch, and how it gets faster with use.

The first launch goes through `JITFunction`: bind, compile, load, run. Then calls of the same kinds
of arguments go through a launcher generated in Python over a table of runners; and after some
launches, once it is clear how the calls are written, through one in native code. Each passes what
it does not know to the one before.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

from workbench.runtime import arrays, native
from workbench.runtime.binding import Call, leaves
from workbench.runtime.compiled import CompiledKernel
from workbench.runtime.facts import Known
from workbench.runtime.grids import Grid
from workbench.runtime.launching import (
    Runner,
    Twins,
    dropping,
    flattened,
    is_passed,
    make_launcher,
    raw_stream,
    supports,
    table_key,
)
from workbench.source import KernelSource
from workbench.source.captures import Captures

#: Launches after which native code pays (it takes about 20 ms to make).
NATIVE_AFTER = 32

#: Chooses and loads the kernel for a grid and the run-time values of a call.
Choose = Callable[[Grid, Sequence[Any]], tuple[CompiledKernel, Runner]]


class FastPath:
    """The launchers of one kernel for one kind of arguments.

    `publish` is told which launcher calls should go to from now on.
    """

    def __init__(
        self,
        source: KernelSource,
        call: Call,
        on_gpu: bool,
        captured: Captures,
        slow: Callable[..., Any],
        publish: Callable[[Callable[..., Any]], None],
        device: int = 0,
    ) -> None:
        self._source = source
        self._on_gpu = on_gpu
        self._guards = captured.guards
        self._publish = publish
        self._table: dict[Any, Runner] = {}
        self._counting: dict[Runner, Runner] = {}
        self._python = make_launcher(
            source, call.kinds, on_gpu, self._table, slow, captured.guards, device
        )
        self._known: list[_Known] = []
        self._native: native.Launcher | None = None
        self._runs = 0
        self._lock = threading.RLock()
        publish(self._python)

    def add(
        self, kernel: CompiledKernel, call: Call, grid: Grid, runner: Runner, choose: Choose
    ) -> None:
        """Make launches like this one fast; `choose` picks twins where the kernel has some."""
        known = _Known(self._source, kernel, call, grid, runner)
        with self._lock:
            if kernel.index_program is not None:
                runner = self._twins(known, runner, choose)
            counted = self._counted(dropping(runner, known.kept, known.count))
            self._table[known.key] = counted
            self._remember(known)

    def activate(self) -> None:
        """Have calls go to these launchers from now on."""
        self._publish(self._python if self._native is None else self._native.function())

    def _twins(self, known: _Known, runner: Runner, choose: Choose) -> Twins:
        def pick(grid: Grid, values: Sequence[Any]) -> Runner:
            kernel, chosen = choose(grid, values)
            with self._lock:
                self._remember(known.changed(kernel, grid, values, chosen))
            return chosen

        twins = Twins([place for place, _ in known.integers], pick)
        twins.remember(known.grid, known.runtime, runner)
        return twins

    def _counted(self, runner: Runner) -> Runner:
        """Return the runner, with a count of its launches until native code takes over."""
        if self._native is not None or not native.supported():
            return runner

        def run(*values: Any) -> CompiledKernel:
            self._runs += 1
            if self._runs >= NATIVE_AFTER:
                self._publish(self._observe)
            return runner(*values)

        self._counting[run] = runner
        return run

    def _uncount(self) -> None:
        for key, runner in self._table.items():
            self._table[key] = self._counting.get(runner, runner)

    def _observe(self, grid: Any, *args: Any, **given: Any) -> Any:
        """Look at how a call is written, make native code for it, and launch."""
        with self._lock:
            self._publish(self._python)
            self._uncount()
            if self._native is None:
                self._make_native(native.Shape(1 + len(args), tuple(given)))
        return self._python(grid, *args, **given)

    def _make_native(self, shape: native.Shape) -> None:
        plan = self._plan(shape)
        if plan is None:
            return
        self._native = native.Launcher(plan, self._python)
        for known in self._known:
            self._enter(known)
        self._publish(self._native.function())

    def _plan(self, shape: native.Shape) -> native.Plan | None:
        """Return what native code is made for, None where it cannot be."""
        code = next((known.native for known in self._known), None)
        if code is None or any(type(space) is not dict for space, _, _ in self._guards):
            return None
        latest = self._known[-1]
        names = [p.name for p in self._source.parameters]
        places = {name: 1 + n for n, name in enumerate(names[: shape.positional - 1])}
        places |= {name: shape.positional + n for n, name in enumerate(shape.keywords)}
        slots: list[native.Slot] = []
        defaults: list[tuple[str, Any]] = []
        for name, kind in zip(names, latest.slot_kinds, strict=True):
            if name in places:
                slots.append(native.Slot(name, kind, places[name]))
            elif kind in "no":
                defaults.append((name, latest.values[name]))
            else:
                return None
        options = [
            native.Slot(name, "n", places[name])
            for name in ("num_warps", "num_stages")
            if name in places
        ]
        if any(slot.kind == "x" for slot in slots) or len(places) != len(slots) + len(options):
            return None
        return native.Plan(
            shape,
            tuple(slots),
            latest.kernel.index_program is not None,
            code.launch,
            raw_stream() if self._on_gpu else None,
            tuple(self._guards),
            tuple(options),
            tuple(defaults),
        )

    def _remember(self, known: _Known) -> None:
        self._known = [*self._known[-(native.ENTRIES - 1) :], known]
        if self._native is not None:
            self._enter(known)

    def _enter(self, known: _Known) -> None:
        """Add an entry to the native table, if its calls look like those it was made for."""
        launcher, code = self._native, known.native
        assert launcher is not None
        plan = launcher.plan
        given = [slot.name for slot in plan.options]
        same = known.slot_kinds == self._known[0].slot_kinds if self._known else True
        defaults = all(known.values[name] is value for name, value in plan.defaults)
        exact = (known.kernel.index_program is not None) == plan.exact
        options = sorted(known.options) == sorted(given)
        if code is None or not (same and defaults and exact and options):
            return
        values = [known.values[slot.name] for slot in plan.slots]
        numbers = [known.options[name] for name in given]
        words = native.words_of(plan, [*values, *numbers], known.grid)
        launcher.add(
            words,
            code.handle,
            code.threads,
            code.shared_bytes,
            known.kept,
            known.kernel,
            (known, values),
        )


class _Known:
    """One launch that was made with care, as the launchers' tables need it; it keeps no array."""

    def __init__(
        self, source: KernelSource, kernel: CompiledKernel, call: Call, grid: Grid, runner: Runner
    ) -> None:
        self.kernel = kernel
        self.grid = grid
        self.runner = runner
        self.runtime = tuple(call.runtime)
        self.options = dict(call.options)
        self.values: dict[str, Any] = {
            name: _Like(value) if kind == "t" else value
            for (name, value), kind in zip(call.values.items(), call.kinds, strict=True)
        }
        #: The key in the Python launcher's table.
        self.key = table_key(source, call.kinds, self.values, self.options)
        received = [
            (path, value)
            for name, known in call.known
            for path, leaf, value in leaves(name, known, call.values[name])
            if leaf.type is not None
        ]
        #: Integers among the arguments that the code receives: (place, path).
        self.integers = [(n, p) for n, (p, value) in enumerate(received) if isinstance(value, int)]
        for (name, _), kind in zip(call.known, call.kinds, strict=True):
            if kind == "u":  # it may hold arrays
                self.values[name] = None
        self.slot_kinds = tuple(
            _slot_kind(kind, known, self.values[name])
            for (name, known), kind in zip(call.known, call.kinds, strict=True)
        )
        facts = [
            leaf
            for (name, known), kind in zip(call.known, call.kinds, strict=True)
            if kind != "c"
            for _, leaf, value in leaves(name, known, call.values[name])
            if is_passed(value)
        ]
        self.count = len(facts)
        #: Places of the arguments that the code receives, among those the launchers pass on.
        self.kept = [place for place, known in enumerate(facts) if known.type is not None]

    @property
    def native(self) -> NativeCode | None:
        """What native code needs to launch it."""
        return getattr(self.runner, "native", None)

    def changed(
        self, kernel: CompiledKernel, grid: Grid, values: Sequence[Any], runner: Runner
    ) -> _Known:
        """Return the launch of the same call with other integers and another grid."""
        other = copy(self)
        other.kernel, other.grid, other.runner = kernel, grid, runner
        other.values = self.values | {name: values[place] for place, name in self.integers}
        return other


class _Like:
    """What the launchers' tables know of an array."""

    __slots__ = ("_address", "_device", "dtype")

    def __init__(self, array: Any) -> None:
        self.dtype = array.dtype
        self._device = array.get_device()
        self._address = array.data_ptr() & 15

    def get_device(self) -> int:
        return self._device

    def data_ptr(self) -> int:
        return self._address


def _slot_kind(kind: str, known: Known, value: Any) -> str:
    """Return an argument's kind for native code, "x" where it cannot be passed there."""
    word = known.type or ""
    match kind:
        case "c":
            return "n" if type(value) is int and abs(value) < 2**62 else "o"
        case "u":
            return "x"
        case "f":
            return {"f32": "f", "f64": "d"}.get(word, "x")
        case "i":
            return "x" if word.startswith(("f", "bf")) or type(value) is not int else "i"
        case _:
            return kind


class NativeCode:
    """What native code passes to the launch function at address `launch`."""

    __slots__ = ("handle", "launch", "shared_bytes", "threads")

    def __init__(self, launch: int, handle: int, threads: int, shared_bytes: int) -> None:
        self.launch = launch
        self.handle = handle
        self.threads = threads
        self.shared_bytes = shared_bytes


def accepts(source: KernelSource, call: Call) -> bool:
    """Say whether launches like this one can be made by generated code."""
    options = set(call.options) - {"num_warps", "num_stages"}
    if options or call.places or not supports(source, call.kinds):
        return False
    arrays_given = (
        leaf
        for (name, known), kind in zip(call.known, call.kinds, strict=True)
        if kind in "tu"
        for _, fact, leaf in leaves(name, known, call.values[name])
        if fact.is_pointer
    )
    if not all(hasattr(array, "get_device") for array in arrays_given):
        return False
    nested = [v for v, kind in zip(call.values.values(), call.kinds, strict=True) if kind == "u"]
    try:
        return all(hash(flattened(value)[0]) is not None for value in nested)
    except (AttributeError, TypeError):  # members that only the careful path knows
        return False


def on_gpu(device: int) -> bool:
    """Say whether a device's number means a GPU."""
    return device != arrays.HOST
