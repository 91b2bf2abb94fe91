"""Our outputs in Colab's and VS Code's conditions (hosts.mjs), and without scripts (static.mjs)."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from tests.browser.tools import ROOT, require_browser, run_script

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_a_journey_in_colab_and_in_vs_code(tmp_path: Path) -> None:
    require_browser()
    found = importlib.util.find_spec("anywidget")
    if found is None or found.origin is None or importlib.util.find_spec("ipykernel") is None:
        pytest.skip("no anywidget or no ipykernel: pip install anywidget ipykernel")
    module = Path(found.origin).parent / "nbextension" / "index.js"
    told = run_script(
        "hosts.mjs", tmp_path, ANYWIDGET=str(module), PYTHON=sys.executable, PYTHONPATH=str(ROOT)
    )
    assert "colab: 9 cells" in told
    assert "vscode: 9 cells" in told
    for name in ("colab", "vscode"):
        saved = json.loads((tmp_path / f"{name}.ipynb").read_text())
        assert max(len(json.dumps(cell["outputs"])) for cell in saved["cells"]) < 400_000


def test_the_static_form_needs_no_script(tmp_path: Path) -> None:
    require_browser()
    notebook = json.loads((ROOT / "notebooks" / "03-matmul.ipynb").read_text())
    kept = [
        "".join(output["data"]["text/html"])
        for cell in notebook["cells"]
        for output in cell.get("outputs", [])
        if "text/html" in output.get("data", {})
    ]
    rules = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    page = tmp_path / "matmul.html"
    page.write_text(
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>matmul</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{rules}">{"".join(kept)}</html>'
    )
    run_script("static.mjs", tmp_path / "shots", page)
