"""The graphs that torch compiled: which kernels each has, who compiled them, and from what lines.

Everything is read from the module that torch wrote for a graph, when somebody looks. The torch
lines of a kernel stand there as comments that we add, so that a graph from torch's cache has them.
"""

from __future__ import annotations

import importlib
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench.inductor.artefacts import Artefact
from workbench.source.undisturbed import lines_of_file

_LINE = re.compile(r"# torch: (?P<file>.+):(?P<line>\d+) in (?P<where>\S+): (?P<code>.*)")
_FRAME = re.compile(r'\s*File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<where>\S+)')
_EXTERN = re.compile(r"\b(?:extern_kernels|torch\.ops\.\w+|aten)\.(\w+)(?:\.\w+)?\(")
_TITLE = re.compile(r"# AOT ID: \['([^']+)'\]")


@dataclass(frozen=True, slots=True)
class TorchLine:
    """A line of the program that torch compiled."""

    file: str
    line: int
    where: str
    code: str

    @property
    def is_there(self) -> bool:
        """Whether the file still has this line; a graph from a cache may be of an earlier text."""
        rows = lines_of_file(self.file)[self.line - 1 : self.line]
        return not self.code or [row.strip() for row in rows] == [self.code]

    def __str__(self) -> str:
        gone = "" if self.is_there else " (the file has changed since)"
        return f"{self.file}:{self.line} in {self.where}: {self.code}{gone}"


def torch_lines(schedule: Any) -> list[str]:
    """Return the lines of the program that scheduled nodes come from, as text for a comment."""
    origins = importlib.import_module("torch._inductor.utils").aggregate_origins(schedule)
    found: dict[str, None] = {}
    for node in origins:
        line = _innermost(node.meta.get("stack_trace"))
        if line is not None:
            found[f"torch: {line.file}:{line.line} in {line.where}: {line.code}"] = None
    return sorted(found)


def _innermost(trace: str | None) -> TorchLine | None:
    lines = (trace or "").splitlines()
    for number in range(len(lines) - 1, -1, -1):
        match = _FRAME.match(lines[number])
        if match:
            code = lines[number + 1].strip() if number + 1 < len(lines) else ""
            return TorchLine(match["file"], int(match["line"]), match["where"], code)
    return None


class GraphKernel:
    """One kernel of a graph.

    Attributes:
        name: what torch calls it.
        lines: the lines of the program that it computes.
    """

    def __init__(self, name: str, find: Callable[[], Any], lines: tuple[TorchLine, ...]) -> None:
        self.name = name
        self.lines = lines
        self._find = find

    @property
    def launcher(self) -> Any:
        """What torch launches; None before it is compiled."""
        launchers = getattr(self._find(), "launchers", None)
        return launchers[0] if launchers else None

    @property
    def artefacts(self) -> tuple[Artefact, ...]:
        """What we compiled: one per configuration, the one in use in front."""
        launchers = getattr(self._find(), "launchers", None) or ()
        found = (getattr(launcher, "artefact", None) for launcher in launchers)
        return tuple(artefact for artefact in found if artefact is not None)

    @property
    def fell_back(self) -> str | None:
        """Why Triton compiled it, None where we did."""
        return getattr(self.launcher, "reason", None)

    def __repr__(self) -> str:
        by = "Triton" if self.fell_back else "workbench" if self.artefacts else "nobody yet"
        return f"<{self.name}, compiled by {by}>"


class Graph:
    """One graph that torch compiled: forward, backward or inference.

    Attributes:
        file: the module that torch wrote.
    """

    def __init__(self, scope: Mapping[str, Any]) -> None:
        self.file = str(scope.get("__file__", ""))
        self._scope = scope
        self._made: dict[str, Any] = {}

    def add(self, name: str, made: Any) -> None:
        """Note a kernel; `made` is what compiles it until the module has it under its name."""
        self._made[name] = made

    @property
    def name(self) -> str:
        """What torch calls the graph: "0_inference", "1_forward", …."""
        match = _TITLE.search(self.text)
        return match[1] if match else Path(self.file).stem

    @property
    def text(self) -> str:
        """The module that torch wrote."""
        return "".join(lines_of_file(self.file)) or _read(self.file)

    @property
    def kernels(self) -> tuple[GraphKernel, ...]:
        """Its kernels, in the order in which they were made."""
        text = self.text
        return tuple(
            GraphKernel(name, lambda n=name: self._scope.get(n, self._made[n]), _lines(text, name))
            for name in self._made
        )

    @property
    def ours(self) -> int:
        """How many kernels we compiled."""
        return sum(bool(kernel.artefacts) for kernel in self.kernels)

    @property
    def fell_back(self) -> int:
        """How many kernels Triton compiled because we could not."""
        return sum(kernel.fell_back is not None for kernel in self.kernels)

    @property
    def calls(self) -> tuple[str, ...]:
        """Functions of torch that the graph calls besides, such as "mm"."""
        start = self.text.find("def call(")
        found = _EXTERN.findall(self.text[start:]) if start >= 0 else []
        return tuple(dict.fromkeys(found))

    def __str__(self) -> str:
        calls = f"; calls {', '.join(self.calls)} of torch" if self.calls else ""
        counted = f"{self.ours} of workbench, {self.fell_back} fell back"
        kernels = "1 kernel" if len(self.kernels) == 1 else f"{len(self.kernels)} kernels"
        lines = [f"graph {self.name}: {kernels}, {counted}{calls}"]
        for kernel in self.kernels:
            why = f"  fell back: {kernel.fell_back}" if kernel.fell_back else ""
            lines.append(f"  {kernel.name}{why}")
            lines += [textwrap.indent(str(line), " " * 6) for line in kernel.lines]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<{str(self).splitlines()[0]}>"


def _lines(text: str, name: str) -> tuple[TorchLine, ...]:
    """Return the torch lines in the comments in front of a kernel's definition."""
    head, found, _ = text.partition(f"\n{name} = async_compile.")
    comments: list[str] = []
    for line in reversed(head.splitlines() if found else ()):
        if not line.lstrip().startswith("#"):
            break
        comments.append(line)
    matches = (_LINE.search(comment) for comment in reversed(comments))
    return tuple(TorchLine(m["file"], int(m["line"]), m["where"], m["code"]) for m in matches if m)


def _read(file: str) -> str:
    try:
        return Path(file).read_text()
    except OSError:
        return ""


class Graphs:
    """All graphs that were compiled while `use_in_torch_compile` held, the oldest first.

    Printing it says for each how many kernels are ours and how many fell back.
    """

    def __init__(self) -> None:
        self._found: dict[int, Graph] = {}

    def add(self, scope: Mapping[str, Any], name: str, made: Any) -> None:
        """Note a kernel of the graph whose module has this scope."""
        self._found.setdefault(id(scope), Graph(scope)).add(name, made)

    def clear(self) -> None:
        """Forget all graphs."""
        self._found.clear()

    @property
    def ours(self) -> int:
        """How many kernels we compiled, of all graphs."""
        return sum(graph.ours for graph in self)

    @property
    def fell_back(self) -> int:
        """How many kernels fell back, of all graphs."""
        return sum(graph.fell_back for graph in self)

    def __iter__(self) -> Iterator[Graph]:
        return iter(tuple(self._found.values()))

    def __len__(self) -> int:
        return len(self._found)

    def __str__(self) -> str:
        return "\n".join(map(str, self)) or "no graphs"
