"""The choice of layouts as a graph: what has to agree, and what disagreement costs.

A *node* is something that has one layout: a value that is computed (with all the values a loop
carries it through), or the execution of an op such as a store or a reduction. Pure cheap values
(counting, splats, index and pointer arithmetic on them) are *floating*: they are written again in
whatever layout a user wants, so they have no node. An *edge* says which layout one node would have
to be in so that another needs no conversion.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from workbench.analysis.affine import Affine
from workbench.ir import Block, Module, Op, Value, element_of, shape_of
from workbench.layouts import LinearLayout, mma_a, mma_b, mma_c, split_warps
from workbench.layouts.coordinates import reshape_is_linear
from workbench.ops import (
    AddPointer,
    AtomicCompareExchange,
    AtomicUpdate,
    Bitcast,
    Broadcast,
    Cast,
    Constant,
    Dot,
    Elementwise,
    ExpandDims,
    For,
    Gather,
    Histogram,
    If,
    InlineAssembly,
    Iota,
    Join,
    Load,
    Merge,
    Promise,
    Reduce,
    Reshape,
    Scan,
    Select,
    Sort,
    Splat,
    Split,
    Store,
    Transpose,
    While,
    Yield,
    pointee_of,
)
from workbench.passes.canonicalize import constant_of
from workbench.targets.nvidia.chip import Chip
from workbench.targets.nvidia.dots import matrix_unit
from workbench.targets.nvidia.passes.costs import (
    access_cost,
    coalesced,
    conversion_cost,
    default_layout,
    reduction_cost,
)
from workbench.targets.nvidia.reductions import result_layout
from workbench.targets.nvidia.scans import scan_cost, scan_layouts
from workbench.targets.nvidia.shapes import repeated_axes
from workbench.targets.nvidia.sorts import kept_layout, sort_layout
from workbench.targets.nvidia.staged import is_staged

Maps = Callable[[LinearLayout], LinearLayout | None]
Cost = Callable[[LinearLayout], float]
_SAME = (Elementwise, Select, Cast, Bitcast, AddPointer, Promise)
_FLOATING = (*_SAME, Constant, Iota, Splat, Broadcast, ExpandDims, Transpose, Reshape)
_MOST_CANDIDATES = 8
_LOOP_WEIGHT = 32.0


@dataclass
class Node:
    """Something with one layout: `shape`, what it costs in a layout, and the layouts to try."""

    shape: tuple[int, ...]
    op: Op | None
    weight: float
    candidates: list[LinearLayout] = field(default_factory=list[LinearLayout])
    costs: list[Cost] = field(default_factory=list[Cost])
    fixed: bool = False

    def offer(self, layout: LinearLayout | None) -> bool:
        """Add a candidate; says whether it is new."""
        if layout is None or self.fixed or layout in self.candidates:
            return False
        if len(self.candidates) >= _MOST_CANDIDATES or layout.shape != self.shape:
            return False
        self.candidates.append(layout)
        return True


@dataclass(frozen=True, slots=True)
class Edge:
    """Node `source` feeds node `target`; bits is the width of the value that may be converted.

    `need` gives the layout the source must have for a layout of the target (None: none will do);
    `give` gives what the source's layout turns into. With `after`, the op works in the source's
    layout and its result is converted; otherwise its operand is.
    """

    source: int
    target: int
    bits: int
    weight: float
    need: Maps | None
    give: Maps | None
    after: bool = False

    def cost(self, source: LinearLayout, target: LinearLayout) -> float:
        """Return the estimated cycles of the conversion between two layouts of its nodes."""
        if self.after:
            assert self.give is not None
            given = self.give(source)
            if given is None:
                return 1e12
            return self.weight * conversion_cost(given, target, self.bits)
        assert self.need is not None
        needed = self.need(target)
        if needed is None:
            return 1e12
        return self.weight * conversion_cost(source, needed, self.bits)


def _same(layout: LinearLayout) -> LinearLayout:
    return layout


class LayoutGraph:
    """Nodes and edges of a module; `node(value)` is None for floating values and scalars."""

    def __init__(self, module: Module, facts: Affine, chip: Chip) -> None:
        self.module = module
        self.facts = facts
        self.chip = chip
        self.num_warps: int = module.attributes["num_warps"]
        self.nodes: list[Node] = []
        self.edges: list[Edge] = []
        self.floating: set[Value] = set()
        self._of: dict[Value, int] = {}
        self.execution: dict[int, int] = {}  # op id -> node in which the op works
        self.units: dict[int, dict[LinearLayout, tuple[int, int]]] = {}  # dot id -> layout -> warps
        self._rules: dict[type[Op], Callable[[Any, float], None]] = {
            **dict.fromkeys((For, While, If), self._region),
            **dict.fromkeys(_SAME, self._elementwise),
            **dict.fromkeys((Load, Store, AtomicUpdate, AtomicCompareExchange), self._memory),
            **dict.fromkeys((ExpandDims, Broadcast, Transpose, Reshape, Splat), self._shape),
            **dict.fromkeys((Join, Split), self._pairs),
            **dict.fromkeys((Sort, Merge), self._sort),
            Reduce: self._reduce,
            Scan: self._scan,
            Dot: self._dot,
            Yield: self._yield,
        }
        self._block(module.body, 1.0)
        self._offer()

    def node(self, value: Value) -> int | None:
        """Return the number of a value's node."""
        return self._of.get(value)

    # -- nodes ----------------------------------------------------------------------------
    def _new(self, shape: tuple[int, ...], op: Op | None, weight: float) -> int:
        self.nodes.append(Node(shape, op, weight))
        return len(self.nodes) - 1

    def _home(self, value: Value, weight: float) -> int | None:
        """Return the node of a value that is no floating one, making it if need be."""
        shape = shape_of(value.type)
        if not shape or value in self.floating or not hasattr(value.type, "layout"):
            return None
        known = self._of.get(value)
        if known is None:
            known = self._of[value] = self._new(shape, value.op, weight)
        return known

    def _edge(
        self,
        source: Value,
        target: int | None,
        weight: float,
        need: Maps = _same,
        give: Maps | None = _same,
    ) -> None:
        origin = self._home(source, weight)
        if origin is None or target is None or origin == target:
            return
        bits = element_of(source.type).bits
        self.edges.append(Edge(origin, target, bits, weight, need, give))

    def _after(self, source: int, result: Value, weight: float, give: Maps) -> None:
        target = self._home(result, weight)
        if target is not None:
            bits = element_of(result.type).bits
            self.edges.append(Edge(source, target, bits, weight, None, give, after=True))

    # -- ops ------------------------------------------------------------------------------
    def _block(self, block: Block, weight: float) -> None:
        for op in block.ops:
            self._op(op, weight)

    def _op(self, op: Op, weight: float) -> None:
        if isinstance(op, _FLOATING) and self._floats(op):
            if shape_of(op.results[0].type):
                self.floating.add(op.results[0])
        elif isinstance(op, InlineAssembly):
            self._assembly(op, weight)
        elif is_staged(op):
            self._staged(op, weight)
        else:
            self._rules.get(type(op), self._homes)(op, weight)

    def _homes(self, op: Op, weight: float) -> None:
        for value in (*op.operands, *op.results):
            self._home(value, weight)

    def _yield(self, op: Op, weight: float) -> None:
        """The op that owns the region connects what is yielded."""

    def _elementwise(self, op: Op, weight: float) -> None:
        target = self._home(op.results[0], weight)
        for operand in op.operands:
            self._edge(operand, target, weight)

    def _floats(self, op: Op) -> bool:
        if isinstance(op, Reshape):
            before = shape_of(op.source.type)
            if not before or not reshape_is_linear(op.shape, before):
                return False
        return all(not shape_of(v.type) or v in self.floating for v in op.operands)

    def _region(self, op: Op, weight: float) -> None:
        inner = weight * _trips(op)
        for group in _carried_together(op):
            shape = shape_of(group[0].type)
            if shape:
                number = self._new(shape, op, weight)
                for value in group:
                    self._of[value] = number
        for region in op.regions:
            self._block(region, inner)
        if isinstance(op, For | While):
            for init, after, result in zip(op.inits, op.body.yields, op.results, strict=True):
                self._edge(init, self._of.get(result), weight)
                self._edge(after, self._of.get(result), inner)
        else:
            for region in op.regions:
                for value, result in zip(region.yields, op.results, strict=True):
                    self._edge(value, self._of.get(result), weight)

    def _memory(self, op: Op, weight: float) -> None:
        pointers: Value = op.operands[0]
        shape = shape_of(pointers.type)
        if not shape:
            return
        if op.results:
            target = self._home(op.results[0], weight)
            assert target is not None
        else:
            target = self.execution[op.id] = self._new(shape, op, weight)
        for operand in op.operands:
            self._edge(operand, target, weight)
        mask = getattr(op, "mask", None)
        itemsize = pointee_of(pointers.type).itemsize
        facts = self.facts
        node = self.nodes[target]
        node.costs.append(lambda layout: access_cost(facts, pointers, mask, layout, itemsize))
        node.offer(coalesced(facts, pointers, mask, itemsize, self.num_warps))

    def _reduce(self, op: Reduce, weight: float) -> None:
        shape = shape_of(op.inputs[0].type)
        work = self.execution[op.id] = self._new(shape, op, weight)
        axis, count = op.axis, len(op.inputs)
        self.nodes[work].costs.append(lambda layout: reduction_cost(layout, axis, count))
        for value in op.inputs:
            self._edge(value, work, weight)
        for result in op.results:
            self._after(work, result, weight, lambda layout: result_layout(layout, axis))

    def _scan(self, op: Scan, weight: float) -> None:
        shape = shape_of(op.inputs[0].type)
        work = self.execution[op.id] = self._new(shape, op, weight)
        axis, count = op.axis, len(op.inputs)
        node = self.nodes[work]
        for layout in scan_layouts(shape, axis, self.num_warps):
            node.offer(layout)
        node.costs.append(lambda layout: scan_cost(layout, axis, count))
        node.fixed = True
        for value in op.inputs:
            self._edge(value, work, weight)
        for result in op.results:
            self._after(work, result, weight, _same)

    def _assembly(self, op: InlineAssembly, weight: float) -> None:
        """All operands and results in one layout."""
        if not op.extents:
            return
        work = self.execution[op.id] = self._new(op.extents, op, weight)
        for value in op.inputs:
            self._edge(value, work, weight)
        for result in op.results:
            self._after(work, result, weight, _same)

    def _staged(self, op: Op, weight: float) -> None:
        """Operands are taken as they are, but for an index: it is read beside the result."""
        target = self._home(op.results[0], weight)
        for operand in op.operands:
            self._home(operand, weight)
        if isinstance(op, Gather):
            self._edge(op.index, target, weight)
        elif isinstance(op, Histogram) and op.mask is not None:
            self._edge(op.mask, self._home(op.source, weight), weight)

    def _sort(self, op: Sort | Merge, weight: float) -> None:
        shape = shape_of(op.source.type)
        work = self.execution[op.id] = self._new(shape, op, weight)
        layout = sort_layout(shape, self.num_warps)
        self.nodes[work].offer(layout)
        self.nodes[work].fixed = True
        self._edge(op.source, work, weight)
        keep = shape_of(op.result.type)[-1]
        self._after(work, op.result, weight, lambda layout: kept_layout(layout, keep))

    def _dot(self, op: Dot, weight: float) -> None:
        target = self._home(op.result, weight)
        assert target is not None
        self._edge(op.accumulator, target, weight)
        unit = matrix_unit(op, self.chip)
        shape = shape_of(op.result.type)
        node = self.nodes[target]
        if unit is None:
            for value in (op.a, op.b):
                self._home(value, weight)
            node.offer(default_layout(shape, self.num_warps))
            return
        a_shape, b_shape = shape_of(op.a.type), shape_of(op.b.type)
        warps: dict[LinearLayout, tuple[int, int]] = {}
        for split in {split_warps(shape, self.num_warps)}:
            layout = mma_c(shape, split)
            warps[layout] = split
            node.offer(layout)
        self.units[op.id] = warps
        node.fixed = True
        kw = unit.kw

        def a_layout(result: LinearLayout) -> LinearLayout | None:
            return mma_a(a_shape, kw, warps[result]) if result in warps else None

        def b_layout(result: LinearLayout) -> LinearLayout | None:
            return mma_b(b_shape, kw, warps[result]) if result in warps else None

        self._edge(op.a, target, weight, a_layout, None)
        self._edge(op.b, target, weight, b_layout, None)

    def _shape(self, op: Op, weight: float) -> None:
        target = self._home(op.results[0], weight)
        if isinstance(op, ExpandDims):
            axis = op.axis
            self._edge(op.source, target, weight, lambda c: c.squeeze(axis),
                       lambda c: c.expand_dims(axis))  # fmt: skip
        elif isinstance(op, Broadcast):
            axes = repeated_axes(op)
            self._edge(op.source, target, weight, lambda c: c.broadcast_source(axes), None)
        elif isinstance(op, Transpose):
            order = op.order
            back = tuple(order.index(i) for i in range(len(order)))
            self._edge(op.source, target, weight, lambda c: c.transpose(back),
                       lambda c: c.transpose(order))  # fmt: skip
        elif isinstance(op, Reshape) and shape_of(op.source.type) and op.shape:
            before, after = shape_of(op.source.type), op.shape
            self._edge(op.source, target, weight, lambda c: c.reshape(before),
                       lambda c: c.reshape(after))  # fmt: skip
        else:
            for operand in op.operands:
                self._home(operand, weight)

    def _pairs(self, op: Join | Split, weight: float) -> None:
        first: Value = op.operands[0]
        shape = shape_of(first.type)
        if not shape:
            return
        work = self.execution[op.id] = self._new(shape, op, weight)
        for operand in op.operands:
            self._edge(operand, work, weight)
        if isinstance(op, Join):
            self._after(work, op.result, weight, lambda c: c.join())
            return
        for result in op.results:
            if shape_of(result.type):
                self._after(
                    work, result, weight, lambda c: half[0] if (half := c.split()) else None
                )
        node = self.nodes[work]
        node.costs.append(lambda c: 0.0 if c.split() else 1e12)
        inner = default_layout(shape[:-1], self.num_warps) if shape[:-1] else None
        if inner is not None:
            node.offer(inner.join())

    # -- candidates -----------------------------------------------------------------------
    def _offer(self) -> None:
        """Carry candidates along edges both ways until nothing new comes; then fill gaps."""
        for last in (False, True):
            for _ in range(4):
                if not self._spread():
                    break
            if not last:
                for node in self.nodes:
                    if not node.candidates:
                        node.offer(default_layout(node.shape, self.num_warps))

    def _spread(self) -> bool:
        changed = False
        for edge in self.edges:
            source, target = self.nodes[edge.source], self.nodes[edge.target]
            if edge.give is not None:
                for layout in list(source.candidates):
                    changed |= target.offer(edge.give(layout))
            if edge.need is not None and not edge.after:
                for layout in list(target.candidates):
                    changed |= source.offer(edge.need(layout))
        return changed


def _carried_together(op: Op) -> list[tuple[Value, ...]]:
    """Return the values that share a layout: each result and what a loop carries to it."""
    if isinstance(op, For):
        return list(zip(op.results, op.body.arguments[1:], strict=True))
    if isinstance(op, While):
        return list(zip(op.results, op.body.arguments, op.condition.arguments, strict=True))
    return [(result,) for result in op.results]


def _trips(op: Op) -> float:
    """Return how often the regions of an op run, a guess where the bounds are not known."""
    if isinstance(op, If):
        return 1.0
    if isinstance(op, For):
        lower, upper, step = (constant_of(v) for v in (op.lower, op.upper, op.step))
        if None not in (lower, upper, step) and step:
            return float(max(1, len(range(lower, upper, step))))
    return _LOOP_WEIGHT


__all__ = ["Edge", "LayoutGraph", "Node"]
