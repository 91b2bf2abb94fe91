"""Laws of the record itself: JSON and back, the id, versions, damaged input."""

from __future__ import annotations

import dataclasses
import json
import math
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trace.samples import add_trace, failed_trace, matmul_trace
from workbench.trace import (
    Check,
    Pass,
    Trace,
    TraceError,
    from_data,
    from_json,
    identify,
    problems,
    to_data,
    to_json,
    typescript,
)

SAMPLES = {
    "add": add_trace,
    "cpu": lambda: add_trace("cpu"),
    "failed": failed_trace,
    "matmul": matmul_trace,
}


@pytest.fixture(params=SAMPLES)
def trace(request: pytest.FixtureRequest) -> Trace:
    return SAMPLES[request.param]()


def test_json_round_trips(trace: Trace) -> None:
    text = to_json(trace)
    back = from_json(text)
    assert to_json(back) == text
    assert back.stages == trace.stages
    assert back.ops == trace.ops
    assert back.passes == trace.passes


def test_same_input_gives_same_bytes() -> None:
    again = matmul_trace.__wrapped__()
    assert to_json(matmul_trace()) == to_json(again)


def test_keys_are_sorted_and_the_text_is_ascii(trace: Trace) -> None:
    text = to_json(trace)
    assert text.isascii()
    assert text == json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))


def test_links_and_indices_are_in_range(trace: Trace) -> None:
    assert problems(trace) == []


def test_json_obeys_the_json_schema(trace: Trace) -> None:
    validator().validate(to_data(trace))


@cache
def validator() -> Any:
    import jsonschema  # seconds: not while tests are collected

    schema = json.loads(typescript.json_schema())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_id_ignores_runs_and_times_and_nothing_else() -> None:
    trace = add_trace()
    timed = dataclasses.replace(
        trace,
        runs=add_trace("cpu").runs,
        made=dataclasses.replace(trace.made, time=99.0),
        stages=tuple(dataclasses.replace(stage, milliseconds=7.0) for stage in trace.stages),
        kernel=dataclasses.replace(trace.kernel, cached=True),
    )
    assert identify(timed).id == trace.id
    other = dataclasses.replace(trace.kernel, target="sm_80")
    assert identify(dataclasses.replace(trace, kernel=other)).id != trace.id


def test_numbers_that_json_lacks_survive() -> None:
    check = from_json(to_json(add_trace("cpu"))).runs.checks[0]
    assert math.isinf(check.max_abs)
    assert math.isnan(check.first[0].want)


def test_python_keywords_are_plain_keys() -> None:
    step = Pass(name="p", pipe="tile", milliseconds=1.0, changed=True, del_=(3,))
    assert to_data(step)["del"] == [3]
    assert "del_" not in to_data(step)


def test_unknown_keys_are_ignored_and_missing_ones_filled() -> None:
    data = to_data(add_trace())
    data["new_key"] = {"any": 1}
    data["stages"][0]["new_key"] = 2
    del data["layouts"]
    assert from_data(data).layouts == ()


def test_newer_version_is_refused_with_a_sentence() -> None:
    data = to_data(add_trace()) | {"version": 99}
    with pytest.raises(TraceError, match="has version 99, this workbench reads up to 1"):
        from_data(data)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("stages", 3, "Trace.stages: expected a list, found int"),
        ("kernel", {"name": "x"}, "Trace.kernel: Kernel has no 'entry'"),
        ("strings", [1], "Trace.strings: expected str, found int"),
        ("made", {"workbench": True}, "Made.workbench: expected str, found bool"),
    ],
)
def test_damaged_data_names_the_place(key: str, value: object, message: str) -> None:
    with pytest.raises(TraceError) as caught:
        from_data(to_data(add_trace()) | {key: value})
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", "{}", "nope", '{"version":"1"}'])
def test_no_trace_at_all(text: str) -> None:
    with pytest.raises(TraceError, match="not a trace"):
        from_json(text)


@given(st.floats(), st.text())
def test_any_number_and_text_round_trip(number: float, text: str) -> None:
    check = Check(
        ok=True, ref=text, rtol=0.0, atol=0.0, wrong=0, total=1, max_abs=number, max_rel=0.0
    )
    trace = add_trace()
    trace = dataclasses.replace(trace, runs=dataclasses.replace(trace.runs, checks=(check,)))
    (back,) = from_json(to_json(trace)).runs.checks
    assert back.ref == text
    assert back.max_abs == number or (math.isnan(back.max_abs) and math.isnan(number))


def test_generated_types_are_up_to_date() -> None:
    if typescript.TYPES_FILE.parent.is_dir():
        assert typescript.TYPES_FILE.read_text(encoding="utf-8") == typescript.typescript()
    assert typescript.SCHEMA_FILE.read_text(encoding="utf-8") == typescript.json_schema()
