"""Every op's docstring example is real IR: it parses, verifies, prints back, and runs."""

import pytest

from tests.ops.examples import Example, all_examples
from workbench.interpreter import run_module
from workbench.ir import parse_module, print_module, verify_module


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
