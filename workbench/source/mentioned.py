"""Which names a function's code mentions: those that it looks up outside itself, and attributes."""

from __future__ import annotations

import ast
import dis
import os
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

from workbench.source.errors import KernelError
from workbench.source.kernels import KernelSource

#: The attributes that are looked up on an outer name, `a.b` of `name.a.b` as a tuple; CALLED at the
#: end: the result is called and goes nowhere else. The empty tuple is a use of the name by itself.
Chain = tuple[str, ...]
CALLED = "()"
#: What asks for an attribute by a name that may be computed.
_ASKING = frozenset({"getattr", "hasattr"})


@dataclass(frozen=True, slots=True)
class Mentioned:
    """What a code object, and those within it, looks up.

    Attributes:
        outer: names looked up outside, in order, with how each is used.
        attributes: names of attributes that are read of anything.
        texts: constants that may be names of attributes.
        variables: constants that may be names of variables of the environment.
        makes_texts: whether texts are put together, or taken from what is gone through.
    """

    outer: Mapping[str, frozenset[Chain]]
    attributes: frozenset[str]
    texts: frozenset[str]
    variables: frozenset[str]
    makes_texts: bool


@lru_cache(maxsize=256)
def mentioned(code: types.CodeType) -> Mentioned:
    """Return what a code object mentions."""
    outer: dict[str, set[Chain]] = {}
    attributes: set[str] = set()
    texts: set[str] = set()
    _read(code, frozenset(code.co_freevars), outer, attributes, texts)
    found = {name: frozenset(chains) for name, chains in outer.items() if name.isidentifier()}
    names = frozenset(text for text in texts if len(text) < 256 and text.isidentifier())
    makes = _MADE in texts or not _MAKING.isdisjoint(attributes)
    texts.discard(_MADE)
    return Mentioned(found, frozenset(attributes), names, frozenset(texts), makes)


def _read(
    code: types.CodeType,
    free: frozenset[str],
    outer: dict[str, set[Chain]],
    attributes: set[str],
    texts: set[str],
) -> None:
    chain: _Use | None = None
    null = False
    # Constants are told as texts otherwise, and a text may be too long to be made.
    plain = code.replace(co_consts=(None,) * len(code.co_consts))
    for step in dis.get_instructions(plain):
        word = step.opname
        if word in _ATTRIBUTES:
            attributes.add(step.argval)
        elif word in _PUT_TOGETHER or (word == "BINARY_OP" and step.argrepr in _JOINING):
            texts.add(_MADE)
        if chain is not None:
            if chain.goes_on(step):
                continue
            outer.setdefault(chain.name, set()).add(chain.made)
            chain = None
        if word in _GLOBALS or (word in _CELLS and step.argval in free):
            chain = _Use(step.argval, null or "NULL" in step.argrepr)
        null = word == "PUSH_NULL"
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            _read(constant, free, outer, attributes, texts)
        else:
            texts.update(_texts_in(constant))


class _Use:
    """The use of an outer name, as it is read from instructions."""

    def __init__(self, name: str, called: bool) -> None:
        self.name = name
        self._called = called
        self._words: list[str] = []
        self._ended = False

    @property
    def made(self) -> Chain:
        """The attributes that are looked up."""
        return (*self._words, CALLED) if self._called else tuple(self._words)

    def goes_on(self, step: dis.Instruction) -> bool:
        """Take the next instruction; returns whether it belongs to the use."""
        word = step.opname
        if word == "PUSH_NULL":  # what is called, before or behind (Python 3.13)
            self._called = self._ended = True
        elif word in ("LOAD_ATTR", "LOAD_METHOD") and not self._ended:
            self._words.append(step.argval)
            if word == "LOAD_METHOD" or "NULL" in step.argrepr:
                self._called = self._ended = True
        else:
            return word in ("CACHE", "EXTENDED_ARG")
        return True


#: What stands among texts for those that are put together, and the instructions that do that.
_MADE = "\0"
_PUT_TOGETHER = ("BUILD_STRING", "FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC")
_JOINING = ("+", "+=", "%", "%=", "*", "*=")
#: Methods of texts that make others, and those that go through a mapping.
_MAKING = frozenset({
    "capitalize", "casefold", "copy", "decode", "encode", "expandvars", "format", "format_map",
    "items", "join", "keys", "lower", "lstrip", "partition", "pop", "popitem", "removeprefix",
    "removesuffix", "replace", "rpartition", "rstrip", "split", "splitlines", "strip", "swapcase",
    "title", "translate", "upper", "values", "zfill",
})  # fmt: skip
#: Instructions that look a name up outside the function, and those that may.
_GLOBALS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
_CELLS = ("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF")
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "LOAD_SUPER_METHOD", "IMPORT_FROM")


def _texts_in(constant: object) -> Iterator[str]:
    if isinstance(constant, str):
        yield constant
    elif isinstance(constant, bytes):
        yield os.fsdecode(constant)
    elif isinstance(constant, tuple | frozenset):
        for item in cast("tuple[object, ...]", constant):
            yield from _texts_in(item)


def chains_of(code: types.CodeType, name: str) -> Iterator[Chain]:
    """Yield the attributes that code looks up on an outer name; see `Chain`."""
    for chain in mentioned(code).outer.get(name, ()):
        yield tuple(word for word in chain if word != CALLED)


def names_of(code: types.CodeType) -> Iterator[str]:
    """Yield every name that a code object, or one within it, looks up outside itself."""
    yield from code.co_names
    yield from code.co_freevars
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from names_of(constant)


def code_text(code: types.CodeType) -> str:
    """Return a text that is the same for the same code, also in another process."""
    constants = ", ".join(map(_constant_text, code.co_consts))
    return f"{code.co_code.hex()} {constants} {code.co_names} {code.co_varnames}"


def _constant_text(constant: object) -> str:
    if isinstance(constant, types.CodeType):
        return code_text(constant)
    if isinstance(constant, tuple | frozenset):
        texts = [_constant_text(item) for item in cast("tuple[object, ...]", constant)]
        if isinstance(constant, frozenset):  # in the order of their hashes
            texts.sort()
        return f"{type(cast('object', constant)).__name__}({', '.join(texts)})"
    if isinstance(constant, int) and constant.bit_length() > 4096:
        return hex(constant)
    return repr(constant)


def names_in_text(source: KernelSource) -> tuple[list[str], frozenset[str]]:
    """Return the outer names of a text that is not the code object's, sorted, and attributes."""
    try:
        nodes = list(ast.walk(source.tree))
    except (SyntaxError, KernelError):  # said where it is compiled
        return [], frozenset()
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    words = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    texts = {n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    return sorted(names & {*source.names}), frozenset(words | set(filter(str.isidentifier, texts)))


def asks_by_name(value: object) -> bool:
    """Say whether a value asks for attributes by names, under whatever name it was met."""
    return value is getattr or value is hasattr or value is vars or value is dir


def computes_names(outer: Iterable[str], source: KernelSource | None) -> bool:
    """Say whether code asks for attributes by names that it computes."""
    if _ASKING.isdisjoint(outer):
        return False
    try:
        nodes = list(ast.walk(source.tree)) if source is not None else []
    except (SyntaxError, KernelError):
        return True
    asked = sum(isinstance(node, ast.Name) and node.id in _ASKING for node in nodes)
    plain = sum(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in _ASKING
        and len(node.args) > 1
        and isinstance(node.args[1], ast.Constant)
        for node in nodes
    )
    return asked == 0 or asked != plain
