"""Files that programs keep beside compiled kernels: `get_cache_manager` of Triton."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from workbench.runtime import knobs


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
    """Stores files in a directory per key; they appear whole or not at all."""

    def __init__(self, key: str, override: bool = False, dump: bool = False) -> None:
        super().__init__(key, override, dump)
        self.cache_dir = str(Path(knobs.cache.dir) / "files" / key)

    def _path(self, filename: str) -> Path:
        return Path(self.cache_dir) / filename

    def has_file(self, filename: str) -> bool:
        """Say whether a file is stored."""
        return self._path(filename).exists()

    def get_file(self, filename: str) -> str | None:
        """Return the path of a stored file, None if there is none."""
        return str(self._path(filename)) if self.has_file(filename) else None

    def put(self, data: bytes | str, filename: str, binary: bool = True) -> str:
        """Store a file; returns its path."""
        content = data if isinstance(data, bytes) else str(data).encode()
        place = self._path(filename)
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=place.parent, prefix=".new-", delete=False) as file:
            file.write(content)
        Path(file.name).replace(place)
        return str(place)

    def put_group(self, filename: str, group: dict[str, str]) -> str:
        """Store which files belong together: their names with their paths."""
        return self.put(json.dumps({"child_paths": group}), f"__grp__{filename}")

    def get_group(self, filename: str) -> dict[str, str] | None:
        """Return the files that belong together and exist, None if nothing is known of them."""
        found = self.get_file(f"__grp__{filename}")
        if found is None:
            return None
        paths = json.loads(Path(found).read_text())["child_paths"]
        return {name: path for name, path in paths.items() if Path(path).exists()}


def get_cache_manager(key: str) -> CacheManager:
    """Return what stores files under a key."""
    return FileCacheManager(key)
