"""Every error of the language says what to do."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

from tests.language.harness import error_of, from_text, lowered
from workbench.source import errors

ROOT = Path(__file__).resolve().parents[2] / "workbench"
FILES = sorted([*(ROOT / "language").rglob("*.py"), *(ROOT / "frontend").glob("*.py")])
#: What gets its suggestion where the statement is known (`frontend/statements.py`).
LEFT_OUT = {"StaticAssertError"}


def _kind(call: ast.Call) -> str:
    """Return the error that a call makes: by name, or as the first argument of `act.error`."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    name = call.func.id if isinstance(call.func, ast.Name) else name
    if name == "error" and call.args and isinstance(call.args[0], ast.Name):
        name = call.args[0].id
    return name


@pytest.mark.parametrize("file", FILES, ids=lambda f: f"{f.parent.name}/{f.stem}")
def test_no_error_is_raised_without_one(file: Path):
    kinds = {n for n, k in vars(errors).items() if isinstance(k, type) and n.endswith("Error")}
    missing: list[int] = []
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            kind = _kind(node.exc)
            words = {keyword.arg for keyword in node.exc.keywords}
            if kind in kinds - LEFT_OUT and not words & {"hint", None}:
                missing.append(node.lineno)
            if kind == "unsupported" and len(node.exc.args) < 4 and "hint" not in words:
                missing.append(node.lineno)
    assert not missing


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("tl.load(tl.make_tensor_descriptor(x, [8, 8], [8, 1], [4, 4]))", "d.load([i, j])"),
        ("tl.make_block_ptr(x, (8, 8), (8, 1), (0, 0), (4, 4), (1, 0)) + 4", "tl.advance"),
        ("tl.store(x, tl.max(tl.load(x + tl.arange(0, 4)), 0, return_indices=True))", "a, b ="),
        ("tl.arange(0, None)", "give it a number"),
        ("B << -1", "shift by 0 or more"),
        ("B + 'a'", "f-strings"),
        ("B // 0", "if b else 0"),
        ("{B}", "use a tuple"),
        ("b'a'", "tl.uint8"),
        ("len(x)", "comes as an argument"),
    ],
)
def test_what_to_do_is_named(line: str, hint: str):
    error = error_of(
        f"def kernel(x, B: tl.constexpr):\n    v = {line}\n", x=np.zeros(64, np.float32), B=64
    )
    assert hint in str(error.hint)


def test_a_number_is_compared_with_a_text():
    """It is never equal, and that is said."""
    kernel = from_text("""
        def kernel(out, n):
            tl.store(out, 1.0)
            if n == "fast":
                tl.store(out, 2.0)
    """)
    _, remarks = lowered(kernel, out=np.zeros(1, np.float32), n=3)
    assert [r.text for r in remarks.items] == [
        "this value of a run is never equal to a text: 'fast'"
    ]
