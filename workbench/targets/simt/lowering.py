"""One kernel's way from GPU IR to LLVM IR: what every rule works with.

A tile is, in each thread, a list of registers; register r holds the element that the tile's layout
names for (r, lane, warp). How a value is held depends on what it is:

- *eager*: a list of operands, one per live register (loads, dots, float arithmetic);
- *lazy*: a function from the register to its operand, called when somebody needs it. Integers,
  masks and pointers are lazy: of eight addresses that one vector load covers, one is written. The
  emitter puts each instruction where it belongs (before the loops it does not depend on), so
  laziness does not repeat work.
- *packed*: 32-bit words holding neighbouring registers of a narrow type (matrix fragments).

Lazy integers are pairs (operand, constant): registers of one tile differ by constants, which then
become immediate offsets of memory instructions instead of additions. An integer op whose result
may wrap gives no pair, since a wrapped sum must not be split.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from workbench.analysis.affine import Affine
from workbench.ir import (
    I1,
    I32,
    Block,
    Element,
    InvalidModuleError,
    Module,
    Op,
    Pointer,
    Scalar,
    Tile,
    Value,
    element_of,
    shape_of,
)
from workbench.layouts import LinearLayout
from workbench.ops import Elementwise
from workbench.source import TargetError
from workbench.targets.llvm.emit import Emitter
from workbench.targets.simt.hardware import GLOBAL, Place, pointer_to
from workbench.targets.simt.ops import all_warps, is_persistent
from workbench.targets.simt.parts import chain_of, registers_read
from workbench.targets.simt.rules import Device
from workbench.targets.simt.words import Words

#: An integer: operand + constant.
Pair = tuple[str, int]
Held = str | Pair | Place
#: Largest constant that is split off an address (analysis/ranges.py keeps this margin).
_SPLIT_LIMIT = 1 << 20

_LLVM_TYPES = {
    "i1": "i1", "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64", "u8": "i8", "u16": "i16",
    "u32": "i32", "u64": "i64", "f16": "half", "bf16": "bfloat", "f32": "float", "f64": "double",
    "f8e4m3": "i8", "f8e5m2": "i8", "f8e4b8": "i8", "f8e5b16": "i8", "f8e4b15": "i8",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Role:
    """Warps that have parted from others: the first one, how many, and the number of their barrier.

    Barrier 0 is the whole block's, at which those who have parted do not meet. `warp`: which one of
    the block a warp is, an i32 that all its lanes are known to agree on.
    """

    first: int
    warps: int
    number: int
    warp: str = ""


@dataclass(frozen=True, slots=True)
class Meeting:
    """Ops at which warps are to meet others before they do what is noticed, if `when` holds."""

    ops: tuple[Op, ...] = ()
    when: str | None = None


def llvm_type(element: Element) -> str:
    """Return the LLVM type in which an element is held in a register."""
    if isinstance(element, Pointer):
        return GLOBAL
    return _LLVM_TYPES[element.name]


def memory_type(element: Element) -> str:
    """Return the LLVM type of an element in memory: i1 is a byte, a pointer a number."""
    if isinstance(element, Pointer):
        return "i64"
    return "i8" if element.kind == "bool" else llvm_type(element)


def used_values(module: Module) -> set[Value]:
    """Return the values that some op of a module reads."""
    return {operand for op in module.walk() for operand in op.operands}


def wide_products(module: Module) -> set[frozenset[Value]]:
    """Return the pairs of values of whose product somebody reads the low and the high half."""
    found: dict[str, set[frozenset[Value]]] = {"mul": set(), "mulhi": set()}
    for op in module.walk():
        if isinstance(op, Elementwise) and op.function in found:
            found[op.function].add(frozenset(op.inputs))
    return found["mul"] & found["mulhi"]


class Lowering:
    """State of one lowering: the emitter, the module, and where each value is."""

    def __init__(
        self,
        module: Module,
        chip: Device,
        offsets: dict[int, int],
        facts: Affine,
    ) -> None:
        self.emit = Emitter()
        self.module = module
        self.chip = chip
        self.lanes = chip.lanes
        #: How LLVM writes a pointer to shared memory.
        self.shared_pointer = f"ptr addrspace({chip.shared_space})"
        #: Byte offset in shared memory of an op's buffer or scratch, by op id.
        self.offsets = offsets
        #: Affine forms of the module's pointers and masks.
        self.affine = facts
        self.num_warps: int = module.attributes["num_warps"]
        #: The warps of a block, a producer's too, which holds no tiles.
        self.all_warps: int = all_warps(module)
        #: The role whose region is being written (roles.py); None where all warps run the code.
        self.role: Role | None = None
        #: What the warps that are written have put off (simt/roles.py).
        self.meeting = Meeting()
        self.ahead: list[Value] = []
        #: Whether blocks take several programs, of a grid that the launch hands over.
        self.persistent = is_persistent(module)
        #: Which programs begin first, 0 where they do by their numbers (longest_first.py).
        self.order: int = module.attributes.get("longest_first", 0)
        #: Whether the last ones that are drawn are to be short, and where these are.
        self.last: int = module.attributes.get("longest_drawn", 0)
        self._place: Sequence[str] | None = None
        self._number = ""
        #: Values that some op reads.
        self.used = used_values(module)
        #: Pairs of values whose product is computed once for both its halves.
        self.wide_products = wide_products(module)
        self._scalars: dict[Value, str] = {}
        self._eager: dict[Value, list[str | None]] = {}
        self._packed: dict[Value, list[str]] = {}
        #: What packed values are unpacked to, and the scope in which that was written.
        self._unpacked: dict[Value, tuple[int, list[str | None]]] = {}
        self.packing = Words(self.emit)
        #: With the debug location of the op that says how, whoever needs a register.
        self._lazy: dict[Value, tuple[Callable[[int], Held], str]] = {}
        self._cache: dict[tuple[Value, int], tuple[int, Held]] = {}
        #: What writes a combine region whose arguments are given (reductions.py).
        self.combining: dict[Block, Callable[[], Sequence[str]]] = {}
        #: What is put off until an op takes it in parts (parts.py), by that op's id.
        self._chains: dict[int, tuple[Op, ...]] = {}
        #: The words that each load so far has brought, the first of each vector: their bits, and
        #: the scope in which they are known.
        self.loaded: list[tuple[int, list[tuple[int, str]]]] = []
        #: The registers of its results that are written now.
        self._now: dict[Value, tuple[int, ...]] = {}
        #: The `!dbg` of the function, set by whoever starts the lowering.
        self.debug = ""
        self.allow_contract = module.attributes.get(
            "enable_fp_fusion", True
        ) and not module.attributes.get("exact")

    # -- scalars --------------------------------------------------------------------------
    def scalar(self, value: Value) -> str:
        """Return the operand of a scalar value."""
        return self._scalars[value]

    def set_scalar(self, value: Value, operand: str) -> None:
        """Say which operand a scalar value is."""
        self._scalars[value] = operand

    # -- tiles ----------------------------------------------------------------------------
    def layout(self, value: Value) -> LinearLayout:
        """Return a tile's layout."""
        assert isinstance(value.type, Tile)
        assert value.type.layout is not None, f"{value!r} has no layout"
        return value.type.layout

    def live(self, value: Value) -> tuple[int, ...]:
        """Return the registers of a tile that exist, or are written now; (0,) for a scalar."""
        part = self._now.get(value)
        if part is not None:
            return part
        return self.layout(value).live_registers() if shape_of(value.type) else (0,)

    def set_lazy(self, value: Value, rule: Callable[[int], Held]) -> None:
        """Let a value's registers be written by `rule` when they are needed."""
        if shape_of(value.type):
            self._lazy[value] = rule, self.emit.current
        else:
            self._scalars[value] = self.resolve(value, rule(0))

    def set_pointers(self, value: Value, registers: Sequence[str | None]) -> None:
        """Give a tile of pointers its registers, to which offsets may be added."""

        def place(register: int) -> Place:
            base = registers[register]
            assert base is not None, f"register {register} of {value!r} is dead"
            return Place(base, "0", 0)

        self.set_lazy(value, place)

    def set_registers(self, value: Value, registers: Sequence[str | None]) -> None:
        """Give a value its registers, one operand for each (None for dead ones)."""
        if shape_of(value.type):
            self._eager[value] = list(registers)
        else:
            (operand,) = registers
            assert operand is not None
            self._scalars[value] = operand

    def set_words(self, value: Value, words: list[str]) -> None:
        """Give a value of a narrow type its registers packed in i32 words."""
        self._packed[value] = words

    def is_packed(self, value: Value) -> bool:
        """Say whether a value is held in i32 words."""
        return value in self._packed

    def held(self, value: Value, register: int) -> Held:
        """Return a lazy register in its own form (a pair for integers), else its operand."""
        scalar = self._scalars.get(value)
        if scalar is not None:
            return scalar
        lazy = self._lazy.get(value)
        if lazy is None:
            return self._eager_register(value, register)
        key = (value, register)
        known = self._cache.get(key)
        if known is not None and self.emit.is_open(known[0]):
            return known[1]
        rule, place = lazy
        emit = self.emit
        before, emit.current = emit.current, place
        found = rule(register)
        emit.current = before
        self._cache[key] = (self.emit.scope_id, found)
        return found

    def register(self, value: Value, register: int) -> str:
        """Return the operand of one register of a tile (or of a scalar)."""
        eager = self._eager.get(value)
        if eager is not None and (operand := eager[register]) is not None:
            return operand
        found = self.held(value, register)
        if isinstance(found, str):
            return found
        before = self.emit.current
        _, place = self._lazy.get(value, (None, before))
        self.emit.current = place
        operand = self.resolve(value, found)
        self.emit.current = before
        return operand

    def pair(self, value: Value, register: int) -> Pair:
        """Return an integer register as (operand, constant)."""
        found = self.held(value, register)
        if isinstance(found, str):
            return ("0", int(found)) if found.lstrip("-").isdigit() else (found, 0)
        assert not isinstance(found, Place)
        return found

    def place(self, value: Value, register: int) -> Place:
        """Return a pointer register as (base, byte offset, constant)."""
        found = self.held(value, register)
        if isinstance(found, str):
            return Place(found, "0", 0)
        assert isinstance(found, Place)
        return found

    def resolve(self, value: Value, found: Held) -> str:
        """Return the operand that a lazy form stands for."""
        if isinstance(found, str):
            return found
        if isinstance(found, Place):
            return pointer_to(self.emit, found)
        operand, constant = found
        type = llvm_type(element_of(value.type))
        return self.emit.add(type, operand, str(constant), "nsw ")

    def registers(self, value: Value) -> list[str | None]:
        """Return all registers of a tile; None where dead."""
        if not shape_of(value.type):
            return [self._scalars[value]]
        found: list[str | None] = [None] * self.layout(value).registers()
        for register in self.live(value):
            found[register] = self.register(value, register)
        return found

    def _eager_register(self, value: Value, register: int) -> str:
        eager = self._eager.get(value)
        if eager is None:
            known = self._unpacked.get(value)
            if known is None or not self.emit.is_open(known[0]):
                known = self._unpacked[value] = self.emit.scope_id, self._unpack(value)
            eager = known[1]
        held = eager[register]
        assert held is not None, f"register {register} of {value!r} is dead"
        return held

    def _unpack(self, value: Value) -> list[str | None]:
        type, each = self.pack_of(value)
        registers: list[str | None] = []
        for word in self._packed[value]:
            if each == 1:
                one = word if type == "i32" else self.emit.pure(f"bitcast i32 {word} to {type}")
                registers.append(one)
                continue
            registers += self.packing.unpack(word, type)
        return registers

    def pack_of(self, value: Value) -> tuple[str, int]:
        """Return (LLVM type, elements per 32-bit word) of a tile of a narrow or 32-bit type."""
        element = element_of(value.type)
        return llvm_type(element), max(1, 32 // max(8, element.bits))

    def words(self, value: Value) -> list[str]:
        """Return a tile's registers packed in i32 words, neighbours together."""
        known = self._packed.get(value)
        if known is not None:
            return known
        type, each = self.pack_of(value)
        registers = [r or zero(type) for r in self.registers(value)]
        return [
            self.packing.pack(registers[i : i + each], type) for i in range(0, len(registers), each)
        ]

    def whole_words(self, value: Value, registers: Sequence[int]) -> list[str] | None:
        """Return the words that some registers of a packed value fill, None if they fill none."""
        if value not in self._packed:
            return None
        each, words = self.pack_of(value)[1], self._packed[value]
        firsts = registers[::each]
        filled = [first + i for first in firsts for i in range(each)]
        if filled != list(registers) or any(first % each for first in firsts):
            return None
        return [words[first // each] for first in firsts]

    # -- programs -------------------------------------------------------------------------
    def program(self, axis: int) -> str:
        """Return the number of this program along an axis of the grid, i32."""
        if self._place is None and not self.persistent:
            return self.chip.program(self.emit, axis)
        if self._place is None:
            raise InvalidModuleError("a program's number is asked for where there is none")
        return self._place[axis]

    def programs(self, axis: int) -> str:
        """Return how many programs there are along an axis of the grid, i32."""
        return f"%grid{axis}" if self.persistent else self.chip.programs(self.emit, axis)

    @contextmanager
    def as_program(self, place: Sequence[str], number: str = "") -> Generator[None]:
        """Write code of the program at a place in the grid, which has a number if blocks stay."""
        self._place, self._number = place, number
        try:
            yield
        finally:
            self._place, self._number = None, ""

    def peer(self, bits: str) -> tuple[str, str]:
        """Return the number that differs from this program's in bits, and whether there is one."""
        number = self.emit.bitwise("xor", "i32", self.number, bits)
        return number, self.is_program(number)

    def is_program(self, number: str) -> str:
        """Return whether the launch has a program of a number."""
        total = self.programs(0)
        for axis in (1, 2):
            total = self.emit.mul("i32", total, self.programs(axis))
        return self.emit.pure(f"icmp ult i32 {number}, {total}")

    @property
    def number(self) -> str:
        """The number of the program, i32, where blocks take several."""
        if not self._number:
            raise InvalidModuleError("a program's number is asked for where there is none")
        return self._number

    # -- places ---------------------------------------------------------------------------
    @property
    def thread(self) -> str:
        """The index of this thread in its block, i32."""
        return self.chip.thread(self.emit)

    @property
    def lane_bits(self) -> int:
        """How many bits the index of a lane has."""
        return self.lanes.bit_length() - 1

    @property
    def lane(self) -> str:
        """The index of this thread in its warp, i32."""
        return self.emit.bitwise("and", "i32", self.thread, str(self.lanes - 1))

    @property
    def warp(self) -> str:
        """The index of this thread's warp; 0 where there is only one."""
        if self.num_warps == 1:
            return "0"
        return self.emit.shift("lshr", "i32", self.thread, self.lane_bits)

    @property
    def first_thread(self) -> str:
        """An i1 that is true in one thread: the first of the role, or of the block."""
        first = self.role.first * self.lanes if self.role is not None else 0
        return self.emit.pure(f"icmp eq i32 {self.thread}, {first}")

    def thread_part(self, lane: Sequence[int], warp: Sequence[int]) -> str:
        """Return the XOR of lane[i] and warp[i] over the set bits of lane and warp index, i32."""
        possible = self.lanes * self.num_warps - 1
        return self.xor_of_bits(self.thread, [*lane, *warp], possible)

    def xor_of_bits(self, number: str, columns: Sequence[int], possible: int) -> str:
        """Return the XOR of columns[i] over the set bits i of an i32 within the mask `possible`.

        Runs of columns that move bits by the same distance cost one and, one shift, one xor.
        """
        runs: dict[int, int] = {}
        for bit, column in enumerate(columns):
            for target in range(column.bit_length()):
                if column >> target & 1:
                    distance = target - bit
                    runs[distance] = runs.get(distance, 0) | 1 << bit
        emit, total = self.emit, "0"
        for distance, mask in sorted(runs.items()):
            held = number
            if mask != possible:
                held = emit.bitwise("and", "i32", held, str(mask))
            if distance > 0:
                held = emit.shift("shl", "i32", held, distance)
            elif distance < 0:
                held = emit.shift("lshr", "i32", held, -distance)
            total = held if total == "0" else emit.bitwise("xor", "i32", total, held)
        return total

    def coordinate(self, layout: LinearLayout, axis: int, register: int) -> Pair:
        """Return the coordinate along an axis of a register's element, as a pair."""
        below = sum(layout.bits[axis + 1 :])
        mask = (1 << layout.bits[axis]) - 1

        def part(flat: int) -> int:
            return flat >> below & mask

        lane = [part(c) for c in layout.flat("lane")]
        warp = [part(c) for c in layout.flat("warp")]
        image = 0
        for column in (*lane, *warp):
            image |= column
        own = part(layout.table("register")[register])
        thread = self.thread_part(lane, warp)
        if image & own:
            return self.emit.bitwise("xor", "i32", thread, str(own)), 0
        return thread, own

    def inside(
        self, layout: LinearLayout, register: int, axes: Sequence[int] | None = None
    ) -> str | None:
        """Return an i1 that is true where a register's element exists; None if it always does."""
        found: str | None = None
        for axis in range(layout.rank) if axes is None else axes:
            extent = layout.shape[axis]
            if extent == layout.padded[axis]:
                continue
            root, constant = self.coordinate(layout, axis, register)
            place = self.emit.add("i32", root, str(constant))
            if place.isdigit():
                if int(place) < extent:
                    continue
                return "false"
            here = self.emit.pure(f"icmp ult i32 {place}, {extent}")
            found = here if found is None else self.emit.bitwise("and", "i1", found, here)
        return found

    def owner(self, layout: LinearLayout) -> str | None:
        """Return an i1 that is true in the one thread that owns its elements; None if all do.

        Copies in registers are the caller's business (it must use each element once).
        """
        owners = layout.owners()
        mask = owners.get("lane", 0) | owners.get("warp", 0) << self.lane_bits
        if not mask:
            return None
        bits = self.emit.bitwise("and", "i32", self.thread, str(mask))
        return self.emit.pure(f"icmp eq i32 {bits}, 0")

    def and_all(self, conditions: Sequence[str | None]) -> str | None:
        """Return the conjunction of conditions; None stands for true."""
        found: str | None = None
        for condition in conditions:
            if condition is None or condition in ("true", "1"):
                continue
            found = condition if found is None else self.emit.bitwise("and", "i1", found, condition)
        return found

    def shared(self, offset: int) -> str:
        """Return the address of a byte of this block's shared memory."""
        if not offset:
            return "@shared_memory"
        return f"getelementptr (i8, {self.shared_pointer} @shared_memory, i32 {offset})"

    def load_shared(self, type: str, address: str, align: int) -> str:
        """Return what lies at an address of shared memory."""
        return self.emit.effect(f"load {type}, {self.shared_pointer} {address}, align {align}")

    def store_shared(self, type: str, value: str, address: str, align: int) -> None:
        """Write a value to an address of shared memory."""
        self.emit.do(f"store {type} {value}, {self.shared_pointer} {address}, align {align}")

    def offset(self, op: Op) -> int:
        """Return the byte offset in shared memory of an op's buffer or scratch."""
        found = self.offsets.get(op.id)
        if found is None:
            raise InvalidModuleError(f"{op!r} at {op.span} was given no shared memory")
        return found

    # -- blocks ---------------------------------------------------------------------------
    def block(self, block: Block) -> None:
        """Lower all ops of a block but a yield at its end."""
        late: set[int] = set()
        for op in block.ops:
            if (parts := self.chip.rules.parts_of(op)) is not None:
                chain = chain_of(
                    block, op, parts.operand, self.chip, self.num_warps, loads=parts.loads,
                    once=parts.once,
                )  # fmt: skip
                self._chains[op.id] = chain
                late.update(map(id, chain))
        for place, op in enumerate(block.ops):
            if id(op) in late:
                continue
            if _waits(op) and _part_behind(block.ops, place):
                self.meeting = Meeting((*self.meeting.ops, op))
                continue
            if not (op.pure or op.side_by_side or op.per_program):
                self.meet()
            known = self.ahead
            self.op(op)
            if self.meeting.ops:
                if op.regions:  # what these make is there in them alone
                    self.ahead = known
                self._before_meeting(op)

    def _before_meeting(self, op: Op) -> None:
        """Have numbers be there when warps meet others: who assembles would compute them later."""
        for value in op.results:
            if isinstance(value.type, Scalar):
                self.register(value, 0)
        takes = any(value in op.operands for value in self.ahead)
        kinds = (I32, I1) if takes else (I32,)  # what a number decides stands for it
        self.ahead = [value for value in self.ahead if value not in op.operands]
        self.ahead += [value for value in op.results if value.type in kinds]

    def meet(self) -> None:
        """Have the warps of a role meet all others, if they are to: `meeting`."""
        found, self.meeting = self.meeting, Meeting()
        if not found.ops:
            return
        role, self.role = self.role, None
        when, words = found.when, [self._word(value) for value in self.ahead]
        self.ahead = []
        if words:
            mixed = words[0]
            for word in words[1:]:
                mixed = self.emit.bitwise("xor", "i32", mixed, word)
            when = self.and_all([when, self.chip.holds_behind(self.emit, mixed)])
        go = self.emit.fresh("go")
        if when is not None:
            meet = self.emit.fresh("meet")
            self.emit.branch(when, meet, go)
            self.emit.label(meet)
        for op in found.ops:
            self.op(op)
        if when is not None:
            self.emit.jump(go)
            self.emit.label(go)
        self.role = role

    def _word(self, value: Value) -> str:
        """Return a number, or whether something holds, as i32."""
        held = self.scalar(value)
        return held if value.type == I32 else self.emit.zext(held, "i1", "i32")

    def comes_in_parts(self, op: Op) -> bool:
        """Say whether what an op takes in parts has been put off until it does."""
        return bool(self._chains.get(op.id))

    def write_part(self, op: Op, operand: Value, registers: Collection[int]) -> None:
        """Write what was put off, as far as these registers of an operand of the op need it."""
        chain = self._chains[op.id]
        needed = registers_read(chain, {operand: registers})
        for one in chain:
            result, live = one.result, set(self.layout(one.result).live_registers())
            self._now[result] = tuple(sorted(live & needed.get(result, set())))
            for held in (self._eager, self._packed, self._unpacked, self._lazy):
                held.pop(result, None)
            for register in range(self.layout(result).registers()):
                self._cache.pop((result, register), None)
        for one in chain:
            if self._now[one.result]:
                self.op(one)

    def op(self, op: Op) -> None:
        """Lower one op by its rule."""
        table = self.chip.rules
        rule = table.rule(type(op))
        if rule is None:
            reason = table.reason(type(op)) or "has no rule on this target"
            raise TargetError(f"{op.name} {reason}", op.span)
        emit = self.emit
        before = emit.current
        emit.at(op)
        try:
            rule(self, op)
        except (KeyError, AssertionError, IndexError, TypeError) as error:
            error.add_note(f"while lowering {op!r} at {op.span}; this is our mistake, not yours")
            raise
        finally:
            emit.current = before


def _part_behind(ops: Sequence[Op], place: int) -> bool:
    """Say whether warps part behind an op, and nothing but what waits lies between."""
    rest = (op for op in ops[place:] if not _waits(op))
    return next(rest, ops[place]).side_by_side


def _waits(op: Op) -> bool:
    """Say whether all an op does is wait for other threads, whatever it is given."""
    waits = any(effect.is_wait for effect in op.own_effects())
    return op.meets or (waits and not (op.operands or op.results))


def element_scalar(value: Value) -> Scalar:
    """Return the element type of a value that holds numbers."""
    element = element_of(value.type)
    assert isinstance(element, Scalar)
    return element


def zero(type: str) -> str:
    """Return the literal 0 of an LLVM type."""
    return "0" if type.startswith("i") else "0.0"


def split_limit(constant: int) -> bool:
    """Say whether a constant is small enough to be kept apart from its operand."""
    return -_SPLIT_LIMIT < constant < _SPLIT_LIMIT


def at(low: Lowering, base: str, offset: str) -> str:
    """Return base + offset bytes in shared memory."""
    if offset == "0":
        return base
    return low.emit.pure(f"getelementptr i8, {low.shared_pointer} {base}, i32 {offset}")


__all__ = [
    "Held",
    "Lowering",
    "Pair",
    "Place",
    "Role",
    "at",
    "element_scalar",
    "llvm_type",
    "memory_type",
    "split_limit",
    "zero",
]
