"""Python source to tile IR: spans, scopes, control flow, compile-time values, calls.

What a tl function means belongs to language/, what an op means to ops/. Nothing here knows about
targets, caches or launches.
"""

from workbench.frontend.lowering import lower_kernel
from workbench.frontend.specialization import Argument, Options, Specialization

__all__ = ["Argument", "Options", "Specialization", "lower_kernel"]
