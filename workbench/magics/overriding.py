"""`%%override`: edit the text of a stage, compile what comes after it, compare with the kernel.

Works without IPython. The kernel itself stays as it is: what comes of the text is a result of its
own, which later cells reach by `--as`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

from workbench.bench import device
from workbench.bench.arrays import clone, dtype_of, is_array, to_numpy
from workbench.bench.binding import Binder
from workbench.bench.checking import Verdict, check_launch
from workbench.bench.phases import say
from workbench.bench.reference import References
from workbench.bench.results import KernelResult, Record
from workbench.bench.roundings import UNIT
from workbench.bench.running import chip, launch_record, run_plan, synchronize, without_runs
from workbench.bench.subject import Subject
from workbench.interpreter import run_module
from workbench.magics import registry, variants
from workbench.magics.grammar import Origin, parse, split_cell
from workbench.magics.naming import refuse_replacing
from workbench.magics.options import Request
from workbench.magics.plain import heading, plain
from workbench.magics.planning import make_plan
from workbench.magics.texts import Shown
from workbench.runtime.compiled import CompiledKernel
from workbench.runtime.compiling import overridden
from workbench.runtime.measuring import measure
from workbench.runtime.timing import Effort
from workbench.source import OptionError, register_text
from workbench.source.budgets import checking
from workbench.source.overrides import Override
from workbench.trace import STAGE_IDS, Skipped
from workbench.trace.offers import COMMENTS, override_cell

#: Stages whose text can be edited, for one target or another.
STAGES = tuple(COMMENTS)


class OverrideResult(KernelResult):
    """What an edited stage gave: the edited kernel's record, then the unedited one's.

    Attributes:
        comparison: both beside each other, as text.
        rows: the same as (what, unedited, edited).
    """

    comparison: Shown = Shown("")
    rows: tuple[tuple[str, str, str], ...] = ()

    def __repr__(self) -> str:
        return str(self.comparison)


def override_text(
    kernel: Any, stage: str | None, *, namespace: Mapping[str, Any] | None = None
) -> Shown:
    """Return the cell in which a stage of a kernel is edited: `%%override` and its present text."""
    known = _known(stage)
    compiled = _chosen(_found(kernel, namespace), known)
    cell = override_cell(compiled.trace, stage or "")
    if cell is None:
        raise OptionError(
            f"{compiled.name} for {compiled.target} has no {stage} to edit; it has "
            f"{', '.join(name for name in STAGES if compiled.trace.text(name))}",
            code="K150",
        )
    return Shown(cell)


def text_asked_for(request: Request, namespace: Mapping[str, Any]) -> Shown:
    """Return what `override_text` does for `request.names` and `--target`; refuses settings."""
    kernel, stage = (*request.names, None, None)[:2]
    return override_text(_place(kernel, request), stage, namespace=namespace)


def run_override(
    text: str, line: str, namespace: dict[str, Any], *, file: str = "cell"
) -> OverrideResult:
    """Compile a kernel from the edited text of a stage, and compare; what `%%override` does.

    Args:
        text: the cell's body, the text of the stage.
        line: KERNEL STAGE and options.
        namespace: where names are looked up, and `--as` binds.
        file: what the cell is called in errors.

    Raises:
        KernelError: a text that the stage does not take, at its row; another result than the
            unedited kernel's (CheckError, whose `result` has everything).
    """
    options, body, taken = split_cell(line, text)
    register_text(file, f"%%override {options}\n{body}")
    request = parse("override", options, namespace, Origin(file, 1, 12))
    if len(request.names) < 2:
        raise OptionError("override needs a kernel and a stage", code="K103", hint=_HINT)
    refuse_replacing(request, namespace)
    compiled, result = _named(request, namespace)
    override = Override(request.names[1], body.rstrip() + "\n", file, taken + 1)
    found = compare_override(result, compiled, override, request, namespace)
    namespace["_kernel"] = found
    if request.bind is not None:
        namespace[request.bind] = found
    if found.error is not None:
        found.error.result = found  # type: ignore[attr-defined]
        raise found.error
    return found


def override_file(
    kernel: Any, request: Request, namespace: Mapping[str, Any]
) -> Shown | OverrideResult:
    """Return a stage's present text, or what its edited text in a file gives.

    That is what the command line does: the kernel is compiled, and launched where `--args` or
    `--make` say so, then `request.names` are its place, the stage, and the path if there is one.
    Raises as `run_override`.
    """
    known = _known(request.names[1] if len(request.names) > 1 else None)
    if request.target == "auto" and request.args is None and request.make is None:
        request = replace(request, target=chip() if device.has_gpu() else "sm_90a")
    result = run_plan(kernel, make_plan(request, kernel.kernel_source, namespace))
    compiled = _chosen(result, known)
    if len(request.names) < 3:
        return Shown(compiled.trace.text(known), known)  # type: ignore[arg-type]
    path = request.names[2]
    override = Override(known, text_from(path).rstrip() + "\n", path, 1)
    found = compare_override(
        result, compiled, override, replace(request, args=None, make=None), namespace
    )
    if found.error is not None:
        raise found.error
    return found


def as_json(found: OverrideResult | Shown, stage: str) -> Shown:
    """Return what an edit gave, or the text to edit, as `--json` prints it."""
    if not isinstance(found, OverrideResult):
        first, _, rest = str(found).partition("\n")  # a cell's magic is none of the stage's text
        return plain(stage=stage, text=rest if first.startswith("%%override") else str(found))
    rows = [dict(zip(("what", "unedited", "edited"), row, strict=True)) for row in found.rows]
    checks = [check for trace in found.traces for check in trace.runs.checks]
    return plain(
        ok=found.error is None, **heading(found.trace), stage=stage, rows=rows, checks=checks,
        edited=found.trace.resources,
    )  # fmt: skip


_HINT = "%override add ptx prints the cell to edit; " + "stages: " + " ".join(STAGES)


def _named(request: Request, namespace: Mapping[str, Any]) -> tuple[CompiledKernel, KernelResult]:
    """Return the compilation to edit, and the result that knows how it was launched."""
    name = _place(request.names[0], request)
    found = _found(name, namespace)
    compiled = _chosen(found, _known(request.names[1]))
    return compiled, registry.find(name.partition("@")[0], namespace)


def _place(name: Any, request: Request) -> Any:
    """Return the place of the kernel that a request names, K@TARGET with `--target`."""
    if request.settings or request.sig is not None or request.assume:
        raise _of_a_cell(name)
    if request.target == "auto" or not isinstance(name, str):
        return name
    if "@" in name and name.partition("@")[2] != request.target:
        raise OptionError(
            f"'{name}' is for another target than --target {request.target}", code="K103",
            hint="give one of them",
        )  # fmt: skip
    return name if "@" in name else f"{name}@{request.target}"


def _found(kernel: Any, namespace: Mapping[str, Any] | None) -> KernelResult:
    """Return what a kernel or K@TARGET stands for: a cell's line names no settings."""
    if isinstance(kernel, str) and "=" in kernel.partition("@")[2]:
        raise _of_a_cell(kernel)
    return variants.find(kernel, namespace)


def _of_a_cell(kernel: str) -> OptionError:
    return OptionError(
        f"an edit is of a kernel as its cell has it, '{kernel}' names settings", code="K150",
        hint="give the %%kernel cell --set NAME=VALUE, then edit KERNEL or KERNEL@TARGET",
    )  # fmt: skip


def _known(stage: str | None) -> str:
    if stage not in STAGES:
        what = f"'{stage}' is no stage that can be edited" if stage else "which stage?"
        raise OptionError(what, code="K150", hint=_HINT)
    return stage


def _chosen(result: KernelResult, stage: str) -> CompiledKernel:
    """Return the compilation to edit: the one that was launched, if it has such a stage."""
    found = [record.compiled for record in result.records if record.compiled is not None]
    launched = result.subject.compiled if result.subject is not None else None
    able = [one for one in found if _has(one, stage)]
    if not able:
        targets = ", ".join(one.target for one in found) or "no target"
        raise OptionError(
            f"{result.name} was compiled for {targets}, which cannot go on from '{stage}'",
            code="K150",
            hint="tile and llvm can be edited for every target but the interpreter, "
            "gpu and ptx for GPUs",
        )
    return next((one for one in able if one is launched), able[0])


def _has(compiled: CompiledKernel, stage: str) -> bool:
    if stage == "tile":
        return True
    gpu = compiled.target.startswith("sm_")
    return gpu or (stage == "llvm" and compiled.target == "cpu")


def compare_override(
    result: KernelResult,
    compiled: CompiledKernel,
    override: Override,
    request: Request,
    namespace: Mapping[str, Any],
) -> OverrideResult:
    """Return what an edited stage gives beside the unedited kernel, run where that is possible."""
    say(f"compiling {compiled.name} from its {override.stage}")
    edited = overridden(compiled, override)
    record = Record(lambda: without_runs(edited), edited)
    unedited = Record(lambda: without_runs(compiled), compiled)
    _ = edited.launch  # what ptxas or LLVM refuse is said before anything runs
    rows = _sizes(compiled, edited)
    subject, why = _subject(result, compiled, request, namespace)
    interpreted = subject is None and why == _NO_GPU and override.stage in ("tile", "gpu")
    if interpreted:
        subject, why = _interpreted(result, compiled)
    verdict = None
    if subject is None:
        record.runs += [Skipped(what="launch", why=why)]
        rows.append(("run", f"not launched: {why}", ""))
    else:
        calls = (_call(subject.compiled, subject), _call(edited, subject))
        if interpreted:
            calls = (_in_interpreter(subject.compiled, subject), _in_interpreter(edited, subject))
        verdict = _run(subject, edited, record, rows, request, calls)
        if interpreted:
            rows.append(("run", f"GPU IR in the interpreter: {_NO_GPU}", ""))
    found = OverrideResult(
        result.kernel, result.name, [record, unedited], embed=result.embed,
        show=("source", override.stage),
        error=verdict.error if verdict is not None else None,
    )  # fmt: skip
    found.subject = subject
    found.rows = tuple(rows)
    found.comparison = Shown(_table(compiled, override, rows))
    return found


def _subject(
    result: KernelResult, compiled: CompiledKernel, request: Request, namespace: Mapping[str, Any]
) -> tuple[Subject | None, str]:
    """Return the launch whose inputs both get, or why there is none."""
    if request.no_run:
        return None, "--no-run was given"
    if compiled.target.startswith("sm_") and not device.has_gpu():
        return None, _NO_GPU
    subject = result.subject
    if request.args is not None or request.make is not None:
        source = compiled.source
        plan = replace(make_plan(request, source, namespace), target=compiled.target)
        binder = Binder(result.kernel, source, plan)
        subject = binder.bind(plan.points[0])
    if subject is None:
        return None, "no arguments are known; give --args x,y,… or --make f"
    if subject.compiled.signature != compiled.signature or subject.target != compiled.target:
        where = f"{subject.target} with other types or sizes"
        return None, f"the arguments known are of a launch for {where}; give --args x,y,…"
    return subject, ""


_NO_GPU = "no CUDA device"

#: More programs than these would keep a user waiting in the interpreter.
MOST_INTERPRETED = 1024


def _interpreted(result: KernelResult, compiled: CompiledKernel) -> tuple[Subject | None, str]:
    """Return a launch whose GPU IR the interpreter runs, or why there is none."""
    subject = result.subject
    if subject is None or subject.compiled.signature != compiled.signature:
        return None, _NO_GPU
    count = prod(subject.grid)
    if count > MOST_INTERPRETED:
        return None, f"{_NO_GPU}, and {count:,} programs are many for the interpreter"
    parameters = {parameter.name for parameter in compiled.module.parameters}
    if not parameters <= set(subject.arguments):
        return None, f"{_NO_GPU}, and the interpreter takes plain arguments only"
    return replace(subject, target="interpreter", compiled=compiled, module=compiled.module), ""


def _in_interpreter(
    kernel: CompiledKernel, subject: Subject
) -> Callable[[Mapping[str, Any]], object]:
    """Return what interprets a compilation's GPU IR over run-time arguments by name."""
    module = kernel.compiled.built.gpu
    assert module is not None
    names = [parameter.name for parameter in module.parameters]

    def run(values: Mapping[str, Any]) -> None:
        with checking():
            run_module(module, subject.grid, [values[name] for name in names])

    return run


def _call(kernel: CompiledKernel, subject: Subject) -> Callable[[Mapping[str, Any]], object]:
    """Return what launches one compilation over run-time arguments by name."""
    free = [name for name, fact in kernel.signature.arguments if not fact.is_constant]
    bound = kernel[subject.grid]
    return lambda values: bound(*(values[name] for name in free))


def _run(
    subject: Subject, edited: CompiledKernel, record: Record, rows: list[tuple[str, str, str]],
    request: Request, calls: tuple[Callable[[Mapping[str, Any]], object], ...],
) -> Verdict:  # fmt: skip
    """Launch both on copies of the same inputs, compare what they store, and time them."""
    copied = {n: clone(v) if is_array(v) else v for n, v in subject.arguments.items()}
    wanted = {n: clone(v) if is_array(v) else v for n, v in subject.arguments.items()}
    old, new = calls
    say("launching both")
    old(wanted)
    synchronize(subject)
    outputs = subject.outputs
    reference = References({name: wanted[name] for name in outputs}, "as written")
    for name in outputs:
        reference.units[name] = UNIT.get(dtype_of(wanted[name]), 0.0)
    mine = replace(
        subject, arguments=copied, compiled=edited, module=edited.module,
        launch=lambda: new(copied), relaunch=new,
    )  # fmt: skip
    verdict = check_launch(
        mine, reference, "the unedited kernel", rtol=request.rtol, atol=request.atol,
        synchronize=lambda: synchronize(subject),
    )  # fmt: skip
    record.runs += [launch_record(mine, None), verdict.record]
    equal = all(
        to_numpy(copied[name]).tobytes() == to_numpy(wanted[name]).tobytes() for name in outputs
    )
    words = "the same, bit for bit" if equal else f"largest error {verdict.record.max_abs:.3g}"
    rows.append(("result", ", ".join(outputs), words if verdict.ok else f"WRONG: {words}"))
    if subject.target != "interpreter":
        say("timing both", still=True)
        timed = {"new": lambda: new(copied), "old": lambda: old(wanted)}
        times = measure(timed, gpu=subject.gpu, effort=_EFFORT)
        milliseconds = [f"{times[name].median:.4g} ms" for name in ("old", "new")]
        rows.append(("run", milliseconds[0], milliseconds[1]))
    if edited.target == "cpu" and not edited.can_be_checked:
        rows.append(("guards", "", "none: edited code checks no access"))
    return verdict


#: Enough to see a difference of some per cent.
_EFFORT = Effort(milliseconds=50.0)


def _sizes(compiled: CompiledKernel, edited: CompiledKernel) -> list[tuple[str, str, str]]:
    """Return what both compilations are made of: rows and times of stages, and resources."""
    old, new = compiled.trace, edited.trace
    rows: list[tuple[str, str, str]] = []
    for name in STAGE_IDS:
        one, two = old.stage(name), new.stage(name)
        if name in ("source", "ast") or one is None or two is None:
            continue
        mark = "" if _code(old.text(name)) == _code(new.text(name)) else "  ≠"
        rows.append((name, _stage(old, name), _stage(new, name) + mark))
    for name, unit in (
        ("registers", ""), ("spill_store_bytes", " B"), ("spill_load_bytes", " B"),
        ("shared_bytes", " B"), ("code_bytes", " B"),
    ):  # fmt: skip
        values = [getattr(trace.resources, name) for trace in (old, new)]
        if any(value is not None for value in values):
            words = [f"{value:,}{unit}" if value is not None else "–" for value in values]
            mark = "" if words[0] == words[1] else "  ≠"
            title = name.removesuffix("_bytes").replace("_", " ")
            rows.append((title, words[0], words[1] + mark))
    return rows


def _code(text: str) -> list[str]:
    """Return the rows of a stage without what says only where they came from."""
    rows = (_PLACE.sub("", row).rstrip() for row in text.splitlines())
    return [row for row in rows if row]


#: Debug lines and labels of LLVM IR, PTX and assembly.
_PLACE = re.compile(r", !dbg !\d+|^!.*|^\s*(?:\.loc|\.file|//|;|\$L__(?:tmp|func)).*")


def _stage(trace: Any, name: Any) -> str:
    stage = trace.stage(name)
    took = f", {stage.milliseconds:.1f} ms" if stage.milliseconds is not None else ""
    count = len(trace.text(name).splitlines())
    return f"{count:,} rows{took}" if count else stage.note or "–"


def _table(compiled: CompiledKernel, override: Override, rows: list[tuple[str, str, str]]) -> str:
    head = (f"{override.stage} edited", "unedited", "edited")
    every = [head, *rows]
    widths = [max(len(row[column]) for row in every) for column in (0, 1)]
    lines = [f"{compiled.name} for {compiled.target}"]
    for row in every:
        line = f"  {row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}  {row[2]}"
        lines.append(line.rstrip())
    return "\n".join(lines)


def text_from(path: str) -> str:
    """Return the edited text that a file holds; raises OptionError K103."""
    try:
        return Path(path).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(
            f"{path} cannot be read: {error}", code="K103",
            hint="%override KERNEL STAGE without a path puts the present text into a cell",
        ) from error  # fmt: skip


__all__ = ["OverrideResult", "override_text", "run_override", "text_from"]
