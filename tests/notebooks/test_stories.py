"""The notebooks run from top to bottom, in a kernel of their own, and say what they promise."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from workbench.trace import Trace  # noqa: E402
from workbench.viewer import MIME  # noqa: E402
from workbench.viewer.reading import open_envelope  # noqa: E402

ROOT = Path(__file__).parents[2]
STORIES = sorted((ROOT / "notebooks").glob("*.ipynb"))
#: Stories that break launches on purpose: how many checks fail.
BROKEN = {"01-vector-add": 1, "06-when-things-go-wrong": 1, "07-attention": 1}
#: What a line of progress leaves when it goes. How long things took says where it stands.
GONE = {"text/plain": ""}
#: What only a running kernel can show; it is not kept.
LIVE = "application/vnd.jupyter.widget-view+json"
#: Stories in which nothing is measured.
UNMEASURED = {"06-when-things-go-wrong"}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=STORIES, ids=lambda path: path.stem)
def story(request, tmp_path_factory) -> tuple[str, Any, Path]:
    nbclient = pytest.importorskip("nbclient")  # seconds to import: not while tests are collected
    nbformat = pytest.importorskip("nbformat")
    folder = tmp_path_factory.mktemp("story")
    notebook = nbformat.read(request.param, as_version=4)
    nbclient.NotebookClient(
        notebook, timeout=900, kernel_name="python3", store_widget_state=False,
        resources={"metadata": {"path": str(folder)}},
    ).execute(env={**os.environ, "PYTHONPATH": str(ROOT)})  # fmt: skip
    return request.param.stem, notebook, folder


def traces_of(notebook: Any, folder: Path) -> list[tuple[Trace, ...]]:
    return [
        open_envelope(output["data"][MIME], folder)
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if "data" in output.get("data", {}).get(MIME, {})  # not a summary alone
    ]


def kept(path: Path) -> Any:
    return pytest.importorskip("nbformat").read(path, as_version=4)


def kinds(cell: Any) -> list[tuple[str, ...]]:
    """Return what a cell's outputs are, in order; pieces of one stream count once."""
    found = [
        (o.output_type, o.get("name", ""), *sorted(set(o.get("data", {})) - {LIVE}))
        for o in cell.get("outputs", [])
        if o.get("data") != GONE
    ]
    return [kind for n, kind in enumerate(found) if n == 0 or kind != found[n - 1]]


def test_there_are_these_stories():
    assert [path.stem for path in STORIES] == [
        "01-vector-add", "02-fused-softmax", "03-matmul", "04-layernorm", "05-dropout-and-philox",
        "06-when-things-go-wrong", "07-attention", "08-paged-attention", "09-quantised-matmul",
    ]  # fmt: skip


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_what_is_kept_is_small_and_tells_nothing_of_its_machine(path: Path):
    """`make notebooks` writes it."""
    notebook = kept(path)
    assert path.stat().st_size <= 1_000_000
    assert all(cell.get("outputs") or not shows(cell) for cell in notebook.cells)
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            data = dict(output.get("data", {}))
            assert sum(len(str(held)) for held in data.values()) <= 400_000
            data.pop("image/png", None)
            data.pop(MIME, None)  # tests/viewer/test_private.py asks what traces hold
            text = "".join(map(str, (*data.values(), output.get("text", ""))))
            assert not re.search(r"(?<![\w.])/(home|root|tmp|work|Users)/", text), cell.source


def shows(cell: Any) -> bool:
    """Say whether a cell is one whose output is the story."""
    return cell.cell_type == "code" and cell.source.startswith(("%%kernel", "%gpu", "%sass"))


def test_what_is_kept_is_what_the_cells_give(story):
    name, notebook, _ = story
    stored = kept(next(path for path in STORIES if path.stem == name))
    assert [c.source for c in stored.cells] == [c.source for c in notebook.cells]
    if not torch.cuda.is_available():  # it was run on a machine without a GPU
        assert [kinds(c) for c in stored.cells] == [kinds(c) for c in notebook.cells]


def test_checks_pass_where_they_should(story):
    name, notebook, folder = story
    checks = [
        check for traces in traces_of(notebook, folder) for trace in traces
        for check in trace.runs.checks
    ]  # fmt: skip
    wrong = [check for check in checks if not check.ok]
    assert len(checks) >= 2
    assert len(wrong) == BROKEN.get(name, 0)


def test_every_stage_up_to_ptx_is_there(story):
    _, notebook, folder = story
    found = {
        stage.id for traces in traces_of(notebook, folder) for trace in traces
        for stage in trace.stages if trace.text(stage.id)
    }  # fmt: skip
    assert {"source", "ast", "tile", "gpu", "llvm", "ptx"} <= found


def test_outputs_stay_small_and_readable_without_a_kernel(story):
    _, notebook, _ = story
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if MIME not in data:
                continue
            assert len(data["text/html"]) <= 100_000
            assert len(data["text/plain"]) <= 4_000
            assert len(data[MIME].get("data", "")) <= 280_000
            assert "<script" not in data["text/html"]


def test_throughput_is_measured_against_torch(story):
    name, notebook, folder = story
    if name in UNMEASURED:
        pytest.skip("nothing is measured in this story")
    benches = [
        bench for traces in traces_of(notebook, folder) for trace in traces
        for bench in trace.runs.benches
    ]  # fmt: skip
    assert {bench.kind for bench in benches} == {"self", "baseline"}
    assert all(bench.x and all(times[3] >= 1 for times in bench.milliseconds) for bench in benches)


def test_the_matmul_kernel_has_at_most_25_lines():
    path = next(path for path in STORIES if "matmul" in path.stem)
    cells = kept(path).cells
    text = next(cell.source for cell in cells if cell.source.startswith("%%kernel"))
    lines = text[text.index("def matmul(") :].splitlines()
    assert 10 < len(lines) <= 25


def text_of(cell: Any) -> str:
    """Return what a cell says, errors too."""
    words = []
    for output in cell.get("outputs", []):
        words += [output.get("text", ""), output.get("data", {}).get("text/plain", "")]
        words += output.get("traceback", [])
    return "\n".join(words)


#: What cells say, errors too: where the fault is, and what a story is about.
SAID = {
    "06-when-things-go-wrong": (
        "did you mean tl.load?",
        "note: program (2,), element (2,) of the tile is x_ptr[10]; x_ptr has 10 elements",
        "note: found by --guard; nothing was launched",
        "1        4.0 5.0 6.0 7.0  22.0",
        "assertion failed in program (1,) at element (2,): a root of a negative number",
        "note: program (1,): out_ptr[3] was already stored by program (0,)",
        "multiples of 4 are promised along axis 0, but there is 5",
        "y differs from torch.softmax(x, 0)",
        "tile.exp",
    ),
    "08-paged-attention": (
        "gpu.shared_load (ldmatrix.x4.trans)",
        "2 rounds ahead   43     copy keys[fill]",
        "applied  product by warpgroups (wgmma), a in registers",
        "both kernels: equal to torch",
        "done: 4 of 4",
        "[1, 1, 1, 2, 118, 385] equal to torch",
    ),
    "09-quantised-matmul": (
        "gpu.async_copy (cp.async), masked  global load   16 = 8 × 2",
        "gpu.async_copy (cp.async), masked  global load   16 = 16 × 1",
        "0x64646464",
        "e4m3 with scales of 1: equal to torch",
        "int4   4.14 bits a weight",
        "note: program (0,), element (0, 0) of the tile is scales[800]; scales has 800 elements",
        "multiples of 32 are promised along axis 0, but there is 575",
        "expected shape (32, 4) for N = 32, K = 128 and a scale of uint8 for every 32 of K",
    ),
}


def test_what_a_story_is_about_is_said(story):
    name, notebook, _ = story
    if name not in SAID:
        pytest.skip("a story of times and stages")
    if name != "06-when-things-go-wrong" and torch.cuda.is_available():
        pytest.skip("it is told with other sizes on a GPU")
    cells = [text_of(cell) for cell in notebook.cells]
    for said in SAID[name]:
        assert any(said in text for text in cells), said
