"""What a GPU must say of itself for the rules of this room: numbers, and its own instructions.

A target derives one class from `Hardware` and writes what LLVM has no words for: the number of a
thread, moving words between lanes, waiting. Everything else is there in plain LLVM IR, exact on
any machine, for a target to replace where it has something better: access under a condition or
with a hint, atomics, shifts by any amount, functions of floats, rounding.

Hooks that write instructions get the emitter and operands, and return operands.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from workbench.ir import Scalar
from workbench.layouts import Banks
from workbench.source import TargetError
from workbench.targets.llvm.emit import Emitter, float_literal

#: How LLVM writes a pointer to global memory; its back ends for GPUs agree on the number.
GLOBAL = "ptr addrspace(1)"

#: The lane from which a shuffle takes its word: the own number XOR a number, a number, or as many
#: lanes before or after the own one (what comes where there is no such lane is nobody's business).
Shuffle = Literal["xor", "index", "up", "down"]


class Place(NamedTuple):
    """A pointer to global memory: base + offset (an i64) + constant, in bytes.

    terms: what the offset is the sum of, in the order in which it was added.
    """

    base: str
    offset: str
    constant: int
    terms: tuple[str, ...] = ()


#: Writes a function of operands of one type.
Rule = Callable[[Sequence[str]], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Estimated cycles of one multiprocessor, for choosing between layouts.

    The unit is one row of banks of shared memory, one shuffle of a warp, or one sector of global
    memory. These are estimates, not predictions of time.

    Attributes:
        sector_bytes: what global memory moves at once.
        access: the issue of one access to global memory by a warp.
        line_bytes: what the cache looks up at once.
        again: a line of a request whose sectors another register of the threads has brought.
        quotient: an index of a warp that is divided by what nobody knows.
        shuffle: a word that goes to another lane, with the selects around it.
        staging: a row of banks that is written and read.
        warp_wait: the least that an exchange through shared memory takes within a warp.
        block_wait: the same between warps.
        crossing: combining across warps, apart from what is read.
        reduced: combining one element with another in a thread.
        scanned: the same with running results.
    """

    sector_bytes: int
    access: float
    line_bytes: int
    again: float
    quotient: float
    shuffle: float
    staging: float
    warp_wait: float
    block_wait: float
    crossing: float
    reduced: float
    scanned: float


@dataclass(frozen=True, slots=True)
class Transfer:
    """One access to global memory: `pieces` integers of `bits` bits side by side.

    What of the place an instruction adds up itself is the chip's to say. Under a condition (an i1)
    it happens only where that holds. `cache` and `eviction` are the author's hints in Triton's
    words; `volatile`: every access is made, as it stands.
    """

    place: Place
    pieces: int
    bits: int
    condition: str | None = None
    cache: str = ""
    eviction: str = ""
    volatile: bool = False

    @property
    def type(self) -> str:
        """The LLVM type of what is moved."""
        return f"<{self.pieces} x i{self.bits}>" if self.pieces > 1 else f"i{self.bits}"

    @property
    def align(self) -> int:
        """The alignment of the address: that of the whole."""
        return self.pieces * self.bits // 8


@dataclass(frozen=True, slots=True)
class Atomic:
    """An atomic update of global memory: op.AtomicUpdate's words, and "cas" to compare and swap.

    `element` tells signed from unsigned numbers and from floats; operands and what was there
    before are integers of its width.
    """

    function: str
    order: str
    scope: str
    element: Scalar


def pointer_to(emit: Emitter, place: Place) -> str:
    """Return the pointer that a place stands for."""
    base, offset, constant, _ = place
    where = emit.add("i64", offset, str(constant))
    return base if where == "0" else emit.pure(f"getelementptr i8, {GLOBAL} {base}, i64 {where}")


class Hardware(ABC):
    """One kind of GPU; see the top of this file.

    Attributes:
        name: what users call it.
        lanes: of a warp, a power of two.
        shared_bytes: the most shared memory that one block may have.
        shared_space: the number of LLVM's address space for it.
        widest_bytes: the most that one lane moves at once, in shared and in global memory.
        least_copied_bytes: the least that one lane copies from global to shared memory without
            waiting for it; 0: no such copies.
        stores_matrices: whether a warp stores fragments of 16-bit elements to buffers in shared
            memory as matrices (layouts/matrix_access.py).
        bounds_halves: whether an instruction takes the smaller ones of two pairs of 16 bits.
        loads_ahead: whether loads that no copy can be are worth their registers rounds ahead.
        most_warps: of one block, a power of two.
        banks: of shared memory.
        costs: what layouts are chosen by.
    """

    name: str
    lanes: int
    shared_bytes: int
    shared_space: int
    widest_bytes: int
    least_copied_bytes: int = 0
    stores_matrices: bool = False
    bounds_halves: bool = False
    loads_ahead: bool = False
    most_warps: int
    banks: Banks
    costs: Costs

    @property
    @abstractmethod
    def most_scratch(self) -> int:
        """What one op takes of shared memory at once where it can go in rounds.

        With less, blocks share a multiprocessor, and what else a kernel keeps fits beside it.
        """

    @abstractmethod
    def most_registers(self, num_warps: int) -> int:
        """Return how many registers of 32 bits a thread can have in blocks of so many warps."""

    # -- what LLVM has no words for -------------------------------------------------------
    @abstractmethod
    def thread(self, emit: Emitter) -> str:
        """Return the number of this thread in its block, i32: lanes first, then warps."""

    @abstractmethod
    def program(self, emit: Emitter, axis: int) -> str:
        """Return the number of this program along an axis of the grid, i32."""

    @abstractmethod
    def programs(self, emit: Emitter, axis: int) -> str:
        """Return how many programs there are along an axis of the grid, i32."""

    @abstractmethod
    def shuffle(self, emit: Emitter, kind: Shuffle, word: str, lane: str) -> str:
        """Return the i32 that another lane of the warp offers; all lanes take part."""

    def holds_behind(self, emit: Emitter, word: str) -> str | None:
        """Return a condition that holds always, which nobody knows before a word is there.

        What happens under it is not moved in front of what computes the word. None: no need.
        """
        return None

    @abstractmethod
    def wait_for_block(self, emit: Emitter) -> None:
        """Let all threads of the block wait for each other, and see what was written before."""

    @abstractmethod
    def wait_for_warp(self, emit: Emitter) -> None:
        """Let all lanes of a warp wait for each other, and see what was written before."""

    def end_stretch(self, emit: Emitter, words: Sequence[tuple[int, str]]) -> None:
        """Have nothing that is written from here on be computed before what was written so far.

        `words`, with their bits, are loaded in front of here and nowhere behind.
        """
        del emit, words  # most assemblers leave loads where they are

    def wait_for_warps(self, emit: Emitter, number: int | str, warps: int) -> None:
        """Let so many warps of the block wait for each other at barrier `number`, from 1 on.

        An i32 where it is not the same for all.
        """
        raise TargetError(f"{self.name} has no barriers of some of a block's warps")

    def tell_warps(self, emit: Emitter, number: int | str, warps: int) -> None:
        """Have those of so many warps that wait at barrier `number` know that these came by."""
        raise TargetError(f"{self.name} has no barriers of some of a block's warps")

    def store_matrices(
        self, emit: Emitter, address: str, words: Sequence[str], *, turned: bool
    ) -> None:
        """Store one, two or four matrices, of each a word of a lane; see `stores_matrices`."""
        raise TargetError(f"{self.name} stores no matrices")

    def take_registers(self, emit: Emitter, registers: int, *, more: bool) -> None:
        """Let the threads of four warps have so many registers: more, or fewer, than so far."""
        raise TargetError(f"{self.name} gives no registers from one warp to another")

    def begin(self, emit: Emitter, type: str, constant: str, count: int) -> list[str]:
        """Return a constant in so many registers, which a loop will change.

        Where LLVM itself puts it there, it says of no op that the instructions are its own.
        """
        return [constant] * count

    def held(self, emit: Emitter, constant: int) -> str:
        """Return an i32 constant as an operand that instructions with another constant take, too.

        Where instructions take one, another is put in a register in front of each, unless the
        compiler behind LLVM cannot tell that it is a constant.
        """
        return str(constant)

    @abstractmethod
    def print_line(self, emit: Emitter, form: str, operands: Sequence[tuple[str, str]]) -> None:
        """Print (type, operand) pairs as C's printf does."""

    @abstractmethod
    def fail(self, emit: Emitter, message: str, file: str, line: int, function: str) -> None:
        """Stop the kernel with a message and the place of an assertion that does not hold."""

    # -- global memory --------------------------------------------------------------------
    def load(self, emit: Emitter, transfer: Transfer, start: Sequence[str]) -> list[str]:
        """Return the words of a load; `start` are those of a thread where its condition fails.

        `start` is empty for a load without a condition. Hints are ignored.
        """
        address = pointer_to(emit, transfer.place)
        pointer = f"{GLOBAL} {address}, align {transfer.align}"
        word = "load volatile" if transfer.volatile else "load"
        kind, count = f"i{transfer.bits}", transfer.pieces
        if transfer.condition is None:
            whole = emit.effect(f"{word} {transfer.type}, {pointer}")
            return emit.elements(kind, count, whole)
        before, then, end = emit.block, emit.fresh("load"), emit.fresh("loaded")
        emit.branch(transfer.condition, then, end)
        emit.label(then)
        with emit.scope():
            whole = emit.effect(f"{word} {transfer.type}, {pointer}")
            words = emit.elements(kind, count, whole)
        emit.jump(end)
        emit.label(end)
        return [
            emit.phi(kind, [(other, before), (new, then)])
            for other, new in zip(start, words, strict=True)
        ]

    def store(self, emit: Emitter, transfer: Transfer, words: Sequence[str]) -> None:
        """Write a store of words; hints are ignored."""
        value = emit.vector(f"i{transfer.bits}", words)
        address = pointer_to(emit, transfer.place)
        text = f"store {transfer.type} {value}, {GLOBAL} {address}, align {transfer.align}"
        if transfer.condition is None:
            emit.do(text)
            return
        then, end = emit.fresh("store"), emit.fresh("stored")
        emit.branch(transfer.condition, then, end)
        emit.label(then)
        emit.do(text)
        emit.jump(end)
        emit.label(end)

    def atomic(
        self,
        emit: Emitter,
        update: Atomic,
        address: str,
        operands: Sequence[str],
        condition: str | None,
    ) -> str:
        """Return what was there before an update; anything where the condition does not hold.

        For "cas" the operands are what is expected and what is put there. Every update is seen
        by the whole system, whatever scope it asks for.
        """
        if condition is None:
            return _atomic(emit, update, address, operands)
        kind = f"i{update.element.bits}"
        before, then, end = emit.block, emit.fresh("update"), emit.fresh("updated")
        emit.branch(condition, then, end)
        emit.label(then)
        with emit.scope():
            old = _atomic(emit, update, address, operands)
        emit.jump(end)
        emit.label(end)
        return emit.phi(kind, [("0", before), (old, then)])

    # -- integers -------------------------------------------------------------------------
    def shift(self, emit: Emitter, function: str, element: Scalar, value: str, amount: str) -> str:
        """Return an integer of 32 or 64 bits shifted ("shl", "shr") by any amount.

        By its width or more, read as unsigned, only signs are left.
        """
        type, most = f"i{element.bits}", element.bits - 1
        last = emit.call(
            type, f"llvm.umin.{type}", f"{type} {amount}, {type} {most}", f"{type}, {type}"
        )
        if function == "shr" and element.kind == "int":
            return emit.pure(f"ashr {type} {value}, {last}")
        name = "shl" if function == "shl" else "lshr"
        moved = emit.pure(f"{name} {type} {value}, {last}")
        inside = emit.pure(f"icmp ule {type} {amount}, {most}")
        return emit.pure(f"select i1 {inside}, {type} {moved}, {type} 0")

    def cut(self, emit: Emitter, word: str, to_type: str) -> str:
        """Return the low bits of an i32, as an i8 or i16."""
        return emit.trunc(word, "i32", to_type)

    def wide_product(self, emit: Emitter, a: str, b: str) -> str:
        """Return the i64 that is the product of two i32 without signs."""
        x, y = (emit.pure(f"zext i32 {v} to i64") for v in (a, b))
        return emit.pure(f"mul i64 {x}, {y}")

    # -- floats ---------------------------------------------------------------------------
    def float_rule(self, emit: Emitter, function: str, type: str) -> Rule | None:
        """Return how this GPU itself computes a function of f32 ("float") or f64 ("double").

        None where it does not: functions.py has formulas for most. They are made of these, which
        f32 must have: exp2 log2 sqrt sqrt_rn rsqrt div div_rn reciprocal, and exp or
        multiply_down (a product rounded down). Within 2 ulp (exp2 3), _rn rounded to nearest. It
        may have fma_saturated, which ends between 0 and 1 and makes 0 of a NaN.
        """
        if function in ("div", "div_rn"):
            return lambda v: emit.pure(f"fdiv {type} {v[0]}, {v[1]}")
        if function == "reciprocal":
            return lambda v: emit.pure(f"fdiv {type} {float_literal(1.0, type)}, {v[0]}")
        name = {"sqrt_rn": "sqrt", "rsqrt": "sqrt"}.get(function, function)
        if name != "sqrt" and (type != "float" or name not in ("exp", "exp2", "log2")):
            return None
        suffix = {"float": "f32", "double": "f64"}[type]

        def rule(v: Sequence[str]) -> str:
            found = emit.call(type, f"llvm.{name}.{suffix}", f"{type} {v[0]}", type)
            if function != "rsqrt":
                return found
            return emit.pure(f"fdiv {type} {float_literal(1.0, type)}, {found}")

        return rule

    def shared_rule(self, emit: Emitter, function: str, type: str) -> Rule | None:
        """Return how a function is computed where several of a thread's elements share an operand.

        It is the last one, of which as much as can be is written once. Results are those of
        `float_rule` to the bit; None where nothing is gained.
        """
        return None

    def toward_zero(self, emit: Emitter, value: str, from_type: str, to_type: str) -> str:
        """Return a float in a narrower type, cut: f64 in f32 or f16, f32 in f16 or bf16."""
        near = emit.pure(f"fptrunc {from_type} {value} to {to_type}")
        back = emit.pure(f"fpext {to_type} {near} to {from_type}")
        suffix = {"float": "f32", "double": "f64"}[from_type]
        sizes = [
            emit.call(from_type, f"llvm.fabs.{suffix}", f"{from_type} {v}", from_type)
            for v in (back, value)
        ]
        away = emit.pure(f"fcmp ogt {from_type} {sizes[0]}, {sizes[1]}")
        bits = "i32" if to_type == "float" else "i16"
        # The next number towards 0 has the next lower pattern, from infinity on.
        pattern = emit.pure(f"bitcast {to_type} {near} to {bits}")
        pattern = emit.sub(bits, pattern, emit.zext(away, "i1", bits))
        return emit.pure(f"bitcast {bits} {pattern} to {to_type}")

    def to_integer(self, emit: Emitter, value: str, *, signed: bool) -> str | None:
        """Return an f32 cut to an i32, saturated, NaN as 0; None: no instruction does that."""
        return None

    def to_bytes(self, emit: Emitter, four: Sequence[str], *, signed: bool) -> str | None:
        """Return up to four i32, each saturated to 8 bits, in a word, the first in the low byte.

        Zeros stand above them. None: there is no instruction that packs.
        """
        return None

    @property
    def rounds_pairs(self) -> bool:
        """Whether an instruction rounds two floats to half or bfloat (`rounded_pair`)."""
        return False

    def rounded_pair(self, emit: Emitter, pair: Sequence[str], type: str) -> str:
        """Return two floats rounded to half or bfloat in a word, the first in its low half."""
        raise TargetError(f"{self.name} rounds no two numbers at once")

    def half_away(self, emit: Emitter, value: str, type: str) -> str:
        """Return the integer nearest to an f32 or f64, halves away from zero, as a float."""
        suffix = {"float": "f32", "double": "f64"}[type]
        return emit.call(type, f"llvm.round.{suffix}", f"{type} {value}", type)

    def encode(self, emit: Emitter, pair: Sequence[str], to: Scalar) -> str | None:
        """Return two f32 as two 8-bit floats in an i16, the first in the low byte.

        Rounded to nearest even, saturating. None: there is no instruction, bits have to be moved.
        """
        return None

    def decode(self, emit: Emitter, code: str, source: Scalar) -> str | None:
        """Return the two 8-bit floats of an i16 as <2 x half>; None as in `encode`."""
        return None


_UPDATES = {
    "add": "add", "max": "max", "min": "min", "and": "and", "or": "or", "xor": "xor",
    "exchange": "xchg",
}  # fmt: skip
_ORDERS = {"relaxed": "monotonic"}


def _atomic(emit: Emitter, update: Atomic, address: str, operands: Sequence[str]) -> str:
    """Write an update in LLVM's words."""
    element = update.element
    kind, order = f"i{element.bits}", _ORDERS.get(update.order, update.order)
    place = f"{GLOBAL} {address}"
    if update.function == "cas":
        failed = {"release": "monotonic", "acq_rel": "acquire"}.get(order, order)
        both = ", ".join(f"{kind} {operand}" for operand in operands)
        pair = emit.effect(f"cmpxchg {place}, {both} {order} {failed}")
        return emit.effect(f"extractvalue {{ {kind}, i1 }} {pair}, 0")
    name, (operand,) = _UPDATES[update.function], operands
    if element.is_float and update.function == "add":
        type = {"f16": "half", "bf16": "bfloat", "f32": "float", "f64": "double"}[element.name]
        held = emit.pure(f"bitcast {kind} {operand} to {type}")
        old = emit.effect(f"atomicrmw fadd {place}, {type} {held} {order}")
        return emit.effect(f"bitcast {type} {old} to {kind}")
    if name in ("max", "min") and element.kind != "int":
        name = f"u{name}"
    return emit.effect(f"atomicrmw {name} {place}, {kind} {operand} {order}")
