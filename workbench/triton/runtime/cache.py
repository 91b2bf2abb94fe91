"""`triton.runtime.cache`: files that programs keep beside compiled kernels."""

from workbench.runtime import knobs
from workbench.runtime.cache import compiler_stamp as triton_key
from workbench.triton.runtime.file_cache import CacheManager, FileCacheManager, get_cache_manager

__all__ = ["CacheManager", "FileCacheManager", "get_cache_manager", "knobs", "triton_key"]
