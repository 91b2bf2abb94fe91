"""Chooses a layout for every tile: tile IR in, GPU IR out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from workbench.ir import Block, Builder, Module, Op, Tile, Value, layout_of, shape_of, walk
from workbench.layouts import LinearLayout
from workbench.ops import ConvertLayout
from workbench.passes.manager import Remarks
from workbench.targets.simt.passes.costs import default_layout
from workbench.targets.simt.passes.layout_choice import solve
from workbench.targets.simt.passes.layout_graph import LayoutGraph
from workbench.targets.simt.rules import Device, Flow, Layouts


def assign_layouts(module: Module, remarks: Remarks, chip: Device) -> Module:
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
    graph = LayoutGraph(module, chip)
    chosen = solve(graph)
    _explain(graph, chosen, remarks)
    return _Applier(module, graph, chosen).run()


def _explain(graph: LayoutGraph, chosen: list[LinearLayout], remarks: Remarks) -> None:
    for node, layout in zip(graph.nodes, chosen, strict=True):
        if node.op is None or not node.costs or len(node.candidates) < 2:
            continue
        costs = {c: sum(cost(c) for cost in node.costs) for c in node.candidates}
        others = sorted(cost for c, cost in costs.items() if c != layout)
        if round(others[0]) == round(costs[layout]):
            continue  # several are as good: nothing was decided here
        remarks.note(
            node.op,
            f"layout {layout.kind or 'chosen'}: {costs[layout]:.0f} cycles here, "
            + _compared(costs[layout], others),
        )


def _compared(chosen: float, others: list[float]) -> str:
    """Say what the other candidates cost here; the choice is the cheapest with all around it."""
    count = len(others) + 1
    if others[0] < chosen:
        return (
            f"another of {count} candidates takes {others[0]:.0f} here, and more with what "
            "surrounds it"
        )
    return f"the next best of {count} candidates takes {others[0]:.0f}"


class _Applier:
    """Writes the module again with layouts on every tile and conversions where they differ."""

    def __init__(self, module: Module, graph: LayoutGraph, chosen: list[LinearLayout]) -> None:
        self.module = module
        self.graph = graph
        self.chosen = chosen
        self.builder = Builder(module.next_id)
        self.num_warps = graph.num_warps
        self.values: dict[Value, Value] = {}
        self.used: set[int] = set()
        # Copies of a value in other layouts, by open block: only those that dominate are reused.
        self.copies: list[dict[tuple[Value, LinearLayout], Value]] = [{}]

    def run(self) -> Module:
        with self.builder.block() as ops:
            self.ops(self.module.body.ops)
        body = Block(self.module.body.arguments, tuple(ops))
        return replace(self.module, body=body, next_id=self.builder.next_id)

    def home(self, value: Value) -> LinearLayout | None:
        """Return the layout chosen for a value; None for a scalar."""
        if not value.type.takes_layout:
            return None
        node = self.graph.node(value)
        if node is None:
            return default_layout(shape_of(value.type), self.num_warps, self.graph.chip.lanes)
        return self.chosen[node]

    # -- values ---------------------------------------------------------------------------
    def get(self, value: Value, layout: LinearLayout | None = None) -> Value:
        """Return a value in a layout, its own if none is given (a scalar: itself)."""
        if not value.type.takes_layout:
            return self.values.get(value, value)
        if layout is None:
            layout = self.home(value)
            assert layout is not None
        if value in self.graph.floating:
            return self.written(value, layout)
        here = self.values[value]
        if layout_of(here.type) == layout:
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
        operands = self.operands(op, self.graph.plans[op.id], layout)
        types = {
            name: held.with_layout(layout)
            for name, held in op.attributes.items()
            if isinstance(held, Tile)
        }
        new = self.place(op, operands, (layout,), **types)
        self.copies[-1][key] = new.results[0]
        return new.results[0]

    def operands(self, op: Op, plan: Layouts, layout: LinearLayout | None) -> list[Value]:
        """Return an op's operands as it takes them when it works in a layout."""
        if not plan.operands:
            return [self.get(operand) for operand in op.operands]
        held = list(op.operands)
        for number in plan.order or range(len(held)):
            operand, along = held[number], plan.operands[number]
            wanted = None
            if along is not None and layout is not None and operand.type.takes_layout:
                wanted = along.need(layout)
            held[number] = self.get(operand, wanted)
        return held

    def place(
        self,
        op: Op,
        operands: Sequence[Value],
        layouts: tuple[LinearLayout | None, ...] | None,
        **fields: Any,
    ) -> Op:
        """Insert a copy of an op; the first copy keeps the id."""
        copy = op.duplicate if op.id in self.used else op.with_operands
        self.used.add(op.id)
        return self.builder.insert(copy(operands, layouts=layouts, **fields))

    # -- ops ------------------------------------------------------------------------------
    def ops(self, ops: Sequence[Op]) -> None:
        """Write ops one after the other; a floating one is written where it is needed."""
        builder = self.builder
        for op in ops:
            if op.results and op.results[0] in self.graph.floating:
                continue
            before = builder.span, builder.origins
            builder.span, builder.origins = op.span, (op.id,)
            self.op(op, self.graph.plans.get(op.id, _NO_TILES))
            builder.span, builder.origins = before

    def op(self, op: Op, plan: Layouts) -> None:
        """Write one op in the layout that was chosen for it."""
        if plan.flow is not None:
            self.region(op, plan.flow)
            return
        if plan.own is not None:
            layout = self.chosen[self.graph.execution[op.id]]
            given = tuple(
                give(layout) if shape_of(result.type) else None
                for result, give in zip(op.results, plan.results, strict=True)
            )
        else:
            layout = None if plan.work is None else self.home(plan.work)
            given = tuple(map(self.home, op.results))
        operands = self.operands(op, plan, layout)
        if plan.becomes is not None:
            results = plan.becomes(self.builder, operands)
        else:
            fields = self.bodies(op) if op.regions else {}
            if op.results and isinstance(held := op.attributes.get("type"), Tile):
                fields, given = {"type": held.with_layout(given[0])}, ()
            results = self.place(op, operands, given or None, **fields).results
        for old, now in zip(op.results, results, strict=True):
            self.values[old] = self.settled(old, now)

    def bodies(self, op: Op) -> dict[str, Block]:
        """Return the regions of an op whose bodies hold scalars alone, by name, if they change.

        They do where they read a scalar from around the op, which is another value by now.
        """
        read = (value for region in op.regions for o in walk(region) for value in o.operands)
        if all(self.get(value) is value for value in read):
            return {}
        nothing = [(None,) * len(region.terminator.operands) for region in op.regions]
        regions = map(self.block, op.regions, nothing)
        return dict(zip(op.region_names, regions, strict=True))

    def settled(self, old: Value, now: Value) -> Value:
        """Return a result in the layout chosen for it."""
        wanted = self.home(old)
        if wanted is None or layout_of(now.type) == wanted:
            return now
        return self.builder.add(ConvertLayout(now, wanted), old.hint)

    def region(self, op: Op, flow: Flow) -> None:
        operands = [
            self.get(value, None if result is None else self.home(result))
            for value, result in zip(op.operands, flow.operands, strict=True)
        ]
        regions = [
            self.block(region, results)
            for region, results in zip(op.regions, flow.yields, strict=True)
        ]
        fields = dict(zip(op.region_names, regions, strict=True))
        new = self.place(op, operands, None, **fields)
        self.values.update(zip(op.results, new.results, strict=True))

    def block(self, block: Block, results: tuple[Value | None, ...]) -> Block:
        """Write a region whose last op yields values in the layouts of the results they become."""
        arguments = tuple(map(self.argument, block.arguments))
        self.copies.append({})
        with self.builder.block() as ops:
            self.ops(block.ops[:-1])
            end = block.terminator
            values = [
                self.get(value, None if result is None else self.home(result))
                for value, result in zip(end.operands, results, strict=True)
            ]
            self.builder.insert(end.with_operands(values))
        self.copies.pop()
        return Block(arguments, tuple(ops))

    def argument(self, value: Value) -> Value:
        new = value
        if value.type.takes_layout:
            new = Value(value.type.with_layout(self.home(value)), value.hint)
        self.values[value] = new
        return new


#: What holds for an op without tiles.
_NO_TILES = Layouts()

__all__ = ["assign_layouts"]
