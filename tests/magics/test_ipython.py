"""The magics in a real IPython shell: registration, display, values, errors."""

from __future__ import annotations

import builtins
import types

import pytest

from tests.magics.sources import ADD

pytest.importorskip("IPython")
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from workbench.magics import registry
from workbench.magics.while_typing import hooks
from workbench.viewer import MIME

CELL = """%%kernel add --set BLOCK=3 --args x,y,out,7 --grid GRID --check "x + y" --target cpu"""
CELL += ADD


@pytest.fixture
def shell(monkeypatch):
    # What doctest leaves there would keep IPython from binding `_`.
    monkeypatch.delattr(builtins, "_", raising=False)
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance()
    registry.clear()
    shell.run_line_magic("load_ext", "workbench")
    run(shell, "import torch\nx, y, out = torch.arange(7.), torch.ones(7), torch.zeros(7)")
    yield shell
    InteractiveShell.clear_instance()


def test_errors_name_the_cell_by_the_number_it_shows(shell):
    outcome, captured = run(shell, CELL.replace("GRID", "3").replace("tl.load(x", "tl.lod(x"))
    number = outcome.execution_count
    assert outcome.error_in_exec.span.file == f"In[{number}]"
    shown = [output.data["text/plain"] for output in captured.outputs if MIME in output.data]
    assert f"--> In[{number}]:5:9" in shown[0]


def test_what_the_cells_own_python_raises_shows_the_cell_only(shell):
    outcome, _ = run(shell, CELL.replace("GRID", "3") + "1 / 0\n")
    assert isinstance(outcome.error_in_exec, ZeroDivisionError)
    text = "\n".join(outcome.error_in_exec._render_traceback_())
    assert "1 / 0" in text
    assert "workbench" not in text


def run(shell, text):
    with capture_output() as captured:
        outcome = shell.run_cell(text, store_history=True)
    return outcome, captured


def test_extension_offers_names_only_where_they_are_unbound():
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance()
    shell.user_ns["kernel"] = "mine"
    shell.run_line_magic("load_ext", "workbench")
    assert shell.user_ns["kernel"] == "mine"
    assert callable(shell.user_ns["jit"])
    InteractiveShell.clear_instance()


def test_a_cell_is_shown_once_and_is_the_cells_value(shell):
    outcome, captured = run(shell, CELL.replace("GRID", "3"))
    assert outcome.success
    shown = [output.data for output in captured.outputs if MIME in output.data]
    assert len(shown) == 1
    assert {"text/html", "text/plain"} <= set(shown[0])
    assert outcome.result is shell.user_ns["_kernel"]
    assert shell.user_ns["_"] is outcome.result


def test_a_failed_check_is_shown_and_raised(shell):
    outcome, captured = run(shell, CELL.replace("GRID", "1"))
    assert not outcome.success
    assert type(outcome.error_in_exec).__name__ == "CheckError"
    assert any(MIME in output.data for output in captured.outputs)


def test_errors_are_printed_without_our_frames(shell):
    _, captured = run(shell, CELL.replace("--grid GRID", "--gird 3"))
    assert "unknown option '--gird'; did you mean --grid?" in captured.stdout
    assert "grammar.py" not in captured.stdout


def test_line_magics_return_text(shell):
    run(shell, CELL.replace("GRID", "3"))
    run(shell, "text = %tile add")
    assert "tile.load" in shell.user_ns["text"]
    assert isinstance(shell.user_ns["text"], str)
    run(shell, "rows = %tile add --line 5 --raw")
    assert "tile.store" not in shell.user_ns["rows"]
    run(shell, "table = %kernels")
    assert "add" in shell.user_ns["table"]
    run(shell, "listed = %passes add --all")
    assert "ms" in shell.user_ns["listed"]
    run(shell, "story = %explain add:5")
    assert "tile IR" in shell.user_ns["story"]


def test_existing_kernels_can_be_checked_and_timed(shell):
    run(shell, CELL.replace("GRID", "3"))
    outcome, _ = run(shell, "%check add --args x,y,out,7 --set BLOCK=4 --grid 2 --target cpu")
    assert outcome.success
    assert outcome.result.check.ok
    outcome, _ = run(
        shell, '%bench add --args x,y,out,7 --set BLOCK=4 --grid 2 --target cpu --baseline "x + y"'
    )
    assert outcome.success
    assert len(outcome.result.bench) == 2


def test_what_was_wrong_stays_wrong(shell):
    """What a cell compares with, and its tolerances, hold for the lines after it."""
    cell = CELL.replace("GRID", "3").replace("--check", "--rtol 1e-3 --atol 1e-4 --check")
    wrong = cell.replace("x + y, mask", "x - y, mask")
    assert wrong.count("x - y") == 1
    for text, ok in ((wrong, False), (cell, True)):
        run(shell, text)
        said = shell.user_ns["_kernel"].plan.reference_text
        for line in ("%check add", "%bench add", "%check add", "%check add --rtol 1e-2"):
            outcome, _ = run(shell, line)
            assert outcome.success is ok, line
            result = shell.user_ns["_kernel"]
            assert registry.find("add") is result
            assert (result.plan.reference_text, result.plan.atol) == (said, 1e-4)
            assert result.plan.rtol == (1e-2 if "rtol" in line else 1e-3)
            assert result.check.ok is ok
    run(shell, wrong)
    outcome, _ = run(shell, "%check add --check")
    assert outcome.success


def test_a_failed_check_of_a_kernel_without_a_cell_can_be_asked_about(shell):
    run(shell, CELL.partition("\n")[2].replace("x + y, mask", "x - y, mask"))
    run(shell, "add = jit(add)")
    registry.clear()
    outcome, _ = run(
        shell, '%check add --args x,y,out,7 --set BLOCK=4 --grid 2 --target cpu --check "x + y"'
    )
    assert "%bisect add" in outcome.error_in_exec.render()
    assert registry.find("add") is shell.user_ns["_kernel"]
    outcome, _ = run(shell, "%bisect add")
    assert outcome.success


def test_save_writes_by_suffix(shell, tmp_path):
    run(shell, CELL.replace("GRID", "3"))
    outcome, _ = run(shell, f"%save add {tmp_path}/add.html")
    assert outcome.success
    assert (tmp_path / "add.html").read_text().startswith("<!doctype html>")


def test_a_stage_is_edited_in_a_cell(shell):
    run(shell, CELL.replace("GRID", "3"))
    outcome, _ = run(shell, "%override add tile")
    assert outcome.success
    head, _, body = outcome.result.partition("\n")
    assert head == "%%override add@cpu tile"
    outcome, captured = run(shell, f"{head} --as edited\n{body.replace('[%x, %y]', '[%y, %x]')}")
    assert outcome.success
    assert shell.user_ns["edited"].check.ok
    assert "the same, bit for bit" in captured.outputs[0].data["text/plain"]
    outcome, _ = run(shell, f"{head}\n{body.replace('tile.add', 'tile.and')}")
    assert not outcome.success
    outcome, _ = run(shell, "%access add")
    assert "compiled for no GPU" in str(outcome.error_in_exec)


def test_new_magics_complete_and_help(shell):
    _, found = shell.complete("til", "%override add til", 17)
    assert "tile" in found
    _, found = shell.complete("K30", "%explain K30", 12)
    assert "K302" in found
    assert "--shared" in shell.find_line_magic("layouts").__doc__
    assert "--rtol R" in shell.find_cell_magic("override").__doc__


def test_help_lists_the_options(shell):
    text = shell.find_cell_magic("kernel").__doc__
    assert "--baseline [NAME=]EXPR +" in text
    assert "--line N" in shell.find_line_magic("ptx").__doc__
    assert "cache [clear]" in shell.find_line_magic("workbench").__doc__


def test_quiet_cells_show_nothing(shell):
    _, captured = run(shell, CELL.replace("GRID", "3 -q"))
    assert not captured.outputs


def test_the_magics_load_where_completers_are_older(monkeypatch):
    """IPython 7.34, which Colab has, knows no matchers that see the whole cell."""
    import IPython.core.completer as completing

    monkeypatch.delattr(completing, "context_matcher")
    shell = types.SimpleNamespace(Completer=types.SimpleNamespace(custom_matchers=[]))
    hooks.load(shell)
    assert shell.Completer.custom_matchers == []


def test_a_plain_cell_without_triton_is_told_how_it_runs(shell, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "triton", None)
    outcome, captured = run(shell, "import triton.language as tl")
    assert isinstance(outcome.error_in_exec, ModuleNotFoundError)
    assert "%%kernel as its first line" in captured.stderr
    _, captured = run(shell, "import no_such_module")
    assert "workbench" not in captured.stderr
    monkeypatch.setitem(__import__("sys").modules, "triton", types.ModuleType("triton"))
    _, captured = run(shell, "import triton.no_such_module")
    assert "as_triton" not in captured.stderr
