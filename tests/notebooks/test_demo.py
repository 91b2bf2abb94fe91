"""The page that `make demo` ends on, and what `make lab` opens."""

from __future__ import annotations

import importlib.util
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run_demo():
    pytest.importorskip("nbclient")
    spec = importlib.util.spec_from_file_location("run_demo", ROOT / "notebooks" / "run_demo.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Links(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value or "" for name, value in attrs if name == "href"]


def test_the_index_leads_to_every_page_and_takes_texts_as_texts():
    demo = run_demo()
    pages = [
        demo.Page("01-add", "01-add-1-add.html", "add · cpu <script>"),
        demo.Page("02-b", "02-b-1-a b.html", "second"),
    ]
    text = demo.index_page(pages)
    assert Links(text).found == ["01-add-1-add.html", "02-b-1-a%20b.html"]
    assert "<script>" not in text


def test_lab_opens_copies():
    text = (ROOT / "Makefile").read_text()
    (folder,) = re.findall(r"--notebook-dir=(\S+)", text)
    assert f"/{folder}/" in (ROOT / ".gitignore").read_text().split()
    assert f"|| cp $$story {folder}/" in text
