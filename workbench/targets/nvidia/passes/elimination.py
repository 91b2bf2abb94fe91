"""The cheapest choice for all nodes of a graph at once, exactly, one node after the other.

A node may be *eliminated* once everything that depends on its choice is written in one table: for
each choice of its neighbours, the least that the node and its edges cost, and which choice that
is. The neighbours are then joined by the table instead. Taking the node with the smallest table
first, a tree costs no more than its edges (dynamic programming), and a graph like those of
kernels little more. Where a table would be too large, the answer is None and a search must do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

#: Costs by the choices of the nodes in `scope`.
Costs = dict[tuple[int, ...], float]


@dataclass(frozen=True, slots=True)
class _Table:
    scope: tuple[int, ...]
    costs: Costs


def cheapest(
    own: Sequence[Sequence[float]],
    pairs: Mapping[tuple[int, int], Sequence[Sequence[float]]],
    most: int = 20_000,
) -> list[int] | None:
    """Return the choice per node with the least sum; the first of equals.

    own[n][c] is the cost of choice c at node n, pairs[a, b][c][d] that of choices c at a and d
    at b. None if a table of more than `most` entries would be needed.

    >>> cheapest([[0, 1], [5, 0]], {(0, 1): [[0, 9], [9, 0]]})
    [1, 1]
    """
    tables = [_Table((n,), {(c,): cost for c, cost in enumerate(own[n])}) for n in range(len(own))]
    for (a, b), rows in pairs.items():
        costs = {(c, d): cost for c, row in enumerate(rows) for d, cost in enumerate(row)}
        tables.append(_Table((a, b), costs))
    left = set(range(len(own)))
    last: list[tuple[int, tuple[int, ...], dict[tuple[int, ...], int]]] = []
    while left:
        size, node = min((_size(tables, n, own), n) for n in left)
        if size > most:
            return None
        about = [table for table in tables if node in table.scope]
        merged, choices = _without(node, about, own)
        tables = [table for table in tables if node not in table.scope]
        tables.append(merged)
        last.append((node, merged.scope, choices))
        left.remove(node)
    chosen: dict[int, int] = {}
    for node, scope, choices in reversed(last):
        chosen[node] = choices[tuple(chosen[n] for n in scope)]
    return [chosen[n] for n in range(len(own))]


def _scope(tables: Sequence[_Table], node: int) -> tuple[int, ...]:
    """Return the nodes that tables join with a node, itself first."""
    others = {n for table in tables if node in table.scope for n in table.scope}
    return (node, *sorted(others - {node}))


def _size(tables: Sequence[_Table], node: int, own: Sequence[Sequence[float]]) -> int:
    return prod(len(own[n]) for n in _scope(tables, node))


def _without(
    node: int, about: Sequence[_Table], own: Sequence[Sequence[float]]
) -> tuple[_Table, dict[tuple[int, ...], int]]:
    """Return the table over a node's neighbours, and the node's best choice for each entry."""
    scope = _scope(about, node)[1:]
    places = [[(node, *scope).index(n) for n in table.scope] for table in about]
    costs: Costs = {}
    choices: dict[tuple[int, ...], int] = {}
    for others in product(*(range(len(own[n])) for n in scope)):
        least, best = float("inf"), 0
        for choice in range(len(own[node])):
            whole = (choice, *others)
            total = 0.0
            for table, place in zip(about, places, strict=True):
                total += table.costs[tuple(whole[i] for i in place)]
            if total < least:
                least, best = total, choice
        costs[others], choices[others] = least, best
    return _Table(scope, costs), choices
