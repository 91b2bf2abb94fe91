"""What `%%kernel` does, without IPython: run the body, find its kernel, do what the line asks."""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable
from typing import Any

from workbench.bench import device
from workbench.bench.results import KernelResult, Record
from workbench.bench.running import (
    launch_argument,
    run_plan,
    shown_chip_record,
    source_record,
    without_runs,
)
from workbench.bench.subject import Subject
from workbench.interrupts import keeping, may_stop, own_code
from workbench.launch.guarded import remarks
from workbench.magics import registry
from workbench.magics.body import Body, device_functions, execute, last_entry
from workbench.magics.grammar import Origin, parse, split_cell
from workbench.magics.naming import hiding, is_free, is_kernel, refuse_replacing
from workbench.magics.options import Request
from workbench.magics.own_launches import (
    OwnLaunches,
    again,
    is_about_launch,
    names_arguments,
    plan_of,
    watched_launches,
)
from workbench.magics.planning import make_plan
from workbench.magics.values import OFFERED
from workbench.runtime import guards
from workbench.runtime.jit import LaunchRecord
from workbench.source import CheckError, KernelError, LaunchError, OptionError
from workbench.source.given import instance
from workbench.trace import Launch, Skipped
from workbench.tuning.tune import without_search

MAGIC = "%%kernel"
_cells = itertools.count(1)


def run_cell(
    text: str,
    line: str = "",
    namespace: dict[str, Any] | None = None,
    *,
    file: str | None = None,
) -> KernelResult:
    """Run a cell's body and do with its kernel what the option line asks for.

    Args:
        text: the body, ordinary Python with one kernel or more.
        line: the options, as after `%%kernel`.
        namespace: where the body is executed; the names it binds stay there.
        file: what the cell is called in errors; a running number by default.

    Raises:
        KernelError: a wrong option, a kernel that does not compile, a failed check. What exists
            by then is in its `result` (a KernelResult, or None).
        KeyboardInterrupt: only while the cell's own Python ran, which may catch it; what that had
            launched has a result. Later ones end what was asked for and leave what was found in
            the result.
    """
    with keeping():
        return _run_cell(text, line, namespace, file)


def _run_cell(
    text: str, line: str, namespace: dict[str, Any] | None, file: str | None
) -> KernelResult:
    instance(text, str, "a cell is a text", "give its body as one string")
    instance(line, str, "the option line is a text", 'e.g. "add --args x,y,n --grid 4"')
    namespace = {} if namespace is None else namespace
    file = file or f"cell[{next(_cells)}]"
    offer_names(namespace)
    options, body_text, taken = split_cell(line, text)
    whole = f"{MAGIC} {options}\n{body_text}"
    with may_stop():  # what the options name is evaluated
        request = _parse(options, whole, namespace, file)
    if request.guard and request.no_guard:
        raise OptionError(
            "--guard and --no-guard contradict each other", request.place("no_guard"), code="K135",
            hint="give one of them",
        )  # fmt: skip
    refuse_replacing(request, namespace)
    said = True if request.guard else False if request.no_guard else None
    watched = watched_launches(request, namespace)
    launches = OwnLaunches()
    try:
        with (
            device.following(request.target), guards.guarding(said), watched as launches,
            own_code(),
        ):  # fmt: skip
            body = execute(whole, body_text, taken + 1, file, namespace)
    except KeyboardInterrupt:
        _keep(launches, request, namespace)
        raise
    kernels = _kernels(body, namespace)
    if request.bind in kernels:
        raise hiding(request)
    refuse_replacing(request, namespace)  # the body may have bound the name
    entry = _entry(request, kernels, body, file)
    try:
        result = _run(entry, request, namespace, launches)
    except KernelError as error:
        if not isinstance(error, CheckError | LaunchError):  # there is nothing to ask about
            body.restore(namespace, list(kernels))
        _remember(getattr(error, "result", None), request, namespace)
        raise
    _remember(result, request, namespace)
    return result


def _parse(options: str, whole: str, namespace: dict[str, Any], file: str) -> Request:
    from workbench.source import register_text

    register_text(file, whole)
    return parse("kernel", options, namespace, Origin(file, 1, len(MAGIC) + 2))


def _remember(result: KernelResult | None, request: Request, namespace: dict[str, Any]) -> None:
    if result is None:
        return
    registry.add(result)
    namespace["_kernel"] = result
    if request.bind is not None and is_free(request.bind, namespace):
        namespace[request.bind] = result


def _keep(launches: OwnLaunches, request: Request, namespace: dict[str, Any]) -> None:
    """Remember what a body had launched that was stopped."""
    for source in dict.fromkeys(launch.kernel.source for launch in launches.records):
        entry: Any = namespace.get(source.name)
        if not is_kernel(entry) or entry.kernel_source.function is not source.function:
            continue
        result = _launched(entry, request, launches, namespace)
        if result is not None:
            result.records[0].runs.append(Skipped(what="the rest", why="stopped"))
        _remember(result, request, namespace)


def offer_names(namespace: dict[str, Any]) -> None:
    """Bind the names that cells may use without importing them, where they are unbound."""
    for name, value in default_names().items():
        namespace.setdefault(name, value)


def default_names() -> dict[str, Any]:
    """Return what the names of `OFFERED` mean."""
    import workbench.triton as triton
    from workbench.runtime.jit import kernel

    meant = (kernel, triton.jit, triton.autotune, triton.language, triton, triton.cdiv)
    return dict(zip(OFFERED, meant, strict=True))


def _kernels(body: Body, namespace: dict[str, Any]) -> dict[str, Any]:
    """Return the kernel objects that the body bound; make them of functions that use `tl.`."""
    found = {name: value for name, value in body.bound.items() if is_kernel(value)}
    if found:
        return found
    from workbench.triton import jit

    for name in device_functions(body.tree):
        namespace[name] = jit(namespace[name])
        found[name] = namespace[name]
    return found


def _entry(request: Request, kernels: dict[str, Any], body: Body, file: str) -> Any:
    """Return the kernel that the options apply to: the named one, or the cell's last.

    One that another kernel of the cell calls is a helper, wherever it stands.
    """
    if request.name is not None:
        if request.name in kernels:
            return kernels[request.name]
        known = ", ".join(kernels) or "none"
        raise OptionError(
            f"the cell defines no kernel '{request.name}'; it defines: {known}", code="K131",
            hint="without a name the cell's last kernel is the one to run",
        )  # fmt: skip
    if not kernels:
        raise OptionError(
            "the cell defines no kernel", code="K131",
            hint="define a function that uses tl., e.g. def add(x_ptr, n): ... tl.load(x_ptr)",
        )  # fmt: skip
    last = last_entry(body.tree, kernels)
    return list(kernels.values())[-1] if last is None else kernels[last]


def _run(
    entry: Any, request: Request, namespace: dict[str, Any], launches: OwnLaunches
) -> KernelResult:
    source = entry.kernel_source
    if not names_arguments(request):
        own = _launched(entry, request, launches, namespace)
        if own is None:
            return _untyped(entry, request)
        return _again(entry, request, namespace, launches, own) if is_about_launch(request) else own
    with may_stop():
        plan = make_plan(request, source, namespace)
    return run_plan(entry, plan, previous_call(source.name))


def _again(
    entry: Any,
    request: Request,
    namespace: dict[str, Any],
    launches: OwnLaunches,
    own: KernelResult,
) -> KernelResult:
    """Do with the last launch of the body what the options ask for; its other launches stay."""
    source = entry.kernel_source
    last = launches.meant[source.function]
    with may_stop():
        plan = again(last, make_plan(request, source, namespace), namespace)
    lost = launches.why_not_again(source)
    if lost:
        own.records[0].runs.append(Skipped(what="the options", why=f"not launched again: {lost}"))
        return own
    with launches.as_before(source):
        try:
            result = run_plan(without_search(entry), plan, previous_call(source.name))
        except KernelError as error:
            found: KernelResult | None = getattr(error, "result", None)
            if found is not None:
                found.add_records(own.records)
            raise
    result.add_records(own.records)
    return result


def previous_call(name: str) -> Callable[[Subject], Callable[[], object] | None]:
    """Return what `--baseline self` calls: the kernel of the result before this one."""

    def call_for(subject: Subject) -> Callable[[], object] | None:
        earlier = registry.latest(name)
        if earlier is None:
            return None
        kernel, grid = earlier.kernel, subject.grid
        return lambda: kernel[grid](**subject.arguments, **subject.settings)

    return call_for


def _launched(
    entry: Any, request: Request, launches: OwnLaunches, namespace: dict[str, Any]
) -> KernelResult | None:
    """Return what the body's own launches left behind, None if it launched nothing."""
    source = entry.kernel_source
    records: dict[str, Record] = {}
    own = launches.of(source)
    for launch in own:
        compiled = launch.kernel
        if compiled.hash not in records:
            base = functools.partial(without_runs, compiled)
            records[compiled.hash] = Record(base, compiled)
        records[compiled.hash].runs.append(_launch_run(launch))
    if not records:
        return None
    found = list(reversed(records.values()))
    found[0].runs += [Skipped(what="remark", why=why) for why in remarks()]
    newest = found[0].compiled
    if newest is not None and newest.target == "cpu" and not device.has_gpu():
        found.insert(0, shown_chip_record(newest))
    return KernelResult(
        entry,
        source.name,
        found,
        show=request.show or (),
        embed=request.embed,
        plan=plan_of(own[-1], namespace),
    )


def _launch_run(launch: LaunchRecord) -> Launch:
    runtime = {p.name for p in launch.kernel.source.parameters if not p.is_constexpr}
    return Launch(
        t=time.time(),
        grid=launch.grid,
        device="cpu" if launch.device < 0 else f"cuda:{launch.device}",
        args=tuple(
            launch_argument(name, value) for name, value in launch.values.items() if name in runtime
        ),
        guarded=launch.kernel.target == "cpu" and guards.is_on(),
    )


def _untyped(entry: Any, request: Request) -> KernelResult:
    """Return Python and AST of a kernel whose types nobody told."""
    source = entry.kernel_source
    record = source_record(source)
    why = f"types unknown: add --args or --sig, or call {source.name}[grid](…)"
    record.runs.append(Skipped(what="compile", why=why))
    wanted = {
        "check": request.check is not None,
        "bench": request.bench,
        "tune": bool(request.tune) or request.tune_for is not None,
    }
    for what in (name for name, asked in wanted.items() if asked):
        record.runs.append(Skipped(what=what, why="nothing was launched"))
    show = request.show or ("source", "ast")
    return KernelResult(entry, source.name, [record], show=show, embed=request.embed)
