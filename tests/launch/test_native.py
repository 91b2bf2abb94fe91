"""Native launchers, with a launch function of our own in place of the driver's."""

from __future__ import annotations

import ctypes
import gc
import sys
import threading

import pytest

from workbench.launch import native
from workbench.launch.conditions import Builder
from workbench.launch.native import Launcher
from workbench.launch.native_plan import Plan, Shape, Slot, words_of

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not native.supported(), reason="another object layout")

LAUNCH = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    *[ctypes.c_uint] * 7,
    ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.c_void_p,
)
SLOTS = (
    Slot("x", "t", 1),
    Slot("out", "t", 2),
    Slot("n", "i", 3),
    Slot("scale", "f", 4),
    Slot("BLOCK", "n", 5),
)
KEEPS_ALL, DROPS_N = 111, 222


class Bench:
    """A launcher, what it launched, and what it left to Python."""

    def __init__(self, guards=()):
        self.launched = []
        self.left = []
        self.streams = []
        self.status = 0
        self.formats = {KEEPS_ALL: "ppif", DROPS_N: "ppf"}
        self.callback = LAUNCH(self._launch)
        address = ctypes.cast(self.callback, ctypes.c_void_p).value
        shape = Shape(5, ("BLOCK",))
        self.plan = Plan(shape, SLOTS, address, self._stream, guards)
        self.launcher = Launcher(self.plan, self._slow)
        self.call = self.launcher.function()
        self.x, self.out = torch.zeros(64), torch.zeros(64)
        self.result = object()

    def _launch(self, code, x, y, z, threads, _y, _z, shared, stream, pointers, _extra):
        kinds = {"p": ctypes.c_int64, "i": ctypes.c_int32, "f": ctypes.c_float}
        values = [
            kinds[kind].from_address(pointers[n]).value for n, kind in enumerate(self.formats[code])
        ]
        self.launched.append(((x, y, z), threads, shared, stream, values))
        return self.status

    def _stream(self, device):
        self.streams.append(device)
        return 77

    def _slow(self, *args, **given):
        self.left.append((args, given))
        return "slow"

    def add(self, n, block=1024, **condition):
        code, places = (DROPS_N, [0, 1, 3]) if n == 1 else (KEEPS_ALL, [0, 1, 2, 3])
        words = words_of(self.plan, (self.x, self.out, n, 0.5, block))
        self.launcher.add(words, code, 128, 64, places, self.result, **condition)

    def run(self, grid=(3,), x=None, n=7, scale=0.5, **given):
        given = given or {"BLOCK": 1024}
        return self.call(grid, self.x if x is None else x, self.out, n, scale, **given)


@pytest.fixture
def bench():
    made = Bench()
    made.add(7)
    made.add(1)
    return made


def test_an_unknown_call_is_left_to_python():
    bench = Bench()
    assert bench.run() == "slow"
    ((args, given),) = bench.left
    assert args == ((3,), bench.x, bench.out, 7, 0.5)
    assert given == {"BLOCK": 1024}


def test_a_known_call_is_launched(bench):
    assert bench.run() is bench.result
    pointers = [bench.x.data_ptr(), bench.out.data_ptr()]
    assert bench.launched == [((3, 1, 1), 128, 64, 77, [*pointers, 7, 0.5])]
    assert bench.streams == [-1]
    assert not bench.left


def test_another_value_of_the_same_facts(bench):
    assert bench.run(n=9) is bench.result
    assert bench.launched[0][4][2] == 9


def test_an_argument_that_is_one_is_not_passed(bench):
    assert bench.run(n=1, scale=2.5) is bench.result
    assert bench.launched[0][4] == [bench.x.data_ptr(), bench.out.data_ptr(), 2.5]


@pytest.mark.parametrize(
    ("grid", "sizes"),
    [
        ((3, 2), (3, 2, 1)),
        ((3, 2, 5), (3, 2, 5)),
        (lambda meta: (meta["n"] * 2, meta["BLOCK"]), (14, 1024, 1)),
    ],
)
def test_grids(bench, grid, sizes):
    assert bench.run(grid) is bench.result
    assert bench.launched[0][0] == sizes


@pytest.mark.parametrize(
    "given",
    [
        {"n": 16},
        {"n": 2**40},
        {"n": 2**70},
        {"n": True},
        {"n": 7.0},
        {"scale": 1},
        {"BLOCK": 512},
        {"BLOCK": 1024.0},
        {"block": 1024},
        {"BLOCK": 1024, "num_warps": 4},
        {"x": torch.zeros(64)[1:]},
        {"x": torch.zeros(64, dtype=torch.float64)},
        {"x": "no array"},
        {"grid": (0,)},
        {"grid": (-1,)},
        {"grid": (1, 65536)},
        {"grid": (3.5,)},
        {"grid": ()},
        {"grid": (1, 1, 1, 1)},
        {"grid": [3]},
        {"grid": 3},
        {"grid": lambda meta: [3]},
        {"grid": lambda meta: 1 / 0},
        {"grid": lambda meta: (1, "b")},
    ],
)
def test_what_is_odd_is_left_to_python(bench, given):
    assert bench.run(**given) == "slow"
    assert len(bench.left) == 1
    assert not bench.launched


def test_a_failed_launch_is_left_to_python(bench):
    bench.status = 700
    assert bench.run() == "slow"
    assert len(bench.launched) == 1


def test_a_captured_name_that_changed_is_left_to_python():
    space = {"helper": test_grids}
    bench = Bench(guards=[(space, "helper", test_grids)])
    bench.add(7)
    assert bench.run() is bench.result
    space["helper"] = test_a_known_call_is_launched
    assert bench.run() == "slow"


@pytest.mark.parametrize("outcome", [True, False])
def test_an_entry_may_have_a_condition(outcome):
    build = Builder()
    total = build.apply("mul", build.argument(2), build.extent(0))
    build.require(build.between(total, 0, 100))
    bench = Bench()
    bench.add(7, condition=native.Condition(build.finish()), outcome=outcome)
    for n, size, holds in [(7, 3, True), (77, 1, True), (77, 2, False), (5, 21, False)]:
        expected = bench.result if holds == outcome else "slow"
        assert bench.run((size,), n=n) is expected


def test_facts_of_many_arguments_take_several_words():
    slots = tuple(Slot(f"n{k}", "i", 1 + k) for k in range(20))
    launched = []
    callback = LAUNCH(lambda *values: launched.append(values[0]) or 0)
    plan = Plan(Shape(21), slots, ctypes.cast(callback, ctypes.c_void_p).value)
    assert plan.words > 1
    launcher = Launcher(plan, lambda *args: "slow")
    call, numbers = launcher.function(), [3] * 20
    launcher.add(words_of(plan, numbers), 5, 1, 0, range(20), "ran")
    assert call((1,), *numbers) == "ran"
    assert call((1,), *[-7 + 2 * (k != 4) * 5 for k in range(20)]) == "slow"
    for place in range(20):
        for other in (1, 16, -3, 2**40):
            changed = [*numbers]
            changed[place] = other
            assert call((1,), *changed) == "slow"
    assert call((1,), *[2 * k + 101 for k in range(20)]) == "ran"


def test_the_oldest_entry_gives_way():
    bench = Bench()
    for block in range(native.ENTRIES + 1):
        bench.add(7, block=block)
    assert bench.run(BLOCK=0) == "slow"
    assert bench.run(BLOCK=1) is bench.result
    assert bench.run(BLOCK=native.ENTRIES) is bench.result


def test_references_are_kept(bench):
    n, grid, meta_grid = 7, (3,), lambda meta: (4,)
    watched = [bench.x, bench.out, bench.result, torch.float32, grid, meta_grid, bench._slow]

    def rounds(count):
        for _ in range(count):
            bench.run(grid)
            bench.run(meta_grid)
            bench.run(x="no array")
            bench.run([n])
        for kept in (bench.launched, bench.left, bench.streams):
            kept.clear()
        gc.collect()

    rounds(5)
    before = [sys.getrefcount(value) for value in watched]
    rounds(500)
    assert [sys.getrefcount(value) for value in watched] == before


def test_launchers_die_in_cycles():
    for _ in range(3):
        bench = Bench()  # its launcher refers to it, and it to the launcher
        bench.add(7)
        bench.run()
        del bench
        gc.collect()
    bench = Bench()
    bench.add(7)
    assert bench.run() is bench.result


def test_threads_launch_at_the_same_time(bench):
    def work(count):
        for n in range(2, count):
            assert bench.run(n=2 * n + 1) is bench.result

    threads = [threading.Thread(target=work, args=(300,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    values = sorted(values[2] for *_, values in bench.launched)
    assert values == sorted(4 * [2 * n + 1 for n in range(2, 300)])
