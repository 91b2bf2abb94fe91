"""Which op a row of SASS belongs to is right: by hand, by what opcodes mean, by what is spilled."""

from __future__ import annotations

import csv
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from tests.targets.nvidia.judged.kernels import KEPT, WANTED, Compiled, compiled, kept
from tests.targets.nvidia.judged.sample import COUNT, ROWS, attributed, opcode, read, text_of
from tests.targets.nvidia.test_ptx import needs_nvdisasm, needs_ptxas
from workbench.targets.nvidia.control import address_of_row
from workbench.targets.nvidia.listing import _is_filler

KINDS = Path(__file__).parent / "judged" / "kinds.tsv"


@cache
def meanings() -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Return the kinds of op that may have an opcode, and the only opcodes of some kinds."""
    kinds: dict[str, set[str]] = {}
    opcodes: dict[str, set[str]] = {}
    with KINDS.open(newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            if row["opcode"] == "*":
                kind, words = row["kinds"].split(":")
                opcodes[kind] = set(words.split())
            else:
                kinds[row["opcode"]] = set(row["kinds"].split())
    return kinds, opcodes


def impossible(kernel: Compiled) -> list[tuple[str, str]]:
    """Return the rows that belong to an op that cannot have them."""
    kinds, opcodes = meanings()
    found: list[tuple[str, str]] = []
    for row, op in attributed(kernel).values():
        name, kind = opcode(row), kernel.kinds[op]
        names = {name, "MOV"} if "IMAD.MOV" in row else {name}  # a copy by another unit
        if kind not in kinds.get(name, {kind}) or not names & opcodes.get(kind, names):
            found.append((text_of(row), kind))
    return found


def shares(kernel: Compiled) -> Counter[str]:
    """Count rows, those that belong to an op, spills, and spills that belong to one."""
    counts: Counter[str] = Counter()
    found = kernel.rows()
    lines = found.text.splitlines()
    for number, (line, ops) in enumerate(zip(lines, found.rows, strict=False)):
        if address_of_row(line) is None or _is_filler(line, lines[number - 1]):
            continue
        spill = opcode(line) in ("STL", "LDL")
        counts.update(rows=1, owned=bool(ops), spills=spill, named=spill and bool(ops))
    return counts


def check(kernels: list[Compiled]) -> None:
    assert [row for kernel in kernels for row in impossible(kernel)] == []
    counts = [shares(kernel) for kernel in kernels]
    total = sum(counts, Counter())
    assert total["owned"] >= 0.99 * total["rows"]
    assert all(found["owned"] >= 0.97 * found["rows"] for found in counts)
    assert total["spills"] > 20
    assert total["named"] >= 0.95 * total["spills"]


def test_rows_that_are_kept_belong_to_ops_that_can_have_them():
    check([*kept().values()])


@needs_ptxas
@needs_nvdisasm
def test_rows_of_today_belong_to_ops_that_can_have_them():
    check([compiled(what) for what in WANTED])


def test_rows_belong_to_what_they_were_judged_by():
    """A row that belongs elsewhere now is to be judged anew: see judged/sample.py."""
    found = {what: attributed(kernel) for what, kernel in kept().items()}
    moved = [
        (row.kernel, row.address, row.sass, row.op, op)
        for row in read()
        if (op := found[row.kernel][int(row.address, 16)][1]) != row.op
    ]
    assert moved == []


def test_what_was_judged_by_hand():
    rows = read()
    verdicts = Counter(row.verdict for row in rows)
    assert len(rows) == len({(row.kernel, row.address) for row in rows}) == COUNT
    assert set(verdicts) <= {"exact", "related"}  # none is unrelated, none impossible
    assert verdicts["exact"] >= 0.99 * COUNT
    assert all(row.right and row.reason for row in rows if row.verdict != "exact")
    assert {row.kernel for row in rows} == set(WANTED)
    assert len({opcode(f"/*0*/ {row.sass}") for row in rows}) >= 50
    assert KEPT.stat().st_size + ROWS.stat().st_size < 1 << 20


@pytest.mark.parametrize(
    ("row", "kind"),
    [("HGMMA.64x128x16.F32 R24, R24 ;", "tile.for"), ("IADD3 R0, R0, 1, RZ ;", "gpu.barrier"),
     ("STG.E desc[UR4][R2.64], R2 ;", "tile.load")],
)  # fmt: skip
def test_a_row_of_another_op_is_found(row: str, kind: str):
    kinds, opcodes = meanings()
    name = opcode(f"/*0*/ {row}")
    assert kind not in kinds.get(name, {kind}) or name not in opcodes.get(kind, {name})
