"""Signed bytes: what the cache gives back is what this user's workbench put there, and where.

    sealed = SHA-256 of the message, HMAC-SHA256 of the message, message
    message = FORMAT, length and text of the name, content

The name is the file's own, which holds the key, so an entry put under another key is as wrong as
one that was changed. The sum needs no secret: it finds damage where somebody else's signature
cannot be checked, in a shared cache or one that is merged.

The secret lies in the user's state folder. It keeps out whoever can write the cache but not the
home; not our own user, not root, not a package or an environment that somebody else can write.
"""

from __future__ import annotations

import hmac
import os
import sys
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from workbench.runtime.folders import DistrustError, Folder, open_folder

FORMAT = b"workbench cache 3\n"
SECRET_BYTES = 32
_DIGEST = 32


class DamagedError(ValueError):
    """Bytes that are not what was stored under this name."""


class ForeignError(DamagedError):
    """Whole bytes that were signed with another secret, or with none."""


def seal(name: str, content: bytes, secret: bytes) -> bytes:
    """Return the bytes that are stored under a name."""
    message = _head(name) + content
    return b"".join((sha256(message).digest(), _mac(message, secret), message))


def unseal(name: str, sealed: bytes, secret: bytes | None) -> memoryview:
    """Return the content of stored bytes; without a secret only the sum is checked.

    Raises DamagedError, ForeignError for what another secret has signed.
    """
    stored = memoryview(sealed)
    total, mac, message = stored[:_DIGEST], stored[_DIGEST : 2 * _DIGEST], stored[2 * _DIGEST :]
    if secret is None or not hmac.compare_digest(mac, _mac(message, secret)):
        if not hmac.compare_digest(total, sha256(message).digest()):
            raise DamagedError("its checksum is another")
        if secret is not None:
            raise ForeignError("it is not signed with this user's secret")
    head = _head(name)
    if message[: len(head)] != head:
        raise DamagedError("it is of another format or was stored under another name")
    return message[len(head) :]


def _mac(message: bytes | memoryview, secret: bytes) -> bytes:
    return hmac.digest(secret, message, _sha256)  # type: ignore[arg-type]


def _sha256(data: bytes = b"") -> Any:
    """The hash as a function of Python: given by name, OpenSSL takes 0.1 ms to find its HMAC."""
    return sha256(data)


def _head(name: str) -> bytes:
    word = name.encode()
    return b"".join((FORMAT, len(word).to_bytes(4, "little"), word))


# -- the secret -------------------------------------------------------------------------------
def state_directory() -> Path:
    """Return where the secret lies: $XDG_STATE_HOME/workbench, by default ~/.local/state."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
        return (Path(base) if base else Path.home()) / "workbench" / "state"
    base = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(base):  # noqa: PTH117 - as the standard has it; on the way of a launch
        base = os.path.expanduser("~/.local/state")  # noqa: PTH111
        if base.startswith("~"):
            raise RuntimeError("the home is not known")
    return Path(base, "workbench")


def secret_file() -> Path:
    """Return the path of the secret."""
    return state_directory() / "cache.key"


def read_secret(cache: Folder) -> bytes:
    """Return the secret of this user for a cache; made at the first use.

    Raises DistrustError for a secret that others may know or that lies below the cache, OSError
    where there is no place for one.
    """
    try:
        place = secret_file()
    except RuntimeError as error:  # no home
        raise DistrustError(f"there is no place for its secret ({error})") from error
    folder = open_folder(place.parent)
    if folder.path.is_relative_to(cache.path):
        raise DistrustError(f"its secret {place} lies below it: set XDG_STATE_HOME elsewhere")
    try:
        found = folder.read(place.name, private=True)
    except FileNotFoundError:
        with suppress(FileExistsError):  # another process was first: its secret is everybody's
            folder.write_new(place.name, os.urandom(SECRET_BYTES))
        found = folder.read(place.name, private=True)
    if len(found) != SECRET_BYTES:
        raise DistrustError(f"{place} has {len(found)} bytes, not {SECRET_BYTES}: remove it")
    return found
