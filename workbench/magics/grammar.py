"""The grammar of an option line: words, quotes, `{expr}`, `--flag=value`, continued lines.

Words are split as a POSIX shell does. In each word, `{expr}` with balanced braces is evaluated in
the user's namespace; a word that is wholly `{expr}` stands for the object itself, elsewhere its
`str()` is spliced in. `{{` and `}}` are literal braces. (IPython's own expansion is switched off:
it gives up silently for the whole line as soon as one brace holds no valid expression.)
"""

from __future__ import annotations

import io
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from workbench.launch.options import is_option
from workbench.magics.options import RUNS, WORDS, Option, Request, options_of
from workbench.magics.values import Axis, Expression, Token, closest, part_span
from workbench.source import OptionError, Span


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an option line stands: `column` is that of its first character."""

    file: str
    line: int = 1
    column: int = 1


def split_cell(line: str, cell: str) -> tuple[str, str, int]:
    """Return the whole option line, the body, and how many lines of the cell the options take.

    A line ending in a backslash continues on the next one.
    """
    taken = 1
    while line.rstrip().endswith("\\") and cell:
        following, _, cell = cell.partition("\n")
        line = f"{line}\n{following}"
        taken += 1
    return line, cell, taken


def parse(
    command: str,
    line: str,
    namespace: Mapping[str, Any] | None = None,
    origin: Origin | None = None,
) -> Request:
    """Parse an option line; raises OptionError with the place of the word that is wrong."""
    tokens = [expand(token, namespace or {}) for token in split_words(line, origin)]
    return read(command, tokens)


def parse_arguments(command: str, arguments: Sequence[str]) -> Request:
    """Parse a command line that a shell has split; braces are left as they are."""
    return read(command, [Token(argument) for argument in arguments])


def split_words(line: str, origin: Origin | None = None) -> list[Token]:
    """Split a line into words as a POSIX shell does, each with its place."""
    joined = line.replace("\\\n", "  ")
    stream = io.StringIO(joined)
    lexer = shlex.shlex(stream, posix=True, punctuation_chars=False)
    lexer.whitespace_split = True
    lexer.commenters = ""
    tokens: list[Token] = []
    while True:
        start = stream.tell()
        try:
            text = lexer.get_token()
        except ValueError as error:
            span = _place(line, start, len(joined), origin)
            raise OptionError(
                "a quote in the option line is never closed", span, code="K103"
            ) from error
        if text is None:
            return tokens
        taken = joined[start : stream.tell()]
        start += len(taken) - len(taken.lstrip())
        tokens.append(Token(text, _place(line, start, start + len(taken.strip()), origin)))


def _place(line: str, start: int, end: int, origin: Origin | None) -> Span | None:
    if origin is None:
        return None

    def position(offset: int) -> tuple[int, int]:
        before = line[:offset]
        row = before.count("\n")
        column = offset - (before.rfind("\n") + 1)
        return origin.line + row, column + (origin.column if row == 0 else 1)

    (first, column), (last, end_column) = position(start), position(end)
    return Span(origin.file, first, column, last, end_column)


def expand(token: Token, namespace: Mapping[str, Any]) -> Token:
    """Evaluate the `{expr}` parts of a word."""
    if "{" not in token.text and "}" not in token.text:
        return token
    pieces = list(_pieces(token))
    if len(pieces) == 1 and isinstance(pieces[0], Expression):
        return replace(token, value=_evaluated(pieces[0], namespace))
    text = "".join(
        str(_evaluated(piece, namespace)) if isinstance(piece, Expression) else piece
        for piece in pieces
    )
    return replace(token, text=text)


def _evaluated(expression: Expression, namespace: Mapping[str, Any]) -> Any:
    try:
        return expression.evaluate(namespace, "K102")
    except OptionError as error:
        if isinstance(error.__cause__, SyntaxError):
            error.hint = (
                "braces in a line hold an expression of Python; those of a dict or a set are "
                "written twice, {{ and }}, or as dict(name=value)"
            )
        raise


def _pieces(token: Token) -> Iterator[str | Expression]:
    text, position, literal = token.text, 0, ""
    while position < len(text):
        character = text[position]
        if text[position : position + 2] in ("{{", "}}"):
            literal += character
            position += 2
        elif character == "{":
            end = _closing(token, position)
            if literal:
                yield literal
                literal = ""
            yield Expression(text[position + 1 : end], "{}", token.span)
            position = end + 1
        elif character == "}":
            raise _unbalanced(token)
        else:
            literal += character
            position += 1
    if literal:
        yield literal


def _closing(token: Token, start: int) -> int:
    depth = 0
    for position in range(start, len(token.text)):
        depth += {"{": 1, "}": -1}.get(token.text[position], 0)
        if depth == 0:
            return position
    raise _unbalanced(token)


def _unbalanced(token: Token) -> OptionError:
    return OptionError(
        f"unbalanced braces in {token.text!r}",
        token.span,
        code="K102",
        hint='quote an expression with spaces, as in "{n // 128}"; {{ and }} are literal braces',
    )


def read(command: str, tokens: Sequence[Token]) -> Request:
    """Sort words into a Request by the option table."""
    table = {name: option for option in options_of(command) for name in (option.flag, option.short)}
    table.pop("", None)
    words: list[str] = []
    values: dict[str, Any] = {}
    places: dict[str, Span | None] = {}
    rest = list(tokens)
    before: Option | None = None
    while rest:
        token = rest.pop(0)
        if not _is_flag(token):
            _add_word(command, token, words, before)
            places.setdefault("names", token.span)
            continue
        flag, equals, attached = token.text.partition("=")
        option = table.get(flag)
        if option is None:
            raise _unknown(command, flag, token, table)
        given = _attached(token, attached) if equals else None
        if given is None and option.convert is not None and _has_value(rest, table):
            given = rest.pop(0)
        value = _value(option, token, given)
        _store(values, option, value, token)
        before = option
        places[option.field] = (given or token).span
        name = _named(value) if option.repeated else None
        if name is not None:
            places[f"{option.field}.{name}"] = (given or token).span
    return _finish(Request(names=tuple(words), places=places, **values))


def _attached(token: Token, text: str) -> Token:
    """Return the value of `--flag=value` as a word of its own, with its own place."""
    start = len(token.text) - len(text)
    return replace(token, text=text, span=part_span(token.span, token.text, start))


def _has_value(rest: Sequence[Token], table: Mapping[str, Option]) -> bool:
    return bool(rest) and not (_is_flag(rest[0]) and rest[0].text.partition("=")[0] in table)


def _is_flag(token: Token) -> bool:
    return not token.is_object and token.text.startswith("-") and token.text not in ("-", "--")


def _add_word(command: str, token: Token, words: list[str], before: Option | None) -> None:
    most = WORDS[command]
    # Half of an expression with blanks in it, such as `--grid cdiv(n, 4)`, is no kernel's name;
    # name@launch is one, and so is file.py::name.
    named = token.is_object or token.text.isidentifier() or "@" in token.text or "::" in token.text
    if len(words) >= most or (command in RUNS and not named):
        expected = {0: "no name", 1: "one name"}.get(most, f"at most {most} words")
        hint = 'quote an option\'s value that has spaces in it, as in --grid "cdiv(n, 4)"'
        if before is not None and token.text.strip(", ") != token.text:
            hint = f"write the list of {before.flag} without spaces, as in {before.flag} x,out,n"
        elif before is not None and before.repeated and "=" in token.text:
            hint = f"repeat the option: {before.flag} {token.text}"
        raise OptionError(
            f"unexpected {token.text!r}: {command} takes {expected}",
            token.span,
            code="K103",
            hint=hint,
        )
    words.append(str(token.value) if token.is_object else token.text)


def _unknown(command: str, flag: str, token: Token, table: Mapping[str, Option]) -> OptionError:
    if "--set" in table and is_option(word := flag.lstrip("-").replace("-", "_")):
        hint = f"options of compilation go to --set: --set {word}=..."
        return OptionError(f"unknown option {flag!r}", token.span, code="K100", hint=hint)
    longer = [name for name in table if flag.startswith("--") and name.startswith(flag)]
    better = f"; did you mean {longer[0]}?" if longer else closest(flag, table, 0.7)
    hint = f"options of {command}: {' '.join(sorted(table))}" if not better else None
    return OptionError(f"unknown option {flag!r}{better}", token.span, code="K100", hint=hint)


def _value(option: Option, token: Token, given: Token | None) -> Any:
    if option.convert is None:
        if given is not None:
            raise OptionError(f"{option.flag} takes no value", token.span, code="K101")
        return True
    if given is not None:
        return option.convert(given)
    if option.optional:
        return "interpreter"
    example = f"e.g. {option.example}" if option.example else None
    raise OptionError(f"{option.flag} needs a value", token.span, code="K101", hint=example)


def _store(values: dict[str, Any], option: Option, value: Any, token: Token) -> None:
    if option.repeated:
        added = value if isinstance(value, tuple) and option.field == "assume" else (value,)
        known = values.get(option.field, ())
        name = _named(value)
        if name is not None and any(_named(other) == name and other != value for other in known):
            raise OptionError(
                f"{option.flag} {name} is given twice", token.span, code="K106",
                hint="leave one of them out",
            )  # fmt: skip
        values[option.field] = (*known, *added)
    elif option.field in values and values[option.field] != value:
        raise OptionError(
            f"{option.flag} is given twice", token.span, code="K106", hint="leave one of them out"
        )
    else:
        values[option.field] = value


def _named(value: Any) -> str | None:
    """Return what a value of a repeated option is for: a setting, an axis; None for others."""
    match value:
        case (str() as name, Expression()) | Axis(name=name):
            return name
        case _:
            return None


def _finish(request: Request) -> Request:
    def refuse(message: str, at: str, code: str, hint: str | None = None) -> None:
        raise OptionError(message, request.place(at), code=code, hint=hint)

    if request.args is not None and request.make is not None:
        hint = "--args gives one launch its arguments, --make those of every size of --x"
        refuse("--args and --make exclude each other", "make", "K124", hint)
    if request.axes and request.make is None:
        hint = "give --make f, a function of the axes that returns the arguments"
        refuse("--x needs --make", "axes", "K125", hint)
    if request.cold and request.warm:
        refuse("--cold and --warm exclude each other", "warm", "K127", "--cold is the default")
    return request
