"""The viewer in one-file pages: offline, both themes, accessible, linked (see page.mjs)."""

from __future__ import annotations

import base64
import os
import struct
import zlib
from pathlib import Path

import pytest

from tests.browser.tools import require_browser, run_script
from tests.trace.samples import add_trace, failed_trace, matmul_trace
from tests.viewer.hostile import hostile, hostile_answer
from tests.viewer.test_comparisons import compared
from tests.viewer.test_walks import WALK, routed
from workbench.viewer.comparisons import answer_of
from workbench.viewer.output import Embedded, encode
from workbench.viewer.page import page
from workbench.viewer.walks import route_answer, walk_answer

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_pages_paint_offline_and_link(tmp_path: Path) -> None:
    require_browser()
    traces = {"large": [matmul_trace()], "add": [add_trace()], "failed": [failed_trace()]}
    traces["hostile"] = [hostile(add_trace("cpu"))[0]]
    answers = dict.fromkeys(traces)
    for name, planted in (("compared", False), ("compared_hostile", True)):
        own, found, answer = compared()
        if planted:
            own = tuple(hostile(trace)[0] for trace in own)
            answer = answer_of(hostile_answer(found)[0], own, answer.text)
        traces[name], answers[name] = list(own), answer
    route, text = routed()
    for planted in (False, True):
        name = "hostile" if planted else "plain"
        own = hostile(add_trace())[0] if planted else add_trace()
        way, walked = (hostile_answer(each)[0] if planted else each for each in (route, WALK))
        traces[f"followed_{name}"] = traces[f"stepped_{name}"] = [own]
        answers[f"followed_{name}"] = route_answer(way, text)
        answers[f"stepped_{name}"] = walk_answer(walked, text, "<p>static</p>")
    exported = [tmp_path / f"{name}_exported.html" for name in traces]
    for path, (name, own) in zip(exported, traces.items(), strict=True):
        path.write_text(page(own, answer=answers[name]))
    told = run_script("page.mjs", os.environ.get("SHOTS") or tmp_path / "shots", *exported)
    assert told.count("painted") == 2, "both themes were measured"


def test_a_bomb_does_not_hold_the_page(tmp_path: Path) -> None:
    require_browser()
    bomb = gzip_of_blanks(1 << 30)
    assert len(bomb) < 1_100_000
    path = tmp_path / "bomb.html"
    embedded = Embedded(data=base64.b64encode(bomb).decode())
    path.write_text(page([add_trace()]).replace(encode([add_trace()]), str(embedded.data)))
    assert "turns" in run_script("bomb.mjs", path)


def gzip_of_blanks(count: int) -> bytes:
    """Return what gzip makes of so many blanks, a multiple of 16 MiB, each of which is one piece.

    Behind a full flush nothing refers to what was before, so pieces of one text are one.
    """
    text = b" " * (16 << 20)
    squeeze = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    piece = squeeze.compress(text) + squeeze.flush(zlib.Z_FULL_FLUSH)
    check = 0
    for _ in range(count // len(text)):
        check = zlib.crc32(text, check)
    head = b"\x1f\x8b\x08" + bytes(5) + b"\x02\xff"
    end = squeeze.flush() + struct.pack("<II", check, count)
    return head + piece * (count // len(text)) + end


def test_a_fault_among_elements_that_were_judged_is_found() -> None:
    require_browser()
    run_script("judged.mjs")
