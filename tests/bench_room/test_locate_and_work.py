"""Which program stored an element, and how much work a launch is."""

from __future__ import annotations

import numpy as np
import pytest

from workbench.bench.locate import who_stored
from workbench.bench.tolerances import BLOCK, block_maxima, spacing
from workbench.bench.work import bytes_moved, dot_work, operations
from workbench.ir import parse_module

FILL = """
kernel @fill(%out: ptr<f32>) {
  %pid = tile.program_id {axis = 0} : index
  %two = tile.constant {value = 2.0, type = f32} : f32
  %where = tile.add_pointer %out, %pid : ptr<f32>
  tile.store %where, %two
  tile.return
}
"""

DOTS = """
kernel @dots(%n: index) {
  %zero = tile.constant {value = 0, type = index} : index
  %step = tile.constant {value = 8, type = index} : index
  %init = tile.constant {value = 0.0, type = tile<16x4xf32>} : tile<16x4xf32>
  %a = tile.constant {value = 1.0, type = tile<16x8xf32>} : tile<16x8xf32>
  %b = tile.constant {value = 1.0, type = tile<8x4xf32>} : tile<8x4xf32>
  %sum = tile.for %zero, %n, %step, [%init] {
  ^(%k: index, %acc: tile<16x4xf32>):
    %next = tile.dot %a, %b, %acc {precision = "PRECISION"} : tile<16x4xf32>
    tile.yield [%next]
  } : tile<16x4xf32>
  tile.return
}
"""


def test_the_program_and_op_that_stored_an_element_are_found():
    out = np.zeros(9, np.float32)
    module = parse_module(FILL)
    search = who_stored(module, (5,), {"out": out}, "out", {3}, share=0.5)
    store = next(op for op in module.walk() if op.name == "tile.store")
    found = search.found[3]
    assert (found.program, found.number, found.op) == ((3,), 3, store.id)


def test_an_element_that_no_program_stores_is_nobodys():
    search = who_stored(parse_module(FILL), (5,), {"out": np.zeros(9, np.float32)}, "out", {7}, 0.9)
    assert search.nobody(7)
    assert search.covered == {0, 1, 2, 3, 4}


def test_a_search_that_ran_out_of_time_claims_nothing():
    out = np.zeros(9, np.float32)
    search = who_stored(parse_module(FILL), (5,), {"out": out}, "out", {7}, 0.0, seconds=-1)
    assert not search.nobody(7)
    assert not search.found


@pytest.mark.parametrize(("n", "trips"), [(32, 4), (20, 3), (0, 0)])
def test_dots_count_loop_trips_and_programs(n, trips):
    found = dot_work(parse_module(DOTS.replace("PRECISION", "ieee")), (3, 2), {"n": n})
    assert found.flops == 2 * 16 * 4 * 8 * trips * 6
    assert found.length == 8 * trips
    assert found.operand_types == ("f32",)


def test_tf32_dots_are_as_precise_as_tf32():
    found = dot_work(parse_module(DOTS.replace("PRECISION", "tf32")), (1,), {"n": 8})
    assert found.operand_types == ("tf32",)


def test_unknown_trips_give_unknown_work():
    found = dot_work(parse_module(DOTS.replace("PRECISION", "ieee")), (1,), {})
    assert found.flops is None


def test_kernels_without_dots_have_no_dot_work():
    assert dot_work(parse_module(FILL), (5,), {}) is None


def test_bytes_count_each_direction_once():
    x = np.zeros(100, np.float32)
    arguments = {"a": x, "b": x, "c": x, "n": 100}
    assert bytes_moved(arguments, {"a": "in", "b": "out", "c": "inout", "n": "scalar"}) == 1600


#: The same in a loop around it.
NESTED = DOTS.replace(
    "  %sum = tile.for %zero, %n, %step, [%init] {",
    "  %all = tile.for %zero, %n, %step, [%init] {\n  ^(%j: index, %outer: tile<16x4xf32>):\n"
    "  %sum = tile.for %zero, %n, %step, [%outer] {",
).replace("  tile.return", "  tile.yield [%sum]\n  } : tile<16x4xf32>\n  tile.return")


def test_dots_in_loops_in_loops_run_as_often_as_both_say():
    module = parse_module(NESTED.replace("PRECISION", "ieee"))
    found = dot_work(module, (3,), {"n": 24})
    assert found.flops == 2 * 16 * 4 * 8 * 3 * 3 * 3
    assert found.length == 8 * 3
    assert operations(module, (3,), {"n": 24}) == found.flops


def test_neighbours_of_a_float_are_as_far_apart_as_numpy_says():
    sizes = np.array([1.0, 1.5, 2.0, 3e-5, 1e30, 2.0**-126])
    for dtype, kind in (("f32", np.float32), ("f16", np.float16)):
        held = sizes[:4] if kind is np.float16 else sizes
        want = np.spacing(held.astype(kind)).astype(np.float64)
        np.testing.assert_array_equal(spacing(held.astype(kind).astype(np.float64), dtype), want)


def test_what_is_large_counts_for_the_blocks_beside_it():
    values = np.ones(5 * BLOCK)
    values[2 * BLOCK + 1] = -7.0
    np.testing.assert_array_equal(block_maxima(values), [1, 7, 7, 7, 1])
