"""Find a kernel on the command line: `file.py::kernel` or `notebook.ipynb::kernel`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from workbench.magics.body import device_functions, execute, last_language_user
from workbench.magics.cells import MAGIC, is_kernel, offer_names
from workbench.magics.grammar import split_cell
from workbench.source import OptionError


def load_kernel(place: str) -> tuple[Any, dict[str, Any]]:
    """Return the kernel at a place, and the namespace of the file or notebook it stands in.

    The file is executed as a module that is not `__main__`, with imports of triton resolved to
    ours; of a notebook, all cells are, without their magics. Raises OptionError K103 or K131.
    """
    name, _, wanted = place.partition("::")
    path = Path(name).expanduser()
    try:
        content = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"{path} cannot be read: {error}", code="K103") from error
    namespace: dict[str, Any] = {"__name__": path.stem, "__file__": str(path)}
    offer_names(namespace)
    sys.path.insert(0, str(path.parent.resolve()))
    found: dict[str, Any] = {}
    try:
        for number, text in enumerate(_texts(path, content), 1):
            file = str(path) if path.suffix != ".ipynb" else f"{path}[{number}]"
            found |= _kernels(text, file, namespace)
    finally:
        sys.path.pop(0)
    return _choose(found, wanted, path), namespace


def _texts(path: Path, content: str) -> list[str]:
    """Return the file's text, or the bodies of a notebook's code cells."""
    if path.suffix != ".ipynb":
        return [content]
    try:
        cells = json.loads(content)["cells"]
    except (ValueError, KeyError, TypeError) as error:
        raise OptionError(f"{path} is not a notebook: {error}", code="K103") from error
    texts = ["".join(cell.get("source", "")) for cell in cells if cell.get("cell_type") == "code"]
    return [_without_magics(text) for text in texts]


def _without_magics(text: str) -> str:
    if text.startswith(MAGIC):
        line, _, rest = text.partition("\n")
        return split_cell(line.removeprefix(MAGIC), rest)[1]
    if text.startswith("%%"):
        return ""
    lines = text.splitlines()
    return "\n".join("" if _is_magic(line) else line for line in lines)


def _is_magic(line: str) -> bool:
    start = line.lstrip()
    _, equals, right = start.partition("= ")
    return start.startswith(("%", "!")) or (bool(equals) and right.startswith(("%", "!")))


def _kernels(text: str, file: str, namespace: dict[str, Any]) -> dict[str, Any]:
    body = execute(text, text, 1, file, namespace)
    found = {name: value for name, value in body.bound.items() if is_kernel(value)}
    if found or last_language_user(body.tree) is None:
        return found
    from workbench.runtime.jit import jit

    for name in device_functions(body.tree):
        namespace[name] = found[name] = jit(namespace[name])
    return found


def _choose(found: dict[str, Any], wanted: str, path: Path) -> Any:
    if wanted in found:
        return found[wanted]
    if not wanted and found:
        return list(found.values())[-1]
    known = ", ".join(found) or "none"
    missing = f"no kernel '{wanted}'" if wanted else "no kernel"
    raise OptionError(f"{path} defines {missing}; kernels there: {known}", code="K131")
