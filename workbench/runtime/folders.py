"""Folders on disk whose content nobody else can have written.

A path is resolved first and then walked from the root by open descriptors, without following a
link, so what was looked at is what is used. Of each part:

| part | owner | who may write |
|------|-------|---------------|
| those above | us, root, or whoever was named | the owner, or anybody where the sticky bit is set |
| the folder itself | us (or whoever was named) | the owner alone; ours is made 0700 |

Names in a folder are plain files: links, pipes and devices are refused, never opened as such. The
descriptor is kept, so that nobody who gets to the path later changes what is read. Where the system
has no owners and modes (Windows) the profile's own access lists have to do.
"""

from __future__ import annotations

import atexit
import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

#: No file here is larger; a planted one must not fill the memory.
MOST_BYTES = 1 << 29
_OWNED = hasattr(os, "geteuid") and os.open in os.supports_dir_fd
_FOLDER = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
#: A part above is only passed through: it may be closed to reading.
_PASSED = _FOLDER | getattr(os, "O_PATH", os.O_RDONLY)
_READ = (  # a pipe must not be waited for
    os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_BINARY", 0)
)  # fmt: skip
_MADE = (
    os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_BINARY", 0)
)  # fmt: skip
#: Files that are being written begin with this.
UNFINISHED = ".new-"


#: Whoever wrote a folder is trusted: what an explicit act asks for.
EVERYBODY: frozenset[int] = frozenset({-1})


class DistrustError(Exception):
    """Somebody else may have written a folder or file; the text says which, and what to do."""


def us() -> int:
    """Return the user whose rights this process has."""
    return os.geteuid() if _OWNED else 0


def name_of(user: int) -> str:
    """Return a user's name, the number where there is none."""
    try:
        import pwd

        return pwd.getpwuid(user).pw_name
    except (ImportError, KeyError):
        return f"user {user}"


class Folder:
    """An open folder. Names are those of files directly in it; every file appears whole."""

    def __init__(
        self, path: Path, descriptor: int | None, owners: frozenset[int], *, own: bool = False
    ) -> None:
        self.path = path
        self._descriptor = descriptor
        self._owners = owners
        self._own = own

    def __del__(self) -> None:
        """Give the descriptor back when nobody uses the folder any more."""
        if self._descriptor is not None:
            os.close(self._descriptor)

    def read(self, name: str, *, private: bool = False) -> bytes:
        """Return a file's bytes, opened once.

        Raises FileNotFoundError, other OSErrors, and DistrustError for what is no plain file, was
        writable by others, or with `private` could be read by them.
        """
        try:
            descriptor = os.open(self._at(name), _READ, dir_fd=self._descriptor)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            raise DistrustError(f"{self.path / name} is a link: remove it") from None
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise DistrustError(f"{self.path / name} is no plain file: remove it")
            self._check_file(name, status, private)
            if status.st_size > MOST_BYTES:
                raise DistrustError(f"{self.path / name} has {status.st_size:,} bytes: remove it")
            parts: list[bytes] = []
            room = status.st_size + 1
            while room > 0 and (part := os.read(descriptor, room)):
                parts.append(part)
                room -= len(part)
            return parts[0] if len(parts) == 1 else b"".join(parts)
        finally:
            os.close(descriptor)

    def _check_file(self, name: str, status: os.stat_result, private: bool) -> None:
        if not _OWNED or self._owners is EVERYBODY:
            return
        path = self.path / name
        if status.st_uid not in ({us()} if private else self._owners):
            raise DistrustError(f"{path} belongs to {name_of(status.st_uid)}: remove it")
        mode = stat.S_IMODE(status.st_mode)
        if mode & (0o077 if private else 0o022):
            does = "read or written" if private else "written"
            raise DistrustError(f"{path} can be {does} by others (mode {mode:04o}): remove it")

    def write(self, name: str, data: bytes) -> None:
        """Write a file in place of whatever has its name; raises OSError."""
        made = self._unfinished(data)
        try:
            self._rename(made, name)
        finally:
            with suppress(OSError):
                os.unlink(self._at(made), dir_fd=self._descriptor)

    def _rename(self, made: str, name: str) -> None:
        here = {"src_dir_fd": self._descriptor, "dst_dir_fd": self._descriptor}
        try:
            os.replace(self._at(made), self._at(name), **here)  # noqa: PTH105
        except (IsADirectoryError, PermissionError):
            self.remove(name)
            os.replace(self._at(made), self._at(name), **here)  # noqa: PTH105

    def write_new(self, name: str, data: bytes) -> None:
        """Write a file that must not exist yet, whole or not at all; raises FileExistsError."""
        made = self._unfinished(data)
        here = {"src_dir_fd": self._descriptor, "dst_dir_fd": self._descriptor}
        try:
            os.link(self._at(made), self._at(name), follow_symlinks=False, **here)
        except FileExistsError:
            raise
        except (OSError, NotImplementedError):  # a file system without links
            self._put(name, data)
        finally:
            with suppress(OSError):
                os.unlink(self._at(made), dir_fd=self._descriptor)

    def _unfinished(self, data: bytes) -> str:
        name = f"{UNFINISHED}{os.getpid()}-{os.urandom(6).hex()}"
        self._put(name, data)
        return name

    def _put(self, name: str, data: bytes) -> None:
        descriptor = os.open(self._at(name), _MADE, 0o600, dir_fd=self._descriptor)
        try:
            try:
                rest = memoryview(data)
                while rest:
                    rest = rest[os.write(descriptor, rest) :]
            finally:
                os.close(descriptor)
        except OSError:  # a full disk
            with suppress(OSError):
                os.unlink(self._at(name), dir_fd=self._descriptor)
            raise

    def remove(self, name: str) -> None:
        """Remove whatever has this name, a folder too; raises OSError."""
        try:
            os.unlink(self._at(name), dir_fd=self._descriptor)
        except FileNotFoundError:
            return
        except (IsADirectoryError, PermissionError):
            if self._descriptor is None:
                shutil.rmtree(self._at(name))
            else:
                shutil.rmtree(name, dir_fd=self._descriptor)

    def files(self) -> Iterator[tuple[str, os.stat_result]]:
        """Yield (name, status) of everything in the folder; links are not followed."""
        with os.scandir(self.path if self._descriptor is None else self._descriptor) as entries:
            for entry in entries:
                with suppress(OSError):  # gone meanwhile
                    yield entry.name, entry.stat(follow_symlinks=False)

    def has(self, name: str) -> bool:
        """Say whether something has this name."""
        try:
            os.stat(self._at(name), dir_fd=self._descriptor, follow_symlinks=False)
        except OSError:
            return False
        return True

    def _at(self, name: str) -> str:
        return name if self._descriptor is not None else str(self.path / name)


def open_folder(
    path: Path, *, make: bool = True, shared_by: frozenset[int] | None = None
) -> Folder:
    """Return a folder that the rule above allows, made where it is missing.

    Args:
        path: where it is; links in it are resolved before anything is looked at.
        make: make missing parts, closed to others.
        shared_by: who may have written it besides us and root; such a folder is left open to
            readers. EVERYBODY: nothing is looked at.

    Raises DistrustError, and OSError where it cannot be opened or made.
    """
    real = Path(os.path.realpath(path))
    if not _OWNED:
        if make:
            real.mkdir(parents=True, exist_ok=True)
        elif not real.is_dir():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(real))
        return Folder(real, None, frozenset())
    if shared_by is EVERYBODY:
        return Folder(real, os.open(real, os.O_RDONLY | _FOLDER), EVERYBODY)
    own = shared_by is None
    trusted = frozenset({us(), 0}) | (shared_by or frozenset())
    descriptor = _walk(real, trusted, make)
    try:
        _check_itself(descriptor, real, frozenset({us()}) if own else trusted, close=own)
    except BaseException:
        os.close(descriptor)
        raise
    return Folder(real, descriptor, trusted, own=own)


def inner(folder: Folder, name: str, *, make: bool = True) -> Folder:
    """Return a folder in a folder, under the rule for the folder itself; no link is followed."""
    path = folder.path / name
    if folder._descriptor is None:
        if make:
            path.mkdir(exist_ok=True)
        return Folder(path, None, frozenset())
    descriptor = _step(folder._descriptor, name, path, os.O_RDONLY | _FOLDER, make)
    try:
        if folder._owners is not EVERYBODY:
            _check_itself(descriptor, path, folder._owners, close=folder._own)
    except BaseException:
        os.close(descriptor)
        raise
    return Folder(path, descriptor, folder._owners, own=folder._own)


def _walk(real: Path, trusted: frozenset[int], make: bool) -> int:
    """Return the descriptor of a folder; every part above it has been looked at."""
    parts = str(real).split("/")[1:]
    descriptor = os.open("/", _PASSED)
    try:
        for number, part in enumerate(parts):
            _check_above(descriptor, parts[:number], trusted)
            last = number == len(parts) - 1
            flags = os.O_RDONLY | _FOLDER if last else _PASSED
            above, descriptor = descriptor, _step(descriptor, part, real, flags, make)
            os.close(above)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _step(above: int, part: str, path: Path, flags: int, make: bool) -> int:
    """Return the descriptor of one more part of a path, made if need be."""
    try:
        return os.open(part, flags, dir_fd=above)
    except FileNotFoundError:
        if not make:
            raise
    except NotADirectoryError:
        raise DistrustError(
            f"{part} of {path} is a link or no folder: remove it, or choose another place"
        ) from None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise DistrustError(
                f"{part} of {path} is a link: remove it, or choose another place"
            ) from None
        raise
    with suppress(FileExistsError):
        os.mkdir(part, 0o700, dir_fd=above)
    return os.open(part, flags, dir_fd=above)


def _check_above(descriptor: int, parts: list[str], trusted: frozenset[int]) -> None:
    status = os.fstat(descriptor)
    mode = status.st_mode
    if status.st_uid in trusted and (not mode & 0o022 or mode & stat.S_ISVTX):
        return
    path = "/" + "/".join(parts)
    if status.st_uid not in trusted:
        raise DistrustError(f"{path} belongs to {name_of(status.st_uid)}: choose another place")
    mode = stat.S_IMODE(mode)
    raise DistrustError(f"others can write to {path} (mode {mode:04o}): chmod go-w {path}")


def _check_itself(descriptor: int, path: Path, owners: frozenset[int], *, close: bool) -> None:
    """Check a folder's own owner and mode; one of ours is closed to readers, too."""
    status = os.fstat(descriptor)
    if status.st_uid not in owners:
        raise DistrustError(f"{path} belongs to {name_of(status.st_uid)}: choose another place")
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o022:
        raise DistrustError(f"others can write to {path} (mode {mode:04o}): chmod 700 {path}")
    if close and mode & 0o077 and status.st_uid == us():
        with suppress(OSError):  # on a disk that nobody can write
            os.fchmod(descriptor, 0o700)


# -- a folder of this process -----------------------------------------------------------------
_own: tuple[int, Path] | None = None


def private_folder() -> Path:
    """Return a fresh folder that only this process uses; it goes when the process ends.

    Raises OSError where there is no place for one that others cannot reach into.
    """
    global _own
    if _own is not None and _own[0] == os.getpid() and _own[1].is_dir():
        return _own[1]
    path = Path(tempfile.mkdtemp(prefix="workbench-"))
    try:
        open_folder(path, make=False)
    except DistrustError as error:
        shutil.rmtree(path, ignore_errors=True)
        raise PermissionError(errno.EACCES, f"no folder for this process alone: {error}") from error
    _own = os.getpid(), path
    atexit.register(_remove, *_own)
    return path


def _remove(process: int, path: Path) -> None:
    if os.getpid() == process:  # a fork has its parent's functions
        shutil.rmtree(path, ignore_errors=True)
