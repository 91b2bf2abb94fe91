"""Every error code that is raised is explained, in at most 25 lines."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import workbench
from workbench.magics.explanations import EXPLANATIONS
from workbench.magics.lines import explain
from workbench.source import OptionError

PACKAGE = Path(workbench.__file__).parent


def test_every_code_in_the_package_is_explained():
    used = set()
    for path in PACKAGE.rglob("*.py"):
        used |= set(re.findall(r'"(K\d{3})"', path.read_text()))
    assert not used - set(EXPLANATIONS)


@pytest.mark.parametrize("code", EXPLANATIONS)
def test_an_explanation_has_cause_example_and_fix(code):
    text = explain(code)
    assert text.startswith(f"{code}: ")
    assert "\nexample:\n" in text
    assert "\nfix: " in text
    assert len(text.splitlines()) <= 25


def test_unknown_codes_offer_a_close_one():
    with pytest.raises(OptionError, match="no error code K30; did you mean K30"):
        explain("K30")
