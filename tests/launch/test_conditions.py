"""Conditions mean the same evaluated, as Python text and as native code."""

from __future__ import annotations

import ctypes

from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.analysis.ranges import IndexProgram, Step
from workbench.launch import native, native_code
from workbench.launch.conditions import python_lines
from workbench.launch.index_width import width_program

NAMES = ("n", "m")

numbers = st.one_of(
    st.integers(-20, 20),
    st.builds(
        lambda sign, bits, more: sign * (1 << bits) + more,
        st.sampled_from([-1, 1]),
        st.sampled_from([10, 20, 21, 30, 31]),
        st.integers(-1, 1),
    ),
    st.integers(-(2**63), 2**63 - 1),
)
extents = st.sampled_from([1, 2, 77, 65535, 2**20, 2**31 - 1])


@st.composite
def index_programs(draw):
    """Draw steps of every kind over earlier ones, all of them closed."""
    steps = [Step("argument", (), ("n", -(2**31), 2**31 - 1)), Step("argument", (), ("m", 0, 100))]
    steps += [Step("program_id", (), (0,)), Step("num_programs", (), (1,))]
    counts = {
        "add": 2, "sub": 2, "mul": 2, "neg": 1, "abs": 1, "div": 2, "rem": 2, "min": 2, "max": 2,
        "shl": 2, "union": 2, "counter": 3, "past_end": 3, "carried": 5,
    }  # fmt: skip
    for _ in range(draw(st.integers(1, 6))):
        if draw(st.booleans()):
            low = draw(st.integers(-70, 5000))
            steps.append(Step("between", (), (low, low + draw(st.sampled_from([0, 0, 1, 1023])))))
        kind = draw(st.sampled_from(sorted(counts)))
        inputs = [draw(st.integers(0, len(steps) - 1)) for _ in range(counts[kind])]
        steps.append(Step(kind, tuple(inputs)))
    return IndexProgram(tuple(steps), tuple(range(len(steps))))


def run_native(program, values, grid):
    interpreter = native_code.interpreter_address()
    run = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 3)(interpreter)
    condition = native.Condition(program)
    arguments = (ctypes.c_int64 * len(values))(*values)
    return bool(run(condition.address, arguments, (ctypes.c_int64 * 3)(*grid)))


def run_text(program, values, grid):
    lines = [
        "def fits(x, y, z, n, m):",
        *python_lines(program, NAMES, "    ", "return False"),
        "    return True",
    ]
    space = {}
    exec("\n".join(lines), space)
    return space["fits"](*grid, *values)


@settings(max_examples=150, deadline=None)
@given(index_programs(), st.data())
def test_width_programs_say_what_the_intervals_say(program, data):
    for _ in range(4):
        values = [data.draw(numbers), data.draw(numbers)]
        grid = [data.draw(extents), data.draw(extents), 1]
        places = [(n, p, v < 0) for p, (n, v) in enumerate(zip(NAMES, values, strict=True))]
        width = width_program(program, tuple(places))
        expected = program.fits(dict(zip(NAMES, values, strict=True)), grid)
        assert (width.evaluate(values, grid) is not None) == expected
        assert run_text(width, values, grid) == expected
        assert run_native(width, values, grid) == expected
