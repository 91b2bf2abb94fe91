"""Every op's docstring example is real IR: it parses, verifies, prints back, and runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.analysis.watching import Watched, watch
from tests.ops.examples import Example, all_examples
from workbench.interpreter import run_module
from workbench.ir import (
    I1,
    Array,
    Op,
    Value,
    element_of,
    parse_module,
    print_module,
    shape_of,
    verify_module,
)


@pytest.mark.parametrize("example", all_examples(), ids=lambda e: e.name)
def test_example_round_trips_and_runs(example: Example):
    module = example.module()
    verify_module(module)
    text = print_module(module)
    again = parse_module(text)
    verify_module(again)
    assert print_module(again) == text
    arguments = example.arguments()
    before = [a.copy() if hasattr(a, "copy") else a for a in arguments]
    run_module(module, (1,), arguments)
    outputs = [
        (old, new)
        for p, old, new in zip(module.parameters, before, arguments, strict=True)
        if p.name.startswith("r")
    ]
    assert all(new.shape == old.shape for old, new in outputs)


def computed(frame: Watched, made: Op | Value) -> Any:
    """Return what stands for an op holds now."""
    if isinstance(made, Value):
        return frame.values[made]
    return made.interpret(frame)  # type: ignore[arg-type]


def check_elements(frame: Watched, op: Op, value: Value, array: Array) -> None:
    """Compare each element with what the op says it is made of."""
    for place in np.ndindex(shape_of(value.type)):
        reads = op.element_from(place)
        if reads is None:
            continue
        given = [Value(element_of(operand.type)) for operand, _ in reads]
        for number, (operand, where) in zip(given, reads, strict=True):
            frame.values[number] = np.asarray(frame.values[operand][where])
        made = op.element(place, given)
        found = made if isinstance(made, Value) else made.result
        assert found.type == element_of(value.type)
        assert np.array_equal(computed(frame, made), array[place], equal_nan=True), place
    parts = op.holds_with() if value.type is I1 or element_of(value.type) == I1 else None
    if parts is not None:
        assert array.all() == all(frame.values[part].all() for part in parts)


def check_where_on(frame: Watched, op: Op, value: Value, array: Array) -> None:
    """Compare an op whose masks hold everywhere with what it says it comes down to."""
    masks = [v for v in op.operands if element_of(v.type) == I1]
    for mask in masks if op.where_on(masks) is not op else ():
        before = frame.values[mask]
        frame.values[mask] = np.ones_like(before)
        assert np.array_equal(computed(frame, op), computed(frame, op.where_on((mask,))))
        frame.values[mask] = before


@pytest.mark.parametrize("example", all_examples(), ids=lambda e: e.name)
def test_an_op_says_what_its_elements_are_made_of(example: Example):
    def look(frame: Watched, op: Op, value: Value, array: Array) -> None:
        check_elements(frame, op, value, array)
        check_where_on(frame, op, value, array)

    watch(example.module(), (1,), example.arguments(), look)
