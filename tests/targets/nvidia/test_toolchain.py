"""How ptxas is started."""

from __future__ import annotations

import pytest

from tests.targets.nvidia.test_ptx import needs_ptxas
from workbench.targets.nvidia import toolchain

EMPTY = """
.version 8.0
.target sm_90a
.address_size 64
.visible .entry nothing() { ret; }
"""


def test_what_the_user_says_of_glibc_comes_last(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.hugetlb=0:glibc.malloc.check=1")
    _, said = toolchain.environment()["GLIBC_TUNABLES"].split("mmap_threshold=", 1)
    assert said.split(":")[1:] == ["glibc.malloc.hugetlb=0", "glibc.malloc.check=1"]
    monkeypatch.delenv("GLIBC_TUNABLES")
    assert "hugetlb=1" in toolchain.environment()["GLIBC_TUNABLES"]


@needs_ptxas
def test_where_memory_comes_from_changes_no_code(monkeypatch: pytest.MonkeyPatch):
    large = toolchain.assemble(EMPTY, "sm_90a")
    monkeypatch.setattr(toolchain, "_MEMORY", ())
    assert toolchain.assemble(EMPTY, "sm_90a") == large
