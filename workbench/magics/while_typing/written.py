"""A cell as it is written: its option line, its body, and a tree of it even where it is broken.

A statement that is no Python is taken out, one after the other, so that the rest can be looked at:
what it assigns is unknown. Lines keep their numbers.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from workbench.magics.cells import MAGIC
from workbench.magics.grammar import split_cell
from workbench.source import CompileError, Span, compiled, parsed

#: What stands for a value that is not known; no name that anybody writes.
UNKNOWN = "__unknown__"
#: Statements that are taken out at the most: more are another language.
_MOST_BROKEN = 4
_ASSIGNED = re.compile(r"([A-Za-z_]\w*(?:\s*,\s*[A-Za-z_]\w*)*)\s*(?::[^=]*)?[-+*/%&|^@<>]*=(?!=)")
_FOR = re.compile(r"for\s+([A-Za-z_]\w*(?:\s*,\s*[A-Za-z_]\w*)*)\b")


@dataclass(frozen=True, slots=True)
class Cell:
    """The parts of a `%%kernel` cell.

    Attributes:
        text: all of it, as the editor holds it.
        options: the option line, continued lines included, from behind the magic's name.
        line: the line of the editor on which the magic stands, from 1.
        body: the rest.
        first: the line on which the body begins.
    """

    text: str
    options: str
    line: int
    body: str
    first: int


def read_cell(text: str) -> Cell | None:
    """Return the parts of a cell; None if it is no `%%kernel` cell."""
    stripped = text.lstrip("\n\r\t ")
    if not re.match(rf"{MAGIC}(?=\s|$)", stripped):
        return None
    before = text[: len(text) - len(stripped)].count("\n")
    first, _, rest = stripped.partition("\n")
    options, body, taken = split_cell(first.removeprefix(MAGIC), rest)
    return Cell(text, options, before + 1, body, before + taken + 1)


def read_body(cell: Cell, file: str) -> tuple[ast.Module | None, str, list[CompileError]]:
    """Return the body's tree, the text that it is of, and what in it is no Python.

    The text has as many lines as the cell. The tree is None where too much is broken.
    """
    text = "\n" * (cell.first - 1) + cell.body
    broken: list[CompileError] = []
    while True:
        try:
            return parsed(text, file), text, broken or _whole(text, file)
        except SyntaxError as error:
            line = min(error.lineno or 1, text.count("\n") + 1)
            broken.append(_error(error, file, line))
            mended = _without(text, line)
        except (ValueError, RecursionError, MemoryError):
            return None, text, broken
        if mended is None or len(broken) > _MOST_BROKEN:
            return None, text, broken[:1]
        text = mended


def _whole(text: str, file: str) -> list[CompileError]:
    """Return what the grammar alone does not find, e.g. a `break` outside of loops."""
    try:
        compiled(parsed(text, file), file)
    except SyntaxError as error:
        return [_error(error, file, error.lineno or 1)]
    except (ValueError, RecursionError, MemoryError):
        pass
    return []


def _error(error: SyntaxError, file: str, line: int) -> CompileError:
    column = max(1, error.offset or 1)
    same = error.end_lineno == line and (error.end_offset or 0) > column
    end = (error.end_offset or 0) if same else column + 1
    place = Span(file, line, column, line, end)
    return CompileError(f"this is not Python: {error.msg}", place, code="K219")


def _without(text: str, number: int) -> str | None:
    """Return the text with what stands on a line made unknown; None where it is so already."""
    lines = text.split("\n")
    line = lines[number - 1]
    code = line.strip()
    if UNKNOWN in code or code in ("", "pass"):
        return None
    indent = line[: len(line) - len(line.lstrip())]
    following = next((other for other in lines[number:] if other.strip()), "")
    opens = len(following) - len(following.lstrip()) > len(indent)
    if code.startswith(("def ", "class ", "@", "async ")):
        return None
    assigned, loop = _ASSIGNED.match(code), _FOR.match(code)
    if opens and loop:
        replaced = f"for {loop[1]} in {UNKNOWN}:"
    elif opens and code.startswith(("else", "elif")):
        replaced = "else:"
    elif opens:
        replaced = f"if {UNKNOWN}:"
    elif assigned:
        replaced = f"{assigned[1]} = {UNKNOWN}"
    else:
        replaced = "pass"
    lines[number - 1] = indent + replaced
    return "\n".join(lines)


def without_line(text: str, number: int) -> str:
    """Return a cell's text with what stands on a line made unknown, for what is typed there."""
    return _without(text, number) or text
