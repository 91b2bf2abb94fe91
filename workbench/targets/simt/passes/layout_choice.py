"""Which layout each node of the graph takes: the one choice that is cheapest in sum."""

from __future__ import annotations

from workbench.layouts import LinearLayout
from workbench.targets.simt.passes.elimination import cheapest
from workbench.targets.simt.passes.layout_graph import LayoutGraph
from workbench.targets.simt.rules import Map

_MOST_STARTS = 6
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
    nodes = graph.nodes
    return [
        edge.costs(nodes[edge.source].candidates, nodes[edge.target].candidates, graph.chip)
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

    def starts(self) -> list[list[int]]:
        """Return choices to begin with, the candidate of each node."""
        lowest = [min(range(len(costs)), key=costs.__getitem__) for costs in self.own]
        starts = [lowest]
        for number, node in enumerate(self.graph.nodes):
            if len(starts) < _MOST_STARTS and (node.costs or node.fixed):
                spread = list(lowest)
                for i, move in self.carried_along(number, lowest[number]).items():
                    spread[i] = move
                if spread not in starts:
                    starts.append(spread)
        return starts

    def carried_along(self, number: int, candidate: int) -> dict[int, int]:
        """Return the choices that one node's layout brings about through edges for nothing."""
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
                    helped = self.improves({number: candidate})
                    if not helped and (number, candidate) not in vain:
                        moves = search.carried_along(number, candidate)
                        helped = self.improves(moves)
                        vain.update(() if helped else moves.items())
                    if helped:
                        vain.clear()
                        improved = True
        return self.choice, self.cost(set(range(len(self.choice))))

    def improves(self, moves: dict[int, int]) -> bool:
        """Make moves if they lower the cost; say whether they did."""
        choice = self.choice
        before = {n: choice[n] for n in moves}
        old = self.cost(set(moves))
        for n, c in moves.items():
            choice[n] = c
        if self.cost(set(moves)) < old - 1e-9:
            return True
        for n, c in before.items():
            choice[n] = c
        return False

    def cost(self, numbers: set[int]) -> float:
        """Return the cost of some nodes and of all edges at them."""
        search, choice = self.search, self.choice
        if len(numbers) == 1:
            (one,) = numbers
            total, edges = search.own[one][choice[one]], search.around[one]
        else:
            total = sum(search.own[n][choice[n]] for n in sorted(numbers))
            edges = sorted({e for n in numbers for e in search.around[n]})
        for number in edges:
            source, target, costs = search.edges[number]
            total += costs[choice[source]][choice[target]]
        return total
