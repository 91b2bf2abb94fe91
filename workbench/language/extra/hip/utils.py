"""`tl.extra.hip.utils`: questions to the chip."""

from __future__ import annotations

from workbench.language.extra.cuda import questions
from workbench.language.table import described
from workbench.language.values import tensor
from workbench.language.versions import core_of


def memrealtime() -> tensor:
    """Return the chip's clock as int64; in nanoseconds on the chips that there are here."""
    return questions.globaltimer()


described(memrealtime)

__all__ = ["memrealtime"]

__getattr__ = core_of("tl.extra.hip.utils", {
    name: ("3.8.0", None, lambda name=name: getattr(questions, name))
    for name in ("num_threads", "num_warps", "smid")
})  # fmt: skip
