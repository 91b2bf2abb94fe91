"""What the passes of a GPU ask about an op, registered beside its lowering rule on one table.

    @SIMT.lower(Reduce)      how it is written in LLVM IR
    @SIMT.layouts(Reduce)    which layouts its operands and results have, and what each costs
    @SIMT.scratch(Reduce)    the shared memory that it needs while it runs
    @SIMT.access(Load)       which elements of global memory it touches, vector by vector
    @OWN.ahead(Load)         how it becomes a copy that starts before its turn
    @OWN.boxes(BoxLoad)      how that copy is one of a whole tile
    @OWN.raised(Load)        what of it a copy of a whole tile has to know
    @OWN.sent(Store)         the same of a copy of a whole tile to global memory
    @OWN.lasting(BoxStore)   how its scratch may be read on after it
    @OWN.staged(Dot)         which operands are worth such copies
    @OWN.in_place(Product)   from which buffers it reads operands where they lie
    @OWN.stored(Product)     which operands must lie in buffers
    @OWN.in_registers(Product) which operand it may have in registers, round after round
    @OWN.later(Product)      what of it may be waited for, or started, after its turn
    @OWN.waiting(Multiply)   how it waits for sums that it reads, where it can do so itself
    @OWN.neutral(Multiply)   what it leaves as it is for which operand, and what asks for that
    @OWN.parts(Product)      which operand it takes in parts, written one by one (parts.py)
    @OWN.told(Product)       what the author is told of how it is carried out

OWN is the table of a target whose chips have such copies. The layout graph, the passes that write
layouts down, start loads ahead and split full blocks, the allocator of shared memory, the barrier
pass and the verifier of GPU IR are drivers over these tables and know no op. Buffers that an op
reads and writes are its effects (`Op.effects`); only what a target adds to it stands here.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from workbench.analysis.affine import Affine, tile_forms
from workbench.ir import Builder, InvalidModuleError, Module, Op, Shared, Value
from workbench.layouts import LinearLayout
from workbench.source import TargetError
from workbench.targets.llvm.table import LoweringTable
from workbench.targets.simt.copying import Ahead, Box, Lasting, Raised, Sent
from workbench.targets.simt.hardware import Hardware

#: From one layout to another; None where there is none.
Map = Callable[[LinearLayout], LinearLayout | None]
#: Cycles of one multiprocessor (`Costs` has the unit).
Cost = Callable[[LinearLayout], float]


@dataclass(frozen=True, slots=True)
class Along:
    """How the layout of an operand and the one in which its op works follow from each other.

    `need` gives the operand's layout for the op's (None: none will do); `give` gives the op's
    layout for which the operand need not be converted, as far as one is known.
    """

    need: Map
    give: Map | None


def same(layout: LinearLayout) -> LinearLayout:
    """Return the layout."""
    return layout


SAME = Along(same, same)


@dataclass(frozen=True, slots=True)
class Flow:
    """How values flow through an op with regions.

    together: the values that one layout holds for, each result first.
    operands: for each operand the value whose layout it takes; None: it keeps its own.
    yields: the same for what each region yields.
    trips: how often the regions run, a guess where that is not known.
    """

    together: tuple[tuple[Value, ...], ...]
    operands: tuple[Value | None, ...]
    yields: tuple[tuple[Value | None, ...], ...]
    trips: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Layouts:
    """Which layouts an op takes and gives: they follow from the one in which it works.

    work: the value whose layout that is (a result, or an operand where nothing else depends on
        it). own: or the shape of a layout of its own. Neither: it takes everything as it is.
    operands: for each operand how its layout follows; None: it is taken as it is.
    results: of an op that works in a layout of its own, what its results have.
    order: in which operands are converted, by their places; None: as they are declared.
    floats: it is cheap and pure, so that it is written again in every layout that is asked for.
    cost: what it costs to work in a layout; of one that floats, to be written in it.
    offers: layouts worth trying.
    within: one worth trying where an operand has a layout: in which warps keep what they have.
    fixed: it works in no other layout than those offered.
    far: what it takes is to reach the loads behind it, however many ops lie between.
    becomes: writes what stands for the op in GPU IR, given its operands; None: it stays.
    flow: of an op with regions that hold tiles.
    """

    work: Value | None = None
    own: tuple[int, ...] | None = None
    operands: tuple[Along | None, ...] = ()
    results: tuple[Map, ...] = ()
    order: tuple[int, ...] | None = None
    floats: bool = False
    cost: Cost | None = None
    offers: Callable[[], Iterable[LinearLayout]] | None = None
    within: Map | None = None
    fixed: bool = False
    far: bool = False
    becomes: Callable[[Builder, Sequence[Value]], tuple[Value, ...]] | None = None
    flow: Flow | None = None


@dataclass(frozen=True, slots=True)
class Scratch:
    """Shared memory that an op needs while it runs: written, waited for, read.

    purpose: what the user would call it; empty: "<op> across warps".
    align: of the first byte.
    kept: nobody else ever has these bytes: they may be in use after the op.
    alone: every warp has bytes of its own, an equal part in the order of warps, so that the block
        need not wait in between; nor before it where the same bytes were used so. The op has the
        warp wait for its lanes first.
    """

    bytes: int
    purpose: str = ""
    alone: bool = False
    align: int = 16
    kept: bool = False


NO_SCRATCH = Scratch(0)


@dataclass(frozen=True, slots=True)
class Access:
    """Which elements of global memory an op touches, several at a time where they lie so.

    pointers, mask: where, and which of them (None: all).
    under: the op touching those elements only where another mask (of their shape) is on.
    """

    pointers: Value
    mask: Value | None
    under: Callable[[Value], Op]


class Device(Hardware):
    """The chip for which code is made."""

    @property
    @abstractmethod
    def rules(self) -> RuleTable:
        """What is known of each op on it."""


@dataclass(frozen=True)
class Setting:
    """What an op's rule may look at besides the op: forms of values, the chip, the options."""

    module: Module
    chip: Device

    @cached_property
    def facts(self) -> Affine:
        """The forms of the module's values, found when somebody asks."""
        return tile_forms(self.module)

    @property
    def options(self) -> Mapping[str, Any]:
        """The module's attributes."""
        return self.module.attributes

    @property
    def num_warps(self) -> int:
        """The warps of a program."""
        return self.options["num_warps"]

    @property
    def lanes(self) -> int:
        """The lanes of a warp."""
        return self.chip.lanes


LayoutRule = Callable[[Any, Setting], Layouts]
ScratchRule = Callable[[Any, Device, int, bool], Scratch]
AdviceRule = Callable[[Any, int, int], str]
AccessRule = Callable[[Any], Access]
AheadRule = Callable[[Any, Setting], Ahead | None]
BoxRule = Callable[[Any], Box | None]
RaisedRule = Callable[[Any], Raised | None]
SentRule = Callable[[Any], Sent | None]
LastingRule = Callable[[Any], Lasting | None]
StagedRule = Callable[[Any], tuple[Value, ...]]


@dataclass(frozen=True, slots=True)
class InPlace:
    """How an op reads an operand in a buffer of a type: its fields, given the buffer and a slot."""

    buffer: Shared
    fields: Callable[[Value, Value], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class InRegisters:
    """An operand that an op may have in registers, in a layout: its fields, given the tile."""

    operand: Value
    layout: LinearLayout
    fields: Callable[[Value], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Stored:
    """An operand, a tile, that must lie in a buffer of a type; `field` is its name in the op."""

    field: str
    tile: Value
    buffer: Shared


@dataclass(frozen=True, slots=True, kw_only=True)
class Later:
    """An op that adds to sums and may end, or be started, after its turn in a loop.

    sums, operands: what it adds to, and what it goes on reading.
    held: the operand among them that is in registers and could be taken in parts, if there is one.
    slots: of the rings in which it reads that.
    late: how it was decided to start it: 0 in its turn, 1 in the next round of its loop, 2 so in a
        ring with a slot to spare.
    flight: how many of the latest such ops go on when it ends, itself among them; 0: none.
    going: its fields with which at most so many of the latest such ops go on when it ends.
    in_parts: its fields with which it takes `held` in so many parts.
    started: its fields that say how late it is to be started.
    waited: makes the op that gives a result once at most so many of the latest go on.
    """

    sums: Value
    operands: frozenset[Value]
    held: Value | None
    slots: tuple[Value, ...]
    late: int
    flight: int
    going: Callable[[int], Mapping[str, Any]]
    in_parts: Callable[[int], Mapping[str, Any]]
    started: Callable[[int], Mapping[str, Any]]
    waited: Callable[[Value, int], Op]


@dataclass(frozen=True, slots=True)
class Parts:
    """The operand, a tile, that an op takes in parts, and the registers of each, in order.

    loads: whether what is read from shared memory for a part waits for its turn, too.
    once: whether only what no two parts share does.
    """

    operand: Value
    registers: tuple[tuple[int, ...], ...]
    loads: bool = True
    once: bool = False


@dataclass(frozen=True, slots=True)
class Neutral:
    """A tile that an op gives as it is where an operand, which repeats few elements, is neutral.

    kept: the tile. few: the elements, before they are repeated.
    skipping: makes an op that does the same, and nothing in warps whose few elements are neutral,
        once it is known which tiles of narrow floats are read beside its result.
    """

    kept: Value
    few: Value
    skipping: Callable[[tuple[Value, ...]], Op]


@dataclass(frozen=True, slots=True)
class Told:
    """A remark, and whether it is of something done or missed."""

    text: str
    severity: Literal["applied", "missed"]


InPlaceRule = Callable[[Any, Value, Shared, bool], InPlace | None]
InRegistersRule = Callable[[Any], InRegisters | None]
StoredRule = Callable[[Any], Sequence[Stored]]
PartsRule = Callable[[Any], Parts | None]
LaterRule = Callable[[Any], Later | None]
WaitingRule = Callable[[Any, Value], Op | None]
NeutralRule = Callable[[Any], Neutral | None]
ToldRule = Callable[[Any, Setting], Told | None]
#: Gives what an op moves to and from memory (moves.py).
MovesRule = Callable[[Any, "Setting"], Sequence[Any]]


class RuleTable(LoweringTable):
    """What is known of ops on one kind of GPU; a parent has what it does not override."""

    def __init__(self, name: str, parent: RuleTable | None = None) -> None:
        super().__init__(name, parent)
        self._above = parent
        self._layouts: dict[type[Op], LayoutRule] = {}
        self._scratch: dict[type[Op], ScratchRule] = {}
        self._advice: dict[type[Op], AdviceRule] = {}
        self._access: dict[type[Op], AccessRule] = {}
        self._ahead: dict[type[Op], AheadRule] = {}
        self._boxes: dict[type[Op], BoxRule] = {}
        self._raised: dict[type[Op], RaisedRule] = {}
        self._sent: dict[type[Op], SentRule] = {}
        self._lasting: dict[type[Op], LastingRule] = {}
        self._staged: dict[type[Op], StagedRule] = {}
        self._in_place: dict[type[Op], InPlaceRule] = {}
        self._in_registers: dict[type[Op], InRegistersRule] = {}
        self._stored: dict[type[Op], StoredRule] = {}
        self._later: dict[type[Op], LaterRule] = {}
        self._parts: dict[type[Op], PartsRule] = {}
        self._waiting: dict[type[Op], WaitingRule] = {}
        self._neutral: dict[type[Op], NeutralRule] = {}
        self._told: dict[type[Op], ToldRule] = {}
        self._moves: dict[type[Op], MovesRule] = {}

    def layouts(self, *classes: type[Op]) -> Callable[[LayoutRule], LayoutRule]:
        """Register the decorated function (op, setting) -> Layouts for op classes."""
        return self._register(self._layouts, "layouts", classes)

    def scratch(self, *classes: type[Op]) -> Callable[[ScratchRule], ScratchRule]:
        """Register the decorated function (op, chip, warps, is its result used) -> Scratch."""
        return self._register(self._scratch, "scratch", classes)

    def advice(self, *classes: type[Op]) -> Callable[[AdviceRule], AdviceRule]:
        """Register the decorated function (op, bytes, allowed) -> what to do if they are too many.

        For ops whose operands take the shared memory that a kernel needs.
        """
        return self._register(self._advice, "advice", classes)

    def access(self, *classes: type[Op]) -> Callable[[AccessRule], AccessRule]:
        """Register the decorated function (op) -> Access for op classes."""
        return self._register(self._access, "access", classes)

    def ahead(self, *classes: type[Op]) -> Callable[[AheadRule], AheadRule]:
        """Register the decorated function (op, setting) -> Ahead, for ops that give a tile."""
        return self._register(self._ahead, "ahead", classes)

    def boxes(self, *classes: type[Op]) -> Callable[[BoxRule], BoxRule]:
        """Register the decorated function (op) -> Box, None where no copy does what the op does."""
        return self._register(self._boxes, "boxes", classes)

    def raised(self, *classes: type[Op]) -> Callable[[RaisedRule], RaisedRule]:
        """Register the decorated function (op) -> Raised, for ops that give a tile."""
        return self._register(self._raised, "raised", classes)

    def sent(self, *classes: type[Op]) -> Callable[[SentRule], SentRule]:
        """Register the decorated function (op) -> Sent, for ops that write a tile."""
        return self._register(self._sent, "sent", classes)

    def lasting(self, *classes: type[Op]) -> Callable[[LastingRule], LastingRule]:
        """Register the decorated function (op) -> Lasting, for ops that wait for their scratch."""
        return self._register(self._lasting, "lasting", classes)

    def staged(self, *classes: type[Op]) -> Callable[[StagedRule], StagedRule]:
        """Register the decorated function (op) -> operands whose loads are worth copying ahead."""
        return self._register(self._staged, "staged", classes)

    def in_place(self, *classes: type[Op]) -> Callable[[InPlaceRule], InPlaceRule]:
        """Register the decorated function (op, operand, buffer, turned) -> InPlace or None.

        For ops that read a tile of two axes out of a buffer themselves: in which type of buffer
        (only the layout may differ from the given one) the operand, or with `turned` its
        transpose, may lie; None if it must not.
        """
        return self._register(self._in_place, "in place", classes)

    def in_registers(self, *classes: type[Op]) -> Callable[[InRegistersRule], InRegistersRule]:
        """Register the decorated function (op) -> InRegisters, None if it has no such operand."""
        return self._register(self._in_registers, "in registers", classes)

    def stored(self, *classes: type[Op]) -> Callable[[StoredRule], StoredRule]:
        """Register the decorated function (op) -> the tiles that it reads out of buffers."""
        return self._register(self._stored, "stored", classes)

    def later(self, *classes: type[Op]) -> Callable[[LaterRule], LaterRule]:
        """Register the decorated function (op) -> Later, None if it ends in its turn."""
        return self._register(self._later, "later", classes)

    def parts(self, *classes: type[Op]) -> Callable[[PartsRule], PartsRule]:
        """Register the decorated function (op) -> Parts, None if it takes all operands whole."""
        return self._register(self._parts, "parts", classes)

    def waiting(self, *classes: type[Op]) -> Callable[[WaitingRule], WaitingRule]:
        """Register the decorated function (op, sums) -> an op that does the same and waits.

        For ops that read sums to which `later` ones still add; None where it cannot.
        """
        return self._register(self._waiting, "waiting", classes)

    def neutral(self, *classes: type[Op]) -> Callable[[NeutralRule], NeutralRule]:
        """Register the decorated function (op) -> Neutral, None where nothing can be skipped."""
        return self._register(self._neutral, "neutral", classes)

    def told(self, *classes: type[Op]) -> Callable[[ToldRule], ToldRule]:
        """Register the decorated function (op, setting) -> Told, None for nothing to tell."""
        return self._register(self._told, "told", classes)

    def moves(self, *classes: type[Op]) -> Callable[[MovesRule], MovesRule]:
        """Register the decorated function (op, setting) -> Moves for op classes."""
        return self._register(self._moves, "moves", classes)

    def _register(self, rules: dict[type[Op], Any], word: str, classes: Sequence[type[Op]]) -> Any:
        def register(rule: Any) -> Any:
            for cls in classes:
                if cls in rules:
                    raise ValueError(f"{self.name} has two rules for {word} of {cls.__name__}")
                rules[cls] = rule
            _chosen.clear()
            return rule

        return register

    def layout_rule(self, op: Op) -> LayoutRule:
        """Return the rule for an op's layouts.

        Raises TargetError for an op that the target cannot run, InvalidModuleError for one that
        was forgotten.
        """
        rule = self._found("_layouts", op)
        if rule is not None:
            return rule
        if reason := self.reason(type(op)):
            raise TargetError(f"{op.name} {reason}", op.span)
        raise InvalidModuleError(f"{op.name} says nothing about layouts on {self.name}")

    def scratch_of(self, op: Op, chip: Device, num_warps: int, used: bool) -> Scratch:
        """Return the shared memory that an op needs while it runs; most need none."""
        rule = self._found("_scratch", op)
        return NO_SCRATCH if rule is None else rule(op, chip, num_warps, used)

    def advice_of(self, op: Op, found: int, allowed: int) -> str:
        """Say how the author could make an op need less shared memory; empty for most."""
        rule = self._found("_advice", op)
        return "" if rule is None else rule(op, found, allowed)

    def access_of(self, op: Op) -> Access | None:
        """Return which elements of global memory an op touches; None for most ops."""
        rule = self._found("_access", op)
        return None if rule is None else rule(op)

    def ahead_of(self, op: Op, on: Setting) -> Ahead | None:
        """Return how an op that gives a tile becomes a copy; None for most ops."""
        rule = self._found("_ahead", op)
        return None if rule is None else rule(op, on)

    def box_of(self, op: Op) -> Box | None:
        """Return how an op's tile is copied as a whole; None for most ops."""
        rule = self._found("_boxes", op)
        return None if rule is None else rule(op)

    def raised_of(self, op: Op) -> Raised | None:
        """Return what a copy of an op's whole tile has to know; None for most ops."""
        rule = self._found("_raised", op)
        return None if rule is None else rule(op)

    def sent_of(self, op: Op) -> Sent | None:
        """Return what a copy of an op's whole tile to memory has to know; None for most ops."""
        rule = self._found("_sent", op)
        return None if rule is None else rule(op)

    def lasting_of(self, op: Op) -> Lasting | None:
        """Return how an op leaves reads of its scratch going; None for most ops."""
        rule = self._found("_lasting", op)
        return None if rule is None else rule(op)

    def staged_of(self, op: Op) -> tuple[Value, ...]:
        """Return the operands of an op whose loads are worth copying ahead; () for most."""
        rule = self._found("_staged", op)
        return () if rule is None else rule(op)

    def in_place_of(self, op: Op, operand: Value, buffer: Shared, turned: bool) -> InPlace | None:
        """Return how an op reads an operand in a buffer itself; None for most ops."""
        rule = self._found("_in_place", op)
        return None if rule is None else rule(op, operand, buffer, turned)

    def in_registers_of(self, op: Op) -> InRegisters | None:
        """Return the operand that an op may have in registers; None for most ops."""
        rule = self._found("_in_registers", op)
        return None if rule is None else rule(op)

    def stored_of(self, op: Op) -> Sequence[Stored]:
        """Return the tiles that an op reads out of buffers; () for most ops."""
        rule = self._found("_stored", op)
        return () if rule is None else rule(op)

    def later_of(self, op: Op) -> Later | None:
        """Return what of an op may be waited for after its turn; None for most ops."""
        rule = self._found("_later", op)
        return None if rule is None else rule(op)

    def parts_of(self, op: Op) -> Parts | None:
        """Return the operand that an op takes in parts; None for most ops."""
        rule = self._found("_parts", op)
        return None if rule is None else rule(op)

    def waiting_of(self, op: Op, sums: Value) -> Op | None:
        """Return the op that waits for sums and does what this one does; None for most ops."""
        rule = self._found("_waiting", op)
        return None if rule is None else rule(op, sums)

    def neutral_of(self, op: Op) -> Neutral | None:
        """Return what an op leaves as it is for a neutral operand; None for most ops."""
        rule = self._found("_neutral", op)
        return None if rule is None else rule(op)

    def told_of(self, op: Op, on: Setting) -> Told | None:
        """Return what the author is told of an op; None for most ops."""
        rule = self._found("_told", op)
        return None if rule is None else rule(op, on)

    def moves_of(self, op: Op, on: Setting) -> Sequence[Any]:
        """Return what an op moves to and from memory; () for most."""
        rule = self._found("_moves", op)
        return () if rule is None else rule(op, on)

    def _found(self, kind: str, op: Op) -> Any:
        key = self, kind, type(op)
        try:
            return _chosen[key]
        except KeyError:
            rule = _chosen[key] = self._searched(kind, type(op))
            return rule

    def _searched(self, kind: str, cls: type[Op]) -> Any:
        table: RuleTable | None = self
        while table is not None:
            rules: dict[type[Op], Any] = table.__dict__[kind]
            rule = rules.get(cls)
            if rule is not None:
                return rule
            table = table._above
        return None


#: What tables were asked before, until one of them learns a rule more.
_chosen: dict[tuple[RuleTable, str, type[Op]], Any] = {}


def as_they_are(op: Op, on: Setting) -> Layouts:
    """Every operand is taken in whatever layout it has."""
    return _AS_THEY_ARE


_AS_THEY_ARE = Layouts()


def elementwise(op: Op, on: Setting) -> Layouts:
    """All operands in the layout of the result, which any user may choose."""
    return Layouts(work=op.results[0], operands=(SAME,) * len(op.operands), floats=True)
