"""Chooses a layout for every tile: tile IR in, GPU IR out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from workbench.analysis.affine import Affine
from workbench.ir import Block, Builder, Module, Op, Scalar, Tile, Value, element_of, shape_of
from workbench.layouts import LinearLayout, mma_a, mma_b, swizzled
from workbench.ops import (
    Broadcast,
    ConvertLayout,
    Dot,
    ExpandDims,
    For,
    Gather,
    Histogram,
    If,
    InlineAssembly,
    Join,
    Merge,
    Reduce,
    Reshape,
    Scan,
    Sort,
    Split,
    Transpose,
    While,
    Yield,
)
from workbench.passes.manager import Remarks
from workbench.targets.nvidia.chip import Chip
from workbench.targets.nvidia.dots import matrix_unit
from workbench.targets.nvidia.ops import SharedAllocate, SharedDot, SharedStore
from workbench.targets.nvidia.ops.shared import allocate_type
from workbench.targets.nvidia.passes.costs import default_layout
from workbench.targets.nvidia.passes.layout_choice import solve
from workbench.targets.nvidia.passes.layout_graph import LayoutGraph
from workbench.targets.nvidia.reductions import result_layout
from workbench.targets.nvidia.shapes import repeated_axes
from workbench.targets.nvidia.sorts import kept_layout
from workbench.targets.nvidia.staged import is_staged


def assign_layouts(module: Module, remarks: Remarks, chip: Chip) -> Module:
    """Give every tile the layout that makes accesses, reductions and conversions cheapest in sum.

    Before:
        %i = tile.iota {start = 0, type = tile<4xi32>} : tile<4xi32>
        %ps = tile.splat %p {shape = (4,)} : tile<4xptr<f32>>
        %q = tile.add_pointer %ps, %i : tile<4xptr<f32>>
        %1 = tile.load %q : tile<4xf32>
    After:
        #L0 = linear<4, lane=[1,2,0,0,0]>
        %ps = tile.splat %p {shape = (4,)} : tile<4xptr<f32>, #L0>
        %i = tile.iota {start = 0, type = tile<4xi32, #L0>} : tile<4xi32, #L0>
        %q = tile.add_pointer %ps, %i : tile<4xptr<f32>, #L0>
        %1 = tile.load %q : tile<4xf32, #L0>

    Needs: no `index` types. Keeps: every value; adds gpu.convert_layout where layouts differ.
    """
    graph = LayoutGraph(module, Affine(module, tiles=True), chip)
    chosen = solve(graph)
    _explain(graph, chosen, remarks)
    return _Applier(module, graph, chosen, chip).run()


def _explain(graph: LayoutGraph, chosen: list[LinearLayout], remarks: Remarks) -> None:
    for node, layout in zip(graph.nodes, chosen, strict=True):
        if node.op is None or not node.costs or len(node.candidates) < 2:
            continue
        costs = {c: sum(cost(c) for cost in node.costs) for c in node.candidates}
        others = sorted(cost for c, cost in costs.items() if c != layout)
        remarks.note(
            node.op,
            f"layout {layout.kind or 'chosen'}: {costs[layout]:.0f} cycles here, "
            f"the next best of {len(costs)} candidates takes {others[0]:.0f}",
        )


class _Applier:
    """Writes the module again with layouts on every tile and conversions where they differ."""

    def __init__(
        self, module: Module, graph: LayoutGraph, chosen: list[LinearLayout], chip: Chip
    ) -> None:
        self.module = module
        self.graph = graph
        self.chosen = chosen
        self.chip = chip
        self.builder = Builder(module.next_id)
        self.num_warps = graph.num_warps
        self.values: dict[Value, Value] = {}
        self.used: set[int] = set()
        self.rules: dict[type[Op], Callable[[Any], None]] = {
            **dict.fromkeys((For, While, If), self.region),
            **dict.fromkeys((Scan, InlineAssembly), self.along),
            **dict.fromkeys((Sort, Merge), self.sort),
            **dict.fromkeys((Join, Split), self.pairs),
            Reduce: self.reduce,
            Dot: self.dot,
        }
        # Copies of a value in other layouts, by open block: only those that dominate are reused.
        self.copies: list[dict[tuple[Value, LinearLayout], Value]] = [{}]

    def run(self) -> Module:
        body = self.block(self.module.body)
        return replace(self.module, body=body, next_id=self.builder.next_id)

    def home(self, value: Value) -> LinearLayout:
        node = self.graph.node(value)
        if node is None:
            return default_layout(shape_of(value.type), self.num_warps)
        return self.chosen[node]

    def block(self, block: Block, arguments: tuple[Value, ...] | None = None) -> Block:
        self.copies.append({})
        with self.builder.block() as ops:
            for op in block.ops:
                before = self.builder.span, self.builder.origins
                self.builder.span, self.builder.origins = op.span, (op.id,)
                self.op(op)
                self.builder.span, self.builder.origins = before
        self.copies.pop()
        return Block(block.arguments if arguments is None else arguments, tuple(ops))

    # -- values ---------------------------------------------------------------------------
    def get(self, value: Value, layout: LinearLayout | None = None) -> Value:
        """Return a value in a layout (a scalar: itself)."""
        if not shape_of(value.type) or not isinstance(value.type, Tile):
            return self.values.get(value, value)
        if layout is None:
            layout = self.home(value)
        if value in self.graph.floating:
            return self.written(value, layout)
        here = self.values[value]
        assert isinstance(here.type, Tile)
        if here.type.layout == layout:
            return here
        key = (value, layout)
        for copies in reversed(self.copies):
            if key in copies:
                return copies[key]
        new = self.builder.add(ConvertLayout(here, layout), value.hint)
        self.copies[-1][key] = new
        return new

    def written(self, value: Value, layout: LinearLayout) -> Value:
        """Return a floating value, computed in a layout."""
        key = (value, layout)
        for copies in reversed(self.copies):
            if key in copies:
                return copies[key]
        op = value.op
        assert op is not None
        fields: dict[str, Any] = {}
        for spec in op.fields:
            held = op.__dict__[spec.name]
            if held is None:
                continue
            if spec.role in ("operand", "optional"):
                fields[spec.name] = self.get(held, _operand_layout(op, held, layout))
            elif spec.role == "operands":
                fields[spec.name] = tuple(self.get(v, layout) for v in held)
            elif isinstance(held, Tile):
                fields[spec.name] = held.with_layout(layout)
        new = self.place(op, fields, (layout,))
        self.copies[-1][key] = new.results[0]
        return new.results[0]

    def place(
        self, op: Op, fields: dict[str, Any], layouts: tuple[LinearLayout | None, ...] | None
    ) -> Op:
        """Insert a copy of an op; the first copy keeps the id."""
        new = op.changed(**fields, layouts=layouts)
        if op.id in self.used:
            new.__dict__["id"] = 0
            new.__dict__["origins"] = (op.id,)
        self.used.add(op.id)
        return self.builder.insert(new)

    # -- ops ------------------------------------------------------------------------------
    def op(self, op: Op) -> None:
        """Write one op; a yield is written with its region, a floating op where it is needed."""
        if isinstance(op, Yield) or (op.results and op.results[0] in self.graph.floating):
            return
        if is_staged(op):
            self.staged(op)
        elif isinstance(op, Join | Split | InlineAssembly) and op.id not in self.graph.execution:
            self.plain(op)
        else:
            self.rules.get(type(op), self.plain)(op)

    def plain(self, op: Op) -> None:
        """An op that works in one layout: its result's, or the one chosen for its execution."""
        if op.id in self.graph.execution:
            layout: LinearLayout | None = self.chosen[self.graph.execution[op.id]]
        elif op.results and shape_of(op.results[0].type):
            layout = self.home(op.results[0])
        else:
            layout = None
        fields: dict[str, Any] = {}
        for spec in op.fields:
            held = op.__dict__[spec.name]
            if held is None:
                continue
            if spec.role in ("operand", "optional"):
                fields[spec.name] = self.get(
                    held, _operand_layout(op, held, layout) if layout else None
                )
            elif spec.role == "operands":
                fields[spec.name] = tuple(self.get(v, layout) for v in held)
        new = self.place(op, fields, tuple(self._result_layout(r) for r in op.results) or None)
        for old, now in zip(op.results, new.results, strict=True):
            self.values[old] = now

    def _result_layout(self, value: Value) -> LinearLayout | None:
        return self.home(value) if shape_of(value.type) else None

    def settle(self, op: Op, new: Op) -> None:
        """Convert results to the layouts chosen for them."""
        for old, now in zip(op.results, new.results, strict=True):
            if shape_of(old.type):
                wanted = self.home(old)
                assert isinstance(now.type, Tile)
                if now.type.layout != wanted:
                    now = self.builder.add(ConvertLayout(now, wanted), old.hint)
            self.values[old] = now

    def reduce(self, op: Reduce) -> None:
        layout = self.chosen[self.graph.execution[op.id]]
        inputs = tuple(self.get(v, layout) for v in op.inputs)
        result = result_layout(layout, op.axis)
        layouts = tuple(result if shape_of(r.type) else None for r in op.results)
        self.settle(op, self.place(op, {"inputs": inputs}, layouts))

    def along(self, op: Scan | InlineAssembly) -> None:
        """An op that takes all inputs in the layout in which it gives its results."""
        layout = self.chosen[self.graph.execution[op.id]]
        inputs = tuple(self.get(v, layout) for v in op.inputs)
        self.settle(op, self.place(op, {"inputs": inputs}, (layout,) * len(op.results)))

    def sort(self, op: Sort | Merge) -> None:
        layout = self.chosen[self.graph.execution[op.id]]
        kept = kept_layout(layout, shape_of(op.result.type)[-1])
        self.settle(op, self.place(op, {"source": self.get(op.source, layout)}, (kept,)))

    def staged(self, op: Op) -> None:
        """An op through shared memory takes each operand in the operand's own layout."""
        (result,) = op.results
        own = self.home(result)
        fields: dict[str, Any] = {}
        for spec in op.fields:
            held = op.__dict__[spec.name]
            if spec.role not in ("operand", "optional") or held is None:
                continue
            layout: LinearLayout | None = None
            if isinstance(op, Gather) and held is op.index:
                layout = own
            elif isinstance(op, Histogram) and held is op.mask:
                layout = self.home(op.source)
            fields[spec.name] = self.get(held, layout)
        self.values[result] = self.place(op, fields, (own,)).results[0]

    def pairs(self, op: Join | Split) -> None:
        layout = self.chosen[self.graph.execution[op.id]]
        if isinstance(op, Join):
            fields = {"first": self.get(op.first, layout), "second": self.get(op.second, layout)}
            layouts: tuple[LinearLayout | None, ...] = (layout.join(),)
        else:
            halves = layout.split()
            assert halves is not None
            fields = {"source": self.get(op.source, layout)}
            layouts = tuple(halves[0] if shape_of(r.type) else None for r in op.results)
        self.settle(op, self.place(op, fields, layouts))

    def dot(self, op: Dot) -> None:
        layout = self.home(op.result)
        accumulator = self.get(op.accumulator, layout)
        unit = matrix_unit(op, self.chip)
        if unit is None:
            self.values[op.result] = self.shared_dot(op, accumulator)
            return
        warps = self.graph.units[op.id][layout]
        fields = {
            "a": self.get(op.a, mma_a(shape_of(op.a.type), unit.kw, warps)),
            "b": self.get(op.b, mma_b(shape_of(op.b.type), unit.kw, warps)),
            "accumulator": accumulator,
        }
        self.values[op.result] = self.place(op, fields, (layout,)).results[0]

    def shared_dot(self, op: Dot, accumulator: Value) -> Value:
        """Multiply-adds read their operands from shared memory."""
        a, b = self.buffer(op.a), self.buffer(op.b)
        return self.builder.add(SharedDot(a, b, accumulator), op.result.hint)

    def buffer(self, value: Value) -> Value:
        """Store a value in shared memory and return the buffer."""
        shape, element = shape_of(value.type), element_of(value.type)
        assert isinstance(element, Scalar)
        type = allocate_type(shape, element, swizzled(shape, element.itemsize))
        held = self.get(value)
        buffer = self.builder.add(SharedAllocate(type=type), value.hint)
        self.builder.insert(SharedStore(held, buffer))
        return buffer

    def region(self, op: Op) -> None:
        fields: dict[str, Any] = {}
        if isinstance(op, For | While):
            fields["inits"] = tuple(
                self.get(v, self._result_layout(r))
                for v, r in zip(op.inits, op.results, strict=True)
            )
        if isinstance(op, For):
            for name in ("lower", "upper", "step"):
                fields[name] = self.get(op.__dict__[name])
        elif isinstance(op, If):
            fields["condition"] = self.get(op.condition)
        for spec in op.fields:
            if spec.role != "region":
                continue
            block: Block = op.__dict__[spec.name]
            arguments = tuple(self.argument(a) for a in block.arguments)
            wanted = (
                None if spec.name == "condition" else [self._result_layout(r) for r in op.results]
            )
            fields[spec.name] = self.yielding(block, arguments, wanted)
        new = self.place(op, fields, None)
        for old, now in zip(op.results, new.results, strict=True):
            self.values[old] = now

    def argument(self, value: Value) -> Value:
        new = value
        if shape_of(value.type):
            assert isinstance(value.type, Tile)
            new = Value(value.type.with_layout(self.home(value)), value.hint)
        self.values[value] = new
        return new

    def yielding(
        self, block: Block, arguments: tuple[Value, ...], wanted: list[LinearLayout | None] | None
    ) -> Block:
        """Rebuild a region whose last op yields values in the wanted layouts."""
        self.copies.append({})
        with self.builder.block() as ops:
            for op in block.ops[:-1]:
                before = self.builder.span, self.builder.origins
                self.builder.span, self.builder.origins = op.span, (op.id,)
                self.op(op)
                self.builder.span, self.builder.origins = before
            end = block.terminator
            layouts = wanted or [None] * len(end.operands)
            values = tuple(self.get(v, w) for v, w in zip(end.operands, layouts, strict=True))
            self.builder.insert(end.changed(values=values))
        self.copies.pop()
        return Block(arguments, tuple(ops))


def _operand_layout(op: Op, operand: Value, layout: LinearLayout) -> LinearLayout | None:
    """Return the layout an operand needs so that the op's result is in `layout`."""
    if not shape_of(operand.type):
        return None
    if isinstance(op, ExpandDims):
        return layout.squeeze(op.axis)
    if isinstance(op, Broadcast):
        return layout.broadcast_source(repeated_axes(op))
    if isinstance(op, Transpose):
        return layout.transpose(tuple(op.order.index(i) for i in range(len(op.order))))
    if isinstance(op, Reshape):
        return layout.reshape(shape_of(op.source.type))
    return layout


__all__ = ["assign_layouts"]
