"""Pointers that are data: tables of addresses of arrays that are not arguments."""

import pytest
import torch

import workbench
import workbench.language as tl
from workbench.source import LaunchError


@workbench.jit
def double_each(table_ptr, n, BLOCK: tl.constexpr):
    x_ptr = tl.load(table_ptr + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(x_ptr + i, 2 * x, mask=i < n)


@pytest.mark.parametrize("target", ["interpreter", "cpu"])
def test_arrays_behind_a_table_are_read_and_written(target):
    arrays = [torch.arange(5.0) + i for i in range(3)]
    table = torch.tensor([x.data_ptr() for x in arrays])
    double_each[(3,)](table, 5, BLOCK=8, target=target)
    for i, x in enumerate(arrays):
        assert torch.equal(x, 2 * (torch.arange(5.0) + i))


def test_an_address_that_is_not_the_process_s_own_is_an_error():
    with pytest.raises(LaunchError, match="outside every argument") as caught:
        double_each[(1,)](torch.tensor([64]), 5, BLOCK=8, target="interpreter")
    assert caught.value.code == "K502"


def test_a_pointer_of_an_argument_stays_in_its_argument():
    @workbench.jit
    def reach(x_ptr, y_ptr):
        tl.store(x_ptr + 3, tl.load(y_ptr))

    x, y = torch.zeros(3), torch.zeros(1)
    with pytest.raises(LaunchError, match="past the end of x_ptr"):
        reach[(1,)](x, y, target="interpreter")
