"""Launches of code whose blocks take several programs: which blocks start, what they are told."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.launch import test_fastpath
from tests.launch.test_native import LAUNCH
from tests.runtime.kernels import add
from workbench.devices import cuda
from workbench.launch import fastpath, native, on_cuda
from workbench.launch.abi import LaunchData, NativeCode, Parameter, slots
from workbench.launch.assembly import Assembly
from workbench.launch.native import Launcher
from workbench.launch.native_plan import Plan, Shape, Slot, words_of
from workbench.launch.on_cuda import Loaded, _runner, load
from workbench.source import LaunchError

#: Three values, and the grid behind them, each a parameter of the code; then one that is made.
MADE = (*(Parameter((n,)) for n in range(6)), Parameter((0, 4), "words", 32, 64, (7, 9)))
WORDS = (("x", "*f16"), ("m", "i32"), ("k", "i64"))
DATA = LaunchData("k", "cubin", WORDS, threads=288, dynamic_shared_bytes=1 << 16, made=MADE,
                  extra={"persistent": 32})  # fmt: skip
MOST = 132
#: Grids of a launch, and the blocks that it starts: as many as programs where these are very many.
GRIDS = [((1, 1, 1), 1), ((131, 1, 1), 131), ((132, 1, 1), 132), ((133, 1, 1), 132),
         ((11, 12, 1), 132), ((3, 5, 7), 105), ((64, 16, 4), 132), ((32 * 132, 1, 1), 132),
         ((32, 133, 1), 32 * 133), ((64, 128, 4), 1 << 15), ((1 << 20, 1, 2047), 2047 << 20),
         ((2**31 - 1, 1, 1), 2**31 - 1)]  # fmt: skip
#: The same of a kernel whose blocks stay for any number of programs.
ALL_TAKEN = [((64, 64, 4), 132), ((1 << 20, 1, 2047), 132), ((5, 1, 1), 5)]
#: More programs than a block's numbers can tell apart.
HUGE = [(2**31 - 1, 2, 1), (1 << 20, 1 << 11, 1), (1 << 11, 1 << 10, 1 << 10)]


def told(pointers: int) -> tuple[int, ...]:
    """Return what code finds at pointers to its parameters: values, grid, and what is made."""
    at = ctypes.cast(pointers, ctypes.POINTER(ctypes.c_void_p))
    values = [struct.unpack("q", ctypes.string_at(at[n], 8))[0] for n in range(6)]
    return (*values, *struct.unpack("4q", ctypes.string_at(at[6], 32)))


def wanted(grid: tuple[int, int, int], *values: int) -> tuple[int, ...]:
    return (*values, *grid, values[0], grid[1], 7, 9)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The runner of a kernel whose blocks stay, on a driver that only takes notes."""
    done = SimpleNamespace(launches=[], others=[], asked=[])

    def launch(function, x, y, z, threads, _y, _z, shared, stream, pointers, _extra):
        done.launches.append(((x, y, z), told(pointers)))
        return (done.answers.pop(0) if done.answers else 0,)

    def occupancy(*given):
        done.asked.append(given)
        return 0, 2

    done.answers = []
    api = SimpleNamespace(
        cuLaunchKernel=launch, CUresult=SimpleNamespace(CUDA_SUCCESS=0),
        cuOccupancyMaxActiveBlocksPerMultiprocessor=occupancy,
    )  # fmt: skip
    monkeypatch.setattr(cuda, "driver", lambda: api)
    monkeypatch.setattr(cuda, "streams", {7: "stream"})
    monkeypatch.setattr(cuda, "launch_address", lambda: 0)
    monkeypatch.setattr(cuda, "check_usable", lambda device: None)
    monkeypatch.setattr(cuda, "current", lambda device: _Nothing())
    monkeypatch.setattr(cuda, "properties", lambda device: SimpleNamespace(multiprocessors=66))
    monkeypatch.setattr(cuda, "load", lambda image, device: ("module", "function"))

    def other(*given):
        done.others.append(given)
        return "the other"

    plain = SimpleNamespace(loaded={0: other})
    done.kernel = SimpleNamespace(
        launch=DATA, code=b"", name="k", target="sm_90a", loaded={}, without_maps=lambda: plain
    )
    return done


class _Nothing:
    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


@pytest.mark.parametrize(("grid", "blocks"), GRIDS)
def test_a_launch_starts_no_more_blocks_than_there_are_at_once_or_as_many_as_programs(
    device: Any, grid: tuple[int, int, int], blocks: int
):
    run = load(device.kernel, 0)
    assert device.asked == [("function", 288, 1 << 16)]
    for m in (5, -6):
        assert run(*grid, 7, 4096, m, 8) is device.kernel
    values = [(4096, 5, 8), (4096, (1 << 32) - 6, 8)]
    assert device.launches == [((blocks, 1, 1), wanted(grid, *held)) for held in values]
    assert not device.others


def test_blocks_may_stay_for_any_number_of_programs(device: Any):
    device.kernel.launch = replace(DATA, extra={"persistent": 2**31 - 1})
    run = load(device.kernel, 0)
    for grid, _ in ALL_TAKEN:
        for m in (5, -6):  # the second time with care
            run(*grid, 7, 4096, m, 8)
    assert [at for at, _ in device.launches] == [(n, 1, 1) for _, n in ALL_TAKEN for _ in "mm"]


@pytest.mark.parametrize("careful", [False, True])
def test_the_counter_that_programs_are_drawn_from_stands_behind_the_grid(
    device: Any, monkeypatch: pytest.MonkeyPatch, careful: bool
):
    made = tuple(Parameter((n,)) for n in range(7))
    device.kernel.launch = replace(DATA, made=made, extra={"persistent": 1 << 30, "drawn": True})
    seen: list[tuple[int, ...]] = []

    def launch(function, x, y, z, *given):
        at = ctypes.cast(given[5], ctypes.POINTER(ctypes.c_void_p))
        values = [struct.unpack("q", ctypes.string_at(at[n], 8))[0] for n in range(7)]
        seen.append((x, y, z, *values))
        return (device.answers.pop(0) if device.answers else 0,)

    cuda.driver().cuLaunchKernel = launch
    monkeypatch.setattr(cuda, "launch_address", lambda: 4096)
    counters = SimpleNamespace(of={7: 1 << 40}.__getitem__)
    monkeypatch.setattr(on_cuda, "tickets", lambda device: counters)
    run = load(device.kernel, 0)
    device.answers = [1, 0] if careful else []
    run(64, 16, 4, 7, 4096, 5, 8)
    assert seen == [(132, 1, 1, 4096, 5, 8, 64, 16, 4, 1 << 40)] * (2 if careful else 1)
    assert not hasattr(run, "native")  # which knows no streams' counters


def test_a_launch_that_is_made_with_care_is_the_same(device: Any):
    """What fails once is tried again, with a buffer of its own."""
    run = _runner(Loaded(device.kernel, 0, None, "function", MOST))
    device.answers = [1, 0]
    assert run(64, 16, 4, 7, 4096, 5, 8) is device.kernel
    assert device.launches == [((132, 1, 1), wanted((64, 16, 4), 4096, 5, 8))] * 2


@pytest.mark.parametrize("grid", HUGE)
def test_more_programs_than_can_be_numbered_run_code_that_does_not(
    device: Any, grid: tuple[int, int, int]
):
    run = _runner(Loaded(device.kernel, 0, None, "function", MOST))
    assert run(*grid, 7, 4096, 5, 8) == "the other"
    assert device.others == [(*grid, 7, 4096, 5, 8)]
    device.kernel.without_maps = lambda: None
    with pytest.raises(LaunchError, match=r"can number \(2,147,483,647\)") as error:
        run(*grid, 7, 4096, 5, 8)
    assert error.value.code == "K506"
    assert "persistent=False" in str(error.value.hint)
    assert not device.launches


def test_a_grid_that_no_launch_may_have_is_refused_all_the_same(device: Any):
    run = _runner(Loaded(device.kernel, 0, None, "function", MOST))
    with pytest.raises(LaunchError, match="along axis 1"):
        run(1, 65536, 1, 7, 4096, 5, 8)
    assert not device.launches


def test_other_kernels_start_the_blocks_of_the_grid(device: Any):
    device.kernel.launch = replace(DATA, made=(), extra={})
    assert slots(device.kernel).size == 24
    counts: list[Any] = []

    def launch(function, *given):
        counts.append(given[:3])
        return (0,)

    cuda.driver().cuLaunchKernel = launch
    load(device.kernel, 0)(64, 128, 4, 7, 4096, 5, 8)
    assert counts == [(64, 128, 4)]
    assert not device.asked


@pytest.mark.skipif(not native.supported(), reason="this Python has other objects")
@pytest.mark.parametrize("guarded", [False, True])
def test_native_launchers_start_the_same_blocks(guarded: bool):
    torch = pytest.importorskip("torch")
    launched: list[Any] = []

    def run(code, x, y, z, threads, _y, _z, shared, stream, pointers, _extra):
        launched.append((code, (x, y, z), threads, shared, told(pointers)))
        return 0

    callback = LAUNCH(run)
    # The code does not receive the second of four values.
    given = (Slot("x", "t", 1), Slot("no", "i", 2), Slot("m", "i", 3), Slot("k", "i", 4))
    address = ctypes.cast(callback, ctypes.c_void_p).value
    assert address is not None
    plan = Plan(Shape(5), given, address, guarded=guarded)
    launcher = Launcher(plan, lambda *args: "slow")
    call, array = launcher.function(), torch.zeros(16, dtype=torch.float16)
    kept = [0, 2, 3]
    for no, most, taken in ((1, MOST, 32 * MOST), (2, 0, 0), (16, MOST, (2**31 - 1) * MOST)):
        assembly = Assembly(MADE, [*kept, *plan.grid_places])
        words = words_of(plan, (array, no, 5, 8))
        launcher.add(
            words, 9, 288, 64, kept, "ran", assembly=assembly, most_blocks=most, most_taken=taken
        )
    x = array.data_ptr()
    for grid, blocks in GRIDS:
        assert call(grid, array, 1, 5, 8) == "ran"
        assert launched.pop() == (9, (blocks, 1, 1), 288, 64, wanted(grid, x, 5, 8))
    assert call((7, 3), array, 1, 5, 8) == "ran"
    assert launched.pop()[1:] == ((21, 1, 1), 288, 64, wanted((7, 3, 1), x, 5, 8))
    for grid in HUGE:
        assert call(grid, array, 1, 5, 8) == "slow"
    assert call((5, 0), array, 1, 5, 8) == "slow"  # Python knows that nothing runs
    assert call((64, 128, 4), array, 2, 5, 8) == "ran"  # each of its programs has a block
    assert launched.pop()[1] == (64, 128, 4)
    for grid, blocks in ALL_TAKEN:
        assert call(grid, array, 16, 5, 8) == "ran"
        assert launched.pop()[1] == (blocks, 1, 1)
    assert not launched


@pytest.mark.skipif(not native.supported(), reason="this Python has other objects")
def test_launchers_that_become_native_hand_the_grid_on():
    torch = pytest.importorskip("torch")
    launched: list[Any] = []

    def launch(code, x, y, z, threads, _y, _z, shared, stream, pointers, _extra):
        at = ctypes.cast(pointers, ctypes.POINTER(ctypes.c_void_p))
        held = [struct.unpack("q", ctypes.string_at(at[n], 8))[0] for n in range(7)]
        launched.append(((x, y, z), held[3:]))
        return 0

    class Staying(test_fastpath.Front):
        def _native(self, *given: Any) -> int:
            return launch(*given)

        def runner(self, compiled: Any) -> Any:
            run = super().runner(compiled)
            made = tuple(Parameter((n,)) for n in range(7))
            run.native = NativeCode(self.address, 111, 128, 0, made, MOST, 32 * MOST)
            return run

    front = Staying(add)
    values = *(torch.zeros(8) for _ in range(3)), 7
    for _ in range(2 * fastpath.NATIVE_AFTER):
        front.launch((16, 9), *values, BLOCK=4)
    assert launched
    assert launched == [((132, 1, 1), [7, 16, 9, 1])] * len(launched)
