"""Tuning, operators of torch, graphs and arrays of other libraries on a real device."""

from __future__ import annotations

import pytest

import workbench as wb
import workbench.triton as triton
from tests.runtime.kernels import add
from tests.tuning.test_search import product
from workbench import tl
from workbench.runtime import compiling
from workbench.runtime.timing import Effort
from workbench.tuning.racing import Candidate, Race

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.alone,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_CACHE_DIR", str(tmp_path / "cache"))
    compiling.forget()


def blocks(meta):
    return (wb.cdiv(meta["n"], meta["BLOCK"]),)


def arguments(n=1 << 20):
    x, y = torch.randn(n, device="cuda"), torch.randn(n, device="cuda")
    return x, y, torch.zeros_like(x), n


CONFIGS = [wb.Config({"BLOCK": size}, num_warps=w) for size in (256, 1024) for w in (2, 4, 8)]


def test_a_search_on_the_gpu():
    x, y, out, n = arguments()
    kernel = wb.autotune(CONFIGS, key=["n"], rep=5, warmup=5)(add.fn)
    kernel[blocks](x, y, out, n)
    assert torch.equal(out, x + y)
    assert all(0 < times[0] < 10 for times in kernel.configs_timings.values())
    again = wb.autotune(CONFIGS, key=["n"], rep=5, warmup=5)(add.fn)
    again[blocks](x, y, out, n)
    assert again.configs_timings == kernel.configs_timings  # found on disk


def test_hopeless_configurations_of_a_product_are_pruned():
    size = 256
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.float16) for _ in "ab")
    c = torch.empty(size, size, device="cuda")
    found = wb.tune(
        product,
        (a, b, c, size),
        {"M": size, "N": size, "BK": 32},
        grid=(1,),
        axes={"warps": [1, 8, 16]},
        effort=Effort(5, 5, 10),
    )
    states = {row.config.num_warps: row.state for row in found.rows}
    assert states[1] == "pruned"
    assert "registers a thread or more" in found.rows[0].reason
    assert found.config.num_warps in (8, 16)
    torch.testing.assert_close(c, (a.float() @ b.float()), rtol=1e-2, atol=1e-1)


def test_runs_are_replays_of_graphs():
    calls = []
    x = torch.zeros(1 << 16, device="cuda")

    def call():
        calls.append(1)
        x.add_(1)

    candidate = Candidate(call)
    Race([candidate], gpu=True, effort=Effort(0, 1, 30)).run()
    assert len(candidate.timing.samples) >= 30
    assert len(calls) <= 3  # once for errors, once into the graph


def test_preparing_is_not_timed():
    x = torch.zeros(1 << 26, device="cuda")
    candidate = Candidate(lambda: None, lambda: x.zero_())
    Race([candidate], gpu=True, effort=Effort(0, 1, 20)).run()
    assert candidate.timing.median < 0.05


def test_tuning_within_a_capture_is_refused():
    x, y, out, n = arguments()
    kernel = wb.autotune(CONFIGS, key=["n"], rep=1, warmup=1, cache_results=False)(add.fn)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    refused = pytest.raises(wb.KernelError, match="while a CUDA graph is being captured")
    with refused, torch.cuda.graph(graph):
        kernel[blocks](x, y, out, n)
    torch.cuda.synchronize()
    kernel[blocks](x, y, out, n)
    out.zero_()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel[blocks](x, y, out, n)
    x.fill_(1.0)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(out, x + y)


@wb.torch_op("workbench_gpu_tests::add")
def add_op(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    add[blocks](x, y, out, x.numel(), BLOCK=512)
    return out


def test_an_operator_in_torch_compile():
    x, y, _, _ = arguments(10_000)
    torch.library.opcheck(add_op, (x, y))
    for backend in ("aot_eager", "cudagraphs"):
        torch._dynamo.reset()
        compiled = torch.compile(
            lambda x, y: add_op(x.sin(), y) * 2, backend=backend, fullgraph=True
        )
        for _ in range(3):
            torch.testing.assert_close(compiled(x, y), (x.sin() + y) * 2)


class Foreign:
    """An array of a library that only has `__cuda_array_interface__`."""

    def __init__(self, tensor):
        self.__cuda_array_interface__ = tensor.__cuda_array_interface__
        self.tensor = tensor


class Capsule:
    """An array of a library that only has DLPack."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self, **options):
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


@pytest.mark.parametrize("kind", [Foreign, Capsule])
def test_arrays_of_other_libraries(kind):
    x, y, out, n = arguments(5000)
    add[blocks](kind(x), kind(y), kind(out), n, BLOCK=256)
    torch.cuda.synchronize()
    assert torch.equal(out, x + y)


def test_the_interpreter_over_cuda_tensors():
    base = torch.randn(4, 20, device="cuda")
    x, out = base[:, ::2], torch.zeros(4, 20, device="cuda")[:, ::2]

    @wb.jit
    def copy(x_ptr, out_ptr, rows, columns, R: tl.constexpr, C: tl.constexpr):
        r, c = tl.arange(0, R), tl.arange(0, C)
        at = r[:, None] * 20 + c[None, :] * 2
        mask = (r < rows)[:, None] & (c < columns)[None, :]
        tl.store(out_ptr + at, tl.load(x_ptr + at, mask=mask), mask=mask)

    copy.interpret[(1,)](x, out, 4, 10, R=4, C=16)
    assert torch.equal(out, x)


def test_the_current_device():
    active = triton.runtime.driver.active
    major, minor = torch.cuda.get_device_capability()
    assert active.get_current_target().arch == major * 10 + minor
    found = active.utils.get_device_properties(0)
    assert (
        found["multiprocessor_count"] == torch.cuda.get_device_properties(0).multi_processor_count
    )
    assert found["max_shared_mem"] > 48 * 1024
    assert found["warpSize"] == 32
    assert triton.testing.get_dram_gbps() > 100


def test_kernels_without_arrays_run_on_the_gpu():
    @wb.jit
    def nothing(n):
        pass

    assert nothing[(1,)](3).target.startswith("sm_")
