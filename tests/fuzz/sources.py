"""Random kernels as source text, well defined by construction: the front end's share of the fuzz.

`programs.py` writes IR, which never sees what only source has: broadcasting, chained comparisons,
`break`, `continue` and early `return`, loop variables after their loop, device functions, block
pointers, descriptors, indexing. A kernel written here is run by NumPy (`oracle.py`) and by a
target. Integers stay below 2**20 and floats are exact, as in `exact.py`.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

SIZE = 256
ROOM = 4096
LARGEST = 1 << 20
#: What variables that change hold at most: integers, and floats in steps of 1/2.
HELD = 50
EXTENTS = (1, 2, 4, 5, 7, 8, 16, 16, 32)
#: Integers that are known at run time only, and how large they get.
RUNTIME = (("n", 8), ("m", 50), ("tl.program_id(0)", 2))
DTYPES = {"i": "tl.int32", "f": "tl.float32", "b": "tl.int1"}


@dataclass(frozen=True, slots=True)
class Term:
    """An expression: text, sort (integer, float, truth value), shape, and how large it gets."""

    text: str
    kind: str
    shape: tuple[int, ...] = ()
    most: float = 1
    steps: int = 0  # binary digits after the point


@dataclass(frozen=True, slots=True)
class Word:
    """A name that holds integers of a width, `int8` or another, which wrap."""

    name: str
    type: str
    shape: tuple[int, ...]


@dataclass
class Scope:
    """Names that may be read here; those in `changing` may be assigned again."""

    terms: list[Term] = field(default_factory=list)
    changing: list[Term] = field(default_factory=list)
    words: list[Word] = field(default_factory=list)


class SourceWriter:
    """Writes the text of one kernel from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.helpers: list[str] = []
        self.scopes = [Scope()]
        self.names = 0
        self.stored = 0
        self.loops = 0
        self.shape2 = (self.pick(EXTENTS), self.pick(EXTENTS))
        self.shapes: list[tuple[int, ...]] = [(), (), (self.shape2[1],), (self.shape2[1],)]
        self.shapes += [(self.shape2[0],), self.shape2]

    def pick(self, options: Any) -> Any:
        return self.random.choice(list(options))

    def number(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def name(self) -> str:
        self.names += 1
        return f"v{self.names}"

    def line(self, text: str) -> None:
        self.lines.append("    " * len(self.scopes) + text)

    # -- expressions ----------------------------------------------------------------------
    def known(self, kind: str, shape: tuple[int, ...]) -> list[Term]:
        found = [t for s in self.scopes for t in (*s.terms, *s.changing)]
        return [t for t in found if t.kind == kind and t.shape in (shape, ())]

    def term(self, kind: str, shape: tuple[int, ...], depth: int = 2) -> Term:
        """Return an expression of exactly this shape, of bounded size."""
        made = self.loose(kind, shape, depth)
        if kind == "i" and made.most >= LARGEST:
            made = Term(f"({made.text}) % 1009", "i", made.shape, 1008)
        if kind == "f" and made.most * 2**made.steps >= LARGEST:
            made = self.settled(made)
        if made.shape == shape:
            return made
        if kind == "b":
            text = f"({made.text}) & (tl.full({shape}, 1, tl.int32) > 0)"
        else:
            text = f"({made.text}) + tl.zeros({shape}, {DTYPES[kind]})"
        return Term(text, kind, shape, made.most, made.steps)

    def settled(self, term: Term, most: int = HELD, steps: int = 1) -> Term:
        text = term.text
        if term.most > most:
            text = f"tl.minimum(tl.maximum({text}, -{most}), {most})"
        if term.kind == "f" and term.steps > steps:
            text = f"tl.floor({text})"
            steps = 0
        return Term(text, term.kind, term.shape, min(term.most, most), min(term.steps, steps))

    def loose(self, kind: str, shape: tuple[int, ...], depth: int) -> Term:
        there = self.known(kind, shape)
        if there and (depth <= 0 or self.number(0, 2) == 0):
            return there[-1 - min(len(there) - 1, self.number(0, 4))]
        if depth <= 0:
            return self.leaf(kind, shape)
        if self.number(0, 5) == 0:
            return self.reshaped(kind, shape, depth)
        return {"i": self.whole, "f": self.fraction, "b": self.truth}[kind](shape, depth)

    def leaf(self, kind: str, shape: tuple[int, ...]) -> Term:
        if kind == "b":
            a, b = self.leaf("i", shape), self.leaf("i", shape)
            both = max(a.shape, b.shape, key=len)
            return Term(f"({a.text}) {self.pick(['<', '>=', '!='])} ({b.text})", "b", both)
        if kind == "f":
            return Term(f"tl.load(f + {self.number(0, SIZE - 1)})", "f", (), 8, 1)
        if len(shape) == 1 and self.number(0, 2):
            return Term(f"tl.arange(0, {shape[0]})", "i", shape, shape[0])
        text, most = RUNTIME[self.number(0, 2)]
        return Term(text, "i", (), most)

    def operand(self, kind: str, shape: tuple[int, ...], depth: int) -> Term:
        """Return a right operand: a number written down, or an expression that broadcasts."""
        if self.number(0, 3):
            return self.loose(kind, shape, depth)
        value = self.number(-9, 9) / 2 if kind == "f" else self.number(-9, 9)
        text = f"({value})" if value < 0 else str(value)
        return Term(text, kind, (), 9, 1 if kind == "f" else 0)

    def pair(self, kind: str, shape: tuple[int, ...], depth: int) -> tuple[Term, Term]:
        right = self.loose if kind == "b" else self.operand
        return self.term(kind, shape, depth - 1), right(kind, shape, depth - 1)

    def whole(self, shape: tuple[int, ...], depth: int) -> Term:
        which = self.number(0, 11)
        a = self.term("i", shape, depth - 1)
        if which < 4:
            b = self.bounded(self.operand("i", shape, depth - 1))
            most = {"+": a.most + b.most, "-": a.most + b.most, "*": a.most * b.most}
            sign = self.pick(most)
            texts = (a.text, b.text) if self.number(0, 1) else (b.text, a.text)
            return Term(f"({texts[0]}) {sign} ({texts[1]})", "i", shape, most[sign])
        if which < 6:
            by = str(self.pick([1, 2, 3, 7, 8, -1, -2, -5, 16, "n + 1", "tl.abs(m) + 1"]))
            sign = self.pick(["//", "%"])
            most = a.most if sign == "//" else min(a.most, 60)
            return Term(f"({a.text}) {sign} ({by})", "i", shape, most)
        if which == 6:
            sign, by = self.pick(["<<", ">>"]), self.number(0, 4)
            most = a.most * 2**by if sign == "<<" else a.most + 1
            return Term(f"({a.text}) {sign} {by}", "i", shape, most)
        if which == 7:
            b = self.bounded(self.operand("i", shape, depth - 1))
            most = 2.0 ** (int(max(a.most, b.most)).bit_length() + 1)
            return Term(f"({a.text}) {self.pick('&|^')} ({b.text})", "i", shape, most)
        if which == 8:
            return Term(f"{self.pick(['-', '~'])}({a.text})", "i", shape, a.most + 1)
        if which == 9:
            kind = self.pick("fb")
            b = self.term(kind, shape, depth - 1)
            return Term(f"({b.text}).to(tl.int32)", "i", shape, max(1, b.most))
        if which == 10:
            narrow, most = self.pick([("int8", 128), ("int16", 32768), ("uint8", 255)])
            return Term(f"({a.text}).to(tl.{narrow}).to(tl.int32)", "i", shape, most)
        return self.either("i", a, shape, depth)

    def bounded(self, term: Term) -> Term:
        """Return a right operand that a sum or a product can take."""
        return term if term.most < 1000 else Term(f"({term.text}) % 31", "i", term.shape, 30)

    def either(self, kind: str, a: Term, shape: tuple[int, ...], depth: int) -> Term:
        b = self.operand(kind, shape, depth - 1)
        most, steps = max(a.most, b.most), max(a.steps, b.steps)
        function = self.pick(["tl.maximum", "tl.minimum", "tl.where"])
        if function == "tl.where":
            test = self.term("b", shape, depth - 1)
            return Term(f"tl.where({test.text}, {a.text}, {b.text})", kind, shape, most, steps)
        return Term(f"{function}({a.text}, {b.text})", kind, shape, most, steps)

    def fraction(self, shape: tuple[int, ...], depth: int) -> Term:
        which = self.number(0, 8)
        if which < 2:
            return self.loaded("f", shape, depth)
        a = self.term("f", shape, depth - 1)
        if which < 4:
            b = self.operand("f", shape, depth - 1)
            text = f"({a.text}) {self.pick('+-')} ({b.text})"
            return Term(text, "f", shape, a.most + b.most, max(a.steps, b.steps))
        if which == 4:
            a = self.settled(a)
            b = self.settled(self.operand("f", shape, depth - 1), 8)
            return Term(f"({a.text}) * ({b.text})", "f", shape, a.most * b.most, a.steps + b.steps)
        if which == 5:
            b = self.term("i", shape, depth - 1)
            return Term(f"({b.text}).to(tl.float32)", "f", shape, b.most)
        if which == 6:
            a = self.settled(a)
            return Term(f"({a.text}).to(tl.float16).to(tl.float32)", "f", shape, a.most, a.steps)
        if which == 7:
            return Term(f"{self.pick(['-', 'tl.abs'])}({a.text})", "f", shape, a.most, a.steps)
        return self.either("f", a, shape, depth)

    def loaded(self, kind: str, shape: tuple[int, ...], depth: int) -> Term:
        place, base = self.name(), {"f": "f", "i": "g"}[kind]
        at = self.term("i", shape, depth - 1)
        self.line(f"{place} = {at.text}")
        if self.number(0, 1):
            self.line(f"{place} = tl.minimum(tl.maximum({place}, 0), {SIZE - 1})")
            return Term(f"tl.load({base} + {place})", kind, shape, 8, 1)
        mask = f"mask=({place} >= 0) & ({place} < {SIZE})"
        other = ", other=2" if self.number(0, 1) else ", other=0"
        return Term(f"tl.load({base} + {place}, {mask}{other})", kind, shape, 8, 1)

    def truth(self, shape: tuple[int, ...], depth: int) -> Term:
        which = self.number(0, 5)
        if which < 3:
            kind = self.pick("iif")
            a, b = self.pair(kind, shape, depth)
            sign = self.pick(["<", "<=", ">", ">=", "==", "!="])
            if not shape and kind == "i" and self.number(0, 2) == 0:
                c = self.term(kind, (), depth - 1)
                return Term(f"({a.text}) <= ({b.text}) {sign} ({c.text})", "b")
            return Term(f"({a.text}) {sign} ({b.text})", "b", shape)
        a, b = self.pair("b", shape, depth)
        if which == 4:
            return Term(f"~({a.text})", "b", shape)
        return Term(f"({a.text}) {self.pick('&|^')} ({b.text})", "b", shape)

    def reshaped(self, kind: str, shape: tuple[int, ...], depth: int) -> Term:
        """Return a tile that comes from one of another shape."""
        if kind == "b":
            return self.truth(shape, depth)
        if len(shape) > 2:
            return {"i": self.whole, "f": self.fraction}[kind](shape, depth)
        if not shape:
            return self.folded(kind, depth)
        return self.matrix(kind, shape, depth) if len(shape) == 2 else self.row(kind, shape, depth)

    def matrix(self, kind: str, shape: tuple[int, ...], depth: int) -> Term:
        rows, columns = shape
        which = self.number(0, 4)
        if which == 4:
            a = self.settled(self.term(kind, shape, depth - 1), 8)
            axis, back = self.number(0, 1), bool(self.number(0, 1))
            text = f"tl.cumsum({a.text}, axis={axis}, reverse={back})"
            return Term(text, kind, shape, a.most * shape[axis], a.steps)
        of = [(rows,), (columns,), (columns, rows), (rows * columns,)][which]
        a = self.term(kind, of, depth - 1)
        text = [
            f"tl.broadcast_to(({a.text})[:, None], {shape})",
            f"tl.broadcast_to(({a.text})[None, :], {shape})",
            f"tl.trans({a.text})",
            f"tl.reshape({a.text}, {shape})",
        ][which]
        return Term(text, kind, shape, a.most, a.steps)

    def row(self, kind: str, shape: tuple[int, ...], depth: int) -> Term:
        (extent,) = shape
        kinds = [self.turned, self.ordered, self.gathered, self.part, self.along, self.along]
        kinds += [self.mixed] if extent % 2 == 0 else []
        made: Term = self.pick(kinds)(kind, extent, depth)
        return made

    def turned(self, kind: str, extent: int, depth: int) -> Term:
        a = self.term(kind, (extent,), depth - 1)
        return Term(f"tl.flip({a.text}, dim=0)", kind, (extent,), a.most, a.steps)

    def ordered(self, kind: str, extent: int, depth: int) -> Term:
        a = self.term(kind, (extent,), depth - 1)
        text = f"tl.sort({a.text}, descending={bool(self.number(0, 1))})"
        return Term(text, kind, (extent,), a.most, a.steps)

    def gathered(self, kind: str, extent: int, depth: int) -> Term:
        a, b = self.term(kind, (extent,), depth - 1), self.term("i", (extent,), depth - 1)
        text = f"tl.gather({a.text}, tl.abs({b.text}) % {extent}, axis=0)"
        return Term(text, kind, (extent,), a.most, a.steps)

    def mixed(self, kind: str, extent: int, depth: int) -> Term:
        a, b = (self.term(kind, (extent // 2,), depth - 1) for _ in range(2))
        text = f"tl.interleave({a.text}, {b.text})"
        return Term(text, kind, (extent,), max(a.most, b.most), max(a.steps, b.steps))

    def part(self, kind: str, extent: int, depth: int) -> Term:
        start = self.number(0, extent)
        a = self.term(kind, (extent + start,), depth - 1)
        return Term(f"({a.text})[{start}:]", kind, (extent,), a.most, a.steps)

    def along(self, kind: str, extent: int, depth: int) -> Term:
        axis, other = self.number(0, 1), self.pick([2, 4, 5, 16])
        whole = (other, extent) if axis == 0 else (extent, other)
        function = self.pick(["tl.sum", "tl.max", "tl.min"])
        a = self.settled(self.term(kind, whole, depth - 1), 8)
        grown = other if function == "tl.sum" else 1
        text = f"{function}({a.text}, axis={axis})"
        return Term(text, kind, (extent,), a.most * grown, a.steps)

    def folded(self, kind: str, depth: int) -> Term:
        """Return a scalar that comes from a tile."""
        extent = self.shape2[self.number(0, 1)]
        a = self.settled(self.term(kind, (extent,), depth - 1), 8)
        function = self.pick(["sum", "sum", "max", "min", "element", "argmax", "argmin"])
        if function == "element":
            place = self.pick([0, extent - 1, f"n % {extent}"])
            return Term(f"({a.text})[{place}]", kind, (), a.most, a.steps)
        if function.startswith("arg"):
            if kind == "f":
                return Term(f"tl.{function}({a.text}, axis=0).to(tl.float32)", kind, (), extent)
            return Term(f"tl.{function}({a.text}, axis=0)", kind, (), extent)
        grown = extent if function == "sum" else 1
        return Term(f"tl.{function}({a.text}, axis=0)", kind, (), a.most * grown, a.steps)


__all__ = ["HELD", "ROOM", "SIZE", "Scope", "SourceWriter", "Term", "Word"]
