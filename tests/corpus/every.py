"""All samples: importing a family enters its samples."""

from __future__ import annotations

from tests.corpus import activations, losses, norms, optimizers, rotary  # noqa: F401
from tests.corpus.sample import SAMPLES

__all__ = ["SAMPLES"]
