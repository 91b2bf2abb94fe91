"""`triton.language`: the module of the kernel language itself, under this name too."""

import sys

from workbench import language

sys.modules[__name__] = language
