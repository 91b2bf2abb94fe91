"""What to pass in place of what no kernel can take."""

from __future__ import annotations


def instead_of(found: str) -> str:
    """Return what to pass where a launch got something else, described in words."""
    if found == "a list":
        return "pass a tuple, tuple(...), of what the kernel takes apart, or an array"
    if found in ("a complex", "a Decimal", "a Fraction"):
        return "pass int(...) or float(...) of it; kernels have no such numbers"
    if found == "a dict":
        return "pass what the kernel reads of it, each as an argument of its own"
    if "is nested" in found:
        return "pass what it holds, x.values(), and where its parts begin as an array of its own"
    if "it is masked" in found:
        return "pass x.filled(0), and x.mask as an array of its own where the kernel needs it"
    if "is_neg" in found:
        return "pass x.resolve_neg()"
    if "storage" in found:
        return "pass a dense tensor, e.g. x.to_dense()"
    return "pass a NumPy array, a tensor, or an object that speaks DLPack"
