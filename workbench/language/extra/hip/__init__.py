"""`tl.extra.hip`: what AMD's chips are asked under; here it asks whatever the kernel runs on."""

from workbench.language.extra.hip import libdevice, utils
from workbench.language.extra.hip.utils import memrealtime
from workbench.language.versions import versioned

__all__ = ["libdevice", "memrealtime", "utils"]

__getattr__ = versioned("tl.extra.hip", {
    name: ("3.8.0", None, lambda name=name: getattr(utils, name))
    for name in ("num_threads", "num_warps", "smid")
})  # fmt: skip
