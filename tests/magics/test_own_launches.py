"""Options of a cell that launches its kernel by itself are about its last launch."""

import numpy as np
import pytest

from workbench.magics import lines
from workbench.magics.cells import run_cell
from workbench.magics.grammar import Origin, parse
from workbench.source import KernelError

ADD = """
@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    total = tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside)
    tl.store(out_ptr + offsets, total, mask=inside)

"""
SUM = """
@triton.jit
def total(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out_ptr, tl.sum(tl.load(x_ptr + offsets, mask=offsets < n, other=0)))

"""
FIXED = ADD + "add[(4,)](x, y, out, 1000, BLOCK=256)\n"
FOLLOWING = ADD + "add[lambda m: (triton.cdiv(1000, m['BLOCK']),)](x, y, out, 1000, BLOCK=256)\n"


def assert_right(result):
    """Fail unless the result was compared and is right."""
    assert result.check is not None
    assert result.check.ok


@pytest.fixture
def names():
    """Three arrays of 1,000 floats and a sum that begins at 5."""
    draw = np.random.default_rng(0)
    x, y = (draw.standard_normal(1000, dtype=np.float32) for _ in range(2))
    return {"np": np, "x": x, "y": y, "out": np.zeros_like(x), "acc": np.full(1, 5, np.float32)}


def test_a_right_launch_passes(names):
    result = run_cell(FIXED, '--check "x + y"', names)
    assert_right(result)
    assert np.array_equal(names["out"], names["x"] + names["y"])


def test_a_wrong_launch_fails_at_the_store(names):
    with pytest.raises(KernelError) as caught:
        run_cell(FIXED, '--check "x - y"', names)
    assert caught.value.code == "K601"
    assert caught.value.span.line == 8
    assert names["_kernel"].check is not None, "what was found stays"


def test_without_an_expression_the_interpreter_says_what_is_right(names):
    result = run_cell(FIXED, "--check", names)
    assert_right(result)


def test_what_a_launch_adds_to_is_as_it_was_before_it(names):
    launch = "total[(4,)](x, acc, 1000, BLOCK=256)\n"
    result = run_cell(SUM + launch, '--check "acc + np.sum(x)" --rtol 1e-5', names)
    assert_right(result)
    once = 5 + names["x"].sum(dtype=np.float64)
    assert names["acc"][0] == pytest.approx(once, rel=1e-5), "the user's launch counts once"


def test_timing_leaves_the_arrays_as_the_cell_left_them(names):
    launch = "total[(4,)](x, acc, 1000, BLOCK=256)\nacc[:] *= 2\n"
    result = run_cell(SUM + launch, "--bench", names)
    assert result.bench
    assert result.bench[0].milliseconds
    once = 2 * (5 + names["x"].sum(dtype=np.float64))
    assert names["acc"][0] == pytest.approx(once, rel=1e-5)


def test_a_parameter_goes_before_a_name_of_the_notebook(names):
    cell = ADD.replace("x_ptr", "y").replace("y_ptr", "x") + "add[(4,)](x, y, out, 1000, BLOCK=256)"
    names["x"], names["y"] = names["x"] * 4, names["y"] * 2
    result = run_cell(cell, '--check "y + x"', names)  # the sum is the same either way round
    assert_right(result)
    with pytest.raises(KernelError, match="K601"):
        run_cell(cell.replace("+ tl.load", "- tl.load"), '--check "x - y"', names)


def test_a_search_follows_the_grid_that_the_cell_gave_as_a_function(names):
    result = run_cell(FOLLOWING, '--tune BLOCK=128,512 --check "x + y"', names)
    assert result.tune is not None
    assert len(result.tune.rows) >= 2
    assert_right(result)


@pytest.mark.parametrize("option", ["--tune BLOCK=128,256", "--set BLOCK=128"])
def test_a_grid_of_numbers_follows_no_constexpr(names, option):
    with pytest.raises(KernelError) as caught:
        run_cell(FIXED, option, names)
    assert caught.value.code == "K111"
    assert "grid of (4,)" in caught.value.message
    assert '--grid "cdiv(n, BLOCK)"' in (caught.value.hint or "")
    assert run_cell(FIXED, f'{option} --grid "cdiv(n, BLOCK)" --check "x + y"', names).check.ok


def test_options_of_the_launch_stay_and_those_of_the_line_win(names):
    cell = FIXED.replace("BLOCK=256)", "BLOCK=256, num_warps=2)")
    assert run_cell(cell, "--check", names).compiled.metadata.num_warps == 2
    assert run_cell(cell, "--check --set num_warps=8", names).compiled.metadata.num_warps == 8


def test_of_several_launches_the_last_is_meant_and_the_others_stay(names):
    names["half"] = np.zeros(1000, np.float16)
    cell = ADD + (
        "add[(4,)](x, y, out, 1000, BLOCK=256)\nadd[(2,)](half, half, half, 1000, BLOCK=512)\n"
    )
    result = run_cell(cell, '--check "half + half"', names)
    assert_right(result)
    specs = " ".join(trace.kernel.spec for trace in result.traces)
    assert "BLOCK=512" in specs
    assert "BLOCK=256" in specs


def test_launches_with_other_arrays_that_follow_are_not_meant(names):
    cell = FIXED + "for _ in range(3):\n    add[(1,)](y[:9], y[:9], out[:9], 9, BLOCK=256)\n"
    assert_right(run_cell(cell, '--check "x + y"', names))
    with pytest.raises(KernelError, match="K602"):
        run_cell(cell, '--check "np.zeros(1000)"', names)


def test_a_kernel_with_a_search_and_computed_constexprs(names):
    cell = ADD.replace(
        "@triton.jit",
        "@triton.autotune([triton.Config({'BLOCK': n}) for n in (128, 256)], key=['n'])\n"
        "@triton.heuristics({'EVEN': lambda a: a['n'] % a['BLOCK'] == 0})\n@triton.jit",
    ).replace("BLOCK: tl.constexpr", "BLOCK: tl.constexpr, EVEN: tl.constexpr")
    cell += "add[lambda m: (triton.cdiv(1000, m['BLOCK']),)](x, y, out, 1000)\n"
    result = run_cell(cell, '--check "x + y"', names)
    assert_right(result)


def test_later_lines_know_the_launch(names):
    run_cell(FIXED, "", names)
    request = parse("check", 'add --check "x + y"', names, Origin("In[9]", 1, 8))
    assert lines.check("add", request, names).check.ok
    request = parse("bench", "add", names, Origin("In[10]", 1, 8))
    assert lines.bench("add", request, names).bench


def test_what_was_asked_and_nothing_launched_says_so(names):
    result = run_cell(ADD, "--check --bench --tune BLOCK=128,256", names)
    said = {run.what for run in result.records[0].runs}
    assert {"compile", "check", "bench", "tune"} <= said


def test_a_function_without_a_decorator_is_launched_in_its_cell(names):
    cell = FIXED.replace("@triton.jit\n", "")
    assert run_cell(cell, '--check "x + y"', names).check.ok
    helper = (
        "def twice(x):\n    return x + x + tl.zeros_like(x)\n\n"
        "def double(x_ptr, out_ptr, BLOCK: tl.constexpr):\n    i = tl.arange(0, BLOCK)\n"
        "    tl.store(out_ptr + i, twice(tl.load(x_ptr + i)))\n\n"
        "def run():\n    double[(1,)](x, out, BLOCK=512)\n    return tl\n\nrun()\n"
    )
    run_cell(helper, "", names)
    assert np.array_equal(names["out"][:512], 2 * names["x"][:512])


def test_another_target_is_where_the_launch_is_made_again(names):
    result = run_cell(FIXED, "--target interpreter", names)
    assert next(trace.kernel.target for trace in result.traces) == "interpreter"
    with pytest.raises(KernelError) as caught:
        run_cell(FIXED, "--target sm_80", names)
    assert caught.value.code == "K504"
    assert "--no-run" in (caught.value.hint or "")
    looked = run_cell(FIXED, "--target sm_80 --no-run", names)
    assert looked.trace.kernel.target == "sm_80"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--baseline torch", "--baseline without --bench"),
        ("--flops n --warm", "--flops, --warm without --bench"),
        ("--rtol 1e-3", "--rtol without --check"),
    ],
)
def test_options_that_belong_to_one_that_is_not_given_say_so(names, options, said):
    result = run_cell(ADD, f"--args x,y,out,1000 --grid 4 --set BLOCK=256 {options}", names)
    runs = [run for record in result.records for run in record.runs]
    assert said in [getattr(run, "why", "") for run in runs]


PAIR = """
@triton.jit
def more(both, BLOCK: tl.constexpr):
    at = both[1] + tl.arange(0, BLOCK)
    tl.store(at, tl.load(at) + tl.load(both[0] + tl.arange(0, BLOCK)))

"""


def test_arrays_within_a_tuple_are_put_back(names):
    result = run_cell(PAIR + "more[(1,)]((x, out), BLOCK=512)\n", "--bench", names)
    assert result.bench
    assert np.array_equal(names["out"][:512], names["x"][:512])


def test_a_view_that_changes_afterwards_is_put_back_all_the_same(names):
    torch = pytest.importorskip("torch")
    names["t"] = torch.zeros(1000)
    launch = "total[(4,)](x, t[3:], 1000, BLOCK=256)\nkept = t.clone()\nt.data = torch.ones(3)\n"
    names["torch"] = torch
    run_cell(SUM + launch, "--bench", names)
    assert names["t"].tolist() == [1, 1, 1]
    assert names["kept"][3] == pytest.approx(names["x"].sum(), rel=1e-3)


def test_memory_given_by_its_address_is_not_written_twice(names):
    cell = SUM.replace("out_ptr +", "").replace(
        "tl.atomic_add(out_ptr", "tl.atomic_add(out_ptr.to(tl.pointer_type(tl.float32))"
    )
    cell += "total[(4,)](x, acc.ctypes.data, 1000, BLOCK=256)\n"
    result = run_cell(cell, "--no-guard --set num_warps=2", names)
    said = [getattr(run, "why", "") for record in result.records for run in record.runs]
    assert any("not launched again: none of its arguments" in why for why in said)


def test_a_launch_that_failed_is_not_meant(names):
    cell = FIXED + (
        "try:\n    add[(4,)](x, y, out, 5000, BLOCK=2048, target='interpreter')\n"
        "except Exception as error:\n    failed = error\n"
    )
    assert_right(run_cell(cell, '--check "x + y"', names))
    assert names["failed"].code == "K502"


def test_a_reference_made_in_the_cell_is_of_no_launch(names):
    cell = FIXED.replace("add[(4,)]", "want = x + y\nadd[(4,)]")
    assert_right(run_cell(cell, '--check "want"', names))
    timed = "for _ in range(3):\n    add[(1,)](y[:9], y[:9], out[:9], 9, BLOCK=256)\n"
    assert_right(run_cell(FIXED + timed, '--check "x + y + 0 * want"', names))


def test_functions_of_the_host_stay_that(names):
    cell = FIXED.replace("@triton.jit\n", "").replace("add[(4,)]", "add[(blocks(1000),)]")
    cell = "def blocks(n):\n    return tl.cdiv(n, 256)\n" + cell
    assert_right(run_cell(cell, '--check "x + y"', names))
    assert names["blocks"](1000) == 4


@pytest.mark.parametrize("check", ["--check", '--check "x + y"'])
def test_an_array_that_is_read_and_written_through_two_parameters(names, check):
    first = names["x"].copy()
    launch = "add[(4,)](x, y, x, 1000, BLOCK=256)\n"
    assert_right(run_cell(ADD + launch, check, names))
    assert np.array_equal(names["x"], first + names["y"])
    names["x"] = first
    whole = "add[(4,)](x, y, x[:], 1000, BLOCK=256)\n"
    assert_right(run_cell(ADD + whole, check, names))


def test_an_array_of_the_notebook_in_another_shape(names):
    names["square"] = names["x"].reshape(10, 100)
    launch = "add[(4,)](square.ravel(), y, square.ravel(), 1000, BLOCK=256)\n"
    assert_right(run_cell(ADD + launch, '--check "(square + y.reshape(10, 100)).ravel()"', names))
