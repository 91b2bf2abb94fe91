"""The GPU's clock on a GPU: what the host does, and what cannot be captured."""

from __future__ import annotations

import time

import pytest

import workbench as wb
from tests.kernels import vector_add
from workbench.runtime.device_clock import Stopwatch
from workbench.runtime.measuring import measure
from workbench.runtime.timing import Effort, ratio

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.alone,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]
QUICK = Effort(warm_up=1.0, milliseconds=1.0, runs=40)


def add_call(n=1 << 22):
    x, y = (torch.randn(n, device="cuda") for _ in "xy")
    out = torch.empty_like(x)
    kernel = wb.jit(vector_add.add)
    return lambda: kernel[(wb.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)


def slowed(call):
    def run():
        time.sleep(0.003)
        call()
        time.sleep(0.003)

    return run


def test_a_slow_host_changes_no_time():
    call = add_call()
    found = measure({"plain": call, "slow host": slowed(call)}, gpu=True, effort=QUICK)
    assert found["plain"].timed == found["slow host"].timed == "cold"
    # 6 ms of sleep around 20 µs of kernel; the bound only has to tell these apart.
    assert found["slow host"].median < 2 * found["plain"].median
    assert 0.5 < ratio(found["plain"], found["slow host"]).value < 2


def test_a_call_that_waits_for_the_device_says_host():
    x = torch.randn(1 << 20, device="cuda")
    found = measure({"sum": lambda: x.sum().item(), "add": add_call()}, gpu=True, effort=QUICK)
    assert found["sum"].timed == "host"
    assert found["add"].timed == "cold"
    # What a failed capture leaves behind would break these.
    assert torch.randn(1000, device="cuda").add(1).isfinite().all()
    again = measure({"add": add_call()}, gpu=True, effort=QUICK)
    assert again["add"].timed == "cold"


def test_work_of_the_host_alone_says_host():
    found = measure({"": lambda: time.sleep(0.0005)}, gpu=True, effort=QUICK)[""]
    assert found.timed == "host"


def test_hot_and_cold():
    # 24 MB of 50 MB of L2: hot runs find their inputs there.
    call = add_call(1 << 21)
    cold = measure({"": call}, gpu=True, effort=QUICK)[""]
    hot = measure({"": call}, gpu=True, warm=True, effort=QUICK)[""]
    assert (cold.timed, hot.timed) == ("cold", "hot")
    assert hot.median < cold.median


def test_an_empty_kernel_takes_less_than_a_pair_of_events_in_a_stream():
    @wb.jit
    def nothing(n):
        pass

    found = measure({"": lambda: nothing[(1,)](3)}, gpu=True, effort=QUICK)[""]
    assert found.timed == "cold"
    assert 0.0003 < found.median < 0.0034


def test_random_numbers_and_backward_passes_are_captured_in_a_stream_of_ones_own():
    with torch.cuda.stream(torch.cuda.Stream()):
        leaf = torch.randn(1 << 16, device="cuda", requires_grad=True)
        y = (leaf * 2).sin().sum()
        calls = {
            "dropout": lambda: torch.nn.functional.dropout(leaf.detach(), 0.5),
            "backward": lambda: torch.autograd.grad(y, leaf, retain_graph=True),
        }
        found = measure(calls, gpu=True, effort=QUICK)
    assert {name: timing.timed for name, timing in found.items()} == {
        "dropout": "cold", "backward": "cold"
    }  # fmt: skip


def test_results_are_right_after_being_timed():
    x, y = (torch.randn(5000, device="cuda") for _ in "xy")
    out = torch.empty_like(x)
    kernel = wb.jit(vector_add.add)
    recording = Stopwatch().record
    kernel[(5,)](x, y, out, 5000, BLOCK=1024)
    out.zero_()
    recording(lambda: kernel[(5,)](x, y, out, 5000, BLOCK=1024)).replay()
    torch.cuda.synchronize()
    assert torch.equal(out, x + y)
