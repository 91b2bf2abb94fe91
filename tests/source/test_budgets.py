"""What is over a budget is refused where it stands, before it is made."""

from __future__ import annotations

import re

import pytest

from tests.targets.sources import kernel
from workbench import run_cell
from workbench.magics.lines import workbench
from workbench.source import ResourceError
from workbench.source.budgets import BUDGETS, shown
from workbench.source.evaluation import OPERATORS, called

LINE = 'k --sig "*f32 *f32 i32" --target cpu --no-cache -q'
FIRST = 5  # the line of a cell in which the body of `kernel` begins

#: Text of a kernel -> the budget that it is over, and the line in its body.
OVER = {
    "y = 9**9**9": ("integer", 0),
    "y: tl.constexpr = (1 << 8000) * (1 << 8000)": ("integer", 0),
    "y = 1 << 10**12": ("integer", 0),
    "y = 0x" + "f" * 5000: ("integer", 0),
    "s = 3\nfor j in tl.static_range(60):\n    s = s * s": ("integer", 2),
    "tl.static_print(math.factorial(10**9))": ("integer", 0),
    "tl.static_print(math.comb(10**9, 10**8))": ("integer", 0),
    "tl.static_print(round(5, -(10**10)))": ("integer", 0),
    'tl.static_print("a" * 10**10)': ("value", 0),
    't = "ab"\nfor j in tl.static_range(60):\n    t = t + t': ("value", 2),
    "t = (1,) * 10**10": ("value", 0),
    "t = (1, 1)\nfor j in tl.static_range(60):\n    t = (t, t)": ("value", 2),
    'tl.static_print("a".ljust(10**10))': ("value", 0),
    'tl.static_print("%0999999999d" % 5)': ("value", 0),
    'tl.static_print("{:>{}}".format(1, 10**10))': ("value", 0),
    'tl.static_print(f"{1:>9999999999}")': ("value", 0),
    'tl.static_print(("a" * 60000).replace("a", "b" * 60000))': ("value", 0),
    "for j in tl.static_range(10**9):\n    x = x + j": ("rounds", 0),
    "for j in tl.static_range(10**30, 0, -1):\n    pass": ("rounds", 0),
    "for j in tl.static_range(999):\n  for k in tl.static_range(999):\n    pass": ("steps", 1),
    "x = x + double(60)": ("steps", -4),
    "for j in tl.static_range(200):\n    for k in tl.static_range(200):\n        x = x + 1": (
        "operations", 1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("body", OVER, ids=lambda body: shown(body, 40))
def test_what_is_over_a_budget_is_an_error_at_its_line(body: str):
    name, line = OVER[body]
    with pytest.raises(ResourceError) as caught:
        run_cell(kernel(body), LINE, {})
    error = caught.value
    assert (error.code, error.name) == ("K406", name)
    assert f"{BUDGETS[name].limit:,}" in error.message
    assert error.required is not None
    assert error.required > BUDGETS[name].limit
    assert error.span is not None
    assert error.span.line == FIRST + line + HELPERS
    assert error.hint


HELPERS = kernel("").split("def k(")[0].count("\n")


def test_code_has_a_budget_too(monkeypatch: pytest.MonkeyPatch):
    from workbench.targets.llvm import emit

    monkeypatch.setattr(emit, "_MOST_INSTRUCTIONS", 20)
    with pytest.raises(ResourceError, match="instructions, the limit is"):
        run_cell(kernel("x = x * x + x"), LINE, {})


def test_what_is_within_is_computed_as_python_does():
    assert OPERATORS["**"](2, 100) == 2**100
    assert OPERATORS["**"](2, -1) == 0.5
    assert OPERATORS["*"]("ab", 3) == "ababab"
    assert OPERATORS["<<"](1, 70) == 1 << 70
    assert OPERATORS["%"]("%d %5s", (1, "a")) == "1     a"
    assert called("{:>{}}".format, [1, 4], {}) == "   1"


def test_the_table_is_shown():
    text = workbench("config")
    for name, budget in BUDGETS.items():
        assert re.search(rf"^{name} .*{budget.limit:,} {budget.unit}", text, re.MULTILINE)
