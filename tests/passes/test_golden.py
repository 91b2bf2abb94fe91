"""What each pass does to small IR: where it works, where it must not, in nested loops."""

from __future__ import annotations

import pytest

from tests.passes import golden
from tests.passes.pipelines import PASSES
from workbench.ir import parse_module, print_module, verify_module
from workbench.passes.manager import Remarks


@pytest.mark.parametrize(
    "case", golden.cases(), ids=lambda case: f"{case.path.parent.name}-{case.path.stem}"
)
def test_pass(case: golden.Golden, bless: bool):
    module = parse_module(case.before)
    verify_module(module)
    for name in case.passes:
        module = PASSES[name](module, Remarks())
        verify_module(module)
    text = print_module(module)
    assert print_module(parse_module(text)) == text
    case.expect(text, bless=bless)
