"""Compile workers import what the caller imported, with the same Triton."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import workbench as wb

#: A Triton that is installed and is none of ours: whoever imports it fails.
INSTALLED = 'raise ImportError("the installed Triton was imported")\n'
LIBRARY = """
import triton
import triton.language as tl

assert triton.__version__ == "3.7.1"

@triton.jit
def twice(x):
    return x * 2
"""
SCRIPT = """
import numpy as np
import workbench as wb
with wb.as_triton(version="3.7.1"):
    import some_library
    import triton
    import triton.language as tl
from workbench.tuning import workers

@triton.autotune([triton.Config({"BLOCK": 1 << n}) for n in range(4, 9)], key=["n"], rep=1,
                 warmup=0)
@triton.jit
def double(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    y = some_library.twice(tl.load(x_ptr + offsets, mask=mask))
    tl.store(out_ptr + offsets, y, mask=mask)

here = []
answer = workers.answer
workers.answer = lambda job: here.append(job) or answer(job)
x, out = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
double[lambda meta: (wb.cdiv(1000, meta["BLOCK"]),)](x, out, 1000)
assert np.array_equal(out, 2 * x)
print(len(double.configs_timings), double.reasons, len(here))
"""


def test_a_helper_in_a_module_beside_an_installed_triton(tmp_path: Path):
    pytest.importorskip("numpy")
    (tmp_path / "triton").mkdir()
    (tmp_path / "triton" / "__init__.py").write_text(INSTALLED)
    (tmp_path / "some_library.py").write_text(LIBRARY)
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "script.py")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={
            **os.environ,
            "PYTHONPATH": str(Path(wb.__path__[0]).parent),
            "WORKBENCH_WORKERS": "2",
            "WORKBENCH_CACHE_DIR": str(tmp_path / "cache"),
        },
    )
    assert done.stdout.strip() == "5 {} 0", done.stderr
