"""`tl.extra.cuda.gdc`: launches that overlap, under their path in Triton."""

from workbench.language import core
from workbench.language.extra.cuda.questions import gdc_launch_dependents, gdc_wait

__all__ = ["core", "gdc_launch_dependents", "gdc_wait"]
