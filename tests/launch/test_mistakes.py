"""What a launch says of slips that Python by itself answers badly or not at all."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import workbench as wb
from tests.language.harness import error_of, from_text
from workbench import tl
from workbench.source import ArgumentError, OptionError


@wb.jit
def copy(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)


X, Y = np.ones(8, np.float32), np.zeros(8, np.float32)


def test_a_grid_that_asks_for_a_name_of_no_argument():
    with pytest.raises(OptionError, match=r"asks for 'BLOCK_SIZE'.*did you mean BLOCK") as found:
        copy[lambda meta: (wb.cdiv(8, meta["BLOCK_SIZE"]),)](X, Y, 8, BLOCK=8)
    assert isinstance(found.value, KeyError)
    assert "its arguments are x, y, n, BLOCK" in str(found.value)
    copy[lambda meta: (meta.get("BLOCK_SIZE", 1),)](X, Y, 8, BLOCK=8)
    assert Y.tolist() == X.tolist()


@pytest.mark.parametrize("value", [torch.tensor(8), np.array(8), np.ones(2)])
def test_a_constexpr_is_no_array(value: object):
    with pytest.raises(ArgumentError, match=r"constexpr 'BLOCK' got a (Tensor|ndarray)") as found:
        copy[(1,)](X, Y, 8, BLOCK=value)
    assert "BLOCK=x.item()" in str(found.value)


@pytest.mark.parametrize("name", ["max", "min"])
def test_an_extreme_of_one_block_is_no_reduction(name: str):
    body = f"def kernel():\n    x = tl.arange(0, 8)\n    y = {name}(x)\n"
    said = str(error_of(from_text(body)))
    assert f"{name} needs at least 2 values, got 'x' (int32 of shape (8,))" in said
    assert f"tl.{name}(x, axis=0)" in said


@pytest.mark.parametrize("call", ["load(p)", "store(p, 0)"])
def test_a_comma_at_the_end_makes_a_tuple_of_one(call: str):
    body = f"def kernel(x):\n    p = (x + tl.arange(0, 4),)\n    tl.{call}\n"
    said = str(error_of(from_text(body), x=X))
    assert "needs a pointer, got tuple" in said
    assert "a comma at the end makes a tuple of one" in said


def test_options_of_triton_that_steer_nothing_here_are_taken():
    copy[(1,)](X, Y, 8, BLOCK=8, enable_reflect_ftz=False, ptx_options="-v")
    assert Y.tolist() == X.tolist()


def test_a_word_and_what_it_prints_are_two_words():
    lines = ['tl.device_print("value", 1)', 'tl.device_print("x = ", 1)', 'tl.device_print("end")']
    body = "def kernel():\n" + "".join(f"    {line}\n" for line in lines)
    text = wb.compile(from_text(body), "", {}, target="interpreter").asm["tile"]
    for prefix in ("value: ", "x = ", "end"):
        assert f'prefix = "{prefix}"' in text


@pytest.mark.parametrize("given", [{"num_warps": np.int64(2)}, {"persistent": np.bool_(1)}])
def test_options_may_be_numbers_of_numpy(given: dict[str, object]):
    Y[:] = 0
    assert copy[(1,)](X, Y, 8, BLOCK=8, **given) is not None
    assert Y.tolist() == X.tolist()
    with pytest.raises(OptionError, match="power of two up to 32, got 3"):
        copy[(1,)](X, Y, 8, BLOCK=8, num_warps=np.int64(3))
