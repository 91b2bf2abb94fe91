"""Copies of boxes of a tensor: what they read, what counts them, and how PTX says it."""

from __future__ import annotations

import re
from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.targets.nvidia.test_ptx import needs_ptxas
from workbench.interpreter import run_module
from workbench.ir import parse_module, print_module, verify_module
from workbench.layouts import packing, swizzled, tensor_fits
from workbench.passes.manager import Recorder
from workbench.source import KernelError, LaunchError
from workbench.targets.nvidia.chip import chip
from workbench.targets.nvidia.pipeline import State, _llvm, _placed, _ptx
from workbench.targets.nvidia.toolchain import assemble


# -- what is read -----------------------------------------------------------------------------
def box_kernel(
    extents: tuple[int, ...], strides: tuple[int, ...], box: tuple[int, ...],
    axes: tuple[int, ...], starts: tuple[int, ...],
) -> str:  # fmt: skip
    """Return a kernel that stores a box of a tensor, read in two ways, one after the other."""
    numbers = sorted({*extents, *strides, *starts})
    name = {number: f"%n{place}" for place, number in enumerate(numbers)}

    def some(values: tuple[int, ...]) -> str:
        return f"[{', '.join(name[v] for v in values)}]"

    constants = "\n".join(
        f"  {name[n]} = tile.constant {{value = {n}, type = i64}} : i64" for n in numbers
    )
    shape = tuple(box[axis] for axis in axes)
    dims, count = "x".join(map(str, shape)), int(np.prod(shape))
    kind = f"tensor_map<{'x'.join(map(str, box))}xf16>"
    return f"""
kernel @boxes(%x: ptr<f16>, %o: ptr<f16>, %q: ptr<f16>) {{num_warps = 4}} {{
{constants}
  %zero = tile.constant {{value = 0, type = i32}} : i32
  %map = gpu.tensor_map %x, {some(extents)}, {some(strides)} {{type = {kind}}} : {kind}
  %read = gpu.tensor_load %map, {some(starts)} {{axes = {axes}, type = tile<{dims}xf16>}} : tile<{dims}xf16>
  %bars = gpu.barriers {{count = 2}} : shared<1xi64, slots=2>
  %ring = gpu.shared_allocate {{type = shared<{dims}xf16, slots=2>}} : shared<{dims}xf16, slots=2>
  gpu.expect %bars, %zero {{bytes = {2 * count}}}
  gpu.tensor_copy %map, {some(starts)}, %ring, %bars, %zero slot %zero {{axes = {axes}}}
  gpu.await %bars, %zero, %zero
  %copied = gpu.shared_load %ring slot %zero {{type = tile<{dims}xf16>}} : tile<{dims}xf16>
  %i = tile.iota {{start = 0, type = tile<{count}xindex>}} : tile<{count}xindex>
  %at = tile.reshape %i {{shape = {shape}}} : tile<{dims}xindex>
  %os = tile.splat %o {{shape = {shape}}} : tile<{dims}xptr<f16>>
  %op = tile.add_pointer %os, %at : tile<{dims}xptr<f16>>
  tile.store %op, %read
  %qs = tile.splat %q {{shape = {shape}}} : tile<{dims}xptr<f16>>
  %qp = tile.add_pointer %qs, %at : tile<{dims}xptr<f16>>
  tile.store %qp, %copied
  tile.return
}}"""  # noqa: E501


@pytest.mark.parametrize(
    ("shape", "box", "axes", "starts"),
    [
        ((13, 24), (8, 16), (0, 1), (8, 16)),  # behind both ends
        ((13, 24), (8, 16), (1, 0), (-3, -8)),  # before both, transposed
        ((3, 13, 24), (1, 8, 16), (1, 2), (2, 0, 8)),  # of a batch
        ((3, 13, 24), (4, 1, 8), (2, 0), (-1, 5, 0)),
        ((40,), (40,), (0,), (8,)),
        ((2, 2, 3, 4, 8), (1, 2, 1, 4, 8), (1, 3, 4), (1, 1, 2, -1, 0)),
    ],
)
def test_a_box_is_read_as_the_array_says(
    shape: tuple[int, ...], box: tuple[int, ...], axes: tuple[int, ...], starts: tuple[int, ...]
):
    array = np.arange(1, 1 + np.prod(shape), dtype=np.float16).reshape(shape)
    strides = tuple(step // 2 for step in array.strides[:-1])
    module = parse_module(box_kernel(shape, strides, box, axes, starts))
    verify_module(module)
    assert print_module(parse_module(print_module(module))) == print_module(module)
    padded = np.pad(array, 16)
    place = tuple(slice(16 + s, 16 + s + b) for s, b in zip(starts, box, strict=True))
    rest = tuple(n for n in range(len(box)) if n not in axes)
    wanted = padded[place].transpose(*axes, *rest).reshape([box[axis] for axis in axes])
    one, two = (np.zeros(wanted.shape, np.float16) for _ in range(2))
    run_module(module, (1,), [array, one, two])
    assert (one == wanted).all()
    assert (two == wanted).all()


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"starts": (0, 4)}, "begins 8 bytes into a row, no multiple of 16"),
        ({"strides": (20,)}, "elements 40 bytes apart along axis 0"),
        ({"strides": (-24,)}, "elements -48 bytes apart"),
        ({"extents": (0, 24)}, "has 0 elements along axis 0"),
        ({"starts": (1 << 31, 0)}, "has no 32 bits"),
    ],
)
def test_what_the_hardware_refuses_is_an_error(change: dict[str, Any], found: str):
    given = {
        "extents": (13, 24), "strides": (24,), "box": (8, 8), "axes": (0, 1), "starts": (0, 0),
    }  # fmt: skip
    module = parse_module(box_kernel(**{**given, **change}))
    arrays = [np.zeros((13, 24), np.float16), *(np.zeros((8, 8), np.float16) for _ in range(2))]
    with pytest.raises(LaunchError, match=found):
        run_module(module, (1,), arrays)


@pytest.mark.parametrize(("start", "fails"), [(8, False), (15, False), (16, True), (-8, True)])
def test_a_box_with_nothing_inside_asks_for_a_base_in_memory(start: int, fails: bool):
    """Hardware translates the base's address, whatever the coordinates: a base in front is none."""
    text = box_kernel((16, 8), (8,), (8, 8), (0, 1), (start, 0))
    shift = """  %back = tile.constant {value = -64, type = i64} : i64
  %front = tile.add_pointer %x, %back : ptr<f16>
  %map = gpu.tensor_map %front"""
    module = parse_module(text.replace("  %map = gpu.tensor_map %x", shift))
    arrays = [np.ones((8, 8), np.float16), *(np.zeros((8, 8), np.float16) for _ in range(2))]
    if fails:
        with pytest.raises(LaunchError, match="128 bytes before the start of x"):
            run_module(module, (1,), arrays)
        return
    run_module(module, (1,), arrays)
    assert arrays[1].sum() == 8 * (16 - start)


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("axes = (0, 1), type", "axes = (0,), type", "of axes (0,) of tensor_map<8x8xf16>"),
        ("(0, 1), type = tile<8x8", "(0, 1), type = tile<8x4", "gives no"),
        ("{type = tensor_map<8x8xf16>", "{swizzle = 48, type = tensor_map<8x8xf16>", "of 48 bytes"),
        ("{type = tensor_map<8x8xf16>", "{piece = (3, 8), type = tensor_map<8x8xf16>", "pieces"),
        ("gpu.await %bars", "gpu.await %ring", "needs a ring of barriers"),
        ("count = 2", "count = 0", "0 of 1 arrivals"),
    ],
)  # fmt: skip
def test_what_does_not_fit_together_is_refused(old: str, new: str, found: str):
    text = box_kernel((13, 24), (24,), (8, 8), (0, 1), (0, 0))
    assert old in text
    with pytest.raises(KernelError, match=re.escape(found)):
        parse_module(text.replace(old, new))


# -- what counts ------------------------------------------------------------------------------
EXPECT = "gpu.expect %bars, %zero {bytes = 128}"
AWAIT = "gpu.await %bars, %zero, %zero"
COPY = "gpu.tensor_copy %map, [%n0, %n0], %ring, %bars, %zero slot %zero {axes = (0, 1)}"
ARRIVE = "gpu.arrive %bars, %zero"
RENEW = "gpu.renew_barriers %bars"


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        (EXPECT, "", "the end of phase 0, which nobody ends: 0 of 1 have arrived"),
        (
            EXPECT,
            EXPECT.replace("128", "64"),
            "phase 0, which nobody ends.*-64 bytes are missing",
        ),
        (
            EXPECT,
            EXPECT.replace("128", "256"),
            "phase 0, which nobody ends.*128 bytes are missing",
        ),
        (
            AWAIT,
            AWAIT + "\n" + AWAIT.replace("%zero, %zero", "%zero, %one"),
            "phase 1, which nobody",
        ),
        (COPY, COPY + "\n" + COPY, "a slot is filled again before its copy has landed"),
        (AWAIT, "\n".join([AWAIT, ARRIVE, ARRIVE]), "phase 2 ends, and nobody waited"),
        (EXPECT, EXPECT + "\n" + ARRIVE, "phase 0 of 1 arrivals gets 2"),
        (AWAIT, RENEW, "gpu.renew_barriers: phase 0 of a barrier is under way"),
    ],
)
def test_what_would_hang_is_found(old: str, new: str, found: str):
    text = box_kernel((13, 24), (24,), (8, 8), (0, 1), (0, 0))
    assert old in text
    text = text.replace(old, new).replace(
        "  %map =", "  %one = tile.constant {value = 1, type = i32} : i32\n  %map ="
    )
    arrays = [np.zeros((13, 24), np.float16), *(np.zeros((8, 8), np.float16) for _ in range(2))]
    with pytest.raises(LaunchError, match=found) as error:
        run_module(parse_module(text), (1,), arrays)
    assert error.value.code == "K515"


def test_what_has_not_been_waited_for_is_poison_and_an_error_in_the_end():
    text = box_kernel((13, 24), (24,), (8, 8), (0, 1), (0, 0)).replace(AWAIT, "")
    arrays = [np.ones((13, 24), np.float16), *(np.zeros((8, 8), np.float16) for _ in range(2))]
    with pytest.raises(LaunchError, match="copies are still under way when the program ends"):
        run_module(parse_module(text), (1,), arrays)
    assert (arrays[1] == 1).all()
    assert np.isnan(arrays[2]).all()


# -- where it is written ----------------------------------------------------------------------
@pytest.mark.parametrize(
    ("shape", "itemsize", "inner"),
    [
        ((128, 64), 2, 1), ((64, 256), 2, 1), ((64, 128), 2, 0), ((96, 192), 2, 1),
        ((64, 96), 2, 1), ((320, 32), 2, 1), ((64, 16), 2, 1), ((128, 128), 1, 1),
        ((512, 64), 1, 1),
    ],
)  # fmt: skip
@pytest.mark.parametrize("parts", [1, 4])
def test_boxes_fill_a_buffer_as_the_hardware_does(
    shape: tuple[int, int], itemsize: int, inner: int, parts: int
):
    """Each element lies where a box puts it: rows of W bytes, chunks XORed with address bits."""
    layout = swizzled(shape, itemsize, (inner, 1 - inner), exchange=False)
    rows = shape[1 - inner] // parts
    plan = tensor_fits(layout, itemsize, inner, most=rows)
    assert plan is not None
    assert all(start[1 - inner] % rows + plan.box[1 - inner] <= rows for start, _ in plan.pieces)
    places = packing(layout, itemsize).scaled(itemsize)
    inverse = {layout.unflatten(flat): n for n, flat in enumerate(layout.table("offset"))}
    width, (mask, shift) = plan.swizzle, {128: (7, 7), 64: (3, 7), 32: (1, 7)}[plan.swizzle]
    seen = 0
    for start, base in plan.pieces:
        assert base % (8 * width) == 0
        for row in range(plan.box[1 - inner]):
            for column in range(plan.box[inner]):
                address = base + row * width + column * itemsize
                address ^= (address >> shift & mask) << 4
                down, along = start[1 - inner] + row, start[inner] + column
                where = (down, along) if inner else (along, down)
                assert places.place(inverse[where] * itemsize) == address
                seen += 1
    assert seen == shape[0] * shape[1]


@pytest.mark.parametrize("columns", [36, 40, 48, 80, 96, 100, 144, 160, 176, 208, 224])
@pytest.mark.parametrize("rows", [8, 64])
@pytest.mark.parametrize("itemsize", [1, 2, 4])
def test_the_last_box_of_a_row_is_as_wide_as_what_is_left(rows: int, columns: int, itemsize: int):
    """Boxes write the tile and nothing else, where it does not end amid 16 bytes."""
    across, grain = 128 // itemsize, 16 // itemsize
    if columns < across // 2:
        return  # its rows are shorter than half of the swizzle: the layout has none so wide
    layout = swizzled((rows, columns), itemsize, exchange=False, width=128)
    plan = tensor_fits(layout, itemsize, 1, over=True)
    exact = tensor_fits(layout, itemsize, 1)
    assert plan is not None
    assert exact == (None if columns % grain else plan)
    whole, left = divmod(columns, across)
    assert (plan.swizzle, len(plan.pieces)) == (128, max(1, whole))
    last = (rows, -(-left // grain) * grain)
    assert plan.box == ((rows, across) if whole else last)
    assert plan.narrower == (last if whole and left and last[1] < across else None)
    packed = packing(layout, itemsize)
    places, size = packed.scaled(itemsize), packed.size * itemsize
    inverse = {layout.unflatten(flat): n for n, flat in enumerate(layout.table("offset"))}
    taken: dict[int, tuple[int, int]] = {}
    boxes = [(piece, plan.box) for piece in plan.pieces]
    boxes += [(piece, plan.narrower) for piece in plan.rest if plan.narrower is not None]
    for ((row, start), base), (tall, wide) in boxes:
        for down, along in product(range(tall), range(wide)):
            address = base + down * 128 + along * itemsize
            address ^= (address >> 7 & 7) << 4
            assert address < size
            assert address not in taken
            taken[address] = row + down, start + along
    assert len(taken) == plan.elements
    for row, column in product(range(rows), range(columns)):
        assert taken[places.place(inverse[row, column] * itemsize)] == (row, column)
    assert plan.elements - rows * columns == rows * (-columns % grain)


def test_a_buffer_has_room_for_what_boxes_bring_beyond_it():
    """Rows of a few bytes fit several swizzles: 96 elements leave no room for 128 bytes."""
    for rows, columns in product((1, 2, 8), (24, 40, 96, 144)):
        layout = swizzled((rows, columns), 2, exchange=False)
        plan = tensor_fits(layout, 2, 1, over=True)
        room = packing(layout, 2).size * 2
        assert plan is None or plan.elements * 2 <= room


@pytest.mark.parametrize(
    ("extent", "itemsize", "fits"),
    [(64, 2, True), (128, 2, True), (256, 1, True), (32, 2, False), (512, 2, False),
     (96, 4, False)],
)  # fmt: skip
def test_a_row_is_one_box_if_slots_begin_at_lines(extent: int, itemsize: int, fits: bool):
    plan = tensor_fits(swizzled((extent,), itemsize), itemsize, 0)
    assert (plan is not None) == fits
    if plan is not None:
        assert (plan.swizzle, plan.box, plan.pieces) == (0, (extent,), (((0,), 0),))
        assert plan.elements == extent


def test_other_buffers_are_not_filled_by_boxes():
    assert tensor_fits(swizzled((64, 96), 2), 2, 1) is None  # neighbouring columns exchange rows
    assert tensor_fits(swizzled((64, 8), 2), 2, 1) is None  # rows of 16 bytes
    assert tensor_fits(swizzled((64, 64), 2), 2, 0) is None  # the other axis lies side by side


KERNEL = """#S = {layout}
kernel @k(%x: ptr<f16> {{divisible = 16}}, %m: i32, %k: i32, %s: i32) {{num_warps = 4, num_stages = 3}} {{
  %map = gpu.tensor_map %x, [%m, %k], [%s] {{type = tensor_map<64x256xf16>, swizzle = 128, piece = (64, 64)}} : tensor_map<64x256xf16>
  %c = tile.program_id {{axis = 0, type = i32}} : i32
  %z = tile.constant {{value = 0, type = i32}} : i32
  %go = tile.lt [%c, %k] : i1
  %b = gpu.barriers {{count = 2}} : shared<1xi64, slots=2>
  %r = gpu.shared_allocate {{type = shared<64x256xf16, #S, slots=2>}} : shared<64x256xf16, #S, slots=2>
  gpu.barrier
  gpu.expect %b, %z when %go {{bytes = 32768}}
  gpu.tensor_copy %map, [%c, %z], %r, %b, %z slot %z when %go {{axes = (0, 1)}}
  gpu.await %b, %z, %z
  gpu.arrive %b, %z
  tile.return
}}"""  # noqa: E501


@needs_ptxas
def test_ptxas_takes_what_is_written():
    layout = swizzled((64, 256), 2, exchange=False)
    module = parse_module(KERNEL.format(layout=layout))
    unit = chip("sm_90a")
    state = _ptx(_llvm(_placed(State(unit, Recorder(), module), module, unit)))
    assert "k_param_4[128]" in state.ptx
    assert state.ptx.count("cp.async.bulk.tensor.2d.shared::cluster.global") == 4
    assert state.ptx.count("mbarrier.init") == 2
    assert state.ptx.count("prefetch.tensormap") == 1  # while the block begins
    for word in ("expect_tx", "try_wait.parity", "fence.mbarrier_init", "mbarrier.arrive.shared"):
        assert word in state.ptx
    assert assemble(state.ptx, unit.name).spill_store_bytes == 0


def test_a_copy_into_another_buffer_than_its_map_fills_is_refused():
    layout = swizzled((64, 256), 2, exchange=False)
    for old, new in (("swizzle = 128", "swizzle = 64"), ("piece = (64, 64)", "piece = (32, 64)")):
        module = parse_module(KERNEL.format(layout=layout).replace(old, new))
        unit = chip("sm_90a")
        with pytest.raises(KernelError, match="does not fill a shared"):
            _llvm(_placed(State(unit, Recorder(), module), module, unit))


NARROWER = """  %rest = gpu.tensor_map %x, [%m, %k], [%s] {{type = tensor_map<64x16xf16>, swizzle = 128}} : tensor_map<64x16xf16>
  %map = gpu.tensor_map %x, [%m, %k], [%s] rest %rest {{type = tensor_map<64x144xf16>, swizzle = 128, piece = (64, 64)}} : tensor_map<64x144xf16>"""  # noqa: E501


def with_a_narrower_box(width: int = 128) -> str:
    """Return a kernel that copies 144 columns: two boxes of 64 and one of 16."""
    lines = KERNEL.replace("64x256", "64x144").replace("32768", str(64 * 144 * 2)).splitlines()
    layout = swizzled((64, 144), 2, exchange=False, width=width)
    return "\n".join([*lines[:2], NARROWER, *lines[3:]]).format(layout=layout)


def written(text: str) -> str:
    module, unit = parse_module(text), chip("sm_90a")
    return _ptx(_llvm(_placed(State(unit, Recorder(), module), module, unit))).ptx


def test_the_last_box_of_a_row_has_a_map_of_its_own():
    ptx = written(with_a_narrower_box())
    copies = re.findall(r"cp\.async\.bulk\.tensor\.2d\.\S+ \[%r\d+\], \[(%rd\d+),", ptx)
    assert len(copies) == 3
    assert copies[0] == copies[1] != copies[2]
    assert "expect_tx.shared::cta.b64 _, [%r" in ptx
    assert f"], {64 * 144 * 2};" in ptx  # what the boxes have, not the slot of 64 x 192
    with pytest.raises(KernelError, match="does not fill a shared"):
        written(with_a_narrower_box(width=32))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("64x16xf16", "64x8xf16"),  # 16 columns are left
        ("64x16xf16", "64x64xf16"),  # no narrower one
        ("64x16xf16", "32x16xf16"),  # other rows
        ("swizzle = 128} : tensor_map<64x16", "swizzle = 32} : tensor_map<64x16"),
        ("[%m, %k], [%s] {type = tensor_map<64x16", "[%k, %k], [%s] {type = tensor_map<64x16"),
        ("rest %rest", "rest %other"),
    ],
)
def test_a_map_of_last_boxes_is_that_of_the_others_but_for_its_extent(old: str, new: str):
    text = with_a_narrower_box()
    assert old in text
    other = "  %other = gpu.tensor_map %x, [%m, %k], [%k] {type = tensor_map<64x16xf16>, swizzle = 128} : tensor_map<64x16xf16>\n  %map"  # noqa: E501
    text = text.replace(old, new).replace("  %map", other, 1)
    with pytest.raises(KernelError, match="in pieces of"):
        parse_module(text)
