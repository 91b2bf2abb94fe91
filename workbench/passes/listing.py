"""The two first stages as texts with ops: the kernel's source and its syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import cast

from workbench.source import KernelSource, Span, shown, source_rows
from workbench.source.captures import captures
from workbench.source.undisturbed import lines_of_file
from workbench.trace import Rendered

#: More lines than this between a kernel and a helper are not shown just to have both in one text.
MOST_LINES = 400
#: Deeper rows of the syntax tree are not indented further: long sums are as deep as they are long.
MOST_INDENTS = 32

Spans = Sequence[tuple[int, Span]]  # op id, its place


def shown_source(source: KernelSource) -> tuple[str, str, int]:
    """Return (file, text, first line) of what the source pane shows.

    The kernel, together with the helper functions of the same file where they stand near: then
    the text is everything between the first and the last of them.
    """
    first, last = _extent(source)
    for helper in captures(source).sources[1:]:
        if helper.file == source.file:
            low, high = _extent(helper)
            if max(last, high) - min(first, low) < MOST_LINES:
                first, last = min(first, low), max(last, high)
    lines = lines_of_file(source.file)[first - 1 : last]
    own = source_rows(source.text)
    start = source.first_line - first
    stands = [line.strip() for line in lines[start : start + len(own)]]
    if stands != [line.strip() for line in own]:  # the file is not what was compiled
        return source.file, source.text, source.first_line
    return source.file, "".join(lines), first


def _extent(source: KernelSource) -> tuple[int, int]:
    return source.first_line, source.first_line + source.text.rstrip("\n").count("\n")


def source_stage(file: str, text: str, line0: int, spans: Spans) -> Rendered:
    """Return the source text; a row has the ops that stand in its line or were called from it."""
    rows: list[dict[int, None]] = [{} for _ in text.rstrip("\n").split("\n")]
    for op, span in spans:
        for place in (span, *span.calls):
            row = place.line - line0
            if place.file == file and 0 <= row < len(rows):
                rows[row][op] = None
    return Rendered(text, [list(row) for row in rows])


def ast_stage(source: KernelSource, spans: Spans) -> Rendered:
    """Return the syntax tree, a row per node; an op belongs to the innermost node around it."""
    rows = list(_dump(source.tree))
    places = [_place(source, node) for _, _, node in rows]
    ends = _ends([depth for depth, _, _ in rows])
    owners: list[dict[int, None]] = [{} for _ in rows]
    # Most places are those of a node, and ops share them: one line makes many of them.
    found: dict[_Range, int | None] = {}
    for row, place in enumerate(places):
        if place is not None:
            found.setdefault(place, row)
    for op, span in spans:
        here = next((s for s in (span, *reversed(span.calls)) if s.file == source.file), None)
        if here is None:
            continue
        place = ((here.line, here.column), (here.end_line, here.end_column))
        if place not in found:
            found[place] = _innermost(places, ends, place)
        best = found[place]
        if best is not None:
            owners[best][op] = None
    return Rendered("\n".join(text for _, text, _ in rows), [list(ops) for ops in owners])


_Range = tuple[tuple[int, int], tuple[int, int]]


def _ends(depths: Sequence[int]) -> list[int]:
    """Return for each row of a tree the row after its last descendant."""
    ends = [len(depths)] * len(depths)
    open_rows: list[int] = []
    for row, depth in enumerate(depths):
        while open_rows and depths[open_rows[-1]] >= depth:
            ends[open_rows.pop()] = row
        open_rows.append(row)
    return ends


def _innermost(places: Sequence[_Range | None], ends: Sequence[int], wanted: _Range) -> int | None:
    """Return the first row among the smallest places that hold the wanted one.

    What does not hold it has no descendant that does, so that its rows are passed over.
    """
    start, end = wanted
    best: int | None = None
    smallest: tuple[int, int] | None = None
    row = 0
    while row < len(places):
        place = places[row]
        if place is not None:
            if not (place[0] <= start and end <= place[1]):
                row = ends[row]
                continue
            size = (place[1][0] - place[0][0], place[1][1] - place[0][1])
            if smallest is None or size < smallest:
                best, smallest = row, size
        row += 1
    return best


def _place(source: KernelSource, node: ast.AST | None) -> _Range | None:
    if not isinstance(node, ast.stmt | ast.expr | ast.arg | ast.keyword):
        return None
    line, column = source.first_line - 1, source.indent + 1
    return (
        (node.lineno + line, node.col_offset + column),
        ((node.end_lineno or node.lineno) + line, (node.end_col_offset or 0) + column),
    )


def _dump(tree: ast.AST) -> Iterator[tuple[int, str, ast.AST]]:
    """Yield (depth, text, node) per node: its field, its kind, its plain fields; then its children.

    Rows are indented up to a depth, and numbered by it from there on.
    """
    left: list[tuple[int, str, ast.AST]] = [(0, "", tree)]
    while left:
        depth, field, node = left.pop()
        plain, children = _fields(node)
        indent = "  " * min(depth, MOST_INDENTS) + (f"{depth}: " if depth > MOST_INDENTS else "")
        label = f"{field}: " if field else ""
        words = f" {' '.join(plain)}" if plain else ""
        yield depth, f"{indent}{label}{type(node).__name__}{words}{_columns(node)}", node
        left += [(depth + 1, name, child) for name, child in reversed(children)]


def _fields(node: ast.AST) -> tuple[list[str], list[tuple[str, ast.AST]]]:
    """Return what a node holds besides nodes, as words, and its children with their fields."""
    plain: list[str] = []
    children: list[tuple[str, ast.AST]] = []
    for name, value in ast.iter_fields(node):
        if isinstance(value, ast.expr_context) or value is None or value == []:
            continue
        if isinstance(value, ast.operator | ast.unaryop | ast.boolop):
            plain.append(f"{name}={type(value).__name__}")
        elif isinstance(value, ast.AST):
            children.append((name, value))
        elif isinstance(value, list):
            items = cast("list[object]", value)
            if all(isinstance(item, ast.cmpop) for item in items):
                plain.append(f"{name}={' '.join(type(item).__name__ for item in items)}")
            else:
                children += [(name, item) for item in items if isinstance(item, ast.AST)]
        else:
            plain.append(f"{name}={shown(value)}")
    return plain, children


def _columns(node: ast.AST) -> str:
    if not isinstance(node, ast.stmt | ast.expr | ast.arg | ast.keyword):
        return ""
    start = f"{node.lineno}:{node.col_offset + 1}"
    end = f"{node.end_lineno}:{(node.end_col_offset or 0) + 1}"
    return f"  [{start}-{end}]"
