"""`tl.extra`: functions that Triton keeps apart because they began as a vendor's.

`libdevice` are mathematical functions, `cuda` and `hip` ask the chip. All work on every target.
"""

from workbench.language.extra import libdevice  # isort: skip
from workbench.language.extra import cuda, hip

__all__ = ["cuda", "hip", "libdevice"]
