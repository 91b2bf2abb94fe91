"""Compares a text with CHECK lines, as LLVM's FileCheck does."""

from __future__ import annotations

import io

from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import Options
from filecheck.parser import Parser, pattern_for_opts


def check(text: str, checks: str) -> None:
    """Compare a text with CHECK lines."""
    options = Options(match_filename="-")
    lines = "\n".join(line.strip() for line in checks.strip().splitlines())
    parser = Parser(options, io.StringIO(lines), *pattern_for_opts(options))
    assert Matcher(options, FInput("text", text), parser).run() == 0, text
