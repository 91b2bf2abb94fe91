"""Launches with an attribute: some begin early, of some all programs are there at once.

The first begin while the one before them in their stream still runs; CUDA calls them programmatic
dependent launches, the second cooperative ones. `cuLaunchKernel` has no room for attributes. What
stands here is called like it, from Python and from the native code of launchers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from workbench.devices import cuda
from workbench.devices.linking import Linked, link
from workbench.interrupts import MadeOnce

#: CUlaunchConfig and CUlaunchAttribute of cuda.h; the value of an attribute here is 1, an int.
_LAUNCH = """
%config = type {{ i32, i32, i32, i32, i32, i32, i32, ptr, ptr, i32 }}
%attribute = type {{ i32, i32, i32, [60 x i8] }}
define i32 @launch(ptr %function, {numbers}, ptr %stream, ptr %parameters, ptr %more) {{
  %attribute = alloca %attribute, align 8
  %config = alloca %config, align 8
  store %attribute {{ i32 {kind}, i32 0, i32 1, [60 x i8] zeroinitializer }}, ptr %attribute
{stores}
  %code = call i32 inttoptr (i64 {address} to ptr)(
      ptr %config, ptr %function, ptr %parameters, ptr %more)
  ret i32 %code
}}
"""


def launch_of(attribute: int) -> Callable[..., tuple[Any, ...]]:
    """Return what launches as `cuLaunchKernel` does; 0 is no attribute."""
    return partial(_launch, attribute) if attribute else cuda.driver().cuLaunchKernel


def _launch(kind: int, function: Any, *arguments: Any) -> tuple[Any, ...]:
    """`arguments`: the grid, the block, bytes of shared memory, the stream, parameters, more."""
    api = cuda.driver()
    config, attribute = api.CUlaunchConfig(), api.CUlaunchAttribute()
    value = api.CUlaunchAttributeValue()
    value.cooperative = 1  # the first int of a union, which others have as well
    attribute.id, attribute.value = api.CUlaunchAttributeID(kind), value
    config.gridDimX, config.gridDimY, config.gridDimZ = arguments[:3]
    config.blockDimX, config.blockDimY, config.blockDimZ = arguments[3:6]
    config.sharedMemBytes, config.hStream = arguments[6:8]
    config.attrs, config.numAttrs = [attribute], 1
    return api.cuLaunchKernelEx(config, function, *arguments[8:])


def address_of(attribute: int) -> int:
    """Return where native code does that, 0 if the library cannot be opened by name."""
    if not attribute:
        return cuda.launch_address()
    address = cuda.launch_address(with_attributes=True)
    return _native(address, attribute).addresses["launch"] if address else 0


@MadeOnce
def _native(address: int, kind: int) -> Linked:
    from workbench.targets.llvm.toolchain import baseline, object_code

    fields = [("i32", f"%n{number}") for number in range(7)]
    fields += [("ptr", "%stream"), ("ptr", "%attribute"), ("i32", "1")]
    stores = "\n".join(
        f"  %at{place} = getelementptr %config, ptr %config, i32 0, i32 {place}\n"
        f"  store {type} {value}, ptr %at{place}"
        for place, (type, value) in enumerate(fields)
    )
    numbers = ", ".join(f"i32 %n{number}" for number in range(7))
    text = _LAUNCH.format(numbers=numbers, stores=stores, address=address, kind=kind)
    return link(object_code(text, baseline()), "launch")
