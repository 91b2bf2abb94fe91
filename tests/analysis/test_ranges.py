"""Intervals contain every value that occurs, and the launch fact is true where it is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from hypothesis import given, note

from tests.analysis.watching import Watched, watch
from tests.passes.launches import Launch, launches
from tests.passes.leaves import GRID
from tests.passes.meaning import cases
from tests.passes.programs import modules
from workbench.analysis.ranges import (
    FULL32,
    Interval,
    _Writer,
    counting_arguments,
    from_data,
    index_program,
    value_intervals,
)
from workbench.ir import INDEX, Array, Module, Op, Value, element_of, parse_module, print_module
from workbench.passes.manager import Recorder, Remarks
from workbench.passes.narrow_index import narrow_index
from workbench.passes.pipeline import tile_passes


def contained(intervals: Mapping[Value, Interval]) -> Callable[[Watched, Op, Value, Array], None]:
    """Return a look that checks each exact integer, and what regions receive."""

    def look(frame: Watched, op: Op, value: Value, array: Array) -> None:
        for known in (value, *op.operands):
            if known in intervals and element_of(known.type) == INDEX:
                low, high = intervals[known]
                held = frame.values[known]
                assert np.all((low <= held) & (held <= high)), (known, held, (low, high))

    return look


def launch_intervals(module: Module, launch: Launch) -> dict[Value, Interval]:
    """Return the intervals of all values with the numbers of a launch."""
    found = index_program(module).intervals(launch.numbers, GRID)
    return {value: found[number] for value, number in _Writer(module, opened=()).numbers.items()}


@given(modules(indices=True), launches())
@cases(30)
def test_intervals_contain_what_occurs(module: Module, launch: Launch):
    for one in (module, tile_passes(module, Recorder())):
        note(print_module(one))
        watch(one, GRID, launch.arguments(), contained(value_intervals(one, narrow=False)))
        watch(one, GRID, launch.arguments(), contained(launch_intervals(one, launch)))


@given(modules(indices=True), launches())
@cases(25)
def test_what_fits_at_launch_is_within_32_bits(module: Module, launch: Launch):
    note(print_module(module))
    if index_program(module).fits(launch.numbers, GRID):
        watch(module, GRID, launch.arguments(), contained(value_intervals(module, narrow=True)))


def launch_of(text: str) -> Callable[..., bool]:
    module = parse_module(text)
    return lambda **values: index_program(module).fits(values, (1 << 20,))


def test_fits_asks_arguments_products_and_loop_ends():
    fits = launch_of("""
kernel @k(%p: ptr<f32>, %n: index, %stride: index) {
  %pid = tile.program_id {axis = 0} : index
  %zero = tile.constant {value = 0, type = index} : index
  %row = tile.mul [%pid, %stride] : index
  tile.for %zero, %n, %stride, [] {
  ^(%k: index):
    tile.yield []
  }
  tile.return
}
""")
    assert fits(n=1000, stride=2000)
    assert not fits(n=1000, stride=2048)  # 2^20 programs of 2^11 elements
    assert not fits(n=(1 << 31) - 1, stride=1)


def test_fits_asks_how_far_a_loop_moves():
    """A constant that stands in the body, and a loop that runs down, count like any other."""
    for name, start in (("add", 0), ("sub", 1 << 30)):
        fits = launch_of(f"""
kernel @k(%n: index) {{
  %zero = tile.constant {{value = 0, type = index}} : index
  %one = tile.constant {{value = 1, type = index}} : index
  %start = tile.constant {{value = {start}, type = index}} : index
  %r = tile.for %zero, %n, %one, [%start] {{
  ^(%k: index, %far: index):
    %by = tile.constant {{value = 65536, type = index}} : index
    %next = tile.{name} [%far, %by] : index
    tile.yield [%next]
  }} : index
  tile.return
}}
""")
        assert fits(n=1000)
        assert not fits(n=1 << 16)


def test_unknown_exact_integers_are_not_taken_to_fit():
    module = parse_module("""
kernel @k(%p: ptr<i64>, %n: index) {
  %zero = tile.constant {value = 0, type = index} : index
  %r = tile.while [%zero] {
  ^(%i: index):
    %go = tile.lt [%i, %n] : i1
    tile.yield [%go]
  } {
  ^(%i: index):
    %next = tile.add [%i, %n] : index
    tile.yield [%next]
  } : index
  %m = tile.max [%r, %zero] : index
  tile.return
}
""")
    last = list(module.walk())[-2].results[0]
    assert value_intervals(module, narrow=False)[last][1] > FULL32[1]


def test_fields_of_words_have_bounds_whatever_the_word():
    """An exponent of a float is 8 bits wide, so what is computed of it fits 32."""
    module = parse_module(
        """
        kernel @fields(%p: ptr<i32>, %q: ptr<u32>, %s: i32) {
          %x = tile.load %p : i32
          %y = tile.load %q : u32
          %mask = tile.constant {value = 2139095040, type = i32} : i32
          %places = tile.constant {value = 23, type = i32} : i32
          %some = tile.constant {value = 28, type = u32} : u32
          %far = tile.constant {value = 32, type = i32} : i32
          %a = tile.and [%mask, %x] : i32
          %b = tile.shr [%a, %places] : i32
          %c = tile.shr [%x, %places] : i32
          %d = tile.shr [%y, %some] : u32
          %e = tile.shr [%x, %far] : i32
          %f = tile.and [%x, %s] : i32
          tile.return
        }
        """
    )
    intervals = value_intervals(module, narrow=False)
    a, b, c, d, e, f = (
        intervals[op.result] for op in module.walk() if op.name in ("tile.and", "tile.shr")
    )
    assert a == (0, 2139095040)
    assert b == (0, 255)
    assert c == (-256, 255)
    assert d == (0, 15)
    assert e == f == FULL32


DIVIDED = """
kernel @k(%p: ptr<f32>, %m: index, %n: index, %pad: index) {
  %pid = tile.program_id {axis = 0} : index
  %lanes = tile.iota {start = 0, type = tile<64xindex>} : tile<64xindex>
  %start = tile.mul [%pid, %m] : index
  %starts = tile.splat %start {shape = (64,)} : tile<64xindex>
  %all = tile.add [%lanes, %starts] : tile<64xindex>
  %width = tile.splat %n {shape = (64,)} : tile<64xindex>
  %column = tile.rem [%all, %width] : tile<64xindex>
  %before = tile.sub [%start, %pad] : index
  %far = tile.div [%before, %pad] : index
  tile.return
}
"""


def test_the_signs_of_what_is_divided_are_asked_where_it_counts_up_from_0():
    """A difference may be negative whatever its parts are: of it nothing is asked."""
    module = parse_module(DIVIDED)
    assert counting_arguments(module) == {"m", "n", "pad"}  # pad divides
    fits = launch_of(DIVIDED)
    assert fits(m=64, n=64, pad=3)
    assert not fits(m=-64, n=64, pad=3)
    by_n = DIVIDED.replace("[%before, %pad]", "[%before, %n]")
    assert counting_arguments(parse_module(by_n)) == {"m", "n"}


def test_arguments_whose_signs_a_launch_tells_are_not_negative():
    narrow = DIVIDED.replace(") {", ") {narrow_index = True} {", 1)
    lows = {p.name: p.low for p in narrow_index(parse_module(narrow), Remarks()).parameters}
    assert lows == {"p": None, "m": 0, "n": 0, "pad": 0}
    lows = {p.name: p.low for p in narrow_index(parse_module(DIVIDED), Remarks()).parameters}
    assert set(lows.values()) == {None}


def test_a_program_of_plain_data_is_the_same():
    program = index_program(parse_module(DIVIDED))
    assert program.at_least_0
    assert from_data(program.to_data()) == program
