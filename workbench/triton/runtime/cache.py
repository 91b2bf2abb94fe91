"""`triton.runtime.cache`: files that programs keep beside compiled kernels."""

from workbench.language.table import only_raises
from workbench.runtime import knobs
from workbench.runtime.cache import compiler_stamp as triton_key
from workbench.triton.runtime.file_cache import CacheManager, FileCacheManager, get_cache_manager


class RemoteCacheBackend:
    """Base of stores on other machines, for libraries that write one."""

    def __init__(self, key: str) -> None:
        self.key = key

    def get(self, filenames: list[str]) -> dict[str, bytes]:
        """Return what is stored of some files."""
        raise TypeError(f"{type(self).__name__} does not say where its files are")

    def put(self, filename: str, data: bytes) -> None:
        """Store a file."""
        raise TypeError(f"{type(self).__name__} does not say where its files go")


RedisRemoteCacheBackend = only_raises(
    "triton.runtime.RedisRemoteCacheBackend",
    "kernels are cached in a folder (WORKBENCH_CACHE_DIR), which machines may share",
)

__all__ = ["CacheManager", "FileCacheManager", "RedisRemoteCacheBackend",
           "RemoteCacheBackend", "get_cache_manager", "knobs", "triton_key"]  # fmt: skip
