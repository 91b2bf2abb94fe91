"""Which layout each node of the graph takes: the one choice that is cheapest in sum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.layouts import LinearLayout
from workbench.targets.simt.passes.elimination import cheapest
from workbench.targets.simt.passes.layout_graph import Known, LayoutGraph
from workbench.targets.simt.rules import Map

_MOST_STARTS = 6
#: Of what layouts carry along, so many choices are kept: descents from all starts ask for it.
_MOST_HELD = 500_000
#: What an edge costs, by the candidates of its source and its target.
Costs = list[list[float]]


def solve(graph: LayoutGraph) -> list[LinearLayout]:
    """Return a layout per node with the least cost in sum.

    Exactly, unless the graph is too dense for that: then the best of several starts, improved by
    strict descent. Starts: every node its own best, and each anchor's layout spread over all it
    reaches. Moves: one node, or a node with everything its new layout carries along. The objective
    is exact and only strict decreases are taken, in a fixed order, so this ends and is
    deterministic.
    """
    own = [
        [node.weight * sum(cost(c) for cost in node.costs) for c in node.candidates]
        for node in graph.nodes
    ]
    tables = edge_costs(graph)
    best = cheapest(own, _pair_costs(graph, tables)) or _searched(graph, own, tables)
    return [node.candidates[i] for node, i in zip(graph.nodes, best, strict=True)]


def edge_costs(graph: LayoutGraph) -> list[Costs]:
    """Return what each edge costs."""
    nodes, known = graph.nodes, Known()
    return [
        edge.costs(nodes[edge.source].candidates, nodes[edge.target].candidates, graph.chip, known)
        for edge in graph.edges
    ]


def _pair_costs(graph: LayoutGraph, tables: list[Costs]) -> dict[tuple[int, int], Costs]:
    """Return what the edges between two nodes cost for each pair of their candidates."""
    found: dict[tuple[int, int], Costs] = {}
    for edge, rows in zip(graph.edges, tables, strict=True):
        known = found.get((edge.source, edge.target))
        if known is not None:
            rows = [
                [a + b for a, b in zip(one, other, strict=True)]
                for one, other in zip(known, rows, strict=True)
            ]
        found[edge.source, edge.target] = rows
    return found


def _searched(graph: LayoutGraph, own: list[list[float]], tables: list[Costs]) -> list[int]:
    search = _Search(graph, own, tables)
    best: list[int] = []
    best_cost = float("inf")
    for start in search.starts():
        choice, cost = _Descent(search, start).run()
        if cost < best_cost - 1e-9:
            best, best_cost = choice, cost
    return best


#: Which candidate another node gets by a candidate of this one; None: the edge says nothing.
Brings = list[int | None]


@dataclass(frozen=True, slots=True)
class _Move:
    """New choices by node, the nodes in order, and the edges at them."""

    choices: dict[int, int]
    nodes: Sequence[int]
    edges: Sequence[int]


class _Search:
    """The graph in numbers: candidates by their places in their nodes' lists."""

    def __init__(self, graph: LayoutGraph, own: list[list[float]], tables: list[Costs]) -> None:
        self.graph = graph
        self.own = own
        #: The edges at each node.
        self.around: list[list[int]] = [[] for _ in graph.nodes]
        #: The ends of each edge, what it costs, what it brings forwards and backwards.
        self.edges: list[tuple[int, int, Costs]] = []
        self.brings: list[tuple[Brings | None, Brings | None]] = []
        for number, edge in enumerate(graph.edges):
            for end in {edge.source, edge.target}:
                self.around[end].append(number)
            sources = graph.nodes[edge.source].candidates
            targets = graph.nodes[edge.target].candidates
            self.edges.append((edge.source, edge.target, tables[number]))
            self.brings.append(
                (_brings(edge.give, sources, targets), _brings(edge.need, targets, sources))
            )
        #: By node, of each edge at it: the other end, and what it costs by the choice there.
        self.beside: list[list[tuple[int, Costs]]] = [
            [self._seen_from(number, edge) for edge in edges]
            for number, edges in enumerate(self.around)
        ]
        self._carried: dict[tuple[int, int], _Move] = {}
        self._held = 0

    def _seen_from(self, number: int, edge: int) -> tuple[int, Costs]:
        source, target, costs = self.edges[edge]
        if source == target:
            return number, [[row[place] for place, row in enumerate(costs)]] * len(costs)
        if source != number:
            return source, costs
        return target, list(map(list, zip(*costs, strict=True)))

    def starts(self) -> list[list[int]]:
        """Return choices to begin with, the candidate of each node."""
        lowest = [min(range(len(costs)), key=costs.__getitem__) for costs in self.own]
        starts = [lowest]
        for number, node in enumerate(self.graph.nodes):
            if len(starts) < _MOST_STARTS and (node.costs or node.fixed):
                spread = list(lowest)
                for i, move in self.carried_along(number, lowest[number]).choices.items():
                    spread[i] = move
                if spread not in starts:
                    starts.append(spread)
        return starts

    def carried_along(self, number: int, candidate: int) -> _Move:
        """Return the choices that one node's layout brings about through edges for nothing."""
        known = self._carried.get((number, candidate))
        if known is None:
            choices = self._carry(number, candidate)
            nodes = sorted(choices)
            known = _Move(choices, nodes, sorted({e for n in nodes for e in self.around[n]}))
            if self._held + len(nodes) <= _MOST_HELD:
                self._carried[number, candidate] = known
                self._held += len(nodes)
        return known

    def _carry(self, number: int, candidate: int) -> dict[int, int]:
        moves = {number: candidate}
        work = [number]
        while work:
            here = work.pop()
            for edge in self.around[here]:
                source, target, _ = self.edges[edge]
                forwards = source == here
                other = target if forwards else source
                brings = self.brings[edge][0 if forwards else 1]
                if other in moves or brings is None:
                    continue
                wanted = brings[moves[here]]
                if wanted is not None:
                    moves[other] = wanted
                    work.append(other)
        return moves


def _brings(maps: Map | None, here: list[LinearLayout], there: list[LinearLayout]) -> Brings | None:
    """Return the place in `there` of what each layout in `here` becomes."""
    if maps is None:
        return None
    places = {layout: place for place, layout in reversed(list(enumerate(there)))}
    wanted = map(maps, here)
    return [None if layout is None else places.get(layout) for layout in wanted]


class _Descent:
    """One start and the way down from it: `choice` is the candidate of each node."""

    def __init__(self, search: _Search, start: list[int]) -> None:
        self.search = search
        self.choice = list(start)
        #: What each node and its edges cost by its candidate, until a node beside it chooses anew.
        self._rows: list[list[float] | None] = [None] * len(start)

    def run(self) -> tuple[list[int], float]:
        """Make moves while one lowers the cost; return the choice and its cost."""
        search, improved = self.search, True
        #: Choices that were part of a move that did not help: what they carry along is the same.
        vain: set[tuple[int, int]] = set()
        while improved:
            improved = False
            for number, costs in enumerate(search.own):
                for candidate in range(len(costs)):
                    if candidate == self.choice[number]:
                        continue
                    helped = self._improves_alone(number, candidate)
                    if not helped and (number, candidate) not in vain:
                        move = search.carried_along(number, candidate)
                        helped = self._improves(move)
                        vain.update(() if helped else move.choices.items())
                    if helped:
                        vain.clear()
                        improved = True
        return self.choice, self._cost(range(len(self.choice)), range(len(search.edges)))

    def _improves_alone(self, number: int, candidate: int) -> bool:
        """Move one node if that lowers the cost; say whether it did."""
        row = self._rows[number]
        if row is None:
            row = self._rows[number] = self._row(number)
        if row[candidate] >= row[self.choice[number]] - 1e-9:
            return False
        self._choose({number: candidate})
        return True

    def _row(self, number: int) -> list[float]:
        """Return what a node and its edges cost by its candidate, with the others' choices."""
        row, choice = self.search.own[number], self.choice
        for other, costs in self.search.beside[number]:
            row = [total + cost for total, cost in zip(row, costs[choice[other]], strict=True)]
        return row

    def _choose(self, moves: dict[int, int]) -> None:
        search = self.search
        for number, candidate in moves.items():
            self.choice[number] = candidate
            for other, _ in search.beside[number]:
                self._rows[other] = None

    def _improves(self, move: _Move) -> bool:
        """Make a move if it lowers the cost; say whether it did."""
        choice = self.choice
        before = [choice[n] for n in move.nodes]
        old = self._cost(move.nodes, move.edges)
        for n, c in move.choices.items():
            choice[n] = c
        if self._cost(move.nodes, move.edges) < old - 1e-9:
            self._choose(move.choices)
            return True
        for n, c in zip(move.nodes, before, strict=True):
            choice[n] = c
        return False

    def _cost(self, nodes: Sequence[int], edges: Sequence[int]) -> float:
        """Return the cost of some nodes and some edges, added up in order."""
        choice, own, ends = self.choice, self.search.own, self.search.edges
        total = sum([own[n][choice[n]] for n in nodes])
        for number in edges:
            source, target, costs = ends[number]
            total += costs[choice[source]][choice[target]]
        return total
