"""The viewer in one-file pages: offline, both themes, accessible, linked (see page.mjs)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.browser.tools import require_browser, run_script
from tests.trace.samples import add_trace, failed_trace, matmul_trace
from workbench.viewer.page import page

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_pages_paint_offline_and_link(tmp_path: Path) -> None:
    require_browser()
    traces = {"large": [matmul_trace()], "add": [add_trace()], "failed": [failed_trace()]}
    exported = [tmp_path / f"{name}_exported.html" for name in traces]
    for path, own in zip(exported, traces.values(), strict=True):
        path.write_text(page(own))
    told = run_script("page.mjs", os.environ.get("SHOTS") or tmp_path / "shots", *exported)
    assert told.count("painted") == 2, "both themes were measured"
