"""`tl.extra.cuda.gdc`: launches that overlap, under their path in Triton."""

from workbench.language.extra.cuda.questions import gdc_launch_dependents, gdc_wait
from workbench.language.versions import core_of

__all__ = ["gdc_launch_dependents", "gdc_wait"]

__getattr__ = core_of("tl.extra.cuda.gdc")
