"""`tl.extra`: functions that Triton keeps apart because they began as a vendor's.

`libdevice` are mathematical functions, `cuda` asks the chip. Both work on every target.
"""

from workbench.language.extra import libdevice  # isort: skip
from workbench.language.extra import cuda

__all__ = ["cuda", "libdevice"]
