"""Instructions on chunks of one width: the words in which the CPU target's rules are written."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.targets.cpu.chunks import suffix, vector
from workbench.targets.llvm.emit import Emitter, float_literal


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Writes pure instructions on `lanes` elements (0: on scalars).

    `contract` lets the code generator fuse products into sums; `wide` says that the processor has
    512-bit registers.
    """

    emit: Emitter
    lanes: int
    contract: bool = True
    wide: bool = True

    def type(self, type: str) -> str:
        """Return the type of a chunk of `type`."""
        return vector(type, self.lanes)

    def spread(self, text: str, type: str) -> str:
        """Return one number in all lanes.

        A bit goes by way of words. LLVM (22.1) loses what bits that are all one are combined with
        where a vector has two registers: of `splat(b) & <true, .., false, ..>` the second half,
        all false, masks nothing off (AVX2; tests/targets/cpu/test_masks.py).
        """
        if not self.lanes:
            return text
        if not text.startswith("%"):
            return text if text.startswith(("splat", "<", "zero")) else f"splat ({type} {text})"
        if type == "i1":
            words = self.spread(self.emit.pure(f"sext i1 {text} to i32"), "i32")
            return self.emit.pure(f"icmp slt {self.type('i32')} {words}, zeroinitializer")
        lanes = self.type(type)
        one = self.emit.pure(f"insertelement {lanes} poison, {type} {text}, i64 0")
        return self.emit.pure(
            f"shufflevector {lanes} {one}, {lanes} poison, <{self.lanes} x i32> zeroinitializer"
        )

    def integer(self, value: int, type: str) -> str:
        """Return an integer constant."""
        text = ("true" if value & 1 else "false") if type == "i1" else str(value)
        return self.spread(text, type)

    def real(self, value: float, type: str) -> str:
        """Return a floating-point constant."""
        return self.spread(float_literal(value, type), type)

    def binary(self, name: str, type: str, x: str, y: str) -> str:
        """Return `name` of two chunks; sums and products may be contracted."""
        if not self.lanes and type[0] == "i" and name in ("add", "sub", "mul"):
            return getattr(self.emit, name)(type, x, y)
        flags = " contract" if self.contract and name in ("fadd", "fsub", "fmul") else ""
        return self.emit.pure(f"{name}{flags} {self.type(type)} {x}, {y}")

    def unary(self, name: str, type: str, x: str) -> str:
        """Return `name` of a chunk."""
        return self.emit.pure(f"{name} {self.type(type)} {x}")

    def compare(self, how: str, type: str, x: str, y: str) -> str:
        """Return e.g. `icmp slt` of two chunks."""
        return self.emit.pure(f"{how} {self.type(type)} {x}, {y}")

    def select(self, condition: str, x: str, y: str, type: str) -> str:
        """Return x where the condition holds, y elsewhere."""
        if condition == "true":
            return x
        if condition == "false":
            return y
        kind = self.type(type)
        return self.emit.pure(f"select {self.type('i1')} {condition}, {kind} {x}, {kind} {y}")

    def cast(self, name: str, x: str, source: str, to: str) -> str:
        """Return a conversion instruction's result."""
        if source == to:
            return x
        return self.emit.pure(f"{name} {self.type(source)} {x} to {self.type(to)}")

    def intrinsic(self, name: str, type: str, arguments: list[str], extra: str = "") -> str:
        """Return an overloaded intrinsic of chunks of one type."""
        kind = self.type(type)
        words = ", ".join(f"{kind} {x}" for x in arguments)
        types = ", ".join(kind for _ in arguments)
        if extra:
            words, types = f"{words}, {extra}", f"{types}, {extra.split()[0]}"
        return self.emit.call(kind, f"llvm.{name}.{suffix(type, self.lanes)}", words, types)

    def convert_intrinsic(self, name: str, x: str, source: str, to: str) -> str:
        """Return an intrinsic that is overloaded by result and operand, as `fptosi.sat`."""
        full = f"llvm.{name}.{suffix(to, self.lanes)}.{suffix(source, self.lanes)}"
        have, want = self.type(source), self.type(to)
        return self.emit.call(want, full, f"{have} {x}", have)

    def fma(self, x: str, y: str, z: str, type: str) -> str:
        """Return x * y + z, rounded once."""
        return self.intrinsic("fma", type, [x, y, z])

    def iota(self, type: str) -> str:
        """Return 0, 1, 2, ... in the lanes."""
        if not self.lanes:
            return "0"
        return "<" + ", ".join(f"{type} {i}" for i in range(self.lanes)) + ">"

    def horner(self, x: str, coefficients: list[float], type: str) -> str:
        """Return the polynomial with the given coefficients, lowest power first."""
        total = self.real(coefficients[-1], type)
        for coefficient in coefficients[-2::-1]:
            total = self.fma(total, x, self.real(coefficient, type), type)
        return total

    def libm(self, name: str, arguments: list[str], type: str) -> str:
        """Return a function of the C library, lane by lane."""
        emit = self.emit
        types = ", ".join(type for _ in arguments)
        emit.declare(name, f"declare {type} @{name}({types})")
        if not self.lanes:
            return emit.pure(f"call {type} @{name}({', '.join(f'{type} {x}' for x in arguments)})")
        kind, total = self.type(type), "poison"
        for lane in range(self.lanes):
            parts = [emit.pure(f"extractelement {kind} {x}, i64 {lane}") for x in arguments]
            one = emit.pure(f"call {type} @{name}({', '.join(f'{type} {p}' for p in parts)})")
            total = emit.pure(f"insertelement {kind} {total}, {type} {one}, i64 {lane}")
        return total
