"""The instructions behind the hooks of targets/simt, as inline PTX where LLVM has no words.

A thread's numbers, shuffles and barriers are LLVM's intrinsics for NVPTX. f32 uses the special
function unit where it is within 3 ulp (ex2) or 2 (lg2, rsqrt, sqrt, rcp; PTX ISA 9.0, `.approx`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from workbench.ir import BF16, Scalar
from workbench.source import TargetError
from workbench.targets.llvm.emit import Emitter, float_literal
from workbench.targets.simt.hardware import (
    GLOBAL,
    Atomic,
    Place,
    Rule,
    Shuffle,
    Transfer,
    pointer_to,
)
from workbench.targets.simt.rules import Device

_READ = " nounwind memory(none) speculatable"
_SHUFFLES = {"xor": "bfly", "index": "idx", "up": "up", "down": "down"}
_EVICTION = {"evict_first": "L1::evict_first", "evict_last": "L1::evict_last",
             "evict_normal": "L1::evict_normal", "": ""}  # fmt: skip
_LETTER = {16: "h", 32: "r", 64: "l"}
#: Registers of a carried tile from which on it begins with a statement of its own.
_MANY = 16
_SMALL = {"f8e4m3": "e4m3", "f8e5m2": "e5m2"}
#: Functions of floats that are one instruction: LLVM type, PTX. Subnormal results of ex2 and rcp
#: are 0 (.ftz): the exact forms cost three more instructions.
_FUNCTIONS = {
    ("exp2", "float"): "ex2.approx.ftz.f32", ("log2", "float"): "lg2.approx.f32",
    ("multiply_down", "float"): "mul.rm.f32", ("fma_saturated", "float"): "fma.rn.sat.f32",
    ("div", "float"): "div.full.f32", ("div_rn", "float"): "div.rn.f32",
    ("reciprocal", "float"): "rcp.approx.ftz.f32",
    ("sqrt", "float"): "sqrt.approx.f32", ("sqrt_rn", "float"): "sqrt.rn.f32",
    ("rsqrt", "float"): "rsqrt.approx.f32", ("sqrt_rn", "double"): "sqrt.rn.f64",
}  # fmt: skip


class Instructions(Device):
    """What NVIDIA chips have from sm_80 on; of single ones `capability` tells."""

    @property
    @abstractmethod
    def capability(self) -> int:
        """The compute capability as a number, e.g. 90."""

    @property
    @abstractmethod
    def gives_registers(self) -> bool:
        """Whether warps give registers to others: setmaxnreg."""

    # -- threads --------------------------------------------------------------------------
    def thread(self, emit: Emitter) -> str:
        return emit.call("i32", "llvm.nvvm.read.ptx.sreg.tid.x", "", "", _READ)

    def program(self, emit: Emitter, axis: int) -> str:
        return emit.call("i32", f"llvm.nvvm.read.ptx.sreg.ctaid.{'xyz'[axis]}", "", "", _READ)

    def programs(self, emit: Emitter, axis: int) -> str:
        return emit.call("i32", f"llvm.nvvm.read.ptx.sreg.nctaid.{'xyz'[axis]}", "", "", _READ)

    def shuffle(self, emit: Emitter, kind: Shuffle, word: str, lane: str) -> str:
        """PTX ISA 9.0, shfl.sync; the clamp is 0 for up, the last lane for the others."""
        name = f"llvm.nvvm.shfl.sync.{_SHUFFLES[kind]}.i32"
        clamp = 0 if kind == "up" else self.lanes - 1
        emit.declare(name, f"declare i32 @{name}(i32, i32, i32, i32) convergent nounwind")
        return emit.effect(f"call i32 @{name}(i32 -1, i32 {word}, i32 {lane}, i32 {clamp})")

    def holds_behind(self, emit: Emitter, word: str) -> str | None:
        """No square of 32 bits is 2^64 - 1; ptxas does not ask."""
        text = "{ .reg .b64 s; mul.wide.u32 s, $1, $1; setp.ne.s64 $0, s, -1; }"
        return emit.effect(f'call i1 asm sideeffect "{text}", "=b,r"(i32 {word})')

    def wait_for_block(self, emit: Emitter) -> None:
        name = "llvm.nvvm.barrier.cta.sync.aligned.all"
        emit.declare(name, f"declare void @{name}(i32) convergent nounwind")
        emit.do(f"call void @{name}(i32 0)")

    def wait_for_warp(self, emit: Emitter) -> None:
        name = "llvm.nvvm.bar.warp.sync"
        emit.declare(name, f"declare void @{name}(i32) convergent nounwind")
        emit.do(f"call void @{name}(i32 -1)")

    def end_stretch(self, emit: Emitter, words: Sequence[tuple[int, str]]) -> None:
        """End a block of ptxas, which orders each by itself: no block has 0 threads.

        Where a thread ended, what it loaded would be for nothing, and ptxas moves some of it
        behind. So it is added up and stored there. Bytes are not: they are made words first.
        """
        held = [(bits, word) for bits, word in words if bits in _LETTER]
        text = "{ .reg .pred p; .reg .b32 n; mov.u32 n, %ntid.x; setp.eq.u32 p, n, 0; @p exit; }"
        if held:
            text = "{ .reg .pred p; .reg .b32 n, m; .reg .b64 a; mov.u32 n, %ntid.x; "
            text += "setp.ne.u32 p, n, 0; @p bra ASKED; "
            for number, (bits, _) in enumerate(held):
                change = "mov.b32" if bits == 32 else f"cvt.u32.u{bits}"
                text += f"{change} m, ${number}; xor.b32 n, n, m; "
            text += "mov.b64 a, 0; st.global.b32 [a], n; exit; ASKED: }"
        constraints = ",".join([*(_LETTER[bits] for bits, _ in held), "~{memory}"])
        arguments = ", ".join(f"i{bits} {word}" for bits, word in held)
        emit.do(f'call void asm sideeffect "{text}", "{constraints}"({arguments})')

    def wait_for_warps(self, emit: Emitter, number: int | str, warps: int) -> None:
        """PTX ISA 9.0, barrier.cta.sync.aligned with a number of threads."""
        name = "llvm.nvvm.barrier.cta.sync.aligned.count"
        emit.declare(name, f"declare void @{name}(i32, i32) convergent nounwind")
        emit.do(f"call void @{name}(i32 {number}, i32 {warps * self.lanes})")

    def tell_warps(self, emit: Emitter, number: int | str, warps: int) -> None:
        """PTX ISA 9.0, barrier.cta.arrive.aligned with a number of threads."""
        name = "llvm.nvvm.barrier.cta.arrive.aligned.count"
        emit.declare(name, f"declare void @{name}(i32, i32) convergent nounwind")
        emit.do(f"call void @{name}(i32 {number}, i32 {warps * self.lanes})")

    def store_matrices(
        self, emit: Emitter, address: str, words: Sequence[str], *, turned: bool
    ) -> None:
        """PTX ISA 9.0, stmatrix (sm_90): one, two or four 8x8 matrices of 16-bit elements."""
        count = len(words)
        names = ", ".join(f"${1 + number}" for number in range(count))
        kind = f"x{count}{'.trans' if turned else ''}"
        text = f"stmatrix.sync.aligned.m8n8.{kind}.shared.b16 [$0], {{{names}}};"
        place = emit.pure(f"ptrtoint ptr addrspace(3) {address} to i32")
        arguments = ", ".join(f"i32 {word}" for word in (place, *words))
        constraints = ",".join(["r"] * (1 + count))
        emit.do(f'call void asm sideeffect "{text}", "{constraints},~{{memory}}"({arguments})')

    def take_registers(self, emit: Emitter, registers: int, *, more: bool) -> None:
        """PTX ISA 9.0, setmaxnreg (sm_90a)."""
        if not self.gives_registers:
            raise TargetError(f"{self.name} gives no registers from one warp to another")
        text = f"setmaxnreg.{'inc' if more else 'dec'}.sync.aligned.u32 {registers};"
        emit.do(f'call void asm sideeffect "{text}", ""() convergent')

    def begin(self, emit: Emitter, type: str, constant: str, count: int) -> list[str]:
        """One statement, which has the place of its op."""
        letter = {"float": "f", "i32": "r"}.get(type)
        if letter is None or count < _MANY:
            return [constant] * count
        text = " ".join(f"mov.b32 ${n}, ${count};" for n in range(count))
        returned = emit.struct(type, count)
        constraints = f"={letter}," * count + letter
        whole = emit.effect(f'call {returned} asm "{text}", "{constraints}"({type} {constant})')
        return [emit.effect(f"extractvalue {returned} {whole}, {n}") for n in range(count)]

    def held(self, emit: Emitter, constant: int) -> str:
        """Less a zero of which no compiler knows: lane 31 comes after all others.

        ptxas (13.0) moves constants that it knows into a register before each of their users, and
        does bitwise operations again there. PTX ISA 9.0, %lanemask_lt.
        """
        before = emit.call("i32", "llvm.nvvm.read.ptx.sreg.lanemask.lt", "", "", _READ)
        zero = emit.shift("lshr", "i32", before, 31)
        return emit.pure(f'call i32 asm "sub.s32 $0, {constant}, $1;", "=r,r"(i32 {zero})')

    # -- what the CUDA runtime's device functions do --------------------------------------
    def print_line(self, emit: Emitter, form: str, operands: Sequence[tuple[str, str]]) -> None:
        """vprintf(format, arguments); CUDA C++ Programming Guide, "Formatted Output"."""
        text = _text(emit, form)
        layout = "{ " + ", ".join(kind for kind, _ in operands) + " }"
        held = emit.effect(f"alloca {layout}, align 8")
        for i, (kind, operand) in enumerate(operands):
            place = emit.effect(f"getelementptr {layout}, ptr {held}, i32 0, i32 {i}")
            emit.do(f"store {kind} {operand}, ptr {place}")
        emit.declare("vprintf", "declare i32 @vprintf(ptr, ptr)")
        emit.effect(f"call i32 @vprintf(ptr {text}, ptr {held})")

    def fail(self, emit: Emitter, message: str, file: str, line: int, function: str) -> None:
        """__assertfail(message, file, line, function, character size); "Assertion" there."""
        words, place, name = (_text(emit, text) for text in (message, file, function))
        emit.declare("__assertfail", "declare void @__assertfail(ptr, ptr, i32, ptr, i64)")
        emit.do(f"call void @__assertfail(ptr {words}, ptr {place}, i32 {line}, ptr {name}, i64 1)")

    # -- global memory --------------------------------------------------------------------
    def load(self, emit: Emitter, transfer: Transfer, start: Sequence[str]) -> list[str]:
        """Predicate, cache and eviction hints have no LLVM form. PTX ISA 9.0, ld."""
        if _is_plain(transfer):
            return super().load(emit, transfer, start)
        pieces, bits = transfer.pieces, transfer.bits
        word = "ld.volatile.global" if transfer.volatile else "ld.global"
        hints = ("", "") if transfer.volatile else (transfer.cache, transfer.eviction)
        word += _hints(*hints, pieces, bits)
        letter, result = _register(bits)
        returned = f"{{{', '.join([result] * pieces)}}}" if pieces > 1 else result
        address, beside = address_of(emit, transfer.place)
        arguments = [f"{GLOBAL} {address}"]
        constraints = [f"={letter}"] * pieces + ["l"]
        text = f"{word} {_operands(0, pieces)}, [${pieces}{beside}];"
        if transfer.condition is not None:
            if bits == 8:
                start = [emit.zext(w, "i8", "i32") for w in start]
            constraints += ["b", *map(str, range(pieces))]
            arguments += [f"i1 {transfer.condition}", *(f"{result} {w}" for w in start)]
            text = f"@${pieces + 1} {text}"
        call = emit.effect(
            f'call {returned} asm sideeffect "{text}", "{",".join(constraints)}"'
            f"({', '.join(arguments)})"
        )
        words = [call] if pieces == 1 else [
            emit.effect(f"extractvalue {returned} {call}, {i}") for i in range(pieces)]  # fmt: skip
        return [emit.pure(f"trunc i32 {w} to i8") for w in words] if bits == 8 else words

    def store(self, emit: Emitter, transfer: Transfer, words: Sequence[str]) -> None:
        """PTX ISA 9.0, st."""
        if _is_plain(transfer):
            super().store(emit, transfer, words)
            return
        pieces, bits = transfer.pieces, transfer.bits
        if bits == 8:
            words = [emit.zext(w, "i8", "i32") for w in words]
        word = "st.global" + _hints(transfer.cache, transfer.eviction, pieces, bits)
        letter, held = _register(bits)
        constraints = ["l", *[letter] * pieces]
        address, beside = address_of(emit, transfer.place)
        arguments = [f"{GLOBAL} {address}", *(f"{held} {w}" for w in words)]
        text = f"{word} [$0{beside}], {_operands(1, pieces)};"
        if transfer.condition is not None:
            text = f"@${pieces + 1} {text}"
            constraints.append("b")
            arguments.append(f"i1 {transfer.condition}")
        emit.do(
            f'call void asm sideeffect "{text}", "{",".join(constraints)}"({", ".join(arguments)})'
        )

    def atomic(
        self,
        emit: Emitter,
        update: Atomic,
        address: str,
        operands: Sequence[str],
        condition: str | None,
    ) -> str:
        """PTX ISA 9.0, atom. Nothing adds a bf16 before sm_90: those chips compare and swap."""
        bits, letter = f"i{update.element.bits}", _LETTER[update.element.bits]
        names = ", ".join(f"${2 + i}" for i in range(len(operands)))
        text = f"atom.{update.order}.{update.scope}.global.{_word(update)} $0, [$1], {names};"
        constraints = [f"={letter}", "l", *[letter] * len(operands)]
        arguments = [f"{GLOBAL} {address}", *(f"{bits} {v}" for v in operands)]
        if condition is not None:
            text = f"@${len(operands) + 2} {text}"
            constraints += ["b", "0"]
            arguments += [f"i1 {condition}", f"{bits} 0"]
        if self.capability < 90 and update.function == "add" and update.element == BF16:
            text = _added_by_swaps(update, guarded=condition is not None)
            constraints[0] = f"=&{letter}"
        return emit.effect(
            f'call {bits} asm sideeffect "{text}", "{",".join(constraints)},~{{memory}}"'
            f"({', '.join(arguments)})"
        )

    # -- integers -------------------------------------------------------------------------
    def shift(self, emit: Emitter, function: str, element: Scalar, value: str, amount: str) -> str:
        """PTX clamps amounts (PTX ISA 9.0, shl and shr): it costs what LLVM's shift would."""
        type, bits, signed = f"i{element.bits}", element.bits, element.kind == "int"
        if bits == 64:
            most = emit.call(
                type, "llvm.umin.i64", f"{type} {amount}, {type} 64", f"{type}, {type}"
            )
            amount = emit.trunc(most, type, "i32")
        letter = "l" if bits == 64 else "r"
        kind = "b" if function == "shl" else "s" if signed else "u"
        text = f"{function}.{kind}{bits} $0, $1, $2;"
        operands = f"{type} {value}, i32 {amount}"
        return emit.pure(f'call {type} asm "{text}", "={letter},{letter},r"({operands})')

    def cut(self, emit: Emitter, word: str, to_type: str) -> str:
        """PTX ISA 9.0, cvt.u16.u32: "chops" to the low bits.

        A 16-bit register of PTX lives in a 32-bit one, and PTX does not say what `neg.s16` and
        `abs.s16` leave in the upper half when they wrap. ptxas 13.0 takes them not to, and drops
        the sign extension that follows: -(-32768) becomes +32768 once it is widened, compared or
        divided. ptxas 13.5 keeps it. A plain `trunc` LLVM would move in front of the arithmetic
        and make `neg.s16` of it again, also where the user wrote
        `(-x.to(tl.int32)).to(tl.int16)`. Both assemblers make as many instructions of this as of
        the 16-bit forms: they compute in 32 bits too.
        """
        if to_type != "i16":
            return super().cut(emit, word, to_type)
        return emit.pure(f'call i16 asm "cvt.u16.u32 $0, $1;", "=h,r"(i32 {word})')

    def wide_product(self, emit: Emitter, a: str, b: str) -> str:
        """PTX ISA 9.0, mul.wide: LLVM would make two products of the halves, and ptxas, too."""
        text = "mul.wide.u32 $0, $1, $2;"
        return emit.pure(f'call i64 asm "{text}", "=l,r,r"(i32 {a}, i32 {b})')

    # -- floats ---------------------------------------------------------------------------
    def float_rule(self, emit: Emitter, function: str, type: str) -> Rule | None:
        name = _FUNCTIONS.get((function, type))
        if name is None:
            return None
        letter = {"float": "f", "double": "d"}[type]

        def rule(v: Sequence[str]) -> str:
            sources = "".join(f", ${i + 1}" for i in range(len(v)))
            constraints = ",".join([f"={letter}"] + [letter] * len(v))
            arguments = ", ".join(f"{type} {x}" for x in v)
            return emit.pure(f'call {type} asm "{name} $0{sources};", "{constraints}"({arguments})')

        return rule

    def shared_rule(self, emit: Emitter, function: str, type: str) -> Rule | None:
        """What ptxas makes of div.full, but the divisor's part of it once.

        a / b is (s a) (1 / s b), where s brings divisors in range of the reciprocal. ptxas
        multiplies each dividend twice, behind predicates, and that by the reciprocal.
        """
        if (function, type) != ("div", "float"):
            return None
        reciprocal = self.float_rule(emit, "reciprocal", "float")
        assert reciprocal is not None

        def times(a: str, b: str) -> str:  # never one instruction with an addition
            name = "llvm.nvvm.mul.rn.f"
            return emit.call("float", name, f"float {a}, float {b}", "float, float", _READ)

        def rule(v: Sequence[str]) -> str:
            size = emit.call("float", "llvm.fabs.f32", f"float {v[1]}", "float")
            large = emit.pure(f"fcmp ogt float {size}, {float_literal(2.0**126, 'float')}")
            normal = emit.pure(f"fcmp uge float {size}, {float_literal(2.0**-126, 'float')}")
            one, up, down = (float_literal(x, "float") for x in (1.0, 2.0**24, 0.25))
            scale = emit.pure(f"select i1 {normal}, float {one}, float {up}")
            scale = emit.pure(f"select i1 {large}, float {down}, float {scale}")
            return times(times(v[0], scale), reciprocal([times(v[1], scale)]))

        return rule

    def toward_zero(self, emit: Emitter, value: str, from_type: str, to_type: str) -> str:
        """PTX ISA 9.0, cvt.rz."""
        words = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64"}
        text = f"cvt.rz.{words[to_type]}.{words[from_type]} $0, $1;"
        letter = {"float": "f", "double": "d"}[from_type]
        if to_type == "float":
            return emit.pure(f'call float asm "{text}", "=f,{letter}"({from_type} {value})')
        bits = emit.pure(f'call i16 asm "{text}", "=h,{letter}"({from_type} {value})')
        return emit.pure(f"bitcast i16 {bits} to {to_type}")

    def to_integer(self, emit: Emitter, value: str, *, signed: bool) -> str | None:
        """PTX ISA 9.0, cvt: integers saturate, and NaN of an f32 is 0."""
        text = f"cvt.rzi.{'s' if signed else 'u'}32.f32 $0, $1;"
        return emit.pure(f'call i32 asm "{text}", "=r,f"(float {value})')

    def to_bytes(self, emit: Emitter, four: Sequence[str], *, signed: bool) -> str | None:
        """PTX ISA 9.0, cvt.pack.sat.s8.s32.b32: what was there moves up, the second goes lowest.

        ptxas makes one instruction of it and of the conversions of two floats in front.
        """
        text = f"cvt.pack.sat.{'s' if signed else 'u'}8.s32.b32 $0, $1, $2, $3;"
        padded, word = [*four, *["0"] * (len(four) % 2)], "0"
        for i in reversed(range(0, len(padded), 2)):
            operands = f"i32 {padded[i + 1]}, i32 {padded[i]}, i32 {word}"
            word = emit.pure(f'call i32 asm "{text}", "=r,r,r,r"({operands})')
        return word

    @property
    def rounds_pairs(self) -> bool:
        return self.capability >= 80

    def rounded_pair(self, emit: Emitter, pair: Sequence[str], type: str) -> str:
        """PTX ISA 9.0, cvt.rn.f16x2.f32 (sm_80); the second operand is the low half."""
        text = f"cvt.rn.{'f16' if type == 'half' else 'bf16'}x2.f32 $0, $2, $1;"
        return emit.pure(f'call i32 asm "{text}", "=r,f,f"(float {pair[0]}, float {pair[1]})')

    def half_away(self, emit: Emitter, value: str, type: str) -> str:
        """Add a half of the number's sign, cut to what fits, and cut the fraction: 3 instructions.

        The sum is never cut below an integer that it reached, and one below a half stays below 1.
        """
        letter, suffix = {"float": ("f", "f32"), "double": ("d", "f64")}[type]
        two = f"{type}, {type}"
        half = emit.call(type, f"llvm.copysign.{suffix}", f"{type} 0.5, {type} {value}", two)
        total = emit.call(type, f"llvm.nvvm.add.rz.{letter}", f"{type} {value}, {type} {half}", two)
        return emit.call(type, f"llvm.trunc.{suffix}", f"{type} {total}", type)

    def encode(self, emit: Emitter, pair: Sequence[str], to: Scalar) -> str | None:
        """PTX ISA 9.0, cvt.rn.satfinite.e4m3x2.f32 (sm_89); the second operand is the low half."""
        if self.capability < 89 or to.name not in _SMALL:
            return None
        text = f"cvt.rn.satfinite.{_SMALL[to.name]}x2.f32 $0, $2, $1;"
        return emit.pure(f'call i16 asm "{text}", "=h,f,f"(float {pair[0]}, float {pair[1]})')

    def decode(self, emit: Emitter, code: str, source: Scalar) -> str | None:
        """PTX ISA 9.0, cvt.rn.f16x2.e4m3x2 (sm_89)."""
        if self.capability < 89 or source.name != "f8e4m3":
            return None
        both = emit.pure(f'call i32 asm "cvt.rn.f16x2.e4m3x2 $0, $1;", "=r,h"(i16 {code})')
        return emit.pure(f"bitcast i32 {both} to <2 x half>")


def address_of(emit: Emitter, place: Place) -> tuple[str, str]:
    """Return (operand, what follows it in the brackets of a PTX instruction) of a place."""
    base, offset, constant, _ = place
    if not -1 << 31 <= constant < 1 << 31:
        return pointer_to(emit, place), ""
    return pointer_to(emit, Place(base, offset, 0)), f"+{constant}" if constant else ""


def _text(emit: Emitter, text: str) -> str:
    """Return the generic address of a constant string."""
    data = text.encode("ascii", "replace") + b"\0"
    escaped = "".join(chr(b) if 32 <= b < 127 and b not in (34, 92) else f"\\{b:02X}" for b in data)
    name = f"@text{len(emit.globals)}"
    emit.globals.append(
        f'{name} = private unnamed_addr addrspace(1) constant [{len(data)} x i8] c"{escaped}"'
    )
    return f"addrspacecast (ptr addrspace(1) {name} to ptr)"


def _is_plain(transfer: Transfer) -> bool:
    return transfer.condition is None and not transfer.cache and not transfer.eviction


def _hints(cache: str, eviction: str, pieces: int, bits: int) -> str:
    """Return what follows the name of a PTX load or store; it takes one hint only."""
    hint = cache or _EVICTION[eviction]
    hints = f".{hint}" if hint else ""
    vector = f".v{pieces}" if pieces > 1 else ""
    return f"{hints}{vector}.{'u' if bits == 8 else 'b'}{bits}"


def _operands(first: int, count: int) -> str:
    """Return how a PTX instruction names its vector, from operand `first` on."""
    names = ", ".join(f"${first + i}" for i in range(count))
    return f"{{{names}}}" if count > 1 else names


def _register(bits: int) -> tuple[str, str]:
    """Return (constraint, LLVM type) of a PTX register; there are none of 8 bits."""
    return ("r", "i32") if bits == 8 else (_LETTER[bits], f"i{bits}")


def _word(update: Atomic) -> str:
    """Return what an update is called behind `atom.global.`."""
    element, name = update.element, update.function
    kind = {"float": "f", "int": "s", "uint": "u", "bool": "b"}[element.kind]
    bits = element.bits
    if name == "exchange":
        return f"exch.b{bits}"
    if name in ("and", "or", "xor", "cas"):
        return f"{name}.b{bits}"
    if name == "add":
        if element.name in ("f16", "bf16"):
            return f"add.noftz.{element.name}"
        return f"add.{'u' if kind == 's' else kind}{bits}"
    return f"{name}.{kind}{bits}"


def _added_by_swaps(update: Atomic, *, guarded: bool) -> str:
    """Return what adds a bf16 by fma and compare-and-swap; names end with the braces."""
    where = f"{update.scope}.global"
    return (
        "{ .reg .pred again; .reg .b16 seen, sum, one; "
        + ("@!$3 bra done; " if guarded else "")
        + f"mov.b16 one, 0x3F80; ld.relaxed.{where}.b16 $0, [$1]; retry: mov.b16 seen, $0; "
        "fma.rn.bf16 sum, seen, one, $2; "
        f"atom.{update.order}.{where}.cas.b16 $0, [$1], seen, sum; "
        "setp.ne.b16 again, seen, $0; @again bra retry; " + ("done: }" if guarded else "}")
    )
