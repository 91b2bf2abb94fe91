"""Which host shows an output, and the widget's protocol: no payload stays in lasting state."""

from __future__ import annotations

import gzip
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from tests.trace.samples import add_lazy, add_trace
from workbench import run_cell
from workbench.magics.cells import default_names
from workbench.trace import unpack
from workbench.viewer import (
    Answer,
    cell_output,
    choose,
    frontend,
    host,
    notebook_path,
    place,
    value_output,
)
from workbench.viewer.widget import TraceWidget

ADD = """
@kernel
def add(x_ptr, out_ptr, B: tl.constexpr):
    at = tl.arange(0, B)
    tl.store(out_ptr + at, tl.load(x_ptr + at) + 1)
"""


def arrays() -> dict[str, Any]:
    return {**default_names(), "x": np.ones(8, np.float32), "out": np.ones(8, np.float32)}


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("VSCODE_PID", "JPY_SESSION_NAME"):
        monkeypatch.delenv(name, raising=False)
    for name in ("bundle_sent", "limits_said"):
        monkeypatch.setattr(TraceWidget, name, False)
    choose("auto")
    yield
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


def test_a_place_is_known_by_its_shell_too(monkeypatch: pytest.MonkeyPatch) -> None:
    class Shell:
        user_ns: ClassVar[dict[str, Any]] = {"__vsc_ipynb_file__": "/n.ipynb"}

    ipython = types.SimpleNamespace(get_ipython=Shell)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    assert (place(), host()) == ("VS Code", "widget"), "a value that is shown knows no namespace"
    monkeypatch.setattr(Shell, "user_ns", {})
    monkeypatch.setattr(Shell, "__module__", "google.colab._shell")
    assert (place(), host()) == ("Colab", "widget")


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


ANSWER = Answer(kind="step", data={}, title="", text="text", html=lambda _: "<p>text</p>")


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, bundle: bytes) -> list[TraceWidget]:
    """The widgets that a test makes."""
    all_made: list[TraceWidget] = []
    original = TraceWidget.__init__

    def noting(self: TraceWidget, *args: Any, **given: Any) -> None:
        original(self, *args, **given)
        all_made.append(self)

    monkeypatch.setattr(TraceWidget, "__init__", noting)
    return all_made


def test_what_a_widget_cannot_do_is_said_once(made: list[TraceWidget]) -> None:
    told: list[str] = []
    for _ in range(3):
        cell_output([add_trace()], namespace={"__vsc_ipynb_file__": "n.ipynb"})
        told.append(made[-1].limits)
    assert "In VS Code lines are marked in these panes, not in the cell" in told[0]
    assert told[1:] == ["", ""]


def test_in_colab_each_output_brings_all_it_needs(
    made: list[TraceWidget], bundle: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has a frame of its own, and the value of a cell has to name the widget manager."""
    output: Any = types.ModuleType("google.colab.output")
    enabled: list[bool] = []
    output.enable_custom_widget_manager = lambda: enabled.append(True)
    output._widgets = types.SimpleNamespace(_installed_url="https://host/manager.js")
    monkeypatch.setitem(sys.modules, "google.colab", types.ModuleType("google.colab"))
    monkeypatch.setitem(sys.modules, "google.colab.output", output)
    for _ in range(2):
        shown = value_output([add_trace()], answer=ANSWER)
        assert isinstance(shown, tuple)
        assert shown[1][WIDGET_VIEW]["colab"]["custom_widget_manager"]["url"].endswith("manager.js")
        assert made[-1].bundle == bundle
    assert enabled


def test_a_widget_without_a_kernel_has_the_static_form(made: list[TraceWidget]) -> None:
    names = {"__vsc_ipynb_file__": "n.ipynb"}
    html = cell_output([add_trace()], namespace=names)["text/html"]
    widget = made[-1]
    widget._receive(widget, {"type": "ack"}, [])
    assert gzip.decompress(widget.static).decode() == html
    assert len(widget.static) < 20_000
    assert not isinstance(value_output([add_trace()], namespace=names, answer=ANSWER), tuple)


def test_static_output_has_no_interactive_part(bundle: bytes) -> None:
    choose("static")
    assert set(cell_output([add_trace()])) == {"text/html", "text/plain"}


def test_no_widget_without_a_bundle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frontend, "script", lambda name: None)
    choose("widget")
    assert WIDGET_VIEW not in cell_output([add_trace()])


def test_marimo_asks_values_for_what_shows_them(bundle: bytes) -> None:
    """Each widget brings the viewer: a process may serve several pages."""
    result = run_cell(ADD, "add --args x,out --grid 1 --set B=8 --target cpu", arrays())
    for value in (result, result, result.compiled):
        shown = value._display_()
        assert isinstance(shown, TraceWidget)
        assert shown.bundle == bundle


def test_marimo_gets_the_static_form_where_no_viewer_is_built(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(frontend, "script", lambda name: None)
    result = run_cell(ADD, "add --args x,out --grid 1 --set B=8 --target cpu", arrays())
    assert "Tile IR" in result._display_()._repr_html_()
