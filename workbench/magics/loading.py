"""Find a kernel on the command line: `file.py::kernel` or `notebook.ipynb::kernel`."""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path
from typing import Any

from workbench.magics.body import device_functions, execute, last_entry
from workbench.magics.cells import MAGIC, offer_names
from workbench.magics.grammar import split_cell
from workbench.magics.naming import is_kernel
from workbench.source import KernelError, KernelSource, OptionError, Span


def load_kernel(place: str) -> tuple[Any, dict[str, Any]]:
    """Return the kernel at a place, and the namespace of the file or notebook it stands in.

    The file is executed as a module that is not `__main__`, with imports of triton resolved to
    ours; of a notebook, the cells up to the kernel's are, without their magics. Raises OptionError
    K103 or K131.
    """
    name, _, wanted = place.partition("::")
    path = Path(name).expanduser()
    found, namespace = _executed(path, wanted)
    return _choose(found, wanted, path), namespace


def kernels_of(name: str) -> dict[str, KernelSource]:
    """Return the kernels that a file or notebook defines; it is executed, as by `load_kernel`."""
    found, _ = _executed(Path(name).expanduser(), "")
    return {name: kernel.kernel_source for name, kernel in found.items()}


def _executed(path: Path, wanted: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the kernels of a file, and its namespace."""
    try:
        content = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"{path} cannot be read: {error}", code="K103") from error
    namespace: dict[str, Any] = {"__name__": path.stem, "__file__": str(path)}
    offer_names(namespace)
    sys.path.insert(0, str(path.parent.resolve()))
    found: dict[str, Any] = {}
    try:
        for number, text in enumerate(_texts(path, content, wanted), 1):
            file = str(path) if path.suffix != ".ipynb" else f"{path}[{number}]"
            found |= _kernels(text, file, namespace)
            if wanted in found:
                break
    except KernelError:
        raise
    except Exception as error:
        raise _failed(path, error) from error
    finally:
        sys.path.pop(0)
    return found, namespace


def _failed(path: Path, error: Exception) -> OptionError:
    """Return the error for a file that raises when it is executed, with the line that did."""
    frames = [
        f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith(str(path))
    ]
    span = None
    if frames and frames[-1].lineno is not None:
        line, text = frames[-1].lineno, frames[-1].line or ""
        span = Span(frames[-1].filename, line, 1, line, len(text) + 1)
    return OptionError(f"{path} raised {type(error).__name__}: {error}", span, code="K103")


def _texts(path: Path, content: str, wanted: str) -> list[str]:
    """Return the file's text, or the bodies of a notebook's code cells, up to the last kernel's."""
    if path.suffix != ".ipynb":
        return [content]
    texts = code_cells(path, content)
    last = max((n for n, text in enumerate(texts, 1) if text.startswith(MAGIC)), default=len(texts))
    return [without_magics(text) for text in texts[: None if wanted else last]]


def code_cells(path: Path, content: str) -> list[str]:
    """Return the texts of a notebook's code cells; raises OptionError K103 for what is none."""
    try:
        cells = json.loads(content)["cells"]
        return ["".join(cell.get("source", "")) for cell in cells if cell["cell_type"] == "code"]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise OptionError(f"{path} is not a notebook: {error}", code="K103") from error


def without_magics(text: str) -> str:
    """Return a cell as plain Python, line for line but for the line of `%%kernel`."""
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
    entry = last_entry(body.tree, found)
    if entry is not None:  # helpers may stand below it
        found[entry] = found.pop(entry)
    if found or last_entry(body.tree) is None:
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
