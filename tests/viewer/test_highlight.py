"""Colours change no text, whatever the language and however odd the text."""

from __future__ import annotations

import re
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.viewer.highlight import COLORS, LEXERS, highlight

TEXTS = st.text(st.characters(blacklist_categories=("Cs", "Cc")) | st.just("\n"), max_size=80)


def plain(html: str) -> str:
    return unescape(re.sub(r"</?span[^>]*>", "", html))


@pytest.mark.parametrize("lang", [*LEXERS, "unknown"])
@given(TEXTS)
def test_the_text_is_kept(lang: str, text: str) -> None:
    assert plain(highlight(text, lang)) == text.removeprefix("\ufeff")


@pytest.mark.parametrize(
    ("lang", "line", "keyword"),
    [
        ("ir", "  %5 = tile.load %0 mask %1 : tile<128xptr<f32>> // why", "tile.load"),
        ("ptx", "\t@%p1 ld.global.v4.b32 \t{%f1, %f2}, [%rd1+16]; // why", "ld.global.v4.b32"),
        ("sass", "    /*0020*/  @!P0 LDG.E.128 R2, [R4.64] ;", "LDG.E.128"),
        ("python", "def add(x): # why", "def"),
    ],
)
def test_what_stands_out_is_coloured(lang: str, line: str, keyword: str) -> None:
    html = highlight(line, lang)
    colors = set(re.findall(r'<span style="color:(#[0-9a-f]{6})">', html))
    assert len(colors) >= 2
    assert colors <= set(COLORS.values())
    assert re.search(rf'<span style="color:#005a80">\s*{re.escape(keyword)}\s*</span>', html)
