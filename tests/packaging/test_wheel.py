"""The wheel: the built front end is inside, once, and it stays small."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXTENSION = "share/jupyter/labextensions/@workbench/jupyterlab/"
MOST_BYTES = 5_000_000

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("hatch_jupyter_builder", reason="no build tools: make sets them up")
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", str(ROOT), "--no-deps", "-w", str(folder)]
    built = subprocess.run([*command, "--no-build-isolation"], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    if "the front end was not built" in built.stdout + built.stderr:
        pytest.skip("the front end cannot be built here: no npm packages")
    return next(folder.glob("workbench-*.whl"))


def test_the_front_end_is_in_the_wheel_once(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    last = Counter(name.rsplit("/", 1)[-1] for name in names)
    assert last["viewer.js"] == 1
    assert last["loader.js"] == 1
    installed = [name.split(EXTENSION)[1] for name in names if EXTENSION in name]
    assert {"package.json", "install.json", "static/style.js"} <= set(installed)
    assert sum(name.startswith("static/remoteEntry.") for name in installed) == 1
    assert not any("labextension/" in name or "node_modules" in name for name in names)


def test_the_wheel_is_small(wheel: Path) -> None:
    assert wheel.stat().st_size <= MOST_BYTES
