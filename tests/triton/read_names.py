"""Writes workbench/triton/names.json: the public names of each Triton version, read from its wheel.

    for v in 3.6.0 3.7.1 3.8.0 3.9.0; do pip download triton==$v --no-deps -d WHEELS; done
    python tests/triton/read_names.py WHEELS

A wheel is read as text (zipfile and ast); nothing of it is installed, imported or run. What
counts: names without an underscore that a module binds at its top level, by a definition, an
assignment or an import from Triton itself, and the files of a package. Not: what it imports from
elsewhere (`os`, `Any`), and Gluon, which is another language. The data file holds the modules of
the first version and of each later one what was added and what was taken away.
"""

from __future__ import annotations

import ast
import json
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

DATA = Path(__file__).parents[2] / "workbench" / "triton" / "names.json"

#: Modules that are read; a package's own files are names of it.
MODULES = (
    "triton", "triton.language", "triton.language.math", "triton.language.extra",
    "triton.language.extra.cuda", "triton.language.extra.cuda.gdc",
    "triton.language.extra.cuda.libdevice", "triton.language.extra.cuda.utils",
    "triton.language.extra.hip", "triton.language.extra.hip.libdevice",
    "triton.language.extra.hip.utils", "triton.language.extra.libdevice",
    "triton.language.target_info", "triton.runtime", "triton.compiler", "triton.testing",
    "triton.tools", "triton.knobs", "triton.errors",
)  # fmt: skip

#: Another language (Gluon, with its translator) and what is not the package's to give.
APART = {"experimental", "triton_to_gluon_translater", "triton_to_gluon_translator"}


class Wheel:
    """The sources of one version, by module."""

    def __init__(self, path: Path) -> None:
        self.version = path.name.split("-")[1]
        self.texts: dict[str, str] = {}
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                if re.fullmatch(r"triton/.*\.py", name):
                    self.texts[name] = archive.read(name).decode()

    def file(self, module: str) -> str:
        """Return the file of a module."""
        stem = module.replace(".", "/")
        return f"{stem}/__init__.py" if f"{stem}/__init__.py" in self.texts else f"{stem}.py"

    def names(self, module: str) -> list[str]:
        """Return a module's public names in order."""
        found = {name for name in self._bound(module) if not name.startswith("_")}
        file = self.file(module)
        if file.endswith("__init__.py"):
            found |= self._files(file.removesuffix("__init__.py"))
        return sorted(found - APART)

    def _files(self, folder: str) -> set[str]:
        rest = (name.removeprefix(folder) for name in self.texts if name.startswith(folder))
        inner = {re.fullmatch(r"([a-z]\w*)(?:/__init__)?\.py", name) for name in rest}
        return {match[1] for match in inner if match}

    def _bound(self, module: str) -> set[str]:
        found: set[str] = set()
        for node in _top_level(ast.parse(self.texts[self.file(module)]).body):
            match node:
                case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                    found.add(name)
                case ast.Import(names=names):
                    own = [n for n in names if n.name.partition(".")[0] == "triton"]
                    found |= {n.asname or n.name.partition(".")[0] for n in own}
                case ast.ImportFrom(names=names):
                    found |= self._imported(node, names, module)
                case ast.Assign(targets=targets):
                    found |= {n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)}
                case ast.AnnAssign(target=ast.Name(id=name)):
                    found.add(name)
                case _:
                    pass
        return found

    def _imported(self, node: ast.ImportFrom, names: list[ast.alias], module: str) -> set[str]:
        source = node.module or ""
        if node.level:
            parts = module.split(".")
            inside = self.file(module).endswith("__init__.py")
            base = parts[: len(parts) - node.level + inside]
            source = ".".join([*base, *([source] if source else [])])
        if source.partition(".")[0] != "triton":
            return set()
        if any(n.name == "*" for n in names):
            return self._bound(source)
        return {n.asname or n.name for n in names}


def _top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield a module's statements, those inside `if`, `try` and `with` too."""
    for node in body:
        match node:
            case ast.If(body=inner, orelse=other):
                test = ast.unparse(node.test)
                yield from () if test == "TYPE_CHECKING" else _top_level(inner)
                yield from _top_level(other)
            case ast.Try(body=inner, handlers=handlers, orelse=other):
                yield from _top_level(inner)
                yield from _top_level(other)
                for handler in handlers:
                    yield from _top_level(handler.body)
            case ast.With(body=inner):
                yield from _top_level(inner)
            case _:
                yield node


def read(wheels: Path) -> dict[str, dict[str, object]]:
    """Return the data of all wheels in a folder, by version."""
    found: dict[str, dict[str, object]] = {}
    before: dict[str, list[str]] = {}
    for path in sorted(wheels.glob("triton-3.*.whl")):
        wheel = Wheel(path)
        now = {module: wheel.names(module) for module in MODULES}
        if not before:
            found[wheel.version] = {"names": now}
        else:
            found[wheel.version] = {
                word: {
                    module: names
                    for module in MODULES
                    if (names := sorted(set(a[module]) - set(b[module])))
                }
                for word, a, b in (("added", now, before), ("removed", before, now))
            }
        before = now
    return found


if __name__ == "__main__":
    DATA.write_text(json.dumps(read(Path(sys.argv[1])), indent=1) + "\n")
