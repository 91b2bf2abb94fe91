"""Groups of warps that start their products in turns, so that some compute while others multiply.

In a round of attention a group multiplies, computes with what came of it, and multiplies what it
has computed. Groups that begin together do all of it together: they share the tensor cores, which
then wait for all of them. In turns one group's products follow the other's, and what a group
computes lies beside the products of the others.

Groups in turns are no program apart, so they do not hide each other's beginnings and ends. Unasked
they take turns where all programs have as many rounds (an H100, D 128: full 1024 2.9 % faster, 2048
1.8 %, from 4096 on as fast; causal 4096 1.1 % slower, 16384 4 %).
"""

from __future__ import annotations

from dataclasses import replace

from workbench.ir import Block, Builder, Module, Op, Tile, Value
from workbench.ops import counted_loops
from workbench.passes.manager import Remarks
from workbench.targets.nvidia.ops import AwaitTurn, PassTurn
from workbench.targets.nvidia.ops.turns import MOST_GROUPS, WARPS
from workbench.targets.simt.ops.roles import roles_of
from workbench.targets.simt.rules import Device, RuleTable


def take_turns(module: Module, remarks: Remarks, chip: Device) -> Module:
    """Have each group of consumers start the products of a round when the one before has.

    Before:
        tile.for %low, %high, %step {
        ^(%i: i32):
          gpu.await %full, %slot, %parity
          %1 = gpu.wgmma %q, %k, %zeros {in_flight = 1} : tile<128x64xf32, #L1>
          %2 = gpu.wgmma %p, %v, %sums {in_flight = 2} : tile<128x64xf32, #L1>
          %3 = gpu.wait_products %1 {pending = 1} : tile<128x64xf32, #L1>
        }
    After:
        gpu.pass_turn {groups = 2, first = True}
        tile.for %low, %high, %step {
        ^(%i: i32):
          gpu.await %full, %slot, %parity
          gpu.await_turn {groups = 2}
          %1 = gpu.wgmma %q, %k, %zeros {in_flight = 1} : tile<128x64xf32, #L1>
          %2 = gpu.wgmma %p, %v, %sums {in_flight = 2} : tile<128x64xf32, #L1>
          gpu.pass_turn {groups = 2}
          %3 = gpu.wait_products %1 {pending = 1} : tile<128x64xf32, #L1>
        }

    Needs: layouts, barriers. Keeps: every value.
    Nobody waits for ever: all groups go the same way through the code, since numbers are the same
    in all warps, so they have as many turns. What a group waits for in its turn others have told
    before that turn of theirs: by the same code, in which nothing is told amid a turn.
    """
    roles = roles_of(module)
    groups = module.attributes["num_warps"] // WARPS
    asked: bool | None = module.attributes.get("turns")
    if asked is False:
        return module
    if roles is not None and 2 <= groups <= MOST_GROUPS:
        writer = _Writer(module, groups, chip.rules, remarks)
        consumers = writer.block(roles.consumers, repeats=False)
        if writer.found:
            builder = writer.builder
            with builder.block() as begins:
                builder.insert(PassTurn(groups, first=True))
            consumers = Block(consumers.arguments, (*begins, *consumers.ops))
            new = roles.noted(consumers=consumers)
            ops = tuple(new if op is roles else op for op in module.body.ops)
            body = Block(module.body.arguments, ops)
            return replace(module, body=body, next_id=builder.next_id)
    if asked:
        why = "no groups of warps start two products in each round, beside a producer"
        remarks.note(None, f"turns=True is not obeyed: {why}", "missed")
    return module


class _Writer:
    def __init__(self, module: Module, groups: int, rules: RuleTable, remarks: Remarks) -> None:
        self.asked = bool(module.attributes.get("turns"))
        self.parameters = {parameter.value for parameter in module.parameters}
        self.rules = rules
        self.groups = groups
        self.builder = Builder(module.next_id)
        self.remarks = remarks
        self.found = False

    def block(self, block: Block, *, repeats: bool) -> Block:
        """Return a block in whose loops groups take turns."""
        ops = block.ops
        first, last = self._started_together(ops) if repeats else (None, None)
        with self.builder.block() as written:
            for op in ops:
                self.builder.span, self.builder.origins = op.span, (op.id,)
                if op is first:
                    self.builder.insert(AwaitTurn(self.groups))
                again = self._takes_turns(op)
                regions = [self.block(region, repeats=again) for region in op.regions]
                fields = dict(zip(op.region_names, regions, strict=True))
                changed = any(a is not b for a, b in zip(regions, op.regions, strict=True))
                self.builder.insert(op.noted(**fields) if changed else op)
                if op is last:
                    self.builder.insert(PassTurn(self.groups))
        if first is None and all(a is b for a, b in zip(written, ops, strict=False)):
            return block
        if first is not None:
            self.found = True
            text = f"{self.groups} groups of warps start these products in turns"
            self.remarks.note(first, text, "applied")
        return Block(block.arguments, tuple(written))

    def _takes_turns(self, op: Op) -> bool:
        """Say whether an op is a loop in whose rounds groups are to take turns."""
        if self.asked:
            return op.repeats and not op.per_program
        return any(
            self._is_the_same_for_all([loop.lower, loop.upper, loop.step])
            for loop in counted_loops([op])
        )

    def _is_the_same_for_all(self, numbers: list[Value]) -> bool:
        """Say whether numbers follow from the kernel's arguments alone: all programs have them."""
        work = [*numbers]
        while work:
            value = work.pop()
            op = value.op
            if op is None:
                if value not in self.parameters:
                    return False
                continue
            if op.of_program or op.regions or not op.pure:
                return False
            work += op.operands
        return True

    def _started_together(self, ops: tuple[Op, ...]) -> tuple[Op | None, Op | None]:
        """Return the first and the last of several products that nobody waits for in between."""
        first = last = None
        for op in ops:
            later = self.rules.later_of(op)
            if first is None:
                first = op if later is not None and later.flight else None
            elif later is not None:
                last = op
            elif not _is_brief(op):
                break
        return (first, last) if last is not None else (None, None)


def _is_brief(op: Op) -> bool:
    """Say whether a group may do this in its turn: it tells others nothing and meets nobody."""
    if op.regions or op.awaited() is not None:
        return False
    if any(isinstance(value.type, Tile) for value in op.results):
        return False
    return not any(effect.releases for effect in op.own_effects())


__all__ = ["take_turns"]
