"""Run a plan: bind arguments, compile, launch, check, time; collect it all in a KernelResult.

On a machine without a GPU a kernel launches on the CPU, and is compiled for sm_90a too, so that the
stages show what a GPU would run: two records, sm_90a first.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

from workbench.bench import device
from workbench.bench.arrays import bytes_of, dtype_of, is_array, on_gpu, shape_of
from workbench.bench.baselines import Competitor, expression_call, known_call
from workbench.bench.binding import Binder, chip
from workbench.bench.ceilings import ceilings
from workbench.bench.checking import Verdict, check_launch
from workbench.bench.guarding import Watched, guard, launch_isolated, watch_checked
from workbench.bench.phases import say
from workbench.bench.plan import Peer, Plan
from workbench.bench.recorded import recorded_accesses
from workbench.bench.results import KernelResult, Record
from workbench.bench.subject import Subject, call_by_name
from workbench.bench.sweep import Point, counted_work, time_points
from workbench.bench.tuning import Tuning
from workbench.bench.work import dot_work
from workbench.compiler import made
from workbench.devices.printed import PrintedTable, captured, has_prints, publish
from workbench.interrupts import keeping, may_stop, stop_here
from workbench.launch.guarded import remarks
from workbench.passes.listing import ast_stage, shown_source, source_stage
from workbench.runtime import guards
from workbench.runtime.compiled import CompiledKernel
from workbench.runtime.compiling import compile as compile_kernel
from workbench.runtime.compiling import obtain, source_of
from workbench.runtime.faults import wait
from workbench.runtime.gpu_target import SHOWN_CHIP
from workbench.source import KernelError, KernelSource, LaunchError, Note, OptionError, checking
from workbench.source.files import shown_file
from workbench.trace import Kernel, Launch, LaunchArgument, Runs, Skipped, TraceBuilder

#: Grids up to this many programs are recorded access by access in the interpreter.
MOST_RECORDED_PROGRAMS = 4096

#: Asked for the call that repeats an earlier result's launch on the arguments of a new one.
Previous = Callable[[Subject], Callable[[], object] | None]


def run_plan(kernel: Any, plan: Plan, previous: Previous = lambda subject: None) -> KernelResult:
    """Do what a plan says with a kernel.

    Raises KernelError where that is not possible; whatever exists by then is in the error's
    `result`. A failed check is an error too, raised after everything else was done. An interrupt
    ends it at any moment, with all that was found by then in the result.
    """
    with keeping():
        run = _Run(kernel, plan, previous)
        try:
            result = run.finish()
        except KernelError as error:
            error.result = run.partial(error)  # type: ignore[attr-defined]
            raise
    if result.error is not None:
        result.error.result = result  # type: ignore[attr-defined]
        raise result.error
    return result


class _Run:
    """One plan in progress."""

    def __init__(self, kernel: Any, plan: Plan, previous: Previous) -> None:
        self.kernel = kernel
        self.plan = plan
        self.previous = previous
        self.source: KernelSource = source_of(kernel)
        self.records: list[Record] = []
        self.verdicts: list[Verdict] = []
        self.binder = Binder(kernel, self.source, plan)
        self.tuning: Tuning | None = None

    def finish(self) -> KernelResult:
        plan = self.plan
        with device.following(plan.target), guards.guarding(plan.guarding):
            try:
                self._finish()
            except KeyboardInterrupt as stop:
                self._stopped(str(stop))
        self._say_unheard()
        return self._result(self._failure)

    def _say_unheard(self) -> None:
        """Say which options changed nothing, since they belong to one that was not given."""
        plan = self.plan
        timing = {
            "--baseline": plan.peers, "--flops": plan.flops, "--bytes": plan.bytes,
            "--warm": plan.warm, "--metric": plan.metric != "auto",
        }  # fmt: skip
        checking = {"--rtol": plan.rtol is not None, "--atol": plan.atol is not None}
        for what, options, heard in (
            ("bench", timing, plan.timed or plan.tuned),
            ("check", checking, plan.checked),
        ):
            given = [option for option, value in options.items() if value]
            if given and not heard and self.records:
                self._skip(what, f"{', '.join(given)} without --{what}")

    def _finish(self) -> None:
        plan = self.plan
        if plan.arguments is None and plan.make is None:
            self._compile_without_data()
            return
        if plan.assume:
            raise OptionError(
                "--assume is for a launch without data, and this one has arguments",
                plan.place("assume"),
                hint="what holds at every launch belongs in the kernel: "
                f"tl.assume({plan.assume[0]})",
                code="K113",
            )
        if plan.tuned:
            self._tune()
        say(f"compiling {self.source.name}")
        points = [Point(x, lambda x=x: self.binder.bind(x)) for x in plan.points]
        with may_stop():
            subject = points[-1].build()
            points[-1] = replace(points[-1], build=lambda: subject)
            compiled: CompiledKernel = subject.compiled
        self._compile(compiled)
        if not plan.run:
            self._skip("launch", "--no-run was given")
            return
        if self.tuning is not None:
            self.records[-1].runs.append(self.tuning.record)
        self._execute(subject, compiled, points)

    def _stopped(self, when: str) -> None:
        """Make what there is a result: the compiled kernel, or one of the search, or the source."""
        found = None if self.tuning is None else self.tuning.result
        if not self.records and found is not None:
            rows = [row for row in (found.best, *found.rows) if row is not None]
            compiled = next((row.kernel for row in rows if row.kernel is not None), None)
            if compiled is not None:
                self._add(compiled)
        if not self.records:
            self.records.append(source_record(self.source))
        own = self.records[-1]
        if self.tuning is not None and self.tuning.record not in own.runs:
            own.runs.append(self.tuning.record)
        self._skip("the rest", f"stopped {when}".rstrip())

    @property
    def _failure(self) -> KernelError | None:
        """The error of the first check that failed."""
        return next((found.error for found in self.verdicts if found.error is not None), None)

    def _tune(self) -> None:
        """Search at the last, which is the largest, size; go on with what was found."""
        say("searching among configurations", still=True)
        self.tuning = Tuning(self.binder, self.plan, self.plan.points[-1], synchronize)
        stop_here()
        settings = {**self.plan.settings, **self.tuning.settings}
        plain = self.binder.plain_kernel
        self.binder = Binder(plain, self.source, replace(self.plan, settings=settings))

    def partial(self, error: KernelError) -> KernelResult | None:
        """Return what exists after an error: the stages up to it."""
        if error.trace is not None:
            trace = error.trace
            self.records.insert(0, Record(lambda: trace.trace))  # type: ignore[attr-defined]
        return self._result(error) if self.records else None

    def _result(self, error: KernelError | None) -> KernelResult:
        if error is not None and error.trace is None:
            for record in self.records:
                record.error = error
        result = KernelResult(
            self.kernel,
            self.source.name,
            self.records,
            launch=self.binder.relaunch,
            show=self.plan.show,
            embed=self.plan.embed,
            error=error,
            tune=None if self.tuning is None else self.tuning.result,
            plan=self.binder.plan,
        )
        result.subject = self.binder.last
        return result

    # -- compiling ------------------------------------------------------------------------
    def _compile_without_data(self) -> None:
        plan = self.plan
        targets = [plan.target]
        if plan.target == "auto":
            targets = [chip()] if device.has_gpu() else [SHOWN_CHIP, "cpu"]
        for target in targets:
            say(f"compiling {self.source.name} for {target}")
            try:
                with may_stop():
                    compiled = compile_kernel(
                        self.source, plan.signature, self.binder.constants, target,
                        assume=plan.assume, cached=plan.cached, **self.binder.options,
                    )  # fmt: skip
            except OptionError as error:
                option = "assume" if error.message.startswith("--assume") else "sig"
                raise error.at(plan.place(option)) from None
            self._add(compiled)
        wanted = {"launch": True, "check": plan.checked, "bench": plan.timed}
        for what in (name for name, asked in wanted.items() if asked):
            self._skip(what, "no arguments were given")

    def _compile(self, compiled: CompiledKernel) -> None:
        self._add(compiled)
        if self.plan.target == "auto" and compiled.target == "cpu" and not device.has_gpu():
            with may_stop():
                record = shown_chip_record(compiled, cached=self.plan.cached)
            self.records.insert(0, record)

    def _add(self, compiled: CompiledKernel) -> None:
        self.records.append(Record(lambda: without_runs(compiled), compiled))

    def _skip(self, what: str, why: str) -> None:
        for record in self.records:
            record.runs.append(Skipped(what=what, why=why))

    # -- running --------------------------------------------------------------------------
    def _execute(self, subject: Subject, compiled: CompiledKernel, points: Sequence[Point]) -> None:
        plan = self.plan
        record = next(r for r in self.records if r.compiled is compiled)
        if subject.target == "interpreter" and prod(subject.grid) <= MOST_RECORDED_PROGRAMS:
            say("recording every access in the interpreter")
            careful = plan.checked or plan.guard
            with may_stop(), checking() if careful else nullcontext():
                record.access = recorded_accesses(subject)
        if plan.timed:
            self._carefully(subject, record)
        if not plan.timed and len(points) == 1:
            self._once(subject, record)
        elif not plan.timed:
            for point in points:
                with may_stop():
                    subject = point.build()
                self._once(subject, record)
        else:
            if subject.target == "interpreter":
                raise OptionError(
                    "--bench needs a device or --target cpu", plan.place("bench"), code="K118",
                    hint="the interpreter's time says nothing; leave --target out, or --bench",
                )  # fmt: skip
            if subject.gpu and not device.has_gpu():
                raise OptionError(
                    f"--bench needs a device, and there is none for {subject.target}",
                    plan.place("bench") or plan.place("target"), code="K118",
                    hint="--target cpu times it here; %whatif predicts times of GPUs",
                )  # fmt: skip
            record.runs.append(launch_record(subject, None))
            benches, self.verdicts = time_points(
                points, self._competitors, self._check if plan.checked else None, self._work,
                name=self.source.name, gpu=subject.gpu, metric=plan.metric, warm=plan.warm,
            )  # fmt: skip
            record.runs += [*(verdict.record for verdict in self.verdicts), *benches]
            self._say_unwritten(record)
            done = len(benches[0].x) if benches else 0
            if done < len(points):
                raise KeyboardInterrupt(f"after {done} of {len(points)} sizes")
            stop_here()
            dots = dot_work(subject.module, subject.grid, subject.scalars)
            operand = dots.operand_types[0] if dots else None
            say("measuring what the machine can do", still=True)
            with may_stop():
                found = ceilings(str(benches[0].metric), subject.gpu, operand)
            record.runs += found
            return
        self._say_unwritten(record)

    def _say_unwritten(self, record: Record) -> None:
        for why in dict.fromkeys(why for verdict in self.verdicts for why in verdict.unwritten):
            record.runs.append(Skipped(what="check", why=why))

    def _carefully(self, subject: Subject, record: Record) -> None:
        """Try a launch that is timed later: in the interpreter, in a process of its own."""
        if self.plan.guard:
            self._guard(subject, record)
        if self.plan.isolate:
            say("launching in a process of its own")
            with may_stop():
                launch_isolated(self.kernel, subject)

    def _guard(self, subject: Subject, record: Record) -> None:
        count = prod(subject.grid)
        say(f"trying {count:,} program{'s' * (count != 1)} in the interpreter first")
        with may_stop():
            watched = guard(subject, report=self.plan.report)
        ran, total = watched.ran, watched.total
        if ran < total:
            why = f"{ran:,} of {total:,} programs were tried in the interpreter in the time given"
            why += f"; {watched.late.message}" if watched.late is not None else ""
            record.runs.append(Skipped(what="guard", why=why))
        self._remark(watched, record)

    def _watch(self, subject: Subject, record: Record) -> LaunchError | None:
        """Look for races of a launch that is checked; they are raised after the check."""
        say("looking for races in the interpreter")
        with may_stop():
            watched = watch_checked(subject)
        if watched.ran:
            self._remark(watched, record)
        return watched.error() if self.plan.report == "error" else None

    def _remark(self, watched: Watched, record: Record) -> None:
        for why in watched.remarks(self.plan.report):
            record.runs.append(Skipped(what="remark", why=why))

    def _once(self, subject: Subject, record: Record) -> None:
        raced: LaunchError | None = None
        if self.plan.guard:
            self._guard(subject, record)
        elif self.plan.checked:
            raced = self._watch(subject, record)
        launch = subject.launch
        if self.plan.isolate:
            launch = partial(launch_isolated, self.kernel, subject)
        elif subject.target != "interpreter" and has_prints(subject.module):
            launch = partial(_launch_and_show, subject, subject.launch)
        relaunch = None if self.plan.isolate else subject.relaunch
        subject = replace(subject, launch=launch, relaunch=relaunch)
        where = " in a process of its own" if self.plan.isolate else ""
        # Compiled code that runs in this process hears nothing of interrupts.
        stops = self.plan.isolate or subject.target == "interpreter"
        say(f"launching{where}{' and checking' if self.plan.checked else ''}", stops=stops)
        start = time.perf_counter()
        if not self.plan.checked:
            with may_stop():
                subject.launch()
                synchronize(subject)
            record.runs.append(launch_record(subject, (time.perf_counter() - start) * 1e3))
            record.runs += [Skipped(what="remark", why=why) for why in remarks()]
            return
        try:
            with may_stop():
                verdict = self._check(subject)
        except KeyboardInterrupt:
            if raced is None:
                raise
            raise raced from None  # that is what there is to know by now
        if raced is not None:
            # Whether racing programs give a wrong result is luck: the race is what to mend.
            if verdict.error is not None:
                also = Note(f"the result is wrong too: {verdict.error.message}", verdict.error.span)
                raced.notes = (also, *raced.notes)
            verdict.error = raced
            verdict.record = replace(verdict.record, ok=False)
        record.runs += [launch_record(subject, None), verdict.record]
        self.verdicts.append(verdict)

    def _check(self, subject: Subject) -> Verdict:
        plan = self.plan
        return check_launch(
            subject, plan.reference, plan.reference_text or "the interpreter",
            rtol=plan.rtol, atol=plan.atol, place=plan.place("check"), others=self._others(),
            synchronize=lambda: synchronize(subject),
        )  # fmt: skip

    def _others(self) -> dict[str, Any]:
        """Return the user's arrays that the reference names beside the arguments."""
        words = dict.fromkeys(re.findall(r"[^\W\d]\w*", self.plan.reference_text))
        found = {name: self.plan.namespace.get(name) for name in words}
        return {name: value for name, value in found.items() if is_array(value)}

    def _competitors(self, subject: Subject) -> list[Competitor]:
        return [self._competitor(peer, subject) for peer in self.plan.peers]

    def _competitor(self, peer: Peer, subject: Subject) -> Competitor:
        if peer.call is not None:
            call, names = peer.call, subject.names()
            return Competitor(peer.name, lambda: call_by_name(call, names))
        if peer.text is not None:
            return expression_call(peer.name, peer.text, self.plan.namespace, subject)
        text = self.plan.reference_text if self.plan.reference is not None else None
        return known_call(peer.name, text, self.plan.namespace, subject, self.previous)

    def _work(self, subject: Subject, x: Mapping[str, Any]) -> tuple[float | None, float | None]:
        flops, moved = counted_work(subject)
        names = {**x, **subject.names()}
        if self.plan.flops is not None:
            flops = float(self.plan.flops(names))
        if self.plan.bytes is not None:
            moved = float(self.plan.bytes(names))
        return flops, moved


def _launch_and_show(subject: Subject, launch: Callable[[], object]) -> None:
    """Launch a kernel that prints, and show what it printed as a table by program."""
    with captured() as lines:
        launch()
        synchronize(subject)
    publish(PrintedTable(lines, subject.module))


def without_runs(compiled: CompiledKernel) -> Any:
    """Return a compilation's trace without the launches that others recorded in it."""
    return replace(compiled.trace, runs=Runs())


def source_record(source: KernelSource) -> Record:
    """Return what is known of a kernel before it is compiled: Python and AST."""
    file, text, line0 = shown_source(source)
    kernel = Kernel(
        name=source.name, entry=source.name, file=shown_file(file), line0=source.first_line,
        target="python",
    )  # fmt: skip
    builder = TraceBuilder(kernel=kernel, made=made())
    builder.add_source(shown_file(file), text, line0)
    builder.add_stage("source", source_stage(file, text, line0, []), "python")
    builder.add_stage("ast", lambda: ast_stage(source, []), "ast")
    lazy = builder.finish()
    return Record(lambda: lazy.trace)


def shown_chip_record(compiled: CompiledKernel, *, cached: bool = True) -> Record:
    """Return what a GPU would run, from the same facts; a failure is shown, not raised."""
    say(f"compiling {compiled.source.name} for {SHOWN_CHIP}")
    try:
        peer = obtain(compiled.source, compiled.signature, SHOWN_CHIP, cached=cached)
    except KernelError as error:
        lazy: Any = error.trace
        if lazy is None:
            raise
        return Record(lambda: lazy.trace)
    record = Record(lambda: without_runs(peer), peer)
    record.runs.append(Skipped(what="launch", why="no CUDA device"))
    return record


def synchronize(subject: Subject) -> None:
    """Wait until the device has done everything, so that its errors come up here."""
    if subject.gpu:
        wait(subject.compiled, subject.grid, {**subject.constants, **subject.arguments})


def launch_record(subject: Subject, milliseconds: float | None) -> Launch:
    """Return the record of one launch."""
    where = "cpu"
    if subject.target == "interpreter":
        where = "interpreter"
    elif subject.gpu:
        arrays = (value for value in subject.arguments.values() if on_gpu(value))
        where = next((str(array.device) for array in arrays), "cuda")
    return Launch(
        t=time.time(),
        grid=subject.grid,
        device=where,
        milliseconds=milliseconds,
        args=tuple(launch_argument(name, value) for name, value in subject.arguments.items()),
        guarded=where == "cpu" and guards.is_on(),
    )


def launch_argument(name: str, value: Any) -> LaunchArgument:
    """Return one argument of a launch: shape and strides of an array, else its value."""
    if not is_array(value):
        plain = value if isinstance(value, (bool, int, float, str)) else str(value)
        return LaunchArgument(name=name, type=type(value).__name__, value=plain)
    item = max(1, bytes_of(value) // max(1, prod(shape_of(value))))
    numpy_strides = getattr(value, "strides", None)
    stride = tuple(value.stride() if numpy_strides is None else (s // item for s in numpy_strides))
    return LaunchArgument(
        name=name, type=f"*{dtype_of(value)}", shape=shape_of(value), stride=stride
    )
