"""Launches as files of their own: they run in an empty directory and give what the launch gave."""

from __future__ import annotations

import enum
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import workbench as wb
from workbench import run_cell
from workbench.bench.definitions import Definitions
from workbench.source import OptionError

torch = pytest.importorskip("torch")

CELL = """
import math
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.extra.libdevice import tanh as bend
LOG2E = tl.constexpr(1.44269504)
TABLE = tl.constexpr((1, 2, 3))
SCALE: tl.constexpr = math.pi

@triton.jit
def gelu(x):
    return x * 0.5 * (1 + bend(x)) + libdevice.floor(x) - tl.floor(x)

@triton.jit
def shift(x, b):
    return x + b * LOG2E - LOG2E * b

@triton.autotune(configs=[triton.Config({}, num_warps=2)], key=["n"])
@triton.jit
def rich(x_ptr, places_ptr, out_ptr, n, stride, scale, pair,
         BLOCK: tl.constexpr, ACT: tl.constexpr, W: tl.constexpr = 2):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    r = tl.load(places_ptr + i, mask=i < n, other=0)
    j = tl.arange(0, 16)
    x = tl.load(x_ptr + r[:, None] * stride + j[None, :], mask=(i < n)[:, None])
    y = ACT(shift(x, TABLE[1])) * scale * math.pi / SCALE + pair[0] - 1
    tl.store(out_ptr + i[:, None] * 16 + j[None, :], y, mask=(i < n)[:, None])

def reference(x, places):
    y = x[places.long()]
    return (y * 0.5 * (1 + torch.tanh(y))) * 1.5
"""
LINE = (
    '--args x,places,out,8,32,1.5,(1,2) --grid "(cdiv(8,4),)" --set BLOCK=4 --set ACT=gelu '
    '--check "reference(x, places)"'
)


def result(line: str = LINE, text: str = CELL, **names: object):
    torch.manual_seed(3)
    space = dict(
        x=torch.randn(8, 32)[:, :16], places=torch.tensor([3, 1, 2, 0, 7, 6, 5, 4]),
        out=torch.empty(8, 16), cdiv=wb.cdiv, tl=wb.tl, **names,
    )  # fmt: skip
    return run_cell(text, line, space), space


def run(folder: Path, *before: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, *before, "rich.py"] if not before else [sys.executable, *before],
        cwd=folder, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(Path(wb.__file__).parents[1])},
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def test_it_runs_alone_and_gives_what_the_launch_gave(tmp_path: Path) -> None:
    found, space = result()
    found.save(tmp_path / "rich.py")
    code, out, err = run(tmp_path)
    assert code == 0, err
    values = [float(word) for word in re.findall(r"-?\d+\.\d+(?:e-?\d+)?", out.splitlines()[0])]
    assert values == pytest.approx(space["out"].flatten()[:6].tolist())
    assert "check: ok" in out
    assert re.search(r"^rich on (cpu|cuda): \d+\.\d+ ms$", out, re.MULTILINE)


MISSING = (
    "import sys, runpy; sys.modules[{!r}] = None; runpy.run_path('rich.py', run_name='__main__')"
)


@pytest.mark.parametrize(
    ("module", "message"),
    [
        ("torch", "this file needs torch: pip install torch"),
        ("workbench", "this file needs workbench (any machine) or Triton (a GPU)"),
    ],
)
def test_what_is_missing_is_one_sentence(tmp_path: Path, module: str, message: str) -> None:
    (tmp_path / "rich.py").write_text(_saved())
    script = MISSING.format(module)
    if module == "workbench":
        script = script.replace(
            "import sys", "import sys; sys.modules['triton'] = None; import sys"
        )
    code, _, err = run(tmp_path, "-c", script)
    assert code == 1
    assert err.startswith(message)


def _saved() -> str:
    found, _ = result()
    from workbench.bench.exports import made_of

    compiled = [record.compiled for record in found.records]
    return made_of(compiled, found.subject, found.plan)[".py"]().decode()


def test_much_is_drawn_anew_and_said() -> None:
    text = (
        "def copy(x_ptr, y_ptr, n, BLOCK: tl.constexpr):\n"
        "    i = tl.arange(0, BLOCK)\n"
        "    tl.store(y_ptr + i, tl.load(x_ptr + i))\n"
    )
    line = '--args x,y,n --grid "(1,)" --set BLOCK=16 --check "x"'
    found = run_cell(text, line, {"x": torch.zeros(16), "y": torch.empty(16), "n": 16, "tl": wb.tl})
    from workbench.bench import reproducer
    from workbench.bench.exports import made_of

    made = made_of([r.compiled for r in found.records], found.subject, found.plan)
    assert "drawn anew" not in made[".py"]().decode()
    held, reproducer.MOST_BYTES = reproducer.MOST_BYTES, 8
    try:
        assert "drawn anew, not as in the launch: x_ptr" in made[".py"]().decode()
    finally:
        reproducer.MOST_BYTES = held


def test_what_has_no_text_is_named(tmp_path: Path) -> None:
    text = (
        "class Odd:\n    value = 3\nODD = tl.constexpr(Odd())\n"
        "def fill(y_ptr, BLOCK: tl.constexpr):\n"
        "    tl.store(y_ptr + tl.arange(0, BLOCK), ODD.value)\n"
    )
    found = run_cell(
        text, '--args y --grid "(1,)" --set BLOCK=16', {"y": torch.empty(16), "tl": wb.tl}
    )
    with pytest.raises(OptionError, match="ODD is a Odd, which cannot be written") as caught:
        found.save(tmp_path / "fill.py")
    assert caught.value.code == "K804"
    assert not (tmp_path / "fill.py").exists()


def test_what_is_compiled_by_the_way_has_a_launch_of_its_own(tmp_path: Path) -> None:
    from workbench.magics import registry, variants

    found, _ = result(LINE.replace("cdiv(8,4)", "cdiv(8, BLOCK)"))
    registry.add(found)
    text = variants.find("rich@BLOCK=2,num_warps=1").save(tmp_path / "two.py").read_text()
    call = next(line for line in text.splitlines() if "    rich[" in line)
    assert call.startswith("    rich[(4, 1, 1)](**given, W=2, BLOCK=2, ACT=gelu, ")
    assert "num_warps=1" in call
    code = variants.find("rich@sm_80,BLOCK=8").save(tmp_path / "one.c").read_text()
    assert "rich_launch(NULL, 1, 1, 1, x_ptr," in code
    assert "/* kernel rich; target sm_80;" in code
    registry.clear()


class Level(enum.IntEnum):
    LOW = 1


@pytest.mark.parametrize(
    ("value", "text"),
    [(np.float64(0.5), "0.5"), (np.int64(3), "3"), (Level.LOW, "1"), (True, "True"), (7, "7"),
     (np.float32("nan"), 'float("nan")'), (1e-7, "1e-07")],
)  # fmt: skip
def test_numbers_of_any_class_are_written_as_numbers(value: object, text: str) -> None:
    assert Definitions().expression("value", value) == text


def test_what_a_class_is_made_of_is_defined_too() -> None:
    found = Definitions()
    found.need("Level", Level)
    assert "import enum" in found.modules or "import enum" in found.body()
