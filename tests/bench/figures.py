"""What notebooks tell of measured speeds: cells tagged "results", written from the results.

A notebook may stand alone, so it holds the numbers that it draws; `render.py` writes them and says
when they are old. What is unsteady is None and is not drawn.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
RESULTS = Path(__file__).resolve().parent / "results" / "h200.json"
TAG = "results"

Result = dict[str, Any]
Data = dict[str, Any]

#: Cases of tests/bench/paged.py and what the figure calls them: prefill and mixtures.
MIXTURES = {
    "prefill 4x2048": "4 prompts of 2,048",
    "prefill 8192": "a prompt of 8,192",
    "prefill 8x512 of 4096": "8 × 512 behind 3,584",
    "mixed": "35 sequences, mixed",
    "decoding 64x4096": "64 that decode",
}
PAGES = (16, 128)
#: Those of tests/bench/mixed.py, and the K x N of the weights.
KINDS = ("int8", "int4", "fp8", "e2m1", "mxfp8")
WEIGHTS = "8192x28672"


def stale(write: bool) -> list[str]:
    """Return the notebooks whose cell is not what the results say; with `write` it is from now."""
    data = json.loads(RESULTS.read_text())
    found: list[str] = []
    for name, source_of in CELLS.items():
        path = NOTEBOOKS / f"{name}.ipynb"
        notebook = json.loads(path.read_text(encoding="utf-8"))
        (cell,) = [c for c in notebook["cells"] if TAG in c["metadata"].get("tags", ())]
        source = source_of(data).splitlines(keepends=True)
        if cell["source"] != source:
            found.append(path.name)
            cell["source"] = source
            if write:
                text = json.dumps(notebook, ensure_ascii=False, indent=1, sort_keys=True)
                path.write_text(text + "\n", encoding="utf-8")
    return found


def paged(data: Data) -> str:
    """Return what decoding and prefill over pages take, as ratios; both sizes of pages."""
    rows = [r for r in data["rows"] if r["suite"] in ("paged_decode", "paged_prefill")]
    decode = dict.fromkeys(
        (int(r["case"].split()[1]), r["size"])
        for r in rows
        if r["case"].startswith("batch") and r["dtype"] == "fp16"
    )
    decoding = [
        f'    "{batch} × {length:,}": '
        + _pairs(rows, [f"batch {batch} pages of {page}" for page in PAGES], length, "copy")
        for batch, length in decode
    ]
    mixtures = [
        f'    "{title}": ' + _pairs(rows, [f"{case} pages of {p}" for p in PAGES], None, "cudnn")
        for case, title in MIXTURES.items()
    ]
    return "\n".join([
        *_head(data, "fp16, 32 heads of queries, 8 of keys, D 128"),
        "# (a copy of the same bytes, Triton) ÷ ours, for pages of 16 and of 128",
        "decoding_speed = {  # sequences × tokens of each", *decoding, "}",
        "# (cuDNN without pages, Triton) ÷ ours",
        "mixed_speed = {", *mixtures, "}",
    ])  # fmt: skip


def quantised(data: Data) -> str:
    """Return the microseconds of products with quantised weights, and of what they stand beside."""
    rows = [r for r in data["rows"] if r["suite"] == "mixed"]
    lines: list[str] = []
    for kind in KINDS:
        own = {r["size"]: r for r in rows if r["case"] == f"{kind} {WEIGHTS}"}
        numbers = (
            (round(own[m]["ours_us"], 1), *(_microseconds(rows, f"{kind} {WEIGHTS}", m, name)
             for name in ("copy", "cublas", "triton"))) for m in (1, 16)
        )  # fmt: skip
        lines.append(f'    "{kind}": ({", ".join(map(str, numbers))}),')
    return "\n".join([
        *_head(data, f"weights of {WEIGHTS.replace('x', ' × ')}"),
        "# (ours, a copy of the same bytes, cuBLAS in fp16, Triton) in µs, for 1 row and for 16",
        "speed = {", *lines, "}",
    ])  # fmt: skip


CELLS: dict[str, Callable[[Data], str]] = {
    "08-paged-attention": paged,
    "09-quantised-matmul": quantised,
}


def _head(data: Data, what: str) -> list[str]:
    return [f"# {data['machine']}, {data['date']}, {what}; written by tests/bench/render.py"]


def _pairs(rows: Sequence[Result], cases: Sequence[str], size: int | None, first: str) -> str:
    """Return (first, Triton) of each case as text."""
    pairs = [tuple(_ratio(rows, case, size, name) for name in (first, "triton")) for case in cases]
    return f"({', '.join(map(str, pairs))}),"


def _ratio(rows: Sequence[Result], case: str, size: int | None, baseline: str) -> float | None:
    for row in rows:
        if row["case"] == case and size in (None, row["size"]) and row["baseline"] == baseline:
            return None if row["unsteady"] else round(row["ratio"], 2)
    return None


def _microseconds(rows: Sequence[Result], case: str, size: int, baseline: str) -> float | None:
    for row in rows:
        if (row["case"], row["size"], row["baseline"]) == (case, size, baseline):
            return round(row["baseline_us"], 1)
    return None
