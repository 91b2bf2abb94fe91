"""What compilations leave behind is bounded, and made again when somebody looks."""

from __future__ import annotations

import gc
import importlib
import weakref

import pytest

import workbench as wb
from workbench.runtime import compiling
from workbench.runtime.compiled import CompiledKernel
from workbench.runtime.retaining import KEPT, Kept, Latest
from workbench.source import CompileError

tl = importlib.import_module("workbench.triton").language
SCALE = tl.constexpr(2)


@wb.jit
def scaled(p, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(p + i, tl.load(p + i, mask=i < n) * SCALE, mask=i < n)


class Thing:
    """Something that lets go, unless it is in use."""

    def __init__(self, *, busy: bool = False) -> None:
        self.busy, self.held = busy, True

    def release(self) -> bool:
        self.held = self.busy
        return not self.busy


def compiled(block: int) -> CompiledKernel:
    return wb.compile(scaled, "*f32 i32", {"BLOCK": block}, target="cpu", cached=False)


def test_the_latest_used_stay():
    kept = Kept(30)
    things = [Thing() for _ in range(4)]
    for thing in things[:3]:
        kept.hold(thing, 10)
    kept.use(things[0])
    kept.hold(things[3], 10)
    assert [thing.held for thing in things] == [True, False, True, True]
    assert kept.total == 30


def test_what_is_used_stays_and_is_counted():
    kept = Kept(10)
    busy, other = Thing(busy=True), Thing()
    kept.hold(busy, 10)
    kept.hold(other, 10)
    assert busy.held
    assert kept.total == 20


def test_one_that_is_larger_than_all_stays_alone():
    kept = Kept(10)
    small, large = Thing(), Thing()
    kept.hold(small, 5)
    kept.hold(large, 50)
    assert (small.held, large.held) == (False, True)


def test_who_is_gone_is_not_counted():
    kept = Kept(100)
    kept.hold(Thing(), 60)
    gc.collect()
    assert (kept.total, len(kept)) == (0, 0)


def test_what_somebody_holds_is_found_and_the_latest_used_of_the_rest():
    latest: Latest[Thing] = Latest(2)
    held = Thing()
    latest["held"] = held
    for name in "abc":
        latest[name] = Thing()
    gc.collect()
    assert latest.get("held") is held  # and is now the latest used
    latest["d"] = Thing()
    gc.collect()
    assert [name for name in ("held", *"abcd") if latest.get(name)] == ["held", "d"]
    assert len(latest) == 2
    assert latest.setdefault("held", Thing()) is held


def test_kernels_that_nobody_holds_are_gone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(compiling, "_kernels", Latest(3))
    mine = compiled(32)
    made = [weakref.ref(compiled(64 + n)) for n in range(8)]
    gc.collect()
    assert sum(kernel() is not None for kernel in made) == 3
    again = wb.compile(scaled, "*f32 i32", {"BLOCK": 32}, target="cpu")
    assert again is mine


@pytest.mark.parametrize("target", ["cpu", "sm_90a"])
def test_stages_are_made_again_as_they_were(target: str):
    kernel = wb.compile(scaled, "*f32 i32", {"BLOCK": 64}, target=target, cached=False)
    _ = kernel.launch
    before, code = dict(kernel.stages), kernel.code
    ops = kernel.trace.ops
    assert kernel.release()
    assert kernel._compiled is None
    assert dict(kernel.stages) == before
    assert kernel.code == code
    assert kernel.trace.ops == ops


def test_runs_that_were_recorded_stay():
    from workbench.trace import Launch

    kernel = compiled(32)
    kernel.lazy_trace.record(Launch(t=1.0, grid=(1, 1, 1), device="cpu", args=()))
    assert kernel.trace.runs.launches
    assert kernel.release()
    kernel.lazy_trace.record(Launch(t=2.0, grid=(2, 1, 1), device="cpu", args=()))
    assert [launch.t for launch in kernel.trace.runs.launches] == [1.0, 2.0]


def test_many_compilations_keep_no_more_than_the_limit(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(KEPT, "limit", 400_000)
    kernels = [compiled(block) for block in range(1, 13)]
    held = [kernel._compiled is not None for kernel in kernels]
    assert held[-1]
    assert held.count(True) < 6
    assert "tile.load" in kernels[0].asm["tile"]


def test_what_means_something_else_by_now_is_not_shown(monkeypatch: pytest.MonkeyPatch):
    kernel = compiled(16)
    assert kernel.release()
    monkeypatch.setitem(globals(), "SCALE", tl.constexpr(3))
    with pytest.raises(CompileError, match="has changed") as caught:
        _ = kernel.module
    assert caught.value.code == "K407"
