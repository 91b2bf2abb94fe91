"""What this target does not run yet, with the sentence the user gets."""

from workbench.ops import Concatenate, DeviceAssert, DevicePrint, Scan
from workbench.targets.nvidia.table import NVIDIA

NVIDIA.unsupported.update({
    DevicePrint: "is not available on the GPU yet; kernel.interpret[grid](...) prints",
    DeviceAssert: "is not available on the GPU yet; kernel.interpret[grid](...) checks it",
    Scan: "is not available on the GPU yet; use target='cpu' or 'interpreter'",
    Concatenate: "is not available on the GPU yet; use target='cpu' or 'interpreter'",
})  # fmt: skip
