"""Rows that a block goes through more than once, which come from memory once if the L1 has them.

A row that is gone through in one loop and then in another (for its mean, for its variance, for the
result) is asked for again soon, but all blocks of a multiprocessor share the L1, and as many as
there may be push each other's rows out. How long a row is only a launch knows: it starts fewer
blocks at one time where that keeps the rows (launch/rows.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import NamedTuple

from workbench.analysis.forms import Form
from workbench.analysis.hulls import FormSteps, UnknownForm
from workbench.analysis.rows import Rows
from workbench.ir import Block, Module, Op, Value, shape_of, walk
from workbench.ops import For, counted_loops, pointee_of
from workbench.targets.nvidia.chip import Chip
from workbench.targets.simt.rules import Access, Setting


def rows_read_again(module: Module, chip: Chip) -> Rows | None:
    """Return the rows that blocks read more than once; None where there are none.

    Those that each access brings 16 bytes of count: few blocks ask for much at one time then.
    """
    loops = [*counted_loops(module.walk())]
    if len(loops) < 2 or any(chip.rules.staged_of(op) for op in module.walk()):
        return None  # products have their operands in shared memory
    finder = _Finder(module, chip)
    finder.look(module.body, set())
    again = {key: row for key, row in finder.rows.items() if key in finder.again and row.own}
    if not again:
        return None
    steps = FormSteps(module, finder.on.facts)
    kinds = {True: list[tuple[int, int]](), False: list[tuple[int, int]]()}
    try:
        for key, row in finder.rows.items():
            if key in again or not row.own:
                bounds = (row.loop.lower, row.loop.upper, row.loop.step)
                ends = tuple(steps.of(form) for form in map(finder.on.facts.form, bounds) if form)
                if len(ends) == len(bounds):
                    kinds[row.own].append((steps.step("trips", ends), row.bytes))
    except UnknownForm:
        return None
    return Rows(tuple(steps.steps), *(tuple(kinds[own]) for own in (True, False)))


class _Row(NamedTuple):
    """A loop that goes through a row, the bytes of a round, whether other programs read others."""

    loop: For
    bytes: int
    own: bool


class _Finder:
    def __init__(self, module: Module, chip: Chip) -> None:
        self.chip = chip
        self.on = Setting(module, chip)
        self.rows: dict[object, _Row] = {}
        self.again: set[object] = set()

    def look(self, block: Block, seen: set[object]) -> None:
        """Note the rows of a block, and which have been read when it begins or by an op of it."""
        for op in block.ops:
            found = dict(self.rows_of(op))
            self.again |= found.keys() & seen
            self.rows |= {key: row for key, row in found.items() if key not in self.rows}
            for region in op.regions:
                self.look(region, set(seen))
            seen |= found.keys()

    def rows_of(self, op: Op) -> Iterator[tuple[object, _Row]]:
        """Yield what tells rows apart that the loops of an op go through."""
        facts = self.on.facts
        for loop in counted_loops([op, *(one for r in op.regions for one in walk(r))]):
            trip = facts.atom("trip", loop.body.arguments[0])
            ends = tuple(facts.form(value) for value in (loop.lower, loop.upper, loop.step))
            for load in loop.body.ops:
                pointers = self.pointers(load)
                form: Form | None = None if pointers is None else facts.form(pointers)
                if pointers is None or form is None or None in ends:
                    continue
                atoms = {atom for monomial in form.terms for atom in monomial}
                if trip not in atoms:
                    continue
                terms = ((tuple(a is trip or a for a in m), c) for m, c in form.terms.items())
                size = prod(shape_of(pointers.type)) * pointee_of(pointers.type).itemsize
                own = any(atom.kind == "pid" for atom in atoms)
                yield (frozenset(terms), ends), _Row(loop, size, own)

    def pointers(self, op: Op) -> Value | None:
        """Return where an op reads 16 bytes at a time, None if it does something else."""
        access: Access | None = self.chip.rules.access_of(op)
        if access is None or any(effect.writes for effect in op.own_effects()):
            return None
        moves = self.chip.rules.moves_of(op, self.on)
        wide = all(move.bytes >= self.chip.widest_bytes for move in moves)
        return access.pointers if wide else None
