"""What control flow says of itself: what decides it, what it hands on, what may be left out."""

from __future__ import annotations

import pytest

from workbench.ir import Module, Op, parse_module, verify_module
from workbench.ir.operation import MNEMONICS

LOOP = """
  %r, %s = tile.for %lo, %n, %one, [%x, %y] {
  ^(%i: index, %a: f32, %b: f32):
    tile.yield [%b, %a]
  } : f32, f32
"""
WAIT = """
  %r, %s = tile.while [%x, %y] {
  ^(%a: f32, %b: f32):
    %go = tile.lt [%b, %y] : i1
    tile.yield [%go]
  } {
  ^(%c: f32, %d: f32):
    tile.yield [%x, %d]
  } : f32, f32
"""
BRANCH = """
  %r, %s = tile.if %go {
    tile.yield [%x, %y]
  } {
    tile.yield [%y, %x]
  } : f32, f32
"""
CASES = {"tile.for": LOOP, "tile.while": WAIT, "tile.if": BRANCH}


def control(text: str) -> tuple[Module, Op]:
    parameters = "%x: f32, %y: f32, %lo: index, %n: index, %one: index, %go: i1"
    module = parse_module(f"kernel @control({parameters}) {{{text}  tile.return\n}}")
    verify_module(module)
    return module, module.body.ops[0]


def test_every_op_with_places_to_drop_is_tried_here():
    own = {name for name, kind in MNEMONICS.items() if kind.handed_on is not Op.handed_on}
    assert own == CASES.keys()
    for name in own:
        assert MNEMONICS[name].keeping is not Op.keeping
        assert MNEMONICS[name].decided_by is not Op.decided_by


@pytest.mark.parametrize("name", CASES)
def test_flows_end_in_what_is_handed_on_and_nowhere_else(name: str):
    _, op = control(CASES[name])
    places = [(*held, result) for held, result in zip(op.handed_on(), op.results, strict=True)]
    assert len(places) == 2
    for place in places:
        received = [[g for g, into in op.flows() if into is value] for value in place]
        assert all(given == received[0] for given in received)
    assert {into for _, into in op.flows()} == {value for place in places for value in place}


@pytest.mark.parametrize("places", [(), (0,), (1,), (0, 1)], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_keeping_drops_the_other_places_everywhere(name: str, places: tuple[int, ...]):
    _, op = control(CASES[name])
    new = op.keeping(places)
    assert type(new) is type(op)
    assert new.id == op.id
    assert [v.hint for v in new.results] == [op.results[p].hint for p in places]
    assert new.handed_on() == tuple(op.handed_on()[p] for p in places)
    assert new.decided_by() == op.decided_by()
    given = {(g, op.results.index(into)) for g, into in op.flows() if into in op.results}
    kept = {(g, places[new.results.index(into)]) for g, into in new.flows() if into in new.results}
    assert kept == {pair for pair in given if pair[1] in places}


def test_other_ops_have_nothing_to_drop():
    _, op = control("  %r = tile.add [%x, %y] : f32\n")
    assert (op.decided_by(), op.handed_on(), op.flows()) == ((), (), ())
    with pytest.raises(TypeError, match=r"tile\.add hands nothing on"):
        op.keeping(())
