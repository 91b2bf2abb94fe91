"""What a device can do at most: data-sheet peaks, and the speed of a plain copy measured here."""

from __future__ import annotations

from functools import lru_cache

from workbench.runtime.measuring import measure
from workbench.runtime.timing import Effort
from workbench.trace import Ceiling

#: device name -> GB/s of memory, TFLOP/s by operand type without sparsity; NVIDIA's data sheets
SHEETS: dict[str, tuple[float, dict[str, float]]] = {
    "H200": (4800, {"f16": 989, "bf16": 989, "tf32": 495, "f8": 1979, "i8": 1979}),
    "H100 PCIe": (2000, {"f16": 756, "bf16": 756, "tf32": 378, "f8": 1513, "i8": 1513}),
    "H100": (3350, {"f16": 989, "bf16": 989, "tf32": 495, "f8": 1979, "i8": 1979}),
    "A100-SXM4-80GB": (2039, {"f16": 312, "bf16": 312, "tf32": 156, "i8": 624}),
    "A100": (1555, {"f16": 312, "bf16": 312, "tf32": 156, "i8": 624}),
}
GPU_COPY_BYTES = 2**29
CPU_COPY_BYTES = 2**27  # beyond the last-level cache of the machines at hand


def ceilings(metric: str, gpu: bool, operand: str | None) -> tuple[Ceiling, ...]:
    """Return the limits that a plot in this metric shows; unknown devices have no peaks."""
    found: list[Ceiling] = []
    if metric == "gbps":
        copy = copy_speed(gpu)
        found.append(Ceiling(name="copy", unit="gbps", value=copy, source="measured"))
    if not gpu:
        return tuple(found)
    sheet = _sheet()
    if sheet is None:
        return tuple(found)
    memory, tensor = sheet
    if metric == "gbps":
        found.append(Ceiling(name="memory", unit="gbps", value=memory, source="data sheet"))
    elif metric == "tflops" and operand is not None:
        kind = "f8" if operand.startswith("f8") else operand
        if kind in tensor:
            value = tensor[kind]
            found.append(
                Ceiling(name=f"{kind} peak", unit="tflops", value=value, source="data sheet")
            )
    return tuple(found)


def _sheet(name: str | None = None) -> tuple[float, dict[str, float]] | None:
    """Return the data sheet's limits of a device, None for one that is unknown."""
    if name is None:
        import torch

        name = torch.cuda.get_device_name()
    return next((limits for known, limits in SHEETS.items() if known in name), None)


def roofline(moved: float, flops: float, operand: str, name: str | None = None) -> float | None:
    """Return the least milliseconds that a device's data sheet allows; None for an unknown one.

    Args:
        moved: bytes that have to be read or written.
        flops: operations of matrix products.
        operand: the type of their operands, e.g. "f16", "bf16", "tf32".
        name: the device's, that of the current CUDA device if None.
    """
    sheet = _sheet(name)
    if sheet is None or (flops and operand not in sheet[1]):
        return None
    memory, tensor = sheet
    return max(moved / memory / 1e6, flops / tensor[operand] / 1e9 if flops else 0.0)


@lru_cache(16)
def peak_speed(gpu: bool, operand: str) -> float:
    """Return the TFLOP/s of the library's square matrix product, the most that is seen here.

    Args:
        gpu: on the current CUDA device; else on the CPU, where every type is computed in fp32, but
            for fp64.
        operand: the type of the operands: f16, bf16, tf32, f32, f64; others count as f16.
    """
    import torch

    types = {"bf16": torch.bfloat16, "f32": torch.float32, "tf32": torch.float32,
             "f64": torch.float64}  # fmt: skip
    dtype = types.get(operand, torch.float16)
    if not gpu and dtype is not torch.float64:
        dtype = torch.float32
    size = (8192 if dtype.itemsize < 4 else 4096) if gpu else 1024
    a, b = (torch.randn(size, size, device="cuda" if gpu else "cpu").to(dtype) for _ in "ab")
    out = torch.empty_like(a)
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = operand == "tf32"
    try:
        effort = Effort(warm_up=5.0, milliseconds=20.0, runs=5)
        timing = measure({"product": lambda: torch.mm(a, b, out=out)}, gpu=gpu, effort=effort)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    return 2 * size**3 / (timing["product"].best * 1e9)


@lru_cache(2)
def copy_speed(gpu: bool) -> float:
    """Return the GB/s, read and written, of a copy too large for any cache."""
    import torch

    size = GPU_COPY_BYTES if gpu else CPU_COPY_BYTES
    source = torch.empty(size // 4, dtype=torch.float32, device="cuda" if gpu else "cpu").zero_()
    target = torch.empty_like(source)
    effort = Effort(warm_up=5.0, milliseconds=20.0, runs=5)
    timing = measure({"copy": lambda: target.copy_(source)}, gpu=gpu, effort=effort)["copy"]
    return 2 * size / (timing.best * 1e6)
