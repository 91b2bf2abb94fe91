"""Compiled kernels on disk: one directory per key, complete or absent.

    <cache>/v2/<first two digits>/<key>/entry.json   numbers a launch needs, names and checksums
                                        code         what the loader takes
                                        index        the index program, where there is one
                                        trace-<id>   the trace for one place of the source text

An entry is written to a temporary directory and renamed, so readers and other processes see all
of it or nothing. Traces are added to an entry later, when somebody has looked at one: they are
shown, not run, and hold places, which the key does not. Anything unreadable is a warning and
counts as absent. Nothing here knows the compiler.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

FORMAT = 2
PACKAGE = Path(__file__).parent.parent


class CacheWarning(UserWarning):
    """The cache on disk cannot be used; compiling goes on without it."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What one key stores: `data` is plain JSON data, `files` the bytes beside it."""

    data: dict[str, Any]
    files: dict[str, bytes] = field(default_factory=dict[str, bytes])


def directory() -> Path:
    """Return where the cache lies: WORKBENCH_CACHE_DIR, or the platform's place for caches."""
    chosen = os.environ.get("WORKBENCH_CACHE_DIR")
    if chosen:
        return Path(chosen).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "workbench"
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
        return (Path(base) if base else Path.home()) / "workbench" / "cache"
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "workbench"


def enabled() -> bool:
    """Say whether the disk is used at all (WORKBENCH_CACHE_DIR set to nothing turns it off)."""
    return os.environ.get("WORKBENCH_CACHE_DIR", "on") != ""


def make_key(*parts: str) -> str:
    """Return the key of a compilation: a hash over its parts and over what compiles it."""
    digest = hashlib.sha256()
    for part in (compiler_stamp(), *parts):
        digest.update(f"{len(part)}:{part};".encode())
    return digest.hexdigest()


@lru_cache(1)
def compiler_stamp() -> str:
    """Return a text that changes whenever the package, LLVM or Python does.

    The package is known by the sizes and times of its files, so that a checkout that is being
    worked on never runs code of its own past; about 1 ms for a hundred files.
    """
    import llvmlite

    count = total = latest = 0
    waiting = [str(PACKAGE)]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    status = entry.stat()
                    count, total = count + 1, total + status.st_size
                    latest = max(latest, status.st_mtime_ns)
                elif entry.name not in ("__pycache__", "static", "labextension") and entry.is_dir():
                    waiting.append(entry.path)
    python = sys.implementation.cache_tag
    return f"{FORMAT} {count} {total} {latest} llvmlite {llvmlite.__version__} {python}"


def load(key: str) -> Entry | None:
    """Return the entry of a key, None if there is none or it is damaged (then with a warning)."""
    if not enabled():
        return None
    place = _place(key)
    try:
        text = (place / "entry.json").read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        _warn(f"cannot read {place}: {error.strerror or error}")
        return None
    try:
        return _read(place, text)
    except (OSError, ValueError, KeyError, TypeError) as error:
        _warn(f"{place} is damaged ({error}); the kernel is compiled again")
        shutil.rmtree(place, ignore_errors=True)
        return None


def _read(place: Path, text: bytes) -> Entry:
    stored = json.loads(text)
    data, sums = stored["data"], stored["checksums"]
    if hashlib.sha256(_dump(data)).hexdigest() != stored["checksum"]:
        raise ValueError("entry.json has another checksum")
    files: dict[str, bytes] = {}
    for name, checksum in sums.items():
        files[name] = (place / name).read_bytes()
        if hashlib.sha256(files[name]).hexdigest() != checksum:
            raise ValueError(f"{name} has another checksum")
    return Entry(data, files)


def store(key: str, entry: Entry) -> bool:
    """Write an entry; False and a warning where that is not possible."""
    if not enabled():
        return False
    place = _place(key)
    sums = {name: hashlib.sha256(data).hexdigest() for name, data in entry.files.items()}
    stored = {
        "data": entry.data,
        "checksums": sums,
        "checksum": hashlib.sha256(_dump(entry.data)).hexdigest(),
    }
    made: str | None = None
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        made = tempfile.mkdtemp(prefix=".new-", dir=place.parent)
        for name, data in entry.files.items():
            (Path(made) / name).write_bytes(data)
        (Path(made) / "entry.json").write_bytes(_dump(stored))
        _publish(Path(made), place)
    except OSError as error:
        _warn(f"cannot write {place.parent}: {error.strerror or error}")
        return False
    finally:
        if made is not None:
            shutil.rmtree(made, ignore_errors=True)
    return True


def _publish(made: Path, place: Path) -> None:
    """Move a finished directory to its name; another process may have been first."""
    try:
        made.rename(place)
    except OSError:
        if not (place / "entry.json").exists():  # a leftover that is no entry
            shutil.rmtree(place, ignore_errors=True)
            made.rename(place)


def load_trace(key: str, place_id: str) -> bytes | None:
    """Return the packed trace that was stored for one place of the source text, or None."""
    if not enabled():
        return None
    try:
        return (_place(key) / f"trace-{place_id}").read_bytes()
    except OSError:
        return None


def store_trace(key: str, place_id: str, packed: bytes) -> None:
    """Add a trace to an entry that exists; what cannot be written is left out silently.

    A trace is only ever a shortcut to compiling again for it.
    """
    place = _place(key)
    if not enabled() or not (place / "entry.json").exists():
        return
    try:
        with tempfile.NamedTemporaryFile(dir=place, prefix=".trace-", delete=False) as file:
            file.write(packed)
        Path(file.name).replace(place / f"trace-{place_id}")
    except OSError:
        return


def clear() -> int:
    """Remove every stored entry; returns how many there were."""
    root = directory() / f"v{FORMAT}"
    count = sum(1 for _ in root.glob("*/*/entry.json"))
    shutil.rmtree(root, ignore_errors=True)
    return count


def usage() -> tuple[int, int]:
    """Return (entries, bytes) on disk."""
    root = directory() / f"v{FORMAT}"
    sizes = [file.stat().st_size for file in root.glob("*/*/*") if file.is_file()]
    return sum(1 for _ in root.glob("*/*/entry.json")), sum(sizes)


def _place(key: str) -> Path:
    return directory() / f"v{FORMAT}" / key[:2] / key[2:]


def _dump(data: Mapping[str, Any]) -> bytes:
    return json.dumps(data, sort_keys=True, separators=(",", ":")).encode()


_warned: set[str] = set()


def _warn(text: str) -> None:
    if text not in _warned:
        _warned.add(text)
        warnings.warn(f"kernel cache: {text}", CacheWarning, stacklevel=4)
