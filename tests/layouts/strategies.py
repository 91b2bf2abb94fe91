"""Random layouts: shapes with and without holes, replication, XOR-mixed bases."""

import os

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from workbench.layouts import LinearLayout, f2

# WORKBENCH_TEST_SCALE=20 runs the counts of a nightly job.
SCALE = float(os.environ.get("WORKBENCH_TEST_SCALE", "1"))


def cases(count: int) -> settings:
    return settings(
        max_examples=max(1, int(count * SCALE)),
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


@st.composite
def shapes(draw: st.DrawFn, bits: int, rank: int = 4) -> tuple[int, ...]:
    """Shapes whose padded tile has so many bits."""
    shape: list[int] = []
    for _ in range(draw(st.integers(1, rank)) - 1):
        axis = draw(st.integers(0, bits))
        shape.append(draw(extents(axis)))
        bits -= axis
    return (*shape, draw(extents(bits)))


def extents(bits: int) -> st.SearchStrategy[int]:
    smallest = (1 << bits - 1) + 1 if bits else 1
    return st.one_of(st.just(1 << bits), st.integers(smallest, 1 << bits))


@st.composite
def vectors(draw: st.DrawFn, bits: int) -> int:
    """One basis: a unit in most cases, sometimes zero (replication) or anything."""
    if bits == 0:
        return 0
    kind = draw(st.integers(0, 9))
    if kind < 2:
        return 0
    if kind < 8:
        return 1 << draw(st.integers(0, bits - 1))
    return draw(st.integers(0, (1 << bits) - 1))


@st.composite
def layouts(
    draw: st.DrawFn,
    max_bits: int = 10,
    max_warp_bits: int = 2,
    shape: tuple[int, ...] | None = None,
    warp_bits: int | None = None,
    min_bits: int = 0,
) -> LinearLayout:
    """Distributed layouts onto their tile: 5 lane bits, any replication and mixing."""
    if shape is None:
        shape = draw(shapes(draw(st.integers(min_bits, max_bits))))
    bits = sum(map(f2.extent_bits, shape))
    warps = draw(st.integers(0, max_warp_bits)) if warp_bits is None else warp_bits
    if draw(st.booleans()):  # each element once, as far as there are places
        order = list(draw(st.permutations(f2.units(bits))))
        if draw(st.booleans()):
            order = f2.extend((), [draw(vectors(bits)) for _ in range(bits)] + order)
        order += [0] * (5 + warps - len(order))
        lane, warp, register = order[:5], order[5 : 5 + warps], order[5 + warps :]
    else:
        lane, warp, register = (
            [draw(vectors(bits)) for _ in range(count)]
            for count in (5, warps, draw(st.integers(0, 3)))
        )
    register += f2.complement([*lane, *warp, *register], bits)
    register = list(draw(st.permutations(register)))
    dims = tuple(map(tuple, (register, lane, warp, ())))
    return LinearLayout.from_flat(dims, shape).verify()


@st.composite
def pairs(draw: st.DrawFn, max_bits: int = 9) -> tuple[LinearLayout, LinearLayout]:
    """A source, and a target of the same shape, often within the same warp."""
    source = draw(layouts(max_bits, min_bits=1))
    warps = len(source.dims[2])
    if draw(st.booleans()):
        return source, draw(layouts(shape=source.shape, warp_bits=warps))
    pool = [*source.dims[0], *source.dims[1]]
    mixed = list(draw(st.permutations(pool)))
    if draw(st.booleans()):
        size = st.integers(0, (1 << len(pool)) - 1)
        mixed = [f2.apply(pool, draw(size)) if draw(st.booleans()) else old for old in mixed]
    warp = tuple(
        old ^ (f2.apply(pool, draw(st.integers(0, 3))) if draw(st.booleans()) else 0)
        for old in source.dims[2]
    )
    missing = f2.extend([*mixed, *warp], f2.basis(pool))
    dims = (tuple(mixed[5:] + missing), tuple(mixed[:5]), warp, ())
    return source, LinearLayout.from_flat(dims, source.shape)
