"""`workbench.use_in_torch_compile()`: torch's kernels compiled by us, on the CPU.

The other functions and models run in `make inductor`.
"""

from __future__ import annotations

import importlib
import pickle
import subprocess
import sys

import pytest
import torch

import workbench as wb
from tests.inductor.comparing import compare, compare_model, results_and_gradients
from tests.inductor.functions import CASES, Maker
from workbench.inductor import workers
from workbench.inductor.switching import switch
from workbench.magics import lines, registry
from workbench.source import KernelError

FEW = (
    "add_relu", "silu_times", "half_chain", "integers", "integers_that_wrap", "narrow_integers",
    "truth", "mixed", "rounding", "row_sums", "column_sums", "places_of_extremes", "log_sum_exp",
    "layer_norm", "unit_length", "cross_entropy", "long_cumulative_sum", "embedding", "dropout",
    "any_size_with_one",
)  # fmt: skip


@pytest.fixture(autouse=True)
def own_caches(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    from torch._inductor import config

    with config.patch(compile_threads=1):
        yield
    torch._dynamo.reset()


@pytest.mark.parametrize("name", FEW)
def test_a_function_is_what_it_is_eagerly(name):
    compared = compare(CASES[name])
    assert not compared.difference
    assert compared.graphs.ours == sum(len(graph.kernels) for graph in compared.graphs) > 0
    assert compared.graphs.fell_back == 0


def test_a_model_is_what_it_is_eagerly():
    compared = compare_model("mlp")
    assert not compared.difference
    assert len(compared.graphs) == 2  # forward and backward
    assert compared.graphs.ours >= 3
    assert compared.graphs.fell_back == 0


@pytest.mark.parametrize("name", ["add_relu", "truth", "looped_rows", "log_sum_exp"])
def test_what_is_written_for_a_gpu_is_python_that_runs_there(name):
    """Its guard, stream and arrays are CUDA's, and each kernel compiles for the chip."""
    # Torch's compiler takes seconds to import: not in every process that collects tests.
    from tests.inductor.written import an_h200, kernels_of, module_text

    function, arguments = CASES[name].function, CASES[name].arguments(Maker("cpu"))
    with wb.use_in_torch_compile(), an_h200():
        text = module_text(lambda *xs: results_and_gradients(function, xs), arguments)
        compile(text, name, "exec")
        assert "with torch.cuda._DeviceGuard(0):" in text
        assert "import _cuda_getCurrentRawStream as get_raw_stream" in text
        assert "empty_strided_cuda(" in text
        kernels = kernels_of(text)
    assert kernels
    targets = {result.kernel.target for kernel in kernels for result in kernel.compile_results}
    assert targets == {"sm_90a"}


def test_words_of_the_cpu_are_not_those_of_cuda():
    """Torch 2.11 reads the words of all devices where there are none yet: ours come later."""
    from torch._inductor.codegen.common import get_device_op_overrides

    with wb.use_in_torch_compile():
        assert get_device_op_overrides("cuda").device_guard(0) == "torch.cuda._DeviceGuard(0)"
        guard = get_device_op_overrides("cpu").device_guard(0)
        with eval(guard, {"torch": torch}):
            pass


def test_a_module_that_is_no_python_shows_where(tmp_path):
    from torch._inductor.codecache import PyCodeCache

    path = tmp_path / "written.py"
    path.write_text("def call(args):\n    with pass:\n        return args\n")
    with wb.use_in_torch_compile(), pytest.raises(RuntimeError) as caught:
        PyCodeCache.load_by_key_path("written", str(path))
    assert ">    2 |     with pass:" in str(caught.value)


def doubled_rows(x):
    y = x * 2
    return y.sum(1)


def test_a_graph_says_what_it_was_made_of_and_its_kernels_open():
    x = torch.randn(20, 30)
    with wb.use_in_torch_compile() as graphs:
        torch.compile(doubled_rows)(x)
    (graph,) = graphs
    (kernel,) = graph.kernels
    assert (graph.ours, graph.fell_back, graph.calls) == (1, 0, ())
    codes = [line.code for line in kernel.lines]
    assert codes == ["y = x * 2", "return y.sum(1)"]
    assert all(line.file == __file__ and line.is_there for line in kernel.lines)
    assert "1 kernel, 1 of workbench, 0 fell back" in str(graphs)
    assert kernel.name in str(lines.kernels())
    result = registry.find(kernel.name)
    assert "def triton_" in result.trace.text("source")
    assert "tile.load" in str(lines.tile(kernel.name))
    remarks = [remark.text for remark in result.trace.remarks if remark.code == "torch"]
    assert [text.rpartition(": ")[2] for text in remarks] == codes


def test_torch_compiles_as_before_afterwards():
    from torch._inductor import config
    from torch._inductor.async_compile import AsyncCompile

    before = config.cpu_backend, AsyncCompile.triton, sys.modules.get("triton")
    with wb.use_in_torch_compile(), wb.use_in_torch_compile():
        assert config.cpu_backend == "triton"
        assert sys.modules["triton"].__name__ == "workbench.triton"
    assert (config.cpu_backend, AsyncCompile.triton, sys.modules.get("triton")) == before


def test_a_name_that_torch_lacks_is_said(monkeypatch):
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    before = sys.modules.get("triton")
    monkeypatch.delattr(CachingAutotuner, "_create_compile_meta")
    with pytest.raises(
        KernelError, match=r"has no .*CachingAutotuner._create_compile_meta"
    ) as caught:
        wb.use_in_torch_compile()
    assert caught.value.code == "K139"
    assert sys.modules.get("triton") is before


def test_a_kernel_of_the_program_is_compiled_by_us_too():
    from workbench import tl

    with wb.use_in_torch_compile() as graphs:

        @wb.jit
        def plus(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
            offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            mask = offsets < n
            total = tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask)
            tl.store(out_ptr + offsets, total, mask=mask)

        def function(x, y):
            out = torch.empty_like(x)
            plus[(wb.cdiv(x.numel(), 64),)](x, y, out, x.numel(), BLOCK=64)
            return out * 2

        x, y = torch.randn(100), torch.randn(100)
        got = torch.compile(function, fullgraph=True)(x, y)
    assert torch.equal(got, (x + y) * 2)
    assert graphs.ours == 2


def test_configurations_arrive_as_the_class_that_torch_bound(monkeypatch):
    # Where Triton is installed, torch's class is Triton's; by its name it would arrive as ours.
    with wb.use_in_torch_compile():
        heuristics = importlib.import_module("torch._inductor.runtime.triton_heuristics")
        workers.send_configurations()
        config = heuristics.Config({"XBLOCK": 64}, num_warps=2)
        config.found_by_coordesc = True
        sent = pickle.dumps(config)

        class Bound(heuristics.Config):
            pass

        monkeypatch.setattr(heuristics, "Config", Bound)
        arrived = pickle.loads(sent)
    assert type(arrived) is Bound
    assert vars(arrived) == vars(config)


class Made:
    """What Triton made of a kernel; `kernel`: whether its names were ours when it arrived."""

    def __init__(self):
        self.config, self.compile_meta, self.inductor_meta = "config", {}, {}

    def __setstate__(self, state):
        vars(self).update(state, kernel=switch.is_on)


def test_what_triton_made_is_unpickled_where_its_names_are_its_own():
    with wb.use_in_torch_compile():
        results = importlib.import_module("workbench.inductor.results")
        arrived = pickle.loads(pickle.dumps(results.FallenBack(Made(), "because")))
        again = pickle.loads(pickle.dumps(arrived))
        assert switch.is_on
        assert arrived.kernel is again.kernel is False
    assert (again.config, again.reason) == ("config", "because")


NO_DEVICE = """
import functools, pickle, sys
import torch
import workbench as wb
from tests.inductor.written import KERNEL, an_h200, module_text
from workbench.inductor import workers
from torch._inductor.async_compile import _load_triton_kernel_from_source

with wb.use_in_torch_compile(), an_h200():
    text = module_text(lambda x: torch.softmax(x, 1), (torch.randn(400, 500),))
((name, source),) = KERNEL.findall(text)
load = functools.partial(_load_triton_kernel_from_source, name, source)
kernel, _ = workers.compile_kernel(load, {}, {})
kernel = pickle.loads(pickle.dumps(kernel))
print({result.kernel.target for result in kernel.compile_results})
"""


def test_a_worker_compiles_for_a_gpu_that_it_cannot_ask():
    # Processes that were forked have no driver of CUDA, and torch 2.11 gives up without.
    done = subprocess.run(
        [sys.executable, "-c", NO_DEVICE], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout.strip() == "{'sm_90a'}", done.stderr[-3000:]


WORKERS = """
import torch
from torch._inductor import config
from torch._inductor.async_compile import AsyncCompile
import workbench as wb

config.compile_threads = 2
config.worker_start_method = "subprocess"
x = torch.randn(40, 50)
with wb.use_in_torch_compile() as graphs:
    AsyncCompile.wait_pool_ready()
    AsyncCompile.wakeup()  # as torch does where a graph's arguments are CUDA's
    assert torch.allclose(torch.compile(lambda x: torch.softmax(x, 1))(x), torch.softmax(x, 1))
(kernel,) = next(iter(graphs)).kernels
(artefact, *_) = kernel.artefacts
assert artefact._compiled is None  # made elsewhere, and found again when somebody looks
assert "tile.load" in artefact.compiled.asm["tile"]
print("fine")
"""


def test_workers_compile_through_us(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", WORKERS], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout.strip().endswith("fine"), done.stderr[-3000:]
