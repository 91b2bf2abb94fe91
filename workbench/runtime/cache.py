"""Compiled kernels and what else is kept on disk: one signed file per key, whole or absent.

    <cache>/v3/<key>              an entry: plain data, and the code as bytes
               <key>.trace-<id>   the trace for one place of the source text
               file-<hash>        what programs keep through Triton's cache manager

Files are written under another name and renamed, so readers and other processes see all of one or
nothing. They are read once, checked (`signing.py`), and those very bytes are used. What is damaged
or was signed by somebody else is a warning, counts as absent and is replaced. Traces are added to
an entry later, when somebody has looked at one: they are shown, not run, and hold places, which the
key does not. Which folders are used at all, `tiers.py` decides. Nothing here knows the compiler.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from workbench.runtime import tiers
from workbench.runtime.folders import (
    EVERYBODY,
    UNFINISHED,
    DistrustError,
    Folder,
    inner,
    open_folder,
)
from workbench.runtime.signing import DamagedError, ForeignError, seal, unseal
from workbench.runtime.tiers import FOLDER, FORMAT, CacheWarning, Tier, warn
from workbench.source import OptionError
from workbench.source.given import instance

__all__ = [
    "CacheWarning", "Entry", "clear", "compiler_stamp", "directory", "enabled", "load",
    "load_trace", "make_key", "merge", "refuse", "store", "store_trace", "trusted", "usage",
]  # fmt: skip

PACKAGE = Path(__file__).parent.parent
#: Folders of the package that nothing stored here depends on: what shows, times or calls.
_NO_COMPILERS = frozenset({"__pycache__", "static", "labextension", "viewer", "magics", "bench"})
_KEY = re.compile(r"(file-)?[0-9a-f]{64}")
_NAME = re.compile(r"(file-)?[0-9a-f]{64}(\.trace-[0-9a-f]+)?")
#: After so many seconds nobody is still writing a file.
_ABANDONED = 3600.0


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
    digest = sha256()
    for part in (compiler_stamp(), *parts):
        digest.update(f"{len(part)}:{part};".encode())
    return digest.hexdigest()


@lru_cache(1)
def compiler_stamp() -> str:
    """Return a text that changes whenever what compiles and launches, LLVM or Python does.

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
                elif entry.name not in _NO_COMPILERS and entry.is_dir():
                    waiting.append(entry.path)
    python = sys.implementation.cache_tag
    return f"{FORMAT} {count} {total} {latest} llvmlite {llvmlite.__version__} {python}"


def load(key: str, root: Path | None = None) -> Entry | None:
    """Return the entry of a key, None if there is none or it is damaged (then with a warning).

    `root` is another cache than `directory()`.
    """
    if not enabled():
        return None
    for tier in tiers.tiers(root or directory()):
        content = _content(tier, key)
        if content is None:
            continue
        try:
            return _decode(content)
        except DamagedError as error:
            _discard(tier, key, error)
    return None


def refuse(key: str, why: object) -> None:
    """Remove an entry whose data nobody can use, with a warning."""
    for tier in tiers.tiers(directory()):
        if tier.folder.has(key):
            _discard(tier, key, why)


def store(key: str, entry: Entry, root: Path | None = None) -> bool:
    """Write an entry in place of what is there; False and a warning where that is not possible."""
    return enabled() and _write(key, _encode(entry), root or directory())


def load_trace(key: str, place_id: str) -> bytes | None:
    """Return the packed trace that was stored for one place of the source text, or None."""
    if not enabled():
        return None
    found = (_content(tier, f"{key}.trace-{place_id}") for tier in tiers.tiers(directory()))
    return next((bytes(content) for content in found if content is not None), None)


def store_trace(key: str, place_id: str, packed: bytes) -> None:
    """Add a trace to an entry that exists; what cannot be written is left out silently.

    A trace is only ever a shortcut to compiling again for it.
    """
    tier = tiers.own(directory()) if enabled() else None
    if tier is not None and tier.secret is not None and tier.folder.has(key):
        name = f"{key}.trace-{place_id}"
        with suppress(OSError):
            tier.folder.write(name, seal(name, packed, tier.secret))


def clear() -> int:
    """Remove everything that is stored; returns how many entries there were."""
    tier = tiers.own(directory())
    if tier is None:
        return 0
    names = [name for name, _ in tier.folder.files()]
    for name in names:
        with suppress(OSError):
            tier.folder.remove(name)
    return sum(_KEY.fullmatch(name) is not None for name in names)


def usage() -> tuple[int, int]:
    """Return (entries, bytes) on disk."""
    tier = tiers.own(directory())
    if tier is None:
        return 0, 0
    found = [(name, status.st_size) for name, status in tier.folder.files()]
    entries = sum(_KEY.fullmatch(name) is not None for name, _ in found)
    return entries, sum(size for _, size in found)


def trusted() -> list[str]:
    """Return what may be run from the disk, one line for each folder."""
    return tiers.trusted(directory())


def merge(folder: str | Path) -> int:
    """Take over the entries of another cache folder: they are trusted like our own from now on.

    Whoever wrote that folder can have put any code there, and it will run as you. The sums of the
    entries are checked, then they are signed with our secret; entries that we have are left alone,
    damaged ones are left out with a warning. An entry is used by the very installation of workbench
    that made it, and on the same kind of machine.

    Args:
        folder: what WORKBENCH_CACHE_DIR was where they were made; our own folder where its secret
            was lost.

    Returns how many entries were taken over. Raises OptionError for a folder that holds none.
    """
    own = tiers.own(directory()) if enabled() else None
    if own is None:
        raise OptionError("the kernel cache is off", code="K806", hint="set WORKBENCH_CACHE_DIR")
    given = instance(folder, str | os.PathLike, "folder is a path", 'e.g. "/srv/kernels"')
    path = Path(given).expanduser()
    try:
        opened = inner(open_folder(path, make=False, shared_by=EVERYBODY), FOLDER, make=False)
        names = sorted(name for name, _ in opened.files() if _NAME.fullmatch(name))
    except (OSError, DistrustError) as error:
        better = f": {path.parent}" if path.name == FOLDER else ""
        raise OptionError(
            f"{path} holds no kernel cache of this version ({tiers.reason(error)})",
            code="K806",
            hint=f"give the folder that has {FOLDER} in it{better}",
        ) from error
    return sum(_take_over(opened, name, own) for name in names)


def _take_over(other: Folder, name: str, own: Tier) -> bool:
    """Sign a file of another cache unless we have it; says whether an entry was added."""
    assert own.secret is not None
    with suppress(OSError, DistrustError, DamagedError):
        unseal(name, own.folder.read(name), own.secret)
        return False
    is_entry = _KEY.fullmatch(name) is not None
    try:
        content = unseal(name, other.read(name), None)
        if is_entry:
            _decode(content)
        own.folder.write(name, seal(name, bytes(content), own.secret))
    except (OSError, DistrustError, DamagedError) as error:
        warn(f"{other.path / name} is not taken over: {error}")
        return False
    return is_entry


# -- entries as bytes -------------------------------------------------------------------------
def _encode(entry: Entry) -> bytes:
    """Return the length of the plain data, the data with names and sizes of files, the files."""
    sizes = [[name, len(content)] for name, content in entry.files.items()]
    head = json.dumps({"data": entry.data, "files": sizes}, separators=(",", ":")).encode()
    return b"".join((len(head).to_bytes(8, "little"), head, *entry.files.values()))


def _decode(content: memoryview) -> Entry:
    at = 8 + int.from_bytes(content[:8], "little")
    files: dict[str, bytes] = {}
    try:
        head = json.loads(bytes(content[8:at]))
        data: dict[str, Any] = dict(head["data"])
        for name, size in head["files"]:
            files[str(name)] = bytes(content[at : at + size])
            at += size
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamagedError(f"it holds no entry: {error}") from error
    if at != len(content):
        raise DamagedError("it has another length than it says")
    return Entry(data, files)


def _content(tier: Tier, name: str) -> memoryview | None:
    """Return the checked bytes of a file, None where there are none that can be used."""
    try:
        return unseal(name, tier.folder.read(name), tier.secret)
    except FileNotFoundError:
        return None
    except ForeignError as error:
        _discard(tier, name, error, "an entry")
    except (DamagedError, DistrustError) as error:
        _discard(tier, name, error)
    except OSError as error:
        warn(f"cannot read {tier.folder.path / name}: {error.strerror or error}")
    return None


def _discard(tier: Tier, name: str, why: object, what: str = "an entry") -> None:
    """Say once what is wrong with a file, and remove it where we may."""
    warn(f"{what} of {tier.folder.path} is damaged ({why}); it is made again")
    if tier.secret is not None:
        with suppress(OSError):
            tier.folder.remove(name)


def _write(name: str, content: bytes, place: Path) -> bool:
    tier: Tier | None = None
    for _ in range(2):
        tier = tiers.own(place)
        if tier is None or tier.secret is None:
            return False
        try:
            _sweep(tier)
            tier.folder.write(name, seal(name, content, tier.secret))
        except FileNotFoundError:  # somebody has removed the folder
            tiers.forget(tier)
        except OSError as error:
            warn(f"cannot write {tier.folder.path}: {error.strerror or error}")
            return False
        else:
            return True
    assert tier is not None
    warn(f"cannot write {tier.folder.path}: it is removed all the time")
    return False


def _sweep(tier: Tier) -> None:
    """Remove, once in a process, what processes that were ended had begun to write."""
    if tier.is_swept:
        return
    tier.is_swept = True
    now = time.time()
    for name, status in list(tier.folder.files()):
        if name.startswith(UNFINISHED) and now - status.st_mtime > _ABANDONED:
            with suppress(OSError):
                tier.folder.remove(name)
