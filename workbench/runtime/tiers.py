"""Which folders the cache uses, and why they may be trusted.

| tier | which | trusted because |
|------|-------|-----------------|
| own | WORKBENCH_CACHE_DIR, or the platform's place | only we can write it; it is signed |
| of this process | a fresh folder, where that does not hold | nobody else can reach it |
| shared | WORKBENCH_SHARED_CACHE=OWNER:/path, only read | only root, we and OWNER can write it |

Folders stay open: what a path means later does not matter, except where the folder itself has gone.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench.interrupts import renewed_lock
from workbench.runtime.folders import (
    DistrustError,
    Folder,
    inner,
    name_of,
    open_folder,
    private_folder,
    us,
)
from workbench.runtime.signing import SECRET_BYTES, read_secret, secret_file
from workbench.source.warning import warn_user

FORMAT = 3
#: Where the files of this format lie in a cache's folder.
FOLDER = f"v{FORMAT}"
SHARED = "WORKBENCH_SHARED_CACHE"
#: So many folders are kept open.
_MOST_OPEN = 8


class CacheWarning(UserWarning):
    """The cache on disk cannot be used; compiling goes on without it."""


@dataclass(slots=True)
class Tier:
    """An open folder of the cache.

    Attributes:
        folder: the folder.
        secret: what its files are signed with; None where others signed them: only read.
        owner: who else is trusted to write it.
        problem: why this is not the folder that was asked for.
        is_swept: whether this process has looked for what others left unfinished.
    """

    folder: Folder
    secret: bytes | None
    owner: str = ""
    problem: str = ""
    is_swept: bool = False


_opened: dict[tuple[Any, ...], Tier | None] = {}
_UNKNOWN: Any = object()
_lock = renewed_lock()
_warned: set[str] = set()


def warn(text: str) -> None:
    """Say something about the cache, once in a process."""
    if text not in _warned:
        _warned.add(text)
        warn_user(f"kernel cache: {text}", CacheWarning)


def tiers(place: Path) -> Iterator[Tier]:
    """Yield the folders that are read, our own first."""
    for tier in (own(place), shared()):
        if tier is not None:
            yield tier


def own(place: Path) -> Tier | None:
    """Return the folder that is written: the one at `place`, or one of this process.

    None, with a warning, where neither can be had.
    """
    given = os.environ.get
    words = str(place), given("XDG_STATE_HOME"), given("HOME"), us()
    return _known(words, lambda: _open_own(place))


def shared() -> Tier | None:
    """Return the folder that WORKBENCH_SHARED_CACHE names, None where it cannot be trusted."""
    text = os.environ.get(SHARED)
    return _known((SHARED, text), lambda: _open_shared(text)) if text else None


def forget(tier: Tier | None = None) -> None:
    """Open a folder again when it is used next; without one, all of them."""
    with _lock:
        for words, known in list(_opened.items()):
            if tier is None or known is tier:
                del _opened[words]


def _known(words: tuple[Any, ...], open_it: Any) -> Tier | None:
    found = _opened.get(words, _UNKNOWN)
    if found is _UNKNOWN:
        with _lock:
            found = _opened.get(words, _UNKNOWN)
            if found is _UNKNOWN:
                while len(_opened) >= _MOST_OPEN:
                    del _opened[next(iter(_opened))]
                found = _opened[words] = open_it()
    return found


def _open_own(place: Path) -> Tier | None:
    try:
        folder = open_folder(place)
        return Tier(inner(folder, FOLDER), read_secret(folder))
    except DistrustError as error:
        problem = str(error)
    except OSError as error:
        problem = reason(error)
    try:
        made = tempfile.mkdtemp(prefix="cache-", dir=private_folder())
        folder = inner(open_folder(Path(made)), FOLDER)
    except (OSError, DistrustError) as error:
        warn(f"{place} is not used: {problem}; nothing is kept ({error})")
        return None
    warn(f"{place} is not used: {problem}. This process starts cold, with {made} for itself")
    return Tier(folder, os.urandom(SECRET_BYTES), problem=problem)


def _open_shared(text: str) -> Tier | None:
    owner, path = ("", text) if text[0] in "/~." else text.partition(":")[::2]
    if not path:
        warn(f"no shared cache is used: {SHARED}={text} is neither OWNER:/path nor /path")
        return None
    try:
        named = frozenset({_number_of(owner)}) if owner else frozenset[int]()
        root = open_folder(Path(path).expanduser(), make=False, shared_by=named)
        return Tier(inner(root, FOLDER, make=False), None, owner or "root")
    except (DistrustError, OSError, ValueError, RuntimeError) as error:
        distrusted = isinstance(error, DistrustError) and not owner
        help_ = f"; to trust its owner, write {SHARED}=OWNER:{path}" if distrusted else ""
        warn(f"the shared cache {path} is not used: {reason(error)}{help_}")
        return None


def reason(error: Exception) -> str:
    """Return why a folder is not used, without the number of an error of the system."""
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error)
    place = f": {error.filename}" if error.filename is not None else ""
    return f"{error.strerror}{place}"


def _number_of(owner: str) -> int:
    """Return the number of a user given by name or number."""
    if owner.isdigit():
        return int(owner)
    try:
        import pwd

        return pwd.getpwnam(owner).pw_uid
    except (ImportError, KeyError):
        raise ValueError(f"there is no user {owner!r}") from None


def trusted(place: Path) -> list[str]:
    """Return what may be run from the disk, one line for each folder."""
    mine, others = own(place), shared()
    me = name_of(us())
    if mine is None:
        lines = [f"{place} is not used, and nothing takes its place"]
    elif mine.problem:
        lines = [f"{place} is not used: {mine.problem}", f"in its place: {mine.folder.path}"]
    else:
        lines = [f"trusted: what is signed with {secret_file()} of {me}, in {mine.folder.path}"]
    if others is not None:
        writers = ", ".join(dict.fromkeys((others.owner, "root", me)))
        lines.append(f"trusted: unsigned, what {writers} wrote in {others.folder.path}")
    elif os.environ.get(SHARED):
        lines.append(f"not trusted: {SHARED}={os.environ[SHARED]}")
    return lines
