"""Odd values, wherever people give any: an error that says what to do, never our internals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
import workbench.triton as triton
from workbench.source import KernelError

tl = triton.language


@triton.jit
def copy(p, o, n, BLOCK: tl.constexpr = 16):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + i, tl.load(p + i, mask=i < n), mask=i < n)


X, Y = np.zeros(16, np.float32), np.zeros(16, np.float32)
GOOD = {"shape": (16,), "typestr": "<f4", "data": (X.ctypes.data, False), "version": 3}


class Cuda:
    """An array as its interface says it."""

    def __init__(self, interface: Any) -> None:
        self.__cuda_array_interface__ = interface


class Raising:
    """What fails however it is asked."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"no {name}")


class Exchanged:
    """An object that speaks DLPack, more or less."""

    def __init__(self, device: Any, capsule: Any = None) -> None:
        self.device, self.capsule = device, capsule

    def __dlpack_device__(self) -> Any:
        return self.device

    def __dlpack__(self, **options: Any) -> Any:
        if isinstance(self.capsule, Exception):
            raise self.capsule
        return self.capsule


class Addressed:
    """A tensor with some address."""

    dtype = "float32"
    device = "cpu"

    def __init__(self, address: Any) -> None:
        self.address = address

    def data_ptr(self) -> Any:
        return self.address


class Unprintable:
    """What has no text."""

    def __repr__(self) -> str:
        raise RuntimeError("no text")


ARRAYS: list[Any] = [
    *map(Cuda, (None, {}, 5, "x")),
    *(Cuda({**GOOD, "data": data}) for data in (None, ("x", False), (-1, False), (1 << 70, False))),
    *(Cuda({**GOOD, "shape": shape}) for shape in (None, (-1,), "ab", (1 << 70,))),
    *(Cuda({**GOOD, "typestr": name}) for name in (None, 5, "", "zzz")),
    *map(Exchanged, (None, "ab", (1,), (1, 0), (99, 0))),
    Exchanged((1, 0), object()),
    Exchanged((1, 0), RuntimeError("no")),
    *map(Addressed, (None, "x", 1 << 70, -5, 1.5)),
    Raising(), Unprintable(), object(), {}, set(), b"x", 1j, range(5),
    np.zeros(4, object), np.zeros(4, "U3"), np.zeros(4, complex), np.zeros(4, ">f4"), 10**5000,
]  # fmt: skip


def check(call: Callable[[], Any]) -> KernelError:
    """Return the error that a call raises, which is short and says something."""
    with pytest.raises(KernelError) as caught:
        call()
    text = caught.value.render()
    assert len(text) < 3000
    return caught.value


@pytest.mark.parametrize("value", ARRAYS, ids=lambda value: type(value).__name__)
def test_arrays(value: Any):
    error = check(lambda: copy[(1,)](value, Y, 16))
    assert "p " in error.message


ODD: list[Any] = [5, 10**5000, 1.5, b"x", 1j, Unprintable(), np.zeros(3), {1}]
PLACES: dict[str, Callable[[Any], Any]] = {
    "target of compile": lambda v: wb.compile(copy, "*f32 *f32 i32", {"BLOCK": 16}, target=v),
    "signature": lambda v: wb.compile(copy, v),
    "constexprs": lambda v: wb.compile(copy, "*f32 *f32 i32", v),
    "assume": lambda v: wb.compile(copy, "*f32 *f32 i32", {"BLOCK": 16}, assume=v),
    "target of a launch": lambda v: copy[(1,)](X, Y, 16, target=v),
    "grid by name": lambda v: copy[(1,)](X, Y, 16, grid=v),
    "stream": lambda v: copy[(1,)](X, Y, 16, stream=(v, v)),
    "warps": lambda v: copy[(1,)](X, Y, 16, num_warps=(v,)),
    "debug": lambda v: copy[(1,)](X, Y, 16, debug=v),
    "config": triton.Config,
    "configs": lambda v: triton.autotune(configs=v, key=[])(copy),
    "a config": lambda v: triton.autotune(configs=[v], key=[])(copy),
    "key": lambda v: triton.autotune(configs=[], key=v)(copy),
    "heuristics": lambda v: triton.heuristics(v)(copy),
    "a heuristic": lambda v: triton.heuristics({"BLOCK": v})(copy),
    "jit": triton.jit,
    "not specialised": lambda v: triton.jit(do_not_specialize=[None, v])(copy.fn),
    "cell": lambda v: wb.run_cell(v, "-q", {}),
    "option line": lambda v: wb.run_cell("x = 1", v, {}),
}


@pytest.mark.parametrize("place", PLACES)
def test_declarations(place: str):
    for value in ODD:
        error = check(lambda value=value: PLACES[place](value))
        assert error.hint or error.span, error.message


def test_grids():
    wide = [2**31, (1, 2**31), 2**70, 10**5000, (2**30, 2**30, 2**30)]
    for grid in (*wide, -1, (), (1,) * 9, 1.5, "x"):
        check(lambda grid=grid: copy[grid](X, Y, 16))


def test_a_parameter_may_be_called_grid():
    @triton.jit
    def fill(p, grid):
        tl.store(p, grid)

    target = np.zeros(1, np.int32)
    fill[(1,)](target, grid=7)
    assert target[0] == 7


def test_autotune_without_configurations_launches():
    triton.autotune(configs=None, key=["n"])(copy)[(1,)](X, Y, 16)
