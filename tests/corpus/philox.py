"""Philox-4x32-10 in 64-bit integers of torch: the reference for random streams."""

from __future__ import annotations

import torch

_WORD = 0xFFFFFFFF


def philox(seed: int, counter: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return the four 32-bit words of each counter (below 2^32), as int64."""
    c0 = counter.long() & _WORD
    c1, c2, c3 = (torch.zeros_like(c0) for _ in range(3))
    k0, k1 = seed & _WORD, seed >> 32 & _WORD
    for _ in range(10):
        high0, low0 = _product(0xD2511F53, c0)
        high1, low1 = _product(0xCD9E8D57, c2)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = (k0 + 0x9E3779B9) & _WORD, (k1 + 0xBB67AE85) & _WORD
    return c0, c1, c2, c3


def _product(constant: int, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the high and low words of constant * x."""
    low = constant * (x & 0xFFFF)  # below 2^48
    high = constant * (x >> 16)
    total = (low >> 16) + high  # (constant * x) >> 16, below 2^49
    return total >> 16, (total & 0xFFFF) << 16 | low & 0xFFFF


def uniform(words: torch.Tensor) -> torch.Tensor:
    """Return numbers in [0, 1) in fp32, as `tl.rand` makes them of words."""
    signed = torch.where(words >= 1 << 31, words - (1 << 32), words)
    folded = torch.where(signed < 0, -signed - 1, signed)
    return folded.float() * 4.6566127342e-10
