"""Which features of a processor code may use: those that code has been generated for, and run.

LLVM offers what a processor has; not all of that works. With AVX512-FP16 it finds no instruction
for a select between halves on a comparison of floats, and ends the process. So a feature that is
not in these lists is switched off; tests/targets/cpu/test_features.py generates code with them.
"""

from __future__ import annotations

_X86 = (
    "64bit adx aes avx avx2 avx512bf16 avx512bitalg avx512bw avx512cd avx512dq avx512f avx512ifma "
    "avx512vbmi avx512vbmi2 avx512vl avx512vnni avx512vpopcntdq bmi bmi2 clflushopt clwb clzero "
    "cmov crc32 cx16 cx8 f16c fma fsgsbase fxsr gfni invpcid lzcnt mmx movbe pclmul popcnt prfchw "
    "rdpid rdrnd rdseed sahf sha shstk sse sse2 sse3 sse4.1 sse4.2 sse4a ssse3 vaes vpclmulqdq "
    "xsave xsavec xsaveopt xsaves"
)
_ARM = "aes crc dotprod fp-armv8 lse neon rcpc rdm sha2"
_TESTED = {"x86_64": frozenset(_X86.split()), "aarch64": frozenset(_ARM.split())}
_TESTED["arm64"] = _TESTED["aarch64"]


def usable(triple: str, features: str) -> str:
    """Return LLVM's list of features ("+avx2,-avx512f") with what is not tested switched off.

    Architectures that have no list keep what they have.
    """
    known = _TESTED.get(triple.split("-")[0])
    if known is None:
        return features
    return ",".join(
        f"-{word[1:]}" if word[1:] not in known else word for word in features.split(",") if word
    )


def register_bits(features: str) -> int:
    """Return the width of the vector registers that code is written for."""
    words = set(features.split(","))
    if {"+avx512f", "+avx512bw", "+avx512dq"} <= words:
        return 512
    return 256 if {"+avx2", "+fma"} <= words else 128
