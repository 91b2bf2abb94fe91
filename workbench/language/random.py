"""Counter-based random numbers: Philox-4x32-10 and 4x64-10 (README.md, rule 30).

Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011). The streams are part of
the language: the same seed and offset give the same bits as Triton.
"""

from __future__ import annotations

from typing import Any

from workbench.language import arithmetic as maths
from workbench.language import functions
from workbench.language.arithmetic import binary
from workbench.language.casts import bitcast_tensor, cast_tensor
from workbench.language.dtypes import int32, int64, uint32, uint64
from workbench.language.table import builtin
from workbench.language.values import describe, static_int, tensor, to_tensor
from workbench.source import KernelTypeError

# Key increments and round multipliers by width: (key A, key B, round A, round B).
_WORDS = {
    uint32: (0x9E3779B9, 0xBB67AE85, 0xD2511F53, 0xCD9E8D57),
    uint64: (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B, 0xD2E7470EE14C6C93, 0xCA5A826395121157),
}
Words = tuple[tensor, tensor, tensor, tensor]


@builtin
def philox_impl(c0: Any, c1: Any, c2: Any, c3: Any, k0: Any, k1: Any, n_rounds: Any = 10) -> Words:
    """Return the four words that the rounds make of a counter (c0 to c3) and a key (k0, k1)."""
    if c0.dtype not in _WORDS:
        raise KernelTypeError(
            f"philox_impl takes uint32 or uint64 words, got {c0.dtype}",
            hint="cast it first, e.g. .to(tl.uint32)",
        )
    key_a, key_b, round_a, round_b = _WORDS[c0.dtype]
    for _ in range(static_int(n_rounds, "n_rounds")):
        old0, old2 = c0, c2
        c0 = binary("^", binary("^", functions.umulhi(round_b, old2), c1), k0)
        c2 = binary("^", binary("^", functions.umulhi(round_a, old0), c3), k1)
        c1 = binary("*", round_b, old2)
        c3 = binary("*", round_a, old0)
        k0 = binary("+", k0, key_a)
        k1 = binary("+", k1, key_b)
    return c0, c1, c2, c3


@builtin
def philox(seed: Any, c0: Any, c1: Any, c2: Any, c3: Any, n_rounds: Any = 10) -> Words:
    """Return four random words for a seed and a counter of four 32- or 64-bit integers."""
    key = cast_tensor(_integer(seed, "the seed"), uint64)
    counters = [_integer(c, "the offset") for c in (c0, c1, c2, c3)]
    if counters[0].dtype.int_bitwidth == 32:
        word = uint32
        high = cast_tensor(binary("&", binary(">>", key, 32), 0xFFFFFFFF), uint32)
        low = cast_tensor(binary("&", key, 0xFFFFFFFF), uint32)
    else:
        word = uint64
        low, high = key, cast_tensor(to_tensor(0), uint64)
    a, b, c, d = (_as_word(counter, word) for counter in counters)
    return philox_impl(a, b, c, d, low, high, n_rounds)


def _integer(value: Any, what: str) -> tensor:
    found = to_tensor(value)
    if not found.dtype.is_int():
        raise KernelTypeError(
            f"{what} of random numbers is an integer, got {describe(found)}",
            hint="load it first: tl.load(seed)" if found.dtype.is_ptr() else "convert it first",
        )
    return found


def _as_word(c: tensor, word: Any) -> tensor:
    same = c.dtype.int_bitwidth == word.int_bitwidth and c.constant is None
    return bitcast_tensor(c, word) if same else cast_tensor(c, word)


@builtin
def randint4x(seed: Any, offset: Any, n_rounds: Any = 10) -> Words:
    """Return four blocks of random 32-bit words, one element per offset."""
    at = to_tensor(offset)
    low = cast_tensor(at, uint32)
    zero = binary("*", low, 0)
    high = zero
    if at.dtype.int_bitwidth > 32:
        high = cast_tensor(binary(">>", at, 32), uint32)
    return philox(seed, low, high, zero, zero, n_rounds)


@builtin
def randint(seed: Any, offset: Any, n_rounds: Any = 10) -> tensor:
    """Return a block of random 32-bit words."""
    return randint4x(seed, offset, n_rounds)[0]


@builtin
def uint_to_uniform_float(x: Any) -> tensor:
    """Return random words as floats in [0, 1)."""
    value = to_tensor(x)
    if value.dtype in (uint32, int32):
        value, scale = bitcast_tensor(value, int32), 4.6566127342e-10
    elif value.dtype in (uint64, int64):
        value, scale = bitcast_tensor(value, int64), 1.0842020432385337e-19
    else:
        raise KernelTypeError(
            f"uint_to_uniform_float takes 32- or 64-bit words, got {value.dtype}",
            hint="cast it first, e.g. .to(tl.uint32)",
        )
    folded = binary("-", maths.negative(value), 1)
    return binary("*", maths.where(binary("<", value, 0), folded, value), scale)


@builtin
def rand(seed: Any, offset: Any, n_rounds: Any = 10) -> tensor:
    """Return uniform fp32 numbers in [0, 1)."""
    return uint_to_uniform_float(randint(seed, offset, n_rounds))


@builtin
def rand4x(seed: Any, offsets: Any, n_rounds: Any = 10) -> Words:
    """Return four blocks of uniform fp32 numbers in [0, 1)."""
    a, b, c, d = randint4x(seed, offsets, n_rounds)
    convert = uint_to_uniform_float
    return convert(a), convert(b), convert(c), convert(d)


@builtin
def pair_uniform_to_normal(u1: Any, u2: Any) -> tuple[tensor, tensor]:
    """Return two normal numbers for two uniform ones (Box and Muller)."""
    angle = binary("*", 6.283185307179586, u2)
    radius = functions.sqrt(binary("*", -2.0, functions.log(maths.maximum(1.0e-7, u1))))
    return binary("*", radius, functions.cos(angle)), binary("*", radius, functions.sin(angle))


@builtin
def randn(seed: Any, offset: Any, n_rounds: Any = 10) -> tensor:
    """Return normal fp32 numbers of mean 0 and deviation 1."""
    a, b, _, _ = randint4x(seed, offset, n_rounds)
    return pair_uniform_to_normal(uint_to_uniform_float(a), uint_to_uniform_float(b))[0]


@builtin
def randn4x(seed: Any, offset: Any, n_rounds: Any = 10) -> Words:
    """Return four blocks of normal fp32 numbers."""
    a, b, c, d = rand4x(seed, offset, n_rounds)
    return (*pair_uniform_to_normal(a, b), *pair_uniform_to_normal(c, d))
