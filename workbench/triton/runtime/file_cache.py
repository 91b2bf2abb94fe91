"""Files that programs keep beside compiled kernels: `get_cache_manager` of Triton.

The cache gives bytes that it has checked; programs want paths, which they open later. So a file
lies twice: signed in the cache, and as it is in a folder that only this process can reach, whose
path programs get.
"""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path, PurePosixPath
from threading import get_ident

from workbench.runtime import cache, knobs
from workbench.runtime.folders import private_folder


class CacheManager:
    """Stores files under a key."""

    def __init__(self, key: str, override: bool = False, dump: bool = False) -> None:
        self.key = key

    def get_file(self, filename: str) -> str | None:
        """Return the path of a stored file, None if there is none."""
        raise TypeError(f"{type(self).__name__} does not say where its files are")

    def put(self, data: bytes | str, filename: str, binary: bool = True) -> str:
        """Store a file; returns its path."""
        raise TypeError(f"{type(self).__name__} does not say where its files go")


class FileCacheManager(CacheManager):
    """Stores files under a key; they appear whole or not at all."""

    @property
    def cache_dir(self) -> str:
        """The folder with this process's copies of the files."""
        return str(private_folder() / "files" / sha256(self.key.encode()).hexdigest()[:32])

    def _path(self, filename: str) -> Path:
        parts = PurePosixPath(filename).parts
        if not parts or ".." in parts or Path(filename).is_absolute() or "\0" in filename:
            raise ValueError(
                f"a file of the cache cannot be called {filename!r}: give a plain name"
            )
        return Path(self.cache_dir, *parts)

    def _name(self, filename: str) -> str:
        words = (self.key, filename)
        text = "".join(f"{len(word)}:{word};" for word in words)
        return f"file-{sha256(text.encode()).hexdigest()}"

    def has_file(self, filename: str) -> bool:
        """Say whether a file is stored."""
        return self.get_file(filename) is not None

    def get_file(self, filename: str) -> str | None:
        """Return the path of a stored file, None if there is none."""
        place = self._path(filename)
        entry = cache.load(self._name(filename), Path(knobs.cache.dir))
        if entry is not None and "content" in entry.files:
            return _lay(place, entry.files["content"])
        return str(place) if place.is_file() else None

    def put(self, data: bytes | str, filename: str, binary: bool = True) -> str:
        """Store a file; returns its path."""
        place = self._path(filename)
        content = data if isinstance(data, bytes) else str(data).encode()
        entry = cache.Entry({"name": filename}, {"content": content})
        cache.store(self._name(filename), entry, Path(knobs.cache.dir))
        return _lay(place, content)

    def put_group(self, filename: str, group: dict[str, str]) -> str:
        """Store which files belong together: their names with their paths.

        Files that have not been put under this key are not part of it.
        """
        here = Path(self.cache_dir)
        inside = {n: Path(path) for n, path in group.items() if Path(path).is_relative_to(here)}
        names = {name: path.relative_to(here).as_posix() for name, path in inside.items()}
        return self.put(json.dumps({"children": names}), f"__grp__{filename}")

    def get_group(self, filename: str) -> dict[str, str] | None:
        """Return the files that belong together and exist, None if nothing is known of them."""
        found = self.get_file(f"__grp__{filename}")
        if found is None:
            return None
        names = json.loads(Path(found).read_text())["children"]
        paths = {name: self.get_file(child) for name, child in names.items()}
        return {name: path for name, path in paths.items() if path is not None}


def get_cache_manager(key: str) -> CacheManager:
    """Return what stores files under a key."""
    return FileCacheManager(key)


def _lay(place: Path, content: bytes) -> str:
    """Write this process's copy of a file unless it is there; returns its path."""
    if not place.is_file() or place.read_bytes() != content:
        place.parent.mkdir(parents=True, exist_ok=True)
        made = place.with_name(f".new-{get_ident()}-{place.name}")
        made.write_bytes(content)
        made.replace(place)
    return str(place)
