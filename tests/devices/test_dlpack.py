from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from tests.runtime.kernels import add
from workbench.devices import arrays, dlpack


class Foreign:
    """An array of a library that speaks DLPack alone."""

    def __init__(self, array, versioned=True):
        self.array = array
        self.versioned = versioned

    def __dlpack__(self, **options):
        if not self.versioned and options:
            raise TypeError("no options here")
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("versioned", [False, True])
@pytest.mark.parametrize("target", ["cpu", "interpreter"])
def test_arrays_of_other_libraries(versioned, target):
    x, y, out = (np.full(7, value, np.float32) for value in (1, 2, 0))
    given = [Foreign(array, versioned) for array in (x, y, out)]
    add.run(*given, 7, BLOCK=4, grid=(2,), target=target)
    assert out.tolist() == [3] * 7


def test_what_a_capsule_says():
    array = np.arange(24, dtype=np.int16).reshape(4, 6)[1:, ::2]
    found = dlpack.read(Foreign(array))
    assert found.address == array.ctypes.data
    assert (found.type, found.shape, found.strides) == ("i16", (3, 3), (6, 2))
    assert found.device_type == dlpack.CPU
    assert found.writable


@pytest.mark.parametrize(
    ("dtype", "word"), [("bfloat16", "bf16"), ("bool", "i1"), ("float16", "f16"), ("int64", "i64")]
)
def test_dtypes_that_numpy_lacks(dtype, word):
    torch = pytest.importorskip("torch")
    found = arrays.describe(Foreign(torch.zeros(4, dtype=getattr(torch, dtype))))
    assert found.type == word
    assert found.device == arrays.HOST


def test_a_read_only_array():
    array = np.zeros(7, np.float32)
    array.setflags(write=False)
    with pytest.raises(wb.KernelError, match="out_ptr is a read-only array"):
        add[(1,)](np.ones(7, np.float32), np.ones(7, np.float32), Foreign(array), 7, BLOCK=8)


class OnDevice:
    """An array on a device that kernels do not reach."""

    def __dlpack__(self, **options):
        raise AssertionError("not asked for")

    def __dlpack_device__(self):
        return 8, 0  # kDLMetal


def test_another_kind_of_device():
    x = np.ones(7, np.float32)
    with pytest.raises(wb.KernelError, match=r"device kind 8|dtype OnDevice"):
        add[(1,)](x, x, OnDevice(), 7, BLOCK=8)
