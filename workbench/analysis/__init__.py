"""Facts about IR, computed and never changed: affine forms, ranges, liveness.

Passes and targets ask; nothing here rewrites.
"""
