"""`tl.semantic`: Triton's functions over its builder; ours build for themselves, under one name."""

import sys

from workbench.language import core

sys.modules[__name__] = core
