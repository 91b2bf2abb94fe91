"""Every op on the CPU target gives what the interpreter gives."""

import numpy as np
import pytest

from tests.ops.examples import Example, all_examples, elementwise_example
from tests.targets.cpu.running import run_both
from workbench import ops
from workbench.ir import SCALARS, Pointer, Scalar
from workbench.ops.numbers import decode
from workbench.targets.cpu import CHUNKS, CPU

#: Units in the last place by which a function may differ from the interpreter's (see polynomials).
ULPS = {"rsqrt": 2, "sqrt": 1, "fma": 1, "div": 0}
_FLOATS = ("f16", "bf16", "f32", "f64", "f8e4m3", "f8e5m2")
_INTEGERS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")


def assert_close(element: Scalar, want: np.ndarray, got: np.ndarray, ulps: float) -> None:
    """Compare memory of a type: exactly, or within units in the last place of its mantissa."""
    want_values, got_values = decode(want, element), decode(got, element)
    if not element.is_float:
        np.testing.assert_array_equal(got_values, want_values)
        return
    mantissa = {"f64": 52, "f32": 23, "f16": 10, "bf16": 7, "f8e4m3": 3, "f8e5m2": 2}[element.name]
    np.testing.assert_allclose(
        got_values.astype(np.float64), want_values.astype(np.float64), rtol=ulps * 2.0**-mantissa,
        atol=0 if not ulps else 2.0**-120, equal_nan=True,
    )  # fmt: skip


def check(example: Example, ulps: float = 2, *, passes: bool = True) -> None:
    module = example.module()
    arguments = example.arguments()
    if example.name in ("tile.shl", "tile.shr"):  # a negative amount means nothing
        arguments[1] &= 127
    for name, want, got in run_both(module, (1,), arguments, passes=passes):
        (type_,) = (p.value.type for p in module.parameters if p.name == name)
        assert isinstance(type_, Pointer)
        assert_close(type_.pointee, want, got, ulps)


@pytest.mark.parametrize("example", all_examples(), ids=lambda e: e.name)
def test_example(example: Example):
    check(example)


@pytest.mark.parametrize("example", all_examples(), ids=lambda e: e.name)
def test_example_without_passes(example: Example):
    check(example, passes=False)


@pytest.mark.parametrize("element", [*_FLOATS, *_INTEGERS, "i1"])
@pytest.mark.parametrize("function", list(ops.FUNCTIONS))
def test_function_of_every_type(function: str, element: str):
    takes = ops.FUNCTIONS[function].takes
    scalar = SCALARS[element]
    if takes == "float" and not scalar.is_float or takes == "integer" and scalar.is_float:
        pytest.skip(f"{function} takes no {element}")
    if element == "i1" and function not in ("and", "or", "xor", "add", "mul", "eq", "lt", "max"):
        pytest.skip("no such function of truth values")
    check(elementwise_example(function, element, "37x"))


def test_every_op_has_a_rule():
    from workbench.ir import MNEMONICS

    tile_ops = {op for name, op in MNEMONICS.items() if not name.startswith(("nvidia.", "gpu."))}
    missing = [op for op in tile_ops if CPU.rule(op) is None and CHUNKS.rule(op) is None]
    assert missing == []
