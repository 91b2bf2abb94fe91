"""Spellings of older versions of Triton, each with what to write now.

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
    """Return what to write for a name that an older Triton had; empty if none had it."""
    return FORMER.get(module, {}).get(name, "")
