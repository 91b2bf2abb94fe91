"""Rows that are places of several axes, as walked tensor maps: the bytes that pointers read."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import workbench.language as tl
from tests.kernels import convolution
from tests.passes.corpus import numbers, tile_ir
from tests.passes.meaning import SCALE, meaning
from tests.passes.pipelines import gpu_steps, tile_steps
from tests.targets.nvidia.raising import SM_90A, Tried, may_run
from workbench.analysis.forms import number
from workbench.ops import For, If
from workbench.source import KernelError
from workbench.targets.nvidia import raising, walks
from workbench.targets.nvidia.ops import TensorCopy
from workbench.targets.simt.ops import roles_of


def gathered(  # noqa: C901
    x_ptr, y_ptr, N, H, W, P, Q, C, sn, sh, sw, stride, pad, dilation,
    BM: tl.constexpr, BC: tl.constexpr, FORM: tl.constexpr, MASK: tl.constexpr,
    TAPS: tl.constexpr,
):  # fmt: skip
    """What of an image each tap meets, for each place of the result; summed up with weights."""
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    if FORM == "from outside":
        n, left = m // (P * Q), m % (P * Q)
        p, q = left // Q, left % Q
    elif FORM == "from inside":
        rows = m // Q
        n, p, q = rows // P, rows % P, m % Q
    else:
        n, p, q = m // (P * Q), (m // Q) % P, m % Q
    if FORM == "one image":
        n = n * 0
    group = tl.program_id(1)
    total = tl.zeros((BM, BC), tl.float32)
    for r in range(TAPS):
        for s in range(TAPS):
            h, w = p * stride - pad + r * dilation, q * stride - pad + s * dilation
            live = m >= 0
            if "n" in MASK:
                live = live & (n < N)
            if "h" in MASK:
                live = live & (h >= 0) & (h < H)
            if "w" in MASK:
                live = live & (w >= 0) & (w < W)
            if "H" in MASK:
                live = live & (h < H - 1)
            for start in range(0, C, BC):
                c = start + tl.arange(0, BC)
                at = n[:, None] * sn + h[:, None] * sh + w[:, None] * sw + (group * C + c)[None, :]
                mask = live[:, None] & (c[None, :] < C)
                x = tl.load(x_ptr + at, mask=mask, other=0.0)
                total = total * 3 + x
    keep = (m < N * P * Q)[:, None] & (tl.arange(0, BC)[None, :] < BC)
    where = (tl.program_id(1) * N * P * Q + m)[:, None] * BC + tl.arange(0, BC)[None, :]
    tl.store(y_ptr + where, total, mask=keep)


def one_convolution(pick: random.Random) -> Counter[str]:
    """Launch a convolution of random form some times, and return what came of it."""
    taps, groups = pick.choice([1, 2, 3]), pick.choice([1, 1, 2])
    sizes = {
        "BM": pick.choice([4, 8, 16]), "BC": pick.choice([4, 8]), "TAPS": taps,
        "FORM": pick.choice(["mixed", "from outside", "from inside"]),
        "MASK": pick.choice(["nhw", "nhw", "hw", "nw", "nhwH"]),
    }  # fmt: skip
    fixed = [pick.random() < 0.5 for _ in range(3)]
    words = "*fp32:16 *fp32:16 i32 i32 i32 i32 i32 i32:4 i32:4 i32:4 i32:4"
    steps = ["i32=1" if one else "i32" for one in fixed]
    tried = Tried(gathered, " ".join((words, *steps)), sizes)
    found: Counter[str] = Counter()
    if not tried.boxes:
        found[f"refused: {tried.missed}"] += 1
        return found
    for _ in range(3):
        stride, pad, dilation = (
            1 if one else pick.choice(others)
            for one, others in zip(fixed, ([1, 2, 3], [0, 1, 2], [1, 2]), strict=True)
        )
        N, H, W, C = (
            pick.randint(1, 3),
            pick.randint(1, 6),
            pick.randint(1, 6),
            4 * pick.randint(1, 3),
        )
        whole = (H + 2 * pad - dilation * (taps - 1), W + 2 * pad - dilation * (taps - 1))
        P, Q = ((size - 1) // stride + 1 for size in whole)
        if min(P, Q) < 1:
            continue
        sw = groups * C + 4 * pick.choice([0, 1])
        x = np.random.default_rng(pick.randrange(1 << 30)).integers(-4, 5, (N * H * W, sw))
        x = x.astype(np.float32)
        x[:, groups * C :] = np.nan

        moves = [n for n, one in zip((stride, pad, dilation), fixed, strict=True) if not one]
        given = (N, H, W, P, Q, C, H * W * sw, W * sw, sw, *moves)

        def make(x: Any = x, rest: Any = given) -> list[Any]:
            return [x.ravel().copy(), np.zeros(8192, np.float32), *rest]

        found[tried.launch(make, (-(-N * P * Q // sizes["BM"]), groups))] += 1
    return found


def test_convolutions_of_every_form_read_what_pointers_read():
    pick = random.Random("convolutions")
    found = sum((one_convolution(pick) for _ in range(int(8 * SCALE))), Counter[str]())
    assert found["same"] >= 10, found


FIXED = {"BM": 8, "BC": 4, "FORM": "mixed", "MASK": "nhw", "TAPS": 2}
WORDS = "*fp32:16 *fp32:16 i32 i32 i32 i32 i32 i32:4 i32:4 i32:4 i32:4 i32 i32 i32"


def one_launch(tried: Tried, **given: int) -> str:
    """Launch a convolution of 2 x 2 taps over 2 images of 5 x 4 places and 8 channels."""
    stride, pad, dilation = (given.get(name, 1) for name in ("stride", "pad", "dilation"))
    p, q = ((size + 2 * pad - dilation - 1) // stride + 1 for size in (5, 4))
    x = np.random.default_rng(1).integers(1, 9, 2 * 5 * 4 * 8).astype(np.float32)
    sizes = (2, 5, 4, p, q, 8, 160, 32, 8, stride, pad, dilation)
    return tried.launch(
        lambda: [x.copy(), np.zeros(4096, np.float32), *sizes], (-(-2 * p * q // 8), 1)
    )


@pytest.mark.parametrize(
    ("given", "found"),
    [({}, "same"), ({"stride": 2}, "same"), ({"pad": 0, "dilation": 3}, "same"),
     ({"stride": 9, "pad": 5}, "twin"), ({"dilation": 32, "pad": 16}, "twin")],
)  # fmt: skip
def test_what_no_map_can_be_is_asked_of_the_launch(given: dict[str, int], found: str):
    """Steps of at most 8, corners and offsets of 5 bits (a third window is for groups)."""
    assert one_launch(Tried(gathered, WORDS, FIXED), **given) == found


WEIGHTS = "*fp16:16 *fp16:16 *fp16:16 *fp16:16"
SIZES = {"R": 2, "S": 3, "HAS_BIAS": False, "BLOCK_M": 64, "BLOCK_K": 16, "BLOCK_C": 16}


@pytest.mark.parametrize("parted", [False, True])
def test_a_convolution_is_one_loop_of_boxes(parted: bool):
    """Of all taps and channels: 2 images of 5 x 6 places, 32 channels, 24 results."""
    words = f"{WEIGHTS} i32 i32 i32 i32 i32 i32 i32 i32=1 i32=1 i32=1 i32=1 i32=1 "
    words += (
        "i32:16 i32=1 i32:16 i32:16 i32:16 i32=1 i32:16 i32:16 i32:8 i32=1 i32:8 i32:8 i32:16 i32:8"
    )
    tile = tile_ir(convolution.conv2d, words, SIZES)
    final = [tile, *(after for _, after in tile_steps(tile))][-1]
    final = replace(final, attributes={**final.attributes, "narrow_index": True})
    options = {"warp_specialize": parted, "persistent": False}
    steps = dict(gpu_steps(final, SM_90A, **options))
    loops = [op for op in steps["flatten-boxes"].walk() if isinstance(op, For)]
    assert len(loops) == 1
    assert not any(isinstance(op, If) for op in loops[0].body.ops)
    made = steps["insert-barriers"]
    maps = {op.map.type for op in made.walk() if isinstance(op, TensorCopy)}
    assert sum(held.walked for held in maps) == 1
    assert bool(roles_of(made)) is parted
    n, h, w, c, k, p, q = 2, 5, 6, 32, 24, 6, 6
    x, taps = (numbers(m, np.float16, seed) for seed, m in enumerate((n * h * w * c, k * 6 * c)))

    def arguments() -> list[Any]:
        out = np.zeros(n * p * q * k, np.float16)
        return [x.copy(), taps.copy(), taps, out, n, c, h, w, k, p, q,
                h * w * c, w * c, c, 6 * c, 3 * c, c, p * q * k, q * k, k, c, k]  # fmt: skip

    assert may_run(made, arguments(), (2, 2, 1))
    wanted = meaning(steps["narrow-index"], (2, 2, 1), arguments())
    assert meaning(made, (2, 2, 1), arguments()) == wanted


#: Faults by name: what is replaced, by what, and a launch that shows it.
FAULTS: dict[str, tuple[str, Callable[..., Any], dict[str, int]]] = {
    "offsets are not asked for": (
        "in_reach", lambda axes, windows: [], {"dilation": 32, "pad": 16},
    ),
    "offsets are lost": (
        "Window", lambda f, c, s, offset, real=walks.Window: real(f, c, s, number(0)), {},
    ),
    "first places are 0": (
        "Window", lambda f, c, s, offset, real=walks.Window: real(number(0), c, s, offset), {},
    ),
    "places lie side by side": (
        "Window", lambda f, c, s, offset, real=walks.Window: real(f, c, number(1), offset),
        {"stride": 2},
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault: str, monkeypatch: pytest.MonkeyPatch):
    name, wrong, given = FAULTS[fault]
    monkeypatch.setattr(walks, name, wrong)
    if name == "in_reach":
        monkeypatch.setattr(raising, name, wrong)
    with pytest.raises((AssertionError, KernelError)):
        one_launch(Tried(gathered, WORDS, FIXED), **given)
