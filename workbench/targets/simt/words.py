"""32-bit words of several numbers of a narrow type: packed, taken apart, and known again."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.targets.llvm.emit import Emitter

#: The bits of LLVM types of which a 32-bit word holds several.
_WIDTHS = {"half": 16, "bfloat": 16, "i16": 16, "i8": 8}


class Words:
    """The words of a kernel: numbers that were taken out of one are that word when packed again."""

    def __init__(self, emit: Emitter) -> None:
        self._emit = emit
        self._word_of: dict[tuple[str, ...], str] = {}
        self._byte_of: dict[str, tuple[str, int]] = {}

    def unpack(self, word: str, type: str, count: int | None = None) -> list[str]:
        """Return the numbers of a narrow type in an i32; packed again they are that word.

        With a count there are so many in its low bits, and zeros above them.
        """
        each = 32 // _WIDTHS[type]
        vector = self._emit.pure(f"bitcast i32 {word} to <{each} x {type}>")
        found = self._emit.elements(type, each, vector)[:count]
        self._word_of[tuple(found)] = word
        if type == "i8":
            self._byte_of.update({byte: (word, i) for i, byte in enumerate(found)})
        return found

    def known_word(self, operands: Sequence[str]) -> str | None:
        """Return the word of which operands were unpacked, all of it in their order."""
        return self._word_of.get(tuple(operands))

    def byte_of_word(self, operand: str) -> tuple[str, int]:
        """Return a word and where a byte is in that, the lowest being 0."""
        return self._byte_of.get(operand) or (self._emit.zext(operand, "i8", "i32"), 0)

    def bytes_of_words(self, operands: Sequence[str]) -> list[tuple[str, int]]:
        """Return for each byte a word and where it is in that, from the lowest on.

        Bytes that were loaded as a word are where they came; others become words in their order.
        """
        found: list[tuple[str, int]] = []
        for first in range(0, len(operands), 4):
            four = operands[first : first + 4]
            if all(byte in self._byte_of for byte in four):
                found += [self._byte_of[byte] for byte in four]
            else:
                word = self.pack(four, "i8")
                found += [(word, i) for i in range(len(four))]
        return found

    def pack(self, operands: Sequence[str], type: str) -> str:
        """Return one i32 made of the operands, the first in the low bits."""
        emit = self._emit
        known = self.known_word(operands)
        if known is not None:
            return known
        if type in ("i32", "float"):
            (operand,) = operands
            return operand if type == "i32" else emit.pure(f"bitcast float {operand} to i32")
        # A word with fewer elements than it holds has zeros above them.
        whole = 32 // _WIDTHS[type]
        zero = "0" if type.startswith("i") else "0.0"
        operands = [*operands, *[zero] * (whole - len(operands))]
        held = emit.vector(type, operands)
        return emit.pure(f"bitcast <{whole} x {type}> {held} to i32")
