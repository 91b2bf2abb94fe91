"""`tl.extra.cuda.libdevice`: `tl.extra.libdevice` under its old path."""

import sys

from workbench.language.extra import libdevice

sys.modules[__name__] = libdevice
