"""`%sass --control`: SASS with what each row tells the scheduler, live registers and spills."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from workbench.ir import Module, print_rows
from workbench.magics import variants
from workbench.magics.options import Request
from workbench.magics.plain import plain
from workbench.magics.texts import Shown
from workbench.source import OptionError
from workbench.targets.nvidia.control import Control, address_of_row, controls, live_by_address
from workbench.targets.nvidia.toolchain import live_registers
from workbench.trace.links import ops_of_rows

_SPILL = re.compile(r"\b(STL|LDL)\b")


@dataclass(frozen=True, slots=True)
class Instruction:
    """One row of the listing: `live` general registers, the source line, what it spills."""

    address: int
    text: str
    control: Control
    live: int | None
    line: int | None
    spill: str


def sass_listing(
    kernel: Any, request: Request, namespace: Mapping[str, Any] | None = None
) -> Shown:
    """Return the machine code of a kernel with control bits, or as plain data.

    Raises OptionError K129 for a kernel without machine code for a GPU.
    """
    result = variants.find(kernel, namespace)
    compiled = next(
        (r.compiled for r in result.records if r.compiled and r.compiled.target.startswith("sm_")),
        None,
    )
    if compiled is None or compiled.launch.kind != "cubin" or not compiled.trace.text("sass"):
        raise OptionError(
            f"{result.name} has no machine code of a GPU", code="K129",
            hint="it needs --target sm_…, ptxas and nvdisasm (%workbench doctor)",
        )  # fmt: skip
    rows = _instructions(compiled)
    first, last = request.lines or (1, len(rows))
    shown = [
        row
        for number, row in enumerate(rows, 1)
        if first <= number <= last and request.line in (None, row.line)
    ]
    if request.json:
        return plain(
            kernel=compiled.name,
            target=compiled.target,
            instructions=[asdict(row) for row in shown],
        )
    head = "wait:rd:wr:yield:stall  live  line"
    lines = [f"// {compiled.name} for {compiled.target}: {head}"]
    for row in shown:
        live, line = ("" if n is None else str(n) for n in (row.live, row.line))
        spill = f"  // {row.spill}" if row.spill else ""
        lines.append(f"{row.control!s:<16} {live:>4} {line:>5}  {row.text}{spill}")
    if not shown:
        asked = [f"came from line {request.line}"] if request.line is not None else []
        asked += [f"is one of {first} to {last}"] if request.lines is not None else []
        lines.append(f"// no instruction {' and '.join(asked)}")
    peak = max((row.live or 0 for row in rows), default=0)
    stalls = sum(row.control.stall for row in rows)
    lines.append(
        f"// {len(rows)} instructions, at most {peak} registers live, {stalls} cycles of stalls "
        "if each ran once and waited for nothing"
    )
    return Shown("\n".join(lines), "sass")


def _instructions(compiled: Any) -> list[Instruction]:
    trace = compiled.trace
    stage, texts = trace.stage("sass"), trace.text("sass").split("\n")
    places = dict(zip(trace.ops.id, trace.ops.loc, strict=True))
    told = controls(compiled.code, compiled.launch.symbol)
    live = live_by_address(live_registers(compiled.code))
    names = _names(compiled.compiled.built.gpu)
    found: list[Instruction] = []
    for text, ops in zip(texts, ops_of_rows(stage.rows, len(texts)), strict=True):
        address = address_of_row(text)
        if address is None or address // 16 >= len(told):
            continue
        place = next((places[op] for op in ops if op in places and places[op][0] >= 0), None)
        found.append(
            Instruction(
                address,
                text.strip(),
                told[address // 16],
                live.get(address),
                place[1] if place else None,
                _spill(text, ops, names, place[1] if place else None),
            )
        )
    return found


def _spill(text: str, ops: Any, names: Mapping[int, str], line: int | None) -> str:
    """Say what value an access of a thread's own memory is of, as far as its op tells."""
    if not _SPILL.search(text):
        return ""
    what = "spilled" if "STL" in text else "loaded again"
    named = next((names[op] for op in ops if op in names), "")
    return " ".join([what, *([named] if named else [f"at line {line}"] if line else [])])


def _names(module: Module | None) -> dict[int, str]:
    """Return what each op's results are called in the GPU IR, and what the op is."""
    found: dict[int, str] = {}
    for row, op in print_rows(module) if module is not None else ():
        match = re.match(r"\s*(?:((?:%[\w.]+(?:, )?)+) = )?([a-z]+\.\w+)", row)
        if op and match:
            values, name = match.groups()
            found.setdefault(op, f"{values} ({name})" if values else name)
    return found
