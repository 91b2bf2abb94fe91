"""Texts that line magics return, read from synthetic traces."""

from __future__ import annotations

import pytest

from tests.trace.samples import add_trace, matmul_trace
from workbench.magics.options import Request
from workbench.magics.texts import Shown, line_story, passes_text, stage_text
from workbench.source import OptionError


def test_stage_text_has_source_lines_as_comments():
    text = stage_text(add_trace(), "ptx", Request())
    assert "//    6 | x = tl.load(x_ptr + offsets, mask=live)" in text
    assert isinstance(text, str)


def test_raw_text_is_the_stage_itself():
    trace = add_trace()
    assert stage_text(trace, "ptx", Request(raw=True)) == trace.text("ptx")


def test_line_keeps_only_what_came_from_it():
    rows = stage_text(add_trace(), "ptx", Request(line=7, raw=True)).splitlines()
    assert rows == ["\t@%p1 ld.global.b32 \t%f2, [%rd2];"]


def test_line_range():
    trace = add_trace()
    rows = stage_text(trace, "ptx", Request(lines=(2, 3), raw=True)).splitlines()
    assert rows == trace.text("ptx").split("\n")[1:3]


def test_where_there_is_no_row_a_comment_says_why():
    text = stage_text(add_trace(), "ptx", Request(line=500))
    assert text.startswith("// no row of PTX came from line 500; add stands in In[3], lines ")
    text = stage_text(add_trace(), "tile", Request(lines=(500, 600)))
    assert "none of them in this range" in text


def test_loc_names_the_place_of_each_row():
    text = stage_text(add_trace(), "ptx", Request(line=7, raw=True, loc=True))
    assert text.endswith(f"// {add_trace().sources[0].file}:7")


def test_a_stage_that_is_not_there_names_those_that_are():
    with pytest.raises(OptionError) as caught:
        stage_text(add_trace(), "asm", Request())
    assert "stages there are:" in str(caught.value)


def test_shown_is_highlighted_and_escaped():
    bundle = Shown('x = "<b>"', "python")._repr_mimebundle_()
    assert bundle["text/plain"] == 'x = "<b>"'
    assert "<b>" not in bundle["text/html"]
    assert "&lt;b&gt;" in bundle["text/html"]


def test_passes_list_hides_those_that_changed_nothing():
    trace = matmul_trace()
    changing = [step for step in trace.passes if step.changed]
    rows = passes_text(trace, None, Request()).splitlines()
    assert len(rows) == 2 + len(changing)
    assert "more passes not listed" in rows[-1]
    everything = passes_text(trace, None, Request(everything=True)).splitlines()
    assert len(everything) == 1 + len(trace.passes)


def test_one_pass_is_shown_as_a_diff():
    trace = matmul_trace()
    index = next(i for i, step in enumerate(trace.passes) if step.changed)
    text = passes_text(trace, str(index), Request())
    assert text.splitlines()[0] == f"--- before {trace.passes[index].name}"


def test_unknown_pass_names_the_known_ones():
    with pytest.raises(OptionError, match="no pass 'nowhere'; passes: "):
        passes_text(matmul_trace(), "nowhere", Request())


def test_line_story_goes_through_the_stages():
    story = line_story(add_trace(), 6)
    assert "PTX: 1 rows" in story
    assert "ld.global.b32" in story
    assert "no op came from this line" in line_story(add_trace(), 99)
