from __future__ import annotations

import numpy as np
import pytest

from workbench.runtime import compiling, tiers


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """Give every test an empty cache, on disk and in memory, and a secret of its own."""
    monkeypatch.setenv("WORKBENCH_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("WORKBENCH_SHARED_CACHE", raising=False)
    tiers.forget()
    compiling.forget()
    return tmp_path / "cache"


@pytest.fixture
def seven():
    """Arguments of the seed example: 7 elements."""
    x = np.arange(7, dtype=np.float32)
    return x, np.full(7, 2, np.float32), np.zeros(7, np.float32)
