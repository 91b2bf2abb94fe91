"""Which layout each node of the graph takes: the one choice that is cheapest in sum."""

from __future__ import annotations

from workbench.layouts import LinearLayout
from workbench.targets.simt.passes.elimination import cheapest
from workbench.targets.simt.passes.layout_graph import LayoutGraph


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
    best = cheapest(own, _pair_costs(graph)) or _searched(graph, own)
    return [node.candidates[i] for node, i in zip(graph.nodes, best, strict=True)]


def _pair_costs(graph: LayoutGraph) -> dict[tuple[int, int], list[list[float]]]:
    """Return what the edges between two nodes cost for each pair of their candidates."""
    found: dict[tuple[int, int], list[list[float]]] = {}
    for edge in graph.edges:
        sources = graph.nodes[edge.source].candidates
        targets = graph.nodes[edge.target].candidates
        rows = [[edge.cost(a, b, graph.chip) for b in targets] for a in sources]
        known = found.get((edge.source, edge.target))
        if known is not None:
            rows = [
                [a + b for a, b in zip(one, other, strict=True)]
                for one, other in zip(known, rows, strict=True)
            ]
        found[edge.source, edge.target] = rows
    return found


def _searched(graph: LayoutGraph, own: list[list[float]]) -> list[int]:
    around: list[list[int]] = [[] for _ in graph.nodes]
    for number, edge in enumerate(graph.edges):
        around[edge.source].append(number)
        around[edge.target].append(number)
    best: list[int] = []
    best_cost = float("inf")
    for start in _starts(graph, own, around):
        choice, cost = _Descent(graph, own, around, start).run()
        if cost < best_cost - 1e-9:
            best, best_cost = choice, cost
    return best


def _starts(graph: LayoutGraph, own: list[list[float]], around: list[list[int]]) -> list[list[int]]:
    lowest = [min(range(len(costs)), key=costs.__getitem__) for costs in own]
    starts = [lowest]
    for number, node in enumerate(graph.nodes):
        if node.costs or node.fixed:
            spread = list(lowest)
            for i, move in _carried_along(graph, around, number, lowest[number]).items():
                spread[i] = move
            if spread not in starts:
                starts.append(spread)
    return starts[:6]


def _carried_along(
    graph: LayoutGraph, around: list[list[int]], number: int, candidate: int
) -> dict[int, int]:
    """Return the choices that one node's layout brings about through edges that cost nothing."""
    moves = {number: candidate}
    work = [number]
    while work:
        here = work.pop()
        layout = graph.nodes[here].candidates[moves[here]]
        for edge_number in around[here]:
            edge = graph.edges[edge_number]
            other = edge.target if edge.source == here else edge.source
            maps = edge.give if edge.source == here else edge.need
            if other in moves or maps is None:
                continue
            wanted = maps(layout)
            candidates = graph.nodes[other].candidates
            if wanted is not None and wanted in candidates:
                moves[other] = candidates.index(wanted)
                work.append(other)
    return moves


class _Descent:
    """One start and the way down from it: `choice` is the candidate of each node."""

    def __init__(
        self, graph: LayoutGraph, own: list[list[float]], around: list[list[int]], start: list[int]
    ) -> None:
        self.graph = graph
        self.own = own
        self.around = around
        self.choice = list(start)

    def run(self) -> tuple[list[int], float]:
        """Make moves while one lowers the cost; return the choice and its cost."""
        graph, improved = self.graph, True
        while improved:
            improved = False
            for number, node in enumerate(graph.nodes):
                for candidate in range(len(node.candidates)):
                    if candidate != self.choice[number] and (
                        self.improves({number: candidate})
                        or self.improves(_carried_along(graph, self.around, number, candidate))
                    ):
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
        edges = {e for n in numbers for e in self.around[n]}
        nodes = sum(self.own[n][self.choice[n]] for n in sorted(numbers))
        return nodes + sum(map(self.edge_cost, sorted(edges)))

    def edge_cost(self, number: int) -> float:
        """Return the cost of one edge."""
        nodes, edge = self.graph.nodes, self.graph.edges[number]
        return edge.cost(
            nodes[edge.source].candidates[self.choice[edge.source]],
            nodes[edge.target].candidates[self.choice[edge.target]],
            self.graph.chip,
        )
