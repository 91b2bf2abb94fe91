"""The public functions behind the line magics, of the same names; none needs IPython.

Each takes what the magic takes as first word (a name, a result, a kernel object; None is the latest
result) and its options as keywords. Texts come back as `Shown`, a `str` that notebooks highlight.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from workbench.bench.plan import Plan
from workbench.bench.results import KernelResult
from workbench.bench.running import run_plan
from workbench.interrupts import may_stop
from workbench.magics import doctor as doctoring
from workbench.magics import glossary, registry, variants
from workbench.magics.cells import previous_call
from workbench.magics.explanations import EXPLANATIONS
from workbench.magics.options import Request
from workbench.magics.plain import passes_data, plain, stage_data
from workbench.magics.planning import make_plan
from workbench.magics.texts import Shown, line_story, passes_text, stage_text
from workbench.magics.values import closest
from workbench.source import KernelError, OptionError
from workbench.trace import StageId
from workbench.tuning.tune import SECONDS

__all__ = [
    "asm", "ast", "bench", "check", "explain", "gpu", "kernels", "llvm", "passes",
    "ptx", "sass", "save", "tile", "tune", "workbench",
]  # fmt: skip

Namespace = Mapping[str, Any] | None


def _stage(name: StageId) -> Callable[..., Shown]:
    def show(
        kernel: Any = None,
        *,
        lines: tuple[int, int] | None = None,
        line: int | None = None,
        raw: bool = False,
        loc: bool = False,
        as_json: bool = False,
        namespace: Namespace = None,
    ) -> Shown:
        request = Request(lines=lines, line=line, raw=raw, loc=loc)
        result = variants.find(kernel, namespace)
        trace = result.trace_with(name) or result.trace
        if as_json:
            return stage_data(trace, name, lines, line)
        return stage_text(trace, name, request)

    show.__name__ = show.__qualname__ = name
    show.__doc__ = (
        f"Return the {name} stage of a kernel with its source lines as comments.\n\n"
        "Args:\n"
        "    kernel: a name, K@SPEC, a result or a kernel object; the latest result if None.\n"
        "    lines: first and last row.\n"
        "    line: only what came from this source line.\n"
        "    raw: without the source lines.\n"
        "    loc: each row's source place at its end.\n"
        "    as_json: plain data as text: each row with its source line and ops.\n"
        "    namespace: where names are looked up first."
    )
    return show


ast = _stage("ast")
tile = _stage("tile")
gpu = _stage("gpu")
llvm = _stage("llvm")
ptx = _stage("ptx")
sass = _stage("sass")
asm = _stage("asm")


def passes(
    kernel: Any = None,
    which: str | None = None,
    *,
    everything: bool = False,
    grep: str | None = None,
    llvm_passes: bool = False,
    as_json: bool = False,
    namespace: Namespace = None,
) -> Shown:
    """Return the list of passes with their times, or one's rules and diff (by name or number).

    With `llvm_passes` they are LLVM's own that changed something, made anew for this; `as_json`:
    plain data as text.
    """
    if llvm_passes:
        from workbench.magics.inside_llvm import llvm_passes_data, llvm_passes_text

        show = llvm_passes_data if as_json else llvm_passes_text
        return show(variants.find(kernel, namespace), which, grep)
    trace = variants.find(kernel, namespace).trace
    if as_json:
        return passes_data(trace, which, everything=everything, grep=grep)
    return passes_text(trace, which, Request(everything=everything, grep=grep))


def explain(
    what: str | None = None, *, as_json: bool = False, namespace: Namespace = None
) -> Shown:
    """Explain an error code, what a source line became (`add:12`), an instruction, op or option.

    Instructions are named as listings name them (`HMMA.16816.F32`, `cp.async`), ops as the IR
    does (`tile.dot`); of the latest result it is said where they occur. Compile options are named
    as launches name them (`num_stages`, `fewer_stages`).
    """
    if not as_json:
        return _explained(what, namespace)
    return plain(**_explained_data(what, namespace))


def _explained_data(what: str | None, namespace: Namespace) -> dict[str, Any]:
    if what is None:
        return {"codes": {code: asdict(entry) for code, entry in EXPLANATIONS.items()}}
    if what.upper() in EXPLANATIONS:
        return {"code": what.upper(), **asdict(EXPLANATIONS[what.upper()])}
    entry = None if ":" in what else glossary.look_up(what)
    if entry is not None:
        return {"word": what, **entry.data()}
    return {"word": what, "text": str(_explained(what, namespace))}


def _explained(what: str | None, namespace: Namespace) -> Shown:
    if what is None:
        return Shown("\n".join(f"{code}  {entry.cause}" for code, entry in EXPLANATIONS.items()))
    if what.upper() in EXPLANATIONS:
        return Shown(EXPLANATIONS[what.upper()].render(what.upper()))
    name, colon, line = what.rpartition(":")
    if colon and line.isdecimal():
        return line_story(variants.find(name or None, namespace).trace, int(line))
    entry = glossary.look_up(what)
    if entry is not None:
        told = _remarks(what, namespace) if entry.language == glossary.OPTION else ()
        rows = _occurrences(entry, what) or [f"  {remark}" for remark in told]
        return Shown("\n".join([entry.render(what), *rows]))
    if re.fullmatch(r"[Kk]\d+", what):
        better = closest(what.upper(), EXPLANATIONS)
        raise OptionError(
            f"no error code {what}{better}", code="K129", hint="%explain alone lists all"
        )
    return _mentioned(what, namespace)


def _occurrences(entry: glossary.Entry, word: str) -> list[str]:
    """Say where the latest result has an instruction or op, if there is one."""
    try:
        result = registry.find(None)
    except OptionError:
        return []
    language, name = entry.language, entry.mnemonic
    if language == glossary.OPTION:
        return []
    found = (glossary.occurrences(t, language, name, word) for t in result.traces)
    return [f"  {sentence}" for sentence in found if sentence]


def _mentioned(what: str, namespace: Namespace) -> Shown:
    """Explain a word by the remarks of the latest result that mention it."""
    found = _remarks(what, namespace)
    if not found:
        raise OptionError(
            f"nothing is known about '{what}'", code="K129",
            hint="give an error code (K302), KERNEL:LINE, an instruction or op as a listing "
            "names it (HMMA, cp.async, tile.dot), a compile option, or a word of a remark",
        )  # fmt: skip
    return Shown("\n".join(found))


def _remarks(what: str, namespace: Namespace) -> list[str]:
    """Return the remarks of the latest result that mention a word."""
    try:
        problems = registry.find(None, namespace).problems
    except OptionError:  # no result has remarks yet
        problems = []
    found = [
        f"{remark.severity} {remark.code}: {remark.text}"
        for remark in problems
        if what.lower() in f"{remark.code} {remark.text}".lower()
    ]
    return list(dict.fromkeys(found))


def check(kernel: Any, request: Request, namespace: Mapping[str, Any]) -> KernelResult:
    """Run `%check`: launch an existing kernel and compare, as the options say.

    Without `--check` with what its latest run was compared with, else with the interpreter.
    """
    return _run_existing(kernel, request, namespace, checking=True)


def bench(kernel: Any, request: Request, namespace: Mapping[str, Any]) -> KernelResult:
    """Run `%bench`: time an existing kernel, as the options say."""
    return _run_existing(kernel, replace_request(request, bench=True), namespace)


def tune(kernel: Any, request: Request, namespace: Mapping[str, Any]) -> KernelResult:
    """Run `%tune`: search among configurations of an existing kernel, as the options say."""
    limit = request.tune_for or SECONDS
    return _run_existing(kernel, replace_request(request, tune_for=limit), namespace)


def replace_request(request: Request, **changes: Any) -> Request:
    """Return a request with some fields changed."""
    from dataclasses import replace

    return replace(request, **changes)


def _run_existing(
    what: Any, request: Request, namespace: Mapping[str, Any], *, checking: bool = False
) -> KernelResult:
    registry.refuse_spec(what)
    kernel: Any = namespace.get(what) if isinstance(what, str) else what
    if not hasattr(kernel, "kernel_source"):
        kernel = registry.find(what, namespace).kernel
    source = kernel.kernel_source
    known = None
    if request.args is None and request.make is None:
        earlier = what if isinstance(what, KernelResult) else registry.latest(source.name)
        known = None if earlier is None else earlier.plan
        known = known if known and (known.arguments is not None or known.make) else None
    if request.args is None and request.make is None and known is None:
        raise OptionError(
            f"what are the arguments of {source.name}?", code="K110",
            hint="add --args x,y,… or --make f",
        )  # fmt: skip
    with may_stop():
        plan = make_plan(request, source, namespace)
    if known is not None:
        plan = _like(plan, known, request)
    if checking and not plan.checked:
        plan = replace(plan, interpreted=True)
    try:
        result = run_plan(kernel, plan, previous_call(source.name))
    except KernelError as error:
        found: KernelResult | None = getattr(error, "result", None)
        # What the error proposes looks for it; what was asked wrongly is not asked again.
        if found is not None and found.subject is not None and not isinstance(error, OptionError):
            registry.add(found)
        raise
    registry.add(result)
    return result


def _like(plan: Plan, known: Plan, request: Request) -> Plan:
    """Return a plan with what only the one before it says.

    That is arguments, sizes, grid and settings; and what is right, unless the request says it.
    """
    if request.check is None:
        plan = replace(
            plan,
            reference=known.reference,
            reference_text=known.reference_text,
            rtol=known.rtol if plan.rtol is None else plan.rtol,
            atol=known.atol if plan.atol is None else plan.atol,
        )
    return replace(
        plan,
        arguments=known.arguments,
        words=known.words,
        make=known.make,
        points=plan.points if request.axes else known.points,
        grid=plan.grid or known.grid,
        settings={**known.settings, **plan.settings},
        target=known.target if request.target == "auto" else plan.target,
        places={**known.places, **plan.places},
    )


#: What a row of `%kernels` says, and what it is called as plain data.
_HEADINGS = {
    "kernel": "kernel", "target": "target", "specialisation": "spec", "regs": "registers",
    "spills": "spill_bytes", "ms": "milliseconds", "check": "check",
}  # fmt: skip


def kernels(name: str | None = None, *, clear: bool = False, as_json: bool = False) -> Shown:
    """Return a table of the kernels that have results, or of one (K, K@SPEC); `clear` forgets them.

    One row for each specialisation: its latest time and the verdict of its latest check. Raises
    OptionError K129 for a name without results.
    """
    if clear:
        registry.clear()
    own, _, spec = (name or "").partition("@")
    if name is not None and not clear:
        registry.find(name)
    rows: list[tuple[str, ...]] = [tuple(_HEADINGS)]
    latest: dict[tuple[str, ...], tuple[Any, ...]] = {}
    for result in registry.results():
        for trace in result.traces:
            row = _row(trace)
            if own not in ("", row[0]) or not (spec in ("", row[1]) or spec in row[2]):
                continue
            older = latest.get(row[:3], ("",) * len(row))
            latest[row[:3]] = tuple(
                old if new in (None, "") else new for new, old in zip(row, older, strict=True)
            )
    if as_json:
        names = _HEADINGS.values()
        return plain(kernels=[
            {n: None if v == "" else v for n, v in zip(names, row, strict=True)}
            for row in latest.values()
        ])  # fmt: skip
    rows += [tuple(map(_word, row)) for row in latest.values()]
    if len(rows) == 1:
        return Shown("no results")
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS))]
    return Shown(
        "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        )
    )


def _word(value: Any) -> str:
    return "" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)


def _row(trace: Any) -> tuple[Any, ...]:
    found = trace.resources
    spills = found.spill_store_bytes
    own = [bench for bench in trace.runs.benches if bench.kind == "self" and bench.milliseconds]
    times = [launch.milliseconds for launch in trace.runs.launches if launch.milliseconds]
    last = own[-1].milliseconds[-1][1] if own else times[-1] if times else None
    checks = trace.runs.checks
    verdict = "" if not checks else "ok" if checks[-1].ok else "FAILED"
    return (
        trace.kernel.name,
        trace.kernel.target,
        trace.kernel.spec,
        found.registers,
        None if spills is None else spills + (found.spill_load_bytes or 0),
        last,
        verdict,
    )


def save(
    kernel: Any, path: str | Path, *, force: bool = False, namespace: Namespace = None
) -> Path:
    """Write a result; the suffix decides: .html .wbt .json .ptx .ll .cubin .c .py .png .csv ….

    `.c` launches the kernel from C, `.h` declares that; `.py` is the launch as a file of its own.
    """
    return variants.find(kernel, namespace).save(path, force=force)


def workbench(what: str = "doctor", value: str | None = None, *, as_json: bool = False) -> Shown:
    """Return what is installed, or show and change settings.

    Args:
        what: doctor, version, view, config or cache.
        value: view: auto, widget or static; cache: clear; config: name=value.
        as_json: plain data as text.
    """
    known = ("doctor", "version", "view", "config", "cache")
    if what not in known:
        better = closest(what, known)
        raise OptionError(f"unknown word '{what}'{better}", code="K103", hint=" ".join(known))
    if value is not None and what in ("doctor", "version"):
        raise OptionError(
            f"unexpected '{value}': {what} takes no word", code="K103", hint=f"%workbench {what}"
        )
    text: str = getattr(doctoring, what)(value)
    return plain(**doctoring.data_of(what, text)) if as_json else Shown(text)
