"""Launches that give options by name are as fast as those that give none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
import workbench.language as tl
from tests.runtime.kernels import add
from workbench.launch import fastpath
from workbench.launch.options import UnheardOptionWarning
from workbench.runtime import knobs

torch = pytest.importorskip("torch")

NATIVE = "builtin_function_or_method"


def launch(kernel: Any, **options: Any) -> Any:
    x, y, out = (torch.ones(64) for _ in range(3))
    made = kernel[(1,)](x, y, out, 64, BLOCK=64, **options)
    assert torch.equal(out, x + y)
    return made


@pytest.mark.parametrize(
    "options",
    [{"maxnreg": 40}, {"num_ctas": 1, "enable_fp_fusion": False}, {"launch_pdl": True},
     {"num_warps": 8, "maxnreg": 64}, {"warps": 2}, {"waves_per_eu": 2}],
)  # fmt: skip
def test_what_is_given_each_time_goes_to_native_code(
    options: dict[str, Any], careful: list[dict[str, Any]]
) -> None:
    kernel = wb.jit(add.fn)
    for _ in range(2 * fastpath.NATIVE_AFTER):
        launch(kernel, **options)
    assert len(careful) == 1
    assert type(kernel._launch).__name__ == NATIVE


def test_calls_with_options_and_without_share_a_launcher(careful: list[dict[str, Any]]) -> None:
    kernel = wb.jit(add.fn)
    kinds = [{}, {"exact": True}, {"maxnreg": 40}, {"exact": True, "maxnreg": 40}, {"exact": False}]
    made = [launch(kernel, **options) for options in kinds]
    launch(kernel)  # through the launcher that knows all names by now
    careful.clear()
    for _ in range(40):
        for options, first in zip(kinds, made, strict=True):
            assert launch(kernel, **options).hash == first.hash
    assert len(careful) <= len(kinds)
    assert len({kernel.hash for kernel in made}) == 4  # False is what nobody says


def test_what_is_not_done_here_is_said_each_time(careful: list[dict[str, Any]]) -> None:
    kernel = wb.jit(add.fn)
    for _ in range(3):
        with pytest.warns(UnheardOptionWarning, match="ptx_options"):
            launch(kernel, ptx_options="-v")
    assert len(careful) == 3


def test_a_value_that_is_equal_and_of_another_type_is_looked_at() -> None:
    kernel = wb.jit(add.fn)
    launch(kernel, num_warps=1)
    launch(kernel, num_warps=1)
    with pytest.raises(wb.KernelError, match="num_warps is a positive integer, got True"):
        launch(kernel, num_warps=True)


@pytest.mark.parametrize("options", [{}, {"debug": False}, {"exact": True}])
@pytest.mark.parametrize("by_variable", [False, True])
def test_what_a_setting_decides_is_asked_at_each_launch(
    options: dict[str, Any],
    by_variable: bool,
    careful: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernel = wb.jit(add.fn)
    for _ in range(2 * fastpath.NATIVE_AFTER):
        launch(kernel, **options)
    assert len(careful) == 1
    with knobs.runtime.scope():
        if by_variable:
            monkeypatch.setenv("TRITON_DEBUG", "1")
        else:
            knobs.runtime.debug = True
        for _ in range(2 * fastpath.NATIVE_AFTER):
            assert dict(launch(kernel, **options).signature.options)["debug"] is True
        assert len(careful) == 2
        assert type(kernel._launch).__name__ == NATIVE
        with knobs.language.scope():
            knobs.language.default_fp_fusion = False
            made = launch(kernel, **options)
            assert dict(made.signature.options)["enable_fp_fusion"] is False
    assert "debug" not in dict(launch(kernel, **options).signature.options)


@pytest.mark.parametrize("times", [1, 2 * fastpath.NATIVE_AFTER])
@pytest.mark.parametrize("by_variable", [False, True])
def test_what_is_fused_is_decided_at_each_launch(
    times: int, by_variable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = wb.jit(add.fn)
    for fused in (True, False, True):
        with knobs.language.scope():
            if by_variable:
                monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", str(int(fused)))
            else:
                knobs.language.default_fp_fusion = fused
            for _ in range(times):
                options = dict(launch(kernel).signature.options)
                assert options.get("enable_fp_fusion", True) is fused


@pytest.mark.parametrize("times", [1, 2 * fastpath.NATIVE_AFTER])
@pytest.mark.parametrize(
    ("group", "name", "option"),
    [(knobs.runtime, "debug", ("debug", True)),
     (knobs.language, "default_fp_fusion", ("enable_fp_fusion", False))],
)  # fmt: skip
def test_settings_are_heard_that_do_not_go_to_the_environment(
    times: int, group: Any, name: str, option: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(knobs, "propagate_env", False)
    kernel = wb.jit(add.fn)
    for _ in range(times):
        launch(kernel)
    with group.scope():
        setattr(group, name, option[1])
        assert option in launch(kernel).signature.options
    assert option not in launch(kernel).signature.options


def test_kernels_with_assertions_are_launched_by_native_code(
    careful: list[dict[str, Any]],
) -> None:
    kernel = wb.jit(add.fn, debug=True)
    for _ in range(2 * fastpath.NATIVE_AFTER):
        assert dict(launch(kernel).signature.options)["debug"] is True
    assert len(careful) == 1
    assert type(kernel._launch).__name__ == NATIVE
    assert "debug" not in dict(launch(kernel, debug=False).signature.options)
    assert dict(launch(kernel).signature.options)["debug"] is True


@pytest.mark.parametrize("before", [{}, {"num_warps": 8}, {"warps": 8}])
def test_one_option_under_two_names_is_an_error_whatever_was_launched_before(
    before: dict[str, Any],
) -> None:
    kernel = wb.jit(add.fn)
    for _ in range(2 * fastpath.NATIVE_AFTER):
        launch(kernel, **before)
    with pytest.raises(wb.KernelError, match="warps=4 and num_warps=8") as error:
        launch(kernel, warps=4, num_warps=8)
    assert "keep num_warps=" in str(error.value)
    launch(kernel, warps=4, num_warps=None)


def test_an_option_of_a_configuration_is_not_given_by_the_caller_too() -> None:
    kernel = wb.autotune([wb.Config({}), wb.Config({}, num_warps=2)], key=[])(wb.jit(add.fn))
    for options in ({"num_warps": 8}, {"warps": 8}):
        with pytest.raises(wb.KernelError, match="by the caller and by a configuration"):
            launch(kernel, **options)
    free = wb.autotune([wb.Config({}, num_warps=None)], key=[])(wb.jit(add.fn))
    launch(free, warps=8)


def test_a_parameter_may_have_the_name_of_what_a_setting_adds() -> None:
    @wb.jit(debug=True)
    def scaled(x, debug: tl.constexpr, B: tl.constexpr):
        offsets = tl.arange(0, B)
        tl.store(x + offsets, tl.load(x + offsets) * debug)

    x = torch.ones(16)
    for _ in range(3):
        scaled[(1,)](x, debug=2, B=16)
    assert x.tolist() == [8.0] * 16


def test_native_code_is_made_for_how_calls_are_written_whatever_came_last(
    careful: list[dict[str, Any]],
) -> None:
    kernel = wb.jit(add.fn)
    launch(kernel, num_warps=8)
    launch(kernel)
    for _ in range(3 * fastpath.NATIVE_AFTER):
        launch(kernel, num_warps=8)
    assert len(careful) == 2
    assert type(kernel._launch).__name__ == NATIVE


def test_numbers_of_other_libraries_are_numbers(careful: list[dict[str, Any]]) -> None:
    kernel = wb.jit(add.fn)
    for _ in range(4):
        launch(kernel, num_warps=np.int64(4))
    assert len(careful) == 1
