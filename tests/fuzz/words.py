"""Statements of source text on integers of all widths, which wrap, and floats that are rounded.

An int32 is exact in kernels (its sums leave 32 bits), so the widths here are the others. What they
come to is stored as int64.
"""

from __future__ import annotations

from math import prod

from tests.fuzz.kernels import KernelWriter
from tests.fuzz.sources import SIZE, Term, Word

#: Widths by name: bits, signed.
WORDS = {
    "int8": (8, True), "int16": (16, True), "int64": (64, True), "uint8": (8, False),
    "uint16": (16, False), "uint32": (32, False), "uint64": (64, False),
}  # fmt: skip
NARROW_FLOATS = ("float16", "bfloat16", "float8e4nv", "float8e5")


class WordWriter(KernelWriter):
    """A KernelWriter with words, which are known in the scope that makes them, and rounding."""

    def word_step(self) -> None:
        """One more operation on words, or a float that is rounded."""
        self.pick([self.word_sum, self.word_sum, self.word_sign, self.word_shift,
                   self.word_quotient, self.word_test, self.word_widened, self.word_fold,
                   self.narrow_float, self.narrow_float])()  # fmt: skip

    # -- words ----------------------------------------------------------------------------
    def known_words(self, type: str, shape: tuple[int, ...]) -> list[Word]:
        words = [word for scope in self.scopes for word in scope.words]
        return [word for word in words if (word.type, word.shape) == (type, shape)]

    def word(self, type: str, shape: tuple[int, ...]) -> str:
        """Return a word of a type: one there is, random bits, or a number near an end."""
        there = self.known_words(type, shape)
        if there and self.number(0, 2):
            return self.pick(there[-3:]).name
        bits, signed = WORDS[type]
        which = self.number(0, 2)
        if which == 0 and shape:
            count = SIZE * 32 // bits
            place = f"tl.reshape(tl.arange(0, {prod(shape)}), {shape})"
            start = self.number(0, count - 1)
            text = f"tl.load(g.to(tl.pointer_type(tl.{type})) + ({place} + {start}) % {count})"
        elif which == 1:
            low = -(1 << bits - 1) if signed else 0
            number = self.pick([low, low + 1, low + (1 << bits) - 1, 0, 1, low + (1 << bits - 1)])
            text = f"tl.full({shape}, {number}, tl.{type})"
        else:
            text = f"({self.term('i', shape, 1).text}).to(tl.{type})"
        return self.hold(text, type, shape)

    def hold(self, text: str, type: str, shape: tuple[int, ...]) -> str:
        name = self.name()
        self.line(f"{name} = {text}")
        self.scopes[-1].words.append(Word(name, type, shape))
        return name

    def type_and_shape(self) -> tuple[str, tuple[int, ...]]:
        return self.pick(WORDS), self.pick(self.shapes)

    def word_sum(self) -> None:
        type, shape = self.type_and_shape()
        a, b = self.word(type, shape), self.word(type, shape)
        if self.number(0, 2):
            text = f"{a} {self.pick(['+', '-', '*', '&', '|', '^'])} {b}"
        else:
            text = f"tl.{self.pick(['minimum', 'maximum'])}({a}, {b})"
        self.hold(text, type, shape)

    def word_sign(self) -> None:
        type, shape = self.type_and_shape()
        a = self.word(type, shape)
        signed = ["-{}", "tl.abs({})", "{} * -1", "tl.maximum({0}, -{0})"] if WORDS[type][1] else []
        form = self.pick([*signed, "0 - {}", "~{}"])
        done = self.hold(form.format(a), type, shape)
        if self.number(0, 1):
            wider = self.pick(["int64", "uint32", "uint64"])
            self.hold(f"{done}.to(tl.{wider})", wider, shape)

    def word_shift(self) -> None:
        type, shape = self.type_and_shape()
        by = self.number(0, WORDS[type][0] - 1)
        self.hold(f"{self.word(type, shape)} {self.pick(['<<', '>>'])} {by}", type, shape)

    def word_quotient(self) -> None:
        """Divide by what is neither 0 nor -1."""
        type, shape = self.type_and_shape()
        a, b = self.word(type, shape), self.word(type, shape)
        odd = f"(tl.abs({b}) | 1)" if WORDS[type][1] else f"({b} | 1)"
        by: str = self.pick(["3", "7", "8", "10", odd])
        self.hold(f"{a} {self.pick(['//', '%'])} {by}", type, shape)

    def word_test(self) -> None:
        type, shape = self.type_and_shape()
        a, b = self.word(type, shape), self.word(type, shape)
        test = self.remember(Term(f"{a} {self.pick(['<', '<=', '==', '>='])} {b}", "b", shape))
        self.hold(f"tl.where({test.text}, {a}, {b})", type, shape)

    def word_widened(self) -> None:
        type, shape = self.type_and_shape()
        other = self.pick(WORDS)
        self.hold(f"{self.word(type, shape)}.to(tl.{other})", other, shape)

    def word_fold(self) -> None:
        """Choose along an axis; sums come in another type, so they are left to terms."""
        type = self.pick(WORDS)
        a = self.word(type, self.shape2)
        axis = self.number(0, 1)
        text = f"tl.{self.pick(['max', 'min'])}({a}, axis={axis}).to(tl.{type})"
        self.hold(text, type, (self.shape2[1 - axis],))

    def store_words(self) -> None:
        """Store the words of the kernel's own scope, the last ones."""
        for word in self.scopes[0].words[-6:]:
            place = self.place(word.shape)
            if place is not None:
                self.line(f"tl.store(integers + {place}, {word.name}.to(tl.int64))")

    # -- floats ---------------------------------------------------------------------------
    def narrow_float(self) -> None:
        """Round a float that may need more digits than the type has."""
        shape, type = self.pick(self.shapes), self.pick(NARROW_FLOATS)
        value = self.term("f", shape, 2)
        toward_zero = ', fp_downcast_rounding="rtz"' if self.number(0, 3) == 0 else ""
        text = f"tl.cast({value.text}, tl.{type}{toward_zero}).to(tl.float32)"
        # Rounding gives a power of two at most, and no digits that were not there.
        most = 2.0 ** int(value.most).bit_length()
        self.remember(Term(text, "f", shape, most, value.steps))


__all__ = ["WORDS", "WordWriter"]
