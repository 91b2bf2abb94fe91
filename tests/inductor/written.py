"""What torch writes for CUDA, on a machine without: the text of a graph's module, its kernels.

Tensors are fakes that say they are on a GPU, and the properties of one H200 are what torch asks
for; nothing is launched.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch._dynamo.device_interface import CudaInterface
from torch._inductor import config
from torch._inductor.debug import DebugContext
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.graph import GraphLowering
from torch._inductor.runtime.triton_heuristics import CachingAutotuner
from torch._inductor.virtualized import V
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

H200 = SimpleNamespace(
    name="NVIDIA H200", major=9, minor=0, multi_processor_count=132, total_memory=150 << 30,
    regs_per_multiprocessor=65536, max_threads_per_multi_processor=2048,
    max_threads_per_block=1024, warp_size=32, shared_memory_per_block=49152,
    shared_memory_per_block_optin=232448, shared_memory_per_multiprocessor=233472,
    L2_cache_size=50 << 20, gcnArchName="", is_integrated=False,
)  # fmt: skip
#: A kernel in the text of a module: its name, its own text.
KERNEL = re.compile(r"async_compile\.triton\('(\w+)', '''(.*?)''', device_str='cuda'\)", re.DOTALL)


@contextmanager
def an_h200() -> Iterator[None]:
    """Have torch's compiler believe in one, from within `use_in_torch_compile`."""
    answers = {
        "is_available": True, "current_device": 0, "get_compute_capability": 90,
        "get_device_properties": H200,
    }  # fmt: skip
    names = {
        "torch.cuda.get_device_properties": H200, "torch.cuda.get_device_capability": (9, 0),
        "torch.cuda.current_device": 0,
        "torch._inductor.runtime.triton_helpers.set_driver_to_gpu": None,
    }  # fmt: skip
    fakes = [mock.patch.object(CudaInterface, n, return_value=a) for n, a in answers.items()]
    fakes += [
        mock.patch.object(CudaInterface.Worker, "get_device_properties", return_value=H200),
        *(mock.patch(name, return_value=answer) for name, answer in names.items()),
    ]
    with ExitStack() as held:
        for fake in fakes:
            held.enter_context(fake)
        yield


def module_text(function: Callable[..., Any], arguments: Sequence[Any]) -> str:
    """Return the module that torch writes for a function of tensors, had they been on a GPU.

    Gradients that the function takes are differentiated where the tensors are.
    """
    given = make_fx(function, tracing_mode="fake")(*arguments)
    for node in given.graph.nodes:
        if "device" in node.kwargs:
            node.kwargs = {**node.kwargs, "device": torch.device("cuda")}
    given.recompile()
    mode = FakeTensorMode()
    with mode, torch.no_grad():
        inputs = [
            torch.empty(x.shape, dtype=x.dtype, device="cuda") if isinstance(x, torch.Tensor) else x
            for x in arguments
        ]
        table = select_decomp_table()
        graph = make_fx(given, decomposition_table=table, tracing_mode="fake")(*inputs)
    lowering = GraphLowering(graph, example_inputs=inputs)
    with (
        V.set_graph_handler(lowering), V.set_debug_handler(DebugContext()),
        V.set_fake_mode(mode), config.patch(compile_threads=1),
    ):  # fmt: skip
        lowering.run(*inputs)
        return lowering.codegen()[0].value


def kernels_of(text: str) -> list[CachingAutotuner]:
    """Return the kernels of a module, each compiled in all its configurations."""
    from torch._inductor.async_compile import _load_triton_kernel_from_source

    found: list[CachingAutotuner] = []
    for name, source in KERNEL.findall(text):
        kernel = _load_triton_kernel_from_source(name, source)
        kernel.precompile(warm_cache_only=True)
        found.append(kernel)
    return found
