"""`triton.testing` on our clocks: do_bench, Benchmark, perf_report, assert_close."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workbench.language.table import ONLY_RAISES
from workbench.language.versions import versioned
from workbench.runtime.do_bench import do_bench, do_bench_cudagraph
from workbench.source import UnknownNameError


def assert_close(
    x: Any, y: Any, atol: float | None = None, rtol: float | None = None, err_msg: str = ""
) -> None:
    """Raise AssertionError where two arrays differ by more than the tolerances."""
    import numpy as np

    def host(value: Any) -> Any:
        if hasattr(value, "detach"):
            value = value.detach()
            return (value.double() if value.is_floating_point() else value).cpu().numpy()
        return np.asarray(value)

    atol = 1e-2 if atol is None else atol
    rtol = 0.0 if rtol is None else rtol
    np.testing.assert_allclose(host(x), host(y), rtol, atol, equal_nan=True, err_msg=err_msg)


@dataclass
class Benchmark:
    """One plot: what is on its axis, which lines it has, which arguments are fixed.

    Attributes:
        x_names: parameters that take each value of `x_vals`.
        x_vals: numbers, or tuples with a value for each name.
        line_arg: the parameter that says which line.
        line_vals: its values.
        line_names: the lines' labels.
        plot_name: the plot's title and file name.
        args: the other arguments.
    """

    x_names: Sequence[str]
    x_vals: Sequence[Any]
    line_arg: str
    line_vals: Sequence[Any]
    line_names: Sequence[str]
    plot_name: str
    args: dict[str, Any]
    xlabel: str = ""
    ylabel: str = ""
    x_log: bool = False
    y_log: bool = False
    styles: Sequence[tuple[str, str]] | None = None


@dataclass
class Table:
    """The numbers of one benchmark: a header, and one row per point."""

    columns: list[str]
    rows: list[list[Any]] = field(default_factory=list[list[Any]])

    def first(self, count: int) -> Table:
        """Return the table without what stands after the first columns."""
        return Table(self.columns[:count], [row[:count] for row in self.rows])

    def __str__(self) -> str:
        cells = [self.columns, *([_shown(value) for value in row] for row in self.rows)]
        widths = [max(len(row[n]) for row in cells) for n in range(len(self.columns))]
        return "\n".join(
            "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
            for row in cells
        )


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


class Mark:
    """A benchmark function with its plots."""

    def __init__(self, fn: Callable[..., Any], benchmarks: Benchmark | Sequence[Benchmark]) -> None:
        self.fn = fn
        self.benchmarks = benchmarks

    def run(
        self,
        show_plots: bool = False,
        print_data: bool = False,
        save_path: str | Path = "",
        return_df: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Measure every point; plot, print, save or return the numbers as asked.

        With `return_df` the numbers come as pandas DataFrames (as tables where pandas is not
        installed), one per benchmark, or a list of them.
        """
        found = []
        for bench in self._all:
            table = self._measure(bench, kwargs)
            if show_plots or save_path:
                _plot(bench, table, save_path, show_plots)
            table = table.first(len(bench.x_names) + len(bench.line_names))
            if print_data:
                sys.stdout.write(f"{bench.plot_name}:\n{table}\n")
            if save_path:
                _write_csv(Path(save_path) / f"{bench.plot_name}.csv", table)
            found.append(_frame(table))
        if save_path:
            _write_page(Path(save_path), [found_one.plot_name for found_one in self._all])
        if not return_df:
            return None
        return found[0] if isinstance(self.benchmarks, Benchmark) else found

    @property
    def _all(self) -> list[Benchmark]:
        given = self.benchmarks
        return [given] if isinstance(given, Benchmark) else list(given)

    def _measure(self, bench: Benchmark, kwargs: dict[str, Any]) -> Table:
        labels = list(bench.line_names)
        unit = f" ({bench.ylabel})" if bench.ylabel else ""
        shown = [f"{label}{unit}" for label in labels]
        sides = [f"{label}-{side}{unit}" for side in ("min", "max") for label in labels]
        table = Table([*bench.x_names, *shown, *sides])
        for x in bench.x_vals:
            values = list(x) if isinstance(x, (tuple, list)) else [x] * len(bench.x_names)
            axes = dict(zip(bench.x_names, values, strict=True))
            middles, bounds = [], []
            for line in bench.line_vals:
                result = self.fn(**axes, **{bench.line_arg: line}, **bench.args, **kwargs)
                middle, low, high = result if isinstance(result, tuple) else (result, None, None)
                middles.append(middle)
                bounds.append((low, high))
            sides_of_row = [bound[side] for side in (0, 1) for bound in bounds]
            table.rows.append([*values, *middles, *sides_of_row])
        return table


def perf_report(benchmarks: Benchmark | Sequence[Benchmark]) -> Callable[[Any], Mark]:
    """Make a benchmark of a function that returns a number, or (number, lowest, highest)."""
    return lambda fn: Mark(fn, benchmarks)


def _frame(table: Table) -> Any:
    try:
        import pandas  # type: ignore[import-not-found]
    except ImportError:
        return table
    return pandas.DataFrame(table.rows, columns=table.columns)


def _write_csv(path: Path, table: Table) -> None:
    import csv

    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(table.columns)
        writer.writerows(table.rows)


def _write_page(folder: Path, names: Sequence[str]) -> None:
    images = "".join(f'<img src="{name}.png"/>\n' for name in names)
    (folder / "results.html").write_text(f"<html><body>\n{images}</body></html>\n")


def _plot(bench: Benchmark, table: Table, save_path: str | Path, show: bool) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots()
    first = len(bench.x_names)
    x = [row[0] for row in table.rows]
    for number, label in enumerate(bench.line_names):
        color, style = bench.styles[number] if bench.styles else (None, "-")
        axes.plot(
            x, [row[first + number] for row in table.rows], color=color, ls=style, label=label
        )
        count = len(bench.line_names)
        low, high = (first + count * (1 + side) + number for side in (0, 1))
        if all(row[low] is not None and row[high] is not None for row in table.rows):
            axes.fill_between(
                x,
                [row[low] for row in table.rows],
                [row[high] for row in table.rows],
                alpha=0.15,
                color=color,
            )
    axes.legend()
    axes.set_xlabel(bench.xlabel or bench.x_names[0])
    axes.set_ylabel(bench.ylabel)
    axes.set_xscale("log" if bench.x_log else "linear")
    axes.set_yscale("log" if bench.y_log else "linear")
    axes.set_title(bench.plot_name)
    if save_path:
        Path(save_path).mkdir(parents=True, exist_ok=True)
        figure.savefig(Path(save_path) / f"{bench.plot_name}.png")
    if show:
        plt.show()
    plt.close(figure)


# -- ceilings of the device, as Triton's formulas give them ---------------------------------------
def nvsmi(attrs: Sequence[str]) -> list[int]:
    """Return numbers that nvidia-smi reports of the first GPU, e.g. "clocks.current.sm"."""
    command = ["nvidia-smi", "-i", "0", f"--query-gpu={','.join(attrs)}"]
    said = subprocess.check_output([*command, "--format=csv,noheader,nounits"], text=True)
    return [int(word) for word in said.strip().split(",")]


def _device_numbers(device: int | None) -> dict[str, int]:
    from workbench.triton.runtime.driver import driver

    active = driver.active
    chosen = active.get_current_device() if device is None else device
    return active.utils.get_device_properties(chosen)


def get_dram_gbps(device: int | None = None) -> float:
    """Return the bandwidth of a device's memory in GB/s, from its clock and bus."""
    found = _device_numbers(device)
    return found["mem_clock_rate"] * found["mem_bus_width"] * 2 / 1e6 / 8


def get_max_tensorcore_tflops(dtype: Any, clock_rate: float, device: int | None = None) -> float:
    """Return the most tera-operations per second of the tensor cores at a clock in kHz."""
    name = getattr(dtype, "name", None) or str(dtype).removeprefix("torch.")
    each = _TENSOR_OPERATIONS.get(name)
    if each is None:
        raise RuntimeError(f"tensor cores have no dtype {name}")
    return _device_numbers(device)["multiprocessor_count"] * 4 * clock_rate * each * 1e-9


def get_max_simd_tflops(dtype: Any, clock_rate: float, device: int | None = None) -> float:
    """Return the most tera-operations per second without tensor cores, at a clock in kHz."""
    name = getattr(dtype, "name", None) or str(dtype).removeprefix("torch.")
    each = {"float32": 64, "fp32": 64, "float16": 128, "fp16": 128, "bfloat16": 128, "bf16": 128}
    if name not in each:
        raise RuntimeError(f"no rate is known for dtype {name}")
    return _device_numbers(device)["multiprocessor_count"] * 4 * clock_rate * each[name] * 1e-9


#: Operations per clock of a quarter of a multiprocessor, by dtype (sm_80).
_TENSOR_OPERATIONS = {
    "float32": 256, "fp32": 256, "int32": 256, "float16": 512, "fp16": 512, "bfloat16": 512,
    "bf16": 512, "int16": 512, "int8": 1024, "fp8e4nv": 1024, "fp8e5": 1024,
}  # fmt: skip


def cuda_memcheck(**target_kwargs: Any) -> Callable[..., Any]:
    """Refuse: no tool of NVIDIA is run over a test."""
    raise UnknownNameError("triton.testing.cuda_memcheck is not supported", hint=_MEMCHECK)


def set_gpu_clock(ref_sm_clock: int = 1350, ref_mem_clock: int = 1215) -> Any:
    """Refuse: the clocks of a GPU belong to all who use it."""
    raise UnknownNameError("triton.testing.set_gpu_clock is not supported", hint=_CLOCK)


_MEMCHECK = "kernel.interpret[grid](...) finds accesses out of bounds and races, on any machine"
_CLOCK = "run `nvidia-smi --lock-gpu-clocks` yourself; times here say where they are unsteady"
ONLY_RAISES["triton.testing.cuda_memcheck"] = _MEMCHECK
ONLY_RAISES["triton.testing.set_gpu_clock"] = _CLOCK


@contextmanager
def _without_collection() -> Iterator[None]:
    """Keep Python from collecting garbage within the block."""
    import gc

    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _module(name: str) -> Any:
    return importlib.import_module(name)


def __getattr__(name: str) -> Any:
    """Return what Triton's module of this name imports, when it is asked for."""
    if name == "tl":
        return _module("workbench.language")
    if name == "runtime":
        return _module("workbench.triton.runtime")
    return _later(name)


_later = versioned("triton.testing", {
    "do_bench_proton": ("3.8.0", None, lambda: do_bench),
    "do_bench_cudagraph_proton": ("3.8.0", None, lambda: do_bench_cudagraph),
    "cuda_graph_without_gc": ("3.9.0", None, lambda: _without_collection),
    "cublas": ("3.9.0", None, lambda: _module("torch")),
})  # fmt: skip
