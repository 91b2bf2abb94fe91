"""Moving elements between threads through shared memory without bank conflicts.

A store instruction moves 2^vs elements per lane from neighbouring offsets, a
load 2^vd. Which elements become neighbours, and which share a bank, is our
choice: any invertible linear map from offsets to elements will do. Write it as

    offset bits, low to high   [ chain | bank | rest ]

chain   c_0, c_1, ...: the first vs span what a store's vector holds, the first
        vd what a load's vector holds (both lie in one thread on their side),
        and enough to fill a word of a bank
rest    K: offsets that differ only here lie in one bank

A phase of the store touches the elements A = vector + lanes of a phase + word;
a phase of the load touches D, made alike. Two words of a phase meet in a bank
exactly if they differ by an element of K. So there is no conflict on either
side if K meets neither A nor D, and such a K always exists: both have at most
as many dimensions as a row of banks, and f2.common_complement builds it.

The price: where a lane's own basis has a part inside the vector, that lane
holds the vector's elements in another order (`lane_swap`) and swaps registers
under a predicate before a store or after a load. Narrower vectors avoid it, so
several widths are planned and the cheapest is taken.

If the data never leaves its warp, each warp gets a scratch region of its own
and only waits for itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from workbench.layouts import f2
from workbench.layouts.gather import Gather
from workbench.layouts.linear import LinearLayout
from workbench.layouts.predict import BANKS, Banks, linear_wavefronts

WIDEST_BYTES = 16
CTA_BARRIER_CYCLES = 30
WARP_BARRIER_CYCLES = 10


@dataclass(frozen=True, slots=True)
class SharedInstruction:
    """One vector access: XOR `offset` (bytes) into the address.

    registers[i] is the register at position i of the vector in a lane whose
    swap is 0; a lane with swap s has it at position i ^ s. None: dead.
    """

    offset: int
    registers: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class SharedAccess:
    """All accesses of one side.

    byte address = base + (XOR of lane[i], warp[i] of the set bits, XOR instruction.offset)

    lane_swap and warp_swap add up, by XOR, to the lane's swap of positions.
    rounds[k] are the instructions of round k; wavefronts counts all warps.
    """

    vector: int
    lane: tuple[int, ...]
    warp: tuple[int, ...]
    lane_swap: tuple[int, ...]
    warp_swap: tuple[int, ...]
    rounds: tuple[tuple[SharedInstruction, ...], ...]
    wavefronts: int

    def of_words(self, each: int) -> SharedAccess | None:
        """Return the accesses by words of so many registers, None where one is taken apart."""
        swaps = (*self.lane_swap, *self.warp_swap)
        rounds: list[tuple[SharedInstruction, ...]] = []
        for steps in self.rounds:
            held = [(step.offset, _words(step.registers, each)) for step in steps]
            whole = [SharedInstruction(at, words) for at, words in held if words is not None]
            if len(whole) < len(steps):
                return None
            rounds.append(tuple(whole))
        if any(swap % each for swap in swaps):
            return None
        lane, warp = (tuple(s // each for s in side) for side in (self.lane_swap, self.warp_swap))
        return replace(
            self, vector=self.vector // each, lane_swap=lane, warp_swap=warp, rounds=tuple(rounds)
        )


@dataclass(frozen=True, slots=True)
class SharedPlan:
    """A conversion through shared memory.

    For each round: barrier if the scratch was used before, store.rounds[k] by
    warps whose index has no bit of owner_warps, barrier, load.rounds[k]. Then
    register copies[i][0] of the destination is a copy of copies[i][1]. The base
    of the scratch must be a multiple of 16 bytes.

    layout is the offset layout of the tile; None where warps that hold the same
    elements each stage them in a region of their own.
    """

    layout: LinearLayout | None
    store: SharedAccess
    load: SharedAccess
    copies: tuple[tuple[int, int], ...]
    owner_warps: int
    scratch_bytes: int
    barrier: Literal["cta", "warp"]
    cost: float

    def of_words(self, each: int) -> SharedPlan | None:
        """Return the same conversion of words that hold so many registers each, in their order.

        None where such a word does not move as a whole.
        """
        store, load = self.store.of_words(each), self.load.of_words(each)
        copies = dict(self.copies)
        words = [(target // each, copies[target] // each) for target in copies if not target % each]
        rows = ((t * each + i, s * each + i) for t, s in words for i in range(each))
        if store is None or load is None or dict(rows) != copies:
            return None
        return replace(self, store=store, load=load, copies=tuple(words))


def _words(registers: tuple[int | None, ...], each: int) -> tuple[int | None, ...] | None:
    """Return the words that neighbouring registers make up, None where they make up no whole ones.

    >>> _words((2, 3, 6, 7), 2), _words((3, 2), 2), _words((0,), 2)
    ((1, 3), None, None)
    """
    found: list[int | None] = []
    for i in range(0, len(registers), each):
        first, part = registers[i], registers[i : i + each]
        if first is not None and (first % each or part != tuple(range(first, first + each))):
            return None
        if first is None and part != (None,) * each:
            return None
        found.append(None if first is None else first // each)
    return tuple(found)


class _Side(NamedTuple):
    # Bases of one side, in the n-bit space in which the exchange takes place.
    register: tuple[int, ...]
    lane: tuple[int, ...]
    warp: tuple[int, ...]


class _Space(NamedTuple):
    # That space: the whole tile, or, if private, what one warp holds.
    bits: int
    source: _Side
    target: _Side
    private: bool


class _Choice(NamedTuple):
    chain: list[int]
    store: int  # log2 of the elements of a store's vector
    load: int


class _Map(NamedTuple):
    # Elements of the offset bits; the highest `rounds` of them number the rounds.
    offsets: list[int]
    rounds: int


class _Pattern(NamedTuple):
    # The offsets, in elements, of the place bits of one side, and its vector (log2).
    register: list[int]
    lane: list[int]
    warp: list[int]
    regions: list[int]  # per warp bit: where its private region starts
    vector: int
    rounds: int
    top: int  # bits of an offset within a round


def plan_staging(
    source: LinearLayout,
    target: LinearLayout,
    gather: Gather,
    bits: int,
    scratch_limit: int | None = None,
    banks: Banks = BANKS,
) -> SharedPlan:
    """Return the cheapest staging of a conversion within a block.

    source and target have no copies among their registers (compact). With
    scratch_limit the exchange is cut into rounds, as far as both sides have
    registers in common that decide the round; then scratch_bytes is the least
    that can be reached, which may be more than the limit.
    """
    itemsize = max(1, bits // 8)
    space = _space(source, target, gather)
    limit = scratch_limit or 1 << space.bits << 4 << len(space.source.warp)

    def rated(choice: _Choice) -> tuple[bool, float, tuple[_Pattern, _Pattern], _Map]:
        found = _offset_map(space, choice, itemsize, limit, banks)
        sides = _patterns(space, choice, found)
        barrier = WARP_BARRIER_CYCLES if space.private else CTA_BARRIER_CYCLES
        cost = barrier * ((2 << found.rounds) - 1) + sum(
            _cost(side, itemsize, banks) for side in sides
        )
        return _scratch_bytes(space, found, itemsize) > limit, cost, sides, found

    narrow = _scratch_bytes(space, _Map([], 0), itemsize) > limit
    rates = [rated(choice) for choice in _choices(space, itemsize, narrow)]
    _, cost, (store, load), found = min(rates, key=lambda rate: rate[:2])
    return SharedPlan(
        None if found.rounds else _tile_layout(source, space, found.offsets),
        _access(source, store, itemsize, banks),
        _access(target, load, itemsize, banks),
        (),
        0 if space.private else source.owners()["warp"],
        _scratch_bytes(space, found, itemsize),
        "warp" if space.private else "cta",
        cost,
    )


def _scratch_bytes(space: _Space, found: _Map, itemsize: int) -> int:
    regions = len(space.source.warp) if space.private else 0
    return itemsize << space.bits - found.rounds + regions


def _space(source: LinearLayout, target: LinearLayout, gather: Gather) -> _Space:
    if gather.level > 1:
        sides = _Side(*source.dims[:3]), _Side(*target.dims[:3])
        return _Space(source.tile_bits, *sides, False)
    # What warp 0 of the source holds; other warps hold the same, moved by a constant. The
    # constants differ between the sides by something inside, which `target` keeps.
    basis = f2.extend((), [*source.dims[0], *source.dims[1]])
    pivots, _ = f2.echelon(basis)

    def inside(vectors: Sequence[int]) -> tuple[int, ...]:
        return tuple(f2.solve(pivots, vector) or 0 for vector in vectors)

    moved = tuple(a ^ b for a, b in zip(source.dims[2], target.dims[2], strict=True))
    return _Space(
        len(basis),
        _Side(inside(source.dims[0]), inside(source.dims[1]), (0,) * len(moved)),
        _Side(inside(target.dims[0]), inside(target.dims[1]), inside(moved)),
        True,
    )


def _choices(space: _Space, itemsize: int, narrow: bool) -> list[_Choice]:
    """Return the vectors worth planning: what both sides have, then one side made wider.

    With `narrow` also smaller ones: the directions left over can number rounds.
    """
    widest = f2.log2(WIDEST_BYTES // itemsize)
    source, target = space.source, space.target
    common = f2.intersection(source.register, target.register)[:widest]
    choices: list[_Choice] = []
    bases = [len(common), _without_swap(space, common)]
    if narrow:
        bases += range(len(common))
    for base in dict.fromkeys(bases):
        chain = common[:base]
        for side, stores in ((source, True), (target, False)):
            wide = chain + f2.extend(chain, side.register)[: widest - base]
            for width in dict.fromkeys((len(wide), base)):
                pair = (width, base) if stores else (base, width)
                choices.append(_Choice(wide[:width], *pair))
    unique: dict[tuple[tuple[int, ...], int, int], _Choice] = {}
    for choice in choices:
        unique.setdefault((tuple(choice.chain), choice.store, choice.load), choice)
    return list(unique.values())


def _without_swap(space: _Space, common: list[int]) -> int:
    # How many common directions lie outside what the threads of both sides span.
    threads = [*space.source.lane, *space.source.warp, *space.target.lane, *space.target.warp]
    count = 0
    while count < len(common) and len(f2.extend(threads, common[: count + 1])) == count + 1:
        count += 1
    return count


def _offset_map(space: _Space, choice: _Choice, itemsize: int, limit: int, banks: Banks) -> _Map:
    # [chain | bank | K | round]
    source, target, n = space.source, space.target, space.bits
    word = max(0, f2.log2(banks.word_bytes) - f2.log2(itemsize))
    chain = list(choice.chain)
    threads = [*source.lane, *target.lane, *source.warp, *target.warp]
    pool = [*source.register, *target.register, *threads, *f2.units(n)]
    chain += f2.extend(chain, pool)[: max(0, min(word, n) - len(chain))]
    rounds: list[int] = []
    room = f2.log2(max(1, limit // itemsize)) - len(source.warp) * space.private
    if room < n:
        # What the round depends on must be a register on both sides, and nothing else.
        common = f2.intersection(source.register, target.register)
        rounds = f2.extend([*chain, *threads], common)[: n - max(0, room)]
    if rounds:
        fixed = f2.extend((), [*chain, *threads])
        within = fixed + f2.complement(fixed + rounds, n)
    else:
        within = f2.units(n)
    pivots, _ = f2.echelon(within)

    def inside(vectors: Sequence[int]) -> list[int]:
        return [f2.solve(pivots, vector) or 0 for vector in vectors]

    def phase(vector: int, side: _Side) -> list[int]:
        lanes = side.lane[: banks.phase_bits(itemsize << vector)]
        return inside([*chain[:vector], *lanes, *chain[:word]])

    m = n - len(rounds)
    first, second = phase(choice.store, source), phase(choice.load, target)
    row = f2.log2(banks.row_bytes) - f2.log2(itemsize)
    apart = f2.common_complement(first, second, m)[: max(0, m - row)]
    head = inside(chain)
    # Banks along the lanes, where they can be: then a lane's offset has no part in the chain.
    bank = f2.extend(head + apart, [*inside(threads), *f2.units(m)])
    inner = head + bank + apart
    if rounds:
        inner = [f2.apply(within, offset) for offset in inner]
    return _Map(inner + rounds, len(rounds))


def _patterns(space: _Space, choice: _Choice, found: _Map) -> tuple[_Pattern, _Pattern]:
    inverse, top = f2.inverse(found.offsets), space.bits - found.rounds
    regions = [1 << top + bit if space.private else 0 for bit in range(len(space.source.warp))]

    def pattern(side: _Side, vector: int) -> _Pattern:
        register, lane, warp = ([f2.apply(inverse, flat) for flat in dim] for dim in side)
        return _Pattern(register, lane, warp, regions, vector, found.rounds, top)

    return pattern(space.source, choice.store), pattern(space.target, choice.load)


def _cost(side: _Pattern, itemsize: int, banks: Banks) -> float:
    # Wavefronts, address arithmetic, swaps, and something for the issue of an instruction.
    high, low = -1 << side.vector, (1 << side.vector) - 1
    instructions = 1 << len(side.register) - side.vector
    image = 0
    for offset in (*side.lane, *side.warp):
        image |= offset & high
    varying = f2.rank(offset & image for offset in side.register)
    computed = instructions - (instructions >> varying)
    levels = f2.rank(offset & low for offset in (*side.lane, *side.warp))
    swapped = levels * instructions << side.vector
    offsets = [(o & high) * itemsize for o in side.lane]
    waves = linear_wavefronts(offsets, itemsize << side.vector, banks)
    per_warp = waves * instructions + 0.5 * (computed + swapped) + 0.25 * instructions
    return per_warp * (1 << len(side.warp))


def _access(layout: LinearLayout, side: _Pattern, itemsize: int, banks: Banks) -> SharedAccess:
    high, low = -1 << side.vector, (1 << side.vector) - 1
    steps = _instructions(layout, side, itemsize)
    lane = tuple((offset & high) * itemsize for offset in side.lane)
    pairs = zip(side.warp, side.regions, strict=True)
    waves = linear_wavefronts(lane, itemsize << side.vector, banks) * sum(map(len, steps))
    return SharedAccess(
        1 << side.vector,
        lane,
        tuple((offset & high ^ region) * itemsize for offset, region in pairs),
        tuple(offset & low for offset in side.lane),
        tuple(offset & low for offset in side.warp),
        steps,
        waves << len(side.warp),
    )


def _instructions(
    layout: LinearLayout, side: _Pattern, itemsize: int
) -> tuple[tuple[SharedInstruction, ...], ...]:
    # A vector is the registers whose offsets differ in the low bits only.
    live = set(layout.live_registers())
    low, size = (1 << side.vector) - 1, 1 << side.vector
    vectors: dict[int, list[int | None]] = {}
    for register, offset in enumerate(f2.table(side.register)):
        positions = vectors.setdefault(offset & ~low, [None] * size)
        if register in live:
            positions[offset & low] = register
    rounds: list[list[SharedInstruction]] = [[] for _ in range(1 << side.rounds)]
    for offset, positions in vectors.items():
        if any(position is not None for position in positions):
            inside = (offset & (1 << side.top) - 1) * itemsize
            rounds[offset >> side.top].append(SharedInstruction(inside, tuple(positions)))
    return tuple(map(tuple, rounds))


def _tile_layout(source: LinearLayout, space: _Space, offsets: list[int]) -> LinearLayout | None:
    if not space.private:
        return LinearLayout.from_flat((tuple(offsets),), source.shape, "scratch")
    basis = f2.extend((), [*source.dims[0], *source.dims[1]])
    bases = [f2.apply(basis, offset) for offset in offsets] + list(source.dims[2])
    if f2.rank(bases) < len(bases):
        return None
    return LinearLayout.from_flat((tuple(bases),), source.shape, "scratch")
