"""Launches code with probes on a GPU: arrays go there and come back."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from workbench.bench.arrays import is_array, is_tensor
from workbench.launch import on_cuda
from workbench.questions.running import Bench


def launch_on_cuda(
    code: Any, bench: Bench, grid: tuple[int, int, int], sizes: dict[str, int]
) -> dict[str, np.ndarray[Any, Any]]:
    """Run a grid over copies of a bench's arrays; returns the probes' buffers as bytes.

    Arrays that share memory do not share it there: such a launch is refused before.
    """
    torch.zeros(1, device="cuda")
    raw = {name: torch.zeros(size + 64, dtype=torch.uint8, device="cuda") for name, size in
           sizes.items()}  # fmt: skip
    held: dict[str, torch.Tensor] = {}
    values: list[Any] = []
    for parameter in code.module.parameters:
        name = parameter.name
        if name in raw:
            values.append(raw[name].data_ptr())
            continue
        value = bench.arguments[name]
        if is_array(value):
            held[name] = (value if is_tensor(value) else torch.from_numpy(value)).cuda()
            value = held[name].data_ptr()
        values.append(value)
    device = torch.cuda.current_device()
    on_cuda.load(code, device)(*grid, 0, *values)
    torch.cuda.synchronize()
    for name in bench.names:
        mine, theirs = bench.arguments[name], held[name].cpu()
        if is_tensor(mine):
            mine.copy_(theirs)
        else:
            mine[...] = theirs.numpy()
    return {name: buffer.cpu().numpy() for name, buffer in raw.items()}
