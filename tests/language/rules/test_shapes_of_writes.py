"""What is written has the shape of where it goes: nothing but scalars and axes of 1 is widened."""

import pytest

from tests.language.harness import error_of, from_text, lowered
from workbench.source import ShapeError

REFUSED = [
    ("tl.atomic_add(x + i, tl.zeros((4, 8), tl.float32))", "value of shape (4, 8)"),
    ("tl.atomic_max(x + i, tl.zeros((4, 8), tl.float32))", "value of shape (4, 8)"),
    ("tl.atomic_xchg(x + i, tl.zeros((4, 8), tl.float32))", "value of shape (4, 8)"),
    ("tl.atomic_add(x + i, 1.0, mask=tl.zeros((4, 8), tl.int1))", "mask of shape (4, 8)"),
    ("tl.atomic_add(x, tl.zeros((8,), tl.float32))", "through a scalar pointer got a value"),
    ("tl.atomic_add(x, 1.0, mask=i < 4)", "through a scalar pointer got a mask"),
    ("tl.atomic_cas(n + i, tl.zeros((4, 8), tl.int32), 1)", "cmp of shape (4, 8)"),
    ("tl.atomic_cas(n + i, 0, tl.zeros((4, 8), tl.int32))", "value of shape (4, 8)"),
    ("tl.store(x + i, tl.zeros((4, 8), tl.float32))", "value of shape (4, 8)"),
    ("tl.store(block, tl.zeros((4,), tl.float32))", "a block of shape (4, 4) got"),
    ("tl.store(block, tl.zeros((4, 8), tl.float32))", "a block of shape (4, 4) got"),
    ("desc.store((0, 0), tl.zeros((4,), tl.float32))", "a block of shape (4, 4) got"),
    ("desc.store((0, 0), tl.zeros((1, 4), tl.float32))", "a block of shape (4, 4) got"),
    ("desc.store((0, 0), tl.zeros((1, 4, 4), tl.float32))", "a block of shape (4, 4) got"),
]
TAKEN = [
    "tl.atomic_add(x + i, 1.0)", "tl.atomic_add(x + i, tl.zeros((1,), tl.float32), mask=i < 4)",
    "tl.atomic_cas(n + i, 0, i)", "tl.store(block, tl.zeros((1, 4), tl.float32))",
    "tl.store(block, 0.0)", "desc.store((0, 0), tl.zeros((4, 4), tl.float32))",
    "desc.store((0, 0), 0.0)",
]  # fmt: skip


def _kernel(line: str) -> str:
    return f"""
        def kernel(x, n):
            i = tl.arange(0, 8)
            block = tl.make_block_ptr(x, (8, 8), (8, 1), (0, 0), (4, 4), (1, 0))
            desc = tl.make_tensor_descriptor(x, (8, 8), (8, 1), (4, 4))
            {line}
    """


@pytest.mark.parametrize(("line", "message"), REFUSED)
def test_what_would_be_written_several_times_is_refused(line: str, message: str, arrays):
    error = error_of(_kernel(line), **arrays)
    assert isinstance(error, ShapeError)
    assert message in error.message
    assert error.span is not None
    assert error.span.line == 5


@pytest.mark.parametrize("line", TAKEN)
def test_scalars_and_axes_of_1_are_widened(line: str, arrays):
    lowered(from_text(_kernel(line)), **arrays)


@pytest.mark.parametrize("limit", ["-1", "'all'", "2.5", "True"])
@pytest.mark.parametrize("dtype", ["float16", "float8e5"])
def test_a_limit_of_sums_is_a_number(limit: str, dtype: str, arrays):
    error = error_of(
        _kernel(f"tl.dot(tl.zeros((16, 16), tl.{dtype}), tl.zeros((16, 16), tl.{dtype}), "
                f"max_num_imprecise_acc={limit})"), **arrays)  # fmt: skip
    assert "max_num_imprecise_acc is a number of K" in error.message


@pytest.fixture
def arrays():
    import numpy as np

    return {"x": np.zeros(64, np.float32), "n": np.zeros(64, np.int32)}
