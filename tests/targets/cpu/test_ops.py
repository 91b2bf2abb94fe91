"""Every op on the CPU target gives what the interpreter gives."""

import numpy as np
import pytest

from tests.ops.examples import Example, all_examples, elementwise_example, wrap
from tests.targets.cpu.running import run_both
from workbench import ops
from workbench.ir import SCALARS, Pointer, Scalar
from workbench.ops.numbers import decode, memory_dtype
from workbench.targets.cpu import CHUNKS, CPU

#: Units in the last place by which a function may differ from the interpreter's (see polynomials).
ULPS = {"lgamma": 1 << 14}
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


def _takes(function: str, element: str) -> bool:
    takes = ops.FUNCTIONS[function].takes
    if element == "i1":
        return function in ("and", "or", "xor", "add", "mul", "eq", "lt", "max")
    return takes not in ("float", "integer") or (takes == "float") == SCALARS[element].is_float


def _narrow(function: str) -> str:
    """Return one of the types that every function computes in f32: each function has another."""
    narrow = ("bf16", "f8e4m3", "f8e5m2")
    return narrow[list(ops.FUNCTIONS).index(function) % len(narrow)]


@pytest.mark.parametrize(
    ("function", "element"),
    [(f, e) for f in ops.FUNCTIONS for e in ("f16", _narrow(f), "f32", "f64", *_INTEGERS, "i1")
     if _takes(f, e)],
)  # fmt: skip
def test_function_of_every_type(function: str, element: str):
    check(elementwise_example(function, element, "37x"), ULPS.get(function, 2))


_TYPES = (*_FLOATS, *_INTEGERS, "i1")
_CASTS = [
    *((source, to, "rtne") for source in _TYPES for to in _TYPES),
    *((source, to, "rtz") for source in _FLOATS for to in _FLOATS),
]


@pytest.mark.parametrize(("source", "to", "rounding"), _CASTS)
def test_cast_between_all_types(source: str, to: str, rounding: str):
    line = f'%1 = tile.cast %0 {{to = {to}, rounding = "{rounding}"}} : tile<37x{to}>'
    check(wrap("tile.cast", [line], {"%0": f"tile<37x{source}>"}), ulps=0)


@pytest.mark.parametrize("to", ["f8e4m3", "f8e5m2", "bf16", "f16"])
@pytest.mark.parametrize("rounding", ["rtne", "rtz"])
def test_rounding_of_every_kind_of_number(to: str, rounding: str):
    """Ties, subnormals, overflow, infinities and NaN."""
    line = f'%1 = tile.cast %0 {{to = {to}, rounding = "{rounding}"}} : tile<256x{to}>'
    example = wrap("tile.cast", [line], {"%0": "tile<256xf32>"})
    random = np.random.default_rng(3)
    values = np.ldexp(random.integers(-255, 256, 256), random.integers(-40, 25, 256))
    values[:8] = [np.inf, -np.inf, np.nan, 0.0, -0.0, 3.4e38, 1e-40, 464.0]
    out = np.zeros(256, memory_dtype(SCALARS[to]))
    source = values.astype(np.float32)
    for name, want, got in run_both(example.module(), (1,), [source, out]):
        if name == "r1":
            assert_close(SCALARS[to], want, got, 0)


def test_every_op_has_a_rule():
    from workbench.ir import MNEMONICS

    tile_ops = {op for op in MNEMONICS.values() if op.__module__.startswith("workbench.ops.")}
    missing = [
        op
        for op in tile_ops
        if CPU.rule(op) is None and CHUNKS.rule(op) is None and op not in CPU.unsupported
    ]
    assert missing == []
