"""The machine: memory of the caller, bounds, masks, grids, recording."""

import numpy as np
import pytest

from workbench.interpreter import interpret_constant_op, run_module
from workbench.ir import F32, I8, INDEX, parse_module
from workbench.ops import Constant, Elementwise, Iota
from workbench.source import LaunchError

ADD = """
kernel @add(%x: ptr<f32>, %y: ptr<f32>, %out: ptr<f32>, %n: index) {
  %pid = tile.program_id {axis = 0} : index
  %three = tile.constant {value = 3, type = index} : index
  %start = tile.mul [%pid, %three] : index
  %starts = tile.splat %start {shape = (3,)} : tile<3xindex>
  %lane = tile.iota {start = 0, type = tile<3xindex>} : tile<3xindex>
  %offs = tile.add [%starts, %lane] : tile<3xindex>
  %ns = tile.splat %n {shape = (3,)} : tile<3xindex>
  %mask = tile.lt [%offs, %ns] : tile<3xi1>
  %xs = tile.splat %x {shape = (3,)} : tile<3xptr<f32>>
  %xp = tile.add_pointer %xs, %offs : tile<3xptr<f32>>
  %xv = tile.load %xp mask %mask : tile<3xf32>
  %ys = tile.splat %y {shape = (3,)} : tile<3xptr<f32>>
  %yp = tile.add_pointer %ys, %offs : tile<3xptr<f32>>
  %yv = tile.load %yp mask %mask : tile<3xf32>
  %sum = tile.add [%xv, %yv] : tile<3xf32>
  %os = tile.splat %out {shape = (3,)} : tile<3xptr<f32>>
  %op = tile.add_pointer %os, %offs : tile<3xptr<f32>>
  tile.store %op, %sum mask %mask
  tile.return
}
"""


def _arrays(n: int = 7) -> list[np.ndarray]:
    return [np.arange(n, dtype=np.float32), np.ones(n, np.float32), np.full(n + 2, -5, np.float32)]


def test_seven_elements_in_blocks_of_three_leave_the_rest_untouched():
    x, y, out = _arrays()
    run_module(parse_module(ADD), (3,), [x, y, out, 7])
    assert out.tolist() == [1, 2, 3, 4, 5, 6, 7, -5, -5]


def test_recording_names_every_lane():
    x, y, out = _arrays()
    recording = run_module(parse_module(ADD), (3,), [x, y, out, 7], record=True)
    stores = [a for a in recording.accesses if a.write]
    assert [(a.program, a.lane, a.argument, a.element, a.live) for a in stores] == [
        (p, i, "out", 3 * p + i, 3 * p + i < 7) for p in range(3) for i in range(3)
    ]
    assert recording.races == []


def test_access_outside_every_argument_says_where():
    x, _, out = _arrays()
    apart = np.zeros(4096, np.float32)
    with pytest.raises(LaunchError) as caught:
        run_module(parse_module(ADD), (3,), [x, apart, out, 9])
    text = str(caught.value)
    assert caught.value.code == "K502"
    assert "load outside every argument: 0 to 4 bytes past the end of x" in text
    assert "program (2,), element (1,) of the tile is x[7]; x has 7 elements" in text
    assert caught.value.span.line == 13


def test_access_outside_an_expanded_array_says_that_it_is_one():
    _, y, out = _arrays()
    wide = np.broadcast_to(np.float32(2), (7,))
    with pytest.raises(LaunchError) as caught:
        run_module(parse_module(ADD), (3,), [wide, y, out, 7])
    text = str(caught.value)
    assert "x is expanded: shape (7,), strides (0,), the same memory for many elements" in text
    assert "give it memory of its own, x.copy()" in text
    torch = pytest.importorskip("torch")
    x = torch.ones((), requires_grad=True).expand(7).detach()
    with pytest.raises(LaunchError, match=r"give it memory of its own, x.contiguous\(\)"):
        run_module(parse_module(ADD), (3,), [x, y, out, 7])


def test_two_programs_writing_one_element_is_a_race():
    text = """
    kernel @race(%out: ptr<i32>, %v: i32) {
      tile.store %out, %v
      tile.return
    }
    """
    out = np.zeros(1, np.int32)
    recording = run_module(parse_module(text), (2,), [out, 3], watch=True)
    assert [
        (r.argument, r.element, r.first_program, r.second_program) for r in recording.races
    ] == [("out", 0, 0, 1)]


def test_views_are_bounded_by_their_storage():
    _, y, out = _arrays()
    wide = np.zeros((2, 8), np.float32)[:, :7]
    run_module(parse_module(ADD), (3,), [wide[0], y, out, 7])
    found = run_module(parse_module(ADD), (3,), [wide[1][:5], y, out, 7], watch=True).findings
    assert [(f.kind, f.severity) for f in found] == [("outside", "remark")]
    with pytest.raises(LaunchError, match="past the end of x"):
        run_module(parse_module(ADD), (3,), [wide[1][3:], y, out, 7])


def test_a_read_only_array_is_not_written():
    x, y, out = _arrays()
    out.flags.writeable = False
    with pytest.raises(LaunchError, match="into out, which is read-only"):
        run_module(parse_module(ADD), (3,), [x, y, out, 7])


def test_torch_tensors_share_their_memory():
    torch = pytest.importorskip("torch")
    x, y, out = (torch.arange(7.0), torch.ones(7), torch.zeros(7))
    run_module(parse_module(ADD), (3,), [x, y, out, 7])
    assert torch.equal(out, x + y)


def test_wrong_arguments_are_named():
    with pytest.raises(LaunchError, match="takes 4 arguments \\(x, y, out, n\\), got 1"):
        run_module(parse_module(ADD), (1,), [1])
    x, _, out = _arrays()
    with pytest.raises(LaunchError, match="argument y is a list"):
        run_module(parse_module(ADD), (1,), [x, [1.0], out, 7])


def test_constants_fold_by_the_meaning_of_the_op():
    a, b = Constant(7, INDEX), Constant(-2, INDEX)
    assert int(interpret_constant_op(Elementwise("div", (a.result, b.result)))) == -3
    big = Constant(100, I8)
    assert int(interpret_constant_op(Elementwise("add", (big.result, big.result)))) == -56
    half = Constant(0.5, F32)
    assert interpret_constant_op(Elementwise("exp2", (half.result,))) == np.float32(2**0.5)


def test_what_is_not_constant_does_not_fold():
    from workbench.ir import Tile

    lanes = Iota(0, Tile((4,), INDEX))
    assert interpret_constant_op(lanes) is None
    assert interpret_constant_op(Elementwise("neg", (lanes.result,))) is None
