"""The option table: complete, consistent, and the source of help and completion."""

from __future__ import annotations

import dataclasses

import pytest

from workbench.magics import doctor
from workbench.magics.grammar import parse
from workbench.magics.options import OPTIONS, WORDS, Request, complete, options_of, usage
from workbench.source import OptionError

LATER: set[str] = set()


def test_every_row_fills_a_field_of_the_request():
    fields = {field.name for field in dataclasses.fields(Request)} - {"names", "places"}
    assert {option.field for option in OPTIONS} == fields


def test_flags_are_unique_and_later_ones_are_absent():
    flags = [option.flag for option in OPTIONS]
    assert len(flags) == len(set(flags))
    assert not LATER & set(flags)


def test_every_row_belongs_to_known_commands():
    for option in OPTIONS:
        assert option.commands
        assert option.commands <= set(WORDS)


@pytest.mark.parametrize(
    "option", [option for option in OPTIONS if option.example], ids=lambda option: option.flag
)
def test_every_example_parses(option):
    command = min(option.commands)
    extra = " --make mk" if option.field == "axes" else ""
    assert getattr(parse(command, option.example + extra), option.field)


def test_completion_knows_flags_and_values():
    assert "--check" in complete("kernel", "add --ch")
    assert complete("kernel", "--target sm_90") == ["sm_90", "sm_90a"]
    assert complete("kernel", "--metric=gb") == ["--metric=gbps"]


def test_usage_names_every_option():
    text = usage("kernel")
    assert all(option.flag in text for option in options_of("kernel"))


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("rounds=10", "the limit of 'rounds' is fixed"),
        ("tracebakcs=full", "unknown setting 'tracebakcs'; did you mean tracebacks"),
        ("tracebacks=long", "'long' is no value of tracebacks"),
    ],
)
def test_settings_that_are_none_say_which_there_are(value, said):
    with pytest.raises(OptionError, match=said) as caught:
        doctor.config(value)
    assert "tracebacks=short|full" in caught.value.hint
    assert doctor.config("tracebacks") == "tracebacks=short"
