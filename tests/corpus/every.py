"""All samples: importing a family enters its samples."""

from __future__ import annotations

import importlib

from tests.corpus.sample import SAMPLES

FAMILIES = (
    "norms", "activations", "losses", "rotary", "optimizers",
    "reductions", "scans", "sorting", "gathering", "generated", "experts", "block_sparse",
    "convolution", "linear_attention", "products",
    "attentions", "attention_backward", "paged_attention", "quantised", "grouped", "broadcasting",
)  # fmt: skip

for family in FAMILIES:
    importlib.import_module(f"tests.corpus.{family}")

__all__ = ["FAMILIES", "SAMPLES"]
