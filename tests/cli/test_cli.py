"""The command line: commands, exit codes, output."""

from __future__ import annotations

import json

import pytest

from tests.magics.sources import PRODUCT_FILE
from workbench import cli
from workbench.source import budgets

FILE = """
import triton
import triton.language as tl

@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)

def mk(n=100):
    import torch
    x = torch.ones(n)
    return dict(x_ptr=x, y_ptr=x, out_ptr=torch.empty_like(x), n=n)
"""
SIG = ["--sig", "*fp32:16 *fp32:16 *fp32:16 i32", "--set", "BLOCK=1024"]
GRID = ["--grid", "cdiv(n, BLOCK)", "--set", "BLOCK=32", "--make", "mk", "--target", "cpu"]


@pytest.fixture
def place(tmp_path):
    path = tmp_path / "kernels.py"
    path.write_text(FILE)
    return f"{path}::add"


def test_compile_prints_ptx(place, capsys):
    assert cli.main(["compile", place, "--target", "sm_90a", *SIG, "--emit", "ptx"]) == cli.OK
    assert ".entry add" in capsys.readouterr().out


def test_compile_writes_a_page(place, tmp_path, capsys):
    page = tmp_path / "add.html"
    assert cli.main(["compile", place, *SIG, "-o", str(page)]) == cli.OK
    assert page.read_text().startswith("<!doctype html>")


def test_check_exits_with_1_on_a_mismatch(place, capsys):
    assert cli.main(["check", place, *GRID, "--check", "x_ptr + y_ptr"]) == cli.OK
    assert cli.main(["check", place, *GRID, "--check", "x_ptr - y_ptr"]) == cli.CHECK_FAILED
    assert "CheckError K601" in capsys.readouterr().err


def test_bench_writes_csv(place, tmp_path, capsys):
    out = tmp_path / "out.csv"
    arguments = [*GRID, "--x", "n=64,128", "--check", "x_ptr + y_ptr", "--baseline", "torch"]
    assert cli.main(["bench", place, *arguments, "-o", str(out)]) == cli.OK
    rows = [row for row in out.read_text().splitlines() if not row.startswith("#")]
    assert len(rows) == 1 + 4


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["frobnicate"], cli.USAGE, "unknown command 'frobnicate'"),
        (["compile"], cli.USAGE, "compile needs FILE.py::KERNEL"),
        (["diff", "k.py::f", "k.py::g"], cli.USAGE, "diff takes saved traces, 'k.py::f' names"),
        (["follow", "k.py::f", "5"], cli.USAGE, "workbench compile k.py::f … -o a.wbt saves one"),
        (["compile", "PLACE", "--tune", "x"], cli.USAGE, "unknown option '--tune'"),
        (["compile", "nowhere.py::add"], cli.USAGE, "nowhere.py cannot be read"),
        (["compile", "PLACEx", *SIG], cli.USAGE, "defines no kernel 'addx'; kernels there: add"),
        (["compile", "PLACE", "--sig", "*f32"], cli.COMPILE_ERROR, "error K2"),
        (["explain", "K999"], cli.USAGE, "no error code K999"),
        (["view", "nowhere.wbt"], cli.USAGE, "nowhere.wbt cannot be read"),
    ],
)
def test_wrong_commands_have_exit_codes(place, capsys, arguments, code, text):
    given = [argument.replace("PLACE", place) for argument in arguments]
    assert cli.main(given) == code
    assert text in capsys.readouterr().err


def test_errors_as_json(place, capsys):
    assert cli.main(["compile", place, "--gird", "1", "--json"]) == cli.USAGE
    error = json.loads(capsys.readouterr().out)["errors"][0]
    assert error["code"] == "K100"
    assert "did you mean" in error["message"] or error["help"]


def test_explain_and_help(capsys):
    assert cli.main(["explain", "K601"]) == cli.OK
    assert cli.main(["bench", "--help"]) == cli.OK
    out = capsys.readouterr().out
    assert "differs from the reference" in out
    assert "--baseline" in out


def test_doctor_names_every_part(capsys):
    assert cli.main(["doctor", "--json"]) == cli.OK
    parts = json.loads(capsys.readouterr().out)["parts"]
    assert {"workbench", "torch", "ptxas", "nvdisasm", "GPU", "cache"} <= set(parts)


def test_notebooks_hold_kernels_too(tmp_path, capsys):
    cells = [
        {"cell_type": "code", "source": ["%load_ext workbench\n", "import math"]},
        {"cell_type": "code", "source": ["%%kernel --sig \"*f32\" \\\n", "  -q\n",
                                         "def one(p):\n", "    tl.store(p, 1.0)\n"]},
    ]  # fmt: skip
    path = tmp_path / "nb.ipynb"
    path.write_text(json.dumps({"cells": cells, "nbformat": 4, "nbformat_minor": 5}))
    code = cli.main(["compile", f"{path}::one", "--sig", "*f32", "--target", "sm_80"])
    assert code == cli.OK
    assert ".target sm_80" in capsys.readouterr().out


def test_schedule_tells_what_a_round_does(tmp_path, capsys):
    path = tmp_path / "product.py"
    path.write_text(PRODUCT_FILE)
    options = ["--sig", "*f16:16 *f16:16 *f32:16 i32:16", "--set", "N=64", "--set", "BK=32"]
    arguments = ["schedule", f"{path}::product", *options, "--target", "sm_90a"]
    assert cli.main(arguments) == cli.OK
    assert "product for sm_90a: the loop in line 9" in capsys.readouterr().out
    assert cli.main([*arguments, "--json"]) == cli.OK
    (one,) = json.loads(capsys.readouterr().out)["pipelines"]
    assert one["roles"] == ["all warps"]


def test_layouts_and_accesses_are_told_without_a_launch(tmp_path, capsys):
    path = tmp_path / "product.py"
    path.write_text(PRODUCT_FILE)
    options = ["--sig", "*f16:16 *f16:16 *f32:16 i32:16", "--set", "N=64", "--set", "BK=32"]
    assert cli.main(["layouts", f"{path}::product", *options, "--target", "sm_80"]) == cli.OK
    assert "product for sm_80: " in capsys.readouterr().out
    assert cli.main(["layouts", f"{path}::product", "total", *options, "--json"]) == cli.OK
    (one,) = json.loads(capsys.readouterr().out)["layouts"]
    assert (one["value"], one["shape"]) == ("total", [64, 64])
    assert cli.main(["access", f"{path}::product", *options]) == cli.OK
    assert "predicted" in capsys.readouterr().out
    assert cli.main(["access", f"{path}::product", "13", *options, "--json"]) == cli.OK
    assert {move["direction"] for move in json.loads(capsys.readouterr().out)["accesses"]} == {
        "store"
    }
    assert cli.main(["layouts", f"{path}::product"]) == cli.USAGE
    assert "--sig" in capsys.readouterr().err


def test_the_kernel_of_a_file_is_the_one_that_no_other_calls(tmp_path, capsys):
    path = tmp_path / "kernels.py"
    path.write_text(f"{FILE}\n@triton.jit\ndef twice(x):\n    return tl.cast(x, tl.float32) * 2\n"
                    .replace("x + y", "twice(x)"))  # fmt: skip
    assert cli.main(["compile", str(path), "--target", "sm_90a", *SIG, "--emit", "ptx"]) == cli.OK
    assert ".entry add" in capsys.readouterr().out


def test_limits_of_checks_come_from_the_environment(monkeypatch, capsys):
    monkeypatch.setitem(budgets.BUDGETS, "checked", budgets.BUDGETS["checked"])
    monkeypatch.setenv("WORKBENCH_LIMIT_CHECKED", "7")
    assert cli.main(["config"]) == cli.OK
    assert "checked                  7 seconds" in capsys.readouterr().out
    assert cli.main(["config", "checked=9"]) == cli.USAGE
    assert "WORKBENCH_LIMIT_CHECKED" in capsys.readouterr().err
