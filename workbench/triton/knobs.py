"""`triton.knobs`: the runtime's module of that name."""

import sys

from workbench.runtime import knobs

sys.modules[__name__] = knobs
