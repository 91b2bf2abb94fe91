"""What is made for sm_90a of kernels that stand on tensor cores: wide copies ahead, no spills.

`python -m tests.bench.sass_facts` prints the same facts of all configurations.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import pytest

from tests.bench import (
    attentions,
    backward,
    convolutions,
    experts,
    mixed,
    paged,
    products,
    skinny,
)
from tests.bench.ahead import compile_ours
from tests.bench.contests import Config, Tensors
from tests.bench.sass_facts import Facts, facts_of, sample
from tests.corpus import every
from tests.corpus.sample import Launch, Problem
from tests.targets.nvidia.test_ptx import needs_ptxas


@dataclass(frozen=True, slots=True)
class Want:
    """What a kernel is to be made of.

    Attributes:
        by: what multiplies in its hot loops.
        boxes: whether tensor copies bring what it multiplies, else 16 bytes a thread do.
        loads: how many loads to registers its hot loops have at most: numbers of pages, scales.
        converts: whether what is multiplied is computed (its first loop may convert).
        debts: faults that are known; one that goes is to be taken out here.
    """

    by: str
    boxes: bool = False
    loads: int = 0
    converts: bool = False
    debts: tuple[str, ...] = ()


#: A kernel by its contest and configuration, which of its launches, and what it is made of.
CASES: dict[str, tuple[partial[Any], Config, int, Want]] = {
    "products": (
        partial(products.product, size=4096, dtype=products.F16, layout="nn"),
        Config((128, 256, 64), 8, 3), 0, Want("HGMMA", boxes=True),
    ),
    "products of bytes": (
        partial(products.typed_product, size=4096, dtype=products.I8),
        Config((128, 128, 128), 4, 4), 0, Want("IGMMA", boxes=True),
    ),
    "attention": (
        partial(attentions.attention, size=4096, head=64, dtype=attentions.F16, causal=False),
        Config((128, 64), 4, 3), 0, Want("HGMMA", boxes=True, converts=True),
    ),
    "keys and values": (
        partial(backward.backward, size=4096, head=64, causal=True),
        Config((64, 128, 128, 64), 8, 2), 1,
        Want("HGMMA", boxes=True, converts=True),
    ),
    "queries": (
        partial(backward.backward, size=4096, head=128, causal=True),
        Config((64, 128, 128, 64), 8, 2), 2, Want("HGMMA", boxes=True, converts=True),
    ),
    "pages of 16": (
        partial(paged.decode, batch=64, length=4096, page=16), Config((64, 2), 4, 3), 0,
        Want("HMMA", loads=8, converts=True),
    ),
    "pages of 128": (
        partial(paged.decode, batch=64, length=4096, page=128), Config((64, 2), 4, 3), 0,
        Want("HMMA", loads=1, converts=True),
    ),
    "pages of fp8": (
        partial(paged.decode, batch=64, length=4096, page=128, dtype=paged.E4M3),
        Config((64, 2), 4, 3), 0, Want("HMMA", loads=1, converts=True),
    ),
    "prefill": (
        partial(paged.mixed, sequences=paged.MIXTURES["mixed"], page=128),
        Config((32, 64), 8, 3), 0, Want("HGMMA", boxes=True, converts=True),
    ),
    "few rows": (
        partial(skinny.skinny, m=16, k=4096, n=14336, how="split"),
        Config((16, 64, 128, 4), 4, 4), 0, Want("HMMA"),
    ),
    "shared steps": (
        partial(skinny.skinny, m=64, k=4096, n=14336, how="shared"),
        Config((64, 64, 128, 2), 4, 3), 0, Want("HGMMA"),
    ),
    "int4, few rows": (
        partial(mixed.mixed, kind="int4", m=16, k=8192, n=28672), Config((16, 64, 128), 4, 4), 0,
        # Scales: two columns' are four bytes.
        Want("HMMA", debts=("1 of 5 copies narrower than 16 bytes",)),
    ),
    "words, few rows": (
        partial(mixed.mixed, kind="words", m=16, k=8192, n=28672), Config((16, 128, 128), 4, 4), 0,
        # Scales: two columns' are four bytes, eight columns' zero points a word.
        Want("HMMA", converts=True, debts=("2 of 8 copies narrower than 16 bytes",)),
    ),
    "int8": (
        partial(mixed.mixed, kind="int8", m=256, k=8192, n=28672), Config((128, 128, 64), 4, 3), 0,
        Want("HGMMA", boxes=True),
    ),
    "tables": (
        partial(experts.group_products, rows=experts.GROUPS["8 uneven"], how="tables"),
        Config((128, 128, 64), 4, 4), 0, Want("HGMMA"),
    ),
    "convolution": (
        partial(convolutions.convolve, shape=convolutions.SHAPES[3], last=True),
        Config((128, 128, 64), 8, 3), 0, Want("HGMMA", boxes=True),
    ),
    "convolution, copied": (
        partial(convolutions.convolve, shape=convolutions.SHAPES[3], last=True),
        Config((128, 128, 64), 8, 3, ("no tma",)), 0, Want("HGMMA"),
    ),
    "experts": (
        partial(experts.expert_products, tokens=512, n_experts=8, top_k=2, width=4096, inner=1792),
        Config((128, 128, 64), 4, 4), 0, Want("HGMMA"),
    ),
}  # fmt: skip
#: The same of samples of the corpus: its suite and name, and which of its launches.
SAMPLES: dict[str, tuple[str, int, Want]] = {
    "blocks of a product": ("block_sparse product", 0, Want("HGMMA", loads=1)),
    "states of chunks": ("linear_attention chunked", 1, Want("HGMMA", loads=14, converts=True,
        debts=("4 of 12 copies narrower than 16 bytes",))),  # decays, four bytes a thread
    "chunks": ("linear_attention chunked", 2, Want("HGMMA", boxes=True, loads=6)),
}  # fmt: skip


def launch_of(name: str) -> Launch:
    if name in CASES:
        prepare, config, which, _ = CASES[name]
        return prepare(Tensors("meta")).launches(config)[which]
    title, which, _ = SAMPLES[name]
    return problem(title).launches[which]


@cache
def problem(title: str) -> Problem:
    (entry,) = (e for e in every.SAMPLES if f"{e.suite} {e.name}" == title)
    return sample(entry)


@cache
def made(name: str) -> tuple[Any, Facts]:
    kernel = compile_ours(launch_of(name))
    return kernel, facts_of(kernel)


@needs_ptxas
@pytest.mark.parametrize("name", [*CASES, *SAMPLES])
def test_loads_go_ahead_and_nothing_spills(name: str):
    want: Want = {**CASES, **SAMPLES}[name][-1]
    _, facts = made(name)
    assert tuple(facts.faults()) == want.debts
    assert {word for word in facts.mma.split() if not word.isdigit()} == {want.by}
    assert (facts.boxes > 0) == want.boxes
    assert bool(facts.widths("LDGSTS")) or want.boxes
    assert facts.widths("LDG").total() <= want.loads
    if not want.converts:
        assert facts.loops[0].conversions == 0


@needs_ptxas
def test_two_8_bit_floats_are_decoded_at_once():
    """64 x 128 keys and values for 128 threads: 128 of them in each, 64 conversions."""
    kernel, _ = made("pages of fp8")
    assert kernel.asm["ptx"].count("cvt.rn.f16x2.e4m3x2") >= 64
    (loop,) = made("pages of fp8")[1].loops
    assert sum(name.startswith("F2FP.F16.E4M3") for name, _ in loop.rows) == 64
