"""Memory is asked for all that a stretch of code loads before anything is computed of it.

An assembler that orders a long stretch for few registers puts each load in front of what is
computed of it, so that a warp waits for memory once for each instead of once for all. Other warps
fill that time where a request brings much; where it brings 64 bytes too little is under way. Then
registers are better spent on what is on its way than on more warps.
"""

from __future__ import annotations

from dataclasses import replace

from workbench.ir import Block, Module, Op, Value
from workbench.ir.rebuild import Rebuilder
from workbench.passes.manager import Remarks
from workbench.targets.simt.ops import Asked
from workbench.targets.simt.rules import Device, Setting

#: The fewest instructions that load for which it is worth two more.
FEWEST_LOADS = 8
#: The most sectors that each of them asks for. On an H100, before and after: 24 requests of two
#: sectors 103 to 97 us, of 4 and more sectors, and gathers, 0 to 5 % slower (16 bytes a lane: 1 %
#: faster).
MOST_SECTORS = 2
#: The most registers of 32 bits that may wait for memory at one time.
MOST_REGISTERS = 40


def ask_first(module: Module, remarks: Remarks, chip: Device) -> Module:
    """Put loads that depend on no other in front of what is computed of them.

    What is loaded for products of tensor cores has its own ways to be early.

    Before (a thread loads four numbers of each):
        %2 = tile.load %0 : tile<512xf16>
        %3 = tile.exp [%2] : tile<512xf16>
        %4 = tile.load %1 : tile<512xf16>
    After:
        %2 = tile.load %0 : tile<512xf16>
        %4 = tile.load %1 : tile<512xf16>
        gpu.asked
        %3 = tile.exp [%2] : tile<512xf16>

    Needs: layouts. Keeps: every value; loads move past arithmetic and other loads alone.
    """
    if any(chip.rules.staged_of(op) for op in module.walk()):
        return module
    return _Writer(module, remarks, chip).written()


class _Writer(Rebuilder):
    def __init__(self, module: Module, remarks: Remarks, chip: Device) -> None:
        super().__init__(module, lambda op, builder: None)
        self.module, self.remarks, self.chip = module, remarks, chip
        self.on = Setting(module, chip)
        #: The loops around what is written.
        self.loops = 0
        #: How many loads an op is the last of.
        self.last: dict[int, int] = {}

    def written(self) -> Module:
        body = self.block(self.module.body)
        if body is self.module.body:
            return self.module
        return replace(self.module, body=body, next_id=self.builder.next_id)

    def block(self, block: Block) -> Block:
        """Write a block, the loads of each stretch first."""
        ops: list[Op] = []
        stretch: list[Op] = []
        for op in (*block.ops, None):
            if op is not None and (self._is_load(op) or (op.pure and not op.regions)):
                stretch.append(op)
                continue
            ops += self._ordered(stretch)
            stretch = []
            if op is not None:
                ops.append(op)
        return super().block(Block(block.arguments, tuple(ops)) if self.last else block)

    def op(self, op: Op) -> None:
        self.loops += op.repeats
        super().op(op)
        self.loops -= op.repeats
        if op.id in self.last:
            # What is held in front costs registers. Once in a program other blocks fill the time:
            # on an H100 24 loads of a straight program 4 % slower, 16 of a round a quarter faster.
            self.builder.insert(Asked(loads=self.last[op.id] if self.loops else 0))

    def _is_load(self, op: Op) -> bool:
        """Say whether an op does nothing but read an array, in no order with others."""
        effects = op.own_effects()
        return (
            len(op.results) == 1
            and not op.regions
            and bool(effects)
            and all(e.space == "global" and e.removable for e in effects)
            and self.chip.rules.access_of(op) is not None
        )

    def _ordered(self, stretch: list[Op]) -> list[Op]:
        """Return a stretch with loads, and what they are made of, in front of all other ops."""
        made = {result: op for op in stretch for result in op.results}
        loads: list[list[Op]] = []  # those whose addresses need no load, those that need one, ...
        behind: dict[Op, int] = {}  # how many loads an op waits for, one after the other
        for op in stretch:
            behind[op] = max((behind[made[v]] for v in op.operands if v in made), default=0)
            if self._is_load(op):
                if behind[op] == len(loads):
                    loads.append([])
                loads[behind[op]].append(op)
                behind[op] += 1
        found: dict[Op, None] = {}
        last: dict[Op, tuple[int, int]] = {}
        for together in loads:
            needed = _made_of(together, made)
            found.update(dict.fromkeys(op for op in stretch if op in needed))
            rest = any(op not in found for op in stretch)
            if rest and (requests := self._worth_it(together)):
                last[next(reversed(found))] = requests, len(together)
        for op, (requests, count) in last.items():
            text = f"{requests} loads of a thread are under way before anything is made of them"
            self.remarks.note(op, text, "applied")
            self.last[op.id] = count
        return [*found, *(op for op in stretch if op not in found)] if last else stretch

    def _worth_it(self, loads: list[Op]) -> int:
        """Return how many requests loads are, 0 where these are few or take many registers."""
        moves = [move for op in loads for move in self.chip.rules.moves_of(op, self.on)]
        if any((move.sectors or 0) > MOST_SECTORS for move in moves):
            return 0
        requests = sum(move.requests for move in moves)
        registers = sum(move.requests * -(-move.bytes // 4) for move in moves)
        return requests if requests >= FEWEST_LOADS and registers <= MOST_REGISTERS else 0


def _made_of(ops: list[Op], made: dict[Value, Op]) -> set[Op]:
    """Return ops and all of a stretch that they are computed of."""
    found, work = set[Op](), list(ops)
    while work:
        op = work.pop()
        if op not in found:
            found.add(op)
            work += [made[v] for v in op.operands if v in made]
    return found


__all__ = ["ask_first"]
