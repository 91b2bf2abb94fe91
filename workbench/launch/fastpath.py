"""What stands in front of a kernel's careful launch, and how it gets faster with use.

The first launch goes through `JITFunction`: bind, compile, load, run. Then calls of the same kinds
of arguments go through a launcher generated in Python over a table of runners; and after some
launches, once it is clear how the calls are written, through one in native code. Each passes what
it does not know to the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from functools import cached_property, reduce
from typing import Any

from workbench.devices.streams import HOST, raw_stream
from workbench.interrupts import renewed_lock
from workbench.launch import native, native_plan
from workbench.launch.abi import Loadable, NativeCode, Runner
from workbench.launch.assembly import Assembly
from workbench.launch.binding import Call, leaves
from workbench.launch.conditions import Program, joined
from workbench.launch.grids import Grid
from workbench.launch.guarded import guarding
from workbench.launch.hulls import asked_of, asked_program, hull_program
from workbench.launch.index_width import width_program
from workbench.launch.launchers import (
    CONSTANT,
    OPTIONS,
    choosing,
    dropping,
    flattened,
    is_passed,
    make_launcher,
    supports,
    table_key,
)
from workbench.launch.options import is_heard
from workbench.source import KernelSource
from workbench.source.arguments import Argument
from workbench.source.captures import Captures
from workbench.source.watched import Watched, holds

#: Launches after which native code pays (it takes about 20 ms to make).
NATIVE_AFTER = 32

#: Makes of a runner that takes values one that takes the arrays too.
Guard = Callable[[Runner], Runner]

#: Chooses and loads the kernel for a grid and the run-time values of a call.
Choose = Callable[[Grid, Sequence[Any]], tuple[Loadable, Runner]]


class FastPath:
    """The launchers of one kernel for one kind of arguments.

    `publish` is told which launcher calls should go to from now on; `options` are those that its
    calls may give by name.
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
        *,
        options: Sequence[str] = OPTIONS,
        guarded: bool = False,
    ) -> None:
        self._guarded = guarded
        self._options = options
        self._source = source
        self._kinds = call.kinds
        self._on_gpu = on_gpu
        self._guards = captured.guards
        self._publish = publish
        self._table: dict[Any, Runner] = {}
        self._python = make_launcher(
            source, call.kinds, on_gpu, self._table, slow, captured.guards, device,
            options=self._options, guarded=guarded,
        )  # fmt: skip
        #: By key: the runner that takes values only, and what guards it.
        self._plain: dict[Any, tuple[Runner, Guard]] = {}
        self._known: list[_Known] = []
        self._native: native.Launcher | None = None
        self._runs = 0
        self._lock = renewed_lock()
        publish(self._python)

    def add(
        self,
        kernel: Loadable,
        call: Call,
        runner: Runner,
        choose: Choose,
        checked: Choose | None = None,
    ) -> None:
        """Make launches like this one fast; `choose` picks twins where the kernel has some.

        `checked` picks what a guarded path runs where it is not known that no access goes wrong.
        """
        known = _Known(
            self._source, kernel, call, runner,
            on_gpu=self._on_gpu, options=self._options, guarded=self._guarded,
        )  # fmt: skip
        with self._lock:
            if known.key in self._table:  # launches of another kind were the latest for a while
                return
            guard = self._guard_of(known, checked) if checked is not None else _unguarded
            if checked is not None and known.hull_program is None:
                self._table[known.key] = guard(runner)  # the code without checks never runs
                return
            if known.has_twin:
                runner = self._twins(known, choose, guard)
            else:
                runner = dropping(runner, known.kept, known.count)
            self._put(known, runner, guard)
            self._remember(known)

    def _put(self, known: _Known, runner: Runner, guard: Guard) -> None:
        """Have calls of a kind go to a runner."""
        self._plain[known.key] = runner, guard
        self._table[known.key] = guard(self._counted(runner))

    def _guard_of(self, known: _Known, checked: Choose) -> Guard:
        """Return what puts the choice between plain and checked code in front of a runner."""
        program = known.hull_program
        code: Runner | None = None

        def run_checked(x: int, y: int, z: int, stream: Any, *given: Any) -> Any:
            nonlocal code
            if code is None:
                code = _checked(known, checked, (x, y, z), given)
            code(x, y, z, stream, *given)
            return known.kernel

        if program is None:
            return lambda plain: run_checked
        arrays = [place for _, place in known.arrays]
        return lambda plain: guarding(program, known.count, arrays, plain, run_checked)

    def knows(self, values: Mapping[str, Any], options: Mapping[str, Any]) -> bool:
        """Say whether its launchers may take a call, for which they are not the latest.

        Args:
            values: what it gives of the parameters.
            options: what it gives besides.
        """
        if not options.keys() <= set(self._options):
            return False
        parameters = self._source.parameters
        try:
            named = {p.name: values.get(p.name, p.default) for p in parameters}
            key = table_key(self._source, self._kinds, named, options, self._on_gpu, self._options)
            return key in self._table and all(map(holds, self._guards))
        except Exception:  # they are arguments of another kind
            return False

    def activate(self) -> None:
        """Have calls go to these launchers from now on."""
        self._publish(self._python if self._native is None else self._native.function())

    def _twins(self, known: _Known, choose: Choose, guard: Guard) -> Runner:
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
                self._put(known, chosen, guard)
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

        return run

    def _uncount(self) -> None:
        for key, (runner, guard) in self._plain.items():
            self._table[key] = guard(runner)

    def _observe(self, grid: Any, *args: Any, **given: Any) -> Any:
        """Look at how a call is written, make native code for it, and launch."""
        with self._lock:
            self._publish(self._python)
            self._uncount()
            if self._native is None:
                self._make_native(native_plan.Shape(1 + len(args), tuple(given)))
        return self._python(grid, *args, **given)

    def _make_native(self, shape: native_plan.Shape) -> None:
        plan = self._plan(shape)
        if plan is None:
            return
        self._native = native.Launcher(plan, self._python)
        for known in self._known:
            self._enter(known)
        self._publish(self._native.function())

    def _plan(self, shape: native_plan.Shape) -> native_plan.Plan | None:
        """Return what native code is made for, None where it cannot be."""
        code = next((known.native for known in self._known), None)
        if self._guarded and all(known.condition is None for known in self._known):
            return None
        if code is None or any(type(s) not in (dict, Watched) for s, _, _ in self._guards):
            return None
        given = set(self._options).intersection(shape.keywords)
        latest = next((k for k in reversed(self._known) if k.options.keys() == given), None)
        if latest is None:
            return None
        parameters = self._source.parameters
        names = [p.name for p in parameters]
        places = {name: 1 + n for n, name in enumerate(names[: shape.positional - 1])}
        places |= {name: shape.positional + n for n, name in enumerate(shape.keywords)}
        slots: list[native_plan.Slot] = []
        defaults: list[tuple[str, Any]] = []
        columns = zip(*(known.slot_kinds for known in self._known), strict=True)
        for parameter, kind, kinds in zip(parameters, latest.slot_kinds, columns, strict=True):
            name = parameter.name
            if name in places:
                slots.append(native_plan.Slot(name, _shared(kind, kinds), places[name]))
            elif kind in native_plan.CONSTANT and not parameter.required:
                # What is left out has its default, whatever the latest call gave.
                defaults.append((name, parameter.default))
            else:
                return None
        options = [
            native_plan.Slot(name, _shared(*kinds), places[name])
            for name in self._options
            if name in latest.options
            for kinds in [self._option_kinds(name, latest)]
        ]
        if any(slot.kind == "x" for slot in slots) or len(places) != len(slots) + len(options):
            return None
        if self._on_gpu and all(slot.kind != "t" for slot in slots):
            return None  # native code asks an array for its device
        return native_plan.Plan(
            shape,
            tuple(slots),
            code.launch,
            raw_stream() if self._on_gpu else None,
            tuple(self._guards),
            tuple(options),
            tuple(defaults),
            self._guarded,
        )

    def _option_kinds(self, name: str, latest: _Known) -> tuple[str, set[str]]:
        """Return the kind of an option in one launch, and those of all launches that gave it."""
        given = (known.options for known in self._known)
        kinds = {_constant_kind(options[name]) for options in given if name in options}
        return _constant_kind(latest.options[name]), kinds

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
        kinds = dict(zip(known.values, known.slot_kinds, strict=True))
        same = all(_covers(slot.kind, kinds[slot.name]) for slot in plan.slots)
        defaults = all(known.values[name] is value for name, value in plan.defaults)
        options = sorted(known.options) == sorted(given) and all(
            _covers(slot.kind, _constant_kind(known.options[slot.name])) for slot in plan.options
        )
        if code is None or code.launch != plan.launch or not (same and defaults and options):
            return
        if self._guarded and (known.condition is None or not known.outcome):
            return
        values = [known.values[slot.name] for slot in plan.slots]
        numbers = [known.options[name] for name in given]
        words = native_plan.words_of(plan, [*values, *numbers])
        launcher.add(
            words,
            code.handle,
            code.threads,
            code.shared_bytes,
            known.kept,
            known.kernel,
            (known, values),
            known.condition,
            known.outcome,
            Assembly(code.made, [*known.kept, *plan.grid_places]) if code.made else None,
            code.most_blocks,
            code.most_taken,
            code.cluster,
        )


def _unguarded(runner: Runner) -> Runner:
    return runner


def _checked(known: _Known, choose: Choose, grid: Grid, given: Sequence[Any]) -> Runner:
    """Return what runs checked code for all that launchers pass: the values, then the arrays."""
    own = len(known.kept)
    kept = [*known.kept, *range(known.count, len(given))]
    kernel, runner = choose(grid, [given[n] for n in known.kept])
    if kernel.index_program is None:
        return dropping(runner, kept, len(given))
    return choosing(
        known.width_of(kernel), kept, len(given), {kernel.launch.narrow_index: runner},
        lambda grid, values: choose(grid, values[:own])[1],
    )  # fmt: skip


class _Known:
    """One launch that was made with care, as the launchers' tables need it; it keeps no array."""

    def __init__(
        self,
        source: KernelSource,
        kernel: Loadable,
        call: Call,
        runner: Runner,
        *,
        on_gpu: bool,
        options: Sequence[str],
        guarded: bool = False,
    ) -> None:
        self.guarded = guarded
        self.kernel = kernel
        self.runner = runner
        self.options = dict(call.asked)
        self.values: dict[str, Any] = {
            name: _Like(value) if kind == "t" else value
            for (name, value), kind in zip(call.values.items(), call.kinds, strict=True)
        }
        #: The key in the Python launcher's table.
        self.key = table_key(source, call.kinds, self.values, self.options, on_gpu, options)
        passed = [
            leaf
            for (name, known), kind in zip(call.known, call.kinds, strict=True)
            if kind not in CONSTANT
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
        #: Arrays among them: name and place.
        self.arrays = [
            (path, place)
            for place, (path, known, _) in enumerate(passed)
            if known.type is not None and known.is_pointer
        ]
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
        return self.width_of(self.kernel)

    def width_of(self, kernel: Loadable) -> Program:
        """Return what the 32-bit indices of a code require."""
        return width_program(kernel.index_program, self._integers, self._fixed)

    @property
    def hull_program(self) -> Program | None:
        """What must hold for no access to leave its storage; None: nobody knows."""
        hulls = self.kernel.hulls
        if hulls is None:
            return None
        places = tuple(
            (name, place, self.count + 2 * n) for n, (name, place) in enumerate(self.arrays)
        )
        return hull_program(hulls, self._integers, places, self._fixed)

    @cached_property
    def condition(self) -> native.Condition | None:
        """What native code asks of a launch: `width` where there are twins, `hull_program`.

        And what the code asks itself: launches that miss it are left to Python, as all that no
        entry knows.
        """
        programs = [self.width] if self.has_twin else []
        asked = asked_of(self.kernel)
        if asked is not None:
            programs.append(asked_program(asked, self._integers, self._fixed))
        if self.guarded:
            hull = self.hull_program
            if hull is None:
                return None
            programs.append(hull)
        return native.Condition(reduce(joined, programs)) if programs else None

    @property
    def outcome(self) -> bool:
        """What it says of launches that take this kernel's code."""
        return self.kernel.launch.narrow_index or not self.has_twin

    def twin(self, kernel: Loadable, runner: Runner) -> _Known:
        """Return the launch that the other twin takes."""
        other = copy(self)
        other.__dict__.pop("condition", None)
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
        case "c" | "z" | "k":
            return _constant_kind(value)
        case "u":
            return "x"
        case "f":
            return {"f32": "f", "f64": "d"}.get(word, "x")
        case "i":
            return "x" if word.startswith(("f", "bf")) or type(value) is not int else "i"
        case _:
            return kind


def _constant_kind(value: Any) -> str:
    """Return the kind of what is part of the code: a number, or the very object."""
    if type(value) is float:
        return "v"
    return "n" if type(value) is int and abs(value) < 2**62 else "o"


def _shared(kind: str, kinds: Iterable[str]) -> str:
    """Return the kind of a slot: constants that were of several kinds are objects."""
    return "o" if kind in native_plan.CONSTANT and {*kinds} != {kind} else kind


def _covers(slot: str, kind: str) -> bool:
    """Say whether a slot of one kind takes arguments of another."""
    return slot == kind or (slot == "o" and kind in native_plan.CONSTANT)


def with_options(names: Sequence[str], call: Call) -> tuple[str, ...]:
    """Return the options that launchers take by name once they know a call, too."""
    return (*names, *sorted(set(call.asked) - set(names)))


def widen(letters: str, call: Call) -> str:
    """Return by parameter the letter for all constants so far: "k" where there were two.

    `letters` are what this returned for the latest launch; the call's own kinds become these.
    """
    found = "".join(
        one if kind not in CONSTANT or kind == one else kind if one not in CONSTANT else "k"
        for one, kind in zip(letters or call.kinds, call.kinds, strict=True)
    )
    call.kinds = "".join(
        one if kind in CONSTANT else kind for one, kind in zip(found, call.kinds, strict=True)
    )
    return found


def accepts(source: KernelSource, call: Call, *, guarded: bool = False) -> bool:
    """Say whether launches like this one can be made by generated code."""
    if guarded and "u" in call.kinds:
        return False
    if not all(is_heard(name, value) for name, value in call.asked.items()):
        return False
    if call.places or not supports(source, call.kinds):
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
