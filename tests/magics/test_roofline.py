"""`%roofline`: points below a measured roof; the speeds here are made up."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest
import torch

from workbench import run_cell
from workbench.bench.work import operations
from workbench.cli import main
from workbench.magics import registry, roofs
from workbench.magics.grammar import parse
from workbench.source import OptionError

CELL = """
def scale(x, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    total = tl.load(x + offsets, mask=mask, other=0.0)
    for i in range(3):
        total = total * 2.0
    tl.store(out + offsets, total, mask=mask)
"""
LINE = "--args x,out,n --grid 4 --set BLOCK=64 --target cpu"


@pytest.fixture(autouse=True)
def _speeds(monkeypatch):
    registry.clear()
    monkeypatch.setattr(roofs, "copy_speed", lambda gpu: 10.0)
    monkeypatch.setattr(roofs, "peak_speed", lambda gpu, operand: 0.02)
    yield
    registry.clear()


@pytest.fixture
def space():
    names = {"x": torch.ones(256), "out": torch.zeros(256), "n": 256, "torch": torch}
    run_cell(CELL, LINE, names)
    return names


def ask(line, names):
    return roofs.roofline("scale", parse("roofline", f"scale {line}", names), names)


def test_a_kernel_that_was_not_timed_is_timed_and_stands_below_the_roof(space):
    found = ask('--baseline ours="torch.mul(x, 8, out=out)"', space)
    assert [point.name for point in found.points] == ["scale", "ours"]
    for point in found.points:
        # Three products for each element; each array once: 8 bytes an element.
        assert (point.flops, point.bytes) == (3 * 256, 2 * 1024)
        assert point.intensity == 3 / 8
        assert point.roof == 2 * 1024 / 10 / 1e6
        assert point.share == point.roof / point.milliseconds
        assert found.limit(point) == "memory"
    assert found.ridge == 2
    assert registry.latest("scale").bench  # it is timed once
    assert ask("", space).points == found.points


@pytest.mark.parametrize(
    ("copy", "peak", "said"),
    [(1e-6, 1e3, "arrays that stay in caches"), (1e6, 1e-9, "that of torch's f32 product here")],
)
def test_what_is_above_the_roof_says_of_which_part(space, monkeypatch, copy, peak, said):
    monkeypatch.setattr(roofs, "copy_speed", lambda gpu: copy)
    monkeypatch.setattr(roofs, "peak_speed", lambda gpu, operand: peak)
    told = [row for row in roofs.text_of(ask("", space)).split("\n") if "above the roof" in row]
    assert len(told) == 1
    assert said in told[0]


def test_what_was_asked_for_is_timed_or_it_says_why_not(space):
    before = ask("", space)
    found = ask('--baseline nobody="1 / 0"', space)
    assert [point.name for point in found.points] == ["scale"]
    assert "nobody was not timed: " in roofs.text_of(found)
    assert ask("--flops 4096", space).points[0].flops == 4096 != before.points[0].flops
    run_cell(CELL.replace("range(3)", "range(5)"), LINE, space)  # another of the same name
    assert ask("", space).points[0].flops == 5 * 256


def test_text_picture_and_data_say_the_same(space):
    found = ask("", space)
    drawn = roofs.drawn(found)
    assert "measured copy 10 GB/s, measured f32 product 0.02 TFLOP/s" in drawn
    (picture,) = drawn.pictures
    assert "copy 10 GB/s" in "".join(ElementTree.fromstring(picture).itertext())
    data = json.loads(roofs.as_json(found))
    assert data["points"][0]["limit"] == "memory"
    assert data["points"][0]["share"] == found.points[0].share


def test_operations_are_those_of_the_launch(space):
    subject = registry.latest("scale").compiled
    assert operations(subject.module, (4, 1, 1), {"n": 256}) == 3 * 256


def test_who_cannot_be_timed_says_so():
    names = {"x": torch.ones(4)}
    run_cell(CELL, '--sig "*f32 *f32 i32" --set BLOCK=64 --target cpu', names)
    with pytest.raises(OptionError) as caught:
        ask("", names)
    assert caught.value.code == "K110"


def test_the_command_line_has_it(tmp_path, capsys):
    path = tmp_path / "k.py"
    path.write_text(
        f"import torch\nfrom workbench import tl\nx, out = torch.ones(256), torch.ones(256)\n{CELL}"
    )
    line = ["roofline", f"{path}::scale", "--args", "x,out,256", "--grid", "4", "--set", "BLOCK=64"]
    assert main([*line, "--target", "cpu", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kernel"] == "scale"
