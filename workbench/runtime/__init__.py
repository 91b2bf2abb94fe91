"""Kernels at run time: jit objects, signatures, cache, launchers, drivers, timing, autotune.

It calls the compiler, never the other way. Nothing here imports torch or cuda before an array of
theirs is seen, and a launch that finds its code in the cache imports no compiler at all.
"""
