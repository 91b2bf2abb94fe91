"""The extension in a real JupyterLab, and notebook 01 run there (see lab.mjs)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.browser.tools import ROOT, require_browser, run_script

pytestmark = [pytest.mark.browser, pytest.mark.slow]

NOTEBOOK = ROOT / "notebooks" / "01-vector-add.ipynb"


def test_jupyterlab_runs_the_first_notebook_and_links_its_panes(tmp_path: Path) -> None:
    require_browser()
    pytest.importorskip("jupyterlab", reason="no JupyterLab: pip install jupyterlab")
    screenshot = os.environ.get("SCREENSHOT") or str(tmp_path / "notebook.png")
    told = run_script("lab.mjs", tmp_path / "shots", NOTEBOOK, SCREENSHOT=screenshot)
    assert f"{NOTEBOOK.name}: Pinned Python line" in told
    assert Path(screenshot).stat().st_size > 10_000
