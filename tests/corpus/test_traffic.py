"""Every measured problem declares what it must move and multiply; the interpreter says whether."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import torch

from tests.bench import cases as gpu_cases
from tests.corpus import every
from tests.corpus.sample import F32, Launch, Maker, Problem, distinct, once
from tests.corpus.traffic import moved
from tests.kernels import reductions, scans, vector_add

#: Samples whose accesses the record cannot name, and why.
UNNAMED = {"sgd_of_list": "its tensors are reached by addresses that lie in memory"}


def _problems() -> Iterator[Any]:
    for entry in every.SAMPLES:
        for place, size in enumerate(entry.fast if entry.bench else ()):
            name = "-".join((entry.suite, entry.name, "x".join(map(str, size))))
            build = partial(
                lambda make, entry, size: entry.build(make, *size), entry=entry, size=size
            )
            marks = pytest.mark.slow if place else ()  # the smallest size in `make check`
            yield pytest.param(build, entry.bench_dtypes[0], entry.name, id=name, marks=marks)
    small = {
        "vector_add": partial(gpu_cases._add, n=1000),
        "softmax": partial(gpu_cases._softmax, columns=100, rows=3),
        "matmul": partial(gpu_cases._product, size=32, config=(16, 16, 16, 1, 1)),
    }
    for name, build in small.items():
        yield pytest.param(build, F32, name, id=name)


@pytest.mark.parametrize(("build", "dtype", "name"), list(_problems()))
def test_a_problem_declares_what_it_moves(build, dtype, name):
    problem = build(Maker(dtype))
    if name in UNNAMED:
        with pytest.raises(AssertionError, match="belongs to no argument"):
            moved(problem)
        return
    found = moved(problem)
    assert problem.moved_bytes == found.bytes, found
    # Operations of a kernel are those of its blocks, which are larger than the problem at its
    # edges and above the diagonal; where a loop depends on data they are not known.
    if found.flops is None:
        assert problem.flops > 0
    elif found.flops == 0:
        assert problem.flops == 0
    else:
        assert 0 < problem.flops <= found.flops


# -- the count itself -----------------------------------------------------------------------------
def problem_of(*launches, results=(), scratch=()):
    from tests.corpus.sample import exact

    return Problem(launches, lambda: [exact("", x, x) for x in results], scratch=scratch)


def test_what_is_read_often_counts_once_and_the_masked_part_not():
    x, y, out = (torch.zeros(7) for _ in range(3))
    launch = Launch(vector_add.add, (3,), (x, y, out, 7), {"BLOCK": 3})
    assert moved(problem_of(launch, results=[out]))[:2] == (once(x, y), once(out))
    same = Launch(vector_add.add, (3,), (x, x, out, 7), {"BLOCK": 3})
    assert moved(problem_of(same, results=[out]))[:2] == (once(x), once(out))


def test_what_is_updated_in_place_counts_twice():
    x, y = torch.zeros(7), torch.zeros(7)
    launch = Launch(vector_add.add, (3,), (x, y, x, 7), {"BLOCK": 3})
    assert moved(problem_of(launch, results=[x]))[:2] == (once(x, y), once(x))


def test_what_one_launch_leaves_for_the_next_does_not_count():
    x, between, out = torch.zeros(7), torch.zeros(7), torch.zeros(7)
    launches = (
        Launch(vector_add.add, (3,), (x, x, between, 7), {"BLOCK": 3}),
        Launch(vector_add.add, (3,), (between, x, out, 7), {"BLOCK": 3}),
    )
    assert moved(problem_of(*launches, results=[out]))[:2] == (once(x), once(out))
    both = problem_of(*launches, results=[out, between])
    assert moved(both)[:2] == (once(x), once(out, between))
    # Written and read by nobody: it counts, unless it is said to be scratch.
    assert moved(problem_of(launches[0]))[:2] == (once(x), once(between))
    assert moved(problem_of(launches[0], scratch=(between,)))[:2] == (once(x), 0)


def test_atomics_read_and_write():
    x, out = torch.ones(5000), torch.zeros(1)
    launch = Launch(reductions.atomic_sum, (5,), (x, out, 5000), {"BLOCK": 1024})
    assert moved(problem_of(launch, results=[out]))[:2] == (once(x, out), once(out))


def test_places_that_an_index_names_count():
    assert distinct(torch.tensor([3, 3, 1]), 5) == 2
    x = torch.full((100,), 0.5)
    out = torch.zeros(8, dtype=torch.int32)
    launch = Launch(scans.atomic_histogram, (1,), (x, out, 100, -2.0, 2.0, 8), {"BLOCK": 128})
    assert moved(problem_of(launch, results=[out]))[:2] == (once(x) + 4, 4)
