"""What people who know NumPy and PyTorch write, and what that is in a kernel."""

from __future__ import annotations

from workbench.language.extra.libdevice import LIBRARY
from workbench.language.table import BUILTINS

#: Functions and methods that have another name here.
_OTHERWISE = {
    "append": "a tuple does not change: make a longer one, e.g. items = items + (x,)",
    "extend": "a tuple does not change: make a longer one, e.g. items = items + more",
    "astype": "write x.to(tl.float32)",
    "bmm": "write tl.dot(a, b)",
    "clone": "a value never changes: give it another name",
    "concatenate": "write tl.cat(a, b, can_reorder=True), or tl.join for a new axis",
    "copy": "a value never changes: give it another name",
    "all": "reduce it: tl.min((x > 0).to(tl.int32), axis=0) != 0",
    "any": "reduce it: tl.max((x > 0).to(tl.int32), axis=0) != 0",
    "bytearray": "write tl.zeros(shape, tl.uint8)",
    "dict": "use names, a tuple, or a NamedTuple that is passed to the kernel",
    "double": "write x.to(tl.float64)",
    "empty": "write tl.zeros(shape, tl.float32)",
    "enumerate": "count in the loop: for i in range(n), or tl.static_range(len(items))",
    "filter": "write tl.where(condition, x, y), or a loop over tl.static_range",
    "float": "write x.to(tl.float32)",
    "format": "texts are known when the kernel is compiled; tl.device_print shows values",
    "half": "write x.to(tl.float16)",
    "matmul": "write tl.dot(a, b)",
    "mean": "divide a sum by the number of elements, e.g. tl.sum(x, axis=0) / n",
    "input": "pass it as an argument of the kernel",
    "list": "use a tuple, (a, b)",
    "map": "write the function on the whole tile, or a loop over tl.static_range",
    "mm": "write tl.dot(a, b)",
    "next_power_of_2": "compute it before the launch, and pass it as a tl.constexpr",
    "numel": "how many elements a tile has is x.numel; how long an array is comes as an argument",
    "ones": "write tl.full(shape, 1.0, tl.float32)",
    "open": "a kernel reads and writes the arrays that it is passed",
    "relu": "write tl.maximum(x, 0.0)",
    "reversed": "count down: for i in range(n - 1, -1, -1), or tl.flip(x) of a tile",
    "set": "use a tuple, (a, b)",
    "size": "x.shape has the extents; how long an array is comes as an argument",
    "sorted": "write tl.sort(x)",
    "squeeze": "write x.reshape(shape)",
    "std": "write it with sums: tl.sqrt(tl.sum(d * d, axis=0) / n), d = x - mean",
    "str": "texts are known when the kernel is compiled; tl.device_print shows values",
    "type": "write x.to(tl.float32); x.dtype says what it is",
    "unsqueeze": "write x[:, None], or x.expand_dims(axis)",
    "var": "write it with sums: tl.sum(d * d, axis=0) / n, d = x - mean",
    "zip": "count in the loop: for i in tl.static_range(len(items)), then a[i] and b[i]",
}


def of_function(name: str) -> str | None:
    """Return what to write for a function of another library, by its name; None if unknown."""
    if name in _OTHERWISE:
        return _OTHERWISE[name]
    if name in BUILTINS:
        return f"write tl.{name}(...)"
    return f"write tl.extra.libdevice.{name}(...)" if name in LIBRARY else None


def of_member(name: str) -> str | None:
    """Return what to write for a member of another library's arrays; None if unknown."""
    return _OTHERWISE.get(name)


__all__ = ["of_function", "of_member"]
