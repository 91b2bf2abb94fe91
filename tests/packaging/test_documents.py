"""What the documents say of the code's files is true, and the map stays short enough to be read."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

NAMED = re.compile(
    r"`([\w./{},-]+\.(?:py|ts|txt|mjs|json|md))`"
    r"|(?<![\w/`])((?:tests|workbench|extension|notebooks)/[\w./-]+\.(?:py|ts|mjs|txt|md))"
)


def _files() -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if listed.returncode:
        pytest.skip("not in a git checkout, so what is a file of the project is not known")
    return [name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


def _each(name: str) -> list[str]:
    """Return the names that `tests/{a,b}.py` stands for."""
    found = re.fullmatch(r"(.*)\{(.*)\}(.*)", name)
    return [f"{found[1]}{one}{found[3]}" for one in found[2].split(",")] if found else [name]


def test_each_file_that_documents_name_exists():
    files = _files()
    tails = {name[start:] for name in files for start in _starts(name)}
    documents = [name for name in files if name.endswith(".md")]
    assert {"ARCHITECTURE.md", "README.md", "tests/README.md"} <= {*documents}
    gone = [
        f"{document}: {name}"
        for document in documents
        for found in NAMED.finditer((ROOT / document).read_text(encoding="utf-8"))
        for name in _each(found[1] or found[2])
        if name.removeprefix("./") not in tails
    ]
    assert gone == []


def _starts(name: str) -> list[int]:
    return [0, *(found.end() for found in re.finditer("/", name))]


def test_the_map_is_short_and_leads_to_each_document():
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    lines = text.splitlines()
    assert len(lines) < 200
    notes = [name for name in _files() if name.endswith(("DECISIONS.md", "MEASURED.md"))]
    assert notes
    for name in notes:
        assert f"`{name.removeprefix('workbench/')}`" in text, f"no word of {name}"
