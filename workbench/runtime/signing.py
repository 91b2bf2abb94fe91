"""Signed bytes: what the cache gives back is what this user's workbench put there, and where.

    sealed = FORMAT, SHA-256 of the message, HMAC-SHA256 of the message, content
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

from workbench.runtime.folders import DistrustError, open_folder

FORMAT = b"workbench cache 3\n"
SECRET_BYTES = 32
_SUM = len(FORMAT)
_MAC = _SUM + 32
_CONTENT = _MAC + 32


class DamagedError(ValueError):
    """Bytes that are not what was stored under this name."""


class ForeignError(DamagedError):
    """Whole bytes that were signed with another secret, or with none."""


def seal(name: str, content: bytes, secret: bytes) -> bytes:
    """Return the bytes that are stored under a name."""
    message = _message(name, content)
    return b"".join((FORMAT, sha256(message).digest(), _sign(message, secret), content))


def unseal(name: str, sealed: bytes, secret: bytes | None) -> bytes:
    """Return the content of stored bytes; without a secret only the sum is checked.

    Raises DamagedError, ForeignError for what another secret has signed.
    """
    if not sealed.startswith(FORMAT) or len(sealed) < _CONTENT:
        raise DamagedError("it is cut off or of another format")
    content = sealed[_CONTENT:]
    message = _message(name, content)
    if secret is not None and hmac.compare_digest(sealed[_MAC:_CONTENT], _sign(message, secret)):
        return content
    if not hmac.compare_digest(sealed[_SUM:_MAC], sha256(message).digest()):
        raise DamagedError("its checksum is another")
    if secret is not None:
        raise ForeignError("it is not signed with this user's secret")
    return content


def _message(name: str, content: bytes) -> bytes:
    word = name.encode()
    return b"".join((FORMAT, len(word).to_bytes(4, "little"), word, content))


def _sign(message: bytes, secret: bytes) -> bytes:
    return hmac.digest(secret, message, "sha256")


# -- the secret -------------------------------------------------------------------------------
def state_directory() -> Path:
    """Return where the secret lies: $XDG_STATE_HOME/workbench, by default ~/.local/state."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
        return (Path(base) if base else Path.home()) / "workbench" / "state"
    base = os.environ.get("XDG_STATE_HOME", "")
    root = Path(base) if os.path.isabs(base) else Path.home() / ".local" / "state"  # noqa: PTH117
    return root / "workbench"


def secret_file() -> Path:
    """Return the path of the secret."""
    return state_directory() / "cache.key"


def read_secret(cache: Path) -> bytes:
    """Return the secret of this user for a cache at a path; made at the first use.

    Raises DistrustError for a secret that others may know or that lies below the cache, OSError
    where there is no place for one.
    """
    try:
        place = secret_file()
    except RuntimeError as error:  # no home
        raise DistrustError(f"there is no place for its secret ({error})") from error
    real = Path(os.path.realpath(place))
    if real.is_relative_to(os.path.realpath(cache)):
        raise DistrustError(f"its secret {place} lies below it: set XDG_STATE_HOME elsewhere")
    folder = open_folder(place.parent)
    try:
        found = folder.read(place.name, private=True)
    except FileNotFoundError:
        with suppress(FileExistsError):  # another process was first: its secret is everybody's
            folder.write_new(place.name, os.urandom(SECRET_BYTES))
        found = folder.read(place.name, private=True)
    if len(found) != SECRET_BYTES:
        raise DistrustError(f"{place} has {len(found)} bytes, not {SECRET_BYTES}: remove it")
    return found
