"""One device function being lowered: its names, its place, and the kernel it is part of."""

from __future__ import annotations

import ast
import difflib
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from workbench.frontend.observing import Observer, may_run
from workbench.frontend.syntax import Assignments, last_reads
from workbench.ir import Builder
from workbench.language.constexprs import constexpr, is_tuple, unwrap
from workbench.language.dtypes import dtype
from workbench.language.state import State
from workbench.language.values import tensor
from workbench.passes.manager import Remark, Remarks
from workbench.source import (
    KernelError,
    KernelSource,
    Source,
    Span,
    UnknownNameError,
    UnsupportedSyntaxError,
    limit_of,
    over_budget,
    shown,
    source_rows,
)

Kind = TypeVar("Kind", bound=KernelError)
MAX_ERRORS = 20
_MOST_STEPS = limit_of("steps")
_MOST_OPS = limit_of("operations")
#: Names of the hidden variables that carry how a block was left, and a function's value.
BREAK, CONTINUE, RETURN, RESULT = "<break>", "<continue>", "<return>", "<value>"


class Site(ast.AST):
    """A call site that is known by its place alone."""

    def __init__(self, place: Span) -> None:
        super().__init__()
        self.place = place


class PoisonError(Exception):
    """A value is needed that an earlier error, already reported, left undefined."""


class ErrorLimitError(Exception):
    """There are as many errors as are worth reading."""


class _Poison:
    """What a name holds after the statement that should have assigned it failed."""


POISON = _Poison()


@dataclass(frozen=True)
class Unbound:
    """A name that has no value here, and why."""

    reason: str
    hint: str = ""


@dataclass(frozen=True)
class Deferred:
    """A value computed only where it is read: the loop variable after its loop."""

    make: Callable[[], tensor]


@dataclass
class Session:
    """One kernel being lowered, over all functions inlined into it."""

    builder: Builder
    remarks: Remarks
    state: State
    #: Who looks on, where a kernel is lowered only to be looked at.
    observer: Observer | None = None
    errors: list[KernelError] = field(default_factory=list[KernelError])
    depth: int = 0
    steps: int = 0
    assignments: dict[ast.stmt, Assignments] = field(default_factory=dict[ast.stmt, Assignments])
    #: What functions return from within loops, where it is known.
    results: dict[tuple[Activation, ast.stmt], Any] = field(
        default_factory=dict[Any, Any], repr=False
    )

    def spend(self, steps: int, act: Activation, node: ast.AST) -> None:
        """Count work at a place; raises what ends the compilation where it is too much (K406)."""
        self.steps += steps
        if self.observer is not None:
            self.observer.spend()
        if self.steps > _MOST_STEPS:
            what = "compiling this takes"
            raise self.stop(over_budget("steps", what, self.steps, act.span(node)))
        if self.builder.next_id > _MOST_OPS:
            what = "the kernel has, counted up to here,"
            raise self.stop(over_budget("operations", what, self.builder.next_id, act.span(node)))

    def stop(self, error: KernelError) -> ErrorLimitError:
        """Report an error after which there is no point in looking for others."""
        self.report(error)
        return ErrorLimitError()

    def remark(self, text: str, severity: Any = "note") -> None:
        """Leave a remark at the current place."""
        span = self.builder.span
        self.remarks.items.append(Remark(severity, text, self.remarks.pass_name, 0, span))

    def report(self, error: KernelError) -> None:
        """Remember an error, once; raises ErrorLimitError when there are enough."""
        error.at(self.builder.span)
        key = _place(error)
        if all(_place(known) != key for known in self.errors):
            self.errors.append(error)
        if len(self.errors) >= MAX_ERRORS:
            raise ErrorLimitError


def _place(error: KernelError) -> tuple[Any, ...]:
    span = error.span
    where = (span.file, span.line, span.column) if span is not None else None
    return where, error.message


def extent(node: Any) -> tuple[int, int, int, int]:
    """Return first line, last line, first column and end column of a syntax node."""
    return node.lineno, node.end_lineno or node.lineno, node.col_offset, node.end_col_offset or 0


class Activation:
    """One call of a device function: source, scope and call chain."""

    def __init__(
        self,
        session: Session,
        source: KernelSource,
        calls: tuple[Span, ...] = (),
        is_kernel: bool = False,
    ) -> None:
        self.session = session
        self.builder = session.builder
        self.source = source
        self.calls = calls
        self.is_kernel = is_kernel
        self.scope: dict[str, Any] = {}
        self.constexprs: set[str] = set()
        #: Names that `x: tl.constexpr` has declared without a value.
        self.declared: set[str] = set()
        self.places: dict[str, Span] = {}
        self.loops = 0
        #: Which ways an `if` went whose condition is known.
        self.taken: dict[ast.If, set[bool]] = {}
        #: Flags that nobody reads after the block being lowered, as nothing follows it.
        self.unread: frozenset[str] = frozenset((BREAK, CONTINUE, RETURN))
        self._globals: dict[str, Any] = {}
        self._ascii = source.text.isascii()
        self._lines: list[str] | None = None
        self._columns: dict[int, list[int]] = {}

    # -- places ---------------------------------------------------------------------------
    def span(self, node: ast.AST) -> Span:
        """Return the place of a syntax node in its file, with the calls that led here."""
        if isinstance(node, Site):
            return node.place
        line, end_line, column, end = extent(node)
        if not self._ascii:
            column, end = self._characters(line, column), self._characters(end_line, end)
        offset, shift = self.source.first_line - 1, self.source.indent + 1
        return Span(
            self.source.file,
            line + offset,
            column + shift,
            end_line + offset,
            end + shift,
            self.calls,
        )

    def _characters(self, line: int, column: int) -> int:
        """Return a column in characters; the parser counts bytes of UTF-8."""
        places = self._columns.get(line)
        if places is None:
            if self._lines is None:
                self._lines = source_rows(self.source.text)
            text = self._lines[line - 1]
            places = self._columns[line] = [
                place for place, letter in enumerate(text) for _ in letter.encode()
            ] + [len(text)]
        return places[min(column, len(places) - 1)]

    def at(self, node: ast.AST) -> None:
        """Let what is built from here on stand for `node`."""
        self.builder.span = self.span(node)

    def error(self, kind: type[Kind], message: str, node: ast.AST, **rest: Any) -> Kind:
        """Return an error at a node."""
        return kind(message, self.span(node), **rest)

    def is_read_after(self, name: str, node: ast.AST) -> bool:
        """Say whether a name may still be read after a statement."""
        if self.loops:
            return True
        _, line, _, column = extent(node)
        return last_reads(self.source).get(name, (0, 0)) >= (line, column)

    # -- names ----------------------------------------------------------------------------
    def read(self, name: str, node: ast.AST) -> Any:
        """Return what a name holds here."""
        value = self.scope.get(name, self)
        if value is self:
            return self._global(name, node)
        if isinstance(value, tensor):
            return value
        if value is POISON:
            raise PoisonError
        if isinstance(value, Unbound):
            raise self.error(
                UnknownNameError, f"'{name}' {value.reason}", node, hint=value.hint or None
            )
        if isinstance(value, Deferred):
            self.at(node)
            value = value.make()
            value.name = name
            self.scope[name] = value
        return value

    def _global(self, name: str, node: ast.AST) -> Any:
        if name in self._globals:
            return self._globals[name]
        try:
            value = self.source.lookup(name)
        except KeyError:
            raise self._unknown(name, node) from None
        self.guard(value)
        value = self._checked_global(name, value, node)
        self._globals[name] = value
        return value

    def saw(self, node: ast.AST, value: Any) -> None:
        """Tell who looks on what something holds."""
        if self.session.observer is not None:
            self.session.observer.saw(self, node, value)

    def guard(self, value: Any) -> None:
        """Raise PoisonError for what a kernel that is only looked at must not touch."""
        if self.session.observer is not None and (value is POISON or may_run(value)):
            raise PoisonError

    def _unknown(self, name: str, node: ast.AST) -> KernelError:
        import workbench.language as tl

        known = [n for n in self.scope if n.isidentifier()]
        hint = suggestion(name, known) or suggestion(name, list(self.source.names))
        if hint is None and name in tl.__all__:
            hint = f"did you mean tl.{name}?"
        hint = hint or "assign it before this line, or pass it as an argument"
        return self.error(UnknownNameError, f"name '{name}' is not defined", node, hint=hint)

    def _checked_global(self, name: str, value: Any, node: ast.AST) -> Any:
        """Return a global as a kernel may use it (language/README.md, rule 16)."""
        kind = type(value).__name__
        if isinstance(value, constexpr):
            return value.value
        if _is_foreign(value) and type(value).__name__ == "constexpr":
            return unwrap(value.value)
        notes = self.source.names.get("__annotations__", {})
        if "constexpr" in str(notes.get(name, "")):
            return unwrap(value)
        allowed = (
            callable(value)
            or isinstance(value, types.ModuleType | dtype)
            or hasattr(value, "kernel_source")
            or (is_tuple(value) and hasattr(value, "_fields"))
            or _is_foreign(value)
        )
        if allowed:
            return value
        outer = name in getattr(self.source.function.__code__, "co_freevars", ())
        where = "variable of the function around this one" if outer else "global variable"
        raise self.error(
            UnknownNameError,
            f"'{name}' is an ordinary {where} ({kind}); a kernel sees only constexpr ones",
            node,
            hint=_as_constexpr(name, value),
        )


def _as_constexpr(name: str, value: Any) -> str:
    """Say how a kernel may see a value of the code around it."""
    if isinstance(value, int | float | str):
        return f"write {name} = tl.constexpr({shown(value, 40)}), or pass it as an argument"
    if isinstance(value, list | tuple):
        given = shown(tuple(cast("Any", value)), 40)
        return f"write {name} = tl.constexpr({given}), or pass a tuple as an argument"
    if isinstance(value, dict | set | frozenset):
        return "take what is needed out of it before: N = tl.constexpr(...), or pass that"
    return "pass it as an argument"


def _is_foreign(value: object) -> bool:
    """Say whether a value belongs to an installed Triton, whose names are read as ours."""
    return (getattr(type(value), "__module__", None) or "").partition(".")[0] == "triton"


def suggestion(name: str, known: Sequence[str], prefix: str = "") -> str | None:
    """Return a did-you-mean for a misspelt name, None if nothing is near."""
    if len(name) > 100:  # its time grows with the square
        return None
    folded = {word.lower(): word for word in known}
    close = difflib.get_close_matches(name, known, 1) or [
        folded[word] for word in difflib.get_close_matches(name.lower(), list(folded), 1)
    ]
    return f"did you mean {prefix}{close[0]}?" if close else None


def unsupported(act: Activation, word: str, node: ast.AST, hint: str | None = None) -> KernelError:
    """Return the error for Python syntax that has no meaning on a device."""
    return act.error(
        UnsupportedSyntaxError,
        f"'{word}' cannot run on a device",
        node,
        notes=[
            "device code supports if/for/while, assert, return, calls to device functions, "
            "and static Python values"
        ],
        hint=hint,
    )


__all__ = [
    "BREAK",
    "CONTINUE",
    "MAX_ERRORS",
    "POISON",
    "RESULT",
    "RETURN",
    "Activation",
    "Deferred",
    "ErrorLimitError",
    "PoisonError",
    "Session",
    "Source",
    "Unbound",
    "suggestion",
    "unsupported",
]  # fmt: skip
