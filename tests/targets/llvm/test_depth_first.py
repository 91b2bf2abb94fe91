"""Runs of pure code keep their meaning, and hold less where they are ordered by need."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.passes.meaning import cases
from workbench.targets.llvm.depth_first import depth_first, most_alive


def test_chains_are_written_one_after_the_other():
    steps, count = 5, 8
    chains = [
        [
            f"  %v{100 + 10 * step + i} = fadd float %v{90 + 10 * step + i}, 1.0"
            for i in range(count)
        ]
        for step in range(steps)
    ]
    loads = [f"  %v{90 + i} = load float, ptr %p" for i in range(count)]
    stores = [f"  store float %v{140 + i}, ptr %p" for i in range(count)]
    wide = [line for step in chains for line in step]
    pure = {line.split()[0] for line in wide}
    deep = [step[i] for i in range(count) for step in chains]
    # Each link uses one value up and makes one: nothing is gained.
    assert depth_first([*loads, *wide, *stores], pure) == [*loads, *wide, *stores]
    # The first value of a chain is needed at its end, too.
    last = [f"  %v{150 + i} = fmul float %v{140 + i}, %v{100 + i}" for i in range(count)]
    wide += last
    pure |= {line.split()[0] for line in last}
    deep = [line for i in range(count) for line in (*(s[i] for s in chains), last[i])]
    stores = [line.replace("%v14", "%v15") for line in stores]
    assert depth_first([*loads, *wide, *stores], pure) == [*loads, *deep, *stores]


def test_values_are_alive_from_where_they_are_made_to_their_last_use():
    lines = [
        "  %v1 = load float, ptr %p",
        "  %v2 = getelementptr float, ptr %p, i32 1, !dbg !7",
        "  %v3 = fcmp olt float %v1, 0.0",
        "  %v4 = load float, ptr %v2",
        "  %v5 = select i1 %v3, float %v1, float %v4",
        "  store float %v5, ptr %v2",
        "  %v6 = add i64 %n, 1",
    ]
    assert [most_alive(lines[:n]) for n in range(len(lines) + 1)] == [0, 0, 0, 1, 3, 3, 4, 4]


@st.composite
def functions(draw: st.DrawFn) -> tuple[list[str], set[str]]:
    """Draw lines of which each reads some of those before, and the names of the pure ones."""
    lines, pure = list[str](), set[str]()
    for number in range(draw(st.integers(1, 60))):
        earlier = st.integers(max(0, number - 20), number - 1) if number else st.nothing()
        used = draw(st.lists(earlier, max_size=3)) if number else []
        operands = ", ".join(f"%v{i}" for i in used)
        lines.append(f"  %v{number} = call float @f({operands}), !dbg !{number}")
        if draw(st.integers(0, 9)):
            pure.add(f"%v{number}")
    return lines, pure


@given(functions())
@cases(60)
def test_lines_follow_what_they_read_and_do_not_pass_effects(drawn: tuple[list[str], set[str]]):
    lines, pure = drawn
    found = depth_first(lines, pure)
    assert sorted(found) == sorted(lines)
    run = 0
    runs: dict[str, int] = {}
    for line in lines:
        name = line.split()[0]
        run += name not in pure
        runs[name] = run
        run += name not in pure
    seen = set[str]()
    order: list[int] = []
    for line in found:
        name, operands = line.split()[0], line[line.index("(") + 1 : line.index(")")]
        assert {v for v in operands.split(", ") if v} <= seen
        seen.add(name)
        order.append(runs[name])
    assert order == sorted(order)
