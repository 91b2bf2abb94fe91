"""Options that are accepted and change nothing say so, unless nothing is asked for."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from tests.runtime.kernels import fill, matmul
from workbench.launch.options import WITHOUT_EFFECT, UnheardOptionWarning, check_options


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("ir_override", "edited.ttgir", "an edited stage is given by %%override"),
        ("enable_reflect_ftz", False, "libdevice's functions are this compiler's own"),
        ("ptx_options", "--verbose", "ptxas gets the options"),
        ("arch", "sm80", "a chip is chosen by target="),
    ],
)
def test_what_is_not_done_is_said(name: str, value: object, said: str) -> None:
    with pytest.warns(UnheardOptionWarning, match=f"{name}=.* has no effect: .*{said}"):
        assert check_options({name: value}) == ()


@pytest.mark.parametrize("name", sorted(WITHOUT_EFFECT))
def test_what_asks_for_nothing_is_silent(name: str) -> None:
    given = {"enable_reflect_ftz": True}.get(name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert check_options({name: given}) == ()
        empty = {"extern_libs": {}, "ptx_options": "", "kpack": 2, "waves_per_eu": 1}
        assert check_options({name: empty.get(name)}) == ()


@pytest.mark.parametrize(("name", "value"), [("most_rounds", 7), ("cluster", 2)])
def test_what_is_asked_of_blocks_that_stay_is_answered_where_none_does(
    name: str, value: int
) -> None:
    arrays = [np.zeros((64, 64), np.float16) for _ in range(3)]
    kernel = matmul.warmup(
        *arrays, 64, 64, 64, 64, 64, 64, BM=64, BN=64, BK=64, grid=(1, 1), target="sm_90a",
        num_stages=1, **{name: value},
    )  # fmt: skip
    told = [r.text for r in kernel.trace.remarks if name in r.text]
    assert told == [f"{name}={value} is not obeyed: no block stays for another program"]
    on_cpu = fill.warmup(arrays[0], 1.0, 64, grid=(1,), target="cpu", **{name: value})
    told = [r.text for r in on_cpu.trace.remarks if name in r.text]
    assert told == [f"{name}={value} is not obeyed: threads of a pool take programs as they come"]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("reorder", "no program's loops are known to be longer"),
        ("tickets", "no block stays for another program"),
        ("tma_stores", "no product reads what a tensor map brings"),
        ("rounds_together", "no ring of vectors has short rows that go on"),
        ("fast_rescale", "no loop carries an extreme of a row's lanes"),
    ],
)
def test_what_finds_nothing_to_do_is_answered(name: str, why: str) -> None:
    array = np.zeros((64, 64), np.float16)
    kernel = fill.warmup(array, 1.0, 64, grid=(1,), target="sm_90a", **{name: True})
    (told,) = (r.text for r in kernel.trace.remarks if name in r.text)
    assert told.startswith(f"{name}=True is not obeyed: {why}")
    plain = fill.warmup(array, 1.0, 64, grid=(1,), target="sm_90a")
    assert not [r for r in plain.trace.remarks if name in r.text]
