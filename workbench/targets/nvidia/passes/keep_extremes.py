"""Extremes that a loop carries on may lie behind (`fast_rescale`).

An online softmax goes on with the largest score of each row. Of many rounds few raise it by much,
and that none does each lane of a warp can tell by itself: by what would become of the carried
extreme if the lane's own elements were all of the row, of which the row's extreme is one. Where
that is near in all lanes, the extreme stays, nothing goes from lane to lane, and the sums are
multiplied by ones, which a warp does not do.

Where it has to stay exactly (no slack), asking costs more than it saves: attention of D 128 at 1024
to 8192 was 4 to 6 % slower in a race, with slack up to 3 % faster.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from workbench.analysis.exponents import Unit, unit_of
from workbench.ir import Block, Module, Op, Scalar, Value, copy_op, element_of, layout_of
from workbench.ir.rebuild import Rebuilder
from workbench.layouts import reduce_plan
from workbench.ops import Yield
from workbench.ops.reductions import row_extreme
from workbench.passes.manager import Remarks
from workbench.targets.nvidia.ops import Kept
from workbench.targets.simt.passes.rounds import read_by

#: What `fast_rescale` lets an extreme lie behind: powers of 2 that halves can still hold.
_SLACK = 8.0


@dataclass(frozen=True, slots=True)
class _Found:
    """What is carried, the reduction that may change it, the ops from that to its next value."""

    carried: Value
    extreme: Op
    chain: tuple[Op, ...]
    unit: Unit


def keep_extremes(module: Module, remarks: Remarks) -> Module:
    """Have warps ask whether an extreme that a loop carries changes by much, before lanes meet.

    Before:
        %largest = tile.reduce [%scores] {axis = 1} {(max)} : tile<64xf32>
        %scaled = tile.mul [%largest, %scale] : tile<64xf32>
        %top.1 = tile.max [%top, %scaled] : tile<64xf32>
    After:
        %top.1 = gpu.kept %top, %scores, [%scale, %top] {axis = 1, slack = 8.0} {(max)} {(mul, max)} : tile<64xf32>

    Whoever asks for `fast_rescale` says that extremes cancel out of what is made of them.

    Needs: layouts. Keeps: every value, but for extremes that lie behind and what rounds otherwise.
    """  # noqa: E501
    if not module.attributes.get("fast_rescale", False):
        return module
    found: dict[int, _Found] = {}
    for loop in module.walk():
        if loop.repeats and not loop.per_program:
            for body in loop.regions:
                found |= _of_loop(loop, body)
    if not found:
        text = "fast_rescale=True is not obeyed: no loop carries an extreme of a row's lanes"
        remarks.note(None, text, "missed")
        return module
    return _Keeper(module, found, remarks).run()


def _of_loop(loop: Op, body: Block) -> dict[int, _Found]:
    """Return what is found in a loop, by the id of the op that makes what is carried on."""
    uses: dict[Value, list[Op]] = {}
    for op in body.ops:
        for value in read_by(op):
            uses.setdefault(value, []).append(op)
    arguments, found = set(body.arguments), dict[int, _Found]()
    for given, received in loop.flows():
        last = given.op
        if received not in arguments or last not in body.ops or given not in body.yields:
            continue
        element = element_of(received.type)
        if not isinstance(element, Scalar) or not element.is_float or element.bits == 8:
            continue  # a lane compares what is carried with its own elements
        assert last is not None
        chain = _chain(last, uses)
        if chain is not None and received in (v for op in chain[1:] for v in op.operands):
            unit = unit_of(given, uses, body)
            if unit is not None:
                found[last.id] = _Found(received, chain[0], chain[1:], unit)
    return found


def _chain(last: Op, uses: dict[Value, list[Op]]) -> tuple[Op, ...] | None:
    """Return the only reduction to an extreme that an op depends on, and the ops between in order.

    Element by element, and nobody else looks at what they make. None if it is not so, or if no
    lane has to ask another one.
    """
    extremes, ops = _way(last, uses)
    if len(extremes) != 1 or not ops or ops[-1] is not last:
        return None
    inside = {*ops}
    users = (user for op in (*extremes, *ops[:-1]) for user in uses.get(op.results[0], ()))
    if not inside.issuperset(users) or not _asks_lanes(extremes[0], ops):
        return None
    return (*extremes, *ops)


def _way(last: Op, uses: dict[Value, list[Op]]) -> tuple[list[Op], list[Op]]:
    """Return the reductions to extremes that an op depends on, and the ops that depend on them."""
    extremes: list[Op] = []
    ops: list[Op] = []

    def visit(op: Op) -> bool:
        if row_extreme(op) is not None:
            extremes.extend([] if op in extremes else [op])
            return True
        if op in ops:
            return True
        if not op.pointwise or len(op.results) != 1:
            return False
        made = [v.op for v in op.operands if v.op is not None and v in uses]
        if sum(map(visit, made)):  # all of them, in order
            ops.append(op)
            return True
        return False

    visit(last)
    return extremes, ops


def _asks_lanes(extreme: Op, ops: list[Op]) -> bool:
    """Say whether a reduction moves numbers between lanes alone, and all is laid out as it is."""
    told = row_extreme(extreme)
    assert told is not None
    source, axis, _ = told
    layout = layout_of(source.type)
    if layout is None:
        return False
    plan = reduce_plan(layout, axis)
    values = {v for op in ops for v in (*op.operands, *op.results)}
    alike = all(layout_of(v.type) == plan.result for v in values)
    return bool(plan.lane_masks) and not plan.warp_masks and alike


class _Keeper(Rebuilder):
    """Writes the module again."""

    def __init__(self, module: Module, found: dict[int, _Found], remarks: Remarks) -> None:
        super().__init__(module, lambda op, builder: None)
        self.module = module
        self.found = found
        self.remarks = remarks

    def run(self) -> Module:
        """Return the module in which warps ask."""
        body = self.block(self.module.body)
        return replace(self.module, body=body, next_id=self.builder.next_id)

    def op(self, op: Op) -> None:
        """Write an op, or what stands for it and for all that leads to it."""
        found = self.found.get(op.id)
        if found is None:
            super().op(op)
            return
        builder = self.builder
        before = builder.span, builder.origins
        builder.span, builder.origins = op.span, (op.id,)
        made = builder.insert(self.with_new_operands(self._kept(found)))
        made.results[0].hint = op.results[0].hint
        self._map(op, made.results)
        builder.span, builder.origins = before
        self.remarks.note(made, "extremes that rise by little stay what they are", "applied")

    def _kept(self, found: _Found) -> Kept:
        told = row_extreme(found.extreme)
        assert told is not None
        source, axis, combine = told
        made = {op.results[0] for op in (found.extreme, *found.chain)}
        others = tuple(dict.fromkeys(v for op in found.chain for v in op.operands if v not in made))
        arguments = [Value(element_of(v.type), v.hint) for v in (found.extreme.results[0], *others)]
        inside = dict(zip((found.extreme.results[0], *others), arguments, strict=True))
        with self.builder.block() as ops:
            for op in found.chain:
                one = self.builder.insert(op.duplicate([inside[v] for v in op.operands]))
                inside[op.results[0]] = one.results[0]
            self.builder.insert(Yield((inside[found.chain[-1].results[0]],)))
        after = Block(tuple(arguments), tuple(ops))
        own = tuple(Value(a.type, a.hint) for a in combine.arguments)
        values = dict(zip(combine.arguments, own, strict=True))
        with self.builder.block() as copied:
            for op in combine.ops:
                self.builder.insert(copy_op(op, values, self.builder))
        combine = Block(own, tuple(copied))
        layouts = (layout_of(found.carried.type),)
        size, unit = found.unit
        return Kept(
            found.carried, source, others, unit, axis=axis, slack=_SLACK / size, combine=combine,
            after=after, layouts=layouts,
        )  # fmt: skip
