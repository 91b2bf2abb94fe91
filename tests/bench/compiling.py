"""How long compiling takes: cold to PTX and to SASS, from a warm disk cache, and importing.

Every sample is a process of its own with the compiler imported before the clock starts; caches are
empty for the cold rows. The median of five is kept.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.bench.rows import Row, row

_ROOT = Path(__file__).resolve().parents[2]
_SAMPLES = 5

_PRELUDE = """
import sys, time
sys.path.insert(0, {root!r})
import workbench, workbench.compiler, workbench.runtime.compiling, workbench.targets.nvidia.pipeline
from tests.kernels import attention_forward, matmul, softmax, vector_add
cases = {{
    "add": (
        vector_add.add, "*fp32:16 *fp32:16 *fp32:16 i32:16", dict(BLOCK=512), dict(num_warps=4),
    ),
    "softmax": (softmax.softmax, "*fp32:16 *fp32:16 i32:16 i32:16 i32:16", dict(BLOCK=1024), {{}}),
    "matmul 128x128x32": (
        matmul.matmul,
        "*fp16:16 *fp16:16 *fp16:16 i32:16 i32:16 i32:16 i32:16 i32=1 i32:16 i32=1 i32:16 i32=1",
        dict(BLOCK_M=128, BLOCK_N=128, BLOCK_K=32, GROUP_M=8),
        dict(num_warps=4, num_stages=4),
    ),
    "matmul 128x256x64": (
        matmul.matmul,
        "*fp16:16 *fp16:16 *fp16:16 i32:16 i32:16 i32:16 i32:16 i32=1 i32:16 i32=1 i32:16 i32=1",
        dict(BLOCK_M=128, BLOCK_N=256, BLOCK_K=64, GROUP_M=8),
        dict(num_warps=8, num_stages=3),
    ),
    "attention D128 causal": (
        attention_forward.attention,
        "*fp16:16 *fp16:16 *fp16:16 *fp16:16 *fp32:16 fp32" + " i32:16 i32:16 i32:16 i32=1" * 4
        + " i32:16" * 4,
        dict(HEAD=128, BLOCK_M=128, BLOCK_N=128, BLOCK_D=128, CAUSAL=True, EVEN=True),
        dict(num_warps=8, num_stages=2),
    ),
}}
kernel, signature, constexprs, options = cases[{case!r}]
start = time.perf_counter()
compiled = workbench.compile(kernel, signature, constexprs, target="sm_90a", **options)
"""
_COLD = 'text = compiled.asm["ptx"]\n'
_TO_SASS = "binary = compiled.code\n"
_SHOW = "print((time.perf_counter() - start) * 1e6)\n"


def _run(code: str, cache: str) -> float:
    """Return what a fresh process prints, a number of microseconds."""
    environment = dict(os.environ, WORKBENCH_CACHE_DIR=cache)
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return float(done.stdout.split()[-1])


def _cold(case: str, to: str) -> float:
    """Return the median microseconds of a case in fresh processes with empty caches."""
    samples: list[float] = []
    for _ in range(_SAMPLES):
        with tempfile.TemporaryDirectory() as cache:
            samples.append(_run(_PRELUDE.format(root=str(_ROOT), case=case) + to + _SHOW, cache))
    return statistics.median(samples)


def compile_rows() -> list[Row]:
    """Return the rows of the suite `compile`: nothing is compared, ours_us is the time."""
    rows = [
        row("compile", f"{case}, cold to SASS", "fp16", 1, _cold(case, _TO_SASS), "triton", None)
        for case in ("matmul 128x256x64", "attention D128 causal")
    ]
    for case, dtype in (("add", "fp32"), ("softmax", "fp32"), ("matmul 128x128x32", "fp16")):
        code = _PRELUDE.format(root=str(_ROOT), case=case)
        rows.append(
            row("compile", f"{case}, cold to PTX", dtype, 1, _cold(case, _COLD), "triton", None)
        )
        with tempfile.TemporaryDirectory() as cache:
            _run(code + _TO_SASS + _SHOW, cache)
            warm = [_run(code + _TO_SASS + _SHOW, cache) for _ in range(_SAMPLES)]
        rows.append(
            row(
                "compile",
                f"{case}, warm from disk",
                dtype,
                1,
                statistics.median(warm),
                "triton",
                None,
            )
        )
    importing = (
        "import sys, time, numpy, llvmlite.binding\n"
        f"sys.path.insert(0, {str(_ROOT)!r})\n"
        "start = time.perf_counter()\n"
        "import workbench.compiler, workbench.runtime.compiling\n"
        "import workbench.targets.nvidia.pipeline\n"
    )
    samples = [_run(importing + _SHOW, "") for _ in range(_SAMPLES)]
    rows.append(
        row("compile", "import the compiler", "-", 1, statistics.median(samples), "triton", None)
    )
    return rows
