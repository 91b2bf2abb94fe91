"""What an instruction, an op or a compile option is called and does.

From the table in instructions.txt, ops' docstrings and the table of options. A word is looked up as
it is written in a listing: `HMMA.16816.F32`, `cp.async.cg.shared.global`, `tile.dot`; an option as
a launch takes it: `num_stages`. Works without IPython, and reads nothing before it is asked.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from workbench.ir import MNEMONICS
from workbench.launch.options import SHORT_FORMS
from workbench.source.compile_options import compile_option
from workbench.trace import Trace
from workbench.trace.links import ops_of_rows

#: What `Entry.language` is of a compile option, which no listing has.
OPTION = "option"
_TABLE = Path(__file__).with_name("instructions.txt")
_TITLES = {
    "ptx": "PTX", "sass": "SASS", "tile": "tile IR", "gpu": "GPU IR", OPTION: "compile option",
}  # fmt: skip
#: The first word of an instruction's row, behind what may stand before it.
_SASS = re.compile(
    r"^\s*/\*[0-9a-f]{4,}\*/\s*(?:\{\s*)?(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*(?:\.\w+)*)"
)
_PTX = re.compile(r"^\s*(?:\{\s*)?(?:@!?%?\w+\s+)?([a-z][a-z0-9_]*(?:[.:]+\w+)*)(?=[\s;]|$)")

#: What stands between an instruction's name and its modifiers.
_PARTS = re.compile(r"[.:]+")


@dataclass(frozen=True, slots=True)
class Entry:
    """One name and what it does; `modifiers` are those of the word that was asked for."""

    language: str
    mnemonic: str
    operands: str
    text: str
    modifiers: tuple[tuple[str, str], ...] = ()

    def render(self, word: str) -> str:
        """Return the entry as text for a word as it was written."""
        head = f"{word} ({_TITLES.get(self.language, self.language)})"
        lines = [f"{head}  {self.mnemonic} {self.operands}".rstrip(), f"  {self.text}"]
        lines += [f"  {name}  {meaning}" for name, meaning in self.modifiers]
        return "\n".join(lines)

    def data(self) -> dict[str, Any]:
        """Return the entry as plain data."""
        return {**asdict(self), "modifiers": dict(self.modifiers)}


@cache
def _table() -> dict[tuple[str, str], Entry]:
    """Return the rows of the table by language and name; modifiers by "ptx." and "sass."."""
    found: dict[tuple[str, str], Entry] = {}
    for line in _TABLE.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            language, mnemonic, operands, text = (part.strip() for part in line.split("|"))
            found[language, mnemonic] = Entry(language, mnemonic, operands, text)
    return found


def instruction(language: str, word: str) -> Entry | None:
    """Return what an instruction does, by the longest prefix that is known; None: unknown.

    >>> instruction("sass", "HMMA.16816.F32").mnemonic
    'HMMA'
    >>> instruction("ptx", "cp.async.commit_group").mnemonic
    'cp.async.commit_group'
    """
    table = _table()
    parts = _PARTS.split(word)
    for count in range(len(parts), 0, -1):
        entry = table.get((language, ".".join(parts[:count])))
        if entry is not None:
            names = (f".{part}" for part in dict.fromkeys(parts[count:]))
            rows = ((name, table.get((f"{language}.", name))) for name in names)
            known = tuple((name, row.text) for name, row in rows if row is not None)
            return Entry(language, entry.mnemonic, entry.operands, entry.text, known)
    return None


def op(word: str) -> Entry | None:
    """Return what an op of the IR is, from its docstring; None: there is no such op."""
    cls = MNEMONICS.get(word)
    if cls is None:
        return None
    text = inspect.cleandoc(cls.__doc__ or "").replace("\n", "\n  ").replace("\n  \n", "\n\n")
    return Entry(word.partition(".")[0], word, "", text)


def option(word: str) -> Entry | None:
    """Return what a compile option does, and what it is where nobody asks; None: there is none."""
    name = SHORT_FORMS.get(word, word)
    found = compile_option(name)
    if found is None:
        return None
    default = "" if found.default is None else f"(default: {found.default})"  # the text has it
    return Entry(OPTION, name, default, found.text)


def look_up(word: str) -> Entry | None:
    """Return what a word means: an op, a compile option, an instruction of PTX or SASS."""
    if (found := op(word) or option(word)) is not None:
        return found
    order = ("sass", "ptx") if word[:1].isupper() else ("ptx", "sass")
    for language in order:
        for spelled in (word, word.lower() if language == "ptx" else word.upper()):
            if (found := instruction(language, spelled)) is not None:
                return found
    return None


def mnemonics(language: str, text: str) -> list[str | None]:
    """Return the instruction of each row of a listing, with its modifiers; None where is none."""
    pattern = _SASS if language == "sass" else _PTX
    found: list[str | None] = []
    for line in text.splitlines():
        match = None
        if language == "sass" or not line.lstrip().startswith((".", "//", "$", "}")):
            match = pattern.match(line)
        found.append(match.group(1) if match else None)
    return found


def occurrences(trace: Trace, language: str, mnemonic: str, word: str = "") -> str:
    """Return where an instruction or op occurs in a trace, as a sentence; empty where it does not.

    A row counts where its first word is the mnemonic, with the modifiers of `word` at least. Where
    only others occur, the sentence names them.
    """
    stage = trace.stage(language)  # type: ignore[arg-type]
    text = trace.text(language)  # type: ignore[arg-type]
    if stage is None or not text:
        return ""
    if language in ("ptx", "sass"):
        words = mnemonics(language, text)
    else:
        words = [mnemonic if f"{mnemonic} " in f"{row} " else None for row in text.splitlines()]
    rows = [n for n, w in enumerate(words) if w and f"{w}.".startswith(f"{mnemonic}.")]
    if not rows:
        return ""
    head = f"in {trace.kernel.name} for {trace.kernel.target}:"
    asked = Counter(_PARTS.split(word.lower())) - Counter(_PARTS.split(mnemonic.lower()))
    exact = [n for n in rows if asked <= Counter(_PARTS.split((words[n] or "").lower()))]
    if not exact:
        others = Counter(words[n] for n in rows).most_common(4)
        return f"{head} no {word}, but " + ", ".join(f"{one} ({_rows(n)})" for one, n in others)
    rows = exact
    known = dict(zip(trace.ops.id, trace.ops.loc, strict=True))
    ops = ops_of_rows(stage.rows, len(words))
    places = Counter(
        known[one][1] for n in rows for one in ops[n][:1] if one in known and known[one][0] == 0
    )
    lines = ", ".join(str(line) for line, _ in sorted(places.items())[:12])
    where = f", from line{'s' * (len(places) > 1)} {lines}" if lines else ""
    return f"{head} {_rows(len(rows))}{where}"


def _rows(count: int) -> str:
    return f"{count} row{'s' * (count != 1)}"


def typescript() -> str:
    """Return extension/src/instructions.ts: the same table for the viewer's tooltips."""
    rows = [
        f"{entry.language} | {entry.mnemonic} | {entry.operands} | {entry.text}"
        for entry in _table().values()
    ]
    for word in sorted(MNEMONICS):
        first = inspect.cleandoc(MNEMONICS[word].__doc__ or "").partition("\n")[0]
        rows.append(f"ir | {word} | | {first}")
    text = "\n".join(rows).replace("\\", "\\\\").replace("`", "\\`").replace("${", "\\${")
    return (
        "// Written by python -m workbench.magics.glossary: what instructions and ops do.\n"
        f"export const TABLE = `\n{text}\n`;\n"
    )


if __name__ == "__main__":
    import sys

    sys.stdout.write(typescript())
