"""What lies several times in a row in a tile that products are made of is loaded once.

Words that hold eight numbers are loaded by each of the eight rows that they hold, scales by all
rows of a group. What is loaded once is repeated in registers, and what copies ahead bring is an
eighth.
"""

from __future__ import annotations

from workbench.analysis.affine import Affine, tile_forms
from workbench.analysis.products import is_line, multiplied
from workbench.ir import INDEX, Builder, Module, Op, Tile, Value, element_of, rebuild, shape_of
from workbench.ops import (
    Broadcast,
    Constant,
    Elementwise,
    ExpandDims,
    Iota,
    Load,
    Reshape,
    Splat,
)
from workbench.passes.manager import Remarks

#: Bits of elements beside which it does not pay to load others less often.
_WIDE = 16


def load_once(module: Module, remarks: Remarks) -> Module:
    """Load tiles whose addresses are equal in runs with one element for each run.

    Before:
        %2 = tile.div [%k, %eights] : tile<128xindex>
        %3 = tile.add_pointer %pointers, %2 : tile<128xptr<i32>>
        %4 = tile.load %3 : tile<128xi32>
    After:
        %2 = tile.div [%every_eighth_k, %eights] : tile<16xindex>
        %3 = tile.add_pointer %fewer_pointers, %2 : tile<16xptr<i32>>
        %4 = tile.load %3 : tile<16xi32>
        %5 = tile.expand_dims %4 {axis = 1} : tile<16x1xi32>
        %6 = tile.broadcast %5 {shape = (16, 8)} : tile<16x8xi32>
        %7 = tile.reshape %6 {shape = (128,)} : tile<128xi32>

    Needs: a product of which an operand is computed of the tile by elements (one that is the tile
    lies better in shared memory as memory has it, for copies and instructions that read it there),
    and of no other wide one (scales of an order of their own) with all of its elements;
    addresses and masks that ops on single elements make of counting and numbers.
    Keeps: every value.
    """
    loads = [op for op in module.walk() if isinstance(op, Load) and not op.volatile]
    if not any(not is_line(shape_of(op.result.type)) for op in loads):
        return module
    wanted = _computed_from(module)
    facts, found = None, dict[int, tuple[int, ...]]()
    for op in loads:
        if op.result not in wanted or is_line(shape_of(op.result.type)) or not op.removable:
            continue
        facts = facts or tile_forms(module)
        runs = _runs(op, facts)
        if any(run > 1 for run in runs) and all(_is_sampled(v) for v in op.operands):
            found[op.id] = runs
        elif element_of(op.result.type).bits >= _WIDE:
            return module
    if not found:
        return module

    def rewrite(op: Op, builder: Builder) -> Value | None:
        runs = found.get(op.id)
        if runs is None:
            return None
        remarks.note(op, f"loaded once for each {' x '.join(map(str, runs))} equal addresses")
        sampler = _Sampler(builder, runs)
        once = builder.add(op.duplicate([sampler.of(v) for v in op.operands]))
        return _repeated(once, runs, builder)

    return rebuild(module, rewrite)


def _computed_from(module: Module) -> set[Value]:
    """Return what products' operands are computed of, element by element."""
    wanted, found = multiplied(module), set[Value]()
    for op in reversed(list(module.walk())):  # users come first
        computes = op.pointwise and not wanted.isdisjoint(op.results)
        if computes or ((op.moves or op.pairs) and not found.isdisjoint(op.results)):
            found.update(op.operands)
    return found


def _runs(op: Load, facts: Affine) -> tuple[int, ...]:
    """Return for each axis how many neighbours are one element of memory, all of them alike."""
    shape = shape_of(op.result.type)
    found: list[int] = []
    for axis, (extent, run) in enumerate(zip(shape, facts.equal_runs(op.result), strict=True)):
        run = min(run, extent)
        found.append(run if extent % run == 0 else 1)
        if extent & (extent - 1):
            found[axis] = 1
    return tuple(found)


def _is_sampled(value: Value) -> bool:
    """Say whether every few elements of a tile can be computed without the others."""
    op = value.op
    if not shape_of(value.type) or isinstance(op, Constant | Splat | Iota):
        return True
    if isinstance(op, Broadcast | ExpandDims):
        return _is_sampled(op.source)
    return op is not None and op.pure and op.pointwise and all(map(_is_sampled, op.operands))


class _Sampler:
    """Writes tiles of the first element of each run."""

    def __init__(self, builder: Builder, runs: tuple[int, ...]) -> None:
        self.builder = builder
        self._runs = runs
        self._known: dict[tuple[Value, tuple[int, ...]], Value] = {}

    def of(self, value: Value) -> Value:
        """Return the tile of which a value has each element in runs."""
        return self._of(value, self._runs)

    def _of(self, value: Value, runs: tuple[int, ...]) -> Value:
        if not shape_of(value.type) or all(run == 1 for run in runs):
            return value
        known = self._known.get((value, runs))
        if known is None:
            known = self._known[value, runs] = self._made(value, runs)
        return known

    def _made(self, value: Value, runs: tuple[int, ...]) -> Value:
        op, add = value.op, self.builder.add
        shape = tuple(e // run for e, run in zip(shape_of(value.type), runs, strict=True))
        type = Tile(shape, element_of(value.type))
        if isinstance(op, Constant):
            return add(Constant(op.value, type))
        if isinstance(op, Splat):
            return add(Splat(op.source, shape))
        if isinstance(op, Iota):
            counted = add(Iota(0, type))
            step, start = (add(Constant(n, type)) for n in (runs[0], op.start))
            # No more than what is counted to one by one, of which each was a number of the type.
            fits = type.element != INDEX
            counted = add(Elementwise("mul", (counted, step), no_wrap=fits))
            if op.start:
                counted = add(Elementwise("add", (counted, start), no_wrap=fits))
            return counted
        if isinstance(op, Broadcast):
            before = shape_of(op.source.type)
            inner = tuple(1 if e == 1 else run for e, run in zip(before, runs, strict=True))
            return add(Broadcast(self._of(op.source, inner), shape))
        if isinstance(op, ExpandDims):
            inner = (*runs[: op.axis], *runs[op.axis + 1 :])
            return add(ExpandDims(self._of(op.source, inner), op.axis))
        assert op is not None
        return add(op.duplicate([self._of(v, runs) for v in op.operands]))


def _repeated(value: Value, runs: tuple[int, ...], builder: Builder) -> Value:
    """Return a tile with each element of another in runs."""
    for axis, run in enumerate(runs):
        shape = shape_of(value.type)
        if run == 1:
            continue
        if shape[axis] == 1:
            value = builder.add(Broadcast(value, (*shape[:axis], run, *shape[axis + 1 :])))
            continue
        value = builder.add(ExpandDims(value, axis + 1))
        wide = (*shape[: axis + 1], run, *shape[axis + 1 :])
        value = builder.add(Broadcast(value, wide))
        whole = (*shape[:axis], shape[axis] * run, *shape[axis + 1 :])
        value = builder.add(Reshape(value, whole))
    return value


__all__ = ["load_once"]
