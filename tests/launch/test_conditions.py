"""Conditions mean the same evaluated, as Python text, as native code and in C."""

from __future__ import annotations

import ctypes
import shutil
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workbench.analysis.ranges import IndexProgram, Step
from workbench.launch import native, native_code
from workbench.launch.conditions import Builder, c_lines, joined, python_lines
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
    signs = (0,) if draw(st.booleans()) else ()
    return IndexProgram(tuple(steps), tuple(range(len(steps))), signs)


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


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(index_programs(), min_size=40, max_size=40), st.data())
def test_c_says_what_the_intervals_say(tmp_path_factory, programs, data):
    values = [[abs(data.draw(numbers)) % 2**62 for _ in NAMES] for _ in programs]
    grids = [[data.draw(extents), data.draw(extents), 1] for _ in programs]
    places = tuple((name, place, False) for place, name in enumerate(NAMES))
    widths = [width_program(program, places) for program in programs]
    functions = []
    for number, width in enumerate(widths):
        lines, _ = c_lines(width, NAMES, ("x", "y", "z"), "return 0;")
        body = "\n".join(lines)
        head = f"int fits{number}(int64_t x, int64_t y, int64_t z, int64_t n, int64_t m)"
        functions.append(
            f"{head}\n{{\n(void)x, (void)y, (void)z, (void)n, (void)m;\n{body}\nreturn 1;\n}}"
        )
    folder = tmp_path_factory.mktemp("c")
    (folder / "fits.c").write_text("#include <stdint.h>\n" + "\n".join(functions))
    command = ["cc", "-O1", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o", "fits.so"]
    subprocess.run([*command, "fits.c"], cwd=folder, check=True)
    library = ctypes.CDLL(str(folder / "fits.so"))
    for number, program in enumerate(programs):
        expected = program.fits(dict(zip(NAMES, values[number], strict=True)), grids[number])
        given_ = map(ctypes.c_int64, (*grids[number], *values[number]))
        assert getattr(library, f"fits{number}")(*given_) == expected


def test_two_programs_joined_require_what_both_do():
    first, second = Builder(), Builder()
    first.require(first.between(first.argument(0), 2, 9))
    second.require(second.between(second.apply("add", second.argument(1), second.extent(1)), 5, 7))
    program = joined(first.finish(), second.finish())
    for a, b, extent, holds in ((3, 2, 4, True), (1, 2, 4, False), (3, 2, 1, False)):
        assert (program.evaluate((a, b), (9, extent, 9)) is not None) == holds


def test_what_never_holds_is_required_all_the_same():
    build = Builder()
    build.require(build.constant(0))
    assert build.finish().evaluate((), ()) is None
