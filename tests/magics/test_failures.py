"""What an output says of a run that ended with an error: the same in text, HTML and trace."""

from __future__ import annotations

import pytest
import torch

from workbench import run_cell
from workbench.magics import registry
from workbench.source import KernelError
from workbench.viewer import mimebundle

ADD = """
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    y = tl.load(y_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, x + y, mask=offsets < n)
"""
UNMASKED = ADD.replace(", mask=offsets < n", "")
SEVEN = "--set BLOCK=4 --args x,y,out,7 --target cpu"


@pytest.fixture(autouse=True)
def _empty_registry():
    registry.clear()


def fail(body: str, line: str):
    x, y = torch.arange(7.0), torch.full((7,), 10.0)
    names = {"x": x, "y": y, "out": torch.zeros(7), "torch": torch}
    with pytest.raises(KernelError) as caught:
        run_cell(body, line, names, file="In[5]")
    return caught.value.result


def test_a_failed_check_is_an_error_of_the_run_with_its_store():
    result = fail(ADD, f'{SEVEN} --grid 1 --check "x + y"')
    (error,) = result.trace.runs.errors
    assert (error.code, error.span[1:]) == ("K601", (7, 5, 7, 57))
    assert result.trace.errors == ()
    assert error in result.problems
    bundle = mimebundle(result.traces)
    for text in (bundle["text/plain"], bundle["text/html"]):
        assert "error K601: out differs from x + y: 3 of 7 elements" in text
        assert "help: the grid covers 4 of 7 elements" in text
    state = next(value["state"] for key, value in bundle.items() if "trace" in key)
    assert state == "check failed"


def test_what_guard_found_is_in_the_output_too():
    result = fail(UNMASKED, f"{SEVEN} --grid 2 --guard")
    text = mimebundle(result.traces)["text/plain"]
    assert "error K502: load outside every argument" in text
    assert "  5 |     x = tl.load(x_ptr + offsets)" in text
    assert "note: found by --guard; nothing was launched" in text


def test_a_place_in_the_option_line_is_named():
    result = fail(ADD, f'{SEVEN} --grid 2 --check "x + z"')
    (error,) = result.trace.runs.errors
    assert error.span is None
    assert error.notes[0].text.startswith("at In[5]:1:")


def test_what_several_targets_share_is_said_once():
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    line = SEVEN.replace(" --target cpu", "")
    result = fail(ADD, f'{line} --grid 1 --check "x + y"')
    assert len(result.traces) == 2
    assert mimebundle(result.traces)["text/plain"].count("error K601") == 1
    assert mimebundle(result.traces)["text/html"].count("error K601") == 1


def test_an_error_in_a_helper_keeps_its_place_in_the_output():
    body = ADD.replace("x + y", "wrong(x)") + (
        "\ndef wrong(x):\n    return x + tl.zeros((5,), tl.float32)\n"
    )
    result = fail(body, f"{SEVEN} add --grid 2")
    text = mimebundle(result.traces)["text/plain"]
    assert "error K302" in text
    assert "--> In[5]:10:12" in text
    assert "return x + tl.zeros((5,), tl.float32)" in text


def test_no_line_of_text_is_cut():
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    x, y = torch.arange(7.0), torch.full((7,), 10.0)
    names = {"x": x, "y": y, "out": torch.zeros(7), "torch": torch}
    line = SEVEN.replace(" --target cpu", "")
    check = "torch.add(x, y) + torch.zeros(7) + torch.zeros(7)"
    text = mimebundle(run_cell(ADD, f'{line} --grid 2 --check "{check}"', names).traces)
    lines = text["text/plain"].split("\n")
    assert max(map(len, lines)) <= 100
    assert [part for part in lines if part.endswith("…")] == []
    assert lines[-1].endswith("workbench view NOTEBOOK")
