"""Code for processors that are not this one is generated, not run: LLVM must not end over it."""

from __future__ import annotations

from functools import cache

import pytest

from tests.files import form
from tests.kernels import rotary
from tests.passes.corpus import tile_ir
from workbench.ir import Module
from workbench.passes.manager import Recorder
from workbench.passes.pipeline import tile_passes
from workbench.targets.cpu import pipeline
from workbench.targets.cpu.features import register_bits, usable
from workbench.targets.llvm.toolchain import LlvmError, Machine, assembly

_X86, _ARM = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"
_AVX2 = "+avx2,+fma,+f16c,+bmi,+bmi2"
_AVX512 = f"{_AVX2},+avx512f,+avx512bw,+avx512dq,+avx512vl"
#: Processors, and what LLVM says that they have, tested or not.
PROCESSORS = (
    (_X86, "x86-64-v2", ""),
    (_X86, "x86-64-v3", _AVX2),
    (_X86, "x86-64-v4", _AVX512),
    (_X86, "znver5", f"{_AVX512},+avx512bf16,+avx512vbmi,+avx512vp2intersect,+avxvnni"),
    (
        _X86,
        "diamondrapids",
        f"{_AVX512},+avx512bf16,+avx512fp16,+amx-tile,+amx-fp16,+avx10.1,+avx10.2,+avxvnni,+egpr"
        ",+avxneconvert,+avxifma,+avxvnniint8,+avxvnniint16,+ndd",
    ),
    (_ARM, "generic", "+neon"),
    (_ARM, "neoverse-v2", "+neon,+fullfp16,+fp16fml,+bf16,+i8mm,+sve,+sve2"),
    (_ARM, "apple-m4", "+neon,+fullfp16,+fp16fml,+bf16,+i8mm,+sme,+sme2"),
)
TEXTS = [t for t in form.texts() if any(run.target == "cpu" for run in t.tests)]


#: Quick where the most is switched off, and with a file in five; the rest is slow.
QUICK = ("x86-64-v2", "diamondrapids", "neoverse-v2")
_FIFTH, _ALL = range(0, len(TEXTS), 5), range(len(TEXTS))
_REST = [number for number in _ALL if number not in _FIFTH]


@cache
def passed(number: int) -> Module:
    """Return a file's module as every processor's code is written from it."""
    return pipeline.tile_passes(TEXTS[number].module(), Recorder())


@pytest.mark.parametrize(
    ("processor", "numbers"),
    [pytest.param(p, _FIFTH, id=f"{p[1]}-quick") for p in PROCESSORS if p[1] in QUICK]
    + [
        pytest.param(p, _REST if p[1] in QUICK else _ALL, id=p[1], marks=pytest.mark.slow)
        for p in PROCESSORS
    ],
)
def test_files_have_code_on_every_processor(processor, numbers):
    triple, name, features = processor
    machine = Machine(triple, name, usable(triple, features), 2, jit=True)
    for text, module in ((TEXTS[number], passed(number)) for number in numbers):
        writer = pipeline.write(module, machine)
        try:
            assembly(pipeline.llvm_module(writer, module), machine)
        except LlvmError as error:
            pytest.fail(f"{text.name}: {error.words}")


def test_masked_halves_of_vectors_have_code():
    """Vectors of 512 bits, of which registers hold halves, loaded and stored in place."""
    extents = {"Q_HEADS": 3, "K_HEADS": 1, "HEAD_DIM": 80, "PAD_Q": 4, "PAD_K": 1, "PAD_HALF": 64}
    types = "*fp32:16 *fp32:16 *fp32:16 *fp32:16 i32:16 i32:16 i32 i32"
    first = tile_ir(rotary.rope_half, types, {**extents, "BACKWARD": True})
    machine = Machine(_X86, "znver3", usable(_X86, _AVX2), 2, jit=True)
    module = pipeline.tile_passes(tile_passes(first, Recorder()), Recorder())
    assert assembly(pipeline.llvm_module(pipeline.write(module, machine), module), machine)


def test_what_is_not_tested_is_switched_off():
    assert usable(_X86, "+avx2,+avx512fp16,-avx512f") == "+avx2,-avx512fp16,-avx512f"
    assert usable("riscv64-unknown-linux-gnu", "+v") == "+v"
    assert [register_bits(words) for words in ("", _AVX2, _AVX512)] == [128, 256, 512]
