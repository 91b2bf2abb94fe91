"""Which ops of two traces are each other's: by their lines, what they are made from, and order.

Op ids of two compilations have nothing in common, so ops are paired from the front end on. Its ops
are each other's where they have the same name on lines that are each other's, in order; an op that
a pass made is the other one's where both have the same name and are made from ops that are each
other's. Where one side has a pass more, what is left is paired by the ops of the front end that it
comes from. Nothing is paired by the text of a row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

from workbench.questions.rows import Line
from workbench.trace import Trace


class _Side:
    """The op table of a trace as look-ups, and the depth of each op below the front end."""

    def __init__(self, trace: Trace, line: Callable[[Line], Hashable]) -> None:
        table = trace.ops
        known = set(table.id)
        self.parents: dict[int, tuple[int, ...]] = {}
        self.depth: dict[int, int] = {}
        self.roots: dict[int, frozenset[int]] = {}
        self.name: dict[int, str] = {}
        self.place: dict[int, Hashable] = {}
        for op, name, place, parents, calls in zip(
            table.id, table.name, table.loc, table.parents, table.calls, strict=True
        ):
            # Ids grow as ops are made; an origin that came later would close a circle.
            made = tuple(parent for parent in parents if parent in known and parent < op)
            self.parents[op] = made
            self.depth[op] = 1 + max((self.depth[each] for each in made), default=-1)
            self.roots[op] = frozenset[int]().union(*(self.roots[each] for each in made)) or (
                frozenset({op})
            )
            self.name[op] = trace.strings[name]
            own = line((place[0], place[1]) if place[0] >= 0 else None)
            self.place[op] = (own, *(line(call) for call in calls))


def pair_ops(a: Trace, b: Trace, partners: Mapping[Line, Line]) -> dict[int, int]:
    """Return the op of B that each op of A is, as far as it is one.

    Args:
        a: the one trace.
        b: the other one.
        partners: the line of B that each line of A has become.
    """
    back = {theirs: mine for mine, theirs in partners.items()}
    one = _Side(a, lambda line: ("A", line) if line not in partners else line)
    other = _Side(b, lambda line: back.get(line, ("B", line)))
    found: dict[int, int] = {}
    theirs: dict[int, int] = {}

    def pair(key_a: Callable[[int], Hashable], key_b: Callable[[int], Hashable],
             ops_a: Iterable[int], ops_b: Iterable[int]) -> None:  # fmt: skip
        for mine, own in in_order(list(ops_a), list(ops_b), key_a, key_b):
            found[mine] = own
            theirs[own] = mine

    depths = max([*one.depth.values(), *other.depth.values()], default=-1)
    for depth in range(depths + 1):
        pair(
            lambda op: (one.name[op], one.place[op], tuple(found.get(p) for p in one.parents[op])),
            lambda op: (
                other.name[op],
                other.place[op],
                tuple(p if p in theirs else None for p in other.parents[op]),
            ),
            (op for op, own in one.depth.items() if own == depth),
            (op for op, own in other.depth.items() if own == depth),
        )
    pair(
        lambda op: (one.name[op], frozenset(found.get(root, ~root) for root in one.roots[op])),
        lambda op: (other.name[op], other.roots[op]),
        (op for op in one.depth if op not in found),
        (op for op in other.depth if op not in theirs),
    )
    return found


def in_order(
    a: Sequence[int],
    b: Sequence[int],
    key_a: Callable[[int], Hashable],
    key_b: Callable[[int], Hashable],
) -> list[tuple[int, int]]:
    """Return pairs of equal keys: the first of A with the first of B, the second with the second.

    A key of None is nobody's.

    >>> in_order([1, 2, 3], [7, 8], lambda n: n % 2, lambda n: n % 2)
    [(1, 7), (2, 8)]
    """
    waiting: dict[Hashable, list[int]] = defaultdict(list)
    for each in reversed(b):
        waiting[key_b(each)].append(each)
    waiting.pop(None, None)
    pairs: list[tuple[int, int]] = []
    for each in a:
        left = waiting.get(key_a(each))
        if left:
            pairs.append((each, left.pop()))
    return pairs
