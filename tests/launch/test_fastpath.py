"""The launchers in front of a kernel, over runners that write down what they are given."""

from __future__ import annotations

import ctypes
import gc
import weakref
from copy import copy
from dataclasses import replace

import pytest

import workbench as wb
from tests.launch.test_native import LAUNCH
from tests.runtime.kernels import add, fill, named
from workbench.analysis.ranges import IndexProgram, Step
from workbench.launch import fastpath, launchers, native
from workbench.launch.abi import NativeCode
from workbench.launch.binding import bind_names, classify
from workbench.launch.facts import Signature
from workbench.launch.fastpath import FastPath
from workbench.launch.grids import resolve_grid
from workbench.launch.launchers import NOT_GIVEN
from workbench.runtime import compiling
from workbench.source import ArgumentError
from workbench.source.arguments import Argument

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not native.supported(), reason="another object layout")


class Front:
    """A kernel whose launches are written down: by the careful way, by runners, by native code."""

    def __init__(self, kernel, index_program=None, *, on_gpu=False):
        self.kernel = kernel
        self.on_gpu = on_gpu
        self.index_program = index_program
        self.careful, self.ran, self.launched, self.chosen = [], [], [], []
        self.launch = self.first
        self.fast = None
        self.callback = LAUNCH(self._native)
        self.address = ctypes.cast(self.callback, ctypes.c_void_p).value

    def first(self, grid, *args, **given):
        source = self.kernel.kernel_source
        call = bind_names(source, args, given)
        classify(source, source.parameters, call)
        sizes = resolve_grid(grid, lambda: call.values)
        compiled = compiling.obtain(source, call.signature(source), "interpreter")
        compiled.index_program = self.index_program
        if self.index_program is not None:
            fits = self.index_program.fits(call.integers, sizes)
            compiled._launch = replace(compiled.launch, narrow_index=fits)
        if self.fast is None:
            self.fast = FastPath(
                source, call, self.on_gpu, self.kernel.captures, self._slow, self._publish
            )
        self.fast.add(compiled, call, self.runner(compiled), self._choose)
        self.careful.append(sizes)

    def _slow(self, grid, values, extra, options):
        options = {name: value for name, value in options.items() if value is not NOT_GIVEN}
        self.first(grid, *extra, **values, **options)

    def _publish(self, launch):
        self.launch = launch

    def _choose(self, grid, values):
        self.chosen.append((grid, values[-1]))
        twin = copy(self.compiled)
        twin._launch = replace(twin.launch, narrow_index=not twin.launch.narrow_index)
        return twin, self.runner(twin)

    def runner(self, compiled):
        self.compiled = compiled

        def run(*values):
            self.ran.append(values)
            return compiled

        run.native = NativeCode(self.address, 111, 128, 0)
        return run

    def _native(self, code, x, y, z, *rest):
        self.launched.append((x, y, z))
        return 0


def arguments(n):
    return torch.zeros(n), torch.zeros(n), torch.zeros(n), n


def test_calls_with_known_facts_run_at_once():
    front = Front(add)
    front.launch((1,), *arguments(7), BLOCK=4)
    x, y, out, n = arguments(9)
    front.launch((2, 3), x, y, out, n, BLOCK=4)
    assert front.careful == [(1, 1, 1)]
    assert front.ran == [(2, 3, 1, 0, x.data_ptr(), y.data_ptr(), out.data_ptr(), 9)]


@pytest.mark.parametrize("change", [{"n": 16}, {"n": 1}, {"n": 2**40}, {"BLOCK": 8}])
def test_new_facts_go_the_careful_way_once(change):
    front = Front(add)
    front.launch((1,), *arguments(7), BLOCK=4)
    x, y, out, n = arguments(7)
    for _ in range(2):
        front.launch((1,), x, y, out, **({"n": n, "BLOCK": 4} | change))
    assert len(front.careful) == 2
    assert len(front.ran) == 1


def test_an_argument_that_is_one_does_not_reach_the_code():
    front = Front(add)
    x, y, out, _ = arguments(8)
    for _ in range(2):
        front.launch((1,), x, y, out, 1, BLOCK=4)
    assert front.ran == [(1, 1, 1, 0, x.data_ptr(), y.data_ptr(), out.data_ptr())]


def test_positions_keywords_and_defaults_are_the_same_call():
    front = Front(fill)
    out = torch.zeros(8)
    front.launch((1,), out, 2.5, 7)
    front.launch((1,), out, value=2.5, n=9)
    front.launch((1,), n=11, out_ptr=out, value=2.5, BLOCK=4)
    assert len(front.careful) == 1
    assert [values[-2:] for values in front.ran] == [(2.5, 9), (2.5, 11)]


def test_options_belong_to_the_key():
    front = Front(add)
    for warps in (None, 4, 4, None):
        front.launch((1,), *arguments(7), BLOCK=4, num_warps=warps)
    assert len(front.careful) == 2
    assert len(front.ran) == 2


@pytest.mark.parametrize("launches", [1, 40])
def test_an_argument_given_twice_is_told_by_warm_launchers_too(launches):
    kernel, arrays = wb.jit(add.fn), [torch.zeros(7) for _ in range(3)]
    for _ in range(launches):
        kernel[(3,)](*arrays, 7, BLOCK=3)
    assert kernel._launch != kernel._first_launch
    with pytest.raises(ArgumentError, match="add got 'n' twice, by position and by name"):
        kernel[(3,)](*arrays, 7, n=7, BLOCK=3)


def test_a_grid_may_be_a_function():
    front = Front(add)
    for _ in range(2):
        front.launch(lambda meta: (meta["n"], meta["BLOCK"]), *arguments(7), BLOCK=4)
    assert front.ran[0][:3] == (7, 4, 1)


@wb.jit
def counts(n):
    n + 1


def test_without_arrays_the_current_gpu_is_part_of_the_key(monkeypatch):
    current = [0]
    monkeypatch.setattr(launchers, "current_device", lambda: current[0])
    monkeypatch.setattr(launchers, "raw_stream", lambda: lambda device: device)
    front = Front(counts, on_gpu=True)
    for _ in range(3):
        front.launch((2,), 3)
    assert len(front.careful) == 1
    current[0] = 1
    assert not front.fast.knows({"n": 3}, {})
    front.launch((2,), 3)
    assert len(front.careful) == 2
    current[0] = 0
    assert front.fast.knows({"n": 3}, {})
    front.launch((2,), 3)
    assert len(front.careful) == 2


def test_an_empty_grid_runs_nothing():
    front = Front(add)
    for _ in range(2):
        front.launch((0,), *arguments(7), BLOCK=4)
    assert front.ran == []


def test_names_of_parameters_may_be_those_of_locals():
    front = Front(named)
    x = torch.zeros(4)
    for _ in range(2):
        front.launch((5, 6), x, 2, 3)
    assert front.ran == [(5, 6, 1, 0, x.data_ptr(), 2, 3)]


def test_native_code_takes_over():
    front = Front(add)
    for size in [7, 16] * fastpath.NATIVE_AFTER:
        front.launch((3,), *arguments(size), BLOCK=4)
    assert len(front.careful) == 2
    assert len(front.launched) + len(front.ran) + 2 == 2 * fastpath.NATIVE_AFTER
    assert len(front.ran) == fastpath.NATIVE_AFTER + 1
    assert type(front.launch).__name__ == "builtin_function_or_method"


def test_native_code_learns_new_facts():
    front = Front(add)
    for _ in range(fastpath.NATIVE_AFTER + 4):
        front.launch((3,), *arguments(7), BLOCK=4)
    front.launched.clear()
    for _ in range(2):
        front.launch((3,), *arguments(7), BLOCK=8)
    assert front.launched == [(3, 1, 1)]


def test_no_array_is_kept_alive():
    front = Front(add)
    x, y, out, n = arguments(7)
    watched = weakref.ref(x)
    for _ in range(fastpath.NATIVE_AFTER + 4):
        front.launch((3,), x, y, out, n, BLOCK=4)
    del x
    gc.collect()
    assert watched() is None


#: The product of `n` and the grid must fit.
PRODUCT = IndexProgram(
    (
        Step("argument", (), ("n", -(2**31), 2**31 - 1)),
        Step("num_programs", (), (0,)),
        Step("mul", (0, 1)),
    ),
    (0, 1, 2),
)


@pytest.mark.parametrize("launches", [1, fastpath.NATIVE_AFTER + 4])
def test_twins_are_chosen_at_each_launch_and_asked_for_once(launches):
    front = Front(add, PRODUCT)
    for _ in range(launches):
        front.launch((1,), *arguments(7)[:3], 2**29 + 1, BLOCK=4)
    assert front.chosen == []
    for k in range(5):
        front.launch((8,), *arguments(7)[:3], 2**29 + 2 * k + 1, BLOCK=4)
        front.launch((1,), *arguments(7)[:3], 2**29 + 2 * k + 1, BLOCK=4)
    assert len(front.chosen) == 1
    assert len(front.careful) == 1


@pytest.mark.parametrize("launches", [1, fastpath.NATIVE_AFTER + 4])
def test_new_integers_take_no_slow_way(launches):
    front = Front(add, PRODUCT)
    for _ in range(launches):
        front.launch((3,), *arguments(7), BLOCK=4)
    front.launched.clear()
    front.ran.clear()
    for k in range(50):
        front.launch((4 + k,), *arguments(9 + 2 * k), BLOCK=4)
    assert len(front.careful) == 1
    assert front.chosen == []
    assert len(front.launched) + len(front.ran) == 50
    if launches > 1:
        assert front.ran == []


def test_signatures_flatten_tuples():
    item = Argument(None, items=(Argument("i32"), Argument(None, 3), Argument("*f32")))
    signature = Signature((("a", item), ("b", Argument("f32"))))
    assert signature.runtime() == [("a.0", "i32"), ("a.2", "*f32"), ("b", "f32")]
