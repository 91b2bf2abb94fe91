"""What can be read off a function's syntax before its values are known.

Which names a statement assigns, whether it can leave its loop or function, where a name is read
last, and which loop-carried integers advance by the same amount each time.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast
from weakref import WeakKeyDictionary

from workbench.source import KernelSource

Place = tuple[int, int]
#: Says which branch of an `if` is the only one compiled; None: both, or not known.
Prune = Callable[[ast.If], "Sequence[ast.stmt] | None"]


def _keep_all(node: ast.If) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Effects:
    """What a list of statements may do: names assigned (in order), and ways out of it."""

    names: tuple[str, ...]
    breaks: bool
    returns: bool


def effects(body: Sequence[ast.stmt], prune: Prune = _keep_all) -> Effects:
    """Return the effects of statements; `prune` leaves out branches known to be dead."""
    names: dict[str, None] = {}
    ways = {"break": False, "continue": False, "return": False}
    _collect(body, prune, names, ways, True)
    return Effects(tuple(names), ways["break"], ways["return"])


def _collect(
    body: Iterable[ast.stmt],
    prune: Prune,
    names: dict[str, None],
    ways: dict[str, bool],
    same_loop: bool,
) -> None:
    for node in body:
        if isinstance(node, ast.If):
            _collect_named(node.test, names)
            taken = prune(node)
            _collect(
                [*node.body, *node.orelse] if taken is None else taken,
                prune,
                names,
                ways,
                same_loop,
            )
        elif isinstance(node, ast.For | ast.While):
            if isinstance(node, ast.For):
                names.update(dict.fromkeys(target_names(node.target)))
            _collect_named(node.iter if isinstance(node, ast.For) else node.test, names)
            _collect(node.body, prune, names, ways, False)
        elif isinstance(node, ast.Break | ast.Continue):
            if same_loop:
                ways["break" if isinstance(node, ast.Break) else "continue"] = True
        elif isinstance(node, ast.Return):
            ways["return"] = True
        else:
            for target in assigned_targets(node):
                names.update(dict.fromkeys(target_names(target)))
            _collect_named(node, names)


def nodes(tree: ast.AST) -> list[ast.AST]:
    """Return a node and all below it, as `ast.walk` does, but those that hold nothing.

    Half of all nodes say whether a name is read or written, or which operator it is.
    """
    found = [tree]
    for node in found:  # what is appended comes, too
        for name in node._fields:
            held: Any = getattr(node, name, None)
            if isinstance(held, ast.AST):
                if held._fields:
                    found.append(held)
            elif isinstance(held, list):
                several = cast(list[Any], held)
                found += [one for one in several if isinstance(one, ast.AST) and one._fields]
    return found


def _collect_named(node: ast.AST, names: dict[str, None]) -> None:
    for inner in nodes(node):
        if isinstance(inner, ast.NamedExpr):
            names[inner.target.id] = None


def assigned_targets(node: ast.stmt) -> list[ast.expr]:
    """Return what an assignment statement assigns to."""
    if isinstance(node, ast.Assign):
        return node.targets
    if isinstance(node, ast.AugAssign | ast.AnnAssign):
        return [node.target]
    return []


def target_names(target: ast.expr) -> Iterator[str]:
    """Yield the names of an assignment's target."""
    if isinstance(target, ast.Name):
        yield target.id
    elif isinstance(target, ast.Tuple | ast.List):
        for item in target.elts:
            yield from target_names(item)
    elif isinstance(target, ast.Starred):
        yield from target_names(target.value)


def leaves(body: Sequence[ast.stmt]) -> bool:
    """Say whether a list of statements always ends in break, continue or return."""
    if not body:
        return False
    last = body[-1]
    if isinstance(last, ast.If):
        return leaves(last.body) and leaves(last.orelse)
    return isinstance(last, ast.Break | ast.Continue | ast.Return)


def comes_to_its_end(body: Sequence[ast.stmt], taken: Mapping[ast.If, set[bool]]) -> bool:
    """Say whether statements may be left at their end, not by a return.

    `taken` says of an `if` whose condition was known which ways it went; loops are taken to end,
    unless one of their rounds is known to return.
    """
    for node in body:
        if isinstance(node, ast.Return):
            return False
        if isinstance(node, ast.If):
            ways = [node.body if way else node.orelse for way in taken.get(node, (True, False))]
            if not any(comes_to_its_end(way, taken) for way in ways):
                return False
        if isinstance(node, ast.While) and _is_true(node.test) and not effects(node.body).breaks:
            return False
        if isinstance(node, ast.For):
            known = (n for n in nodes(node) if isinstance(n, ast.If) and True in taken.get(n, ()))
            if any(not comes_to_its_end(n.body, taken) for n in known):
                return False
    return True


def _is_true(test: ast.expr) -> bool:
    return isinstance(test, ast.Constant) and bool(test.value)


class Assignments:
    """Who assigns what in a list of statements, nested ones included; read once for all names."""

    def __init__(self, body: Sequence[ast.stmt]) -> None:
        #: The last statement that assigns a name.
        self.last: dict[str, ast.stmt] = {}
        #: The statements of the list itself that may assign a name.
        self.touching: dict[str, list[ast.stmt]] = {}
        for top in body:
            for name in effects([top]).names:
                self.touching.setdefault(name, []).append(top)
            for node in nodes(top):
                if isinstance(node, ast.stmt):
                    self._enter(node)

    def _enter(self, node: ast.stmt) -> None:
        for target in assigned_targets(node):
            for name in target_names(target):
                known = self.last.get(name)
                if known is None or node.lineno >= known.lineno:
                    self.last[name] = node


# -- reads ----------------------------------------------------------------------------------
_READS: WeakKeyDictionary[KernelSource, dict[str, Place]] = WeakKeyDictionary()


def last_reads(source: KernelSource) -> dict[str, Place]:
    """Return where each name is read for the last time in a function."""
    known = _READS.get(source)
    if known is None:
        known = _READS[source] = _find_last_reads(source.tree)
    return known


def _find_last_reads(tree: ast.AST) -> dict[str, Place]:
    found: dict[str, Place] = {}
    for node in nodes(tree):
        name = node.target if isinstance(node, ast.AugAssign) else node
        reads = isinstance(name, ast.Name) and (
            name is not node or not isinstance(name.ctx, ast.Store)
        )
        if isinstance(name, ast.Name) and reads:
            place = name.lineno, name.col_offset
            found[name.id] = max(found.get(name.id, (0, 0)), place)
    return found


# -- closed forms ---------------------------------------------------------------------------
_INVARIANT_CALLS = {
    "program_id",
    "num_programs",
    "cdiv",
    "arange",
    "min",
    "max",
    "minimum",
    "maximum",
}


def advances_evenly(steps: Sequence[ast.stmt], name: str, changing: frozenset[str]) -> bool:
    """Say whether a carried name only ever becomes itself plus or minus something invariant.

    `steps` are the statements that touch it (`Assignments.touching`), `changing` the names that
    vary from round to round. Then its value after k rounds has a closed form, so that exact index
    arithmetic may carry it on.
    """
    return bool(steps) and all(_is_even_step(node, name, changing) for node in steps)


def _is_even_step(node: ast.stmt, name: str, changing: frozenset[str]) -> bool:
    if isinstance(node, ast.AugAssign):
        return (
            isinstance(node.target, ast.Name)
            and isinstance(node.op, ast.Add | ast.Sub)
            and _invariant(node.value, changing)
        )
    if not (
        isinstance(node, ast.Assign)
        and len(node.targets) == 1
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.BinOp)
        and isinstance(node.value.op, ast.Add | ast.Sub)
    ):
        return False
    left, right = node.value.left, node.value.right
    if isinstance(left, ast.Name) and left.id == name:
        return _invariant(right, changing)
    plus = isinstance(node.value.op, ast.Add)
    return plus and isinstance(right, ast.Name) and right.id == name and _invariant(left, changing)


def _invariant(node: ast.expr, changing: frozenset[str]) -> bool:
    for inner in nodes(node):
        if isinstance(inner, ast.Name):
            if inner.id in changing:
                return False
        elif isinstance(inner, ast.Call):
            called = inner.func
            word = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if word not in _INVARIANT_CALLS:
                return False
        elif isinstance(inner, ast.NamedExpr | ast.Lambda):
            return False
    return True
