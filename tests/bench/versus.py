"""The suite `compile`: how long a first call waits for the compiler, ours and Triton's.

Each sample is a process of its own with empty caches, in which the packages are imported and the
device is awake before the clock starts. It stops when there is a cubin, ptxas included. Triton
hashes its own library once in a process: with and without that, it has a row. The launcher that it
builds with gcc at a first call is in neither.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from tests.bench import peers
from tests.bench.rows import Row, row

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = 3
SECONDS = 60.0

_COMMON = """
import sys, time
sys.path.insert(0, {root!r})
import torch
from tests.bench import ahead, contests, peers
from tests.bench.contests import Config, Tensors
from tests.bench import attentions, products
def prepared(size=4096):
    tensors = Tensors("meta")
    if {case!r} == "matmul":
        made = products.product(tensors, size, torch.float16, "nn")
        return products.plain, made.launch(Config((128, 256, 64), 8, 3))
    made = attentions.attention(tensors, size, 128, torch.float16, causal=True)
    return attentions.attention_forward, made.launch(Config((128, 64), 8, 3))
module, launch = prepared()
"""
_OURS = """
import workbench
start = time.perf_counter()
ahead.compile_ours(launch)
print((time.perf_counter() - start) * 1e6)
"""
_TRITON = """
import triton
torch.zeros(1, device="cuda")
kernel = getattr(peers.under_triton(module), launch.kernel.__name__)
triton.runtime.driver.active.get_current_target()
if {hashed}:
    from triton.compiler import compiler
    from triton.runtime import cache
    (getattr(cache, "triton_key", None) or compiler.triton_key)()
start = time.perf_counter()
kernel.warmup(*map(ahead._type, launch.arguments), **launch.named, grid=launch.grid)
print((time.perf_counter() - start) * 1e6)
"""
CASES = {
    "matmul": "matmul 128x256x64 w8 s3, cold to cubin",
    "attention": "attention D128 causal 128x64 w8 s3, cold to cubin",
}


def sample(code: str, case: str, *, hashed: bool = True) -> float:
    """Return the microseconds that a fresh process needs, with empty caches."""
    text = (_COMMON + code).format(root=str(ROOT), case=case, hashed=hashed)
    with tempfile.TemporaryDirectory() as folder:
        caches = {"WORKBENCH_CACHE_DIR": f"{folder}/ours", "TRITON_CACHE_DIR": f"{folder}/triton"}
        done = subprocess.run(
            [sys.executable, "-c", text], env={**os.environ, **caches}, capture_output=True,
            text=True, timeout=SECONDS,
        )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1] if done.stderr else "it failed")
    return float(done.stdout.split()[-1])


def compile_rows(missing: list[str]) -> list[Row]:
    """Return the rows of the suite: medians of processes."""
    rows: list[Row] = []
    for case, name in CASES.items():
        ours = [sample(_OURS, case) for _ in range(SAMPLES)]
        for what, hashed in (("", True), (", with its hash of itself", False)):
            theirs: list[float] = []
            if not peers.triton_installed():
                if not hashed:
                    continue
                missing.append(f"compile {name}: triton is not installed")
            else:
                try:
                    theirs = [sample(_TRITON, case, hashed=hashed) for _ in range(SAMPLES)]
                except (RuntimeError, subprocess.TimeoutExpired) as error:
                    missing.append(f"compile {name}{what}: triton: {error}")
            found = row("compile", f"{name}{what}", "fp16", 1, statistics.median(ours), "triton",
                        statistics.median(theirs) if theirs else None)  # fmt: skip
            rows.append(replace(found, timed="host"))
    return rows
