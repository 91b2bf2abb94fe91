"""`workbench.as_triton()`: which modules it installs, and what it leaves alone."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

import workbench as wb
from workbench.source import KernelError
from workbench.triton.installing import MODULES

LISTED = [
    "triton", "triton.language", "triton.language.core", "triton.language.math",
    "triton.language.standard", "triton.language.random", "triton.language.semantic",
    "triton.language.extra", "triton.language.extra.libdevice", "triton.language.extra.cuda",
    "triton.language.extra.cuda.libdevice", "triton.language.target_info", "triton.runtime",
    "triton.runtime.jit", "triton.runtime.autotuner", "triton.runtime.driver",
    "triton.runtime.errors", "triton.runtime.cache", "triton.runtime.interpreter",
    "triton.compiler", "triton.compiler.compiler", "triton.compiler.errors", "triton.backends",
    "triton.backends.compiler", "triton.backends.nvidia.driver", "triton.testing", "triton.tools",
    "triton.tools.tensor_descriptor", "triton.tools.mxfp", "triton.knobs", "triton.errors",
    "triton._utils",
]  # fmt: skip


@pytest.fixture
def no_triton(monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "triton"]:
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.usefixtures("no_triton")
def test_every_listed_module():
    assert set(LISTED) <= set(MODULES)
    with wb.as_triton():
        for name in LISTED:
            assert importlib.import_module(name).__name__.startswith("workbench.")
        import triton.runtime.driver
        from triton.language.extra import libdevice  # noqa: F401
        from triton.runtime import driver

        assert triton.runtime.driver is driver
        assert triton.__version__ == "3.6.0"
        assert triton.__workbench__ == wb.__version__


@pytest.mark.usefixtures("no_triton")
def test_only_within_the_block():
    with wb.as_triton() as module:
        assert sys.modules["triton"] is module
        with wb.as_triton():
            pass
        assert sys.modules["triton"] is module
    assert not [name for name in sys.modules if name.partition(".")[0] == "triton"]


@pytest.fixture
def real_triton(no_triton, monkeypatch):
    for name in ("triton", "triton.language"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    user = types.ModuleType("uses_triton")
    user.tl = sys.modules["triton.language"]
    monkeypatch.setitem(sys.modules, "uses_triton", user)
    return sys.modules["triton"]


def test_it_refuses_where_the_real_one_is_imported(real_triton):
    with pytest.raises(KernelError, match="the real Triton is imported already") as caught:
        wb.as_triton()
    assert "(triton, triton.language), by uses_triton" in caught.value.message
    assert sys.modules["triton"] is real_triton


def test_unless_it_is_forced(real_triton):
    with wb.as_triton(force=True) as module:
        assert module is not real_triton
        assert sys.modules["uses_triton"].tl is not module.language
    assert sys.modules["triton"] is real_triton


PROBES = {
    "triton.language": ("make_tensor_descriptor", "dot", "sort", "gather"),
    "triton": ("jit", "autotune", "set_allocator", "constexpr_function"),
}


@pytest.mark.usefixtures("no_triton")
def test_probes_tell_the_truth():
    with wb.as_triton():
        for module, names in PROBES.items():
            found = importlib.import_module(module)
            assert all(hasattr(found, name) for name in names)
            assert not hasattr(found, "_experimental_descriptor_load")
            assert all(hasattr(found, name) for name in found.__all__)
        with pytest.raises(ImportError):
            importlib.import_module("triton.experimental")


SCRIPT = """
import workbench as wb
wb.as_triton()
from torch._inductor.runtime import triton_compat
assert triton_compat.HAS_TRITON
import triton
assert issubclass(triton_compat.JITFunction, triton.KernelInterface)
assert triton_compat.Config is triton.Config
assert triton_compat.GPUTarget("cuda", 90, 32).arch == 90
assert triton_compat.triton_key()
assert triton_compat.libdevice is triton.language.extra.libdevice
import torch.utils._triton as probes
assert probes.has_triton_package()
assert probes.triton_backend().target.backend in ("cpu", "cuda")
"""

OPERATOR = """
import torch
import triton.language as tl
from torch.library import triton_op, wrap_triton

@triton.jit
def twice_kernel(x, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out + offsets, tl.load(x + offsets, mask=mask) * 2, mask=mask)

@triton_op("workbench_tests::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    n = x.numel()
    wrap_triton(twice_kernel)[(triton.cdiv(n, 64),)](x, out, n, BLOCK=64)
    return out

def direct(x):
    out = torch.empty_like(x)
    twice_kernel[(2,)](x, out, x.numel(), BLOCK=64)
    return out + 1

x = torch.randn(100)
assert torch.equal(twice(x), x * 2)
for function, wanted in ((twice, x * 2), (direct, x * 2 + 1)):
    compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
    assert torch.allclose(compiled(x), wanted)
print("fine")
"""


def test_torch_finds_what_it_looks_for_and_wraps_kernels(tmp_path):
    pytest.importorskip("torch")
    script = tmp_path / "operator_script.py"
    script.write_text(SCRIPT + OPERATOR)  # torch takes seconds to import
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(wb.__path__[0]).parent)},
    )
    assert done.stdout.strip() == "fine", done.stderr
