"""What an editor asks at a place of a cell: what stands here, and what may follow."""

from __future__ import annotations

import re
import types
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workbench.language.methods import MEMBERS
from workbench.launch.options import DEFAULTS, SHORT_FORMS
from workbench.magics import registry
from workbench.magics.options import complete, options_of
from workbench.magics.values import EMBED_MODES, METRICS, PANES, TARGETS
from workbench.magics.while_typing.look import Look, look
from workbench.magics.while_typing.written import Cell, read_cell, without_line

#: Modules of the language whose `__all__` is what authors may write.
_MODULES = ("workbench.language", "workbench.language.math", "workbench.language.extra.libdevice")


@dataclass(frozen=True, slots=True)
class Choices:
    """What may stand from `start` to the cursor (offsets of the cell's text), and what it is.

    `alone`: nothing else may stand there.
    """

    start: int
    words: tuple[str, ...]
    kind: str
    alone: bool


def complete_at(text: str, cursor: int, namespace: Mapping[str, Any]) -> Choices | None:
    """Return what may follow at an offset of a cell; None where we know nothing better."""
    cell = read_cell(text[:cursor])
    if cell is None:
        return None
    if (not cell.body and not text[:cursor].endswith("\n")) or _continued(cell):
        return _options(cell, text, cursor, namespace)
    return _members(text, cursor, namespace)


def _continued(cell: Cell) -> bool:
    return not cell.body and cell.options.rstrip("\n").endswith("\\")


def _options(cell: Cell, text: str, cursor: int, namespace: Mapping[str, Any]) -> Choices:
    """Complete an option line: flags, values of a closed set, names for --set and --args."""
    before = cell.options.replace("\\\n", "  ")
    words = before.split(" ")
    last = words[-1]
    previous = next((word for word in reversed(words[:-1]) if word), "")
    flag, equals, value = last.partition("=")
    if last.startswith("-") and not equals:
        return Choices(cursor - len(last), tuple(complete("kernel", last)), "option", True)
    if not last.startswith("-"):
        flag, value = previous, last
    listed = {"--show": PANES, "--target": TARGETS, "--metric": METRICS, "--embed": EMBED_MODES}
    listed["--baseline"] = ("torch", "cublas", "triton", "self")
    if flag in listed:
        part = value.rpartition(",")[2] if flag == "--show" else value
        found = tuple(word for word in listed[flag] if word.startswith(part))
        return Choices(cursor - len(part), found, "value", True)
    if flag in ("--set", "--tune") and "=" not in value:
        names = _constexprs(text)
        known = (*names, *DEFAULTS, *SHORT_FORMS)
        found = tuple(f"{word}=" for word in known if word.startswith(value))
        return Choices(cursor - len(value), found, "param", True)
    if flag in {option.flag for option in options_of("kernel") if option.convert is not None}:
        part = re.split(r"[^\w]", value)[-1]
        names = [name for name in namespace if not name.startswith("_")]
        found = tuple(word for word in names if part and word.startswith(part))
        return Choices(cursor - len(part), found, "instance", True)
    kernels = [word for word in (*_kernels(text), *registry.names()) if word.startswith(last)]
    flags = complete("kernel", last) if not last else []
    return Choices(cursor - len(last), tuple(dict.fromkeys([*flags, *kernels])), "option", True)


def _kernels(text: str) -> list[str]:
    return re.findall(r"^def (\w+)\(", text, re.MULTILINE)


def _constexprs(text: str) -> list[str]:
    """Return the constexpr parameters of the cell's functions, as they are written."""
    return list(dict.fromkeys(re.findall(r"\b(\w+)\s*:\s*[\w.]*constexpr\b", text)))


def _members(text: str, cursor: int, namespace: Mapping[str, Any]) -> Choices | None:
    """Complete what follows the dot of a tensor's name, or of `tl` and modules of it."""
    match = re.search(r"(?<![\w.])([A-Za-z_]\w*(?:\.\w+)*)\.(\w*)$", text[:cursor])
    if match is None:
        return None
    root, *path = match[1].split(".")
    if isinstance(namespace.get(root), types.ModuleType):
        return _of_language(namespace[root], path, match[2], cursor)
    if path:
        return None
    line = text[:cursor].count("\n") + 1
    found = look(without_line(text, line), namespace)
    if found is None:
        return None
    held = [seen for seen in found.seen if seen.name == match[1] and seen.line < line]
    if not held or max(held, key=lambda seen: (seen.line, seen.column)).kind != "tensor":
        return None
    members = tuple(name for name in sorted(MEMBERS) if name.startswith(match[2]))
    return Choices(cursor - len(match[2]), members, "function", True)


def _of_language(module: Any, path: list[str], typed: str, cursor: int) -> Choices | None:
    """Complete a name of the language: what it offers to authors, not what its modules import."""
    for word in path:
        module = vars(module).get(word) if isinstance(module, types.ModuleType) else None
    if not isinstance(module, types.ModuleType) or module.__name__ not in _MODULES:
        return None
    members = tuple(name for name in module.__all__ if name.startswith(typed))
    return Choices(cursor - len(typed), members, "function", True) if members else None


# -- what stands here -------------------------------------------------------------------------
def describe_at(text: str, cursor: int, namespace: Mapping[str, Any]) -> str:
    """Return what is known of the place at an offset of a cell, empty if nothing is.

    Problems of the place come first, then what its innermost expression holds, if that is a value;
    what functions do Python's own inspection tells.
    """
    cell = read_cell(text)
    if cell is None:
        return ""
    before = text[:cursor]
    line, column = before.count("\n") + 1, cursor - (before.rfind("\n") + 1) + 1
    if line < cell.first:
        return _option(before, text[cursor:])
    found = look(text, namespace)
    return "" if found is None else told_at(found, line, column)


def told_at(found: Look, line: int, column: int) -> str:
    """Return the problems and the value of a place, in words."""
    place = line, column
    parts = [
        f"{problem.severity} {problem.code}: {problem.text}"
        + (f"\nhelp: {problem.help}" if problem.help else "")
        for problem in found.problems
        if (problem.line, problem.column) <= place <= (problem.end_line, problem.end_column)
    ]
    around = [
        seen
        for seen in found.seen
        if (seen.line, seen.column) <= place <= (seen.end_line, seen.end_column)
    ]
    if around:
        inner = min(around, key=lambda s: (s.end_line - s.line, s.end_column - s.column))
        if inner.kind != "function" and inner.text:
            parts.append(inner.text)
    return "\n".join(parts)


def _option(before: str, after: str) -> str:
    """Return what the option does whose flag or value the cursor stands in."""
    word = re.search(r"\S*$", before)
    rest = re.match(r"\S*", after)
    words = before[: word.start() if word else None].split()
    here = (word[0] if word else "") + (rest[0] if rest else "")
    for candidate in (here.partition("=")[0], *reversed(words)):
        for option in options_of("kernel"):
            if candidate and candidate in (option.flag, option.short):
                default = f"\ndefault: {option.default}" if option.default else ""
                example = f"\ne.g. {option.example}" if option.example else ""
                return (
                    f"{option.flag} {option.metavar}".strip()
                    + f"\n{option.meaning}{default}{example}"
                )
        if candidate.startswith("-") and candidate != here:
            break
    return ""
