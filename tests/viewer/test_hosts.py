"""Which host shows an output, and the widget's protocol: no payload stays in lasting state."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import pytest

from tests.trace.samples import add_lazy, add_trace
from workbench.trace import unpack
from workbench.viewer import cell_output, choose, frontend, host, notebook_path
from workbench.viewer.widget import TraceWidget


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("VSCODE_PID", "JPY_SESSION_NAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(TraceWidget, "bundle_sent", False)
    choose("auto")


@pytest.fixture
def bundle(monkeypatch: pytest.MonkeyPatch) -> bytes:
    monkeypatch.setattr(frontend, "script", lambda name: b"export{};")
    return b"export{};"


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, Any]]:
    messages: list[tuple[Any, Any]] = []
    monkeypatch.setattr(
        TraceWidget, "send", lambda self, content, buffers=None: messages.append((content, buffers))
    )
    return messages


def test_jupyterlab_gets_no_widget() -> None:
    assert host({}) == "extension"


def test_vs_code_and_colab_get_the_widget(monkeypatch: pytest.MonkeyPatch) -> None:
    assert host({"__vsc_ipynb_file__": "/n.ipynb"}) == "widget"
    monkeypatch.setitem(sys.modules, "google.colab", types.ModuleType("google.colab"))
    assert host({}) == "widget"


def test_vs_code_is_known_by_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VSCODE_PID", "1")
    assert host() == "widget"


def test_the_user_decides() -> None:
    choose("widget")
    assert host({}) == "widget"
    choose("static")
    assert host({"__vsc_ipynb_file__": "x"}) == "static"
    with pytest.raises(ValueError, match="unknown view mode"):
        choose("movie")


def test_notebook_path_comes_from_the_front_end(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert notebook_path({}) is None
    assert notebook_path({"__vsc_ipynb_file__": f"{tmp_path}/a.ipynb"}) == tmp_path / "a.ipynb"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JPY_SESSION_NAME", "folder/b.ipynb")
    assert notebook_path({}) == tmp_path / "b.ipynb"


def test_opening_message_carries_trace_and_bundle_once(bundle: bytes) -> None:
    first, second = TraceWidget([add_trace()]), TraceWidget([add_lazy()])
    assert unpack(first.trace)[0].id == add_trace().id
    assert first.bundle == bundle
    assert second.bundle == b""


def test_ack_empties_the_state(bundle: bytes) -> None:
    widget = TraceWidget([add_trace()])
    widget._receive(widget, {"type": "ack"}, [])
    assert widget.trace == b""
    assert widget.bundle == b""
    lasting = widget.get_state()
    sizes = {key: len(str(value)) for key, value in lasting.items() if key != "_esm"}
    assert max(sizes.values()) < 4_100


def test_a_reloaded_page_gets_the_payload_again(bundle: bytes, sent: list[tuple[Any, Any]]) -> None:
    widget = TraceWidget([add_trace()])
    widget._receive(widget, {"type": "ack"}, [])
    widget._receive(widget, {"type": "payload?"}, [])
    ((content, buffers),) = [message for message in sent if message[0]["type"] == "payload"]
    assert content == {"type": "payload"}
    assert unpack(buffers[0])[0].id == add_trace().id
    assert buffers[1] == bundle


def test_unknown_messages_are_ignored(sent: list[tuple[Any, Any]]) -> None:
    widget = TraceWidget([add_trace()])
    widget._receive(widget, {"type": "run"}, [])
    widget._receive(widget, "nonsense", [])
    assert sent == []
    assert widget.trace


def test_update_sends_the_newer_trace(bundle: bytes, sent: list[tuple[Any, Any]]) -> None:
    widget = TraceWidget([add_trace()])
    widget.update([add_trace("cpu")])
    ((content, buffers),) = sent
    assert content == {"type": "update"}
    assert unpack(buffers[0])[0].kernel.target == "cpu"


def test_importing_the_viewer_loads_no_front_end_library() -> None:
    import subprocess

    code = (
        "import sys, workbench.viewer; "
        "print([m for m in ('IPython', 'ipywidgets', 'anywidget', 'matplotlib', 'torch') "
        "if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


def test_a_cell_output_has_a_widget_only_where_the_extension_cannot_be(bundle: bytes) -> None:
    assert WIDGET_VIEW not in cell_output([add_trace()])
    assert WIDGET_VIEW in cell_output([add_trace()], namespace={"__vsc_ipynb_file__": "n.ipynb"})


def test_static_output_has_no_interactive_part(bundle: bytes) -> None:
    choose("static")
    assert set(cell_output([add_trace()])) == {"text/html", "text/plain"}


def test_no_widget_without_a_bundle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frontend, "script", lambda name: None)
    choose("widget")
    assert WIDGET_VIEW not in cell_output([add_trace()])
