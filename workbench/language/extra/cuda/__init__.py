"""`tl.extra.cuda`: questions to the chip, and launches that overlap.

Where there is no NVIDIA chip, a program runs on multiprocessor 0 at time 0, and launches never
overlap.
"""

from workbench.language.extra.cuda import libdevice  # isort: skip
from workbench.language.extra.cuda.questions import (  # isort: skip
    gdc_launch_dependents,
    gdc_wait,
    globaltimer,
    num_threads,
    num_warps,
    smid,
)
from workbench.language.extra.cuda import gdc, utils
from workbench.language.extra.cuda.utils import (
    convert_custom_float8_sm70,
    convert_custom_float8_sm80,
)

__all__ = [
    "convert_custom_float8_sm70", "convert_custom_float8_sm80", "gdc", "gdc_launch_dependents",
    "gdc_wait", "globaltimer", "libdevice", "num_threads", "num_warps", "smid", "utils",
]  # fmt: skip
