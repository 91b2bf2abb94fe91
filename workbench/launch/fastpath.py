"""What stands in front of a kernel's careful launch, and how it gets faster with use.

The first launch goes through `JITFunction`: bind, compile, load, run. Then calls of the same kinds
of arguments go through a launcher generated in Python over a table of runners; and after some
launches, once it is clear how the calls are written, through one in native code. Each passes what
it does not know to the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from functools import cached_property
from typing import Any

from workbench.devices.streams import HOST, raw_stream
from workbench.interrupts import renewed_lock
from workbench.launch import native
from workbench.launch.abi import Loadable, NativeCode, Runner
from workbench.launch.assembly import Assembly
from workbench.launch.binding import Call, leaves
from workbench.launch.conditions import Program
from workbench.launch.grids import Grid
from workbench.launch.index_width import width_program
from workbench.launch.launchers import (
    choosing,
    dropping,
    flattened,
    is_passed,
    make_launcher,
    supports,
    table_key,
)
from workbench.source import KernelSource
from workbench.source.arguments import Argument
from workbench.source.captures import Captures

#: Launches after which native code pays (it takes about 20 ms to make).
NATIVE_AFTER = 32

#: Chooses and loads the kernel for a grid and the run-time values of a call.
Choose = Callable[[Grid, Sequence[Any]], tuple[Loadable, Runner]]


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
        self._lock = renewed_lock()
        publish(self._python)

    def add(self, kernel: Loadable, call: Call, runner: Runner, choose: Choose) -> None:
        """Make launches like this one fast; `choose` picks twins where the kernel has some."""
        known = _Known(self._source, kernel, call, runner)
        with self._lock:
            if known.has_twin:
                runner = self._twins(known, choose)
            else:
                runner = dropping(runner, known.kept, known.count)
            self._table[known.key] = self._counted(runner)
            self._remember(known)

    def activate(self) -> None:
        """Have calls go to these launchers from now on."""
        self._publish(self._python if self._native is None else self._native.function())

    def _twins(self, known: _Known, choose: Choose) -> Runner:
        """Return what chooses between twins; its text is written when there is a second launch."""

        def pick(grid: Grid, values: Sequence[Any]) -> Runner:
            kernel, chosen = choose(grid, values)
            with self._lock:
                self._remember(known.twin(kernel, chosen))
            return chosen

        first = {known.kernel.launch.narrow_index: known.runner}

        def run(*values: Any) -> Loadable:
            chosen = choosing(known.width, known.kept, known.count, first, pick)
            with self._lock:
                self._table[known.key] = self._counted(chosen)
            return chosen(*values)

        return run

    def _counted(self, runner: Runner) -> Runner:
        """Return the runner, with a count of its launches until native code takes over."""
        if self._native is not None or not native.supported():
            return runner

        def run(*values: Any) -> Loadable:
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
        if self._on_gpu and all(slot.kind != "t" for slot in slots):
            return None  # native code asks an array for its device
        return native.Plan(
            shape,
            tuple(slots),
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
        options = sorted(known.options) == sorted(given)
        if code is None or code.launch != plan.launch or not (same and defaults and options):
            return
        values = [known.values[slot.name] for slot in plan.slots]
        numbers = [known.options[name] for name in given]
        words = native.words_of(plan, [*values, *numbers])
        launcher.add(
            words,
            code.handle,
            code.threads,
            code.shared_bytes,
            known.kept,
            known.kernel,
            (known, values),
            known.condition,
            known.kernel.launch.narrow_index,
            Assembly(code.made, known.kept) if code.made else None,
        )


class _Known:
    """One launch that was made with care, as the launchers' tables need it; it keeps no array."""

    def __init__(self, source: KernelSource, kernel: Loadable, call: Call, runner: Runner) -> None:
        self.kernel = kernel
        self.runner = runner
        self.options = dict(call.options)
        self.values: dict[str, Any] = {
            name: _Like(value) if kind == "t" else value
            for (name, value), kind in zip(call.values.items(), call.kinds, strict=True)
        }
        #: The key in the Python launcher's table.
        self.key = table_key(source, call.kinds, self.values, self.options)
        passed = [
            leaf
            for (name, known), kind in zip(call.known, call.kinds, strict=True)
            if kind != "c"
            for leaf in leaves(name, known, call.values[name])
            if is_passed(leaf[2])
        ]
        for (name, _), kind in zip(call.known, call.kinds, strict=True):
            if kind == "u":  # it may hold arrays
                self.values[name] = None
        self.slot_kinds = tuple(
            _slot_kind(kind, known, self.values[name])
            for (name, known), kind in zip(call.known, call.kinds, strict=True)
        )
        self.count = len(passed)
        #: Places of the arguments that the code receives, among those the launchers pass on.
        self.kept = [place for place, (_, known, _) in enumerate(passed) if known.type is not None]
        #: Integers among the values that launchers pass on, and those that are part of the code.
        self._integers = tuple(
            (path, place, value < 0)
            for place, (path, known, value) in enumerate(passed)
            if known.type is not None and isinstance(value, int)
        )
        received = {path for path, _, _ in self._integers}
        self._fixed = tuple(item for item in call.integers.items() if item[0] not in received)

    @property
    def native(self) -> NativeCode | None:
        """What native code needs to launch it."""
        return getattr(self.runner, "native", None)

    @property
    def has_twin(self) -> bool:
        """Whether there is code with 32-bit indices and code with exact ones."""
        return self.kernel.index_program is not None

    @property
    def width(self) -> Program:
        """What 32-bit indices require of the values that launchers pass on."""
        return width_program(self.kernel.index_program, self._integers, self._fixed)

    @cached_property
    def condition(self) -> native.Condition | None:
        """`width` for native code, None without twins."""
        return native.Condition(self.width) if self.has_twin else None

    def twin(self, kernel: Loadable, runner: Runner) -> _Known:
        """Return the launch that the other twin takes."""
        other = copy(self)
        other.kernel, other.runner = kernel, runner
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


def _slot_kind(kind: str, known: Argument, value: Any) -> str:
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
    return device != HOST
