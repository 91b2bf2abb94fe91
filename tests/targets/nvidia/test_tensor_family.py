"""What is made for sm_90a of kernels that stand on tensor cores: wide copies ahead, no spills."""

from __future__ import annotations

import re
from functools import cache, partial
from typing import Any

import pytest

from tests.bench import backward, experts, mixed, paged, skinny
from tests.bench.ahead import compile_ours
from tests.bench.contests import Config, Tensors
from tests.targets.nvidia.test_ptx import needs_ptxas

#: A kernel by its contest and configuration, and how many of its loads go ahead of a loop.
CASES: dict[str, tuple[partial[Any], Config, int, int]] = {
    # name: (contest, configuration, which of its launches, copies ahead)
    "keys and values": (
        partial(backward.backward, size=4096, head=64, causal=True),
        Config((64, 128, 128, 64), 8, 2), 1, 4,
    ),
    "queries": (
        partial(backward.backward, size=4096, head=128, causal=True),
        Config((64, 128, 128, 64), 8, 2), 2, 2,
    ),
    "pages of 16": (
        partial(paged.decode, batch=64, length=4096, page=16), Config((64, 2), 4, 3), 0, 2
    ),
    "pages of 128": (
        partial(paged.decode, batch=64, length=4096, page=128), Config((64, 2), 4, 3), 0, 2
    ),
    "pages of fp8": (
        partial(paged.decode, batch=64, length=4096, page=128, dtype=paged.E4M3),
        Config((64, 2), 4, 3), 0, 2,
    ),
    "prefill": (
        partial(paged.mixed, sequences=paged.MIXTURES["mixed"], page=128),
        Config((32, 64), 8, 3), 0, 2,
    ),
    "few rows": (
        partial(skinny.skinny, m=16, k=4096, n=14336, how="split"),
        Config((16, 64, 128, 4), 4, 4), 0, 2,
    ),
    "shared steps": (
        partial(skinny.skinny, m=64, k=4096, n=14336, how="shared"),
        Config((64, 64, 128, 2), 4, 3), 0, 2,
    ),
    "int4, few rows": (
        partial(mixed.mixed, kind="int4", m=16, k=8192, n=28672),
        Config((16, 64, 128), 4, 4), 0, 2,
    ),
    "int8": (
        partial(mixed.mixed, kind="int8", m=256, k=8192, n=28672),
        Config((128, 128, 64), 4, 3), 0, 2,
    ),
    "tables": (
        partial(experts.group_products, rows=experts.GROUPS["8 uneven"], how="tables"),
        Config((128, 128, 64), 4, 4), 0, 2,
    ),
    "experts": (
        partial(experts.expert_products, tokens=512, n_experts=8, top_k=2, width=4096, inner=1792),
        Config((128, 128, 64), 4, 4), 0, 2,
    ),
}  # fmt: skip


@cache
def made(name: str) -> Any:
    prepare, config, which, _ = CASES[name]
    return compile_ours(prepare(Tensors("meta")).launches(config)[which])


def hot_loops(ptx: str) -> list[str]:
    """Return the innermost loops that multiply: from a label to the jump back to it."""
    lines = ptx.splitlines()
    labels: dict[str, int] = {}
    found: list[tuple[int, int]] = []
    for at, line in enumerate(lines):
        if label := re.match(r"\s*(\$L\w+):", line):
            labels[label.group(1)] = at
        jump = re.search(r"\bbra(?:\.uni)?\s+(\$L\w+)", line)
        if jump and jump.group(1) in labels:
            found.append((labels[jump.group(1)], at))
    loops = ["\n".join(lines[a:b]) for a, b in found
             if not any(a <= c and d <= b and (a, b) != (c, d) for c, d in found)]  # fmt: skip
    return [text for text in loops if "mma.sync" in text or "wgmma.mma_async" in text]


@needs_ptxas
@pytest.mark.parametrize("name", CASES)
def test_loads_go_ahead_and_nothing_spills(name: str):
    kernel = made(name)
    assert kernel.n_spills == 0
    remarks = [r.text for r in kernel.compiled.lowered.recorder.remarks.items]
    ahead = [int(m[1]) for text in remarks if (m := re.match(r"(\d+) loads copied ", text))]
    parted = [text for text in remarks if text.startswith("specialised: ")]
    assert ahead or parted
    assert set(ahead) <= {CASES[name][3]}
    loops = hot_loops(kernel.asm["ptx"])
    assert loops
    for loop in loops:
        # What is left are numbers of pages, and scales, of which a thread has few.
        loads = re.findall(r"ld\.global\S*\.[bsu](?:8|16|32|64) ", loop)
        assert not [word for word in loads if word.endswith(("b8 ", "u8 ", "s8 "))]
        assert len(loads) <= (4 if name.startswith("int") else 8)
        assert "cp.async" in loop or (parted and not loads)


def test_keys_of_pages_are_read_and_written_sixteen_bytes_wide():
    for name in ("pages of 16", "pages of 128", "pages of fp8", "tables"):
        for loop in hot_loops(made(name).asm["ptx"]):
            # PTX ISA 9.0, cp.async: .cg moves 16 bytes, .ca fewer too.
            assert set(re.findall(r"cp\.async\.(c[ag])", loop)) == {"cg"}


def test_two_8_bit_floats_are_decoded_at_once():
    """64 x 128 keys and values for 128 threads: 128 of them in each, 64 conversions."""
    (loop,) = hot_loops(made("pages of fp8").asm["ptx"])
    assert loop.count("cvt.rn.f16x2.e4m3x2") == 64
