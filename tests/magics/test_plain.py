"""`--json`: every magic and every command prints one object, and none can be forgotten."""

from __future__ import annotations

import json
import math
import shlex

import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell

from tests.magics.sources import PRODUCT, PRODUCT_FILE
from workbench import cli
from workbench.magics import kernel, looking, registry
from workbench.magics.options import WORDS, options_of
from workbench.magics.plain import plain

CELL = """
def add(x, y, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out + offsets, tl.load(x + offsets, mask=mask) + tl.load(y + offsets, mask=mask), mask)
"""
FILE = (
    PRODUCT_FILE
    + """

@triton.jit
def scale(x_ptr, y_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(y_ptr + i, 2 * tl.load(x_ptr + i))

def arguments(N=64):
    import torch
    return {"x_ptr": torch.ones(N), "y_ptr": torch.zeros(N)}
"""
)
ARGS = "--args x,y,out,n --grid 'cdiv(n, BLOCK)' --set BLOCK=64"
SIG = '--sig "*f16:16 *f16:16 *f32:16 i32:16" --set N=64 --set BK=32'

#: What each line magic is asked, and the key that its answer is about.
LINES = {
    "kernel": (f"add {ARGS} --target cpu", "compiled"),
    "ast": ("add", "rows"), "tile": ("add", "rows"), "gpu": ("add@sm_90a", "rows"),
    "llvm": ("add --lines 1:5", "rows"), "ptx": ("add@sm_90a --line 6", "rows"),
    "sass": ("add@sm_90a", "instructions"), "asm": ("add@cpu", "rows"),
    "passes": ("add", "passes"), "explain": ("K302", "cause"),
    "check": ("add --check 'x + y'", "checks"), "bench": ("add", "benches"),
    "tune": ("add --tune warps=1,2 --target cpu", "tunes"),
    "kernels": ("", "kernels"), "save": ("add PLACE/add.wbt", "path"),
    "workbench": ("config", "limits"),
    "override": ("add tile", "text"), "layouts": ("add@sm_90a", "layouts"),
    "access": ("add@sm_90a", "accesses"), "schedule": ("product@sm_90a", "pipelines"),
    "bisect": ("add --check 'x + y'", "verdict"), "diff": ("add add@sm_90a", "labels"),
    "follow": ("add offsets", "steps"), "step": ("add", "steps"),
    "whatif": ("add --axis BLOCK=32 --target sm_90a", "squares"),
    "roofline": ("add", "points"),
}  # fmt: skip

#: The same of each command; PLACE is a folder with a file, and traces a.wbt and b.wbt.
RUN = "PLACE/k.py::scale --make arguments --set B=64 --grid 1 --target cpu"
COMMANDS = {
    "compile": (f"PLACE/k.py::product {SIG} --target sm_90a --emit tile", "stages"),
    "check": (f"{RUN} --check '2 * x_ptr'", "checks"), "bench": (RUN, "benches"),
    "tune": (f"{RUN} --tune warps=1,2", "tunes"), "bisect": (f"{RUN} --check y_ptr", "verdict"),
    "diff": ("PLACE/a.wbt PLACE/b.wbt", "labels"), "follow": ("PLACE/a.wbt total", "steps"),
    "whatif": (f"PLACE/k.py::product {SIG} --axis warps=4", "squares"),
    "passes": (f"PLACE/k.py::product {SIG}", "passes"),
    "override": (f"PLACE/k.py::product tile {SIG}", "text"), "kernels": ("PLACE/k.py", "kernels"),
    "schedule": (f"PLACE/k.py::product {SIG}", "pipelines"),
    "layouts": (f"PLACE/k.py::product {SIG}", "layouts"),
    "access": (f"PLACE/k.py::product {SIG}", "accesses"), "roofline": (RUN, "points"),
    "step": (RUN.replace("--target cpu", ""), "steps"), "explain": ("HMMA", "mnemonic"),
    "doctor": ("", "parts"), "version": ("", "versions"), "config": ("", "settings"),
    "cache": ("", "kernels"), "view": ("PLACE/a.wbt -o PLACE/a.html", "path"),
    "puzzles": ("PLACE/puzzles", "notebooks"),
}  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plain")
    (folder / "k.py").write_text(FILE)
    for name in ("a", "b"):
        words = [f"{folder}/k.py::product", "--sig", "*f16:16 *f16:16 *f32:16 i32:16"]
        assert cli.main(["compile", *words, "--set", "N=64", "--set", "BK=32", "--target", "sm_90a",
                         "-o", f"{folder}/{name}.wbt"]) == 0  # fmt: skip
    return str(folder)


@pytest.fixture(scope="module")
def shell():
    InteractiveShell.clear_instance()
    found = InteractiveShell.instance()
    found.run_line_magic("load_ext", "workbench")
    registry.clear()
    found.user_ns.update(x=torch.ones(100), y=torch.ones(100), out=torch.zeros(100), n=100)
    found.run_cell_magic("kernel", f"{ARGS} --target cpu -q", CELL)
    found.run_cell_magic("kernel", f"{SIG} --target sm_90a -q", PRODUCT)
    yield found
    registry.clear()
    InteractiveShell.clear_instance()


def one_object(text):
    def no(word):
        raise AssertionError(f"{word} is no JSON")

    data = json.loads(text, parse_constant=no)
    assert isinstance(data, dict)
    return data


def magics():
    return set(looking.LookingMagics.magics["line"]) | set(looking.LookingMagics.magics["cell"])


def test_none_is_forgotten():
    from workbench.magics.question_magics import QuestionMagics

    registered = magics() | set(kernel.KernelMagics.magics["line"])
    registered |= set(kernel.KernelMagics.magics["cell"]) | set(QuestionMagics.magics["line"])
    assert set(LINES) == registered
    assert set(COMMANDS) == set(cli.COMMANDS)
    for name in {*WORDS, *registered, *cli.COMMANDS}:
        assert "--json" in [option.flag for option in options_of(name)], name


@pytest.mark.parametrize("name", LINES)
def test_a_magic_gives_one_object(shell, place, name):
    line, key = LINES[name]
    line = f"{line.replace('PLACE', place)} --json"
    if name == "kernel":
        found = shell.run_cell_magic(name, line.removeprefix("add "), CELL)
    else:
        found = shell.run_line_magic(name, line)
    data = one_object(str(found))
    assert data["ok"] in (True, False)
    assert data[key]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_prints_one_object(place, capsys, name):
    line, key = COMMANDS[name]
    code = cli.main([name, *shlex.split(line.replace("PLACE", place)), "--json"])
    printed = capsys.readouterr()
    data = one_object(printed.out)
    assert data["ok"] is (code == cli.OK)
    assert key in data


def test_numbers_that_json_has_not_are_words():
    assert one_object(plain(a=math.nan, b=[-math.inf, 1.5])) == {
        "ok": True, "a": "nan", "b": ["-inf", 1.5],
    }  # fmt: skip


def test_rows_have_their_lines(shell):
    rows = one_object(shell.run_line_magic("tile", "add --json"))["rows"]
    assert {4, 5, 6} <= {row["line"] for row in rows}
    only = one_object(shell.run_line_magic("tile", "add --line 5 --json"))["rows"]
    assert only == [row for row in rows if row["line"] == 5]


def test_one_pass_comes_with_its_difference(shell):
    every = one_object(shell.run_line_magic("passes", "add --all --json"))["passes"]
    changed = next(step for step in every if step["changed"])
    (one,) = one_object(shell.run_line_magic("passes", f"add {changed['number']} --json"))["passes"]
    assert one["diff"].startswith("--- before")
    assert one["name"] == changed["name"]


def test_an_edit_gives_both_sides(shell):
    text = one_object(shell.run_line_magic("override", "add tile --json"))["text"]
    data = one_object(shell.run_cell_magic("override", "add tile --json", text))
    assert data["ok"]
    assert {"what", "unedited", "edited"} == set(data["rows"][0])
    assert data["checks"][0]["ok"]
