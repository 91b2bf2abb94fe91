"""The command line: `workbench compile | check | bench | whatif | schedule | puzzles | …`.

Flags, defaults and texts are those of the magics (one table, `magics/options.py`). Exit codes:
0 ok, 1 check failed, 2 usage, 3 compile error, 4 launch error, 5 tool missing.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from workbench.magics.grammar import parse_arguments
from workbench.magics.options import Request, usage
from workbench.magics.values import closest
from workbench.source import (
    CheckError,
    CompileError,
    KernelError,
    LaunchError,
    OptionError,
    Span,
    ToolError,
    budgets,
)
from workbench.source.given import from_environment
from workbench.trace import STAGE_IDS

#: Commands that say what `%workbench` says to the same word.
_WORDS = ("doctor", "version", "config", "cache")

OK, CHECK_FAILED, USAGE, COMPILE_ERROR, LAUNCH_ERROR, TOOL_MISSING = range(6)

COMMANDS = {
    "compile": "FILE.py::KERNEL [options]   compile without data, print or write stages",
    "check": "FILE.py::KERNEL [options]   launch and compare with a reference",
    "bench": "FILE.py::KERNEL [options]   time, beside baselines",
    "tune": "FILE.py::KERNEL [options]   search for the fastest configuration",
    "bisect": "FILE.py::KERNEL [FILE.py::RIGHT] [options]   name the first wrong op",
    "diff": "A B [--output PAGE.html]     compare two traces, line by line",
    "follow": "TRACE LINE|VALUE|STAGE:ROW   what became of it, pass by pass",
    "whatif": "FILE.py::KERNEL --axis A=V,… [options]   what other settings would give, not run",
    "passes": "FILE.py::KERNEL [PASS] [options]   what each pass of the compiler did",
    "override": "FILE.py::KERNEL STAGE [PATH] [options]   compile from a stage's edited text",
    "kernels": "FILE.py                    the kernels that a file or notebook defines",
    "schedule": "FILE.py::KERNEL [options]   what each role does in a round of pipelined loops",
    "layouts": "FILE.py::KERNEL [VALUE|LINE] --sig … [options]   where elements of tiles lie",
    "access": "FILE.py::KERNEL [VALUE|LINE] --sig … [options]   what loads and stores cost",
    "roofline": "FILE.py::KERNEL [options]   how near it comes to this machine's copy and peak",
    "step": "FILE.py::KERNEL [PROGRAM] [options]   each op of one program, with its value",
    "explain": "CODE | INSTRUCTION | OP | OPTION   what an error code, instruction, … means",
    "doctor": "                            what is installed, what is missing",
    "version": "                           versions",
    "config": "                            settings, and the limits of a compilation and a check",
    "cache": "[clear]                      where compiled kernels lie; empty it",
    "view": "TRACE | NOTEBOOK::KERNEL    write the viewer page and open it",
    "puzzles": "DIR [--grade]              write the twelve puzzles, or grade those that are there",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or given[0] in ("-h", "--help", "help"):
        _print(_help())
        return OK if given else USAGE
    command, rest = given[0], given[1:]
    if command in ("-V", "--version"):
        command = "version"
    if {"-h", "--help"} & set(rest) and command in COMMANDS:
        _print(f"workbench {command} {COMMANDS[command].strip()}\n\n{usage(command)}".rstrip())
        return OK
    as_json = "--json" in rest
    try:
        return _run(command, rest)
    except KernelError as error:
        _report(error, as_json=as_json)
        return exit_code(error)


def _run(command: str, rest: Sequence[str]) -> int:
    actions: dict[str, Callable[[Request], int]] = {
        "compile": _compile, "check": _check, "bench": _bench, "tune": _tune, "explain": _explain,
        "bisect": _bisect, "diff": _diff, "follow": _follow, "whatif": _whatif,
        "layouts": _layouts, "access": _access, "roofline": _roofline, "schedule": _schedule,
        "passes": _passes, "override": _override, "kernels": _kernels,
        "step": _step, "doctor": _said, "version": _said, "config": _said, "cache": _said,
        "view": _view, "puzzles": _puzzles,
    }  # fmt: skip
    if command not in actions:
        better = closest(command, actions)
        raise OptionError(
            f"unknown command '{command}'{better}",
            code="K103",
            hint=f"commands: {' '.join(actions)}",
        )
    request = parse_arguments(command, rest)
    for name, budget in budgets.BUDGETS.items():
        if budget.raisable:
            chosen = from_environment(f"WORKBENCH_LIMIT_{name.upper()}", 1)
            if chosen is not None:
                budgets.raise_limit(name, chosen)
    needs = actions.keys() - {"explain", *_WORDS}
    if command in needs and request.name is None:
        raise OptionError(f"{command} needs {COMMANDS[command].split('  ')[0]}", code="K103")
    if command in _WORDS:
        request = replace(request, names=(command, *request.names))
    return actions[command](request)


def exit_code(error: KernelError) -> int:
    """Return the exit code that stands for an error's family."""
    match error:
        case CheckError():
            return CHECK_FAILED
        case OptionError():
            return USAGE
        case ToolError():
            return TOOL_MISSING
        case CompileError():
            return COMPILE_ERROR
        case LaunchError():
            return LAUNCH_ERROR
        case _:
            return COMPILE_ERROR


# -- commands ---------------------------------------------------------------------------------
def _compile(request: Request) -> int:
    from workbench.bench.device import has_gpu
    from workbench.bench.running import chip, run_plan
    from workbench.magics.lines import replace_request
    from workbench.magics.loading import load_kernel
    from workbench.magics.plain import heading, plain
    from workbench.magics.planning import make_plan

    kernel, namespace = load_kernel(request.name or "")
    if request.target == "auto":
        request = replace_request(request, target=chip() if has_gpu() else "sm_90a")
    result = run_plan(kernel, make_plan(request, kernel.kernel_source, namespace))
    if request.output is not None and not request.emit:
        path = result.save(request.output, force=request.force)
        _say(f"wrote {path}")
        if request.json:
            _print(str(plain(**heading(result.trace), path=str(path))))
        return OK
    default = {"cpu": "asm", "interpreter": "tile"}.get(request.target, "ptx")
    emitted = request.emit or (default,)
    if request.json:
        stages = {name: _text(result, name) for name in emitted}
        _print(str(plain(**heading(result.trace), resources=result.trace.resources, stages=stages)))
        return OK
    for name in emitted:
        _emit(result, name, request, several=len(emitted) > 1)
    return OK


def _emit(result: Any, name: str, request: Request, *, several: bool) -> None:
    suffixes = {"llvm": ".ll", "asm": ".s"}
    if request.output is None and name not in ("html", "wbt", "cubin"):
        heading = f"// ==== {name} ====\n" if several else ""
        _print(f"{heading}{_text(result, name)}")
        return
    if request.output is None:
        raise OptionError(f"--emit {name} needs -o PATH", code="K101")
    path = Path(request.output)
    suffix = suffixes.get(name, f".{name}")
    if several or path.suffix != suffix:
        path = path.with_suffix(suffix)
    if name in ("source", "ast", "tile", "gpu"):
        if path.exists() and not request.force:
            raise OptionError(f"{path} exists", code="K802", hint="add --force to overwrite it")
        path.write_text(_text(result, name) + "\n", encoding="utf-8")
    else:
        path = result.save(path, force=request.force)
    _say(f"wrote {path}")


def _text(result: Any, name: str) -> str:
    if name not in STAGE_IDS:
        better = closest(name, (*STAGE_IDS, "html", "wbt", "json", "cubin"))
        raise OptionError(f"cannot emit '{name}'{better}", code="K122")
    trace = result.trace_with(name)
    if trace is not None:
        return trace.text(name)
    stage = result.trace.stage(name)
    if stage is not None and stage.note:
        raise ToolError(f"there is no {name}: {stage.note}")
    known = ", ".join(result.stages)
    raise OptionError(f"there is no {name} for this target; there are {known}", code="K129")


def _check(request: Request) -> int:
    from workbench.magics import lines
    from workbench.magics.loading import load_kernel

    kernel, namespace = load_kernel(request.name or "")
    result = lines.check(kernel, request, namespace)
    return _finish(result, request)


def _bench(request: Request) -> int:
    from workbench.magics import lines
    from workbench.magics.loading import load_kernel

    kernel, namespace = load_kernel(request.name or "")
    result = lines.bench(kernel, request, namespace)
    return _finish(result, request)


def _tune(request: Request) -> int:
    from workbench.magics import lines
    from workbench.magics.loading import load_kernel

    kernel, namespace = load_kernel(request.name or "")
    result = lines.tune(kernel, request, namespace)
    if request.json:
        from workbench.magics.plain import result_data

        _print(str(result_data(result)))
    else:
        _print(str(result.tune))
    if request.output is not None:
        _say(f"wrote {result.save(request.output, force=request.force)}")
    return OK


def _finish(result: Any, request: Request) -> int:
    if request.json:
        from workbench.magics.plain import result_data

        _print(str(result_data(result)))
    else:
        _print(repr(result))
    if request.output is not None:
        _say(f"wrote {result.save(request.output, force=request.force)}")
    return OK


def _bisect(request: Request) -> int:
    from workbench.magics import questioning
    from workbench.magics.loading import load_kernel

    kernel, namespace = load_kernel(request.names[0])
    right = load_kernel(request.names[1])[0] if len(request.names) > 1 else None
    answer = questioning.bisect(kernel, request, namespace, right)
    _print(questioning.as_json(answer) if request.json else answer.text)
    return OK if answer.verdict == "right" else CHECK_FAILED


def _only_traces(command: str, name: str) -> None:
    """Refuse a kernel's name where a saved trace is asked; raises OptionError K103."""
    if ".py::" in name:
        raise OptionError(
            f"{command} takes saved traces, '{name}' names a kernel", code="K103",
            hint=f"workbench compile {name} … -o a.wbt saves one",
        )  # fmt: skip


def _diff(request: Request) -> int:
    from workbench.magics import questioning
    from workbench.magics.comparisons import shown_comparison

    if len(request.names) != 2:
        raise OptionError("diff needs two traces", code="K103", hint="workbench diff a.wbt b.wbt")
    for name in request.names:
        _only_traces("diff", name)
    if request.stage is not None:
        text = questioning.diff(*request.names, stage=request.stage, labels=request.labels)
        _print(str(questioning.as_json(text)) if request.json else str(text))
        return OK
    shown = shown_comparison(*request.names, labels=request.labels)
    _print(str(questioning.as_json(shown.found.difference)) if request.json else str(shown))
    return _page(shown, request)


def _follow(request: Request) -> int:
    from workbench.magics import questioning
    from workbench.magics.walks import shown_way

    if len(request.names) != 2:
        raise OptionError(
            "follow needs a trace and what to follow", code="K103",
            hint="workbench follow a.wbt sass:12",
        )  # fmt: skip
    _only_traces("follow", request.names[0])
    shown = shown_way(request.names[0], request.names[1])
    _print(str(questioning.as_json(shown.way) if request.json else shown))
    return _page(shown, request)


def _page(shown: Any, request: Request) -> int:
    """Write an answer as the page that was asked for, if one was."""
    if request.output is not None:
        _say(f"wrote {shown.save(request.output, force=request.force)}")
    return OK


def _whatif(request: Request) -> int:
    from workbench.magics import sweeping
    from workbench.magics.loading import load_kernel

    kernel, namespace = load_kernel(request.name or "")
    found = sweeping.whatif(kernel, request, namespace)
    _print(str(sweeping.as_json(found) if request.json else sweeping.text_of(found)))
    return COMPILE_ERROR if found.failed else OK


def _step(request: Request) -> int:
    from workbench.magics import questioning
    from workbench.magics.loading import load_kernel
    from workbench.magics.walks import shown_steps

    kernel, namespace = load_kernel(request.name or "")
    program = request.names[1] if len(request.names) > 1 else None
    found = shown_steps(questioning.step(kernel, request, namespace, program))
    _print(str(questioning.as_json(found)) if request.json else found.text)
    return _page(found, request)


def _roofline(request: Request) -> int:
    from workbench.magics import roofs
    from workbench.magics.loading import load_kernel

    kernel, namespace = load_kernel(request.name or "")
    found = roofs.roofline(kernel, request, namespace)
    _print(str(roofs.as_json(found) if request.json else roofs.drawn(found)))
    return OK


def _schedule(request: Request) -> int:
    from workbench.magics import schedules
    from workbench.magics.loading import load_kernel

    kernel, namespace = load_kernel(request.name or "")
    _print(str(schedules.schedule(kernel, request, namespace)))
    return OK


def _layouts(request: Request) -> int:
    from workbench.magics import placing

    kernel, which, namespace = _laid_out(request)
    _print(str(placing.layouts(
        kernel, which, by=request.by, warp=request.warp, shared=request.shared,
        as_json=request.json, namespace=namespace,
    )))  # fmt: skip
    return OK


def _access(request: Request) -> int:
    from workbench.magics import placing

    kernel, which, namespace = _laid_out(request)
    _print(str(placing.access(kernel, which, as_json=request.json, namespace=namespace)))
    return OK


def _laid_out(request: Request) -> tuple[Any, str | None, dict[str, Any]]:
    """Return a kernel as the options have it compiled, and what is asked of it."""
    from workbench.magics.loading import load_kernel
    from workbench.magics.stated import stated

    kernel, namespace = load_kernel(request.name or "")
    which = request.names[1] if len(request.names) > 1 else None
    return stated(kernel, request, namespace), which, namespace


def _explain(request: Request) -> int:
    from workbench.magics.lines import explain

    _print(explain(request.name, as_json=request.json))
    return OK


def _said(request: Request) -> int:
    from workbench.magics import lines

    if request.names[0] == "config" and any("=" in word for word in request.names[1:]):
        raise OptionError(
            "a setting holds for one process, and this one ends here", code="K103",
            hint="a notebook keeps it: %workbench config NAME=VALUE; limits of a check come from "
            "WORKBENCH_LIMIT_CHECKED and WORKBENCH_LIMIT_INTERPRETED",
        )  # fmt: skip
    _print(str(lines.workbench(*request.names, as_json=request.json)))
    return OK


def _passes(request: Request) -> int:
    from workbench.magics import lines

    kernel, which, namespace = _laid_out(request)
    _print(str(lines.passes(
        kernel, which, everything=request.everything, grep=request.grep,
        llvm_passes=request.llvm_passes, as_json=request.json, namespace=namespace,
    )))  # fmt: skip
    return OK


def _override(request: Request) -> int:
    from workbench.magics import overriding
    from workbench.magics.loading import load_kernel

    kernel, namespace = load_kernel(request.name or "")
    found = overriding.override_file(kernel, request, namespace)
    if request.json:
        _print(str(overriding.as_json(found, request.names[1])))
    else:
        _print(found if isinstance(found, str) else repr(found))
    return OK


def _kernels(request: Request) -> int:
    from workbench.magics.loading import kernels_of
    from workbench.magics.plain import plain

    found = [
        {"kernel": name, "line": source.first_line, "parameters": [
            {"name": p.name, "constexpr": p.is_constexpr} for p in source.parameters
        ]}
        for name, source in kernels_of(request.name or "").items()
    ]  # fmt: skip
    if request.json:
        _print(str(plain(kernels=found)))
        return OK
    for row in found:
        names = ", ".join(p["name"] + ": constexpr" * p["constexpr"] for p in row["parameters"])
        _print(f"{row['kernel']}({names})")
    return OK


def _view(request: Request) -> int:
    import tempfile
    import webbrowser

    from workbench.magics.plain import heading, plain
    from workbench.viewer import save
    from workbench.viewer.kept import answer_in
    from workbench.viewer.reading import read_whole

    traces, beside = read_whole(request.name or "")
    answer = answer_in(beside, traces)
    if request.output is not None:
        path = save(traces, request.output, force=True, answer=answer)
    else:
        folder = Path(tempfile.mkdtemp(prefix="workbench-"))
        path = save(traces, folder / f"{traces[0].kernel.name}.html", answer=answer)
    _say(f"wrote {path}")
    if request.json:  # who reads plain data opens no page
        _print(str(plain(**heading(traces[0]), path=str(path))))
    elif request.output is None:
        webbrowser.open(path.as_uri())
    return OK


def _puzzles(request: Request) -> int:
    from workbench import puzzles
    from workbench.magics.plain import plain

    folder = Path(request.name or "")
    if request.grade:
        import secrets

        from workbench.magics.grading import grade

        seed = secrets.randbits(32) if request.seed is None else request.seed
        _print(str(plain(**grade(folder, seed))))
        return OK
    if request.seed is not None:
        raise OptionError("--seed goes with --grade: notebooks hold no seed", code="K103")
    paths = puzzles.write(folder, force=request.force)
    if request.json:
        _print(str(plain(notebooks=[path.name for path in paths])))
    else:
        _say(f"wrote {len(paths)} notebooks to {folder}, without solutions")
    return OK


# -- texts ------------------------------------------------------------------------------------
def _help() -> str:
    rows = "\n".join(f"  workbench {name:<8} {text}" for name, text in COMMANDS.items())
    return f"usage:\n{rows}\n\nworkbench COMMAND --help lists a command's options."


def _report(error: KernelError, *, as_json: bool) -> None:
    errors = (error, *error.others)
    if as_json:
        _print(json.dumps({"ok": False, "errors": [as_data(one) for one in errors]}, indent=1))
        return
    text = "\n\n".join(one.render() for one in errors)
    if sys.stderr.isatty() and not os.environ.get("NO_COLOR"):
        first, newline, rest = text.partition("\n")
        text = f"\x1b[1;31m{first}\x1b[0m{newline}{rest}"
    sys.stderr.write(text + "\n")


def as_data(error: KernelError) -> dict[str, Any]:
    """Return an error as plain data, as the Problems tab and editors take it."""

    def place(span: Span | None) -> dict[str, Any] | None:
        if span is None:
            return None
        return {
            "file": span.file, "line": span.line, "column": span.column,
            "end_line": span.end_line, "end_column": span.end_column,
        }  # fmt: skip

    return {
        "code": error.code,
        "message": error.message,
        "span": place(error.span),
        "notes": [{"text": note.text, "span": place(note.span)} for note in error.notes],
        "help": error.hint,
    }


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
