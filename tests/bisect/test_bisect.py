"""Some of the planted faults; `python -m tests.bisect.run` has all of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.bisect.asking import (
    ask_about_compiler,
    ask_about_source,
    lists_line,
    names_line,
    names_pass_and_op,
)
from tests.bisect.compiler_faults import (
    COMPILER_FAULTS,
    CompilerFault,
    first_operand,
    same_id,
    target_pass,
)
from tests.bisect.kernels import GROUNDS, Ground
from tests.bisect.source_faults import SOURCE_FAULTS, SourceFault
from workbench import run_cell
from workbench.ir import parse_module
from workbench.ir.rebuild import rebuild
from workbench.magics import registry
from workbench.magics.questioning import bisect
from workbench.questions import suspects
from workbench.questions.aligning import by_id, first_parting
from workbench.questions.running import Bench
from workbench.source import CheckError, KernelError, OptionError
from workbench.targets.nvidia import pipeline as nvidia_pipeline

#: One in a rule, a pass for the CPU, a pass for a chip, a lowering, a loop's lowering.
SOME_COMPILER = [COMPILER_FAULTS[n] for n in (0, 4, 5, 14, 18)]
#: A constant, a missing op, a carried value; alone only where the slice itself has the line.
SOME_SOURCES = [SOURCE_FAULTS[n] for n in (0, 8, 19)]
SOME_ALONE = [SOURCE_FAULTS[n] for n in (3, 17)]


@pytest.fixture(autouse=True)
def _nothing_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WORKBENCH_CACHE_DIR", "")
    yield
    registry.clear()


@pytest.mark.parametrize("fault", SOME_COMPILER, ids=lambda fault: fault.name)
def test_a_fault_of_the_compiler_is_named_at_its_pass_and_op(fault: CompilerFault):
    answer, _ = ask_about_compiler(fault)
    assert names_pass_and_op(fault, answer), answer.text


@pytest.mark.parametrize("fault", SOME_SOURCES, ids=lambda fault: fault.name)
def test_beside_a_right_version_the_line_is_named(fault: SourceFault):
    answer, _ = ask_about_source(fault, beside=True)
    assert answer.verdict == "version"
    assert names_line(fault, answer), answer.text
    assert answer.data()["op"]["place"]["line"] == fault.line()


@pytest.mark.parametrize("fault", SOME_ALONE, ids=lambda fault: fault.name)
def test_alone_the_line_is_in_the_slice(fault: SourceFault):
    answer, _ = ask_about_source(fault, beside=False)
    assert answer.sentences[0].startswith(("the code does what the source says", "no program"))
    assert lists_line(fault, answer), answer.text


def test_faults_are_twenty_each():
    assert len(COMPILER_FAULTS) == len(SOURCE_FAULTS) == 20
    assert len({fault.name for fault in COMPILER_FAULTS}) == 20


def test_without_arguments_it_says_what_to_give():
    from workbench import jit, tl

    @jit
    def copy(x_ptr, out_ptr):
        tl.store(out_ptr, tl.load(x_ptr))

    with pytest.raises(OptionError, match="what are the arguments of copy") as caught:
        bisect(copy)
    assert caught.value.code == "K110"


#: Its offsets along k are needed in two layouts, and its products are of f32.
ROUNDS = Ground(
    """
def rounds(a, b, o, N, B: tl.constexpr):
    r = tl.arange(0, B)
    total = tl.zeros((B, B), tl.float32)
    for k in range(0, N, B):
        kk = k + tl.arange(0, B)
        x = tl.load(a + r[:, None] * N + kk[None, :], mask=(kk < N)[None, :], other=0.0)
        y = tl.load(b + kk[:, None] * B + r[None, :], mask=(kk < N)[:, None], other=0.0)
        total = tl.dot(x, y, total)
    z = total - tl.sum(total, axis=1)[:, None] / B
    tl.store(o + r[:, None] * B + r[None, :], tl.exp(z) - 1.0)
""",
    lambda: {
        "a": torch.randn(16, 40) * 0.3, "b": torch.randn(40, 16) * 0.3, "o": torch.zeros(16, 16),
        "want": lambda a, b: torch.exp((p := a @ b) - p.mean(1, keepdim=True)) - 1,
    },
    '--args a,b,o,40 --grid 1 --set B=16 --check "want(a, b)"',
)  # fmt: skip


def test_a_value_in_two_layouts_is_no_fault(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(GROUNDS, "rounds", ROUNDS)
    plant = target_pass(nvidia_pipeline, "assign_layouts", first_operand("exp"))
    fault = CompilerFault("rounds", "sm_90a", "assign-layouts", "tile.exp", plant)
    answer, _ = ask_about_compiler(fault)
    assert names_pass_and_op(fault, answer), answer.text


def test_where_the_target_multiplies_exactly_a_change_that_helps_is_seen(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setitem(GROUNDS, "rounds", ROUNDS)
    monkeypatch.setattr(suspects, "SECONDS_MORE", 0.0)
    fault = SourceFault("rounds", "(kk < N)[:, None]", "(kk < N - 1)[:, None]")
    answer, _ = ask_about_source(fault, beside=False)
    assert answer.rows[0].span.line == fault.line(), answer.text
    assert "likely wrong" in answer.text


ADVANCED = Ground(
    """
def advanced(x, o, N, stride, B: tl.constexpr):
    p = x + tl.arange(0, B) * stride
    total = tl.zeros((B,), tl.float32)
    for k in range(0, N, B):
        total += tl.load(p)
        p += B * stride
    tl.store(o + tl.arange(0, B), total)
""",
    lambda: {"x": torch.randn(128), "o": torch.zeros(16)},
    '--args x,o,64,2 --grid 1 --set B=16 --check "x[::2].reshape(4, 16).sum(0)"',
)


def test_a_step_that_forgets_the_size_of_a_block_is_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(GROUNDS, "advanced", ADVANCED)
    monkeypatch.setattr(suspects, "SECONDS_MORE", 0.0)
    fault = SourceFault("advanced", "p += B * stride", "p += stride")
    answer, _ = ask_about_source(fault, beside=False)
    assert answer.rows[0].span.line == fault.line(), answer.text
    assert "with 'stride * 16' all that" in answer.text


UNREACHED = (
    "kernel @k(%p: ptr<f32>) {\n"
    "  %x = tile.load %p : f32\n"
    "  %w = tile.add [%x, %x] : f32\n"
    "  %y = tile.ge [%w, %x] : i1\n"
    "  %z = tile.cast %y {to = f32} : f32\n"
    "  tile.store %p, %z\n"
    "  tile.return\n"
    "}"
)


@pytest.mark.parametrize(
    ("planted", "how", "ops"),
    [
        (["ge"], "kept", ("tile.ge", "tile.lt")),
        (["add", "ge"], "value", ("tile.add", "tile.sub")),  # what went wrong in front of it
    ],
)
def test_an_op_that_was_not_reached_is_named_by_what_became_of_it(
    planted: list[str], how: str, ops: tuple[str, str]
):
    """A run that an error ended: products under way hold nothing yet, which says nothing."""
    before = after = parse_module(UNREACHED)
    for name in planted:
        after = rebuild(after, same_id(name, {"ge": "lt", "add": "sub"}[name]))
    bench = Bench({"p": np.ones(1, np.float32)}, ["p"])
    right = bench.run(before, (1,), (0, 0, 0), keep=True)
    wrong = bench.run(after, (1,), (0, 0, 0), keep=True)
    wrong.events[2:] = []
    wrong.error = KernelError("a deadlock")
    found = first_parting(right, wrong, by_id(before, after))
    assert found is not None
    assert found.wrong is not None
    assert (found.how, found.op.name, found.wrong.op.name) == (how, *ops)


NOT_WHOLE = {
    "sum of bytes": (
        "acc = tl.zeros((B,), tl.int8)\n    for k in range(2):\n"
        "        acc += tl.load(x + k * B + at)\n    tl.store(o + at, acc.to(tl.int32))",
        torch.full((32,), 100, dtype=torch.int8), "x[:16].int() + x[16:].int()",
        "100 + 100 is 200, which i8 does not hold",
    ),
    "fraction": (
        "v = tl.load(x + at).to(tl.int32)\n    tl.store(o + at, v * 2)",
        torch.full((32,), 2.75), "(2 * x[:16]).int()", "made of 2.75, without its fraction",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_WHOLE)
def test_what_an_integer_has_no_room_for_is_said(name: str):
    body, x, want, said = NOT_WHOLE[name]
    names = {"torch": torch, "x": x, "o": torch.zeros(16, dtype=torch.int32)}
    text = f"def f(x, o, B: tl.constexpr):\n    at = tl.arange(0, B)\n    {body}\n"
    line = f'f --args x,o --grid 1 --set B=16 --check "{want}" --target cpu'
    with pytest.raises(CheckError):
        run_cell(text, line, names)
    assert said in bisect(names["f"], namespace=names).text
