"""Writes the page that lists every name of the language: `python -m workbench.language.reference`.

The tables in README.md beside this file are made of the table of names and the docstrings.
"""

from __future__ import annotations

import enum
import importlib
import inspect
from collections.abc import Iterable
from pathlib import Path

import workbench.language as tl
from workbench.language.dtypes import dtype
from workbench.language.table import BUILTINS, LIBDEVICE, NAMES, ONLY_RAISES, Name

PAGE = Path(__file__).with_name("README.md")
START, END = "<!-- names: start -->\n", "<!-- names: end -->\n"


def page() -> str:
    """Return README.md with its tables as they should be."""
    before, rest = PAGE.read_text().split(START)
    _, after = rest.split(END)
    return f"{before}{START}{tables()}{END}{after}"


def tables() -> str:
    """Return the tables as Markdown: one per family of names."""
    parts: list[str] = []
    families = dict.fromkeys(row.family for row in NAMES.values())
    for family in families:
        rows = [row for row in NAMES.values() if row.family == family]
        parts.append(f"### {family.replace('_', ' ').capitalize()}\n\n{_about(family)}\n")
        parts.append("| name | what it is |\n|---|---|")
        parts += [_row(row) for row in rows]
        parts.append("")
    parts.append("### Functions of `tl.extra.libdevice`\n")
    parts.append(_words(LIBDEVICE) + "\n")
    parts.append("### Names that only raise\n")
    parts.append("They are here, and say what to do instead when they are used.\n")
    parts += [f"- `{name}`: {instead}" for name, instead in sorted(only_raising().items())]
    parts.append("")
    return "\n".join(parts)


def only_raising() -> dict[str, str]:
    """Return the names of Triton that only raise, with what to do; host names are loaded first."""
    importlib.import_module("workbench.triton")
    return ONLY_RAISES


def _words(names: Iterable[str]) -> str:
    return " ".join(f"`{name}`" for name in names)


def _about(family: str) -> str:
    """Return the first paragraph of a family's file."""
    about = _first(importlib.import_module(f"workbench.language.{family}").__doc__)
    return about.replace("(README.md, rule", "(rule")


def _first(text: str | None) -> str:
    paragraph = inspect.cleandoc(text or "").partition("\n\n")[0]
    return " ".join(paragraph.split()).replace("|", "\\|")


def _row(row: Name) -> str:
    found = getattr(tl, row.name, None)
    function = BUILTINS.get(row.name)
    if function is not None:
        parameters = inspect.signature(function).parameters.values()
        shown = f"{row.name}({', '.join(map(_parameter, parameters))})"
        if getattr(tl, row.name, None) is None:
            shown = f"x.{shown.replace('(self)', '()')}"
        return f"| `{shown}`{' ·' if row.method else ''} | {_first(function.__doc__)} |"
    if isinstance(found, dtype):
        return f"| `{row.name}` | {_described(found)} |"
    return f"| `{row.name}` | {_first(getattr(found, '__doc__', None))} |"


def _parameter(parameter: inspect.Parameter) -> str:
    if parameter.default is parameter.empty:
        return (
            f"*{parameter.name}" if parameter.kind is parameter.VAR_POSITIONAL else parameter.name
        )
    default = parameter.default
    if isinstance(default, dtype):
        return f"{parameter.name}={default.spelling}"
    return f"{parameter.name}={default if isinstance(default, enum.Enum) else repr(default)}"


def _described(found: dtype) -> str:
    if found.is_floating():
        return f"{found.primitive_bitwidth}-bit float"
    kind = "unsigned integer" if found.is_int_unsigned() else "signed integer"
    return f"{found.primitive_bitwidth}-bit {kind}" if found.primitive_bitwidth > 1 else "bool"


if __name__ == "__main__":
    PAGE.write_text(page())
