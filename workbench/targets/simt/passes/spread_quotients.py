"""Quotients of rows that several lanes hold alike: each lane computes some, and they exchange them.

Where rows are stored, lanes of a warp lie along columns, and all of them hold the same few rows. An
index of a row is written in each of its registers. A quotient by a number that is not known until
launch takes some ten instructions there, a shuffle takes one.
"""

from __future__ import annotations

from workbench.ir import Builder, Module, Op, Tile, Value, layout_of, rebuild, shape_of
from workbench.layouts import LinearLayout
from workbench.ops import ConvertLayout
from workbench.passes.manager import Remarks
from workbench.passes.rules import constant_of
from workbench.targets.simt.rules import Device

#: Instructions of a quotient beside what all by one divisor share (counted in SASS), and of a row
#: that comes from another lane.
_QUOTIENT, _MOVED = 9.0, 2.0


def spread_quotients(module: Module, remarks: Remarks, chip: Device) -> Module:
    """Have the lanes that hold the same rows compute the quotients of different ones.

    Needs: layouts. Keeps: every value.
    """
    del chip
    found = _Spread(module)
    if not found.ends:
        return module
    for op in found.ends.values():
        remarks.note(op, "lanes that hold the same rows compute a part of them each", "applied")
    return rebuild(module, found.rewrite)


class _Spread:
    """What is computed in another layout, and which of it is brought back."""

    def __init__(self, module: Module) -> None:
        users: dict[Value, list[Op]] = {}
        #: The quotients, by id, that are all made of numbers and counting, and what they are of.
        self.made: dict[int, Op] = {}
        self.ends: dict[int, Op] = {}
        self._layouts: dict[int, LinearLayout] = {}
        self._new: dict[int, Value] = {}
        slices: dict[int, dict[int, Op]] = {}
        for op in module.walk():
            for operand in op.operands:
                users.setdefault(operand, []).append(op)
            if _is_quotient(op) and (layout := _spread_out(op.result)) is not None:
                behind = _slice_of(op)
                if behind is not None:
                    slices[op.id] = behind
                    self._layouts[op.id] = layout
        for number, behind in slices.items():
            inner = {other for n, s in slices.items() if n != number for other in s}
            op = behind[number]
            outside = [u for u in users.get(op.result, []) if u.id not in inner]
            if outside and self._pays(op):
                self.ends[number] = op
        for number in self.ends:
            self.made.update(slices[number])

    def _pays(self, op: Op) -> bool:
        """Say whether it takes fewer instructions than one in every register."""
        old, new = layout_of(op.result.type), self._layouts[op.id]
        assert old is not None
        rows, each = (_distinct(layout) for layout in (old, new))
        return _QUOTIENT * (rows - each) > 3 * _MOVED * rows

    def rewrite(self, op: Op, builder: Builder) -> Value | None:
        """Write an op of a slice once more, spread out; bring back what others read."""
        before = self.made.get(op.id)
        if before is None:
            return None
        layout = _spread_out(before.result)
        assert layout is not None
        operands = [
            self._new[v.op.id] if v.op is not None and v.op.id in self._new else now
            for v, now in zip(before.operands, op.operands, strict=True)
        ]
        types = {
            name: held.with_layout(layout)
            for name, held in op.attributes.items()
            if isinstance(held, Tile)
        }
        spread = builder.insert(op.duplicate(operands, layouts=(layout,), **types)).result
        spread.hint = before.result.hint
        self._new[op.id] = spread
        if op.id not in self.ends:
            return None
        held = layout_of(before.result.type)
        assert held is not None
        return builder.add(ConvertLayout(spread, held), before.result.hint)


def _is_quotient(op: Op) -> bool:
    """Say whether an op divides the integers of a tile by what is not known."""
    by = op.divisor
    return by is not None and bool(shape_of(by.type)) and constant_of(by) is None


def _slice_of(end: Op) -> dict[int, Op] | None:
    """Return the ops that make a tile of numbers and counting, None if there are others."""
    found: dict[int, Op] = {}
    work = [end]
    layout = layout_of(end.result.type)
    while work:
        op = work.pop()
        if op.id in found:
            continue
        tiles = [v for v in op.operands if shape_of(v.type)]
        known = op.pure and not op.regions and len(op.results) == 1 and not op.converts
        plain = op.pointwise or not tiles
        if not known or not plain or layout_of(op.result.type) != layout:
            return None
        found[op.id] = op
        for value in tiles:
            if value.op is None:
                return None
            work.append(value.op)
    return dict(reversed(found.items()))


def _spread_out(value: Value) -> LinearLayout | None:
    """Return a layout in which lanes that hold the same elements hold different ones."""
    layout = layout_of(value.type)
    if layout is None:
        return None
    bases = {name: [*held] for name, held in layout.bases.items()}
    none = (0,) * len(layout.shape)
    free = [n for n, basis in enumerate(bases.get("lane", [])) if basis == none]
    held = [n for n, basis in enumerate(bases.get("register", [])) if basis != none]
    if not free or not held:
        return None
    for lane, register in zip(free, held, strict=False):
        bases["lane"][lane], bases["register"][register] = bases["register"][register], none
    return LinearLayout({name: tuple(b) for name, b in bases.items()}, layout.shape)


def _distinct(layout: LinearLayout) -> int:
    """Return how many different elements a thread holds."""
    return 1 << sum(any(basis) for basis in layout.bases.get("register", ()))
