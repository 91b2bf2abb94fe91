"""Pages by boxes on a GPU give what other loads do, below where the caches begin as well."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.corpus.sample import jitted
from tests.kernels import paged_attention
from tests.targets.nvidia.test_on_device import device_chip
from tests.targets.nvidia.test_pages import GROUP, HEAD, sequences_of

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu

BOXES, COPIES = {"tma": True}, {"tma": False}


@pytest.fixture(autouse=True)
def _on_hopper() -> None:
    if device_chip() != "sm_90a":
        pytest.skip("no CUDA device with warpgroups")


def on_device(array: Any, below: int) -> Any:
    """Return an array on the device; one that is a view is one of a tensor with what is below."""
    if not isinstance(array, np.ndarray):
        return array
    whole = array if array.base is None or not below else array.base
    held = torch.from_numpy(whole.reshape(-1).copy()).cuda()
    return held[len(held) - array.size :]


@pytest.mark.parametrize("below", [0, 3])
@pytest.mark.parametrize("warp_specialize", [False, True])
@pytest.mark.parametrize(("page", "block"), [(32, 32), (64, 64), (64, 32), (32, 64), (16, 64)])
def test_boxes_bring_what_copies_do(page: int, block: int, warp_specialize: bool, below: int):
    arguments, grid = sequences_of(page, below=below)
    given = [on_device(a, below if n in (1, 2) else 0) for n, a in enumerate(arguments)]
    sizes = {"HEAD": HEAD, "BLOCK_D": HEAD, "GROUP": GROUP, "BLOCK_Q": 16, "PAGE": page,
             "BLOCK_N": block, "num_warps": 4, "num_stages": 2}  # fmt: skip
    kernel, found = jitted(paged_attention.paged_prefill), []
    more = {"warp_specialize": warp_specialize, "persistent": False}
    for options in (BOXES, COPIES):
        given[3] = torch.full_like(given[0], float("nan"))
        compiled = kernel[grid](*given, **sizes, **more, **options)
        found.append(given[3].clone())
        assert ("cp.async.bulk.tensor" in compiled.asm["ptx"]) == options["tma"]
    assert not found[0].isnan().any()
    torch.testing.assert_close(*found, rtol=2**-8, atol=2**-10)


def test_drawn_programs_have_the_same_bits():
    """In a hundred launches, in two graphs, and in streams beside each other."""
    arguments, grid = sequences_of(64)
    given = [on_device(a, 0) for a in arguments]
    out = given[3]
    sizes = {"HEAD": HEAD, "BLOCK_D": HEAD, "GROUP": GROUP, "BLOCK_Q": 16, "PAGE": 64,
             "BLOCK_N": 64, "num_warps": 4, "num_stages": 2, "warp_specialize": True}  # fmt: skip
    kernel = jitted(paged_attention.paged_prefill)

    def launch(**options: Any) -> Any:
        return kernel[grid](*given, **sizes, **options)

    launch(persistent=False)
    wanted = out.clone()

    def same() -> bool:
        torch.cuda.synchronize()
        found = torch.equal(out, wanted)
        out.fill_(float("nan"))
        torch.cuda.synchronize()
        return found

    compiled = launch(persistent=True)
    assert compiled.launch.drawn
    assert same()
    for _ in range(100):
        launch(persistent=True)
        assert same()
    graphs = [torch.cuda.CUDAGraph() for _ in range(2)]
    for graph in graphs:
        with torch.cuda.graph(graph):
            launch(persistent=True)
    streams = [torch.cuda.Stream() for _ in range(4)]
    for _ in range(10):
        for stream, graph in zip(streams, (*graphs, None, None), strict=True):
            with torch.cuda.stream(stream):
                graph.replay() if graph is not None else launch(persistent=True)
        assert same()
