"""`run_cell`: what a `%%kernel` cell does, on the CPU and in the interpreter, without IPython."""

from __future__ import annotations

import pytest
import torch

from tests.magics.sources import ADD
from workbench import run_cell
from workbench.magics import lines, registry
from workbench.source import CheckError, CompileError, KernelError, LaunchError, OptionError

SEVEN = "--set BLOCK=3 --args x,y,out,7"


@pytest.fixture
def names():
    x, y = torch.arange(7.0), torch.full((7,), 10.0)
    return {"x": x, "y": y, "out": torch.zeros(7), "torch": torch}


@pytest.fixture(autouse=True)
def _empty_registry():
    registry.clear()


def test_seven_elements_in_blocks_of_three(names):
    result = run_cell(ADD, f'{SEVEN} --grid 3 --check "x + y" --target cpu', names)
    assert torch.equal(names["out"], names["x"] + names["y"])
    assert result.check.ok
    assert (result.check.wrong, result.check.total) == (0, 7)
    assert names["_kernel"] is result
    assert result.launches[0].grid == (3,)


def test_without_a_gpu_auto_shows_what_one_would_run(names):
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    result = run_cell(ADD, f"{SEVEN} --grid 3", names)
    assert [trace.kernel.target for trace in result.traces] == ["sm_90a", "cpu"]
    assert result.trace.runs.skipped[0].why == "no CUDA device"
    assert "ld.global" in result.ptx
    assert result.stages["asm"]


def test_the_interpreter_records_every_access(names):
    result = run_cell(ADD, f"{SEVEN} --grid 3 --target interpreter --as seven", names)
    assert names["seven"] is result
    loads = [entry for entry in result.trace.access if entry.direction == "load"]
    assert len(loads) == 2
    live = [access for access in loads[0].addr if access[4]]
    assert [(a[0], a[3]) for a in live] == [(i // 3, i) for i in range(7)]
    assert result.plot("access")._repr_png_()[:4] == b"\x89PNG"


def test_an_unknown_argument_is_marked_alone_and_the_nearest_name_offered(names):
    line = "--set BLOCK=3 --args x,y,outt,7 --grid 3"
    with pytest.raises(OptionError) as caught:
        run_cell(ADD, line, names)
    span = caught.value.span
    first = len("%%kernel ") + 1
    assert line[span.column - first : span.end_column - first] == "outt"
    assert caught.value.hint == "did you mean out?"


def test_a_wrong_setting_among_others_is_the_one_that_is_marked(names):
    line = "--set BLOK=3 --set warps=4 --args x,y,out,7 --grid 3"
    with pytest.raises(OptionError) as caught:
        run_cell(ADD, line, names)
    first = len("%%kernel ") + 1
    span = caught.value.span
    assert line[span.column - first : span.end_column - first] == "BLOK=3"


def test_a_launch_that_nothing_varies_is_called_by_its_grid(names):
    result = run_cell(ADD, f"{SEVEN} --grid 3 --bench --target cpu", names)
    assert (result.bench[0].axis, result.bench[0].x) == ("grid", ("3",))
    others = result.bench[0].env.others
    assert others is None or 0 <= others <= 1


def test_a_failed_check_names_the_element_and_keeps_the_result(names):
    with pytest.raises(CheckError) as caught:
        run_cell(ADD, f'{SEVEN} --grid 1 --check "x + y" --target cpu', names, file="In[41]")
    text = str(caught.value)
    assert "out differs from x + y: 4 of 7 elements" in text
    assert "no program stored it. Grid (1,) with BLOCK=3 covers out[0:3]" in text
    assert "--> In[41]:8:5" in text
    assert "tl.store(out_ptr + offsets, x + y, mask=mask)" in text
    assert caught.value.result.check.wrong == 4


def test_triton_cells_run_as_they_are(names):
    cell = (
        "import triton\nimport triton.language as tl\n@triton.jit" + ADD + "def add_all(x, y):\n"
        "    out = torch.empty_like(x)\n"
        "    add[lambda meta: (triton.cdiv(x.numel(), meta['BLOCK']),)]"
        "(x, y, out, x.numel(), BLOCK=4)\n"
        "    return out\n"
        "answer = add_all(x, y)\n"
    )
    result = run_cell(cell, "", names)
    assert torch.equal(names["answer"], names["x"] + names["y"])
    assert result.name == "add"
    assert result.trace.text("tile")


def test_without_types_python_and_ast_are_shown(names):
    result = run_cell(ADD, "", names)
    assert [stage.id for stage in result.trace.stages] == ["source", "ast"]
    assert result.trace.runs.skipped[0].why.startswith("types unknown: add --args or --sig")


def test_signature_compiles_without_data(names):
    result = run_cell(
        ADD, '--sig "*f32:16 *f32:16 *f32:16 i32:16" --set BLOCK=512 --target sm_90a', names
    )
    assert result.ptx.count("ld.global.v4") + result.ptx.count("ld.global.nc.v4") == 2
    assert result.ptx.count("st.global.v4") == 1


def test_sweeps_check_every_point(names):
    cell = (
        "def make(n):\n"
        "    x = torch.randn(n)\n"
        "    return dict(x_ptr=x, y_ptr=x, out_ptr=torch.empty_like(x), n=n)\n" + ADD
    )
    result = run_cell(
        cell,
        '--make make --x n=100,200 --set BLOCK=64 --grid "cdiv(n, BLOCK)" --target cpu '
        '--check "x_ptr + y_ptr" --bench --baseline torch --baseline triton',
        names,
    )
    own, peer, missing = result.bench
    assert own.x == peer.x == (100, 200)
    assert own.ok == (True, True)
    assert own.bytes == (1200.0, 2400.0)
    assert missing.error in ("not installed", "runs on a GPU only")


def test_names_stay_when_a_launch_goes_wrong(names):
    """What helps to find out why asks for the kernel, which calls functions of the cell."""
    text = """
@triton.jit
def minus(a, b):
    return a - b

@triton.jit
def apart(x, o, B: tl.constexpr):
    tl.store(o, tl.reduce(tl.load(x + tl.arange(0, B)), 0, minus))
"""
    with pytest.raises(LaunchError) as caught:
        run_cell(text, "apart --args x,out --grid 1 --set B=4 --guard --target cpu", names)
    assert caught.value.code == "K517"
    assert {"minus", "apart"} <= names.keys()


def test_names_are_restored_when_a_kernel_does_not_compile(names):
    run_cell(ADD, f"{SEVEN} --grid 3 --target cpu", names)
    before = names["add"]
    with pytest.raises(CompileError) as caught:
        run_cell(ADD.replace("tl.load(x_ptr", "tl.lod(x_ptr"), f"{SEVEN} --grid 3", names)
    assert names["add"] is before
    assert "did you mean tl.load" in str(caught.value)
    assert caught.value.result.trace.text("source")


@pytest.mark.parametrize(
    ("line", "kind", "code", "text"),
    [
        ("--args x,y,out --grid 3 --set BLOCK=3", OptionError, "K110",
         "--args gives 3 values, add takes 4: x_ptr, y_ptr, out_ptr, n"),
        (f"{SEVEN} --grid (4,-1)", OptionError, "K111",
         "--grid needs 1 to 3 integers ≥ 0 (0: nothing runs), got (4, -1)"),
        (SEVEN, OptionError, "K111", "no grid"),
        (f"{SEVEN} --grid 3 --set BLK=4", OptionError, "K112",
         "no constexpr or option 'BLK'; did you mean BLOCK?"),
        ('--sig "*f12 i32" --set BLOCK=3', OptionError, "K113", "f12"),
        (f'{SEVEN} --grid 3 --assume "n % 7 == 0"', OptionError, "K113",
         "what holds at every launch belongs in the kernel: tl.assume(n % 7 == 0)"),
        (f"{SEVEN} --grid 3 --target interpreter --bench", OptionError, "K118",
         "--bench needs a device or --target cpu"),
        ("sub --args x", OptionError, "K131", "the cell defines no kernel 'sub'"),
        ("--as add", OptionError, "K123", "--as add would hide the kernel add"),
        ("--args x,y,out,nowhere --grid 3 --set BLOCK=3", OptionError, "K104", "NameError"),
        ("--args x,y,out,7 --grid 3", KernelError, "K220", "constexpr"),
        (f"{SEVEN} --grid 3 --target sm_90a", LaunchError, "K504", "CPU array"),
    ],
)  # fmt: skip
def test_wrong_cells_say_what_is_wrong(names, line, kind, code, text):
    with pytest.raises(kind) as caught:
        run_cell(ADD, line, names)
    assert caught.value.code == code
    assert text in str(caught.value)


def test_a_result_called_as_something_that_the_kernel_names_is_shown(names):
    # What describes the names a kernel reads once printed the result, which printed its trace.
    result = run_cell(ADD, f"{SEVEN} --grid 3 --target cpu --as load", names)
    assert names["load"] is result
    assert "add" in repr(result)
    assert run_cell(ADD, f"{SEVEN} --grid 3 --target cpu", names).launches


def test_as_replaces_results_and_nothing_else(names):
    line = f"{SEVEN} --grid 3 --target interpreter --as r"
    first = run_cell(ADD, line, names)
    assert run_cell(ADD, line, names) is names["r"] is not first  # a cell may run again
    out = names["out"]
    with pytest.raises(OptionError, match="--as out would replace out, which") as caught:
        run_cell(ADD, f"{SEVEN} --grid 3 --target interpreter --as out", names)
    assert caught.value.code == "K123"
    with pytest.raises(OptionError, match="--as r would replace r, which holds a value of type i"):
        run_cell(f"r = 3\n{ADD}", line, names)
    assert names["out"] is out
    assert names["r"] == 3


def test_make_that_forgets_an_argument_is_k115(names):
    cell = "def make(n):\n    return dict(x_ptr=x, n=n)\n" + ADD
    with pytest.raises(OptionError, match="--make returned no value for 'y_ptr'") as caught:
        run_cell(cell, "--make make --x n=7 --grid 3 --set BLOCK=3", names)
    assert caught.value.code == "K115"


@pytest.mark.parametrize(
    ("axes", "hint"), [("--x size=7", "one parameter per axis"), ("", "e.g. --x n=1024,4096")]
)
def test_make_that_takes_other_arguments_than_the_axes_is_k126(names, axes: str, hint: str):
    cell = "def make(n):\n    return dict(x_ptr=x, n=n)\n" + ADD
    with pytest.raises(OptionError, match=hint) as caught:
        run_cell(cell, f"--make make {axes} --grid 3 --set BLOCK=3", names)
    assert caught.value.code == "K126"


def test_what_make_raises_is_raised(names):
    cell = "def make(n):\n    return len(n)\n" + ADD
    with pytest.raises(TypeError, match="has no len"):
        run_cell(cell, "--make make --x n=7 --grid 3 --set BLOCK=3", names)


def test_the_result_can_be_launched_again(names):
    result = run_cell(ADD, f"{SEVEN} --grid 3 --target cpu", names)
    names["out"].zero_()
    result()
    assert torch.equal(names["out"], names["x"] + names["y"])


def test_self_baseline_is_the_previous_result(names):
    line = f'{SEVEN} --grid 3 --target cpu --check "x + y" --bench --baseline self'
    first = run_cell(ADD, line, names)
    assert first.bench[1].error == "no earlier result of this kernel"
    second = run_cell(ADD, line, names)
    assert second.bench[1].name == "previous"
    assert second.bench[1].x


def test_helpers_are_device_functions_too(names):
    cell = "def twice(v):\n    return v + v\n" + ADD.replace("x + y", "twice(x)")
    result = run_cell(cell, f'{SEVEN} --grid 3 --target cpu --check "x + x"', names)
    assert result.check.ok


def test_saving_by_suffix(names, tmp_path):
    result = run_cell(ADD, f"{SEVEN} --grid 3 --target cpu", names)
    for suffix in (".html", ".wbt", ".json", ".ll", ".s"):
        path = result.save(tmp_path / f"add{suffix}")
        assert path.stat().st_size > 100
    with pytest.raises(OptionError) as caught:
        result.save(tmp_path / "add.ll")
    assert caught.value.code == "K802"


@pytest.mark.parametrize("target", ["cpu", "sm_90a"])
def test_a_kernel_that_does_nothing_compiles(target):
    run_cell("def k(x_ptr, n):\n    tl.arange(0, 8)\n", f'--sig "*f32 i32" --target {target}')


def test_kernels_lists_every_specialisation_with_its_latest_verdict(names):
    run_cell(ADD, f'{SEVEN} --grid 3 --check "x + y" --target cpu', names)
    run_cell(ADD, "--set BLOCK=4 --args x,y,out,7 --grid 2 --target cpu", names)
    run_cell(ADD, f"{SEVEN} --grid 3 --target cpu", names)
    head, *rows = lines.kernels().splitlines()
    assert head.split() == ["kernel", "target", "specialisation", "regs", "spills", "ms", "check"]
    rows = [row for row in rows if row.split()[0] == "add"]  # torch's kernels are listed too
    assert [row.split()[2] for row in rows] == ["f32·BLOCK=3", "f32·BLOCK=4"]
    assert [row.endswith("ok") for row in rows] == [True, False]  # a launch keeps the verdict


def test_every_stage_can_be_saved(names, tmp_path):
    result = run_cell(ADD, f"{SEVEN} --grid 3 --target cpu", names)
    text = result.save(tmp_path / "add.tile").read_text()
    assert text.startswith("// kernel add; target cpu")
    assert "tile.load" in text


def test_as_leaves_alone_what_the_body_bound_before_it_was_stopped(names):
    text = f"""import workbench
@workbench.jit
{ADD.strip()}
r = {{"mine": 1}}
add[(1,)](x, y, out, 7, BLOCK=16)
raise KeyboardInterrupt
"""
    with pytest.raises(KeyboardInterrupt):
        run_cell(text, "--as r", names)
    assert names["r"] == {"mine": 1}


def test_a_name_of_a_kernel_is_refused_in_the_same_words_each_time(names):
    for _ in range(2):
        with pytest.raises(OptionError, match="--as add would hide the kernel add"):
            run_cell(ADD, f"{SEVEN} --grid 3 --target interpreter --as add", names)
        run_cell(ADD, f"{SEVEN} --grid 3 --target interpreter", names)
