"""Launches on a real device; everything here needs one."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

import workbench as wb
from tests.runtime.kernels import add, fill
from workbench.launch import fastpath
from workbench.source import KernelError, LaunchError

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


def arguments(n=10_000, dtype=None):
    x = torch.randn(n, device="cuda").to(dtype or torch.float32)
    return x, torch.randn(n, device="cuda").to(x.dtype), torch.zeros_like(x)


def launch(x, y, out, grid=None, kernel=add):
    n = x.numel()
    return kernel[grid or (wb.cdiv(n, 512),)](x, y, out, n, BLOCK=512)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int32])
def test_add(dtype):
    x, y, out = arguments(dtype=dtype)
    kernel = launch(x, y, out)
    assert torch.equal(out, x + y)
    assert kernel.target.startswith("sm_")
    assert kernel.n_regs > 0
    assert kernel.n_spills == 0


def test_every_launcher_gives_the_same():
    """Careful, Python and native code take turns; sizes change facts and twins."""
    kernel = wb.jit(add.fn)
    for size in [10_000, 10_001, 4096, 1] * (fastpath.NATIVE_AFTER // 2):
        x, y, out = arguments(size)
        for grid in [None, lambda meta: (wb.cdiv(meta["n"], meta["BLOCK"]),)]:
            out.zero_()
            assert launch(x, y, out, grid, kernel).name == "add"
            assert torch.equal(out, x + y)
    assert type(kernel._launch).__name__ == "builtin_function_or_method"


def test_misaligned_arrays():
    x, y, out = (array[1:] for array in arguments())
    launch(x, y, out)
    assert torch.equal(out, x + y)


def test_an_empty_grid_runs_nothing():
    x, y, out = arguments()
    launch(x, y, out, (0,))
    assert not out.any()


def test_the_current_stream_is_used():
    x, y, out = arguments(1 << 28)
    kernel = wb.jit(add.fn)
    for _ in range(fastpath.NATIVE_AFTER + 8):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            out.zero_()
            launch(x, y, out, kernel=kernel)
            copy = out.clone()
        stream.synchronize()
        assert torch.equal(copy, x + y)


def test_a_stream_of_choice():
    x, y, out = arguments()
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    add.run(x, y, out, x.numel(), BLOCK=512, grid=(20,), stream=stream)
    stream.synchronize()
    assert torch.equal(out, x + y)


@pytest.mark.parametrize("launches", [1, fastpath.NATIVE_AFTER + 8])
def test_graphs(launches):
    """Also the very first launch, which compiles and loads, can be captured."""
    x, y, out = arguments()
    kernel = wb.jit(add.fn)
    for _ in range(launches - 1):
        launch(x, y, out, kernel=kernel)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launch(x, y, out, kernel=kernel)
    for _ in range(3):
        x.normal_()
        out.zero_()
        graph.replay()
        assert torch.equal(out, x + y)


def test_threads():
    failed = []
    kernel = wb.jit(add.fn)

    def work():
        x, y, out = arguments()
        for _ in range(fastpath.NATIVE_AFTER * 2):
            out.zero_()
            launch(x, y, out, kernel=kernel)
            if not torch.equal(out, x + y):
                failed.append(threading.get_ident())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_a_thread_without_a_context():
    x, y, out = arguments()
    launch(x, y, out)
    torch.cuda.synchronize()
    out.zero_()
    thread = threading.Thread(target=launch, args=(x, y, out))
    thread.start()
    thread.join()
    torch.cuda.synchronize()
    assert torch.equal(out, x + y)


def test_scalars():
    out = torch.zeros(10, device="cuda")
    for value in (2.5, 3, True):
        fill[(3,)](out, value, 9)
        assert out.tolist() == [float(value)] * 9 + [0]


def test_code_from_the_disk():
    from workbench.runtime import compiling

    x, y, out = arguments()
    compiling.forget()  # an earlier test may have stored it in a cache of its own
    launch(x, y, out, kernel=wb.jit(add.fn))
    compiling.forget()
    again = wb.jit(add.fn)
    kernel = launch(x, y, out, kernel=again)
    assert kernel.from_cache
    assert torch.equal(out, x + y)


def test_a_compiled_kernel_is_launched_directly():
    x, y, out = arguments()
    kernel = launch(x, y, out)
    out.zero_()
    kernel[(20,)](x, y, out, x.numel())
    assert torch.equal(out, x + y)


def test_a_cpu_tensor_among_gpu_tensors():
    x, y, out = arguments()
    launch(x, y, out)
    with pytest.raises(LaunchError, match="y_ptr is a CPU tensor, x_ptr lies on cuda:0"):
        launch(x, y.cpu(), out)


def test_a_grid_that_is_too_large():
    x, y, out = arguments()
    launch(x, y, out)
    with pytest.raises(LaunchError, match="at most 65,535 can run there"):
        launch(x, y, out, (1, 70_000))


def test_code_for_another_chip_is_refused():
    x, y, out = arguments()
    other = "sm_120a"
    with pytest.raises(KernelError, match="refuses the code of add for sm_120a"):
        add.run(x, y, out, x.numel(), BLOCK=512, grid=(20,), target=other)


LOSES_THE_CONTEXT = """
import torch, workbench as wb
from tests.runtime.kernels import fill
from workbench.runtime import faults
out = torch.zeros(4, device="cuda")
fill[(1,)](out, 1.0, 4)
torch.cuda.synchronize()
values = dict(out_ptr=out, value=2.0, n=1 << 30, BLOCK=4)
kernel = fill[(1 << 28,)](out, 2.0, 1 << 30)
for action in (lambda: faults.wait(kernel, (1 << 28,), values), lambda: fill[(1,)](out, 1.0, 4)):
    try:
        action()
        print("nothing")
    except wb.KernelError as error:
        print(error.code, error.message)
print(wb.compile(fill, "*f32 f32 i32", target="sm_90a").asm["ptx"][:2])
"""


def test_an_illegal_access_is_located_and_the_context_is_lost():
    done = subprocess.run(
        [sys.executable, "-c", LOSES_THE_CONTEXT], capture_output=True, text=True, timeout=120
    )
    lines = done.stdout.splitlines()
    assert lines[0].startswith("K502 store outside every argument"), done.stdout + done.stderr
    assert lines[1].startswith("K503 cuda:0 cannot be used any more after an illegal memory access")
    assert lines[2] == "//"


def test_properties():
    from workbench.devices import cuda

    found = cuda.properties(0)
    assert found.name == torch.cuda.get_device_name(0)
    assert found.capability == torch.cuda.get_device_capability(0)
    assert found.multiprocessors == torch.cuda.get_device_properties(0).multi_processor_count
