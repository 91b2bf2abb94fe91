"""What the words of an option line mean: expressions, axes, settings, tolerances, choices.

Each converter takes the word that followed its flag and returns the value, or raises OptionError
with the word's place. Nothing here needs IPython.
"""

from __future__ import annotations

import builtins
import difflib
import keyword
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from workbench.launch.options import SHORT_FORMS
from workbench.source import OptionError, Span

PANES = ("source", "ast", "tile", "gpu", "llvm", "ptx", "sass", "asm")
#: An axis with more values is a slip.
MOST_VALUES = 100_000
#: The names that cells may use without importing them.
OFFERED = ("kernel", "jit", "autotune", "tl", "triton", "cdiv")
METRICS = ("auto", "tflops", "gbps", "ms", "percent")
EMBED_MODES = ("auto", "full", "summary", "none")
CHIPS = (
    *("sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_103"),
    *("sm_103a", "sm_110", "sm_110a", "sm_120", "sm_120a", "sm_121", "sm_121a"),
)
TARGETS = ("auto", "cpu", "interpreter", *CHIPS)


_UNSET: Any = object()


@dataclass(frozen=True, slots=True)
class Token:
    """One word of an option line: its text, the object a lone `{expr}` gave, and its place."""

    text: str
    span: Span | None = None
    value: Any = _UNSET

    @property
    def is_object(self) -> bool:
        """Whether the word was wholly `{expr}`."""
        return self.value is not _UNSET


@dataclass(frozen=True, slots=True)
class Expression:
    """A Python expression given as an option, evaluated when its names exist."""

    text: str
    option: str
    span: Span | None = None
    value: Any = _UNSET

    @property
    def is_object(self) -> bool:
        """Whether it was given as a lone `{expr}`, whose value is known."""
        return self.value is not _UNSET

    def evaluate(
        self, namespace: Mapping[str, Any], code: str = "K104", hint: str | None = None
    ) -> Any:
        """Return the expression's value; raises OptionError where Python raises."""
        if self.is_object:
            return self.value
        try:
            compiled = compile(self.text.strip(), f"<{self.option}>", "eval")
            return eval(compiled, dict(namespace))
        except Exception as error:
            words = error.msg if isinstance(error, SyntaxError) else error
            message = f"{self.option}: {self.text!r} raised {type(error).__name__}: {words}"
            if hint is None and isinstance(error, NameError):
                known = (name for name in namespace if not name.startswith("_"))
                better = closest(str(error.name), known, 0.6).removeprefix("; ")
                hint = better or "define it in a cell above, or in this one"
                if self.option == "--grid" and str(error.name).lower() == "meta":
                    hint = "constexprs have their names here: cdiv(n, BLOCK), or lambda META: …"
            raise OptionError(message, self.span, code=code, hint=hint) from error


@dataclass(frozen=True, slots=True)
class Axis:
    """One sweep axis: `--x N=256:8192:*2`."""

    name: str
    spec: Expression
    code: str = "K116"

    def values(self, namespace: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the axis's values; both ends of a range belong to it.

        `a:b:s` counts from a to b by s, `a:b:*f` multiplies by f; anything else is a Python
        expression that gives a list, or several values between commas.
        """
        if self.spec.is_object:
            return self._all(self.spec.value)
        parts = split_top_level(self.spec.text, ":")
        if len(parts) == 1:
            given = self._part(self.spec.text, namespace)
            return self._all(given) if isinstance(given, Iterable) else (given,)
        step = parts[2].strip() if len(parts) == 3 else "1"
        factor = step.startswith("*")
        start, stop = (self._part(text, namespace) for text in parts[:2])
        by = self._part(step.removeprefix("*"), namespace)
        if len(parts) > 3 or not (by > 1 if factor else by > 0) or (factor and start <= 0):
            raise OptionError(
                f"{self.spec.option}: {self.spec.text!r} is not a range that ends",
                self.spec.span,
                code=self.code,
                hint="write a:b:step or a:b:*factor, e.g. --x N=256:8192:*2",
            )
        return self._all(_counted(start, stop, by, factor=factor))

    def _all(self, values: Iterable[Any]) -> tuple[Any, ...]:
        """Return all values of what may have no end."""
        found = tuple(islice(values, MOST_VALUES + 1))
        if len(found) > MOST_VALUES:
            raise OptionError(
                f"{self.spec.option}: {self.spec.text!r} has more than {MOST_VALUES:,} values",
                self.spec.span,
                code=self.code,
                hint="take larger steps: a:b:step or a:b:*factor",
            )
        return found

    def _part(self, text: str, namespace: Mapping[str, Any]) -> Any:
        return Expression(text, self.spec.option, self.spec.span).evaluate(namespace, self.code)


def _counted(start: Any, stop: Any, by: Any, *, factor: bool) -> Iterator[Any]:
    while start <= stop:
        yield start
        start = start * by if factor else start + by


@dataclass(frozen=True, slots=True)
class Baseline:
    """One `--baseline`: a known word, or an expression with the name its series gets."""

    name: str
    expression: Expression
    known: bool = False


def closest(word: str, known: Iterable[str], cutoff: float = 0.5) -> str:
    """Return "; did you mean X?" for the known word most like `word`, or nothing.

    `cutoff` is the share of letters that they must have in common.
    """
    if len(word) > 100:  # its time grows with the square
        return ""
    found = difflib.get_close_matches(word, list(known), n=1, cutoff=cutoff)
    return f"; did you mean {found[0]}?" if found else ""


def split_top_level(text: str, separator: str) -> list[str]:
    """Split at separators that stand outside brackets and quotes."""
    parts, depth, quote, start = [], 0, "", 0
    for position, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif character == separator and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    return [*parts, text[start:]]


def part_span(span: Span | None, text: str, start: int, end: int | None = None) -> Span | None:
    """Return the place of `text[start:end]` of a word, or the word's own where they do not match.

    They match for a word that stands as it is in the line, or within one pair of quotes.
    """
    if span is None or span.line != span.end_line:
        return span
    quotes = span.end_column - span.column - len(text)
    if quotes not in (0, 2):
        return span
    column = span.column + quotes // 2
    end = len(text) if end is None else end
    return replace(span, column=column + start, end_column=column + max(end, start + 1))


def plain_text(token: Token) -> str:
    """Return the word as text."""
    return str(token.value) if token.is_object else token.text


def expression(option: str) -> Callable[[Token], Expression]:
    """Return the converter of an option that holds a Python expression."""
    return lambda token: Expression(token.text, option, token.span, token.value)


def one_of(flag: str, what: str, choices: tuple[str, ...], code: str) -> Callable[[Token], str]:
    """Return the converter of an option with a closed set of values."""

    def convert(token: Token) -> str:
        text = plain_text(token)
        if text not in choices:
            better = closest(text, choices)
            known = better or f"; known: {', '.join(choices)}"
            raise OptionError(f"unknown {what} {text!r}{known}", token.span, code=code)
        return text

    return convert


def target_name(token: Token) -> str:
    """Return the target if it is a known one."""
    text = plain_text(token)
    if text not in TARGETS:
        raise OptionError(
            f"unknown target {text}; known: cpu, interpreter, sm_80 … sm_121a",
            token.span,
            code="K114",
            hint=closest(text, TARGETS, 0.8).removeprefix("; ") or None,
        )
    return text


def tolerance(flag: str) -> Callable[[Token], float]:
    """Return the converter of a tolerance, a number from 0 up."""

    def convert(token: Token) -> float:
        try:
            value = float(token.value if token.is_object else token.text)
        except (TypeError, ValueError):
            value = math.nan
        if not value >= 0:
            raise OptionError(
                f"{flag} must be a number ≥ 0, got {plain_text(token)}", token.span, code="K117"
            )
        return value

    return convert


def setting(token: Token) -> tuple[str, Expression]:
    """Return (name, expression) of `NAME=VALUE`, the name in its long form."""
    name, equals, value = token.text.partition("=")
    if not equals or not name.strip().isidentifier():
        raise OptionError(
            f"--set takes NAME=VALUE, got {token.text!r}",
            token.span,
            code="K112",
            hint="e.g. --set BLOCK=128 --set num_warps=8",
        )
    name = SHORT_FORMS.get(name.strip(), name.strip())
    return name, Expression(value, f"--set {name}", token.span)


def axis(token: Token) -> Axis:
    """Return the sweep axis of `NAME=VALUES`."""
    name, equals, spec = token.text.partition("=")
    if not equals or not name.isidentifier():
        raise OptionError(
            f"--x takes NAME=VALUES, got {token.text!r}",
            token.span,
            code="K116",
            hint="e.g. --x N=256:8192:*2 or --x N=1000,2000",
        )
    return Axis(name, Expression(spec, f"--x {name}", token.span))


def tune_axis(token: Token) -> Axis:
    """Return the axis of a search of `NAME=VALUES`."""
    return _searched("--tune", token)


def map_axis(token: Token) -> Axis:
    """Return the axis of a map of `NAME=VALUES`."""
    return _searched("--axis", token)


def _searched(flag: str, token: Token) -> Axis:
    name, equals, spec = token.text.partition("=")
    if not equals or not name.isidentifier():
        raise OptionError(
            f"{flag} takes NAME=VALUES, got {token.text!r}",
            token.span,
            code="K121",
            hint=f"e.g. {flag} BM=64,128 or {flag} warps=4,8",
        )
    return Axis(name, Expression(spec, f"{flag} {name}", token.span), "K121")


def seconds(flag: str) -> Callable[[Token], float]:
    """Return the converter of a number of seconds."""

    def convert(token: Token) -> float:
        try:
            found = float(plain_text(token))
        except ValueError:
            found = 0.0
        if found <= 0:
            raise OptionError(
                f"{flag} takes seconds > 0, got {token.text!r}", token.span, code="K121"
            )
        return found

    return convert


def baseline(token: Token) -> Baseline:
    """Return the baseline of a known word or of `[NAME=]EXPR`."""
    text = plain_text(token).strip()
    if text in ("torch", "cublas", "triton", "self"):
        return Baseline(text, Expression(text, "--baseline", token.span), known=True)
    named = re.match(r"([A-Za-z_][\w.-]*)=(?!=)", text)
    if named:
        body = text[named.end() :]
        return Baseline(named[1], Expression(body, f"--baseline {named[1]}", token.span))
    return Baseline(text, Expression(text, "--baseline", token.span))


def pane_names(token: Token) -> tuple[str, ...]:
    """Return the panes of a comma-separated list."""
    text = plain_text(token)
    panes = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in panes:
        if name not in PANES:
            known = " ".join(PANES)
            start = text.index(name)
            place = part_span(token.span, text, start, start + len(name))
            raise OptionError(f"unknown pane {name!r}; panes: {known}", place, code="K122")
    return panes


#: What IPython keeps in a notebook's names.
IPYTHONS = frozenset(("In", "Out", "get_ipython", "display", "exit", "quit"))


def identifier(token: Token) -> str:
    """Return a name that can be bound, and that no cell needs for what it means already."""
    name = unicodedata.normalize("NFKC", token.text)  # as Python reads names of a cell
    if not name.isidentifier() or keyword.iskeyword(name):
        word = name.isidentifier()
        raise OptionError(
            f"--as needs an identifier, got {token.text!r}{', a word of Python' if word else ''}",
            token.span, code="K123",
            hint="choose another name, e.g. --as r" if word else
            "a name as in Python: letters, digits and _, no digit in front",
        )  # fmt: skip
    python = name in vars(builtins) or (name.startswith("__") and name.endswith("__"))
    if name in OFFERED or name in IPYTHONS or python:
        whose = "Python" if python else "cells"
        raise OptionError(
            f"--as {name} would hide what {whose} mean{'' if whose == 'cells' else 's'} by {name}",
            token.span, code="K123", hint="choose another name, e.g. --as r",
        )  # fmt: skip
    return name


def line_number(flag: str) -> Callable[[Token], int]:
    """Return the converter of a line number."""

    def convert(token: Token) -> int:
        if not plain_text(token).strip().isdecimal():
            raise OptionError(
                f"{flag} takes a line number, got {plain_text(token)!r}", token.span, code="K101"
            )
        return int(plain_text(token))

    return convert


def whole_number(token: Token) -> int:
    """Return a whole number of at least 0."""
    if not plain_text(token).strip().isdecimal():
        raise OptionError(
            f"a whole number is wanted, got {plain_text(token)!r}", token.span, code="K101"
        )
    return int(plain_text(token))


def step_number(token: Token) -> int:
    """Return the number of a step; negative ones count from the end."""
    try:
        return int(plain_text(token))
    except ValueError:
        raise OptionError(
            f"--at takes the number of a step, got {plain_text(token)!r}", token.span, code="K103",
            hint="e.g. --at 12, or --at -1 for the last",
        ) from None  # fmt: skip


def line_range(token: Token) -> tuple[int, int]:
    """Return (first, last) of `A:B`; either may be left out."""
    match = re.fullmatch(r"(\d*):(\d*)", plain_text(token).strip())
    if not match:
        raise OptionError(
            f"--lines takes A:B, got {plain_text(token)!r}",
            token.span,
            code="K101",
            hint="e.g. 10:30",
        )
    return int(match[1] or 1), int(match[2] or 2**31)


def pattern(flag: str) -> Callable[[Token], str]:
    """Return the converter of a regular expression."""

    def convert(token: Token) -> str:
        text = plain_text(token)
        try:
            re.compile(text)
        except re.error as error:
            raise OptionError(
                f"{flag} takes a regular expression, {text!r} is none: {error}",
                token.span,
                code="K101",
                hint=f"for these very letters: {re.escape(text)}",
            ) from None
        return text

    return convert


def word_list(token: Token) -> tuple[str, ...]:
    """Return the words of a comma-separated list."""
    return tuple(word.strip() for word in plain_text(token).split(",") if word.strip())


#: What a side of a comparison is called may be so long: it stands in heads of columns.
_LONGEST_LABEL = 40


def two_labels(token: Token) -> tuple[str, str]:
    """Return what the two sides of a comparison are called."""
    words = [word.strip() for word in plain_text(token).split(",")]
    if len(words) != 2 or words[0] == words[1] or not all(words):
        raise OptionError(
            f"--labels takes two different names, got {plain_text(token)!r}", token.span,
            code="K152", hint="--labels before,after; quote names with spaces",
        )  # fmt: skip
    for word in words:
        if len(word) > _LONGEST_LABEL or not word.isprintable():
            raise OptionError(
                f"a label has at most {_LONGEST_LABEL} printable characters, got {word!r}"[:200],
                token.span, code="K152", hint="--labels before,after",
            )  # fmt: skip
    return words[0], words[1]
