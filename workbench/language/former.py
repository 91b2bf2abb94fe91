"""Spellings of older versions of Triton, and of NumPy and torch, each with what to write now.

None of these names is here, so that probes are answered as the claimed version would; where one is
used, the error says what became of it.
"""

from __future__ import annotations

#: Module -> name -> what to write.
FORMER: dict[str, dict[str, str]] = {
    "tl": {
        "libdevice": "write tl.extra.libdevice, or `from triton.language.extra import libdevice`",
        "printf": "write tl.device_print",
        "any": "write tl.reduce_or(x != 0, axis)",
        "all": "write tl.min((x != 0).to(tl.int32), axis) != 0",
        "float8": "write tl.float8e5 or tl.float8e4nv",
        "triton_cdiv": "write tl.cdiv",
        "prod": "write tl.reduce(x, axis, f) with a device function f(a, b) that returns a * b",
        "cumreduce": "write tl.associative_scan",
        "exp_": "write tl.exp",
        "broadcast_like": "write tl.broadcast_to(x, y.shape)",
        "_experimental_descriptor_load": "write tl.make_tensor_descriptor(...).load(offsets)",
        "_experimental_descriptor_store": "write tl.make_tensor_descriptor(...).store(offsets, x)",
        "_experimental_make_tensor_descriptor": "write tl.make_tensor_descriptor",
        "experimental_device_tensormap_create2d": "write tl.make_tensor_descriptor",
        "make_tensormap": "write tl.make_tensor_descriptor",
        "inline_asm": "write tl.inline_asm_elementwise",
        "mean": "divide a sum by the number of elements, e.g. tl.sum(x, axis=0) / n",
        "var": "write tl.sum(d * d, axis) / n of d = x - mean, masked where nothing was loaded",
        "ones": "write tl.full(shape, 1, dtype)",
        "ones_like": "write tl.full(x.shape, 1, x.dtype)",
        "empty": "write tl.zeros(shape, dtype)",
        "full_like": "write tl.full(x.shape, value, x.dtype)",
        "relu": "write tl.maximum(x, 0.0)",
        "silu": "write x * tl.sigmoid(x)",
        "gelu": "write 0.5 * x * (1 + tl.erf(x * 0.70710678))",
        "power": "write x ** n, or libdevice.pow(x, y)",
        "square": "write x * x",
        "matmul": "write tl.dot(a, b)",
        "mm": "write tl.dot(a, b)",
        "transpose": "write tl.trans(x)",
        "concat": "write tl.cat(a, b, can_reorder=True), or tl.join(a, b) for a new axis",
        "concatenate": "write tl.cat(a, b, can_reorder=True), or tl.join(a, b) for a new axis",
        "stack": "write tl.join(a, b)",
        "clip": "write tl.clamp(x, low, high)",
        "logical_and": "write a & b",
        "logical_or": "write a | b",
        "logical_not": "write ~x",
        "mod": "write x % y",
        "norm": "write tl.sqrt(tl.sum(x * x, axis))",
        "log_softmax": "write x - m - tl.log(tl.sum(tl.exp(x - m), axis)) of m = tl.max(x, axis)",
        "logsumexp": "write m + tl.log(tl.sum(tl.exp(x - m), axis)) of m = tl.max(x, axis)",
    },
    "tl.math": {
        "maximum": "write tl.maximum(a, b)",
        "minimum": "write tl.minimum(a, b)",
        "libdevice": "write tl.extra.libdevice",
    },
}

#: Modules that are no more -> what to write.
FORMER_MODULES: dict[str, str] = {
    "triton.language.libdevice": "triton.language.extra.libdevice has its functions",
    "triton.ops": "Triton 3 has no triton.ops; take the kernels themselves into your code",
    "triton.code_gen": "triton.compiler compiles, triton.runtime launches",
    "triton.impl": "triton.language has the functions",
    "triton.common": "triton.runtime and triton.backends have what is left of it",
}


def instead_of(module: str, name: str) -> str:
    """Return what to write for a name that is known from elsewhere; empty if it is not."""
    return FORMER.get(module, {}).get(name, "")
