"""Loop hints: obeyed or answered by a remark at the loop, never a change of what comes out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.execution import execute
from tests.language.harness import Typed, error_of, from_text, lowered
from workbench.frontend import Options
from workbench.ir import I32, I64, U32, Module
from workbench.ops import Constant, For
from workbench.passes.manager import Recorder
from workbench.passes.pipeline import tile_passes
from workbench.source import ConstexprError
from workbench.targets.cpu import pipeline as cpu
from workbench.targets.nvidia import pipeline as nvidia

FACTORS = (1, 2, 3, 4, 8)
RANGES = [
    (0, 0, 1), (0, 1, 1), (0, 7, 1), (0, 8, 1), (3, 20, 1), (5, 3, 1), (-5, 9, 2), (0, 17, 3),
    (7, 0, -1), (8, 0, -1), (20, -3, -3), (3, 5, -1), (100, 1, -7),
]  # fmt: skip


def _loop(bounds: str, hints: str) -> Any:
    """Return a kernel that carries a scalar, a tile and a pointer, and stores in every round."""
    return from_text(f"""
        def kernel(out, x, lower, upper, step, L: tl.constexpr, U: tl.constexpr, S: tl.constexpr):
            i = tl.arange(0, 4)
            total = tl.zeros((), tl.int32)
            mixed = tl.zeros((4,), tl.int32)
            p = out + 16 + i
            for k in tl.range({bounds}{hints}):
                total = total * 3 + k
                mixed = mixed ^ (tl.load(x + i) * k + total)
                tl.store(p, mixed)
                p += 4
            tl.store(out, total)
            tl.store(out + 4 + i, mixed)
    """)


def _want(x: np.ndarray, bounds: tuple[int, int, int]) -> np.ndarray:
    out, total, mixed, place = np.zeros(512, np.int32), np.int32(0), np.zeros(4, np.int32), 16
    with np.errstate(all="ignore"):
        for k in range(*bounds):
            total = np.int32(total * np.int32(3) + np.int32(k))
            mixed = mixed ^ (x * np.int32(k) + total)
            out[place : place + 4], place = mixed, place + 4
    out[0], out[4:8] = total, mixed
    return out


def _run(module: Module, arguments: dict[str, Any], target: str) -> None:
    names = {p.name for p in module.parameters}
    given = [v.value if isinstance(v, Typed) else v for n, v in arguments.items() if n in names]
    execute(module, (1,), given, target)


@pytest.mark.parametrize("target", ["interpreter", "cpu", "sm_90a"])
@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("constants", [False, True])
def test_unrolled_loops_do_the_same_rounds(constants: bool, factor: int, target: str):
    x = np.array([3, -7, 11, 1 << 20], np.int32)
    chosen = RANGES if target != "sm_90a" else RANGES[::4]
    ready: Module | None = None
    for bounds in chosen:
        words = "L, U, S" if constants else "lower, upper, step"
        out = np.zeros(512, np.int32)
        values = dict(zip(("lower", "upper", "step"), bounds, strict=True))
        if constants or ready is None:
            lower, upper, step = bounds
            known, _ = lowered(
                _loop(words, f", loop_unroll_factor={factor}"), out=out, x=x, **values,
                L=lower, U=upper, S=step,
            )  # fmt: skip
            # The interpreter runs what the passes made; targets run the passes themselves.
            ready = tile_passes(known, Recorder()) if target == "interpreter" else known
        _run(ready, {"out": out, "x": x, **values}, target)
        assert (out == _want(x, bounds)).all(), (bounds, out[:24], _want(x, bounds)[:24])


@pytest.mark.parametrize("target", ["interpreter", "cpu"])
@pytest.mark.parametrize(("element", "wrap"), [(I64, False), (U32, False), (I32, True)])
def test_counters_of_every_type_are_unrolled(element: Any, wrap: bool, target: str):
    """Bounds at the ends of 32 bits too: no sum on the way may leave the type."""
    high = {I64: 2**40, U32: 2**32 - 1, I32: 2**31 - 1}[element]
    ranges = [(0, 11, 1), (high - 10, high, 3), (5, 5, 1), (high - 3, high, 1)]
    if element == I32:
        ranges += [
            (-(2**31), -(2**31) + 9, 2),
            (2**31 - 1, 2**31 - 10, -2),
            (4, -(2**31), -(2**29)),
        ]
    function = from_text("""
        def kernel(out, lower, upper, step):
            total = tl.zeros((), tl.int64)
            for k in tl.range(lower, upper, step, loop_unroll_factor=3):
                total = total * 31 + k.to(tl.int64)
            tl.store(out, total)
    """)
    for bounds in ranges:
        out = np.zeros(1, np.int64)
        values = {
            name: Typed(value, I32 if element == U32 and name == "step" and value < 0 else element)
            for name, value in zip(("lower", "upper", "step"), bounds, strict=True)
        }
        module, _ = lowered(function, options=Options(wrap_index=wrap), out=out, **values)
        ready = tile_passes(module, Recorder()) if target == "interpreter" else module
        _run(ready, {"out": out, **values}, target)
        want = np.int64(0)
        with np.errstate(all="ignore"):
            for k in range(*bounds):
                want = np.int64(want * np.int64(31) + np.int64(k))
        assert out[0] == want, (bounds, out, want)


def _passed(function: Any, **values: Any) -> tuple[Module, Recorder]:
    module, _ = lowered(function, **values)
    recorder = Recorder()
    return tile_passes(module, recorder), recorder


def _loops(module: Module) -> list[For]:
    return [op for op in module.walk() if isinstance(op, For)]


@pytest.mark.parametrize(("rounds", "loops"), [(8, 1), (7, 1), (3, 1), (4, 0), (0, 1)])
def test_known_trip_counts_leave_no_empty_loop(rounds: int, loops: int):
    x, out = np.zeros(4, np.int32), np.zeros(512, np.int32)
    function = _loop("L, U, S", ", loop_unroll_factor=4")
    values = dict.fromkeys(("lower", "upper", "step"), 1)
    module, recorder = _passed(function, out=out, x=x, **values, L=0, U=rounds, S=1)
    found = _loops(module)
    assert len(found) <= loops
    assert not any(hint[0] == "loop_unroll_factor" for loop in found for hint in loop.hints)
    if rounds >= 8:  # what runs once is no loop
        step = found[0].step.op
        assert isinstance(step, Constant)
        assert step.value == 4
    text = (
        f"loop_unroll_factor=4: 4 rounds at once, {rounds // 4} times, and {rounds % 4} left over"
    )
    notes = [r for r in recorder.remarks.items if "unroll" in r.text]
    if rounds < 4:
        text = f"loop_unroll_factor=4 is not obeyed: the loop has {rounds} rounds"
    said = [(text, 6)] if rounds else []  # a loop without rounds is gone before
    assert [(r.text, r.span.line if r.span else 0) for r in notes] == said


def test_nested_loops_are_unrolled_each():
    function = from_text("""
        def kernel(out, n):
            total = tl.zeros((), tl.int32)
            for i in tl.range(0, n, loop_unroll_factor=2):
                for j in tl.range(0, i, loop_unroll_factor=3):
                    total = total * 5 + i * 7 + j
            tl.store(out, total)
    """)
    for target in ("interpreter", "cpu"):
        for n in range(8):
            out = np.zeros(1, np.int32)
            module, _ = lowered(function, out=out, n=n)
            ready = tile_passes(module, Recorder()) if target == "interpreter" else module
            execute(ready, (1,), [out, n], target)
            want = np.int32(0)
            with np.errstate(all="ignore"):
                for i in range(n):
                    for j in range(i):
                        want = np.int32(want * np.int32(5) + np.int32(i * 7 + j))
            assert out[0] == want


def test_a_body_too_long_is_left_as_it_is():
    x, out = np.zeros(4, np.int32), np.zeros(512, np.int32)
    function = _loop("0, upper, 1", ", loop_unroll_factor=100000")
    values = dict.fromkeys(("lower", "upper", "step", "L", "U", "S"), 1)
    module, recorder = _passed(function, out=out, x=x, **values)
    assert len(_loops(module)) == 1
    assert any("is not obeyed: the body would have" in r.text for r in recorder.remarks.items)


def test_invariants_stay_where_licm_is_disabled():
    function = from_text("""
        def kernel(out, x, n, HINT: tl.constexpr):
            a = tl.load(x)
            total = tl.zeros((), tl.float32)
            for i in tl.range(0, n, disable_licm=HINT):
                total += tl.exp(a)
            tl.store(out, total)
    """)
    one = np.zeros(1, np.float32)
    for hint, inside in ((False, 0), (True, 1)):
        module, recorder = _passed(function, out=one, x=one, n=3, HINT=hint)
        (loop,) = _loops(module)
        assert sum(op.name == "tile.exp" for op in loop.body.ops) == inside
        assert any("disable_licm" in r.text for r in recorder.remarks.items) == hint


# -- what is answered -----------------------------------------------------------------------------
def _remarks(target: str, text: str, **values: Any) -> list[tuple[int, str]]:
    module, remarks = lowered(from_text(text), **values)
    recorder = Recorder()
    module = replace(module, attributes={**module.attributes, "num_warps": 4})
    build = cpu.build if target == "cpu" else nvidia.build
    build(tile_passes(module, recorder), target, recorder)
    found = [*remarks.items, *recorder.remarks.items]
    return [(r.span.line if r.span else 0, r.text) for r in found if "not obeyed" in r.text]


PLAIN = """
    def kernel(out, n):
        total = tl.zeros((), tl.int32)
        for i in tl.range(0, n, {hint}):
            total += i
        tl.store(out, total{store})
"""


@pytest.mark.parametrize("target", ["cpu", "sm_90a"])
@pytest.mark.parametrize(
    "hint",
    ["flatten=True", "warp_specialize=True", "disallow_acc_multi_buffer=True", "num_stages=4"],
)
def test_hints_that_are_not_obeyed_are_answered(hint: str, target: str):
    out = np.zeros(1, np.int32)
    found = _remarks(target, PLAIN.format(hint=hint, store=""), out=out, n=3)
    found = [(line, text) for line, text in found if line]
    assert len(found) == 1
    assert found[0][0] == 3
    assert found[0][1].startswith(f"{hint} is not obeyed: ")
    assert len(found[0][1]) > len(hint) + 30


@pytest.mark.parametrize("target", ["cpu", "sm_90a"])
def test_answers_come_once_however_often_a_loop_is_unrolled(target: str):
    hint = "loop_unroll_factor=4, flatten=True"
    found = _remarks(target, PLAIN.format(hint=hint, store=""), out=np.zeros(1, np.int32), n=3)
    assert sum("flatten" in text for _, text in found) == 1


@pytest.mark.parametrize("target", ["cpu", "sm_90a"])
def test_a_loop_that_may_be_left_early_answers_its_hints(target: str):
    text = """
        def kernel(out, n):
            total = tl.zeros((), tl.int32)
            for i in tl.range(0, n, num_stages=3, loop_unroll_factor=4):
                total += i
                if total > 10:
                    break
            tl.store(out, total)
    """
    found = _remarks(target, text, out=np.zeros(1, np.int32), n=3)
    said = [text for line, text in found if line == 3]
    assert len(said) == 2
    assert all("may be left early" in text for text in said)


def test_memory_hints_are_answered_by_target():
    both = ', cache_modifier=".cg", eviction_policy="evict_first"'
    text = PLAIN.format(hint="num_stages=1", store=both)
    found = _remarks("cpu", text, out=np.zeros(1, np.int32), n=3)
    assert [line for line, _ in found if line] == [5, 5]
    found = _remarks("sm_90a", text, out=np.zeros(1, np.int32), n=3)
    assert [(line, text.split("'")[0]) for line, text in found] == [(5, "eviction_policy ")]
    assert "cache_modifier has it" in found[0][1]


# -- what is refused ------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("hint", "message"),
    [
        ("num_stages=-1", "num_stages of a loop is an integer from 0 on, got -1"),
        ("num_stages=2.0", "num_stages of a loop is an integer from 0 on, got 2.0"),
        ("num_stages=True", "num_stages of a loop is an integer from 0 on, got True"),
        ("num_stages='two'", "num_stages of a loop is an integer from 0 on, got 'two'"),
        ("loop_unroll_factor=0", "loop_unroll_factor of a loop is an integer from 1 on, got 0"),
        ("loop_unroll_factor=-4", "loop_unroll_factor of a loop is an integer from 1 on, got -4"),
        ("loop_unroll_factor=1.5", "loop_unroll_factor of a loop is an integer from 1 on"),
        ("flatten=2", "flatten is True or False, got 2"),
        ("warp_specialize='yes'", "warp_specialize is True or False, got 'yes'"),
        ("disable_licm=-1", "disable_licm is True or False, got -1"),
        ("disallow_acc_multi_buffer=0.5", "disallow_acc_multi_buffer is True or False, got 0.5"),
    ],
)
def test_values_that_a_hint_cannot_have_are_refused(hint: str, message: str):
    error = error_of(PLAIN.format(hint=hint, store=""), out=np.zeros(1, np.int32), n=3)
    assert isinstance(error, ConstexprError)
    assert message in error.message
    assert error.span is not None
    assert error.span.line == 3


@pytest.mark.parametrize("name", ["num_stages", "loop_unroll_factor", "flatten", "disable_licm"])
def test_hints_are_known_when_compiling(name: str):
    error = error_of(PLAIN.format(hint=f"{name}=n", store=""), out=np.zeros(1, np.int32), n=3)
    assert name in error.message
    assert error.span is not None
    assert error.span.line == 3


def test_an_unknown_hint_is_refused():
    text = PLAIN.format(hint="unroll=4", store="")
    assert "unroll" in error_of(text, out=np.zeros(1, np.int32), n=3).message
    text = PLAIN.replace("tl.range", "tl.static_range").format(hint="num_stages=2", store="")
    assert "num_stages" in error_of(text.replace("n, ", "4, "), out=None, n=3).message


@pytest.mark.parametrize("target", ["cpu", "sm_90a"])
@pytest.mark.parametrize("stages", [1, 3])
def test_unrolled_products_may_be_copied_ahead(stages: int, target: str):
    """Two rounds of loads and products in one, with 1 or no round left over, and a tail of K."""
    function = from_text("""
        def product(a, b, c, K, BK: tl.constexpr, STAGES: tl.constexpr):
            m, n, k = tl.arange(0, 32), tl.arange(0, 32), tl.arange(0, BK)
            rows = a + m[:, None] * K + k[None, :]
            columns = b + k[:, None] * 32 + n[None, :]
            total = tl.zeros((32, 32), tl.float32)
            for at in tl.range(0, K, BK, num_stages=STAGES, loop_unroll_factor=2):
                x = tl.load(rows, mask=k[None, :] < K - at, other=0.0)
                y = tl.load(columns, mask=k[:, None] < K - at, other=0.0)
                total = tl.dot(x, y, total)
                rows += BK
                columns += BK * 32
            tl.store(c + m[:, None] * 32 + n[None, :], total)
    """)
    random = np.random.default_rng(2)
    for extent in (16, 64, 72, 80):
        a, b = (random.integers(-3, 4, s).astype(np.float16) for s in ((32, extent), (extent, 32)))
        c = np.zeros((32, 32), np.float32)
        module, _ = lowered(function, a=a, b=b, c=c, K=extent, BK=16, STAGES=stages)
        execute(
            replace(module, attributes={**module.attributes, "num_warps": 4}), (1,),
            [a, b, c, extent], target,
        )  # fmt: skip
        assert (c == a.astype(np.float32) @ b.astype(np.float32)).all(), extent
