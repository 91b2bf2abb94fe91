"""Native code that launches share or own, made by LLVM in memory."""

from __future__ import annotations

import re
from dataclasses import replace

from workbench.devices.linking import link
from workbench.targets.llvm.toolchain import baseline, object_code

_DEFINED = re.compile(r"^define (?!internal ).*?@(\w+)\(", re.MULTILINE)


class Code:
    """A module of LLVM IR as code in memory; `address` finds its functions.

    The code lives as long as this object.
    """

    def __init__(self, text: str) -> None:
        image = object_code(text, replace(baseline(), optimisation=1))
        self._linked = link(image, *_DEFINED.findall(text))

    def address(self, name: str) -> int:
        """Return where a function of the module lies."""
        return self._linked.addresses[name]
