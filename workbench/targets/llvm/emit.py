"""A thin writer of LLVM IR text.

Values are the strings that stand for them (`%v12`, `7`, `0x3F800000...`), so writing an instruction
is one string join. Four things are done on the way, each at the cost of a dictionary look-up:

- constants are folded where both operands are numbers;
- equal pure instructions get one name (value numbering over the text, scoped by block, so a name
  is only reused where it dominates);
- inside a loop opened by `loop()`, pure instructions go before the outermost loop in which none
  of their operands changes;
- every instruction carries the `!dbg` of the op that is being lowered: the line is the user's
  Python line, the column the op's dense number (1..65535), the scope the chain of inlined helpers.

The compile unit says `DebugDirectivesOnly`: with `LineTablesOnly` LLVM marks PTX as `debug` and
ptxas stops optimising.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Generator, Sequence
from contextlib import contextmanager

from workbench.ir import Op
from workbench.source import Span, limit_of, over_budget

_MOST_OPS = 65535
#: Structs of more members are called by a name.
_MOST_SPELLED = 4
_MOST_INSTRUCTIONS = limit_of("instructions")
_NAME = re.compile(r"%v[0-9]+")


class Emitter:
    """Writes one function and its module; see the top of this file.

    `op_numbers` maps the dense number in the debug column to the op's id.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.globals: list[str] = []
        self.declared: dict[str, str] = {}
        self.op_numbers: dict[int, int] = {}
        self._dense: dict[int, int] = {}
        self._count = 0
        self._labels = 0
        #: The names of pure instructions that may be used here, and those of each open scope.
        self._known: dict[str, str] = {}
        self._memo: list[list[str]] = [[]]
        # Per open scope: the lines it writes to, and whether pure code may leave it.
        self._frames: list[tuple[list[str], bool]] = [(self.lines, False)]
        self._depth: dict[str, int] = {}
        self._scopes = [0]
        self._next_scope = 1
        #: What `at` has set; whoever puts it back goes on with the same op.
        self.current = ""
        self._span: Span | None = None
        self._suffixes: dict[tuple[int, Span | None], str] = {}
        self._metadata: list[str] = []
        self._files: dict[str, int] = {}
        self._subprograms: dict[tuple[str, int], int] = {}
        self._root: tuple[int, int] | None = None
        self.block = "entry"

    # -- instructions ---------------------------------------------------------------------
    def pure(self, text: str) -> str:
        """Return the name of an instruction without effects, written at most once per scope."""
        known = self._known.get(text)
        if known is not None:
            return known
        depth = len(self._frames) - 1
        if self._frames[depth][1]:
            depths, needed = self._depth, 0
            for operand in _NAME.findall(text):
                found = depths.get(operand, 0)
                if found > needed:
                    needed = found
            while depth > needed and self._frames[depth][1]:
                depth -= 1
        name = self._new_name()
        self._frames[depth][0].append(f"  {name} = {text}{self.current}")
        self._known[text] = name
        self._memo[depth].append(text)
        if depth:
            self._depth[name] = depth
        return name

    def _new_name(self) -> str:
        """Return the next name; raises K406 where there is more code than anybody wants."""
        self._count += 1
        if self._count > _MOST_INSTRUCTIONS:
            what = "the code of the kernel has, counted up to here,"
            raise over_budget("instructions", what, self._count, self._span)
        return f"%v{self._count}"

    def effect(self, text: str) -> str:
        """Write an instruction with a result and return its name."""
        name = self._new_name()
        self.lines.append(f"  {name} = {text}{self.current}")
        if len(self._frames) > 1:
            self._depth[name] = len(self._frames) - 1
        return name

    def do(self, text: str) -> None:
        """Write an instruction without a result."""
        self.lines.append(f"  {text}{self.current}")

    def fresh(self, word: str) -> str:
        """Return a new label."""
        self._labels += 1
        return f"{word}{self._labels}"

    def label(self, name: str) -> None:
        """Start the block `name`; the block before must have ended."""
        self.lines.append(f"{name}:")
        self.block = name

    def jump(self, target: str) -> None:
        self.do(f"br label %{target}")

    def branch(self, condition: str, then: str, otherwise: str) -> None:
        self.do(f"br i1 {condition}, label %{then}, label %{otherwise}")

    def phi(self, type: str, incoming: list[tuple[str, str]]) -> str:
        """Write a phi of (value, block) pairs."""
        return self.effect(f"phi {type} " + ", ".join(f"[ {v}, %{b} ]" for v, b in incoming))

    def patch(self, name: str, text: str) -> None:
        """Replace the right-hand side of the instruction `name` (see `patch_all`)."""
        self.patch_all({name: text})

    def patch_all(self, rows: dict[str, str]) -> None:
        """Replace right-hand sides by name: phis of this block whose back edges are known now."""
        left = len(rows)
        for number, line in enumerate(self.lines):
            if not left:
                return
            if line[:3] != "  %":
                continue
            name = line[2 : line.index(" ", 2)]
            if name in rows:
                tail = line.rfind(", !dbg")
                self.lines[number] = f"  {name} = {rows[name]}{line[tail:] if tail >= 0 else ''}"
                left -= 1
        if left:
            raise KeyError(next(iter(rows)))

    @contextmanager
    def scope(self) -> Generator[None]:
        """Names made inside are not reused outside (a block that does not dominate the rest)."""
        self._enter(hoists=False)
        try:
            yield
        finally:
            self._leave()

    @contextmanager
    def loop(self, hoists: bool = True) -> Generator[None]:
        """Write a loop, from the jump into it to its last branch.

        `pure` says what leaves it; nothing does where `hoists` is False.
        """
        outer = self.lines
        self.lines = []
        self._enter(hoists=hoists)
        try:
            yield
        finally:
            self._leave()
            outer.extend(self.lines)
            self.lines = outer

    def _enter(self, hoists: bool) -> None:
        self._memo.append([])
        self._frames.append((self.lines, hoists))
        self._scopes.append(self._next_scope)
        self._next_scope += 1

    def _leave(self) -> None:
        for text in self._memo.pop():
            del self._known[text]
        self._frames.pop()
        self._scopes.pop()

    @property
    def scope_id(self) -> int:
        """A number for the innermost open scope; see `is_open`."""
        return self._scopes[-1]

    def is_open(self, scope: int) -> bool:
        """Say whether names made in a scope may still be used."""
        return scope in self._scopes

    def declare(self, name: str, signature: str) -> str:
        """Declare an external function or a type once by its text; returns its name."""
        self.declared.setdefault(name, signature)
        return name

    def call(self, type: str, name: str, arguments: str, types: str, attributes: str = "") -> str:
        """Return the result of a pure intrinsic; equal calls are written once."""
        self.declare(name, f"declare {type} @{name}({types}){attributes}")
        return self.pure(f"call {type} @{name}({arguments})")

    # -- vectors and structs --------------------------------------------------------------
    def vector(self, type: str, operands: Sequence[str]) -> str:
        """Return a vector of the operands; one operand is itself."""
        if len(operands) == 1:
            return operands[0]
        held = "poison"
        for i, operand in enumerate(operands):
            held = self.pure(
                f"insertelement <{len(operands)} x {type}> {held}, {type} {operand}, i32 {i}"
            )
        return held

    def elements(self, type: str, count: int, whole: str) -> list[str]:
        """Return the elements of a vector; a count of 1 says that it is no vector."""
        if count == 1:
            return [whole]
        vector = f"<{count} x {type}>"
        return [self.pure(f"extractelement {vector} {whole}, i32 {i}") for i in range(count)]

    def struct(self, type: str, count: int) -> str:
        """Return the type of so many values of one type, which has a name if it is long.

        Each value that is taken out repeats it: what a product's 128 sums are called was most of
        the text, and a quarter of LLVM's time.
        """
        whole = "{" + ", ".join([type] * count) + "}"
        if count <= _MOST_SPELLED:
            return whole
        name = f"%{type}.{count}"
        return self.declare(name, f"{name} = type {whole}")

    # -- integer arithmetic with folding --------------------------------------------------
    def add(self, type: str, a: str, b: str, flags: str = "") -> str:
        if is_integer(a) and is_integer(b):
            return wrap(int(a) + int(b), type)
        if a == "0":
            return b
        if b == "0":
            return a
        if is_integer(a):
            a, b = b, a
        return self.pure(f"add {flags}{type} {a}, {b}")

    def sub(self, type: str, a: str, b: str, flags: str = "") -> str:
        if is_integer(a) and is_integer(b):
            return wrap(int(a) - int(b), type)
        if b == "0":
            return a
        return self.pure(f"sub {flags}{type} {a}, {b}")

    def mul(self, type: str, a: str, b: str, flags: str = "") -> str:
        if is_integer(a) and is_integer(b):
            return wrap(int(a) * int(b), type)
        if is_integer(a):
            a, b = b, a
        if b == "0":
            return "0"
        if b == "1":
            return a
        return self.pure(f"mul {flags}{type} {a}, {b}")

    def bitwise(self, name: str, type: str, a: str, b: str) -> str:
        """Return a `name` b for name in and, or, xor."""
        if is_integer(a):
            a, b = b, a
        if is_integer(a):
            x, y = int(a), int(b)
            return wrap({"and": x & y, "or": x | y, "xor": x ^ y}[name], type)
        if b == "0":
            return "0" if name == "and" else a
        if type == "i1" and b in ("1", "-1", "true"):
            b = "true"
            if name == "and":
                return a
            if name == "or":
                return "true"
        if type == "i1" and b == "false":
            return "false" if name == "and" else a
        if a == b:
            return "0" if name == "xor" else a
        return self.pure(f"{name} {type} {a}, {b}")

    def shift(self, name: str, type: str, a: str, amount: int) -> str:
        """Return a shifted by a constant; name is shl, lshr or ashr."""
        if amount == 0 or a == "0":
            return a
        if is_integer(a) and name == "shl":
            return wrap(int(a) << amount, type)
        return self.pure(f"{name} {type} {a}, {amount}")

    def sext(self, a: str, from_type: str, to_type: str) -> str:
        if from_type == to_type or is_integer(a):
            return a
        return self.pure(f"sext {from_type} {a} to {to_type}")

    def zext(self, a: str, from_type: str, to_type: str) -> str:
        if from_type == to_type:
            return a
        if from_type == "i1" and a in ("true", "false"):
            return "1" if a == "true" else "0"
        if is_integer(a):
            return str(int(a) % (1 << int(from_type[1:])))
        return self.pure(f"zext {from_type} {a} to {to_type}")

    def trunc(self, a: str, from_type: str, to_type: str) -> str:
        if from_type == to_type:
            return a
        if is_integer(a):
            return wrap(int(a), to_type)
        return self.pure(f"trunc {from_type} {a} to {to_type}")

    # -- debug locations ------------------------------------------------------------------
    def at(self, op: Op | None) -> None:
        """Let the following instructions belong to `op` (None: made up by the compiler)."""
        if op is None or self._root is None:
            self.current = "" if self._root is None else self._location(0, None)
            return
        self._span = op.span
        self.current = self._location(self._number(op.id), op.span)

    def _number(self, op_id: int) -> int:
        number = self._dense.get(op_id)
        if number is None:
            number = len(self._dense) + 1
            if number > _MOST_OPS:
                return 0
            self._dense[op_id] = number
            self.op_numbers[number] = op_id
        return number

    def _location(self, number: int, span: Span | None) -> str:
        key = (number, span)
        known = self._suffixes.get(key)
        if known is None:
            known = self._suffixes[key] = f", !dbg !{self._make_location(number, span)}"
        return known

    def _make_location(self, number: int, span: Span | None) -> int:
        assert self._root is not None
        root, line = self._root
        if span is None:  # an op that a pass made of nothing written stands at the kernel's head
            line = line if number else 0
            return self._add(f"!DILocation(line: {line}, column: {number}, scope: !{root})")
        if not span.calls:
            return self._add(f"!DILocation(line: {span.line}, column: {number}, scope: !{root})")
        outer, scope = "", root
        for depth, call in enumerate(span.calls):
            if depth:
                scope = self._subprogram("inlined", call.file, span.calls[depth - 1])
            place = f"line: {call.line}, column: 0, scope: !{scope}{outer}"
            outer = f", inlinedAt: !{self._add(f'distinct !DILocation({place})')}"
        scope = self._subprogram("inlined", span.file, span.calls[-1])
        return self._add(
            f"!DILocation(line: {span.line}, column: {number}, scope: !{scope}{outer})"
        )

    def _add(self, text: str) -> int:
        self._metadata.append(text)
        return len(self._metadata) + 9

    def _file(self, name: str) -> int:
        if name not in self._files:
            escaped = name.replace("\\", "\\5C").replace('"', "\\22")
            self._files[name] = self._add(f'!DIFile(filename: "{escaped}", directory: "")')
        return self._files[name]

    def _subprogram(self, name: str, file: str, call: Span | None) -> int:
        key = (file, call.line if call else 0)
        if key not in self._subprograms:
            where = self._file(file)
            self._subprograms[key] = self._add(
                f'distinct !DISubprogram(name: "{name}", scope: !{where}, file: !{where}, '
                f"line: 1, type: !11, spFlags: DISPFlagDefinition, unit: !10)"
            )
        return self._subprograms[key]

    def start_debug(self, function: str, file: str, line: int) -> str:
        """Begin the debug metadata of the function; returns ` !dbg !N` for its definition."""
        self._metadata = ["", ""]  # slots !10 (unit) and !11 (function type)
        where = self._file(file)
        self._metadata[0] = (
            f"distinct !DICompileUnit(language: DW_LANG_C, file: !{where}, producer: "
            f'"workbench", isOptimized: true, runtimeVersion: 0, emissionKind: DebugDirectivesOnly)'
        )
        self._metadata[1] = "!DISubroutineType(types: !{null})"
        root = self._add(
            f'distinct !DISubprogram(name: "{function}", scope: !{where}, file: !{where}, '
            f"line: {line}, type: !11, spFlags: DISPFlagDefinition, unit: !10)"
        )
        self._root = (root, line)
        return f" !dbg !{root}"

    def metadata(self) -> str:
        """Return the module's metadata text."""
        if self._root is None:
            return ""
        rows = ['!llvm.module.flags = !{!0, !1}', '!llvm.dbg.cu = !{!10}',
                '!0 = !{i32 2, !"Debug Info Version", i32 3}',
                '!1 = !{i32 7, !"Dwarf Version", i32 4}']  # fmt: skip
        rows += [f"!{number} = {text}" for number, text in enumerate(self._metadata, 10)]
        return "\n".join(rows) + "\n"


def is_integer(text: str) -> bool:
    """Say whether an operand is a literal integer."""
    return text[0] in "0123456789-" and "." not in text and "x" not in text and "e" not in text


def wrap(value: int, type: str) -> str:
    """Return an integer literal reduced to the signed range of an `iN` type."""
    bits = int(type[1:])
    if bits == 1:
        return "true" if value & 1 else "false"
    value &= (1 << bits) - 1
    return str(value - (1 << bits) if value >> (bits - 1) else value)


def float_literal(value: float, type: str) -> str:
    """Return a literal of `half`, `bfloat`, `float` or `double` with exactly this value."""
    import numpy as np

    with np.errstate(over="ignore"):  # what is too large becomes infinite
        if type == "half":
            return f"0xH{np.float16(value).view(np.uint16):04X}"
        if type == "bfloat":
            bits = int(np.float32(value).view(np.uint32))
            bits = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16 if value == value else 0x7FC0
            return f"0xR{bits:04X}"
        if type == "float":
            value = float(np.float32(value))
    return "0x" + struct.pack(">d", value).hex().upper()
