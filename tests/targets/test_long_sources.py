"""Legal sources compile whatever their length and depth, with work that grows as they do."""

from __future__ import annotations

import cProfile
import pstats
from typing import Any

import pytest

from tests.targets.sources import LONG, NESTED, kernel, sum_of_offsets
from workbench import run_cell
from workbench.bench.results import KernelResult
from workbench.source import UnsupportedSyntaxError, deep, depth
from workbench.targets.nvidia import toolchain

TARGETS = ["cpu", "sm_90a"]
#: Whose SASS is read while work is counted: straight code and a loop. Each run of nvdisasm costs
#: half a second of CPU, and its reader sees instructions, not the source that they are from.
DISASSEMBLED = {"sum of loads", "chain in a loop"}


def compiled(text: str, target: str) -> KernelResult:
    """Return a compiled cell all of whose panes have been read."""
    result = run_cell(text, f'k --sig "*f32 *f32 i32" --target {target} --no-cache -q', {})
    for stage in result.trace.stages:
        assert stage.state != "missing" or stage.id in ("sass", "asm")
        result.trace.text(stage.id)
    return result


@deep
def calls(text: str, target: str) -> int:
    """Return how many calls of Python's functions compiling and reading takes."""
    profile = cProfile.Profile(subcalls=False, builtins=False)
    profile.enable()
    compiled(text, target)
    profile.disable()
    return pstats.Stats(profile).total_calls  # type: ignore[attr-defined]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("way", LONG)
def test_work_grows_with_the_length_alone(way: str, target: str, monkeypatch: pytest.MonkeyPatch):
    if way not in DISASSEMBLED:
        monkeypatch.setattr(toolchain, "find", {"ptxas": toolchain.find("ptxas")}.get)
    compiled(LONG[way](2), target)  # what is done once in a process
    few, more, most = (calls(LONG[way](count), target) for count in (4, 10, 20))
    # Linear: 10/6 as much is added the second time. A square would add 3.6 times as much.
    assert most - more < 2.2 * (more - few)


def test_pointers_that_are_moved_often_are_looked_at_once(monkeypatch: pytest.MonkeyPatch):
    """Each was asked for all that it is made of: 100 moves were looked at 5,000 times."""
    monkeypatch.setattr(toolchain, "find", {"ptxas": toolchain.find("ptxas")}.get)
    profile = deep(lambda: _profile(sum_of_offsets(100)))()
    asked = [
        n for (file, _, name), (n, *_) in profile.items()
        if name == "_made_of" and file.endswith("simt/room.py")
    ]  # fmt: skip
    (looks,) = asked
    assert looks < 500


def _profile(text: str) -> Any:
    profile = cProfile.Profile(subcalls=False, builtins=False)
    profile.runcall(compiled, text, "sm_90a")
    return pstats.Stats(profile).stats  # type: ignore[attr-defined]


def test_what_nests_too_deeply_is_refused_with_a_place(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(depth, "_STACKS", (32 << 20,))
    with pytest.raises(UnsupportedSyntaxError, match="nests deeper") as caught:
        compiled(LONG["sum"](4000), "cpu")
    assert caught.value.span is not None
    assert caught.value.span.line == 10
    assert "several statements" in (caught.value.hint or "")


DEEP = {"sum": 2000, "signs": 1000, "ifs": 400, "early returns": 400, "methods": 1000}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("way", DEEP)
def test_long_sources_compile(way: str, target: str):
    assert compiled(LONG[way](DEEP[way]), target).trace.text("tile")


@pytest.mark.parametrize("target", TARGETS)
def test_nested_loops_compile(target: str):
    assert compiled(NESTED(12), target).trace.text("tile").count("tile.for") >= 12


def test_returns_inside_nested_loops_are_tried_once():
    """Each loop of a device function is lowered once ahead to learn what it returns."""
    levels = 10
    heads = "".join(f"{'    ' * (j + 1)}for i{j} in range(n):\n" for j in range(levels))
    space = "    " * (levels + 1)
    helper = f"def f(x, n):\n{heads}{space}if n > 3:\n{space}    return x + 1\n    return x\n"
    text = kernel("x = f(x, n)").replace("def k(", f"{helper}def k(")
    assert compiled(text, "cpu").trace.text("tile")
