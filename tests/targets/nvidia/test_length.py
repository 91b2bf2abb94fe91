"""How much code there is: told before it is written, and none of it twice."""

from __future__ import annotations

import re

import pytest

from tests.language.harness import from_text
from tests.passes.corpus import tile_ir
from tests.targets.nvidia.configurations import QUICK, Configuration
from workbench.ir import Module
from workbench.passes.manager import Recorder
from workbench.passes.pipeline import tile_passes
from workbench.source import ResourceError
from workbench.targets.built import Built
from workbench.targets.nvidia.chip import Chip
from workbench.targets.nvidia.pipeline import build
from workbench.targets.simt import length

GATHERS = """
def gathers(p, o, SIZE: tl.constexpr, COUNT: tl.constexpr):
    i = tl.arange(0, SIZE)
    x = tl.load(p + i)
    for k in tl.static_range(COUNT):
        y = x * 4097
        x = tl.gather(y, i ^ (1 << k), 0) + y
    tl.store(o + i, x)
"""


def gathers(count: int) -> Module:
    constexprs = {"SIZE": 1024, "COUNT": count}
    return tile_ir(from_text(GATHERS), "*i32:16 *i32:16", constexprs, num_warps=4)


def text_of(built: Built) -> str:
    return built.texts["llvm"]().text


def llvm(module: Module) -> str:
    return text_of(build(tile_passes(module, Recorder()), "sm_90a", Recorder()))


@pytest.mark.parametrize("case", QUICK, ids=lambda c: c.name)
def test_there_is_at_least_as_much_as_was_said(case: Configuration):
    built = case.built("sm_90a")
    assert built.gpu is not None
    said = max((found for _, found in length.at_least(built.gpu)), default=0)
    assert said <= len(re.findall(r"^  %v\d+ = ", text_of(built), re.MULTILINE))


def test_what_is_too_long_is_refused_before_it_is_written(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(length, "limit_of", lambda name: 60)
    with pytest.raises(ResourceError, match=r"at least \d+ instructions, the limit is") as caught:
        llvm(gathers(2))
    assert (caught.value.code, caught.value.span is None) == ("K406", False)


def test_what_goes_through_memory_in_rounds_is_computed_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Chip, "most_scratch", 1024)
    text = llvm(gathers(3))
    assert "phi i32" in text  # there are rounds
    assert len(re.findall(r"= mul .*, 4097", text)) == 3 * 1024 // 128
