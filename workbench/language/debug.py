"""Printing and checking on the device."""

from __future__ import annotations

from typing import Any

from workbench.language.dtypes import int1
from workbench.language.shapes import broadcast_tensor, common_shape, operand
from workbench.language.state import current
from workbench.language.table import builtin
from workbench.language.values import describe, static, to_tensor
from workbench.ops import DeviceAssert, DevicePrint
from workbench.source import ConstexprError, KernelTypeError


@builtin
def device_print(prefix: Any, *args: Any, hex: Any = False) -> None:
    """Print values on the device, one line per element with program and index."""
    text = static(prefix, "the prefix of device_print")
    if not isinstance(text, str) or not text.isascii():
        raise ConstexprError(
            "device_print needs an ASCII string literal as its first argument",
            hint='write e.g. tl.device_print("x =", x)',
        )
    if args and text[-1:].isalnum():
        text += ": "  # as Triton does: a word and a number are not one word
    values = tuple(to_tensor(v).stored() for v in args)
    op = DevicePrint(values, prefix=text, hexadecimal=bool(static(hex, "hex")))
    current().builder.insert(op)


@builtin
def device_assert(cond: Any, msg: Any = "", mask: Any = None) -> None:
    """Check a condition on the device where the mask is on; does nothing without debug=True."""
    if not current().debug:
        return
    test = to_tensor(cond)
    if test.dtype != int1 and not test.dtype.is_int():
        raise KernelTypeError(
            f"device_assert needs a condition, got {describe(test)}",
            hint="compare it first, e.g. x >= 0",
        )
    on = None if mask is None else to_tensor(mask)
    shape = common_shape(test, on, what="condition and mask")
    op = DeviceAssert(
        operand(test, int1, shape),
        None if on is None else broadcast_tensor(on, shape).value,
        message=str(static(msg, "the message of device_assert")),
    )
    current().builder.insert(op)
