"""One text for every target: tile IR, what it is run with, and what must come of it.

    // Sums of rows whose length is no power of two.
    // test interpreter
    // test cpu
    // test sm_90a num_warps=2
    // grid 3
    // %x = [21] random -8 8
    // %out = [3] zeros
    // %n = 7
    // expect %out = -3.0 11.0 4.0
    // check ptx sm_90a num_warps=1
    // CHECK: ld.global
    kernel @row_sum(%x: ptr<f32>, %out: ptr<f32>, %n: index) {
      ...
    }

Every pointer parameter gets an array of so many elements of its type: `zeros`, `count` (0, 1, 2,
...), `random LOW HIGH [SEED]` (whole numbers, HIGH among them, the same in every run; `halves`:
half of them) or the numbers themselves, which are repeated. Every other parameter gets a number.
Each `test` line is a run on a target with options; where there is a device, code for its chip is
run on it, else the GPU IR for the chip that is named is interpreted. All arrays must hold what
they hold after the interpreter ran the text as it stands, to the bit or `within` a relative bound,
NaNs alike, and what is expected, if something is; what is printed too (`prints LINE`).
`check STAGE TARGET OPTIONS` compares a stage (tile, gpu, llvm, ptx) with the CHECK lines below it.
Golden files of passes (`tests/passes/golden.py`) may begin with such lines too.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from tests.passes import golden
from workbench.ir import Array, Element, Module, Pointer, parse_module
from workbench.ops.numbers import decode, encode, memory_dtype, value_dtype

#: Folders of folders of files; programs that the fuzz found are in tests/fuzz/found.
ROOTS = (Path(__file__).parent, golden.ROOT, golden.ROOT.parent / "fuzz")
_LINE = re.compile(r"// (?:(test|check|grid|within|prints|expect) |(%\w+) = )")


@dataclass(frozen=True)
class Run:
    """A target, or a stage of one, with compile options."""

    target: str
    options: dict[str, int]
    stage: str = ""
    checks: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return "-".join([*filter(None, [self.stage]), self.target,
                         *(f"{k}={v}" for k, v in self.options.items())])  # fmt: skip


@dataclass
class Text:
    """What a file says."""

    path: Path
    body: str = ""
    tests: list[Run] = field(default_factory=list)
    checks: list[Run] = field(default_factory=list)
    grid: tuple[int, ...] = (1,)
    values: dict[str, str] = field(default_factory=dict)
    expected: dict[str, str] = field(default_factory=dict)
    prints: list[str] = field(default_factory=list)
    within: float = 0.0

    @property
    def name(self) -> str:
        return f"{self.path.parent.name}-{self.path.stem}"

    def module(self, options: dict[str, int] | None = None) -> Module:
        """Return the program, with compile options."""
        module = parse_module(self.body, self.path.name)
        return replace(module, attributes={**module.attributes, **(options or {})})

    def arguments(self) -> dict[str, Any]:
        """Return fresh arguments by name, in order; arrays as they lie in memory."""
        found: dict[str, Any] = {}
        for parameter in self.module().parameters:
            words = self.values.get(parameter.name)
            if words is None:
                raise ValueError(f"{self.path}: no line `// %{parameter.name} = ...`")
            kind = parameter.value.type
            if isinstance(kind, Pointer):
                found[parameter.name] = filled(words, kind.pointee, len(found))
            else:
                found[parameter.name] = _number(words)
        return found

    def read(self, name: str, held: Any) -> Array:
        """Return an array's values as they are computed with."""
        return decode(held, self.element(name))

    def element(self, name: str) -> Element:
        types = {p.name: p.value.type for p in self.module().parameters}
        return types[name].pointee

    def expects(self, name: str) -> Array | None:
        """Return what an array is expected to hold at the end, if the file says so."""
        words = self.expected.get(name)
        if words is None:
            return None
        numbers = [_number(word) for word in words.split()]
        return np.asarray(numbers, object).astype(value_dtype(self.element(name)))


def _number(word: str) -> float | int:
    return int(word) if word.lstrip("-").isdigit() else float(word)


def filled(words: str, element: Element, position: int) -> Array:
    """Return an array of `[COUNT] FILL`, the argument at a position, as it lies in memory."""
    size, *fill = words.split()
    count = int(size.strip("[]"))
    match fill:
        case ["zeros"]:
            values: Any = np.zeros(count)
        case ["count"]:
            values = np.arange(count)
        case ["random" | "halves" as what, low, high, *seed]:
            choose = np.random.default_rng([position, *map(int, seed)])
            values = choose.integers(int(low), int(high) + 1, count)
            values = values / 2 if what == "halves" else values
        case numbers:
            # As objects, so that integers of 64 bits stay what they are.
            values = np.resize(np.asarray([_number(n) for n in numbers], object), count)
    values = values.astype(value_dtype(element))
    return np.ascontiguousarray(encode(values, element)).astype(memory_dtype(element))


def read(path: Path) -> Text:
    """Return what a file says; raises ValueError where a line is not understood."""
    text = Text(path)
    checks: list[str] = []
    lines = path.read_text().split(golden.MARK)[0].splitlines()
    for line in lines:
        if line.startswith("// CHECK"):
            checks.append(line.removeprefix("// "))
            text.checks[-1] = replace(text.checks[-1], checks=tuple(checks))
            continue
        found = _LINE.match(line)
        if found is None:
            continue
        rest = line[found.end() :].strip()
        if found[2]:
            text.values[found[2].removeprefix("%")] = rest
            continue
        match found[1]:
            case "test":
                text.tests.append(_run(rest))
            case "check":
                stage, _, target = rest.partition(" ")
                text.checks.append(replace(_run(target), stage=stage))
                checks = []
            case "grid":
                text.grid = tuple(int(word) for word in rest.split())
            case "within":
                text.within = float(rest)
            case "prints":
                text.prints += shlex.split(rest)
            case _:
                name, _, numbers = rest.partition(" = ")
                text.expected[name.removeprefix("%")] = numbers
    text.body = "\n".join(line for line in lines if not line.startswith("//"))
    return text


def _run(words: str) -> Run:
    target, *options = words.split()
    pairs = (option.split("=") for option in options)
    return Run(target, {name: int(value) for name, value in pairs})


def texts() -> list[Text]:
    """Return all files that say where they are run or what is checked of them."""
    found = [read(path) for root in ROOTS for path in sorted(root.glob("*/*.ir"))]
    return [text for text in found if text.tests or text.checks]


__all__ = ["ROOTS", "Run", "Text", "filled", "read", "texts"]
