from __future__ import annotations

from tests.runtime.conftest import own_cache, seven

__all__ = ["own_cache", "seven"]
