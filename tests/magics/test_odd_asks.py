"""Odd but legal lines of magics: what is asked is answered, or an error says what to do."""

from __future__ import annotations

import re

import pytest
import torch

import workbench.language as tl
from tests.magics.sources import ADD
from workbench import run_cell
from workbench.bench import device
from workbench.magics import lines, placing, registry, roofs, sweeping
from workbench.magics.grammar import parse
from workbench.magics.machine_code import sass_listing
from workbench.magics.overriding import override_text
from workbench.magics.questioning import bisect, diff, follow, step
from workbench.magics.stated import stated
from workbench.source import CheckError, KernelError, OptionError
from workbench.targets.nvidia import toolchain

LINE = '--args x,y,out,n --grid "cdiv(n, BLOCK)" --set BLOCK=128 --target cpu'


@pytest.fixture
def space():
    registry.clear()
    n = 1000
    found = {"x": torch.arange(n) * 1.0, "y": torch.ones(n), "out": torch.zeros(n), "n": n}
    run_cell(ADD, LINE, found)
    yield found
    registry.clear()


# -- a grid of no programs ----------------------------------------------------------------------
def test_a_grid_without_programs_runs_nothing_and_the_element_that_is_missing_is_named(space):
    space["out"].zero_()
    answer = str(bisect("add", parse("bisect", '--grid 0 --check "x + y"', space), space))
    assert answer.startswith("no program stores out[0], which is 0 and should be 1: the grid (0,)")


def test_no_program_to_step_through_and_no_time_of_no_launch(space):
    with pytest.raises(OptionError, match="the grid is 0: no program runs"):
        step("add", parse("step", "--grid 0", space), space)
    found = sweeping.whatif("add", parse("whatif", "--axis BLOCK=64 --grid 0", space), space)
    assert found.best is None
    assert found.squares[0].facts is not None


# -- K@SPEC ---------------------------------------------------------------------------------------
def test_what_was_not_compiled_for_a_target_is_compiled_when_it_is_asked_for(space):
    assert "add for sm_80" in str(placing.layouts("add@sm_80", namespace=space))
    assert ".target sm_80" in str(lines.ptx("add@sm_80", namespace=space))
    assert "tile<64x" in str(lines.gpu("add@sm_80,BLOCK=64", namespace=space))
    assert "line 5" in str(lines.explain("add@sm_80:5", namespace=space))
    assert "%%override add@sm_80 llvm" in str(override_text("add@sm_80", "llvm", namespace=space))
    assert str(lines.passes("add@sm_80", namespace=space)).count("assign-layouts")
    assert [record.trace.kernel.target for record in registry.latest("add").records] == ["cpu"]


def test_options_say_what_is_looked_at(space):
    def laid_out(line):
        request = parse("layouts", line, space)
        return str(placing.layouts(stated(request.name, request, space), namespace=space))

    assert "add for sm_80: " in laid_out("add --target sm_80")
    assert "64 blocked: %" in laid_out("add --set BLOCK=64")
    assert "add for sm_86: " in laid_out(
        'add --sig "*f32 *f32 *f32 i32" --target sm_86 --set BLOCK=32'
    )
    with pytest.raises(OptionError, match="compiled for no GPU"):
        laid_out("add")


def test_an_edit_names_no_settings(space):
    with pytest.raises(OptionError, match="names settings") as caught:
        override_text("add@sm_80,num_warps=8", "ptx", namespace=space)
    assert "--set NAME=VALUE" in caught.value.hint


@pytest.mark.skipif(toolchain.find("nvdisasm") is None, reason="no nvdisasm")
def test_machine_code_of_another_target_with_control_bits(space):
    text = str(sass_listing("add@sm_80", parse("sass", "--control", space), space))
    assert text.startswith("// add for sm_80")


@pytest.mark.parametrize("spec", ["foo", "sm_80,foo", ",", "sm_91"])
def test_what_is_no_target_and_no_setting_is_refused(space, spec):
    with pytest.raises(OptionError) as caught:
        lines.tile(f"add@{spec}", namespace=space)
    assert caught.value.code == "K129"
    assert "add@sm_90a" in caught.value.hint
    with pytest.raises(OptionError, match="no constexpr or option 'n': n is an argument"):
        diff("add@n=4", "add", namespace=space)


# -- lines that ask for what there is not ------------------------------------------------------
@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("tile:-1", "'-1' is no row"), ("tile:", "'' is no row"), ("foo:3", "no stage 'foo'"),
        ("nosuch", "no value is called 'nosuch'"), ("99", "stands in lines"),
    ],
)  # fmt: skip
def test_rows_and_stages_to_follow(space, what, said):
    with pytest.raises(OptionError, match=re.escape(said)) as caught:
        follow("add", what, namespace=space)
    assert caught.value.hint


def test_a_kernel_alone_is_nothing_to_follow(space):
    with pytest.raises(OptionError, match="what is to be followed") as caught:
        follow(None, "add", namespace=space)
    assert caught.value.code == "K103"


def test_an_element_outside_is_told_the_shape(space):
    with pytest.raises(OptionError, match=re.escape("element [9999]; its shape is [128]")):
        step("add", parse("step", '--watch "x[9999]"', space), space)


def test_a_word_is_explained_without_any_result():
    registry.clear()
    with pytest.raises(OptionError, match="nothing is known about 'zzz'"):
        lines.explain("zzz")


def test_values_of_an_axis_that_cannot_be_point_to_the_axis(space):
    line = "--axis warps=0,3"
    with pytest.raises(OptionError, match="num_warps is a positive integer, got 0") as caught:
        sweeping.whatif("add", parse("whatif", line, space), space)
    assert caught.value.span is None or caught.value.span.line == 1


def test_a_path_without_a_suffix_says_that_it_needs_one(space, tmp_path):
    with pytest.raises(OptionError, match="has no suffix") as caught:
        lines.save("add", tmp_path / "add", namespace=space)
    assert ".html" in caught.value.hint


# -- references -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("reference", "said"),
    [("None", "NoneType"), ("'abc'", "str"), ("x + 1j", "complex64 numbers"), ("print", "None")],
)  # fmt: skip
def test_references_that_no_output_can_hold(space, reference, said):
    with pytest.raises(CheckError, match=rf"gives {said}\w* for out_ptr") as caught:
        lines.check("add", parse("check", f'--check "{reference}"', space), space)
    assert caught.value.code == "K602"


def test_a_whole_number_is_a_reference(space):
    space["x"].fill_(2.0)
    result = lines.check("add", parse("check", "--check 3", space), space)
    assert result.check.ok
    with pytest.raises(CheckError, match="out differs from 4"):
        lines.check("add", parse("check", "--check 4", space), space)


@pytest.mark.skipif(device.has_gpu(), reason="there is a GPU")
def test_a_target_without_its_device_is_not_timed(space):
    for ask in (
        lambda: lines.bench("add", parse("bench", "--target sm_90a", space), space),
        lambda: roofs.roofline("add", parse("roofline", "--target sm_90a", space), space),
    ):
        with pytest.raises(KernelError, match="there is none for sm_90a") as caught:
            ask()
        assert "--target cpu" in caught.value.hint


CAST = """
def cast(x_ptr, out_ptr, BLOCK: tl.constexpr, TYPE: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at).to(TYPE).to(tl.float32))
"""


def test_settings_that_are_no_literals_are_compiled_for_as_they_are(space):
    """A type is no text, though it is written as one."""
    run_cell(CAST, "--args x,out --grid 1 --set BLOCK=64 --set TYPE=tl.float16 --target cpu", space)
    space["other"] = tl.bfloat16
    found = stated("cast", parse("layouts", "cast --set TYPE=other --set warps=2", space), space)
    compiled = found.records[0].compiled
    assert dict(compiled.signature.arguments)["TYPE"].value == tl.bfloat16
    assert dict(compiled.signature.options)["num_warps"] == 2


# -- names that nothing has -------------------------------------------------------------------
def test_kernels_without_results_are_an_error_and_specialisations_are_told_apart(space):
    for name in ("nope", "nope@cpu", "add@sm_120", "@cpu"):
        with pytest.raises(OptionError) as caught:
            lines.kernels(name)
        assert caught.value.code == "K129"
    run_cell(ADD, LINE.replace("--target cpu", "--target sm_90a --no-run"), space)
    assert [str(lines.kernels(name)).count("\nadd") for name in ("add", "add@cpu")] == [2, 1]


@pytest.mark.parametrize("stage", ["ptx", "sass", "gpu"])
def test_a_stage_of_one_target_is_not_shown_for_another(space, stage):
    """A cell that compiles for a chip to look at has both; K@SPEC names one of them."""
    run_cell(ADD, LINE.replace("--target cpu", ""), space)
    assert str(getattr(lines, stage)("add", namespace=space))
    with pytest.raises(OptionError, match="add for cpu has no"):
        getattr(lines, stage)("add@cpu", namespace=space)
    with pytest.raises(OptionError):
        follow("add@cpu", f"{stage}:5", namespace=space)


def test_words_and_patterns_that_nothing_has_are_told(space):
    assert str(lines.passes("add", grep="zz", namespace=space)).startswith("no pass that changed")
    for word in ("doctor", "version"):
        with pytest.raises(OptionError, match="takes no word"):
            lines.workbench(word, "x")


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("add@cpu", "add --target cpu"),
        ("add@sm_80,BLOCK=64", "add --target sm_80 --set BLOCK=64"),
        ("add@f32·BLOCK=16·w8", "add --set BLOCK=16"),
    ],
)
def test_a_launch_is_described_by_options_and_never_by_a_compilation(space, name, options):
    """`K@SPEC` would be run as the latest launch was, for another target or other settings."""
    asks = [
        lambda: step(name, None, space), lambda: bisect(name, None, space),
        lambda: lines.check(name, parse("check", "", space), space),
        lambda: lines.bench(name, parse("bench", "", space), space),
    ]  # fmt: skip
    for ask in asks:
        with pytest.raises(OptionError, match="names a compilation") as caught:
            ask()
        assert options in caught.value.hint


def test_what_was_asked_wrongly_changes_nothing_of_later_runs(space, monkeypatch):
    monkeypatch.setattr(device, "has_gpu", lambda: False)
    for wrong in ("--bench --target sm_90a", "--set BLCK=3"):
        with pytest.raises(OptionError):
            lines.bench("add", parse("bench", wrong.removeprefix("--bench "), space), space)
        assert registry.find("add").trace.kernel.target == "cpu"
    assert lines.check("add", parse("check", "", space), space).check.ok


@pytest.mark.parametrize(
    ("check", "said", "hint"),
    [
        ("torch.sigmoid", "the reference torch.sigmoid raised TypeError", "e.g. torch.sigmoid(x"),
        ("x +", "--check: 'x +' raised SyntaxError: invalid syntax", None),
    ],
)
def test_a_reference_that_is_no_call_says_what_to_write(space, check, said, hint):
    space["torch"] = torch
    with pytest.raises((CheckError, OptionError)) as raised:
        lines.check("add", parse("check", f'add --check "{check}"', space), space)
    assert raised.value.message.startswith(said)
    assert "<--check>" not in raised.value.message
    assert (hint is None and raised.value.hint is None) or hint in raised.value.hint


@pytest.mark.parametrize(("option", "value"), [("flops", "-3"), ("bytes", "x"), ("bytes", "1e999")])
def test_work_is_a_number(space, option, value):
    with pytest.raises(OptionError, match=f"--{option} counts what a launch does") as caught:
        run_cell(ADD, f'{LINE} --bench --{option} "{value}"', space)
    assert caught.value.code == "K119"


def test_what_another_decorator_makes_of_a_kernel_is_none(space):
    text = "import functools\n@functools.lru_cache\n@triton.jit" + ADD
    with pytest.raises(KernelError, match="the source of add cannot be read"):
        run_cell(text, LINE, space)
