from __future__ import annotations

import numpy as np
import pytest

from workbench import testing, tl


def test_do_bench_returns_what_is_asked_for():
    calls = []
    times = testing.do_bench(lambda: calls.append(1), warmup=0, rep=0, return_mode="all")
    assert len(times) >= 5
    assert len(calls) > len(times)
    low, middle = testing.do_bench(lambda: None, warmup=0, rep=0, quantiles=(0.0, 0.5))
    assert 0 <= low <= middle
    assert isinstance(testing.do_bench(lambda: None, warmup=0, rep=0), float)


def test_gradients_are_dropped_before_each_call():
    class Tensor:
        grad = 1

    tensor, seen = Tensor(), []
    call = lambda: (seen.append(tensor.grad), setattr(tensor, "grad", 1))  # noqa: E731
    testing.do_bench(call, warmup=0, rep=0, grad_to_none=[tensor])
    assert set(seen) == {None}


BENCHMARK = testing.Benchmark(
    x_names=["n"],
    x_vals=[1, 2, 3],
    line_arg="provider",
    line_vals=["ours", "torch"],
    line_names=["Ours", "Torch"],
    plot_name="speed",
    args={"scale": 10},
)


@testing.perf_report(BENCHMARK)
def report(n, provider, scale):
    value = float(n * scale)
    return (value, value - 1, value + 1) if provider == "ours" else value / 2


def test_a_report_prints_its_table(capsys):
    report.run(print_data=True)
    text = capsys.readouterr().out
    assert text.startswith("speed:\n")
    assert text.splitlines()[1].split()[:3] == ["n", "Ours", "Torch"]
    assert text.splitlines()[3].split()[:3] == ["2", "20", "10"]


def test_a_report_is_saved_as_csv_and_picture(tmp_path):
    report.run(save_path=tmp_path / "out")
    assert (tmp_path / "out" / "speed.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "out" / "speed.csv").read_text().splitlines()[1].startswith("1,10.0,5.0")


def test_assert_close():
    testing.assert_close(np.ones(3), np.ones(3) + 1e-3)
    with pytest.raises(AssertionError):
        testing.assert_close(np.ones(3), np.ones(3) + 0.1)


def test_ceilings_follow_from_the_devices_numbers(monkeypatch):
    from workbench.triton.runtime.driver import driver

    class Device:
        class utils:  # noqa: N801
            @staticmethod
            def get_device_properties(device):
                return {"multiprocessor_count": 132, "mem_clock_rate": 3.2e6, "mem_bus_width": 6144}

        @staticmethod
        def get_current_device():
            return 0

    driver.set_active(Device)
    try:
        assert testing.get_dram_gbps() == pytest.approx(4915.2)
        assert testing.get_max_tensorcore_tflops(tl.float16, 1.8e6) == pytest.approx(
            486.6, rel=1e-3
        )
        assert testing.get_max_simd_tflops(tl.float32, 1.8e6) == pytest.approx(60.8, rel=1e-3)
        with pytest.raises(RuntimeError, match="tensor cores have no dtype float64"):
            testing.get_max_tensorcore_tflops(np.dtype("float64"), 1.0)
    finally:
        driver.reset_active()
