"""The table of compile options: what launches take, what the front end hands on, what is shown."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

import workbench
from tests.language.harness import from_text
from workbench.frontend.specialization import Options
from workbench.launch.options import DEFAULTS, check_options
from workbench.magics import glossary
from workbench.source import OptionError
from workbench.source.compile_options import COMPILE_OPTIONS, CompileOption, compile_option

ROOT = Path(workbench.__file__).parent


def other(option: CompileOption) -> int:
    """Return a value that is not what stands where nobody asks."""
    return 2 if option.counts else not option.default


def test_each_name_stands_there_once():
    assert len(DEFAULTS) == len(COMPILE_OPTIONS)
    assert all(compile_option(option.name) is option for option in COMPILE_OPTIONS)


@pytest.mark.parametrize("option", COMPILE_OPTIONS, ids=lambda option: option.name)
def test_the_front_end_has_it_or_hands_it_on(option: CompileOption):
    value = other(option)
    given = dict(check_options({option.name: value}))
    assert given == {option.name: value}
    found = Options.of(given)
    if option.name in {field.name for field in fields(Options)}:
        assert getattr(found, option.name) == value
        assert getattr(Options(), option.name) == option.default
    else:
        assert found.asked == ((option.name, value),)
    assert check_options({option.name: option.default}) == ()


@pytest.mark.parametrize("option", COMPILE_OPTIONS, ids=lambda option: option.name)
def test_somebody_reads_it(option: CompileOption):
    """As a module's attribute, or as a field of the front end's options."""
    name = option.name
    asks = re.compile(rf'\.get\(\s*"{name}"|\boptions\.{name}\b|^[A-Z]+ = "{name}"$', re.MULTILINE)
    readers = [
        path
        for room in ("targets", "frontend", "analysis", "passes")
        for path in (ROOT / room).rglob("*.py")
        if path != ROOT / "targets" / "cpu" / "pipeline.py"  # which says what is not obeyed
        if asks.search(path.read_text(encoding="utf-8"))
    ]
    assert readers


@pytest.mark.parametrize("option", COMPILE_OPTIONS, ids=lambda option: option.name)
def test_what_it_does_is_explained(option: CompileOption):
    entry = glossary.look_up(option.name)
    assert entry is not None
    shown = entry.render(option.name)
    assert shown.startswith(f"{option.name} (compile option)")
    assert option.text in shown
    assert not option.text.endswith(".")
    assert ("unset:" in option.text) is (option.default is None)


def test_short_forms_are_explained_too():
    entry = glossary.look_up("stages")
    assert entry is not None
    assert entry.mnemonic == "num_stages"


@pytest.mark.parametrize(
    "option", [o for o in COMPILE_OPTIONS if not o.counts], ids=lambda option: option.name
)
def test_numbers_of_switches_are_true_or_false(option: CompileOption):
    """Passes ask whether an option is False, which 0 is not."""
    for value in (False, True):
        (given,) = check_options({option.name: int(value)}) or [(option.name, option.default)]
        assert given[1] is value


def test_a_trace_names_each_option_that_was_asked_for():
    kernel = from_text("def kernel(out):\n    tl.store(out, 1)\n")
    compiled = workbench.compile(kernel, "*i32", {}, "sm_90a", tma=False, exact=True, tickets=True)
    options = compiled.trace.kernel.options
    wanted = {"tma": False, "exact": True, "tickets": True}
    assert {name: options.get(name) for name in wanted} == wanted
    assert set(options) <= set(DEFAULTS) | {"narrow_index"}


@pytest.mark.parametrize("option", COMPILE_OPTIONS, ids=lambda option: option.name)
def test_other_values_are_refused(option: CompileOption):
    for wrong in ("many", 2.5, -1, [1]):
        with pytest.raises(OptionError, match=option.name):
            check_options({option.name: wrong})
    if option.most is not None:
        with pytest.raises(OptionError, match="at most"):
            check_options({option.name: option.most + 1})
