"""Launches that begin while the one before them in their stream still runs.

CUDA calls them programmatic dependent launches: `cuLaunchKernelEx` with an attribute, for which
`cuLaunchKernel` has no room. What stands here is called like the latter, from Python and from the
native code of launchers.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from workbench.devices import cuda
from workbench.devices.linking import Linked, link

#: CUlaunchConfig and CUlaunchAttribute of cuda.h; attribute 6 is
#: CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION.
_LAUNCH = """
%config = type {{ i32, i32, i32, i32, i32, i32, i32, ptr, ptr, i32 }}
%attribute = type {{ i32, i32, i32, [60 x i8] }}
define i32 @launch(ptr %function, {numbers}, ptr %stream, ptr %parameters, ptr %more) {{
  %attribute = alloca %attribute, align 8
  %config = alloca %config, align 8
  store %attribute {{ i32 6, i32 0, i32 1, [60 x i8] zeroinitializer }}, ptr %attribute
{stores}
  %code = call i32 inttoptr (i64 {address} to ptr)(
      ptr %config, ptr %function, ptr %parameters, ptr %more)
  ret i32 %code
}}
"""


def launch_early(function: Any, *arguments: Any) -> tuple[Any, ...]:
    """Launch as `cuLaunchKernel` does, (grid, block, shared bytes, stream, parameters, more)."""
    api = cuda.driver()
    config, attribute = api.CUlaunchConfig(), api.CUlaunchAttribute()
    value = api.CUlaunchAttributeValue()
    value.programmaticStreamSerializationAllowed = 1
    kinds = api.CUlaunchAttributeID
    attribute.id = kinds.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
    attribute.value = value
    config.gridDimX, config.gridDimY, config.gridDimZ = arguments[:3]
    config.blockDimX, config.blockDimY, config.blockDimZ = arguments[3:6]
    config.sharedMemBytes, config.hStream = arguments[6:8]
    config.attrs, config.numAttrs = [attribute], 1
    return api.cuLaunchKernelEx(config, function, *arguments[8:])


def early_address() -> int:
    """Return where native code does that, 0 if the library cannot be opened by name."""
    address = cuda.launch_address(early=True)
    return _native(address).addresses["launch"] if address else 0


@cache
def _native(address: int) -> Linked:
    from workbench.targets.llvm.toolchain import baseline, object_code

    fields = [("i32", f"%n{number}") for number in range(7)]
    fields += [("ptr", "%stream"), ("ptr", "%attribute"), ("i32", "1")]
    stores = "\n".join(
        f"  %at{place} = getelementptr %config, ptr %config, i32 0, i32 {place}\n"
        f"  store {kind} {value}, ptr %at{place}"
        for place, (kind, value) in enumerate(fields)
    )
    numbers = ", ".join(f"i32 %n{number}" for number in range(7))
    text = _LAUNCH.format(numbers=numbers, stores=stores, address=address)
    return link(object_code(text, baseline()), "launch")
