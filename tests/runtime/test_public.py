"""The names of the package, and what importing it costs."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import workbench as wb
from workbench.compiler import made


def test_every_public_name_is_there():
    for name in wb.__all__:
        assert getattr(wb, name) is not None


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = wb.nothing


def test_cdiv_and_next_power_of_2():
    assert [wb.cdiv(n, 4) for n in (0, 1, 4, 5)] == [0, 1, 1, 2]
    assert [wb.next_power_of_2(n) for n in (0, 1, 2, 3, 4, 5, 1025)] == [1, 1, 2, 4, 4, 8, 2048]


HEAVY = ("torch", "IPython", "ipywidgets", "matplotlib", "cuda", "llvmlite")
#: What the standard library has for packages and mail takes a tenth of what the compiler does.
MAIL = ("importlib.metadata", "email")


@pytest.mark.parametrize(
    ("statement", "heavy"),
    [
        ("import workbench", (*HEAVY, "numpy", "workbench.compiler", "workbench.runtime")),
        ("import workbench.cli", (*HEAVY, "workbench.compiler", "workbench.runtime")),
        ("import workbench; workbench.jit; workbench.cdiv; workbench.compile", HEAVY),
        ("import workbench; workbench.jit", ("workbench.compiler", "workbench.targets.nvidia")),
        ("import workbench; workbench.tl; workbench.autotune", HEAVY),
        (
            "import workbench.compiler as c; c.made(); import workbench.targets.nvidia.pipeline",
            MAIL,
        ),
    ],
)
def test_nothing_heavy_is_imported(statement, heavy):
    code = f"{statement}\nimport sys\nprint([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_package_knows_its_version():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert wb.__version__ == project["version"]
    assert made().llvm == importlib.metadata.version("llvmlite")
