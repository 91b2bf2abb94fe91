"""Functions of the language with arguments of every sort: refused with a place, or compiled."""

from __future__ import annotations

import inspect
import random

import pytest

import workbench.language as tl
from workbench import run_cell
from workbench.source import KernelError

NAMES = sorted(
    name
    for name, value in vars(tl).items()
    if not name.startswith("_") and callable(value) and not inspect.isclass(value)
)
#: A tile, a block pointer, a pointer, numbers, things that are no value of a kernel.
SORTS = (
    *("x", "i", "x[:, None]", "b", "p", "n", "1", "0.5", "None", "True", "(1, (2,))", "(i,)"),
    *("[1]", "'s'", "tl.float32", "tl", "lambda a: a"),
    *("10 ** 400", "1 << 8000", "-(10 ** 30)", "10 ** 9", "1e400", "'s' * 10 ** 9", "(1,) * 5000"),
)
#: Calls that once ended in another exception.
FOUND = (
    "umulhi(tl, x)",
    "umulhi(0.5, None)",
    "make_block_ptr(p, (4, 4), (4, 1), (0, 0), (4, 4), (0, (1,)))",
    "associative_scan((x, x), 0, tl.cos)",
    "associative_scan((x, x), 0, tl.arange)",
)
KERNEL = """
def kernel(p, o, n):
    i = tl.arange(0, 16)
    x = tl.load(p + i)
    b = tl.make_block_ptr(p, (n,), (1,), (0,), (16,), (0,))
    y = tl.{call}
    tl.store(o + i, x)
"""
COUNT = 600


def call(seed: int) -> str:
    """Return the call of a seed: each function in turn."""
    choose = random.Random(seed)
    given = [choose.choice(SORTS) for _ in range(choose.randint(0, 4))]
    return f"{NAMES[seed % len(NAMES)]}({', '.join(given)})"


def refusal(text: str) -> KernelError | None:
    """Compile a kernel with a call; return the error that it ends with, if one of ours."""
    try:
        run_cell(
            KERNEL.format(call=text),
            'kernel --sig "*f32 *f32 i32" --target interpreter --no-cache -q', {},
        )  # fmt: skip
    except KernelError as error:
        return error
    except Exception as error:
        raise AssertionError(f"tl.{text}") from error
    return None


@pytest.mark.parametrize("first", range(0, COUNT, 200))
def test_calls_are_refused_with_a_place_or_compiled(first: int):
    found = [(call(seed), refusal(call(seed))) for seed in range(first, first + 200)]
    assert [text for text, error in found if error is not None and error.span is None] == []
    assert {error is None for _, error in found} == {True, False}


@pytest.mark.parametrize("text", FOUND)
def test_what_once_was_no_refusal_is_one(text: str):
    error = refusal(text)
    assert error is not None
    assert error.span is not None
