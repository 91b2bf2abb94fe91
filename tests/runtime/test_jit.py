from __future__ import annotations

import inspect
import warnings

import numpy as np
import pytest

import workbench as wb
from tests.runtime.kernels import add, fill, scaled
from workbench import tl
from workbench.launch.binding import Call, check_declared, classify
from workbench.runtime.jit import observing
from workbench.source import CompileError, LaunchError, kernel_source
from workbench.source.arguments import Argument, constant
from workbench.source.parameters import parameters_of


def test_a_launch_in_the_interpreter(seven):
    x, y, out = seven
    kernel = add.interpret[(3,)](x, y, out, 7, BLOCK=3).kernel
    assert np.array_equal(out, x + y)
    assert kernel.target == "interpreter"
    assert add.results[-1] is kernel


def test_grid_as_a_function_of_all_arguments(seven):
    x, y, out = seven
    add.interpret[lambda meta: (wb.cdiv(meta["n"], meta["BLOCK"]),)](x, y, out, 7, BLOCK=3)
    assert np.array_equal(out, x + y)


def test_an_empty_grid_runs_nothing(seven):
    x, y, out = seven
    add.interpret[(0,)](x, y, out, 7, BLOCK=3)
    assert not out.any()


def test_defaults_and_keywords():
    out = np.zeros(4, np.float32)
    fill.interpret[(1,)](out_ptr=out, value=2.5, n=3)
    assert out.tolist() == [2.5, 2.5, 2.5, 0]


def test_a_kernel_with_itsown_grid(seven):
    x, y, out = seven
    own = wb.kernel(add.fn, grid=lambda n, BLOCK: (wb.cdiv(n, BLOCK),))
    own.run(x, y, out, 7, BLOCK=3, grid=own.own_grid, target="interpreter")
    assert np.array_equal(out, x + y)


def test_warmup_compiles_only(seven):
    x, y, out = seven
    kernel = add.warmup(x, y, out, 7, BLOCK=3, grid=(3,), target="interpreter")
    assert not out.any()
    assert "tile.load" in kernel.asm["tile"]


@pytest.mark.parametrize("target", ["interpreter", "cpu"])
def test_a_compilation_takes_numbers_that_are_in_its_code_or_leaves_them_out(target):
    """A stride of 1 is part of the code, as an integer it would be taken for the one after it."""

    def rows(x_ptr, out_ptr, step, far, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        tl.store(out_ptr + i, tl.load(x_ptr + (tl.program_id(0) + 1) * far + i * step))

    x, out = np.arange(20, dtype=np.float32), np.zeros(4, np.float32)
    kernel = wb.kernel(rows).warmup(x, out, 1, 5, BLOCK=4, grid=(1,), target=target)
    for given in ((x, out, 5), (x, out, 1, 5, 4)):
        out[:] = 0
        kernel[(1,)](*given)
        assert out.tolist() == [5, 6, 7, 8]
    for given, said in (((x, out, 2, 5, 4), "step = 2 is not 1"), ((x, out, 1, 5, 8), "BLOCK = 8")):
        with pytest.raises(LaunchError, match=said):
            kernel[(1,)](*given)
    out2 = np.zeros(8, np.float32)
    whole = wb.kernel(add.fn).warmup(x, x, out2, 8, BLOCK=8, grid=(1,), target=target)
    whole[(1,)](x, x, out2, 8)
    assert np.array_equal(out2, 2 * x[:8])


def test_torch_dtypes_stand_for_tensors_in_warmup():
    torch = pytest.importorskip("torch")
    kernel = add.warmup(*[torch.float16] * 3, 7, BLOCK=4, grid=(1,), target="interpreter")
    assert "tile<4xf16>" in kernel.asm["tile"]


def test_torch_tensors():
    torch = pytest.importorskip("torch")
    x, y, out = torch.arange(7.0), torch.ones(7), torch.zeros(7)
    add.interpret[(3,)](x, y, out, 7, BLOCK=3)
    assert torch.equal(out, x + y)


def specialised(fn, *values, **lists):
    source = kernel_source(fn)
    call = Call(dict(zip((p.name for p in source.parameters), values, strict=True)), {}, {})
    classify(source, check_declared(source, parameters_of(inspect.signature(fn), **lists)), call)
    return dict(call.known), call


def some(a, b, c, d): ...


def test_integers_are_specialised_by_value():
    known, call = specialised(some, 1, 16, 17, 2**40)
    assert known == {
        "a": constant(1),
        "b": Argument("i32", divisible=16),
        "c": Argument("i32"),
        "d": Argument("i64", divisible=16),
    }
    assert call.runtime == [16, 17, 2**40]


def test_numbers_by_type():
    known, _ = specialised(some, True, 0.5, None, np.int64(2**63 - 1))
    assert known == {
        "a": Argument("i1"),
        "b": Argument("f32"),
        "c": constant(None),
        "d": Argument("i64"),
    }


def test_do_not_specialize():
    known, _ = specialised(some, 1, 16, 1, 16, fixed=["a", 1])
    assert known["a"] == Argument("i32")
    assert known["b"] == Argument("i32")
    assert known["c"] == constant(1)
    assert known["d"] == Argument("i32", divisible=16)


@pytest.mark.parametrize("option", ["do_not_specialize", "do_not_specialize_on_alignment"])
def test_a_parameter_that_there_is_not_is_told(option: str):
    for odd in ("zz", 4, -1):
        with pytest.warns(UserWarning, match=f"{option} names .*{odd}.*, which is no parameter"):
            wb.jit(**{option: ["a", odd]})(some)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wb.jit(**{option: ["a", 3]})(some)


@wb.jit(do_not_specialize=["N"])
def contradictory(out, N: tl.constexpr): ...


def test_a_constexpr_cannot_be_left_unspecialised():
    ways = [
        lambda: contradictory[(1,)](np.zeros(4, np.float32), 5),
        lambda: wb.compile(contradictory, "*f32", {"N": 5}),
    ]
    for launch in ways:
        with pytest.raises(CompileError, match="N marked as constexpr and listed") as caught:
            launch()
        assert "N: tl.constexpr" in str(caught.value)


def test_pointers_are_specialised_by_alignment():
    whole = np.zeros(64, np.float32)
    start = -whole.ctypes.data % 16 // 4
    known, _ = specialised(some, whole[start:], whole[start + 1 :], 0, 0)
    assert known["a"] == Argument("*f32", divisible=16)
    assert known["b"] == Argument("*f32")


def test_tuples_are_specialised_by_item():
    known, call = specialised(some, (2, (3.0, None)), 5, 5, 5)
    assert known["a"].items[0] == Argument("i32")
    assert known["a"].items[1].items == (Argument("f32"), constant(None))
    assert call.runtime == [2, 3.0, 5, 5, 5]


def annotated(a: "*fp16", b: "i64", c: tl.int64, d: "fp16"): ...  # noqa: F722, F821, UP037


def test_annotations_fix_types():
    known, _ = specialised(annotated, np.zeros(8, np.float16), 16, 1, 2)
    assert known["a"].type == "*f16"
    assert known["b"] == Argument("i64", divisible=16)
    assert known["c"] == Argument("i64", low=1, high=1)
    assert known["d"] == Argument("f16")


def test_a_changed_global_recompiles(monkeypatch):
    x, out = np.ones(4, np.float32), np.zeros(4, np.float32)
    scaled.interpret[(1,)](x, out, BLOCK=4)
    assert out.tolist() == [3] * 4
    monkeypatch.setitem(scaled.fn.__globals__, "SCALE", tl.constexpr(5))
    scaled.interpret[(1,)](x, out, BLOCK=4)
    assert out.tolist() == [5] * 4


def test_launches_are_observed(seven):
    records = []
    with observing(records.append):
        add.interpret[(3,)](*seven, 7, BLOCK=3)
    add.interpret[(3,)](*seven, 7, BLOCK=3)
    (record,) = records
    assert record.grid == (3, 1, 1)
    assert record.values["n"] == 7
    assert record.kernel.name == "add"


def test_a_function_without_source_fails_at_its_launch_only():
    space = {"tl": tl}
    exec("def nowhere(x_ptr):\n    tl.store(x_ptr, 1)\n", space)
    kernel = wb.jit(space["nowhere"])
    with pytest.raises(wb.KernelError, match="cannot be read"):
        kernel.interpret[(1,)](np.zeros(1, np.float32))


def test_jit_attributes():
    assert add.arg_names == ["x_ptr", "y_ptr", "out_ptr", "n", "BLOCK"]
    assert add.src.startswith("def add(")
    assert add.constexprs == [4]
    assert add.fn.__name__ == add.__name__ == "add"
    assert wb.jit(add) is add
    assert len(add.cache_key) == 64
    assert wb.jit(debug=True)(add.fn).debug is True


def test_decorating_reads_the_text_once(monkeypatch: pytest.MonkeyPatch):
    read: list[object] = []
    find = inspect.findsource

    def counted(function: object) -> tuple[list[str], int]:
        read.append(function)
        return find(function)

    monkeypatch.setattr(inspect, "findsource", counted)
    kernel = wb.jit(add.fn)
    assert kernel.raw_src
    assert kernel.src.startswith("def add(")
    assert read == [add.fn]
