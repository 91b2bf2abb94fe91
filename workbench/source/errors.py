"""What the user did wrong, said with its place: one base class, one subclass per family of codes.

The text form (fixed for terminals, notebooks and tests) is

    error K302: dot needs matching inner sizes: a is (128, 64), b is (32, 128)
      --> In[4]:21:11
      21 |     acc = tl.dot(a, b, acc)
         |           ^^^^^^^^^^^^^^^^^
    note: a has shape (BM, BK) from line 15
    help: use the same BK for both tiles

Codes: K1xx options, K2xx language, K3xx types and shapes, K4xx toolchain and backend,
K5xx launch, K6xx check, K7xx bench, K8xx viewer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.source.spans import Span, line_of

#: Letters of a message, and of a source line that an error shows.
_MOST_LETTERS = 1200
_MOST_SHOWN = 160


@dataclass(frozen=True, slots=True)
class Note:
    """A further remark of an error, with a place of its own if it has one."""

    text: str
    span: Span | None = None


class KernelError(Exception):
    """The user's mistake: what was found, what was expected, what to do."""

    code = "K200"
    kind = "error"

    def __init__(
        self,
        message: str,
        span: Span | None = None,
        *,
        hint: str | None = None,
        notes: Sequence[Note | str] = (),
        code: str | None = None,
    ) -> None:
        if len(message) > _MOST_LETTERS:  # somebody's value is in it
            message = f"{message[: _MOST_LETTERS // 2]} … {message[-_MOST_LETTERS // 4 :]}"
        super().__init__(message)
        self.message = message
        self.span = span
        self.hint = hint
        self.notes = tuple(Note(note) if isinstance(note, str) else note for note in notes)
        if code is not None:
            self.code = code
        #: Further independent errors found by the same compilation, this one excluded.
        self.others: tuple[KernelError, ...] = ()
        #: Whatever was compiled before the error (a Trace), for the viewer; None if nothing was.
        self.trace: object | None = None

    def at(self, span: Span | None) -> KernelError:
        """Give the error a place if it has none yet; returns itself."""
        if self.span is None:
            self.span = span
        return self

    def forget_frames(self) -> None:
        """Let go what the compiler was doing: frames hold its state, and nobody looks any more."""
        left: list[BaseException | None] = [self]
        seen: set[int] = set()
        while left:
            error = left.pop()
            if error is None or id(error) in seen:
                continue
            seen.add(id(error))
            error.__traceback__ = None
            left += [error.__cause__, error.__context__]
            left += error.others if isinstance(error, KernelError) else ()

    def render(self) -> str:
        """Return the error as text, at most 12 lines for one error."""
        return render(self)

    def __str__(self) -> str:
        return self.render()

    def _render_traceback_(self) -> list[str]:
        """IPython prints these lines instead of a traceback through compiler frames."""
        return [text for error in (self, *self.others) for text in error.render().splitlines()]


class OptionError(KernelError):
    """An option of a magic, of a compile or of a launch is wrong (K1xx)."""

    code = "K100"


class CompileError(KernelError):
    """The kernel's text cannot be compiled (K2xx to K4xx)."""

    code = "K200"

    @property
    def error_message(self) -> str:
        """The message without its place, as Triton names it."""
        return self.message


class UnsupportedSyntaxError(CompileError):
    """Python syntax that device code cannot have."""

    code = "K215"


class UnknownNameError(CompileError):
    """A name that is not defined, or that a module does not have."""

    code = "K203"


class ConstexprError(CompileError):
    """A compile-time value was needed, or a compile-time value was misused."""

    code = "K210"


class StaticAssertError(CompileError):
    """A `static_assert` that does not hold."""

    code = "K211"


class ArgumentError(CompileError, TypeError):
    """A call or a launch with the wrong number or names of arguments."""

    code = "K220"


class KernelTypeError(CompileError):
    """A value of a type that the operation does not take, or whose type changes."""

    code = "K301"


class ShapeError(CompileError):
    """Shapes that do not fit together."""

    code = "K302"


class ResourceError(CompileError):
    """More shared memory, registers or threads than the target has.

    Attributes:
        name: what there is too little of, where it can be counted.
        required: how much of it is needed.
        limit: how much there is.
    """

    code = "K401"
    name: str = ""
    required: int | None = None
    limit: int | None = None

    def counted(self, name: str, required: int, limit: int) -> ResourceError:
        """Say how much of what is needed; returns itself."""
        self.name, self.required, self.limit = name, required, limit
        return self


class ToolError(CompileError):
    """A tool of the toolchain is missing or refused its input."""

    code = "K410"


class TargetError(CompileError):
    """The target cannot do what the kernel asks for."""

    code = "K420"


class LaunchError(KernelError):
    """A launch with arguments the kernel cannot take, or one that failed on the device (K5xx)."""

    code = "K501"


class CheckError(KernelError):
    """The kernel's result differs from the reference (K6xx)."""

    code = "K601"
    kind = "CheckError"


def _excerpt(span: Span) -> list[str]:
    lines = [f"  --> {span}"]
    text = line_of(span)
    if text:
        number = str(span.line)
        end = span.end_column if span.end_line == span.line else len(text) + 1
        text, start, end = _cut(text, span.column, max(end, span.column + 1))
        carets = " " * (start - 1) + "^" * (end - start)
        pad = " " * len(number)
        lines += [f"  {number} | {text}", f"  {pad} | {carets}"]
    return lines


def _cut(text: str, start: int, end: int) -> tuple[str, int, int]:
    """Return as much of a long line as is shown, with the columns of a place in it."""
    if len(text) <= _MOST_SHOWN:
        return text, start, end
    first = max(0, min(start - 1 - _MOST_SHOWN // 4, len(text) - _MOST_SHOWN))
    part = text[first : first + _MOST_SHOWN]
    before = "…" if first else ""
    after = "…" if first + _MOST_SHOWN < len(text) else ""
    moved = len(before) - first
    return before + part + after, start + moved, min(end + moved, len(before + part) + 1)


def callers(error: KernelError) -> list[Note]:
    """Return notes that say from where the function of an error's place was inlined, two at most.

    The innermost call comes first.
    """
    calls = error.span.calls if error.span is not None else ()
    return [Note("called from here", call) for call in reversed(calls[-2:])]


def render(error: KernelError) -> str:
    """Return the text form described at the top of this file."""
    name = f"{error.kind} {error.code}" if error.kind != "error" else f"error {error.code}"
    lines = [f"{name}: {error.message}"]
    if error.span is not None:
        lines += _excerpt(error.span)
        lines += [f"note: called from {note.span}" for note in callers(error)]
    for note in error.notes[:3]:
        place = f" ({note.span})" if note.span is not None else ""
        lines.append(f"note: {note.text}{place}")
    if error.hint:
        lines.append(f"help: {error.hint}")
    return "\n".join(lines)
