"""Which configurations cannot be any good on a GPU, told from tile IR before it is compiled.

The model counts only what every way of compiling needs, so it refuses nothing that would run well:

- the values that a loop carries are in registers all the time, spread over all threads;
- the second operand of a tensor-core product is read from shared memory, whatever feeds it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.ir import Module, Type

#: Registers of 4 bytes that a thread can have.
MOST_REGISTERS = 255
#: Registers for addresses and the like, which a loop over tiles cannot do without.
OTHER_REGISTERS = 16


def refusal(module: Module, target: str, options: Mapping[str, Any]) -> str:
    """Return why a configuration is not worth compiling, in one line; empty if it is."""
    from workbench.targets.nvidia.chip import chip

    shared = shared_bytes(module)
    limit = chip(target).shared_bytes
    if shared > limit:
        return f"needs {shared:,} bytes of shared memory or more, {target} has {limit:,}"
    warps = options.get("num_warps")
    if warps:
        registers = carried_bytes(module) // (4 * 32 * warps) + OTHER_REGISTERS
        limit = options.get("maxnreg") or MOST_REGISTERS
        if registers > limit:
            return f"needs {registers} registers a thread or more, there are {limit}"
    return ""


def carried_bytes(module: Module) -> int:
    """Return the most bytes of tiles that one loop carries from iteration to iteration."""
    from workbench.ops import For, While

    loops = (op for op in module.walk() if isinstance(op, For | While))
    return max((sum(_size(value.type) for value in loop.inits) for loop in loops), default=0)


def shared_bytes(module: Module) -> int:
    """Return the bytes of shared memory that the largest product cannot do without."""
    from workbench.ops import Dot

    products = (op for op in module.walk() if isinstance(op, Dot))
    return max((_size(op.b.type) for op in products if _on_tensor_cores(op)), default=0)


def _on_tensor_cores(op: Any) -> bool:
    from workbench.ir import element_of, shape_of

    element = element_of(op.a.type)
    narrow = element.bits <= 16 or op.precision == "tf32"
    return narrow and min(shape_of(op.a.type)[-2:]) >= 16


def _size(kind: Type) -> int:
    from workbench.ir import Tile

    if not isinstance(kind, Tile):
        return 0
    bits = getattr(kind.element, "bits", 64)
    return kind.size * max(bits, 8) // 8
