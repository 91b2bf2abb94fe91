"""The texts of what can be wrong with a launch."""

from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
import workbench.language as tl
from tests.runtime.kernels import add, fill
from workbench import KernelError
from workbench.source import ArgumentError, LaunchError, OptionError


@wb.jit
def starred(x, **n):
    tl.store(x, 1.0)


def caught(action, kind=KernelError):
    with pytest.raises(kind) as info:
        action()
    return info.value


def marked(error):
    """Return the text above the carets of an error."""
    lines = str(error).splitlines()
    row = next(n for n, line in enumerate(lines) if "^" in line)
    start, end = lines[row].index("^"), lines[row].rindex("^") + 1
    return lines[row - 1][start:end]


def test_too_few_arguments(seven):
    error = caught(lambda: add.interpret[(3,)](*seven, BLOCK=3), ArgumentError)
    assert isinstance(error, TypeError)
    assert error.code == "K220"
    assert error.message == "add takes 4 arguments, got 3; missing n"
    assert marked(error) == "n"


def test_too_many_arguments(seven):
    error = caught(lambda: add.interpret[(3,)](*seven, 7, 3, 4), ArgumentError)
    assert error.message == "add takes 5 arguments, got 6"
    assert marked(error) == "add"


def test_an_argument_given_twice(seven):
    error = caught(lambda: add.interpret[(3,)](*seven, 7, n=7, BLOCK=3), ArgumentError)
    assert error.message == "add got 'n' twice, by position and by name"


@pytest.mark.parametrize("given", [{"a": 3}, {"n": 3}, {}])
def test_a_kernel_names_its_parameters(given):
    error = caught(lambda: starred[(1,)](1, **given))
    assert error.code == "K215"
    assert marked(error) == "n"
    assert error.hint.startswith("name each parameter")


def test_missing_constexpr(seven):
    error = caught(lambda: add.interpret[(3,)](*seven, 7), ArgumentError)
    assert error.message == "add needs a value for constexpr 'BLOCK'"
    assert marked(error) == "BLOCK: tl.constexpr"
    assert error.hint == "give it by name at the launch: BLOCK=..."


def test_unknown_option_is_a_key_error(seven):
    error = caught(lambda: add.interpret[(3,)](*seven, 7, BLOK=3), OptionError)
    assert isinstance(error, KeyError)
    assert str(error).startswith("error K112: no constexpr or option 'BLOK'; did you mean BLOCK?")


def test_num_warps_is_a_power_of_two(seven):
    error = caught(lambda: add.interpret[(3,)](*seven, 7, BLOCK=3, num_warps=3), OptionError)
    assert error.message == "num_warps is a power of two up to 32, got 3"


def test_a_list_is_no_constexpr(seven):
    error = caught(lambda: add.interpret[(3,)](*seven, 7, BLOCK=[3]), ArgumentError)
    assert "cannot be a list" in error.message


def test_a_dtype_that_kernels_do_not_have(seven):
    x, y, out = seven
    error = caught(lambda: add.interpret[(3,)](x.astype(complex), y, out, 7, BLOCK=3), LaunchError)
    assert error.code == "K505"
    assert error.message == "x_ptr has dtype complex128, which kernels do not have"
    assert marked(error) == "x_ptr"


def test_tensors_whose_memory_is_not_what_they_are(seven):
    """Several tensors in one, a view of numbers with the other sign, an array and a mask."""
    import torch

    _, y, out = seven
    nested = torch.nested.nested_tensor([torch.ones(4), torch.ones(3)])
    turned = torch.ones(7, dtype=torch.complex64).conj().imag
    masked = np.ma.masked_array(np.ones(7, np.float32), [True] * 7)
    for x, said, hint in (
        (
            masked,
            "it is masked",
            "pass x.filled(0), and x.mask as an array of its own where the kernel needs it",
        ),
        (
            nested,
            "several tensors in one",
            "pass what it holds, x.values(), and where its parts begin as an array of its own",
        ),
        (turned, "the other sign", "pass x.resolve_neg()"),
    ):
        for launch in (add.interpret, add):
            call = launch[(3,)]
            error = caught(lambda: call(x, y, out, 7, BLOCK=3), LaunchError)  # noqa: B023
            assert (error.code, error.hint) == ("K501", hint)
            assert said in error.message
            assert marked(error) == "x_ptr"


def test_a_chip_that_there_is_none_of_is_named_first(seven):
    error = caught(lambda: add[(3,)](*seven, 7, BLOCK=3, target="sm_91"), OptionError)
    assert error.code == "K114"
    assert "unknown target sm_91; known: cpu" in error.message


def test_something_that_is_no_argument(seven):
    _, y, out = seven
    error = caught(lambda: add.interpret[(3,)]([1.0], y, out, 7, BLOCK=3), LaunchError)
    assert error.code == "K501"
    assert error.message.startswith("x_ptr is a list, add takes an array")


def test_an_integer_of_more_than_64_bits(seven):
    error = caught(lambda: add.interpret[(3,)](*seven, 2**64, BLOCK=3), LaunchError)
    assert error.message == f"n = {2**64} needs more than 64 bits"


@pytest.mark.parametrize("grid", [(4, -1), (1, 1, 1, 1), (1.5,), "ab", ()])
def test_grids_that_are_none(seven, grid):
    error = caught(lambda: add.interpret[grid](*seven, 7, BLOCK=3), OptionError)
    assert error.code == "K111"
    assert "a grid is 1 to 3 integers" in error.message


def test_a_cpu_array_given_to_a_chip(seven):
    error = caught(lambda: add.run(*seven, 7, BLOCK=3, grid=(3,), target="sm_90a"), LaunchError)
    assert error.code == "K504"
    assert error.message == "x_ptr is a CPU array, target sm_90a needs arrays on a CUDA device"
    assert marked(error) == "x_ptr"


class OnGpu:
    """Looks like a tensor in a GPU's memory; nothing touches it before it is refused."""

    dtype = np.dtype(np.float32)

    class device:  # noqa: N801
        type = "cuda"
        index = 0

    def data_ptr(self):
        return 4096


def test_a_cpu_array_among_gpu_arrays(seven):
    x, _, out = seven
    error = caught(lambda: add[(3,)](x, OnGpu(), out, 7, BLOCK=3), LaunchError)
    assert error.code == "K504"
    assert error.message == "x_ptr is a CPU tensor, y_ptr lies on cuda:0"
    assert error.hint == "move it before the launch: x_ptr.to('cuda:0')"


def test_a_gpu_array_given_to_the_interpreter():
    error = caught(lambda: fill.interpret[(1,)](OnGpu(), 1.0, 4), LaunchError)
    assert error.message == "out_ptr lies on cuda:0, target interpreter reads host memory"


def test_a_read_only_array_that_is_stored_to(seven):
    x, y, out = seven
    out.setflags(write=False)
    error = caught(lambda: add.interpret[(3,)](x, y, out, 7, BLOCK=3), LaunchError)
    assert error.message == "out_ptr is a read-only array, and add stores to it"


def test_a_call_without_a_grid(seven):
    error = caught(lambda: add(*seven, 7, BLOCK=3), LaunchError)
    assert error.code == "K507"
    assert "it is launched with a grid" in error.message


def test_unknown_target(seven):
    error = caught(lambda: add.run(*seven, 7, BLOCK=3, grid=(3,), target="tpu"), KernelError)
    assert error.code == "K114"


def test_a_failed_compile_keeps_its_trace(seven):
    error = caught(lambda: fill.interpret[(1,)](3.0, 1.0, 4))
    assert error.trace is not None
    assert [stage.id for stage in error.trace.trace.stages][:2] == ["source", "ast"]
    assert error.trace.trace.errors[0].code == error.code


@wb.jit
def of_a_class(self, x):
    tl.store(x, 1.0)


@wb.jit
def adds(out, n):
    tl.store(out, n + 1)


OUT = np.zeros(1, np.float32)


@pytest.mark.parametrize(
    ("launch", "hint"),
    [
        (lambda: of_a_class[(1,)](OUT), "no kernel is given an object"),
        (lambda: adds[(1,)](OUT, 3j), "pass int(...) or float(...) of it"),
        (lambda: adds[(1,)](OUT, {"n": 3}), "pass what the kernel reads of it"),
        (lambda: adds[(1,)](OUT, 2**70), "pass it as a float"),
        (lambda: adds[(1,)](OUT, OUT), "passed as x.item()"),
        (lambda: adds[(1,)](OUT, 3, target="cuda"), "the arrays say where a launch runs"),
        (lambda: adds.run(OUT, 3), "write adds.run(..., grid=(...,))"),
    ],
)
def test_wrong_launches_say_what_to_do(launch, hint):
    assert hint in caught(launch).hint
