"""Reading traces back: from .wbt and .json files, and from the outputs of a saved notebook."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from workbench.source import OptionError
from workbench.trace import Trace, TraceError
from workbench.trace.links import problems
from workbench.trace.packing import UNPACKED_BYTES, unpack_whole
from workbench.viewer.output import MIME

Whole = tuple[tuple[Trace, ...], dict[str, Any]]


def read_traces(place: Path | str) -> tuple[Trace, ...]:
    """Return the traces at a place: `a.wbt`, `a.json`, `nb.ipynb`, or `nb.ipynb::matmul`.

    Of a notebook, the outputs of the named kernel are read, the last one without a name. Raises
    OptionError for a place that holds no trace, saying why.
    """
    return read_whole(place)[0]


def read_whole(place: Path | str) -> Whole:
    """Return the traces at a place, and what stands beside them as plain data, not looked at."""
    name, _, kernel = str(place).partition("::")
    path = Path(name).expanduser()
    try:
        content = path.read_bytes()
        if path.suffix == ".ipynb":
            return _whole(_of_notebook(path, content, kernel))
        return _whole(unpack_whole(content))
    except OSError as error:
        raise OptionError(f"{path} cannot be read: {error.strerror}", code="K801") from error
    except TraceError as error:
        raise OptionError(f"{path}: {error}", code="K801") from error


def _whole(found: Whole) -> Whole:
    """Return traces whose parts fit together; raises TraceError for others."""
    for trace in found[0]:
        try:
            wrong = problems(trace)
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise TraceError(f"not a trace: it is damaged ({error})") from error
        if wrong:
            raise TraceError(f"not a trace: it is damaged ({wrong[0]})")
    return found


def _of_notebook(path: Path, content: bytes, kernel: str) -> Whole:
    try:
        envelopes = list(_envelopes(json.loads(content)))
        shown = [_kernels(envelope) for envelope in envelopes]
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        # not JSON, or of another shape
        raise TraceError(f"not a notebook ({error})") from error
    known: list[str] = []
    for envelope, names in zip(reversed(envelopes), reversed(shown), strict=True):
        known += names
        if not kernel or kernel in names:
            return _opened(envelope, path.parent)
    found = ", ".join(dict.fromkeys(reversed(known))) or "none"
    wanted = f"of kernel {kernel!r} " if kernel else ""
    raise TraceError(f"no output {wanted}with a trace; kernels found: {found}")


def _kernels(envelope: dict[str, Any]) -> list[str]:
    return [str(entry.get("name", "")) for entry in envelope["summary"].get("kernels", [])]


def _envelopes(notebook: Any) -> Iterator[dict[str, Any]]:
    for cell in notebook.get("cells", []):
        for output in cell.get("outputs", []):
            envelope = output.get("data", {}).get(MIME)
            if isinstance(envelope, dict) and isinstance(envelope.get("summary"), dict):
                yield envelope


def _beside(folder: Path, name: str) -> Path:
    """Return a plain file below a folder, wherever links in its path lead."""
    try:
        path = (folder / name).resolve()
    except (ValueError, RuntimeError) as error:  # a zero byte, links in a circle
        raise TraceError(f"the trace file {name!r} cannot be found ({error})") from error
    if not path.is_relative_to(folder.resolve()):
        raise TraceError(f"the trace file {name} lies outside the notebook's folder")
    if path.exists() and not path.is_file():  # a pipe would be waited for
        raise TraceError(f"the trace file {name} is no plain file")
    if path.exists() and path.stat().st_size > UNPACKED_BYTES:
        raise TraceError(f"the trace file {name} is larger than {UNPACKED_BYTES:,} bytes")
    return path


def open_envelope(envelope: dict[str, Any], folder: Path) -> tuple[Trace, ...]:
    """Return the traces in an output's JSON; a `ref` is read only below `folder`."""
    return _opened(envelope, folder)[0]


def _opened(envelope: dict[str, Any], folder: Path) -> Whole:
    if isinstance(envelope.get("data"), str):
        try:
            return unpack_whole(base64.b64decode(envelope["data"], validate=True))
        except binascii.Error as error:
            raise TraceError(f"the embedded trace is damaged ({error})") from error
    ref = envelope.get("ref")
    if not isinstance(ref, dict):
        raise TraceError("only the summary was saved; run the cell to see its stages")
    path = _beside(folder, str(ref.get("path", "")))
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != ref.get("sha256"):
        raise TraceError(f"{path.name} is not the file that the output was saved with")
    return unpack_whole(content)
