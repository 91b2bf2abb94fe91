"""The choice of layouts: the optimum, found the same way every time, and explained."""

from __future__ import annotations

import itertools
import random
import re
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import workbench
import workbench.language as tl
from tests.kernels import products, sorting
from tests.language.harness import from_text, lowered
from tests.passes.corpus import Case, tile_ir
from tests.passes.corpus import cases as corpus
from tests.passes.meaning import cases
from tests.passes.pipelines import SM_80
from tests.passes.programs import modules
from tests.targets.nvidia.configurations import QUICK
from tests.targets.nvidia.exhaustive import best, combinations, components, cost, cost_of_component
from workbench.ir import Module, layout_of, parse_module, print_module
from workbench.layouts import blocked, mma_a, mma_c
from workbench.ops import ConvertLayout, For, Load
from workbench.passes.manager import Recorder, Remarks
from workbench.passes.narrow_index import narrow_index
from workbench.passes.pipeline import tile_passes
from workbench.targets.simt.passes import layout_graph
from workbench.targets.simt.passes.assign_layouts import assign_layouts
from workbench.targets.simt.passes.elimination import cheapest
from workbench.targets.simt.passes.layout_choice import (
    _Move,
    _pair_costs,
    _Search,
    _searched,
    edge_costs,
    solve,
)
from workbench.targets.simt.passes.layout_graph import Edge, LayoutGraph, Node
from workbench.targets.simt.rules import Device, same


def ready(module: Module, **options: object) -> Module:
    """Return machine-width tile IR: what layouts are assigned to."""
    final = tile_passes(module, Recorder())
    attributes = {"num_warps": 4, "num_stages": 3, **final.attributes, **options}
    return narrow_index(replace(final, attributes=attributes), Remarks())


def check_components(module: Module) -> int:
    """Compare each component with all its combinations; returns how many had a choice."""
    graph = LayoutGraph(module, SM_80)
    chosen, open_ = solve(graph), 0
    for nodes in components(graph):
        if 1 < combinations(graph, nodes) <= 20_000:
            open_ += 1
            least = best(graph, nodes)
            assert cost_of_component(graph, nodes, chosen) <= least + 1e-6
    return open_


def test_kernels_get_the_cheapest_layouts():
    assert sum(check_components(ready(case.module(), **case.options)) for case in corpus()) >= 5


@given(modules(), st.sampled_from([1, 2, 4]))
@cases(25)
def test_random_programs_get_the_cheapest_layouts(module: Module, num_warps: int):
    check_components(ready(module, num_warps=num_warps))


@dataclass
class Graph:
    """Nodes and edges, as LayoutGraph makes them of a module."""

    nodes: list[Node] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    chip: Device = SM_80


LAYOUTS = [blocked((32, 32), v, order, 2) for v in (1, 2, 4, 8) for order in ((0, 1), (1, 0))]
LAYOUTS += [mma_c((32, 32), (2, 1)), mma_c((32, 32), (1, 2)), mma_a((32, 32), 2, (2, 1))]


def random_graph(seed: int) -> Graph:
    """Return 8 nodes with 3 layouts each and conversions between them."""
    source, graph = random.Random(seed), Graph()
    for number in range(8):
        node = Node((32, 32), None, source.choice([1.0, 32.0]), source.sample(LAYOUTS, 3))
        if source.random() < 0.5:
            own = {layout: source.choice([0, 20, 100, 400]) for layout in node.candidates}
            node.costs.append(own.__getitem__)
        graph.nodes.append(node)
        for other in source.sample(range(number), min(number, source.choice([1, 1, 2]))):
            bits, weight = source.choice([16, 32]), source.choice([1.0, 32.0])
            graph.edges.append(Edge(other, number, bits, weight, same, same))
    return graph


@pytest.mark.parametrize("seed", range(30))
def test_random_graphs_are_solved_exactly(seed: int):
    graph = random_graph(seed)
    assert cost(graph, solve(graph)) == pytest.approx(best(graph, list(range(8))))


def test_descent_is_never_worse_than_every_node_for_itself():
    """What is left for graphs too dense to solve exactly."""
    optimal = 0
    for seed in range(30):
        graph = random_graph(seed)
        own = [[n.weight * sum(c(x) for c in n.costs) for x in n.candidates] for n in graph.nodes]
        assert cheapest(own, _pair_costs(graph, edge_costs(graph)), most=2) is None
        found = [
            n.candidates[c]
            for n, c in zip(graph.nodes, _searched(graph, own, edge_costs(graph)), strict=True)
        ]
        alone = [n.candidates[min(range(3), key=o.__getitem__)]
                 for n, o in zip(graph.nodes, own, strict=True)]  # fmt: skip
        assert cost(graph, found) <= cost(graph, alone)
        optimal += cost(graph, found) <= best(graph, list(range(8))) + 1e-6
    assert optimal >= 25


def test_descent_looks_at_what_goes_together_once(monkeypatch):
    """All nodes of a long graph bring each other about: moves of one are moves of all."""
    source, graph, layouts = random.Random(0), Graph(), LAYOUTS[:4]
    for number in range(150):
        node = Node((32, 32), None, 1.0, list(layouts))
        prices = {layout: source.choice([0, 20, 100, 400]) for layout in layouts}
        node.costs.append(prices.__getitem__)
        graph.nodes.append(node)
        for other in range(max(0, number - 3), number):
            graph.edges.append(Edge(other, number, 32, 1.0, same, same))
    own = [[node.weight * cost(x) for x in layouts for cost in node.costs] for node in graph.nodes]
    looked_at: list[int] = []
    plain = _Search.carried_along

    def counted(search: _Search, number: int, candidate: int) -> _Move:
        looked_at.append(len((found := plain(search, number, candidate)).choices))
        return found

    monkeypatch.setattr(_Search, "carried_along", counted)
    _searched(graph, own, edge_costs(graph))
    assert max(looked_at) == len(graph.nodes)
    assert sum(looked_at) < 100 * len(graph.nodes) * len(layouts)


def plainly_searched(search: _Search) -> list[int]:
    """Return what descents find that add up all costs anew for each move."""

    def cost_at(choice: list[int], nodes: set[int]) -> float:
        total = sum(search.own[n][choice[n]] for n in sorted(nodes))
        for number in sorted({e for n in nodes for e in search.around[n]}):
            source, target, costs = search.edges[number]
            total += costs[choice[source]][choice[target]]
        return total

    def improved(choice: list[int], moves: dict[int, int]) -> list[int] | None:
        moved = [moves.get(n, c) for n, c in enumerate(choice)]
        less = cost_at(moved, set(moves)) < cost_at(choice, set(moves)) - 1e-9
        return moved if less else None

    def descended(choice: list[int]) -> list[int]:
        going = True
        while going:
            going = False
            for number, candidate in every:
                if candidate == choice[number]:
                    continue
                moves = search.carried_along(number, candidate).choices
                found = improved(choice, {number: candidate}) or improved(choice, moves)
                if found is not None:
                    choice, going = found, True
        return choice

    every = [(n, c) for n, costs in enumerate(search.own) for c in range(len(costs))]
    found = list(map(descended, search.starts()))
    return min(found, key=lambda choice: round(cost_at(choice, set(range(len(choice)))), 6))


@pytest.mark.parametrize("seed", range(20))
def test_descent_takes_the_moves_of_a_plain_one(seed: int):
    graph = random_graph(seed)
    own = [[n.weight * sum(c(x) for c in n.costs) for x in n.candidates] for n in graph.nodes]
    tables = edge_costs(graph)
    assert _searched(graph, own, tables) == plainly_searched(_Search(graph, own, tables))


def test_conversions_between_the_same_layouts_are_costed_once(monkeypatch):
    graph, layouts = Graph(), LAYOUTS[:4]
    for number in range(100):
        graph.nodes.append(Node((32, 32), None, 1.0, list(layouts)))
        weight = float(1 + number % 3)
        graph.edges += (Edge(n, number, 32, weight, same, same) for n in range(number)[-3:])
    asked: list[float] = []
    plain = layout_graph.conversion_cost

    def counted(*words: Any) -> float:
        asked.append(plain(*words))
        return asked[-1]

    monkeypatch.setattr(layout_graph, "conversion_cost", counted)
    tables = edge_costs(graph)
    assert len(asked) == len(layouts) ** 2
    for edge, rows in zip(graph.edges, tables, strict=True):
        for a, row in zip(layouts, rows, strict=True):
            assert row == [edge.weight * plain(a, b, 32, SM_80) for b in layouts]


def test_any_number_of_neighbours_may_have_no_choice():
    own = [[1.0, 1.0], *([3.0] for _ in range(100))]
    pairs = {(0, n): [[0.0], [float(n == 70)]] for n in range(1, 101)}
    assert cheapest(own, pairs) == [0] * 101
    pairs[50, 0] = [[2.0, 0.0]]
    assert cheapest(own, pairs) == [1, *[0] * 100]


def test_elimination_agrees_with_enumeration_on_dense_graphs():
    for seed in range(20):
        source = random.Random(seed)
        sizes = [source.randint(1, 4) for _ in range(5)]
        own = [[source.randint(0, 9) for _ in range(size)] for size in sizes]
        pairs = {
            (a, b): [[source.randint(0, 9) for _ in range(sizes[b])] for _ in range(sizes[a])]
            for a in range(5) for b in range(a + 1)
        }  # fmt: skip

        def total(choice: tuple[int, ...], own=own, pairs=pairs) -> int:
            alone = sum(costs[c] for costs, c in zip(own, choice, strict=True))
            return alone + sum(rows[choice[a]][choice[b]] for (a, b), rows in pairs.items())

        least = min(total(choice) for choice in itertools.product(*map(range, sizes)))
        found = cheapest(own, pairs)
        assert found is not None
        assert total(tuple(found)) == least


@pytest.mark.parametrize("case", corpus()[::4], ids=lambda case: case.name)
def test_names_do_not_matter(case: Case):
    """Layouts are the same for other names of values and of the kernel, and in another run."""
    module = ready(case.module(), **case.options)
    texts = []
    for change in (lambda name: name, lambda name: f"z{len(name)}", lambda name: ""):
        again = parse_module(print_module(module))
        for op in again.walk():
            for value in (*op.results, *(a for region in op.regions for a in region.arguments)):
                value.hint = change(value.hint)
        after = assign_layouts(again, Remarks(), SM_80)
        texts.append([r.type for op in after.walk() for r in op.results])
    assert texts[0] == texts[1] == texts[2]


def test_a_decision_leaves_a_remark_with_its_cost_and_the_next_best():
    remarks = Remarks()
    configuration = next(c for c in QUICK if c.name == "notebook matmul fp16")
    assign_layouts(ready(configuration.module()), remarks, SM_80)
    texts = [remark.text for remark in remarks.items]
    assert any("cycles here, the next best of" in text for text in texts), texts
    numbers = [[int(n) for n in re.findall(r"\d+(?= cycles)|(?<=takes )\d+", t)] for t in texts]
    assert all(len(set(found)) == len(found) for found in numbers), "a tie decides nothing"


def test_a_load_of_one_axis_is_not_converted_beside_what_is_made_of_it():
    """Two conversions, of the load and of a mask, took 156 instructions more than one of both."""
    array = np.zeros(256, np.int32)
    module, _ = lowered(
        sorting.radix_scatter, key_ptr=array, out_ptr=array, count_ptr=array, n=250, shift=4,
        n_blocks=3, DIGITS=16, BLOCK=256,
    )  # fmt: skip
    done = assign_layouts(ready(module), Remarks(), SM_80)
    converted = [op.source for op in done.walk() if isinstance(op, ConvertLayout)]
    assert not any(isinstance(value.op, Load) for value in converted)
    assert len(converted) <= 2


def test_a_row_that_alone_exists_is_copied_in_wide_pieces():
    """Of 16 rows one is on: few sectors, however narrow the pieces; but each is an instruction."""
    signature = (
        "*f16:16 *f16:16 *f16:16 i32=1 i32:16 i32:16 i32:16 i32=1 i32=1 i32:16 i32 i32 i32=1"
    )
    named = {"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 256, "GROUP_M": 8, "SPLIT_K": 1}
    named["ATOMIC"] = False
    module = tile_ir(products.split_product, signature, named, num_warps=4)
    done = assign_layouts(ready(module), Remarks(), SM_80)
    (loop,) = (op for op in done.walk() if isinstance(op, For))
    loads = [op for op in loop.body.ops if isinstance(op, Load)]
    held = [(layout_of(load.result.type), axis) for load, axis in zip(loads, (1, 0), strict=True)]
    assert [layout and layout.consecutive("register", axis) for layout, axis in held] == [8, 8]


def interleaved(x_ptr, out_ptr, STEP: tl.constexpr, N: tl.constexpr):
    """Running sums of pairs, of which one field after the other is read."""
    i = tl.arange(0, N) * STEP
    tl.store(out_ptr + i, tl.cumsum(tl.load(x_ptr + i), axis=0))


@pytest.mark.parametrize(("step", "lanes"), [(2, True), (3, True), (4, True), (8, False)])
def test_neighbours_read_fields_of_what_lies_side_by_side(step: int, lanes: bool):
    """A scan's threads would have runs; what shares no sector is read in these."""
    module = tile_ir(interleaved, "*fp32:16 *fp32:16", {"STEP": step, "N": 2048})
    done = assign_layouts(ready(module), Remarks(), SM_80)
    (load,) = (op for op in done.walk() if isinstance(op, Load))
    layout = layout_of(load.result.type)
    assert layout is not None
    assert (layout.flat("lane") == (1, 2, 4, 8, 16)) is lanes


DEPTHWISE = """
def depthwise(x, weights, out, n, channels, height, width, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column, row, plane = at % width, at // width % height, at // (width * height)
    total = tl.zeros([BLOCK], tl.float32)
    for down in tl.static_range(3):
        for along in tl.static_range(3):
            y, z = row + down - 1, column + along - 1
            inside = (at < n) & (y >= 0) & (y < height) & (z >= 0) & (z < width)
            pixel = tl.load(x + (plane * height + y) * width + z, mask=inside, other=0.0)
            weight = tl.load(weights + plane % channels * 9 + down * 3 + along, mask=at < n)
            total += pixel * weight
    tl.store(out + at, total, mask=at < n)
"""


@pytest.mark.parametrize(
    ("width", "wide", "alone", "weights"), [("i32:16", 3, 48, 9), ("i32", 0, 72, 72)]
)
def test_neighbours_in_an_image_share_what_says_where_they_lie(
    width: str, wide: int, alone: int, weights: int
):
    """Pixels beside aligned ones are loaded one by one; weights once, where rows are known."""
    signature = f"*fp16:16 *fp16:16 *fp16:16 i32:16 i32 i32 {width}"
    text = workbench.compile(
        from_text(DEPTHWISE), signature, {"BLOCK": 1024}, "sm_90a", num_warps=4
    ).asm["ptx"]
    loads = re.findall(r"ld\.global\S*", text)
    assert loads.count("ld.global.v4.b32") == wide
    assert loads.count("ld.global.b16") == alone + weights


@pytest.mark.parametrize("cache", ["", ", cache_modifier='.cg'"])
def test_what_another_register_has_brought_costs_little(cache: str):
    """Neighbours of an unaligned row stay in one thread where the cache keeps their sectors."""
    source = """
def beside(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(x + at, mask=at < n) + tl.load(x + at + n, mask=at < n)
    tl.store(out + at, total + tl.load(x + at + 1, mask=at < n CACHE), mask=at < n)
"""
    kernel, signature = from_text(source.replace(" CACHE", cache)), "*fp32:16 *fp32:16 i32:16"
    text = workbench.compile(kernel, signature, {"BLOCK": 1024}, "sm_90a", num_warps=4).asm["ptx"]
    assert len(re.findall(r"ld\.global\S*\.v4", text)) == (0 if cache else 4)
