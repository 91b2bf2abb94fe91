"""Moving elements between the lanes of a warp with shuffles.

In one shuffle each lane offers one word and reads the word of one lane. So a
conversion is a schedule of rounds, and the schedule is linear as well. With the
gather map split into its parts on (register, lane),

    source lane      = lanes_of_lanes l + lanes_of_registers r
    source register  = registers_of_lanes l + registers_of_registers r

round t serves register t + B l of each lane l. That lane then reads lane
N l + (lanes_of_registers t), with N = lanes_of_lanes + lanes_of_registers B,
and the sender has to offer register W l + (registers_of_registers t), with W
made the same way. All readers of a lane must want the same register of it, so
the condition is ker N inside ker W. B starts at 0 and is extended until that
holds: a lane bit that makes two readers disagree gets a register to tell them
apart. If the destination has too few registers for that, a *virtual* one is
added, which nobody keeps.

Elements narrower than 32 bits travel together if they have the same way:
destination registers that differ by r with lanes_of_registers r = 0 have the
same source lane. They form the elements of one word.
"""

from dataclasses import dataclass, replace

from workbench.layouts import f2
from workbench.layouts.gather import Gather
from workbench.layouts.linear import LinearLayout


@dataclass(frozen=True, slots=True)
class Round:
    """One shuffle, for all lanes l of a warp.

    Lane s offers word  offer * s ^ word  of the source, lane l reads lane
    source * l ^ lane, and files what it gets as word  file * l ^ index.
    """

    index: int
    lane: int
    word: int


@dataclass(frozen=True, slots=True)
class ShufflePlan:
    """A conversion within warps. All maps are columns by lane bit (or warp bit), added by XOR.

    source, offer, file     lane read, word offered, word filed, per lane bit
    warp_source, warp_offer the same per warp bit (added to every lane)
    words                   source registers packed in each source word, low bits first
    filed                   per destination register (filed word, element), None: dead
    rounds                  the shuffles, in any order; is_local: no shuffle is needed
    cost                    cycles, see convert.py
    """

    source: tuple[int, ...]
    offer: tuple[int, ...]
    file: tuple[int, ...]
    warp_source: tuple[int, ...]
    warp_offer: tuple[int, ...]
    words: tuple[tuple[int, ...], ...]
    filed: tuple[tuple[int, int] | None, ...]
    rounds: tuple[Round, ...]
    cost: float

    def is_local(self, step: Round) -> bool:
        """Return whether each lane reads itself in this round: a move, not a shuffle."""
        own = tuple(f2.units(len(self.source)))
        return step.lane == 0 and self.source == own and not any(self.warp_source)

    @property
    def is_butterfly(self) -> bool:
        """Whether lane l reads lane l ^ constant in each round: shfl.bfly."""
        return self.source == tuple(f2.units(len(self.source))) and not any(self.warp_source)


@dataclass(slots=True)
class _Parts:
    # Source lane and source register of each destination bit.
    lanes_of_lanes: list[int]
    registers_of_lanes: list[int]
    lanes_of_registers: list[int]
    registers_of_registers: list[int]
    lanes_of_warps: list[int]
    registers_of_warps: list[int]


def plan_shuffles(
    source: LinearLayout, target: LinearLayout, gather: Gather, bits: int
) -> ShufflePlan:
    """Return how to convert within warps elements of so many bits.

    source has no copies among its registers, nor has target (compact); gather
    is the map between them, of level 0 or 1.
    """
    parts = _split(source, gather)
    packed, kept = _pack(parts, len(source.dims[0]), len(target.dims[0]), max(8, bits))
    source_basis, word_basis = _source_words(parts, packed, len(source.dims[0]))
    pivots, _ = f2.echelon(source_basis)
    shift = len(packed)

    def word(register: int) -> int:
        return (f2.solve(pivots, register) or 0) >> shift

    lanes, words = parts.lanes_of_lanes, [word(r) for r in parts.registers_of_lanes]
    round_lanes = [parts.lanes_of_registers[i] for i in kept]
    round_words = [word(parts.registers_of_registers[i]) for i in kept]
    file = _schedule(lanes, words, round_lanes, round_words)
    offer = _offers(lanes, words)
    real = 1 << len(kept)
    dead_words = _dead_words(target, packed, kept)
    reach = f2.table(f2.basis(file))
    lane_table, word_table = f2.table(round_lanes), f2.table(round_words)
    rounds = tuple(
        Round(t, lane_table[t], word_table[t] ^ f2.apply(offer, lane_table[t]))
        for t in range(len(lane_table))
        if any((t ^ x) < real and (t ^ x) not in dead_words for x in reach)
    )
    warp_words = [word(r) for r in parts.registers_of_warps]
    warp_offer = [
        w ^ f2.apply(offer, lane) for w, lane in zip(warp_words, parts.lanes_of_warps, strict=True)
    ]
    elements = f2.table(source_basis[:shift])
    plan = ShufflePlan(
        tuple(lanes),
        tuple(offer),
        tuple(file),
        tuple(parts.lanes_of_warps),
        tuple(warp_offer),
        tuple(tuple(w ^ e for e in elements) for w in f2.table(word_basis)),
        _filed(target, packed, kept),
        rounds,
        0.0,
    )
    return _with_cost(plan, bits, target)


def _split(source: LinearLayout, gather: Gather) -> _Parts:
    registers = len(source.dims[0])
    lanes = len(source.dims[1])
    places = _raise_lane_rank(source, gather.places[1])

    def register_part(places: tuple[int, ...] | list[int]) -> list[int]:
        return [place & (1 << registers) - 1 for place in places]

    def lane_part(places: tuple[int, ...] | list[int]) -> list[int]:
        return [place >> registers & (1 << lanes) - 1 for place in places]

    own, warp = gather.places[0], gather.places[2]
    return _Parts(
        lane_part(places),
        register_part(places),
        lane_part(own),
        register_part(own),
        lane_part(warp),
        register_part(warp),
    )


def _raise_lane_rank(source: LinearLayout, places: tuple[int, ...]) -> list[int]:
    # Copies in other lanes let the lanes of a warp read from more different lanes.
    registers, lanes = len(source.dims[0]), len(source.dims[1])
    copies = f2.kernel([*source.dims[0], *source.dims[1]])
    chosen = list(places)

    def spread(candidate: list[int]) -> int:
        return f2.rank(place >> registers & (1 << lanes) - 1 for place in candidate)

    if copies:
        best = spread(chosen)
        for bit in range(len(chosen)):
            for copy in copies:
                changed = [*chosen[:bit], chosen[bit] ^ copy, *chosen[bit + 1 :]]
                if (found := spread(changed)) > best:
                    chosen, best = changed, found
    return chosen


def _pack(
    parts: _Parts, source_bits: int, target_bits: int, bits: int
) -> tuple[list[int], list[int]]:
    """Return (destination register vectors that share a word, register bits that number words).

    A vector is usable if its elements come from the same lane (pure) and if no
    lane, warp or other register moves elements inside a word.
    """
    room = f2.log2(max(1, 32 // bits))
    pure = f2.kernel(parts.lanes_of_registers)
    moved = [*parts.registers_of_lanes, *parts.registers_of_warps]
    packed: list[int] = []
    inside: list[int] = []
    for vector in pure:
        if len(packed) == room:
            break
        place = f2.apply(parts.registers_of_registers, vector)
        chosen = [*packed, vector]
        others = f2.extend(chosen, f2.units(target_bits))
        outside = moved + [f2.apply(parts.registers_of_registers, other) for other in others]
        if f2.rank([*inside, place, *outside]) == len(inside) + 1 + f2.rank(outside):
            packed, inside = chosen, [*inside, place]
    kept = [f2.log2(unit) for unit in f2.extend(packed, f2.units(target_bits))]
    return packed, kept


def _source_words(
    parts: _Parts, packed: list[int], source_bits: int
) -> tuple[list[int], list[int]]:
    # A basis of the source registers: those inside a word, then those that number words;
    # the latter contain every move, so that moves never permute inside a word.
    inside = [f2.apply(parts.registers_of_registers, vector) for vector in packed]
    if not inside:
        return f2.units(source_bits), f2.units(source_bits)
    moves = [*parts.registers_of_lanes, *parts.registers_of_warps]
    kept = f2.extend(packed, f2.units(len(parts.registers_of_registers)))
    moves += [f2.apply(parts.registers_of_registers, unit) for unit in kept]
    outside = f2.extend(inside, moves + f2.units(source_bits))
    return inside + outside, outside


def _schedule(
    lanes: list[int], words: list[int], round_lanes: list[int], round_words: list[int]
) -> list[int]:
    # Extends B (returned), N (lanes) and W (words) until ker N lies in ker W, in place.
    file = [0] * len(lanes)
    while True:
        bad = next((k for k in f2.kernel(lanes) if f2.apply(words, k)), None)
        if bad is None:
            return file
        new = (i for i, lane in enumerate(round_lanes) if not f2.contains(lanes, lane))
        chosen = next(new, None)
        if chosen is None:  # a virtual register, fed by a source lane that nobody reads yet
            chosen = len(round_lanes)
            round_lanes.append(f2.complement(lanes, len(lanes))[0])
            round_words.append(0)
        bit = f2.log2(bad)
        file[bit] ^= 1 << chosen
        lanes[bit] ^= round_lanes[chosen]
        words[bit] ^= round_words[chosen]


def _offers(lanes: list[int], words: list[int]) -> list[int]:
    # W N^-1: what each lane offers; lanes that nobody reads may offer anything.
    pivots, _ = f2.echelon(lanes)
    known = [lane for lane, _ in pivots.values()]
    extra = f2.complement(known, len(lanes))
    whole, _ = f2.echelon([*lanes, *extra])
    inputs = (1 << len(lanes)) - 1
    return [f2.apply(words, (f2.solve(whole, unit) or 0) & inputs) for unit in f2.units(len(lanes))]


def _dead_words(target: LinearLayout, packed: list[int], kept: list[int]) -> set[int]:
    if target.shape == target.padded:
        return set()
    live, elements = set(target.live_registers()), f2.table(packed)
    return {
        word
        for word, first in enumerate(f2.table(1 << bit for bit in kept))
        if not any(first ^ element in live for element in elements)
    }


def _filed(
    target: LinearLayout, packed: list[int], kept: list[int]
) -> tuple[tuple[int, int] | None, ...]:
    filed: list[tuple[int, int] | None] = [None] * target.registers()
    live = set(target.live_registers())
    for word, first in enumerate(f2.table(1 << bit for bit in kept)):
        for element, vector in enumerate(f2.table(packed)):
            if first ^ vector in live:
                filed[first ^ vector] = (word, element)
    return tuple(filed)


def _with_cost(plan: ShufflePlan, bits: int, target: LinearLayout) -> ShufflePlan:
    per_word = max(1, -(-bits // 32))
    shuffles = sum(not plan.is_local(step) for step in plan.rounds)
    before = f2.rank([*plan.offer, *plan.warp_offer]) * len(plan.rounds)
    after = f2.rank(plan.file) * len(plan.rounds)
    elements = len(plan.words[0])
    packing = 2 * len(plan.rounds) * (elements - 1)
    cycles = (shuffles + 0.5 * (before + after)) * per_word + 0.5 * packing
    return replace(plan, cost=cycles * target.size("warp"))
