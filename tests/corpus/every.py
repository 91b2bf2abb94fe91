"""All samples: importing a family enters its samples."""

from __future__ import annotations

from tests.corpus import activations, norms  # noqa: F401
from tests.corpus.sample import SAMPLES

__all__ = ["SAMPLES"]
