"""Kernels as pickles: by name, by value, and what they may not bring along."""

from __future__ import annotations

import pickle
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import workbench as wb
from tests.language.harness import from_text
from tests.runtime.kernels import add
from workbench import tl
from workbench.runtime.pickling import MOST_BYTES, CaptureError
from workbench.source import KernelError, register_text

N = tl.constexpr(3)


def kernel_of(text: str, **names: object) -> wb.JITFunction:
    """Return a kernel as a cell has it: no module holds it."""
    return wb.jit(from_text(text, **names))


TIMES = """
    def times(x, out, n, B: tl.constexpr):
        i = tl.program_id(0) * B + tl.arange(0, B)
        tl.store(out + i, helper(tl.load(x + i, mask=i < n)), mask=i < n)
"""


def helped() -> wb.JITFunction:
    helper = kernel_of("def helper(a):\n    return a * N\n", N=N)
    return kernel_of(TIMES, helper=helper)


def used(kernel: object, **more: object) -> list[float]:
    x, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    kernel[(1,)](x, out, 8, **more)  # type: ignore[index]
    return out.tolist()


WANT = [3.0 * n for n in range(8)]


def test_a_module_that_can_be_imported_is_a_name():
    data = pickle.dumps(add)
    assert len(data) < 200
    assert pickle.loads(data) is add
    assert pickle.loads(pickle.dumps({"a": [add]}))["a"][0] is add


def test_any_other_kernel_is_a_value_with_the_names_it_uses():
    kernel = helped()
    other = pickle.loads(pickle.dumps(kernel))
    assert other is not kernel
    assert used(other, B=8) == WANT
    assert set(other.fn.__globals__) - {"__name__", "__builtins__"} == {"helper", "tl"}
    assert other.text_source.text == kernel.text_source.text
    again = pickle.loads(pickle.dumps(other))
    assert used(again, B=8) == WANT


def test_a_name_that_leads_elsewhere_is_a_value(monkeypatch: pytest.MonkeyPatch):
    kernel = helped()
    module = types.ModuleType("made_by_hand")
    kernel.__module__ = module.__name__
    monkeypatch.setitem(sys.modules, module.__name__, module)
    module.times = kernel  # type: ignore[attr-defined]
    assert b"made_by_hand\x94" not in pickle.dumps(kernel)[:60]  # cannot be imported elsewhere
    assert used(pickle.loads(pickle.dumps(kernel)), B=8) == WANT


def test_configurations_come_along():
    configs = [wb.Config({"B": 8}, num_warps=None, num_stages=None)]
    kernel = wb.heuristics({"even": lambda given: given["n"] % 2 == 0})(
        kernel_of(TIMES.replace("B: tl.constexpr", "B: tl.constexpr, even: tl.constexpr"),
                  helper=kernel_of("def helper(a):\n    return a * 3\n"))
    )  # fmt: skip
    tuned = wb.autotune(configs, key=["n"])(kernel)
    assert used(pickle.loads(pickle.dumps(tuned))) == WANT


def test_large_captures_are_named():
    table, small = np.zeros(MOST_BYTES, np.uint8), tuple(range(5))
    kernel = kernel_of("def k(x):\n    tl.store(x, TABLE[small[0]])\n", TABLE=table, small=small)
    with pytest.raises(
        CaptureError, match=r"k captures 1\.0 MB, more than 1 MB: 'TABLE'"
    ) as caught:
        pickle.dumps(kernel)
    assert isinstance(caught.value, KernelError)
    assert isinstance(caught.value, pickle.PicklingError)
    inner = kernel_of("def k2(x):\n    k(x)\n", k=kernel)
    with pytest.raises(CaptureError, match="'TABLE'"):
        pickle.dumps(inner)


def test_what_cannot_be_pickled_says_so():
    kernel = kernel_of("def k(x):\n    tl.store(x, LOCK)\n", LOCK=(i for i in ()))
    with pytest.raises(CaptureError, match="cannot be pickled"):
        pickle.dumps(kernel)


def test_a_compiled_kernel_is_what_a_launch_needs():
    compiled = helped()[(1,)](*(np.zeros(8, np.float32) for _ in range(2)), 8, B=8)
    data = pickle.dumps(compiled)
    again = pickle.loads(data)
    assert (again.name, again.target, again.hash) == (compiled.name, compiled.target, compiled.hash)
    assert again.code == compiled.code
    assert again.from_cache
    assert used(again) == WANT
    assert "tile.mul" in again.asm["ttir"]
    far = helped().warmup(*(np.zeros(8, np.float32) for _ in range(2)), 8, B=8, grid=(1,),
                          target="sm_90a")  # fmt: skip
    there = pickle.loads(pickle.dumps(far))
    assert there.asm["cubin"] == far.asm["cubin"]


def test_another_process_runs_it(tmp_path: Path):
    register_text("<cell>", "")
    kernel = helped()
    compiled = kernel[(1,)](*(np.zeros(8, np.float32) for _ in range(2)), 8, B=8)
    (tmp_path / "kernels").write_bytes(pickle.dumps((kernel, compiled)))
    code = (
        "import pickle, numpy as np\n"
        f"kernel, compiled = pickle.loads(open({str(tmp_path / 'kernels')!r}, 'rb').read())\n"
        "x, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)\n"
        "kernel[(1,)](x, out, 8, B=8); print(out.tolist())\n"
        "out[:] = 0; compiled[(1,)](x, out, 8); print(out.tolist())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False,
        cwd=Path(wb.__path__[0]).parent,
    )  # fmt: skip
    assert done.stdout.split("\n")[:2] == [str(WANT)] * 2, done.stderr
