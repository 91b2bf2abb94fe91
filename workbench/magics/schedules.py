"""`%schedule`: what each role of a pipelined loop does, round by round, before anything runs.

Works without IPython.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from workbench.ir import Module
from workbench.magics.drawing import Drawn
from workbench.magics.options import Request
from workbench.magics.placing import gpu_module
from workbench.magics.plain import plain
from workbench.magics.stated import stated
from workbench.magics.texts import Shown
from workbench.runtime.compiled import CompiledKernel
from workbench.source import OptionError
from workbench.trace import Pipeline, Step
from workbench.viewer.schedules import Line, lines_of, role_words, step_words, text, title, when

#: Colours repeat what the words say: what waits is pale, what multiplies is strong.
_COLOURS = {
    "copy": "#ffe3b3", "wait": "#eef1f4", "product": "#c9efd9", "read": "#cfe8ff",
    "arrive": "#eef1f4", "meet": "#eef1f4", "load": "#ffe3b3", "compute": "#e0d8f5",
    "store": "#ffd6c9",
}  # fmt: skip
_COLUMN, _ROW, _LEFT = 330, 20, 8
_LETTERS = 46


def schedule(
    kernel: Any = None,
    request: Request | None = None,
    namespace: Mapping[str, Any] | None = None,
) -> Shown:
    """Return the schedules of a kernel's pipelined loops.

    Args:
        kernel: a name, K@SPEC, a result, a kernel object or a compiled one (as `warmup` gives);
            the latest result if None.
        request: `--sig` or `--set` compile the kernel for this, as `workbench compile` does;
            `--json`: plain data as text, as the Trace has it.
        namespace: where names are looked up first.

    Raises:
        OptionError: K151 where there is no GPU IR, or no loop in it reads a ring of buffers.
    """
    request, names = request or Request(), dict(namespace or {})
    compiled, module = _compiled(stated(kernel, request, names), names)
    found: Sequence[Pipeline] = compiled.compiled.built.fields["pipelines"]()
    if request.json:
        return plain(kernel=compiled.name, target=compiled.target, pipelines=list(found))
    if not found:
        raise OptionError(
            f"{compiled.name} for {compiled.target} has no pipelined loop",
            code="K151",
            hint="loads of loops with tl.dot are copied ahead, by num_stages of at least 2; "
            f"remarks of {compiled.name}'s result say why one is not",
        )
    lines = {op.id: op.span.line for op in module.walk() if op.span is not None}
    head = f"{compiled.name} for {compiled.target}: "
    pictures = [_svg(pipeline, lines.get, head + title(pipeline, lines.get)) for pipeline in found]
    return Drawn(head + text(found, lines.get), pictures)


def _compiled(kernel: Any, names: Mapping[str, Any]) -> tuple[CompiledKernel, Module]:
    found = names.get(kernel) if isinstance(kernel, str) else kernel
    if not isinstance(found, CompiledKernel) or found.compiled.built is None:
        return gpu_module(kernel, names)
    if found.compiled.built.gpu is None:
        raise OptionError(f"{found.name} for {found.target} has no GPU IR", code="K151")
    return found, found.compiled.built.gpu


def _svg(pipeline: Pipeline, line: Line, name: str) -> str:
    """Return a chart: roles from top to bottom, each in program order; a column per stage."""
    stages = sorted({step.stage for step in pipeline.steps if step.phase == "round"}) or [0]
    parts: list[str] = []
    y = _ROW
    for role in range(len(pipeline.roles)):
        mine = [step for step in pipeline.steps if step.role == role]
        if not mine:
            continue
        parts.append(_words(_LEFT, y, role_words(pipeline, role), bold=True))
        y += _ROW
        said: set[str] = set()
        for step in mine:
            column = stages.index(step.stage) if step.phase == "round" else stages.index(0)
            word = when(pipeline, step)
            if word not in said:
                said.add(word)
                parts.append(_words(_LEFT + column * _COLUMN, y, word, muted=True))
                y += _ROW
            parts.append(_bar(step, line, _LEFT + column * _COLUMN, y))
            y += _ROW
        y += _ROW // 2
    width, height = 2 * _LEFT + len(stages) * _COLUMN, y + _ROW // 2
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" aria-label="{escape(name)}">'
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>{"".join(parts)}</svg>'
    )


def _bar(step: Step, line: Line, x: int, y: int) -> str:
    words = step_words(step)
    where = lines_of(step, line)
    shown = words if len(words) <= _LETTERS else words[: _LETTERS - 1] + "…"
    return (
        f"<g><title>{escape(words)}{f', line {where}' if where else ''}</title>"
        f'<rect x="{x}" y="{y - 14}" width="{_COLUMN - 10}" height="{_ROW - 2}" rx="3" '
        f'fill="{_COLOURS[step.kind]}" stroke="#8c959f" stroke-width="0.5"/>'
        f"{_words(x + 5, y, shown)}</g>"
    )


def _words(x: int, y: int, words: str, *, bold: bool = False, muted: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    colour = "#57606a" if muted else "#1f2328"
    return (
        f'<text x="{x}" y="{y}" font-family="ui-monospace,Menlo,Consolas,monospace" '
        f'font-size="11" fill="{colour}"{weight}>{escape(words)}</text>'
    )
