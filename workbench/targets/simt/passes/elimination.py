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
from heapq import heapify, heappop, heappush
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class _Table:
    """Costs with one axis per node in `scope`, as long as that node has choices."""

    scope: tuple[int, ...]
    costs: NDArray[np.float64]


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
    at = [[_Table((n,), np.array(costs, np.float64))] for n, costs in enumerate(own)]
    beside: list[set[int]] = [set() for _ in own]
    for (a, b), rows in pairs.items():
        costs = np.array(rows, np.float64)
        table = _Table((a,), costs.diagonal()) if a == b else _Table((a, b), costs)
        _join(_between_choices(table), at, beside)
    sizes = [_size(n, beside, own) for n in range(len(own))]
    queue = [(size, n) for n, size in enumerate(sizes)]
    heapify(queue)
    last: list[tuple[int, tuple[int, ...], NDArray[np.intp]]] = []
    while queue:
        size, node = heappop(queue)
        if size != sizes[node]:
            continue  # an entry of before a neighbour was eliminated
        if size > most:
            return None
        scope = tuple(sorted(beside[node]))
        merged, choices = _without(node, scope, at[node])
        last.append((node, scope, choices))
        sizes[node] = -1
        for n in scope:
            at[n] = [table for table in at[n] if node not in table.scope]
            beside[n].discard(node)
        _join(merged, at, beside)
        for n in scope:
            sizes[n] = _size(n, beside, own)
            heappush(queue, (sizes[n], n))
    chosen: dict[int, int] = {}
    for node, scope, choices in reversed(last):
        chosen[node] = int(choices[tuple(chosen[n] for n in scope)])
    return [chosen[n] for n in range(len(own))]


def _between_choices(table: _Table) -> _Table:
    """Return a table without the nodes that have no choice: an array has room for few axes."""
    scope = tuple(n for n, extent in zip(table.scope, table.costs.shape, strict=True) if extent > 1)
    return _Table(scope, table.costs.squeeze())


def _join(table: _Table, at: list[list[_Table]], beside: list[set[int]]) -> None:
    """Enter a table at all nodes of its scope, which makes them neighbours."""
    for n in table.scope:
        at[n].append(table)
        beside[n].update(table.scope)
        beside[n].discard(n)


def _size(node: int, beside: Sequence[set[int]], own: Sequence[Sequence[float]]) -> int:
    """Return how many sums eliminating a node takes: its choices times those of its neighbours."""
    return len(own[node]) * prod(len(own[n]) for n in beside[node])


def _without(
    node: int, scope: tuple[int, ...], about: Sequence[_Table]
) -> tuple[_Table, NDArray[np.intp]]:
    """Return the table over a node's neighbours, and the node's best choice for each entry."""
    whole = (node, *scope)
    total: Any = 0.0
    for table in about:
        order = sorted(range(len(table.scope)), key=lambda i: whole.index(table.scope[i]))
        costs = table.costs.transpose(order)
        extents = dict(zip((table.scope[i] for i in order), costs.shape, strict=True))
        total = total + costs.reshape([extents.get(n, 1) for n in whole])
    return _Table(scope, total.min(axis=0)), total.argmin(axis=0)
