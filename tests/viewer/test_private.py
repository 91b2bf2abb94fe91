"""What a saved notebook tells of the machine: nothing; and of libraries: what the kernel calls."""

from __future__ import annotations

import getpass
import importlib.util
import os
import socket
from pathlib import Path

import pytest

import workbench as wb
from workbench.magics.cells import run_cell
from workbench.questions.answers import OpPlace
from workbench.source.captures import captures
from workbench.source.files import shown_file, shown_text
from workbench.source.kernels import kernel_source
from workbench.source.mentioned import chains_of
from workbench.trace import to_json
from workbench.viewer.output import mimebundle

LIBRARY = """
import workbench as wb
import workbench.triton.language as tl

def unused(x):
    return x

def relu(x):
    return tl.maximum(x, 0.0)

def load(pointer):
    return unused(pointer)
"""
KERNEL = """
import workbench as wb
import workbench.triton.language as tl
import somelibrary

@wb.jit
def rectify(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    tl.store(out_ptr + offsets, somelibrary.relu(x))
"""


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A kernel in a file of a user's folder, with a helper in an installed library."""
    library = tmp_path / "site-packages" / "somelibrary.py"
    library.parent.mkdir()
    library.write_text(LIBRARY)
    monkeypatch.syspath_prepend(str(library.parent))
    path = tmp_path / "of_a_user.py"
    path.write_text(KERNEL)
    spec = importlib.util.spec_from_file_location("of_a_user", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.rectify


def private() -> list[str]:
    names = [str(Path.home()), os.getcwd(), socket.gethostname()]  # noqa: PTH109
    user = getpass.getuser()
    # A user may be called like something that a trace is full of.
    return [name for name in [*names, f"/{user}/", "site-packages"] if len(name) > 3]


@pytest.mark.parametrize("target", ["cpu", "sm_90a"])
def test_a_trace_names_files_and_tells_no_folders(kernel, target, tmp_path):
    trace = wb.compile(kernel, "*fp32 *fp32", {"BLOCK": 64}, target=target).trace
    text = to_json(trace)
    assert [source.file for source in trace.sources] == ["of_a_user.py", "somelibrary.py"]
    assert trace.kernel.file == "of_a_user.py"
    for secret in [str(tmp_path), *private()]:
        assert secret not in text, f"the trace holds {secret}"
    called = trace.strings[trace.sources[1].text]
    assert called.startswith("def relu")
    assert "def load" not in text, "named like tl.load, never called"


def test_an_error_in_a_library_holds_only_what_it_points_into(tmp_path):
    torch = pytest.importorskip("torch")
    cell = "def k(x, out):\n    o = tl.arange(0, 64)\n    tl.store(out + o, torch.relu(tl.load(x)))"
    with pytest.raises(wb.KernelError) as caught:
        run_cell(cell, '--sig "*f32 *f32" --target cpu', {"torch": torch}, file="In[1]")
    trace = caught.value.trace.trace
    assert [source.file for source in trace.sources] == ["In[1]"]
    bundle = str(mimebundle([trace]))
    for secret in private():
        assert secret not in bundle


def test_errors_and_answers_name_files_and_tell_no_folders(kernel, tmp_path):
    torch = pytest.importorskip("torch")
    x, out = torch.arange(-32.0, 32.0), torch.zeros(64)
    with pytest.raises(wb.KernelError) as failed:
        wb.check(kernel, lambda x_ptr: x_ptr, args=(x, out), grid=1, BLOCK=64, target="cpu")
    with pytest.raises(wb.KernelError) as refused:
        wb.compile(kernel, "i32 *fp32", {"BLOCK": 64}, target="cpu")
    span = failed.value.span
    assert span is not None
    place = OpPlace("%x = tile.load %x_ptr", "tile.load", 1, span)
    said = [failed.value.render(), refused.value.render(), *place.shown(), str(place.data())]
    assert said[0].count("--> of_a_user.py:") == said[1].count("--> of_a_user.py:") == 1
    for secret in [str(tmp_path), *private()]:
        assert secret not in "\n".join(said)


def test_of_a_module_counts_what_is_looked_up_on_it(kernel):
    import torch.nn

    def uses(x):
        return torch.nn.functional.relu(torch.abs(x).load())

    def gives_away(x):
        return [torch, x.load]

    assert set(chains_of(uses.__code__, "torch")) == {("nn", "functional", "relu"), ("abs",)}
    assert () in set(chains_of(gives_away.__code__, "torch"))
    found = captures(kernel_source(kernel.fn))
    assert [source.name for source in found.sources] == ["rectify", "relu"]
    assert found.unchanged()


def test_another_function_under_the_looked_up_name_is_another_kernel(kernel, monkeypatch):
    import somelibrary

    found = captures(kernel_source(kernel.fn))
    monkeypatch.setattr(somelibrary, "load", somelibrary.unused)
    assert found.unchanged(), "nobody looks it up"
    monkeypatch.setattr(somelibrary, "relu", somelibrary.unused)
    assert not found.unchanged()


def test_files_have_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert shown_file(f"{tmp_path}/kernels/add.py") == "kernels/add.py"
    assert shown_file("/home/somebody/secret/add.py") == "add.py"
    assert shown_file("/opt/env/lib/python3.12/site-packages/torch/_ops.py") == "torch/_ops.py"
    assert shown_file("/usr/lib/python3.12/pickle.py") == "pickle.py"
    assert shown_file("In[3]") == "In[3]"
    assert shown_text("cannot read /home/somebody/x/a.bin: gone") == "cannot read a.bin: gone"
    for same in ("x/y/z", "a / b", "10/20/30 steps", "https://a.example/b/c", "and/or"):
        assert shown_text(same) == same


def test_a_kernel_of_a_plain_cell_is_named_after_it():
    pytest.importorskip("IPython")
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    try:
        shell.run_cell("import workbench as wb, workbench.triton.language as tl")
        number = shell.execution_count
        shell.run_cell(
            "@wb.jit\ndef k(x, B: tl.constexpr):\n    tl.store(x + tl.arange(0, B), 1.0)",
            store_history=True,
        ).raise_error()
        kernel = shell.user_ns["k"]
        trace = wb.compile(kernel, "*fp32", {"B": 16}, target="cpu").trace
        assert [source.file for source in trace.sources] == [f"In[{number}]"]
        assert trace.kernel.file == f"In[{number}]"
    finally:
        InteractiveShell.clear_instance()
