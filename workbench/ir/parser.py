"""Reads the text form of printer.py back; errors name line and column."""

from __future__ import annotations

import re
from typing import Any

from workbench.ir.build import Builder
from workbench.ir.module import KernelParameter, Module
from workbench.ir.operation import MNEMONICS, Block, Op, Value
from workbench.ir.printer import base_name
from workbench.ir.types import (
    SCALARS,
    Element,
    Pointer,
    Scalar,
    Shared,
    TensorMap,
    Tile,
    Token,
    Type,
    layout_of,
)
from workbench.layouts import LinearLayout, parse_layout
from workbench.source import CompileError, Span

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<value>%[\w.]+) | (?P<symbol>@[\w.$]+) | (?P<alias>\#[A-Za-z0-9]+)
  | (?P<string>"(?:\\.|[^"\\])*")
  | (?P<number>-?(?:inf|nan)\b|-?\d+\.\d*(?:e[+-]?\d+)?|-?\d+e[+-]?\d+|-?\d+)
  | (?P<word>[^\W\d][\w.]*)
  | (?P<mark>->|[{}()\[\]<>,:=^])
  | (?P<end>$)
)""",
    re.VERBOSE,
)
_FACTS = ("divisible", "low", "high", "noalias")
_BLANKS = re.compile(r"\s*")
_ATTRIBUTES = re.compile(r"\s*\{\s*[A-Za-z_]\w*\s*=[^=]")
_COMMENT = re.compile(r"\s*//[^\n]*")
_SHAPED = re.compile(r"\s*(?P<dims>(?:\d+x)*)")


def parse_module(text: str, file: str = "<ir>", first_id: int = 1) -> Module:
    """Return the module that `text` describes; raises CompileError (K290) where it does not.

    Its ops are numbered from `first_id` on, in the order of the text.
    """
    return _Parser(text, file, first_id).module()


class _Parser:
    def __init__(self, text: str, file: str, first_id: int) -> None:
        self.text, self.file = text, file
        self.at = 0
        #: Where the token that was read last begins.
        self.began = 0
        #: The token that was looked at last: where, its kind, its word, where it ends.
        self.ahead = (-1, "", "", 0)
        #: Where the row that was asked for last begins, and its number.
        self.row = (0, 1)
        self.alias: dict[str, LinearLayout] = {}
        self.values: dict[str, Value] = {}
        self.builder = Builder(first_id)

    # -- tokens ---------------------------------------------------------------------------
    def fail(self, message: str, *, last: bool = False) -> CompileError:
        """Return the error at the next token, or at the last one read."""
        if not last:
            self.peek()
        start = self.began if last else self.skip(self.at)
        match = _TOKEN.match(self.text, start)
        width = max(1, (match.end() if match else start + 1) - start)
        line = self.text.count("\n", 0, start) + 1
        column = start - (self.text.rfind("\n", 0, start) + 1) + 1
        span = Span(self.file, line, column, line, column + width)
        return CompileError(message, span, code="K290")

    def skip(self, at: int) -> int:
        """Return where the text goes on after blanks."""
        blanks = _BLANKS.match(self.text, at)
        return at if blanks is None else blanks.end()

    def peek(self) -> tuple[str, str]:
        if self.ahead[0] == self.at:
            return self.ahead[1:3]
        while True:
            match = _TOKEN.match(self.text, self.at)
            if match is None:
                comment = _COMMENT.match(self.text, self.at)
                if comment is None:
                    self.began = self.skip(self.at)
                    raise self.fail(f"unexpected character {self.text[self.began]!r}", last=True)
                self.at = comment.end()
                continue
            kind = match.lastgroup or "end"
            self.ahead = self.at, kind, match.group(kind), match.end()
            return self.ahead[1:3]

    def next(self) -> tuple[str, str]:
        kind, word = self.peek()
        self.at = self.ahead[3]
        self.began = self.at - len(word)
        return kind, word

    def read(self, kind: str, what: str) -> str:
        """Read a token of a kind."""
        found, word = self.next()
        if found != kind:
            raise self.fail(f"expected {what}, found '{word or 'the end of the text'}'", last=True)
        return word

    def accept(self, word: str) -> bool:
        kind, found = self.peek()
        if found == word and kind != "string":
            self.next()
            return True
        return False

    def expect(self, word: str) -> None:
        kind, found = self.peek()
        if found != word or kind == "string":
            raise self.fail(f"expected '{word}', found '{found or 'end of text'}'")
        self.next()

    # -- pieces ---------------------------------------------------------------------------
    def type(self) -> Type:
        kind, word = self.next()
        if kind != "word":
            raise self.fail(f"expected a type, found '{word}'", last=True)
        if word in SCALARS:
            return SCALARS[word]
        if word == "token":
            return Token()
        if word == "ptr":
            self.expect("<")
            constant = self.accept("const")
            pointee = self.element()
            self.expect(">")
            return Pointer(pointee, constant)
        if word in ("tile", "shared", "tensor_map"):
            self.expect("<")
            found = self.shaped(word)
            self.expect(">")
            return found
        raise self.fail(f"unknown type '{word}'", last=True)

    def shaped(self, word: str) -> Type:
        """Read what stands between the brackets of a type with extents."""
        shape, element = self.shape(word), self.element()
        layout, slots = None, 0
        if word != "tensor_map" and self.accept(","):
            more = word == "shared" and self.peek()[1] == "slots"
            if not more:
                layout = self.layout()
                more = word == "shared" and self.accept(",")
            slots = self.slots() if more else 0
        if word == "tile":
            return Tile(shape, element, layout)
        if not isinstance(element, Scalar):
            where = "shared memory" if word == "shared" else "a tensor map"
            raise self.fail(f"{where} holds numbers, found '{element}'", last=True)
        if word == "tensor_map":
            walked = self.accept(",")
            if walked:
                self.expect("walked")
            return TensorMap(shape, element, walked)
        return Shared(shape, element, layout, slots)

    def shape(self, word: str) -> tuple[int, ...]:
        """Read the extents in front of an element type."""
        match = _SHAPED.match(self.text, self.at)
        assert match is not None
        self.at = match.end()
        shape = tuple(int(d) for d in match.group("dims").split("x")[:-1])
        if not shape or 0 in shape:
            raise self.fail(f"a {word} needs extents of at least 1, e.g. {word}<4x8xf32>")
        return shape

    def slots(self) -> int:
        """Read how many tiles a ring of buffers has room for."""
        self.expect("slots")
        self.expect("=")
        kind, word = self.next()
        if kind != "number" or not word.isdigit() or word == "0":
            raise self.fail(f"slots are a number of at least 1, found '{word}'", last=True)
        return int(word)

    def element(self) -> Element:
        type = self.type()
        if not isinstance(type, Scalar | Pointer):
            raise self.fail(f"expected the type of an element, found '{type}'", last=True)
        return type

    def layout(self) -> LinearLayout:
        kind, word = self.peek()
        if kind == "alias":
            self.next()
            if word not in self.alias:
                raise self.fail(f"unknown layout '{word}'", last=True)
            return self.alias[word]
        start = self.at
        depth = 0
        while self.at < len(self.text):
            character = self.text[self.at]
            depth += (character == "<") - (character == ">")
            self.at += 1
            if depth == 0 and character == ">":
                break
        self.began = self.skip(start)
        try:
            return parse_layout(self.text[start : self.at].strip())
        except ValueError as error:
            raise self.fail(str(error), last=True) from error

    def attribute(self) -> Any:
        kind, word = self.peek()
        if kind == "string":
            self.next()
            return re.sub(r"\\(.)", lambda m: "\n" if m.group(1) == "n" else m.group(1), word[1:-1])
        if kind == "number":
            self.next()
            return int(word) if re.fullmatch(r"-?\d+", word) else float(word)
        if word in ("True", "False", "None"):
            self.next()
            return {"True": True, "False": False, "None": None}[word]
        if kind == "alias" or word == "linear":
            return self.layout()
        if word in ("inf", "nan"):
            self.next()
            return float(word)
        if word == "(":
            self.next()
            items: list[Any] = []
            while not self.accept(")"):
                items.append(self.attribute())
                if not self.accept(","):
                    self.expect(")")
                    break
            return tuple(items)
        return self.type()

    def attributes(self) -> dict[str, Any]:
        """Read `{name = value, ...}` if the next brace opens one, not a region."""
        found: dict[str, Any] = {}
        if not _ATTRIBUTES.match(self.text, self.at):
            return found
        self.expect("{")
        while not self.accept("}"):
            name = self.read("word", "the name of an attribute")
            self.expect("=")
            found[name] = self.attribute()
            self.accept(",")
        return found

    def value(self) -> Value:
        kind, word = self.next()
        if kind != "value" or word not in self.values:
            raise self.fail(f"unknown value '{word}'", last=True)
        return self.values[word]

    def define(self, word: str, value: Value) -> None:
        self.values[word] = value
        hint = base_name(word[1:])
        value.hint = "" if hint.isdigit() else hint

    # -- structure ------------------------------------------------------------------------
    def module(self) -> Module:
        while self.peek()[0] == "alias":
            name = self.next()[1]
            self.expect("=")
            self.alias[name] = self.layout()
        self.expect("kernel")
        name = self.read("symbol", "the kernel's name, e.g. @add")[1:]
        self.expect("(")
        parameters: list[KernelParameter] = []
        while not self.accept(")"):
            word = self.read("value", "a parameter")
            self.expect(":")
            value = Value(self.type())
            self.define(word, value)
            facts = self.attributes()
            if unknown := facts.keys() - _FACTS:
                raise self.fail(f"unknown fact '{min(unknown)}'; known: {', '.join(_FACTS)}")
            parameters.append(KernelParameter(word[1:], value, **facts))
            self.accept(",")
        attributes = self.attributes()
        self.expect("{")
        body = self.block()
        self.expect("}")
        return Module(name, tuple(parameters), body, attributes, self.builder.next_id)

    def block(self) -> Block:
        arguments: list[Value] = []
        if self.accept("^"):
            self.expect("(")
            while not self.accept(")"):
                word = self.read("value", "an argument")
                self.expect(":")
                value = Value(self.type())
                self.define(word, value)
                arguments.append(value)
                self.accept(",")
            self.expect(":")
        with self.builder.block() as ops:
            while self.peek()[1] != "}":
                if self.peek()[0] == "end":
                    raise self.fail("expected '}', found the end of the text")
                self.op()
        return Block(tuple(arguments), tuple(ops))

    def op(self) -> None:
        # An op's id is given out when its text begins, so that ids follow program order.
        own_id = self.builder.next_id
        self.builder.next_id += 1
        start = self.skip(self.at)
        names: list[str] = []
        while self.peek()[0] == "value":
            names.append(self.next()[1])
            self.accept(",")
        if names:
            self.expect("=")
        word = self.next()[1]
        cls = MNEMONICS.get(word)
        if cls is None:
            raise self.fail(f"unknown op '{word}'", last=True)
        fields = {**cls.family.get(word, {}), **self.operands(cls), **self.attributes()}
        fields.update(self.regions(cls))
        types: list[Type] = []
        for i in range(len(names)):
            self.expect("," if i else ":")
            types.append(self.type())
        op = self.build(cls, fields, types, self.row_span(start))
        if len(op.results) != len(names):
            message = f"{word} has {len(op.results)} results, {len(names)} are named"
            raise self.fail(message, last=True)
        op.__dict__["id"] = own_id
        self.builder.insert(op)
        for name, value, found in zip(names, op.results, types, strict=True):
            if found != value.type:
                raise self.fail(f"{word} gives {value.type}, the text says {found}", last=True)
            self.define(name, value)

    def operands(self, cls: type[Op]) -> dict[str, Any]:
        """Read the operands: required ones and lists first, then optional ones by name.

        A list that may be empty, behind others, is not written where it is.
        """
        fields: dict[str, Any] = {}
        for spec in cls.fields:
            if spec.role in ("operand", "operands"):
                if fields and not spec.required and self.peek()[1] != ",":
                    continue
                if fields:
                    self.expect(",")
                fields[spec.name] = self.value() if spec.role == "operand" else self.value_list()
        for spec in cls.fields:
            if spec.role == "optional" and self.accept(spec.name):
                fields[spec.name] = self.value()
        return fields

    def value_list(self) -> tuple[Value, ...]:
        self.expect("[")
        items: list[Value] = []
        while not self.accept("]"):
            items.append(self.value())
            self.accept(",")
        return tuple(items)

    def regions(self, cls: type[Op]) -> dict[str, Block]:
        found: dict[str, Block] = {}
        for spec in cls.fields:
            if spec.role == "region":
                self.expect("{")
                found[spec.name] = self.block()
                self.expect("}")
        return found

    def row_span(self, start: int) -> Span:
        """Return the span from `start` to the end of its row."""
        first = self.text.rfind("\n", 0, start) + 1
        column = start - first + 1
        counted, row = self.row if self.row[0] <= first else (0, 1)
        line = row + self.text.count("\n", counted, first)
        self.row = first, line
        end = self.text.find("\n", start)
        width = (end if end >= 0 else len(self.text)) - start
        return Span(self.file, line, column, line, column + width)

    def build(self, cls: type[Op], fields: dict[str, Any], types: list[Type], span: Span) -> Op:
        """Build the op; layouts stand in its result types, all else in them is what it infers."""
        try:
            op = cls(**fields, span=span)
        except (TypeError, ValueError, IndexError, AttributeError, AssertionError) as error:
            # The constructors trust the front end; a text may say anything.
            message = f"these are no operands and attributes of {cls.mnemonic}: {error}"
            raise CompileError(message, span, code="K290") from error
        if len(types) != len(op.results) or [value.type for value in op.results] == types:
            return op
        return cls(**fields, span=span, layouts=tuple(map(layout_of, types)))
