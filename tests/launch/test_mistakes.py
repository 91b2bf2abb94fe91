"""What a launch says of slips that Python by itself answers badly or not at all."""

from __future__ import annotations

import traceback

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


@wb.jit
def compared(x, y, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i * BLOCK < n * BLOCK)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"n": torch.tensor(8)}, "the number that a tensor holds is passed as n.item()"),
        ({"BLOCK": 8 / 1}, "pass 8; // divides integers, / gives floats"),
        ({"n": "8"}, "pass a number or a tensor there"),
        ({"x": [X]}, "pass a tuple, tuple(...)"),
    ],
)
def test_arguments_of_another_kind(given: dict[str, object], said: str):
    with pytest.raises(wb.KernelError) as found:
        compared[(1,)](**{"x": torch.ones(8), "y": torch.ones(8), "n": 8, "BLOCK": 8, **given})
    assert f"help: {said}" in str(found.value)


def test_names_that_are_like_nothing_are_not_taken_for_others():
    with pytest.raises(OptionError) as found:
        copy[(1,)](X, Y, 8, BLOCK=8, foo=1)
    assert "did you mean" not in str(found.value)


@pytest.mark.parametrize("launches", [0, 2, 40])
def test_grids_that_cannot_be_called_say_so_whatever_was_launched_before(launches: int):
    kernel = wb.jit(copy.fn)
    x, y = torch.ones(8), torch.zeros(8)
    for _ in range(launches):
        kernel[lambda meta: (8 // meta["BLOCK"],)](x, y, 8, BLOCK=8)
    takes_nothing = "takes the dict of the launch's arguments: .*takes 0 positional arguments"
    with pytest.raises(OptionError, match=takes_nothing) as found:
        kernel[lambda: (1,)](x, y, 8, BLOCK=8)
    assert "KeyError" not in "".join(traceback.format_exception(found.value))
    with pytest.raises(OptionError, match="the grid asks for 'SIZE'"):
        kernel[lambda meta: (meta["SIZE"],)](x, y, 8, BLOCK=8)
    with pytest.raises(TypeError, match="unsupported operand"):
        kernel[lambda meta: ([] - meta["BLOCK"],)](x, y, 8, BLOCK=8)


def test_a_heuristic_that_asks_for_a_name_of_no_argument():
    kernel = wb.heuristics({"BLOCK": lambda args: args["m"]})(copy)
    with pytest.raises(OptionError, match="the heuristic for 'BLOCK' asks for 'm'") as found:
        kernel[(1,)](X, Y, 8)
    assert "its arguments are x, y, n" in str(found.value)


def test_a_pointer_to_no_dtype_is_no_annotation():
    def filled(x: "*fp99"):  # noqa: F722
        tl.store(x, 1)

    with pytest.raises(ArgumentError, match=r"x is annotated as .*\*fp99.*, which is no pointer"):
        wb.jit(filled)[(1,)](X)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("y = [k for k in range(4)]", "a comprehension needs a tuple, got a range"),
        ("y = tl.zeros((8,), 'float32')", "write tl.float32"),
        ("y = tl.zeros((8,), float)", "write tl.float32"),
        ("y = tl.zeros((8,), 'real')", "one of tl's"),
        ("a, b = tl.arange(0, 8)", "only tuples are taken apart"),
        ("y = tl.split(tl.arange(0, 8))", "tl.split(tl.reshape(x, (n // 2, 2)))"),
        ("for i in range(0, tl.load(x)): pass", "cast it, .to(tl.int32)"),
        ("for i in range(0, tl.arange(0, 8)): pass", "reduce it first, e.g. tl.max(x)"),
        ("for i in range(0, 8, 0): pass", "step by 1 or more"),
        ("y = ~tl.load(x)", "compare first, e.g. ~(x > 0)"),
        ("tl.atomic_or(x, 1)", "cast the pointer, e.g. p.to(tl.pointer_type(tl.int32))"),
        ("y = tl.xor_sum(tl.load(x + tl.arange(0, 8)), 0)", "cast first, e.g. x.to(tl.int32)"),
        ("y = tl.histogram(tl.load(x + tl.arange(0, 8)), 4)", "cast it with .to(tl.int32)"),
        ("y = tl.gather(tl.arange(0, 8), tl.load(x), 0)", "gather(src, index, axis)"),
        ("y = tl.ones((8,), tl.float32)", "write tl.full(shape, 1, dtype)"),
        ("y = tl.relu(tl.load(x))", "write tl.maximum(x, 0.0)"),
        ("y = tl.tanh(tl.load(x))", "write libdevice.tanh"),
        ("y = tl.atan(tl.load(x))", "write libdevice.atan"),
        ("y = tl.sum(tl.load(x), 0)", "tl.load(x + tl.arange(0, BLOCK))"),
        ("y = tl.sum(x + tl.arange(0, 8), 0)", "load what it points to"),
        ("y = tl.arange(0, 8).reshape(-1, 2)", "write every extent out"),
        ("y = x.shape[0]", "it has 0 items: x.shape; how long an array is comes as an argument"),
        ("y = (1, 2)[2]", "it has 2 items"),
        ("print('a', x, sep=',')", "print takes no 'sep' in a kernel"),
        ("y = tl.trans(tl.arange(0, 8))", "x[None, :] is a row"),
        ("y = tl.permute(tl.zeros((4, 8), tl.int32), (0, 0))", "name every axis once, e.g. (1, 0)"),
        ("tl.assume(tl.arange(0, 8) > 0)", "tl.multiple_of and tl.max_contiguous"),
    ],
)
def test_what_to_do_is_said(line: str, said: str):
    body = f"def kernel(x):\n    {line}\n"
    assert said in str(error_of(from_text(body), x=X))
