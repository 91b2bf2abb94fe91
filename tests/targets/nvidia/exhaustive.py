"""The best choice of layouts by trying all of them: the oracle for small graphs."""

from __future__ import annotations

from itertools import product
from math import prod

from workbench.layouts import LinearLayout
from workbench.targets.simt.passes.layout_graph import LayoutGraph


def cost(graph: LayoutGraph, chosen: list[LinearLayout]) -> float:
    """Return what a choice costs: nodes at their layouts, and conversions along edges."""
    own = sum(
        node.weight * sum(each(layout) for each in node.costs)
        for node, layout in zip(graph.nodes, chosen, strict=True)
    )
    return own + sum(
        edge.costs([chosen[edge.source]], [chosen[edge.target]], graph.chip)[0][0]
        for edge in graph.edges
    )


def components(graph: LayoutGraph) -> list[list[int]]:
    """Return the nodes that edges connect, by component."""
    parent = list(range(len(graph.nodes)))

    def root(node: int) -> int:
        while parent[node] != node:
            node = parent[node]
        return node

    for edge in graph.edges:
        parent[root(edge.source)] = root(edge.target)
    found: dict[int, list[int]] = {}
    for node in range(len(graph.nodes)):
        found.setdefault(root(node), []).append(node)
    return list(found.values())


def combinations(graph: LayoutGraph, nodes: list[int]) -> int:
    return prod(len(graph.nodes[node].candidates) for node in nodes)


def best(graph: LayoutGraph, nodes: list[int]) -> float:
    """Return the least cost of a component over all combinations of its candidates."""
    inside = set(nodes)
    edges = [edge for edge in graph.edges if edge.source in inside]
    tables = []
    for edge in edges:
        source, target = graph.nodes[edge.source], graph.nodes[edge.target]
        tables.append(edge.costs(source.candidates, target.candidates, graph.chip))
    own = {
        node: [
            graph.nodes[node].weight * sum(each(c) for each in graph.nodes[node].costs)
            for c in graph.nodes[node].candidates
        ]
        for node in nodes
    }
    place = {node: i for i, node in enumerate(nodes)}
    ends = [(place[edge.source], place[edge.target]) for edge in edges]
    least = float("inf")
    for choice in product(*(range(len(own[node])) for node in nodes)):
        total = sum(own[node][c] for node, c in zip(nodes, choice, strict=True))
        for table, (a, b) in zip(tables, ends, strict=True):
            total += table[choice[a]][choice[b]]
        least = min(least, total)
    return least


def cost_of_component(graph: LayoutGraph, nodes: list[int], chosen: list[LinearLayout]) -> float:
    inside = set(nodes)
    own = sum(
        graph.nodes[n].weight * sum(each(chosen[n]) for each in graph.nodes[n].costs) for n in nodes
    )
    edges = (edge for edge in graph.edges if edge.source in inside)
    return own + sum(
        edge.costs([chosen[edge.source]], [chosen[edge.target]], graph.chip)[0][0] for edge in edges
    )
