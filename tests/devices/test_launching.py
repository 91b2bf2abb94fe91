"""What is called like `cuLaunchKernel` and has an attribute: the words that the driver gets."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from workbench.devices import cuda, launching

_WORD, _POINTER = ctypes.c_uint32, ctypes.c_void_p


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute of cuda.h: its value has 64 bytes."""

    _fields_ = (("id", ctypes.c_int), ("pad", ctypes.c_char * 4), ("value", ctypes.c_int * 16))


class _Config(ctypes.Structure):
    """CUlaunchConfig of cuda.h."""

    _fields_ = (
        ("grid", _WORD * 3), ("block", _WORD * 3), ("shared", _WORD), ("stream", _POINTER),
        ("attributes", ctypes.POINTER(_Attribute)), ("count", ctypes.c_uint),
    )  # fmt: skip


@pytest.mark.parametrize("attribute", [2, 6])
def test_native_code_hands_on_all_that_it_gets(monkeypatch: Any, attribute: int) -> None:
    got: list[Any] = []

    def launched(config: Any, function: int, parameters: int, more: int | None) -> int:
        c = config.contents
        found = c.attributes[0]
        got.append((*c.grid, *c.block, c.shared, c.stream, c.count, found.id, *found.value))
        got.append((function, parameters, more))
        return 700

    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Config), *[_POINTER] * 3)
    callback = kind(launched)
    address = ctypes.cast(callback, _POINTER).value
    monkeypatch.setattr(
        cuda, "launch_address", lambda *, with_attributes: address if with_attributes else 0
    )
    words = [_POINTER, *[_WORD] * 7, *[_POINTER] * 3]
    launch = ctypes.CFUNCTYPE(ctypes.c_int, *words)(launching.address_of(attribute))
    large = (1 << 31) + 5
    assert launch(11, large, 2, 3, 128, 1, 1, 200_000, 1 << 40, 1 << 41, None) == 700
    assert got == [
        (large, 2, 3, 128, 1, 1, 200_000, 1 << 40, 1, attribute, 1, *[0] * 15), (11, 1 << 41, None)
    ]  # fmt: skip


def test_without_a_driver_there_is_no_address(monkeypatch: Any) -> None:
    monkeypatch.setattr(cuda, "launch_address", lambda **_: 0)
    assert launching.address_of(6) == launching.address_of(0) == 0
