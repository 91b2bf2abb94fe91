"""What tests of Triton's host API share: a cache of their own, settings that are put back."""

from __future__ import annotations

import pytest

import workbench.triton as triton
from workbench.runtime import compiling


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_CACHE_DIR", str(tmp_path / "cache"))
    compiling.forget()


@pytest.fixture
def knobs():
    with triton.knobs.runtime.scope(), triton.knobs.compilation.scope():
        yield triton.knobs
    triton.knobs.runtime.jit_cache_hook = None
    triton.knobs.runtime.jit_post_compile_hook = None
