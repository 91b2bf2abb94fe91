"""Tensor maps as parameters: what a launch computes, and what the driver is given."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import workbench.targets.nvidia.pipeline  # noqa: F401 - imports every family of rules
from tests.launch.test_native import LAUNCH
from workbench.devices import cuda
from workbench.ir import InvalidModuleError, parse_module
from workbench.launch import native, tensor_maps
from workbench.launch.abi import LaunchData, Parameter
from workbench.launch.assembly import Arguments, Assembly
from workbench.launch.native import Launcher
from workbench.launch.native_plan import Plan, Shape, Slot, words_of
from workbench.launch.on_cuda import Loaded, _runner
from workbench.launch.tensor_maps import REFUSED, program_of
from workbench.source import LaunchError
from workbench.targets.nvidia.map_words import MapWords, is_launch_value, made_parameters

TEXT = """
kernel @k(%x: ptr<f16>, %m: i32, %k: i64, %s: i32) {num_warps = 4} {
  %rows = tile.constant {value = 32, type = i64} : i64
  %wide = tile.cast %s {to = i64} : i64
  %by = tile.mul [%wide, %rows] {no_wrap = True} : i64
  %base = tile.add_pointer %x, %by : ptr<f16>
  %left = tile.sub [%k, %rows] {no_wrap = True} : i64
  %map = gpu.tensor_map %base, [%m, %left], [%s] {type = tensor_map<64x128xf16>, swizzle = 128, piece = (64, 64)} : tensor_map<64x128xf16>
  tile.return
}"""  # noqa: E501
ENCODE = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint, ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_uint64), ctypes.POINTER(ctypes.c_uint64),
    ctypes.POINTER(ctypes.c_uint32), ctypes.POINTER(ctypes.c_uint32), *[ctypes.c_uint] * 4,
)  # fmt: skip
WALKED = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint, ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_uint64), ctypes.POINTER(ctypes.c_uint64),
    ctypes.POINTER(ctypes.c_int32), ctypes.POINTER(ctypes.c_int32), ctypes.c_uint, ctypes.c_uint,
    ctypes.POINTER(ctypes.c_uint32), *[ctypes.c_uint] * 4,
)  # fmt: skip
#: x, m, k, s, and whether a map can be made of them.
BASE = 0x7F0000000000
LAUNCHES = [
    ((BASE, 1000, 109, 72), True),
    ((BASE, 1 << 30, (1 << 32) + 32, 0), True),
    ((BASE, 1000, 109, 128), True),
    ((BASE + 16, 1000, 109, 128), True),
    ((BASE, 1000, (1 << 32) + 33, 72), False),  # too long
    ((BASE, 0, 109, 72), False),  # empty
    ((BASE, 5, 32, 72), False),
    ((BASE, 1000, 109, -72), False),  # backwards
    ((BASE, 1000, 109, 71), False),  # rows at odd places
    ((BASE + 2, 1000, 109, 72), False),
]


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """What an encoder in the driver's place was given."""
    found: list[Any] = []

    @ENCODE
    def encode(target, kind, rank, base, extents, strides, box, steps, *rest):
        found.append((
            target % 64, kind, rank, base, extents[:rank], strides[: rank - 1], box[:rank],
            steps[:rank], rest,
        ))  # fmt: skip
        ctypes.memset(target, 7, 128)
        return 0

    @WALKED
    def walked(
        target, kind, rank, base, extents, strides, low, high, elements, places, steps, *rest
    ):
        found.append((
            target % 64, kind, rank, base, extents[:rank], strides[: rank - 1], low[: rank - 2],
            high[: rank - 2], elements, places, steps[:rank], rest,
        ))  # fmt: skip
        ctypes.memset(target, 7, 128)
        return 0

    places = {
        False: ctypes.cast(encode, ctypes.c_void_p).value,
        True: ctypes.cast(walked, ctypes.c_void_p).value,
    }
    monkeypatch.setattr(cuda, "encoder_address", lambda *, walked=False: places[walked])
    yield found
    tensor_maps._code.cache_clear()


def made() -> list[Parameter]:
    return [Parameter(**fields) for fields in made_parameters(parse_module(TEXT))]


def wanted(x: int, m: int, k: int, s: int) -> Any:
    # fp16, 128-byte swizzle, L2 promotion of 256 bytes where rows begin with a line of 128, else
    # of 128; zeros outside.
    promotion = 2 if (x + 64 * s | 2 * s) % 128 else 3
    given = [k - 32, m], [2 * s], [64, 64], [1, 1]
    return 0, 6, 2, x + 64 * s, *given, (0, 3, promotion, 0)


def test_the_arguments_come_first_then_the_maps():
    parameters = made()
    assert [p.inputs for p in parameters[:4]] == [(0,), (1,), (2,), (3,)]
    assert (parameters[4].maker, parameters[4].size, parameters[4].alignment) == (
        "tensor_map", 128, 64,
    )  # fmt: skip
    words = MapWords.read(parameters[4].data)
    assert words.words() == parameters[4].data


@pytest.mark.parametrize(("values", "fine"), LAUNCHES)
def test_python_makes_them(values: tuple[int, ...], fine: bool, encoded: list[Any]):
    arguments = Arguments(4, made())
    struct.pack_into("<Qi4xqi4x", arguments.memory, 0, *values)
    assert arguments.assemble() == (0 if fine else REFUSED)
    assert encoded == ([wanted(*values)] if fine else [])
    if fine:
        pointers = (ctypes.c_void_p * 5).from_address(arguments.pointers)
        assert ctypes.string_at(pointers[4], 128) == b"\7" * 128


@pytest.mark.parametrize(("values", "fine"), LAUNCHES)
def test_the_program_says_what_must_hold(values: tuple[int, ...], fine: bool):
    parameter = made()[4]
    found = program_of(MapWords.read(parameter.data))
    results = found.evaluate([values[place] for place in parameter.inputs], ())
    base, columns, rows, step = results or [0] * 4
    _, _, _, *given = wanted(*values)
    assert [base, [columns, rows], [step]] == (given[:3] if fine else [0, [0, 0], [0]])


IMAGES = """
kernel @k(%x: ptr<f16>, %n: i32, %h: i32, %w: i32, %p: i32, %q: i32, %step: i32, %pad: i32) {num_warps = 4} {
  %c = tile.constant {value = 64, type = i32} : i32
  %row = tile.mul [%w, %c] {no_wrap = True} : i32
  %image = tile.mul [%row, %h] {no_wrap = True} : i32
  %zero = tile.constant {value = 0, type = i32} : i32
  %first = tile.sub [%zero, %pad] {no_wrap = True} : i32
  %map = gpu.tensor_map %x, [%n, %h, %w, %c], [%image, %row, %c], [%first, %p, %step, %first, %q, %step] {type = tensor_map<1x1x128x64xf16, walked>, swizzle = 128} : tensor_map<1x1x128x64xf16, walked>
  tile.return
}"""  # noqa: E501


@pytest.mark.parametrize(
    ("places", "step", "pad", "fine"),
    [((28, 28), 1, 1, True), ((14, 14), 2, 1, True), ((26, 28), 1, 0, True),
     ((28, 0), 1, 1, False), ((28, 28), 9, 1, False), ((28, 28), 0, 1, False),
     ((28, 28), 1, 129, False), ((28, 200), 1, 0, False)],
)  # fmt: skip
def test_maps_that_are_walked_have_corners(
    places: tuple[int, int], step: int, pad: int, fine: bool, encoded: list[Any]
):
    parameters = [Parameter(**fields) for fields in made_parameters(parse_module(IMAGES))]
    assert MapWords.read(parameters[-1].data).words() == parameters[-1].data
    arguments = Arguments(8, parameters)
    for place, value in enumerate((BASE, 32, 28, 30, *places, step, pad)):
        struct.pack_into("<q", arguments.memory, 8 * place, value)
    assert arguments.assemble() == (0 if fine else REFUSED)
    p, q = places
    high = [-pad + (q - 1) * step - 29, -pad + (p - 1) * step - 27]
    want = (
        0, 6, 4, BASE, [64, 30, 28, 32], [128, 3840, 107520], [-pad, -pad], high, 64, 128,
        [1, step, step, 1], (0, 3, 3, 0),
    )  # fmt: skip
    assert encoded == ([want] if fine else [])


@pytest.mark.skipif(not native.supported(), reason="another object layout")
def test_native_launchers_make_them_and_leave_the_rest_to_python(encoded: list[Any]):
    torch = pytest.importorskip("torch")
    launched = []

    def run(code, x, y, z, threads, _y, _z, shared, stream, pointers, _extra):
        launched.append((pointers[4] % 64, ctypes.string_at(pointers[4], 128)))
        return 0

    callback = LAUNCH(run)
    slots = (Slot("x", "t", 1), Slot("m", "i", 2), Slot("k", "i", 3), Slot("s", "i", 4))
    plan = Plan(Shape(5), slots, ctypes.cast(callback, ctypes.c_void_p).value)
    launcher = Launcher(plan, lambda *args: "slow")
    call, array = launcher.function(), torch.zeros(1 << 10, dtype=torch.float16)
    array = array[-(array.data_ptr() // 2) % 8 :]
    for m in (1000, 0):
        words = words_of(plan, (array, m, 109, 72))
        assembly = Assembly(made(), [0, 1, 2, 3])
        launcher.add(words, 9, 1, 0, [0, 1, 2, 3], "ran", assembly=assembly)
    assert call((1,), array, 1000, 109, 72) == "ran"
    assert launched == [(0, b"\7" * 128)]
    assert encoded == [wanted(array.data_ptr(), 1000, 109, 72)]
    assert call((1,), array, 0, 109, 72) == "slow"


def test_what_a_launch_cannot_know_makes_no_map():
    module = parse_module(
        TEXT.replace("%rows = ", "%pid = tile.program_id {axis = 0, type = i64} : i64\n  %rows = ")
        .replace("[%wide, %rows]", "[%wide, %pid]")
    )  # fmt: skip
    values = {v.hint: v for op in module.walk() for v in op.results}
    assert is_launch_value(values["left"], module)
    assert not is_launch_value(values["base"], module)
    with pytest.raises(InvalidModuleError, match="does not follow from a launch's arguments"):
        made_parameters(module)


# -- whatever starts the launch ---------------------------------------------------------------
#: m - program_id(0) must not be negative, and fit 32 bits.
ASKED = {
    "steps": [
        ["program_id", [], [0]], ["argument", [], ["m", -(1 << 31), (1 << 31) - 1]],
        ["sub", [1, 0], []],
    ],
    "at_least_0": [2],
}  # fmt: skip


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch, encoded: list[Any]) -> Iterator[Any]:
    """The runner of a kernel with tensor maps on a driver that only takes notes."""
    done = SimpleNamespace(launches=[], others=[])
    success = SimpleNamespace(CUDA_SUCCESS=0)

    def launch(function, *given):
        done.launches.append((function, given[:3]))
        return (0,)

    api = SimpleNamespace(cuLaunchKernel=launch, CUresult=success)
    monkeypatch.setattr(cuda, "driver", lambda: api)
    monkeypatch.setattr(cuda, "streams", {7: "stream"})
    monkeypatch.setattr(cuda, "launch_address", lambda: 0)
    monkeypatch.setattr(cuda, "check_usable", lambda device: None)
    words = (("x", "*f16"), ("m", "i32"), ("k", "i64"), ("s", "i32"))
    data = LaunchData("k", "cubin", words, made=tuple(made()), extra={"asked": ASKED})

    def other(*given):
        done.others.append(given)
        return "the other"

    plain = SimpleNamespace(loaded={0: other})
    kernel = SimpleNamespace(
        launch=data, name="k", target="sm_90a", loaded={}, without_maps=lambda: plain
    )
    done.kernel, done.encoded = kernel, encoded
    done.run = _runner(Loaded(kernel, 0, None, "function"))
    return done


def test_a_launch_makes_its_maps_each_time(device: Any):
    for m in (1000, 2000):
        assert device.run(3, 1, 1, 7, BASE, m, 109, 72) is device.kernel
    assert device.launches == [("function", (3, 1, 1))] * 2
    assert [found[4] for found in device.encoded] == [[77, 1000], [77, 2000]]
    assert not device.others


@pytest.mark.parametrize(
    ("grid", "values"),
    [
        (3, (BASE, 1000, 109, -72)),  # no map
        (3, (BASE, 1000, 32, 72)),
        (3, (BASE + 8, 1000, 109, 72)),
        (1002, (BASE, 1000, 109, 72)),  # not what the code was proven for
        (3, (BASE, -5, 109, 72)),
    ],
)
def test_a_launch_that_has_no_maps_runs_other_code(device: Any, grid: int, values: tuple[int, ...]):
    assert device.run(grid, 1, 1, 7, *values) == "the other"
    assert device.others == [(grid, 1, 1, 7, *values)]
    assert not device.launches


def test_where_there_is_no_other_code_the_launch_says_so(device: Any):
    device.kernel.without_maps = lambda: None
    with pytest.raises(LaunchError, match="cannot be made of these arguments") as error:
        device.run(3, 1, 1, 7, BASE, 1000, 109, -72)
    assert error.value.code == "K509"
