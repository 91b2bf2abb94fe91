"""Maps of `%whatif` as data, and what a click on a square of one may ask of a kernel."""

from __future__ import annotations

import json

import pytest

from tests.viewer.hostile import PAYLOADS
from workbench import run_cell
from workbench.magics import registry, sweeping, swept
from workbench.magics.comparisons import ShownComparison
from workbench.magics.grammar import parse
from workbench.questions import whatif
from workbench.source import OptionError
from workbench.trace.answers import Sweep
from workbench.trace.codec import decoder
from workbench.viewer import MIME

ADD = """
def add(x, y, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out + offsets, tl.load(x + offsets, mask=mask) + tl.load(y + offsets, mask=mask), mask)
"""


@pytest.fixture(autouse=True)
def _alone(monkeypatch):
    monkeypatch.setenv("WORKBENCH_WORKERS", "0")
    registry.clear()
    whatif.forget()
    yield
    registry.clear()


@pytest.fixture
def shown():
    line = '--no-run --target sm_80 --set BLOCK=128 --sig "*f32 *f32 *f32 i32"'
    if not run_cell(ADD, line, {}).trace.text("sass"):
        pytest.skip("needs ptxas and nvdisasm")
    request = parse("whatif", "add --axis BLOCK=128,1024 --axis warps=1,4", {})
    return sweeping.ShownMap(sweeping.whatif(request.name, request, {}))


def data_of(shown) -> dict:
    return shown._repr_mimebundle_()[swept.MIME]


def test_a_map_is_plain_data_with_a_word_for_each_number(shown):
    data = data_of(shown)
    sweep = decoder(Sweep)(data)
    assert json.loads(json.dumps(data)) == data
    assert (sweep.axes, sweep.rows, sweep.columns) == (
        ("BLOCK", "num_warps"), ("128", "1024"), ("1", "4")
    )  # fmt: skip
    assert [square.values for square in sweep.squares][1] == "BLOCK=128 num_warps=4"
    assert all(len(square.words) == len(sweep.numbers) for square in sweep.squares)
    registers = [number.title for number in sweep.numbers].index("registers")
    assert all(square.numbers[registers] for square in sweep.squares)
    assert sweep.squares[0].compare.startswith("%diff add@sm_80,BLOCK=128,num_warps=1 add@sm_80,")
    assert data_of(shown)["key"] == data["key"], "drawn again it is the same map"


def test_a_square_is_compared_with_another_one(shown):
    reply = swept.answer({"key": data_of(shown)["key"], "square": 3}, {})
    assert reply["output"][MIME]["summary"]["asked"] == "compare"
    assert "num_warps" in reply["output"]["text/plain"]
    compared = shown.compare(BLOCK=1024, warps=4)
    assert isinstance(compared, ShownComparison)
    assert str(compared) == reply["output"]["text/plain"]
    with pytest.raises(OptionError, match="no square has these values"):
        shown.compare(BLOCK=64, warps=4)


@pytest.mark.parametrize(
    "asked",
    [{}, None, [], "x", {"key": 3}, {"key": "", "square": 0}, {"square": True}, {"square": "0"},
     *({"key": text, "square": 0} for text in PAYLOADS)],
    ids=repr,
)  # fmt: skip
def test_what_no_map_is_asked_gets_no_answer(asked):
    assert swept.answer(asked, {}) == {
        "why": "this kernel does not know the map any more: run %whatif again"
    }


def test_only_squares_that_there_are_are_compared(shown):
    key = data_of(shown)["key"]
    for square in (-1, 4, 10**9):
        assert "there is no square" in swept.answer({"key": key, "square": square}, {})["why"]
    for wrong in (True, 1.0, "1", None):
        assert "why" in swept.answer({"key": key, "square": wrong}, {})


def test_the_latest_maps_are_remembered(shown, monkeypatch):
    first = data_of(shown)["key"]
    monkeypatch.setattr(swept, "KEPT", 1)
    swept.sweep_of(whatif.WhatIf("k", "sm_80", ("A",), ((1,),)), (), ())
    assert "why" in swept.answer({"key": first, "square": 0}, {})
