"""Mutated cells: kernels of the corpus with tokens deleted, swapped or replaced, types changed.

Whatever a cell says, compiling it may only succeed or raise KernelErrors that have a place.
"""

from __future__ import annotations

import builtins
import dataclasses
import functools
import gc
import inspect
import io
import random
import sys
import textwrap
import tokenize
from pathlib import Path
from typing import Any

#: The longest that a cell may compute, whatever else the machine does.
SECONDS = 5.0

TYPES = ("i1", "i8", "i16", "i32", "i64", "u8", "u32", "f16", "bf16", "f32", "f64", "f8e4m3")
DTYPES = ("int1", "int8", "int16", "int32", "int64", "uint8", "uint32", "float16", "bfloat16",
          "float32", "float64", "float8e4nv")  # fmt: skip
OPERATORS = ("+", "-", "*", "/", "//", "%", "<", "<=", ">", ">=", "==", "!=", "&", "|", "^", "<<",
             ">>", "**", "@")  # fmt: skip
NUMBERS = ("0", "1", "2", "3", "16", "-1", "0.5", "1e30", "2147483648", "1 << 40", "None", "True",
           "()", "(4,)", "'x'", "[1, 2]", "9 ** 9 ** 9", "(1 << 10 ** 9)", "10 ** 9", "1 << 8000",
           "'a' * 10 ** 10", "(1,) * 10 ** 10", "0x" + "f" * 4000, "-" * 300 + "1",
           "tl.static_range(10 ** 9)", "range(10 ** 30)", "f'{1:>99999999999}'")  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class Cell:
    """A kernel with what it calls, and what is known of its arguments."""

    name: str
    text: str
    types: tuple[str, ...]
    settings: tuple[tuple[str, Any], ...]

    def line(self, target: str) -> str:
        """Return the option line that compiles the cell."""
        sets = " ".join(f'--set "{name}={{{value!r}}}"' for name, value in self.settings)
        return f'{self.name} --sig "{" ".join(self.types)}" {sets} --target {target} --no-cache -q'


# -- the corpus -----------------------------------------------------------------------------------


@functools.cache
def corpus() -> tuple[Cell, ...]:
    """Return the kernels of tests/kernels that the samples launch, one cell for each."""
    from tests.corpus import every
    from tests.corpus.sample import Maker

    found: dict[Any, Cell] = {}
    for entry in every.SAMPLES:
        problem = entry.build(Maker(entry.dtypes[0]), *entry.fast[0])
        for launch in problem.launches:
            function = getattr(launch.kernel, "fn", launch.kernel)
            cell = _cell(function, launch) if function not in found else None
            if cell is not None:
                found[function] = cell
    return tuple(found.values())


def _cell(function: Any, launch: Any) -> Cell | None:
    parameters = list(inspect.signature(function).parameters.values())
    values = dict(zip((p.name for p in parameters), launch.arguments, strict=False))
    types: list[str] = []
    settings: list[tuple[str, Any]] = []
    for parameter in parameters:
        value = values.get(parameter.name, launch.named.get(parameter.name, parameter.default))
        if "constexpr" in str(parameter.annotation):
            if not isinstance(value, bool | int | float | str | None):
                return None
            settings.append((parameter.name, value))
        elif (word := _type_of(value)) is not None:
            types.append(word)
        else:
            return None
    return Cell(function.__name__, _text_of(function), tuple(types), tuple(settings))


def _type_of(value: Any) -> str | None:
    from workbench.bench.arrays import dtype_of, is_array

    if is_array(value):
        return f"*{dtype_of(value)}"
    match value:
        case bool():
            return "i1"
        case int():
            return "i32" if -(1 << 31) <= value < 1 << 31 else "i64"
        case float():
            return "f32"
        case _:
            return None


def _text_of(function: Any) -> str:
    """Return the text of a function behind that of everything of its module that it names."""
    module = sys.modules[function.__module__]
    parts: dict[str, str] = {}

    def visit(name: str) -> None:
        value = vars(module).get(name)
        value = getattr(value, "fn", value)
        if name in parts or name in vars(builtins):
            return
        if inspect.isfunction(value) and value.__module__ == module.__name__:
            parts[name] = ""
            for other in sorted(value.__code__.co_names):
                visit(other)
            parts[name] = parts.pop(name) + _source(value)
        elif isinstance(value, int | float | str):
            parts[name] = f"{name} = {value!r}\n"
        elif inspect.ismodule(value) and name != "tl":
            parts[name] = f"import {value.__name__} as {name}\n"

    visit(function.__name__)
    return "\n".join(parts.values())


def _source(function: Any) -> str:
    text = textwrap.dedent(inspect.getsource(function))
    return text[text.index("def ") :]


# -- mutations ------------------------------------------------------------------------------------


def mutated(seed: int) -> tuple[Cell, str]:
    """Return a cell of the corpus with one to three changes, and the target to compile it for.

    Most changes that leave no Python are made differently: the parser refuses them all alike.
    """
    choose = random.Random(seed)
    cell = choose.choice(corpus())
    for _ in range(choose.choice((1, 1, 1, 2, 3))):
        for _ in range(20):
            change = _with_other_type if choose.random() < 0.15 else _with_edit
            changed = change(cell, choose)
            if _is_python(changed.text) or choose.random() < 0.03:
                break
        cell = changed
    return cell, choose.choice(("cpu", "sm_90a", "sm_80"))


def _is_python(text: str) -> bool:
    try:
        compile(text, "cell", "exec")
    except (SyntaxError, ValueError):
        return False
    return True


def _with_other_type(cell: Cell, choose: random.Random) -> Cell:
    types, settings = list(cell.types), list(cell.settings)
    if settings and choose.random() < 0.3:
        place = choose.randrange(len(settings))
        value = choose.choice((0, 1, 3, 16, -1, 0.5, True, None, "x"))
        settings[place] = (settings[place][0], value)
    elif types:
        place = choose.randrange(len(types))
        star = choose.choice(("", "*")) if choose.random() < 0.3 else types[place][:1].strip("fiub")
        types[place] = star + choose.choice(TYPES)
    return dataclasses.replace(cell, types=tuple(types), settings=tuple(settings))


def _with_edit(cell: Cell, choose: random.Random) -> Cell:
    tokens = _body_tokens(cell.text)
    if not tokens:
        return cell
    start, end, word, _ = token = choose.choice(tokens)
    kind = choose.random()
    if kind < 0.25:
        edits = [(start, end, "")]
    elif kind < 0.45:
        other = choose.choice(tokens)
        edits = [(start, end, other[2]), (other[0], other[1], word)] if other != token else []
    elif kind < 0.5:
        edits = [(end, end, f" {word}")]
    else:
        edits = [(start, end, _other_word(token, tokens, choose))]
    text = cell.text
    for first, last, new in sorted(edits, reverse=True):
        text = text[:first] + new + text[last:]
    return dataclasses.replace(cell, text=text)


Token = tuple[int, int, str, int]


def _body_tokens(text: str) -> list[Token]:
    """Return (start, end, text, kind) of the tokens inside functions; none that end lines."""
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found: list[Token] = []
    depth = 0
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type in (tokenize.INDENT, tokenize.DEDENT):
                depth += 1 if token.type == tokenize.INDENT else -1
            elif depth and token.type in (tokenize.NAME, tokenize.NUMBER, tokenize.OP):
                start = starts[token.start[0] - 1] + token.start[1]
                end = starts[token.end[0] - 1] + token.end[1]
                found.append((start, end, token.string, token.type))
    except (tokenize.TokenError, IndentationError):
        pass  # an earlier change left no Python; what was read so far can be changed too
    return found


def _other_word(token: Token, tokens: list[Token], choose: random.Random) -> str:
    _, _, word, kind = token
    if word in DTYPES:
        return choose.choice(DTYPES)
    if kind == tokenize.NUMBER:
        return choose.choice(NUMBERS)
    if kind == tokenize.OP and word in OPERATORS:
        return choose.choice(OPERATORS)
    if kind == tokenize.NAME and choose.random() < 0.3:
        return choose.choice((*NUMBERS, *_language_names()))
    return choose.choice([other[2] for other in tokens if other[3] == kind])


@functools.cache
def _language_names() -> tuple[str, ...]:
    import workbench.language as tl

    return tuple(f"tl.{name}" for name in dir(tl) if not name.startswith("_"))


# -- running --------------------------------------------------------------------------------------


class TooLong(BaseException):
    """A cell that takes more than its time; no Exception, so that nobody catches it."""


def outcome(seed: int) -> tuple[str, str]:
    """Compile the mutated cell of a seed: ("compiled" | "refused" | "wrong", what was said)."""
    import signal

    from workbench import run_cell
    from workbench.source import KernelError

    cell, target = mutated(seed)

    def stop(number: int, frame: Any) -> None:
        raise TooLong

    # A full collection of what thousands of cells left takes seconds that are not this one's.
    gc.disable()
    signal.signal(signal.SIGPROF, stop)
    # Again and again: an exception in a destructor is lost.
    signal.setitimer(signal.ITIMER_PROF, SECONDS, 1.0)
    try:
        run_cell(cell.text, cell.line(target), {}, file=f"cell{seed}")
    except KernelError as error:
        signal.setitimer(signal.ITIMER_PROF, 0)
        unplaced = [e for e in (error, *error.others) if e.span is None]
        if unplaced:
            return "wrong", f"no place: {unplaced[0].code} {unplaced[0].message}"
        return "refused", error.code
    except TooLong:
        return "wrong", f"took more than {SECONDS:.0f} s"
    except BaseException as error:
        signal.setitimer(signal.ITIMER_PROF, 0)
        import traceback

        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(frame.filename).name}:{frame.lineno}"
        return "wrong", f"{type(error).__name__} at {place}: {str(error)[:200]}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        gc.enable()
    return "compiled", ""


__all__ = ["corpus", "mutated", "outcome"]
