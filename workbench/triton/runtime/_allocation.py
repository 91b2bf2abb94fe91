"""`triton.runtime._allocation`: allocators, under the path of Triton."""

import sys

from workbench.triton.runtime import scratch

sys.modules[__name__] = scratch
