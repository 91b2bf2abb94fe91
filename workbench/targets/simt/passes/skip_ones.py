"""Tiles are not multiplied by factors that are 1.

An online softmax scales its sums in every round by what each row's maximum has risen, which is 1
where it has not. Of a loop that carries an extreme, `analysis/steady.py` tells which factors that
makes 1; warps ask before they multiply, where that is much more than asking.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from workbench.analysis.steady import Steady
from workbench.ir import Block, Module, Op, Value, element_of
from workbench.ir.rebuild import Rebuilder
from workbench.passes.manager import Remarks
from workbench.targets.simt.passes.rounds import read_by
from workbench.targets.simt.pressure import overflows, registers_held
from workbench.targets.simt.rules import Device, Neutral

#: Multiplications of a thread below which comparisons, a vote and a branch cost what they save.
_FEWEST = 32
#: How many of them there are for each factor at least.
_EACH = 8


def skip_ones(module: Module, remarks: Remarks, chip: Device) -> Module:
    """Multiply in loops by factors that are mostly 1 only where they are not, warp by warp.

    Before:
        %top.1 = tile.max [%top, %largest] : tile<64xf32>
        %change = tile.sub [%top, %top.1] : tile<64xf32>
        %factor = tile.exp2 [%change] : tile<64xf32>
        %factor.1 = tile.expand_dims %factor {axis = 1} : tile<64x1xf32>
        %factors = tile.broadcast %factor.1 {shape = (64, 64)} : tile<64x64xf32>
        %scaled = tile.mul [%sums, %factors] : tile<64x64xf32>
    After:
        (the same factors)
        %scaled = gpu.scale %sums, %factors : tile<64x64xf32>

    It comes right before whoever reads it first, so that what is computed meanwhile stays one piece
    of code. That is a product that goes on by itself: others load their operands bit by bit while
    they multiply, and behind a branch all of them would wait in registers.

    Needs: layouts. Keeps: every value.
    """
    if not module.attributes.get("skip_ones", False):
        return module
    skipper = _Skipper(module, remarks, chip)
    for op in module.walk():
        if op.repeats and not op.per_program:
            skipper.look(op)
    return skipper.run()


class _Skipper(Rebuilder):
    def __init__(self, module: Module, remarks: Remarks, chip: Device) -> None:
        super().__init__(module, lambda op, builder: None)
        self.module = module
        self.remarks = remarks
        self.chip = chip
        #: What asks instead of ops, and which of these come in front of others, both by the op.
        self.asking: dict[int, Op] = {}
        self.before: dict[int, list[Op]] = {}

    def look(self, loop: Op) -> None:
        """Find what a loop multiplies by ones, loops inside it left aside."""
        blocks, steady = list(loop.regions), Steady(loop)
        while blocks:
            block = blocks.pop()
            blocks += [region for op in block.ops if not op.repeats for region in op.regions]
            found = [
                (op, neutral) for op in block.ops if (neutral := self.chip.rules.neutral_of(op))
            ]
            found = [(op, neutral) for op, neutral in found if steady.is_one(neutral.few)]
            reads = _Reads(block) if found else None
            for op, neutral in found:
                if reads is None or op.result not in reads.first:
                    continue
                place = reads.first[op.result]
                reader = block.ops[place]
                obstacle = _obstacle(op, neutral, block, place, reads)
                if not obstacle and self.chip.rules.later_of(reader) is None:
                    obstacle = "a branch would part its reader from what that loads meanwhile"
                if not obstacle and self.is_full:
                    obstacle = "in front of a branch more is alive, and registers are short"
                if obstacle:
                    self.remarks.note(op, f"multiplied in every round: {obstacle}", "missed")
                    continue
                besides = tuple(v for v in dict.fromkeys(reader.operands) if _is_packed(v))
                self.asking[id(op)] = neutral.skipping(besides)
                self.before.setdefault(id(block.ops[place]), []).append(op)

    @cached_property
    def is_full(self) -> bool:
        """Whether some tiles have to be spilled already, by the estimate."""
        return overflows(self.module, self.chip)

    def run(self) -> Module:
        """Return the module in which warps ask."""
        if not self.asking:
            return self.module
        body = self.block(self.module.body)
        return replace(self.module, body=body, next_id=self.builder.next_id)

    def op(self, op: Op) -> None:
        """Write an op, what moves in front of it first."""
        for one in self.before.get(id(op), ()):
            self._ask(one)
        if id(op) not in self.asking:
            super().op(op)

    def _ask(self, op: Op) -> None:
        builder = self.builder
        before = builder.span, builder.origins
        builder.span, builder.origins = op.span, (op.id,)
        made = builder.insert(self.with_new_operands(self.asking[id(op)]))
        self._map(op, made.results)
        builder.span, builder.origins = before
        self.remarks.note(made, "rounds in which a warp's factors are all 1 skip this", "applied")


def _is_packed(value: Value) -> bool:
    """Say whether a tile is of floats of which several lie in a register."""
    element = element_of(value.type)
    return registers_held(value) > 0 and element.is_float and element.bits < 32


def _obstacle(op: Op, found: Neutral, block: Block, place: int, reads: _Reads) -> str:
    """Say why to multiply whatever the factors are; empty if asking at a place in a block pays."""
    many, few = registers_held(op.result), registers_held(found.few)
    if many < max(_FEWEST, _EACH * few):
        return f"{many} registers are too few to ask whether {few} factors are 1"
    if reads.rounded.get(op.result, -1) >= 0:
        return "it is one instruction with what is added to it"
    before = (one for one in block.ops[:place] if one is not op and _rounds(one))
    if any(reads.rounded.get(one.result, -1) >= place for one in before):
        return "a branch would part another multiplication from what is added to it"
    return ""


def _rounds(op: Op) -> bool:
    """Say whether an op may be one instruction with another that rounds, and then rounds less."""
    return op.pointwise and op.roundings() > 0 and element_of(op.result.type).is_float


class _Reads:
    """Where in a block values are read.

    first: the place of the first op that reads a value. rounded: that of the last one that rounds
    what it makes of a value, or of a value that was moved.
    """

    def __init__(self, block: Block) -> None:
        self.first: dict[Value, int] = {}
        self.rounded: dict[Value, int] = {}
        for place in reversed(range(len(block.ops))):
            op = block.ops[place]
            last = place if _rounds(op) else self.rounded.get(op.result, -1) if op.moves else -1
            for value in read_by(op):
                self.first[value] = place
                self.rounded[value] = max(self.rounded.get(value, -1), last)
