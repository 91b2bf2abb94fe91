"""Traces come back from files and from saved notebooks; strangers' files cannot reach elsewhere."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.trace.samples import add_trace, matmul_trace
from workbench.source import OptionError
from workbench.viewer import MIME, mimebundle, output, read_traces, save


def notebook(path: Path, *bundles: dict[str, Any]) -> Path:
    cells = [{"cell_type": "markdown", "source": ""}]
    cells += [{"cell_type": "code", "outputs": [{"data": each}, {"text": ""}]} for each in bundles]
    path.write_text(json.dumps({"cells": cells}))
    return path


def test_files_are_read(tmp_path: Path) -> None:
    path = save([add_trace()], tmp_path / "a.wbt")
    assert read_traces(path)[0].id == add_trace().id


def test_notebook_outputs_are_read_by_kernel_name(tmp_path: Path) -> None:
    path = notebook(
        tmp_path / "n.ipynb", mimebundle([add_trace()]), mimebundle([matmul_trace(100)])
    )
    assert read_traces(path)[0].kernel.name == "matmul"
    assert read_traces(f"{path}::add")[0].id == add_trace().id


def test_an_unknown_kernel_is_refused_with_those_known(tmp_path: Path) -> None:
    path = notebook(tmp_path / "n.ipynb", mimebundle([add_trace()]))
    with pytest.raises(OptionError, match=r"no output of kernel 'mul' .* kernels found: add"):
        read_traces(f"{path}::mul")


def test_a_trace_beside_the_notebook_is_found(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(output, "DATA_CHARACTERS", 1_000)
    path = tmp_path / "n.ipynb"
    notebook(path, mimebundle([add_trace()], notebook=path))
    assert read_traces(path)[0].id == add_trace().id
    next((tmp_path / "n.traces").iterdir()).write_bytes(b"other")
    with pytest.raises(OptionError, match="is not the file that the output was saved with"):
        read_traces(path)


def test_a_reference_cannot_leave_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "inside"
    folder.mkdir()
    (tmp_path / "secret.wbt").write_bytes(b"x")
    stored = {"v": 1, "summary": {}, "ref": {"path": "../secret.wbt", "sha256": ""}}
    path = notebook(folder / "n.ipynb", {MIME: stored})
    with pytest.raises(OptionError, match="outside the notebook's folder"):
        read_traces(path)


@pytest.mark.parametrize("linked", ["file", "folder", "up and down"])
def test_links_do_not_lead_out_of_the_folder(tmp_path: Path, linked: str) -> None:
    folder, secret = tmp_path / "inside", tmp_path / "outside" / "a.wbt"
    folder.mkdir()
    secret.parent.mkdir()
    save([add_trace()], secret)
    name = "n.traces/a.wbt"
    if linked == "file":
        (folder / "n.traces").mkdir()
        (folder / name).symlink_to(secret)
    elif linked == "folder":
        (folder / "n.traces").symlink_to(secret.parent)
    else:
        (folder / "link").symlink_to(secret.parent)
        name = "link/../outside/a.wbt"
    digest = hashlib.sha256(secret.read_bytes()).hexdigest()
    stored = {"v": 1, "summary": {}, "ref": {"path": name, "sha256": digest}}
    with pytest.raises(OptionError, match="outside the notebook's folder"):
        read_traces(notebook(folder / "n.ipynb", {MIME: stored}))


@pytest.mark.parametrize(
    ("name", "make", "message"),
    [
        ("pipe", os.mkfifo, "no plain file"),
        ("circle", lambda path: path.symlink_to(path), "cannot be (found|read)"),
        ("zero\0", lambda path: None, "cannot be found"),
        ("huge", lambda path: (path.write_bytes(b""), os.truncate(path, 1 << 40)), "larger than"),
        ("gone", lambda path: None, "cannot be read: No such file"),
        ("", lambda path: None, "no plain file"),
    ],
)
def test_what_is_no_file_is_not_waited_for(tmp_path: Path, name: str, make, message: str) -> None:
    make(tmp_path / name)
    stored = {"v": 1, "summary": {}, "ref": {"path": name, "sha256": ""}}
    with pytest.raises(OptionError, match=message):
        read_traces(notebook(tmp_path / "n.ipynb", {MIME: stored}))


def test_a_trace_is_not_written_through_a_link(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(output, "DATA_CHARACTERS", 1_000)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "n.traces").symlink_to(tmp_path / "elsewhere")
    bundle = mimebundle([add_trace()], notebook=tmp_path / "n.ipynb")
    assert "ref" not in bundle[MIME]
    assert "cannot be written: it is a link" in bundle["text/html"]
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.wbt", b"nonsense", "not a trace"),
        ("a.json", b"{}", "no version number"),
        ("a.ipynb", b"{", "not a notebook"),
        ("a.ipynb", b"{}", "kernels found: none"),
        ("a.ipynb", b"[]", "not a notebook"),
        ("a.ipynb", b'{"cells": [{"outputs": [3]}]}', "not a notebook"),
    ],
)
def test_what_is_no_trace_is_said(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(OptionError, match=message):
        read_traces(tmp_path / name)


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="cannot be read: No such file"):
        read_traces(tmp_path / "gone.wbt")
