"""Source text as HTML with inline colours: no classes, no style sheet, nothing a sanitizer takes.

The lexers of our IR, PTX and SASS are here; Python and LLVM IR are pygments' own. Colours are the
light set of the viewer; the caller gives a light background with them, since inline colours cannot
follow a theme.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from html import escape

from pygments.lexer import Lexer, RegexLexer, bygroups
from pygments.lexers.asm import GasLexer, LlvmLexer
from pygments.lexers.python import PythonLexer
from pygments.lexers.special import TextLexer
from pygments.token import (
    Comment,
    Keyword,
    Name,
    Number,
    Operator,
    Punctuation,
    String,
    Text,
    _TokenType,
)

COLORS = {  # each at least 4.6 : 1 on white
    Comment: "#57606a",
    String: "#9a1b1b",
    Keyword: "#005a80",
    Number: "#04603f",
    Name.Variable: "#5b2a86",
    Name.Label: "#5b2a86",
}


class IrLexer(RegexLexer):
    """The text form of tile IR and GPU IR."""

    name = "workbench IR"
    tokens = {  # noqa: RUF012 - the form that pygments wants
        "root": [
            (r"//[^\n]*", Comment),
            (r'"(?:\\.|[^"\\\n])*"', String),
            (r"%[\w.$-]+", Name.Variable),
            (r"[@^#][\w.$-]+", Name.Label),
            (r"\b[a-z_]\w*\.[a-z_][\w.]*", Keyword),
            (r"\b(?:kernel|func|for|while|if|else|yield|return|to|step|mask|other|in)\b", Keyword),
            (r"\b(?:tile|ptr|desc|smem|barrier|token|index|[iu]\d+|b?f\d+\w*|tf32)\b", Name.Class),
            (r"-?\b(?:0x[0-9a-fA-F]+|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\b", Number),
            (r"\s+", Text),
            (r".", Punctuation),
        ]
    }


class PtxLexer(RegexLexer):
    """NVIDIA PTX."""

    name = "PTX"
    tokens = {  # noqa: RUF012 - the form that pygments wants
        "root": [
            (r"//[^\n]*", Comment),
            (r"/\*", Comment, "comment"),
            (r'"(?:\\.|[^"\\\n])*"', String),
            (r"(?m)^(\s*)([$\w]+)(:)", bygroups(Text, Name.Label, Punctuation)),
            (r"[@!]*%[\w.]+", Name.Variable),
            (r"\.[a-zA-Z_][\w.]*", Name.Builtin),
            (r"\b[a-z][a-z0-9_]*(?:\.[\w:]+)+", Keyword),
            (r"\b(?:ret|exit|bra|call|trap|bar)\b", Keyword),
            (r"\b0[fd][0-9A-Fa-f]+\b|\b0x[0-9a-fA-F]+\b|-?\b\d+(?:\.\d+)?\b", Number),
            (r"[$\w]+", Name),
            (r"\s+", Text),
            (r".", Punctuation),
        ],
        "comment": [(r"\*/", Comment, "#pop"), (r"[^*]+|\*", Comment)],
    }


class SassLexer(RegexLexer):
    """NVIDIA machine code as nvdisasm prints it."""

    name = "SASS"
    tokens = {  # noqa: RUF012 - the form that pygments wants
        "root": [
            (r"/\*.*?\*/|//[^\n]*", Comment),
            (r"\.[A-Za-z_][\w.]*", Name.Builtin),
            (r"@!?U?P\w+", Name.Variable),
            (r"\b(?:U?R\d+|U?P\d|[RP]Z|U[RP]Z|U?PT|SR_\w+|B\d+)\b", Name.Variable),
            (r"\b[A-Z][A-Z0-9]+(?:\.[\w.]+)*", Keyword),
            (r"-?\b(?:0x[0-9a-f]+|\d+(?:\.\d+)?)\b", Number),
            (r"\s+", Text),
            (r".", Operator),
        ]
    }


LEXERS: dict[str, type[Lexer]] = {
    "python": PythonLexer,
    "ast": PythonLexer,
    "ir": IrLexer,
    "tile": IrLexer,
    "gpu": IrLexer,
    "llvm": LlvmLexer,
    "ptx": PtxLexer,
    "sass": SassLexer,
    "asm": GasLexer,
    "x86": GasLexer,
}


@cache
def _lexer(lang: str) -> Lexer:
    return LEXERS.get(lang, TextLexer)(stripnl=False, stripall=False, ensurenl=False)


def highlight(text: str, lang: str) -> str:
    """Return the text as escaped HTML with coloured spans; unknown languages stay plain."""
    return "".join(
        f'<span style="color:{color}">{escape(part, quote=False)}</span>'
        if color
        else escape(part, quote=False)
        for color, part in _colored(text, lang)
    )


def _colored(text: str, lang: str) -> Iterator[tuple[str, str]]:
    """Yield (colour or empty, text), neighbours of one colour joined."""
    pending, current = "", ""
    for kind, part in _lexer(lang).get_tokens(text):
        color = _color(kind) if part.strip() else current
        if color != current and pending:
            yield current, pending
            pending = ""
        current = color
        pending += part
    if pending:
        yield current, pending


@cache
def _color(kind: _TokenType) -> str:
    return next((color for base, color in COLORS.items() if kind in base), "")
