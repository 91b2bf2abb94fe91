"""The choice of layouts as a graph: what has to agree, and what disagreement costs.

A *node* is something that has one layout: a value that is computed (with all the values a loop
carries it through), or the execution of an op such as a store or a reduction. Pure cheap values
(counting, splats, index and pointer arithmetic on them) are *floating*: they are written again in
whatever layout a user wants, so they have no node. An *edge* says which layout one node would have
to be in so that another needs no conversion.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from workbench.analysis.products import beside_products, is_line, multiplied
from workbench.ir import Module, Op, Value, element_of, shape_of
from workbench.layouts import LinearLayout
from workbench.ops import pointee_of
from workbench.targets.simt.hardware import Hardware
from workbench.targets.simt.passes.costs import (
    access_cost,
    coalesced,
    conversion_cost,
    default_layout,
    goes_through_registers,
    instructions_of,
    vector_width,
)
from workbench.targets.simt.rules import SAME, Along, Cost, Device, Flow, Layouts, Map, Setting

_MOST_CANDIDATES = 8
#: How far candidates are carried against the order of ops, at first and once gaps are filled: the
#: choices that were measured on a GPU. Fragments of what is computed are to reach the loads, over
#: some twenty ops where 4-bit floats are decoded.
_ROUNDS, _FAR = 4, 32
#: What a conversion costs right behind a load of what products are made of: several users share it,
#: and it may become the way in which a copy in shared memory is read.
_BEHIND_LOAD = 0.75
#: What an instruction of such a load costs in a loop, beside sectors: it may become a copy to
#: shared memory, whose addresses and masks are written. Where most rows are known to be off,
#: sectors alone would have all warps bring the rest element by element.
_COPIED = 4.0
#: What it costs in a layout in which no copy brings it though one could in another: a round then
#: waits for memory, of which each asks a round ahead at most (the least that memory takes).
_WAITS = 500.0


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
    need: Map | None
    give: Map | None
    after: bool = False

    def costs(
        self,
        sources: list[LinearLayout],
        targets: list[LinearLayout],
        chip: Hardware,
        known: Known | None = None,
    ) -> list[list[float]]:
        """Return the estimated cycles of the conversions between layouts of its nodes.

        `known`: what conversions of this chip cost, which is added to.
        """
        known = Known() if known is None else known
        froms: list[LinearLayout | None] = [*sources]
        tos: list[LinearLayout | None] = [*targets]
        if self.after:
            assert self.give is not None
            froms = list(map(self.give, sources))
        else:
            assert self.need is not None
            tos = list(map(self.need, targets))
        key = tuple(froms), tuple(tos), self.bits
        found = known.get(key)
        if found is None:
            found = known[key] = [[_conversion(a, b, self.bits, chip) for b in tos] for a in froms]
        return [[_NEVER if one is None else self.weight * one for one in row] for row in found]


#: What none of a node's layouts can be brought to.
_NEVER = 1e12
#: What conversions cost from each of some layouts to each of others; None: it cannot be.
Known = dict[
    tuple[tuple[LinearLayout | None, ...], tuple[LinearLayout | None, ...], int],
    list[list[float | None]],
]


def _conversion(
    source: LinearLayout | None, target: LinearLayout | None, bits: int, chip: Hardware
) -> float | None:
    if source is None or target is None:
        return None
    return conversion_cost(source, target, bits, chip)


class LayoutGraph:
    """Nodes and edges of a module; `node(value)` is None for floating values and scalars.

    What an op contributes is its entry `layouts` in the chip's table of rules.
    """

    def __init__(self, module: Module, chip: Device) -> None:
        self.module = module
        self.chip = chip
        self.num_warps: int = module.attributes["num_warps"]
        self.nodes: list[Node] = []
        self.edges: list[Edge] = []
        self.floating: set[Value] = set()
        #: What the rules say, by op id; ops without tiles are left out.
        self.plans: dict[int, Layouts] = {}
        #: Op id -> node of the layout in which it works, where that is one of its own.
        self.execution: dict[int, int] = {}
        #: Those of which it is counted what it costs to write them.
        self._paid: set[Value] = set()
        self._of: dict[Value, int] = {}
        self._on = Setting(module, chip)
        self._rules = chip.rules
        #: What products multiply, and what that is made of element by element.
        self._multiplied = multiplied(module)
        #: The rows and columns that meet what they give.
        self._beside = beside_products(module)
        self._block(module.body.ops, 1.0)
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
        if not value.type.takes_layout or value in self.floating:
            return None
        known = self._of.get(value)
        if known is None:
            known = self._of[value] = self._new(shape_of(value.type), value.op, weight)
        return known

    def _edge(self, source: Value, target: int | None, weight: float, along: Along = SAME) -> None:
        origin = self._home(source, weight)
        if origin is None or target is None or origin == target:
            return
        bits = element_of(source.type).bits
        if source in self._multiplied and self._is_loaded(source):
            weight *= _BEHIND_LOAD
        self.edges.append(Edge(origin, target, bits, weight, along.need, along.give))

    def _is_loaded(self, value: Value) -> bool:
        return value.op is not None and self._rules.access_of(value.op) is not None

    def _after(self, source: int, result: Value, weight: float, give: Map) -> None:
        target = self._home(result, weight)
        if target is not None:
            bits = element_of(result.type).bits
            self.edges.append(Edge(source, target, bits, weight, None, give, after=True))

    # -- ops ------------------------------------------------------------------------------
    def _block(self, ops: tuple[Op, ...], weight: float) -> None:
        for op in ops:
            rule = self._rules.layout_rule(op)
            if not op.regions and not _has_tiles(op):
                continue
            plan = self.plans[op.id] = rule(op, self._on)
            if plan.flow is not None:
                self._flow(op, plan.flow, weight)
            elif plan.floats and self._floats(op):
                if shape_of(op.results[0].type):
                    self.floating.add(op.results[0])
            else:
                self._works(op, plan, weight)

    def _floats(self, op: Op) -> bool:
        return all(not shape_of(v.type) or v in self.floating for v in op.operands)

    def _works(self, op: Op, plan: Layouts, weight: float) -> None:
        if plan.own is not None:
            node = self.execution[op.id] = self._new(plan.own, op, weight)
        else:
            for value in op.results:
                self._home(value, weight)
            node = None if plan.work is None else self._home(plan.work, weight)
        if node is not None:
            self._choices(self.nodes[node], plan)
            self._written(self.nodes[node], op.operands, plan, lambda layout: layout)
            if weight > 1 and not (self._multiplied | self._beside).isdisjoint(op.results):
                self._copied(self.nodes[node], op, plan)
        for number in plan.order or range(len(op.operands)):
            along = plan.operands[number] if plan.operands else None
            if along is None:
                self._home(op.operands[number], weight)
            else:
                self._edge(op.operands[number], node, weight, along)
        if plan.own is not None:
            for result, give in zip(op.results, plan.results, strict=True):
                self._after(self.execution[op.id], result, weight, give)

    def _choices(self, node: Node, plan: Layouts) -> None:
        if plan.cost is not None:
            node.costs.append(plan.cost)
        if plan.offers is not None:
            for layout in plan.offers():
                node.offer(layout)
        node.fixed |= plan.fixed

    def _written(self, node: Node, operands: tuple[Value, ...], plan: Layouts, at: Map) -> None:
        """Have the first that needs floating values pay for what it costs to write them.

        `at`: the layout in which the op works, by the node's.
        """
        for value, along in zip(operands, plan.operands, strict=False):
            if value not in self.floating or value in self._paid or along is None:
                continue
            assert value.op is not None
            self._paid.add(value)
            behind = self.plans[value.op.id]
            layout = partial(_through, at, along.need)
            if behind.cost is not None:
                node.costs.append(partial(_cost_at, layout, behind.cost))
            self._written(node, value.op.operands, behind, layout)

    def _copied(self, node: Node, op: Op, plan: Layouts) -> None:
        """Have a load of what products are made of pay for its instructions, and for waiting.

        A row or a column has no instructions to pay for: it is repeated, and loaded where it is
        needed. A copy to shared memory finds nothing that another one has brought.
        """
        access, on = self._rules.access_of(op), self._on
        if access is None:
            return
        pointers, mask = access.pointers, access.mask
        itemsize = pointee_of(pointers.type).itemsize
        if goes_through_registers(on, pointers, mask, itemsize):  # what no copy brings stays a load
            return
        least, repeated = 1, is_line(node.shape)
        if on.options.get("copy_narrow", False):
            least = max(1, on.chip.least_copied_bytes // itemsize)
            node.offer(coalesced(on, pointers, mask, itemsize, least))

        def cost(layout: LinearLayout) -> float:
            width, _ = vector_width(
                on.facts, pointers, mask, layout, itemsize, on.chip.widest_bytes
            )
            found = access_cost(on, pointers, mask, layout, itemsize)
            found += 0.0 if width >= least else _WAITS
            if repeated:
                return found
            return found + _COPIED * layout.size("warp") * instructions_of(layout, width)

        node.costs = [*(one for one in node.costs if one is not plan.cost), cost]

    def _flow(self, op: Op, flow: Flow, weight: float) -> None:
        for group in flow.together:
            shape = shape_of(group[0].type)
            if shape:
                number = self._new(shape, op, weight)
                for value in group:
                    self._of[value] = number
        inner = weight * flow.trips
        for region in op.regions:
            self._block(region.ops[:-1], inner)
        self._feed(op.operands, flow.operands, weight)
        for region, results in zip(op.regions, flow.yields, strict=True):
            self._feed(region.yields, results, inner)

    def _feed(
        self, values: tuple[Value, ...], results: tuple[Value | None, ...], weight: float
    ) -> None:
        for value, result in zip(values, results, strict=True):
            if result is not None:
                self._edge(value, self._of.get(result), weight)

    # -- candidates -----------------------------------------------------------------------
    def _offer(self) -> None:
        """Carry candidates along edges both ways until nothing new comes; then fill gaps."""
        rounds = _FAR if any(plan.far for plan in self.plans.values()) else _ROUNDS
        carried = [[0, 0] for _ in self.edges]
        for last in (False, True):
            for _ in range(rounds):
                if not self._spread(carried):
                    break
            if not last:
                for node in self.nodes:
                    if not node.candidates:
                        node.offer(default_layout(node.shape, self.num_warps, self.chip.lanes))
        self._within()

    def _within(self) -> None:
        """Offer what lets the warps of a store keep the elements that they have."""
        for edge in self.edges:
            target = self.nodes[edge.target]
            plan = None if target.op is None else self.plans.get(target.op.id)
            if plan is None or plan.within is None:
                continue
            for layout in self.nodes[edge.source].candidates:
                target.offer(plan.within(layout))

    def _spread(self, carried: list[list[int]]) -> bool:
        """Carry along each edge what came since it was carried last; say whether some was new.

        `carried`: of each edge, how many candidates of its source and target it has carried: what
        was refused then is refused again.
        """
        changed = False
        for edge, done in zip(self.edges, carried, strict=True):
            source, target = self.nodes[edge.source], self.nodes[edge.target]
            if edge.give is not None:
                new, done[0] = source.candidates[done[0] :], len(source.candidates)
                for layout in new:
                    changed |= target.offer(edge.give(layout))
            if edge.need is not None and not edge.after:
                new, done[1] = target.candidates[done[1] :], len(target.candidates)
                for layout in new:
                    changed |= source.offer(edge.need(layout))
        return changed


def _through(at: Map, need: Map, layout: LinearLayout) -> LinearLayout | None:
    """Return the layout of an operand where that is told by an op's, and the op's by another."""
    found = at(layout)
    return None if found is None else need(found)


def _cost_at(at: Map, cost: Cost, layout: LinearLayout) -> float:
    found = at(layout)
    return 0.0 if found is None else cost(found)


def _has_tiles(op: Op) -> bool:
    return any(value.type.takes_layout for value in (*op.results, *op.operands))


__all__ = ["Edge", "Known", "LayoutGraph", "Node"]
