"""Affine forms by brute force: a form is the value at every coordinate, in every round.

What follows from a form (divisors, strides, runs, vectors, constant masks) is compared with the
interpreter's numbers by enumeration.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, note

from tests.analysis.expressions import expression_arguments, expression_modules
from tests.analysis.watching import (
    Watched,
    check_conjuncts,
    check_forms,
    check_mask,
    check_under_masks,
    watch,
)
from tests.passes.launches import Launch, launches
from tests.passes.leaves import GRID
from tests.passes.meaning import cases
from tests.passes.programs import modules
from workbench.analysis.affine import Affine
from workbench.analysis.forms import Atom, Form
from workbench.analysis.runs import Runs
from workbench.ir import I1, Array, Module, Op, Value, element_of, parse_module, print_module
from workbench.passes.manager import Recorder, Remarks
from workbench.passes.narrow_index import narrow_index
from workbench.passes.pipeline import tile_passes


def check(module: Module, grid: tuple[int, ...], arguments: list[Any]) -> None:
    """Compare all forms of a module with what its values are, in a test of hypothesis."""
    note(print_module(module))
    look_at(module, grid, arguments)


def look_at(module: Module, grid: tuple[int, ...], arguments: list[Any]) -> None:
    """Compare all forms of a module with what its values are: plain, with tiles, as promised."""
    plain, tiles = Affine(module), Affine(module, tiles=True)
    told = Affine(module, tiles=True, promises=True)

    def look(frame: Watched, op: Op, value: Value, array: Array) -> None:
        for facts in (plain, tiles, told):
            if element_of(value.type) == I1:
                check_mask(facts, value, array)
                check_conjuncts(facts, frame, value, array)
            else:
                check_forms(facts, frame, value, array)
                check_under_masks(facts, frame, value, array)

    with np.errstate(all="ignore"):
        watch(module, grid, arguments, look)


@given(expression_modules(), expression_arguments())
@cases(20)
def test_forms_of_index_expressions_are_their_values(module: Module, arguments: list[Any]):
    check(module, (2,), arguments)
    check(narrow_index(tile_passes(module, Recorder()), Remarks()), (2,), arguments)


@given(modules(), launches())
@cases(6)
def test_forms_of_random_programs_are_their_values(module: Module, launch: Launch):
    check(module, GRID, launch.arguments())
    final = tile_passes(module, Recorder())
    check(final, GRID, launch.arguments())
    check(narrow_index(final, Remarks()), GRID, launch.arguments())


def facts_of(
    lines: str, parameters: str = "", *, tiles: bool = False
) -> tuple[Affine, dict[str, Value]]:
    """Return the forms of a few lines of IR and the values by name."""
    head = f"kernel @k(%p: ptr<f32> {{divisible = 16}}{parameters}) {{\n"
    module = parse_module(head + lines + "\n  tile.return\n}\n")
    names = {p.name: p.value for p in module.parameters}
    facts = Affine(module, tiles=tiles)
    return facts, names | {r.hint: r for op in module.walk() for r in op.results}


ROW = """
  %x = tile.iota {start = 0, type = tile<512xindex>} : tile<512xindex>
  %pid = tile.program_id {axis = 0} : index
  %size = tile.constant {value = 512, type = index} : index
  %first = tile.mul [%pid, %size] : index
  %firsts = tile.splat %first {shape = (512,)} : tile<512xindex>
  %offsets = tile.add [%firsts, %x] : tile<512xindex>
  %ps = tile.splat %p {shape = (512,)} : tile<512xptr<f32>>
  %q = tile.add_pointer %ps, %offsets : tile<512xptr<f32>>
  %ns = tile.splat %n {shape = (512,)} : tile<512xindex>
  %mask = tile.lt [%offsets, %ns] : tile<512xi1>
"""


@pytest.mark.parametrize(("divisible", "width"), [(1, 1), (2, 2), (4, 4), (16, 16), (6, 2)])
def test_a_mask_is_as_wide_as_the_bound_is_divisible(divisible: int, width: int):
    facts, values = facts_of(ROW, f", %n: index {{divisible = {divisible}}}")
    assert facts.vector(values["q"], 0) == 4  # 16 bytes are known of the pointer
    assert facts.mask_run(values["mask"], 0, 512) == width


STEPS = """
  %x = tile.iota {{start = 0, type = tile<64xindex>}} : tile<64xindex>
  %step = tile.constant {{value = {step}, type = tile<64xindex>}} : tile<64xindex>
  %far = tile.mul [%x, %step] : tile<64xindex>
  %ns = tile.splat %n {{shape = (64,)}} : tile<64xindex>
  %less = tile.{function} [{sides}] : tile<64xi1>
"""


@pytest.mark.parametrize("sides", ["%far, %ns", "%ns, %far"])
@pytest.mark.parametrize("function", ["lt", "le", "gt", "ge"])
@pytest.mark.parametrize("step", [-4, -2, -1, 1, 2, 3, 4, 6])
def test_a_mask_of_steps_is_constant_along_its_runs(step: int, function: str, sides: str):
    """Tried for all bounds that the parameter may have; somewhere runs are as long as could be."""
    compare = {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}
    lines, found = STEPS.format(step=step, function=function, sides=sides), list[int]()
    for divisible in (1, 2, 3, 8, 16, 48):
        facts, values = facts_of(lines, f", %n: index {{divisible = {divisible}}}")
        run = facts.mask_run(values["less"], 0, 64)
        found.append(run)
        far = np.arange(64) * step
        n = np.arange(-480, 481, divisible)[:, None]
        pair = (far, n) if sides.startswith("%far") else (n, far)
        mask = compare[function](*pair).reshape(-1, run)
        assert (mask == mask[:, :1]).all(), (divisible, run)
    # le and gt of x are lt and ge of x + 1.
    exact = (function in ("lt", "ge")) == sides.startswith("%far")
    if step in (2, 4) and exact:
        assert max(found) == 16 // step


def test_wrapped_rows_are_as_contiguous_as_the_modulus_is_divisible():
    lines = ROW + "  %wrapped = tile.rem [%offsets, %ns] : tile<512xindex>"
    facts, values = facts_of(lines, ", %n: index {divisible = 8}")
    assert facts.run(facts.form(values["wrapped"]), 0, 512) == (1, 8, 8)


@pytest.mark.parametrize(("less", "start"), [(8, 4), (2, 2), (3, 1)])
def test_one_of_two_numbers_begins_as_both_do(less: int, start: int):
    """Runs of either lie side by side, from where both are multiples of something on."""
    lines = ROW + (
        f"  %less = tile.constant {{value = {less}, type = tile<512xindex>}} : tile<512xindex>\n"
        "  %zero = tile.constant {value = 0, type = index} : index\n"
        "  %which = tile.ne [%n, %zero] : i1\n"
        "  %back = tile.sub [%offsets, %less] : tile<512xindex>\n"
        "  %either = tile.if %which {\n    tile.yield [%back]\n  } {\n    tile.yield [%offsets]\n"
        "  } : tile<512xindex>\n"
        "  %one = tile.add_pointer %ps, %either : tile<512xptr<f32>>"
    )
    facts, values = facts_of(lines, ", %n: index", tiles=True)
    assert facts.stride(values["one"], 0) == 1
    assert facts.vector(values["one"], 0) == start


def test_a_dividend_that_may_be_negative_has_no_runs():
    """Truncated: -8 rem 8 is 0 but -7 rem 8 is -7; -8 div 8 is -1 but -7 div 8 is 0."""
    lines = ROW + (
        "  %eight = tile.constant {value = 8, type = tile<512xindex>} : tile<512xindex>\n"
        "  %below = tile.sub [%x, %eight] : tile<512xindex>\n"
        "  %r = tile.rem [%below, %eight] : tile<512xindex>\n"
        "  %d = tile.div [%below, %eight] : tile<512xindex>"
    )
    facts, values = facts_of(lines, ", %n: index")
    assert facts.run(facts.form(values["r"]), 0, 512)[1] == 1
    assert facts.run(facts.form(values["d"]), 0, 512)[1] == 1


def test_i32_arithmetic_that_may_wrap_has_no_polynomial():
    lines = "  %big = tile.mul [%n, %n] : i32\n  %exact = tile.mul [%n, %n] {no_wrap = True} : i32"
    facts, values = facts_of(lines, ", %n: i32")
    assert "arg(n)" not in repr(facts.form(values["big"]))
    assert repr(facts.form(values["exact"])) == "arg(n)·arg(n)"


GATHERED = """
  %is = tile.splat %i {shape = (8,)} : tile<8xptr<i32>>
  %each = tile.iota {start = 0, type = tile<8xi32>} : tile<8xi32>
  %places = tile.add_pointer %is, %each : tile<8xptr<i32>>
  %row = tile.load %places : tile<8xi32>
  %sizes = tile.splat %n {shape = (8,)} : tile<8xi32>
  %starts = tile.mul [%row, %sizes] {WRAP} : tile<8xi32>
  %column = tile.expand_dims %starts {axis = 1} : tile<8x1xi32>
  %rows = tile.broadcast %column {shape = (8, 64)} : tile<8x64xi32>
  %x = tile.iota {start = 0, type = tile<64xi32>} : tile<64xi32>
  %xs = tile.expand_dims %x {axis = 0} : tile<1x64xi32>
  %columns = tile.broadcast %xs {shape = (8, 64)} : tile<8x64xi32>
  %offsets = tile.add [%rows, %columns] {no_wrap = True} : tile<8x64xi32>
  %ps = tile.splat %p {shape = (8, 64)} : tile<8x64xptr<f32>>
  %q = tile.add_pointer %ps, %offsets : tile<8x64xptr<f32>>
"""


@pytest.mark.parametrize("wrap", ["", "{no_wrap = True}"])
@pytest.mark.parametrize(("divisible", "width"), [(1, 1), (2, 2), (16, 4), (12, 4)])
def test_rows_that_were_loaded_leave_the_columns_side_by_side(wrap, divisible, width):
    """A product that wraps keeps the powers of two that divide it."""
    lines = GATHERED.replace("{WRAP}", wrap)
    parameters = f", %i: ptr<i32>, %n: i32 {{divisible = {divisible}}}"
    facts, values = facts_of(lines, parameters, tiles=True)
    assert facts.vector(values["q"], 1) == width
    assert facts.vector(values["q"], 0) == 1
    assert facts.stride(values["q"], 0) is None
    opaque, values = facts_of(lines, parameters)
    assert opaque.form(values["q"]) is None


def test_what_is_loaded_from_one_place_is_the_same():
    """Along runs in which address, mask and replacement are; and so is what is made of it."""
    lines = """
      %x = tile.iota {start = 0, type = tile<64xi32>} : tile<64xi32>
      %four = tile.constant {value = 4, type = tile<64xi32>} : tile<64xi32>
      %group = tile.div [%x, %four] : tile<64xi32>
      %is = tile.splat %i {shape = (64,)} : tile<64xptr<i32>>
      %places = tile.add_pointer %is, %group : tile<64xptr<i32>>
      %bound = tile.splat %n {shape = (64,)} : tile<64xi32>
      %mask = tile.lt [%x, %bound] : tile<64xi1>
      %whole = tile.load %places : tile<64xi32>
      %part = tile.load %places mask %mask : tile<64xi32>
      %odd = tile.load %places mask %mask other %x : tile<64xi32>
      %zero = tile.constant {value = 0, type = tile<64xi32>} : tile<64xi32>
      %below = tile.lt [%whole, %zero] : tile<64xi1>
      %more = tile.add [%whole, %bound] : tile<64xi32>
      %wrapped = tile.select %below, %more, %whole : tile<64xi32>
    """
    facts, values = facts_of(lines, ", %i: ptr<i32>, %n: i32 {divisible = 2}", tiles=True)
    runs = {name: facts.constant_runs(values[name]) for name in ("whole", "part", "odd", "wrapped")}
    assert runs == {"whole": (4,), "part": (2,), "odd": (1,), "wrapped": (4,)}


def test_a_number_that_changes_by_what_the_round_computes_has_no_closed_form():
    lines = """
  %zero = tile.constant {value = 0, type = index} : index
  %one = tile.constant {value = 1, type = index} : index
  %r, %s = tile.for %zero, %n, %one, [%zero, %zero] {
  ^(%k: index, %even: index, %odd: index):
    %by = tile.rem [%k, %n] : index
    %e = tile.add [%even, %n] : index
    %o = tile.add [%odd, %by] : index
    tile.yield [%e, %o]
  } : index, index"""
    facts, values = facts_of(lines, ", %n: index")
    assert "trips" in repr(facts.form(values["r"]))
    assert "trips" not in repr(facts.form(values["s"]))


def test_a_promise_of_a_tile_and_of_its_transpose_differ():
    lines = """
  %x = tile.iota {start = 0, type = tile<4xindex>} : tile<4xindex>
  %g = tile.splat %p {shape = (4,)} : tile<4xptr<f32>>
  %q = tile.add_pointer %g, %x : tile<4xptr<f32>>
  %v = tile.load %q : tile<4xf32>
  %i = tile.cast %v {to = index} : tile<4xindex>
  %line = tile.promise %i {divisible = (2,)} : tile<4xindex>
  %e = tile.expand_dims %line {axis = 0} : tile<1x4xindex>
  %a = tile.broadcast %e {shape = (4, 4)} : tile<4x4xindex>
  %b = tile.transpose %a {order = (1, 0)} : tile<4x4xindex>
  %same = tile.eq [%a, %b] : tile<4x4xi1>"""
    facts, values = facts_of(lines, tiles=True)
    assert facts.form(values["a"]) != facts.form(values["b"])
    assert facts.mask_run(values["same"], 0, 4) == 1


def test_masks_of_quotients_have_runs_where_nothing_is_negative():
    """-8 // 4 is -2, but -7 // 4 is -1: below 0 the runs do not begin at multiples of 4."""
    lines = """
  %x = tile.iota {{start = 0, type = tile<64xindex>}} : tile<64xindex>
  %c = tile.constant {{value = 16, type = index}} : index
  %pid = tile.program_id {{axis = 0}} : index
  %first = tile.mul [%pid, %c] : index
  %s = tile.splat %{start} {{shape = (64,)}} : tile<64xindex>
  %i = tile.add [%s, %x] : tile<64xindex>
  %four = tile.constant {{value = 4, type = tile<64xindex>}} : tile<64xindex>
  %q = tile.div [%i, %four] : tile<64xindex>
  %mask = tile.lt [%q, %four] : tile<64xi1>"""
    for start, run in (("n", 1), ("first", 4)):
        facts, values = facts_of(lines.format(start=start), ", %n: index {divisible = 16}")
        assert facts.mask_run(values["mask"], 0, 64) == run


def test_each_op_is_looked_at_twice_however_deep_its_loop_is(monkeypatch: pytest.MonkeyPatch):
    """Once to see by how much a round changes what it carries, once with what follows from it."""
    lines = "  %zero = tile.constant {value = 0, type = index} : index\n"
    depth = 12
    for i in range(depth):
        start = f"%p{i - 1}" if i else "%zero"
        lines += f"%r{i} = tile.for %zero, %n, %n, [{start}] {{\n^(%k{i}: index, %p{i}: index):\n"
    for i in reversed(range(depth)):
        moved = f"%r{i + 1}" if i + 1 < depth else f"%p{i}"
        lines += f"%x{i} = tile.add [{moved}, %n] : index\ntile.yield [%x{i}]\n}} : index\n"
    seen: Counter[int] = Counter()
    work = Affine._op
    monkeypatch.setattr(Affine, "_op", lambda self, op: (seen.update([op.id]), work(self, op))[1])
    facts, values = facts_of(lines, ", %n: index {divisible = 8}", tiles=True)
    assert set(seen.values()) == {1, 2}
    assert facts.divisor(facts.form(values["r0"])) == 8


IMAGE = """
  %x = tile.iota {start = 0, type = tile<64xi32>} : tile<64xi32>
  %first = tile.splat %i {shape = (64,)} : tile<64xi32>
  %m = tile.add [%first, %x] {no_wrap = True} : tile<64xi32>
  %width = tile.splat %n {shape = (64,)} : tile<64xi32>
  %row = tile.div [%m, %width] : tile<64xi32>
  %column = tile.rem [%m, %width] : tile<64xi32>
  %pitch = tile.splat %s {shape = (64,)} : tile<64xi32>
  %start = tile.mul [%row, %pitch] : tile<64xi32>
  %offsets = tile.add [%start, %column] : tile<64xi32>
  %ps = tile.splat %p {shape = (64,)} : tile<64xptr<f32>>
  %q = tile.add_pointer %ps, %offsets : tile<64xptr<f32>>
  %steps = tile.mul [%column, %pitch] : tile<64xi32>
  %far = tile.add_pointer %ps, %steps : tile<64xptr<f32>>
  %quarter = tile.add_pointer %ps, %row : tile<64xptr<f32>>
"""


def test_neighbours_in_an_image_mostly_lie_side_by_side():
    """Whatever its width is; that the pitch may wrap says nothing of most of them."""
    facts, values = facts_of(IMAGE, ", %i: i32, %n: i32, %s: i32", tiles=True)
    assert facts.stride(values["q"], 0) is None
    assert facts.vector(values["q"], 0) == 1
    assert facts.usual_stride(values["q"], 0) == 1
    assert facts.usual_stride(values["quarter"], 0) == 0
    far = facts.usual_stride(values["far"], 0)
    assert far is not None
    assert not isinstance(far, int)


APART = """
  %x = tile.iota {start = 0, type = tile<64xindex>} : tile<64xindex>
  %ws = tile.splat %w {shape = (64,)} : tile<64xindex>
  %hs = tile.splat %h {shape = (64,)} : tile<64xindex>
  %ps = tile.splat %p {shape = (64,)} : tile<64xptr<f32>>
  %above = tile.div [%x, %ws] : tile<64xindex>
  %column = tile.rem [%x, %ws] : tile<64xindex>
  %row = tile.rem [%above, %hs] : tile<64xindex>
  %area = tile.mul [%w, %h] : index
  %areas = tile.splat %area {shape = (64,)} : tile<64xindex>
  %image = tile.div [%x, DIVISOR] : tile<64xindex>
  %rows = tile.mul [%image, %hs] : tile<64xindex>
  %a = tile.add [%rows, %row] : tile<64xindex>
  %b = tile.mul [%a, FACTOR] : tile<64xindex>
  %c = tile.add [%b, %column] : tile<64xindex>
  %q = tile.add_pointer %ps, %c : tile<64xptr<f32>>
"""


@pytest.mark.parametrize(
    ("divisor", "factor", "whole"),
    [("%areas", "%ws", True), ("%areas", "%hs", False), ("%hs", "%ws", False)],
)
def test_what_divisions_took_apart_is_whole_again(divisor: str, factor: str, whole: bool):
    text = APART.replace("DIVISOR", divisor).replace("FACTOR", factor)
    facts, values = facts_of(text, ", %w: index, %h: index")
    start = facts.form(values["ps"])
    assert start is not None
    assert (facts.accessed(values["q"], None) == start + facts.coordinate(0)) is whole
    assert facts.vector(values["q"], 0) == (4 if whole else 1)


def test_what_a_carried_number_starts_again_from_divides_it():
    """A counter of 64 that begins anew where it is past a bound, and one of which nothing lasts."""
    lines = """
      %zero = tile.constant {value = 0, type = i32} : i32
      %one = tile.constant {value = 1, type = i32} : i32
      %step = tile.constant {value = 64, type = i32} : i32
      %odd = tile.constant {value = 6, type = i32} : i32
      %a, %b = tile.for %zero, %i, %one, [%step, %step] {
      ^(%k: i32, %c: i32, %d: i32):
        %next = tile.add [%c, %step] {no_wrap = True} : i32
        %past = tile.ge [%next, %n] : i1
        %again = tile.select %past, %zero, %next : i32
        %less = tile.sub [%d, %odd] {no_wrap = True} : i32
        %other = tile.select %past, %zero, %less : i32
        tile.yield [%again, %other]
      } : i32, i32
    """
    for tiles in (True, False):
        facts, values = facts_of(lines, ", %i: i32, %n: i32", tiles=tiles)
        divisors = [facts.divisor(form) for v in "ab" if (form := facts.form(values[v]))]
        assert divisors == ([64, 2] if tiles else [1, 1])


def test_choices_made_of_choices_are_looked_at_once_each():
    """A sorted tile is a choice of choices: 2 to the 60 ways through, 60 atoms."""
    runs = Runs(())
    n = Atom("arg", "n", 0, frozenset())
    x = Atom("x", 0, 1, frozenset((0,)))
    runs.divides(32, n)
    form = Form({(n,): 1})
    for order in range(2, 62):
        form = Form({(Atom("select", (Form({(x,): 8}), form, form), order, frozenset((0,))),): 1})
    assert runs.divisor(form) == 32
    assert runs.run(form, 0, 64) == (0, 64, 32)
    runs.divides(8, n)
    assert runs.divisor(form) == 8
    assert runs.run(form, 0, 64) == (0, 64, 8)
