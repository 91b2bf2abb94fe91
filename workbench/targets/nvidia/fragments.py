"""How the operands of mma.sync lie: which elements along k a lane has, and which operand is first.

A product is a sum over k, so both operands may go through it in another order, as long as it is the
same one. Fragments as the instruction numbers them give a lane pairs: fp16 that is copied to shared
memory comes from there by ldmatrix, but weights of 8 or 4 bits, which become fp16 in registers,
would be read two at a time. Lanes that have a run of neighbours read them as they lie in memory.

The first operand's fragments have two rows of the tile side by side: what is read in wide pieces of
one row would have to be moved there, while what is computed is computed there. So C.T = B.T @ A.T
is what is multiplied, where B is computed and A read.

Numbers of 4 bits that are neighbours in memory are not in the two halves of a word; those four
apart are, so that one instruction puts two of them where halves want them. Registers hold such
pairs where that saves more than the other operand, whose halves are exchanged for it, costs.

Which columns of the tile those of instructions stand for is free, too. Where memory has words side
by side along columns, a lane has four neighbouring ones of them, which it reads at once.
"""

from __future__ import annotations

from math import prod

from workbench.analysis.products import repeated
from workbench.ir import Value, element_of, layout_of, shape_of
from workbench.layouts import LinearLayout, mma_a, mma_b, mma_c, split_warps
from workbench.ops import (
    Bitcast,
    Broadcast,
    Cast,
    Constant,
    Dot,
    Elementwise,
    Join,
    Load,
    Reshape,
    Select,
    Splat,
    Transpose,
)
from workbench.targets.simt.bits import bits_of
from workbench.targets.simt.fields import Field, field_of, lies_apart
from workbench.targets.simt.rules import Setting

#: What a lane reads at once, in bits, and the neighbours along k that this may make: more, and
#: lanes that read the wider operand meet in the same banks.
_RUN_BITS, _MOST_NEIGHBOURS = 128, 32
#: How far apart along k the halves of a register may lie.
_APART = (2, 4)

Fragments = tuple[LinearLayout, LinearLayout, LinearLayout]


def fragments_of(op: Dot, kw: int, on: Setting) -> Fragments:
    """Return the layouts of a product, of its first and its second operand.

    kw: the elements of k in a register. What was chosen once stays: a product that has a layout
    keeps it, whatever has become of the loads by which it was chosen.
    """
    held, num_warps = layout_of(op.result.type), on.num_warps
    if held is None:
        run = neighbours_of(op, kw)
        if op.factors is not None:  # an instruction's four lanes sum numbers of one run
            run = min(run, op.run // 4)
        turned = run > 0 and isinstance(op.a.op, Load) and not isinstance(op.b.op, Load)
        apart = _apart(op, run, num_warps) if turned else 0
        return _fragments(op, kw, num_warps, run, turned, apart, turned and _lie_beside(op.b, on))
    runs = (0, *(1 << bit for bit in range(2, _MOST_NEIGHBOURS.bit_length())))
    if op.factors is not None:
        runs = tuple(run for run in runs if 4 * run <= op.run)
    k, turned = shape_of(op.a.type)[-1], is_turned(held)
    found = [
        _fragments(op, kw, num_warps, run, turned, apart, beside)
        for run in runs
        if not run or (kw == 2 and k & (k - 1) == 0 and 4 * run <= k and held.rank == 2)
        for apart in (0, *_APART)
        if not apart or (turned and run >= 2 * apart)
        for beside in ((False, True) if turned else (False,))
    ]
    wanted = layout_of(op.a.type), layout_of(op.b.type)
    return next((one for one in found if one[1:] == wanted), found[0])


def factors_layout(op: Dot, product: LinearLayout) -> LinearLayout:
    """Return the layout of a product's factors: a thread has those of the columns of its sums."""
    assert op.factors is not None
    shape = shape_of(op.factors.type)
    columns = {dim: [(n, 0) for _, n in product.bases[dim]] for dim in product.bases}
    runs = [(0, 1 << bit) for bit in range((shape[1] - 1).bit_length())]
    registers = [basis for basis in columns["register"] if basis[0]]
    return LinearLayout({**columns, "register": [*runs, *registers]}, shape, "mma")


def is_turned(product: LinearLayout) -> bool:
    """Say whether fragments of a product are those of its transpose."""
    return bool(product.bases["register"][0][-2])


def _fragments(
    op: Dot, kw: int, num_warps: int, run: int, turned: bool, apart: int = 0,
    beside: bool = False,
) -> Fragments:  # fmt: skip
    shape, a, b = (shape_of(value.type) for value in (op.result, op.a, op.b))
    if not turned:
        split = split_warps(shape, num_warps)
        return mma_c(shape, split), mma_a(a, kw, split, run), mma_b(b, kw, split, run)
    split, back = split_warps(shape[::-1], num_warps), (1, 0)
    product, computed = mma_c(shape[::-1], split), mma_a(b[::-1], kw, split, run, apart)
    if beside:
        product, computed = (_beside(one, shape[-1] // split[0]) for one in (product, computed))
    return (
        product.transpose(back),
        mma_b(a[::-1], kw, split, run, apart).transpose(back),
        computed.transpose(back),
    )


def _beside(layout: LinearLayout, rows: int) -> LinearLayout:
    """Return a layout in which a lane has neighbouring ones of a warp's rows, up to four.

    Which rows of a tile those of instructions stand for is free, if it is so in both. Warps that
    divide fewer rows than an instruction has repeat them: there none are further apart than lanes.
    """
    own = max(0, min(2, (rows - 1).bit_length() - 3))
    place = {8 << bit: 1 << bit for bit in range(own)}
    place |= {1 << bit: 1 << own + bit for bit in range(3)}
    bases = {
        dim: [(place.get(row, row), *others) for row, *others in layout.bases[dim]]
        for dim in layout.bases
    }
    return LinearLayout(bases, layout.shape, layout.kind)


def _apart(op: Dot, run: int, num_warps: int) -> int:
    """Return how far apart the halves of a register should lie along k; 0: side by side.

    Side by side, fields of bytes take a permute for each word of the computed operand; apart, a
    shift for each second one, and two permutes for the words that an instruction reads of the
    other operand. Those put together four at once take a permute less for two words where a word
    has the fields of neighbouring bytes.
    """
    columns, rows = shape_of(op.result.type)[::-1]
    across, along = split_warps((columns, rows), num_warps)[:2]
    computed, read = -(-columns // (16 * across)), -(-rows // (8 * along))
    bits = _field_bits(op.b)
    found, pays = 16 // bits if bits else 0, 3 * computed > 2 * read
    if not bits and (bits := _field_bits(op.b, by_bytes=True)):
        found, pays = 8 // bits, computed > read
    return found if pays and found in _APART and run >= 2 * found else 0


def _field_bits(value: Value, *, by_bytes: bool = False) -> int:
    """Return the bits of the fields of which a tile is made in pairs; 0 if of none.

    `by_bytes`: of those that are put together four at once, of which a join has two in a byte.
    """
    made = value.op
    if isinstance(made, Join):
        found = {_field_width(v, by_bytes=by_bytes) for v in made.operands}
        return found.pop() if len(found) == 1 else 0
    if not by_bytes and (field := _field_of(value)) is not None and field.shifts:
        width = _field_width(value)
        return width if width and lies_apart(field, 0, 16 // width) else 0
    if made is None or isinstance(made, Load):
        return 0
    others = (v for v in made.operands if not _is_small(v))
    return max((_field_bits(v, by_bytes=by_bytes) for v in others), default=0)


def _field_of(value: Value) -> Field | None:
    """Return the field that a float is made of by itself, or one of those that are its bits."""
    made = value.op
    if isinstance(made, Cast):
        return field_of(made.source)
    bits = bits_of(made.source) if isinstance(made, Bitcast) else None
    return None if bits is None else bits.fields[0]


def _field_width(value: Value, *, by_bytes: bool = False) -> int:
    """Return over how many bits the fields lie that a float is made of by itself; 0: of none.

    `by_bytes`: which floats are asked for, those that are put together four at once or others.
    """
    made = value.op
    if isinstance(made, Bitcast) and (bits := bits_of(made.source)) is not None:
        return bits.ends[1] - bits.ends[0] if bits.by_bytes == by_bytes else 0
    field = None if by_bytes else _field_of(value)
    return 0 if field is None else field.width


def neighbours_of(op: Dot, kw: int) -> int:
    """Return how many neighbours along k a lane should have; 0: what one register holds.

    An operand that is made of narrower numbers in memory is read from shared memory as they lie
    there: 8 bytes of them at least, where fragments would have it read single pairs. The other
    one has to come from memory too: what is computed lies as the instructions leave it.
    """
    k = shape_of(op.a.type)[-1]
    if kw != 2 or k & (k - 1) or len(shape_of(op.a.type)) != 2:
        return 0
    found = [_memory_bits(value, axis) for value, axis in ((op.a, 1), (op.b, 0))]
    if None in found:
        return 0
    narrowest = min(bits for bits in found if bits is not None)
    # Of words that memory has side by side along the other axis each is read by itself.
    words = max(_together(value, axis) for value, axis in ((op.a, 1), (op.b, 0)))
    run = min(words or int(_RUN_BITS / narrowest), k // 4, _MOST_NEIGHBOURS)
    return run if narrowest < 16 and run > kw else 0


def _memory_bits(value: Value, axis: int) -> float | None:
    """Return the bits in memory of an element along an axis; None if it is not memory's.

    Tiles that are repeated (scales) or of one element along the axis count for nothing.
    """
    made, extent = value.op, shape_of(value.type)[axis]
    if isinstance(made, Load):
        return element_of(value.type).bits
    if words := _together(value, axis, deep=False):
        return 32 / words
    if isinstance(made, Elementwise | Select | Cast | Bitcast):
        found = [_memory_bits(v, axis) for v in made.operands if not _is_small(v)]
        known = [bits for bits in found if bits is not None]
        return min(known) if known and len(known) == len(found) else None
    if isinstance(made, Transpose):
        return _memory_bits(made.source, made.order[axis])
    if isinstance(made, Join):
        if axis == len(shape_of(value.type)) - 1:
            return None
        found = [_memory_bits(v, axis) for v in made.operands]
        return None if found[0] is None or found[0] != found[1] else found[0] / 2
    if isinstance(made, Reshape):
        before = shape_of(made.source.type)
        inside = [
            i for i, e in enumerate(before)
            if e > 2 and extent % e == 0 and prod(before[:i]) == prod(shape_of(value.type)[:axis])
        ]  # fmt: skip
        return _memory_bits(made.source, inside[0]) if len(inside) == 1 else None
    return None


def _together(value: Value, axis: int, *, deep: bool = True) -> int:
    """Return how many neighbours along an axis are fields of one word; 0: they are none."""
    words = _words_of(value, axis, deep=deep)
    if words is None:
        return 0
    once, along = words
    return shape_of(value.type)[axis] // shape_of(once.type)[along]


def _lie_beside(value: Value, on: Setting) -> bool:
    """Say whether memory has the words of an operand's neighbouring columns side by side."""
    words = _words_of(value, 0)
    if words is None or not isinstance(words[0].op, Load) or len(shape_of(words[0].type)) != 2:
        return False
    load = words[0].op
    return on.facts.stride(load.pointers, 1 - words[1], load.mask) == 1


def _words_of(value: Value, axis: int, *, deep: bool = True) -> tuple[Value, int] | None:
    """Return the tile of words of which neighbours along an axis are fields, and its axis.

    `deep`: what a value is computed of element by element may be fields, too.
    """
    made = value.op
    field = _field_of(value)
    if field is not None and field.shifts is not None and isinstance(field.root.op, Reshape):
        once = repeated(field.root.op, axis)
        return None if once is None else (once, axis)
    if deep and isinstance(made, Transpose):
        return _words_of(made.source, made.order[axis])
    if deep and isinstance(made, Elementwise | Select | Cast | Bitcast):
        found = (_words_of(v, axis) for v in made.operands if not _is_small(v))
        return next((words for words in found if words is not None), None)
    return None


def _is_small(value: Value) -> bool:
    """Say whether a value is a constant, a tile that is repeated, or one scalar for all."""
    made = value.op
    if isinstance(made, Reshape):  # each element several times in a row
        made = made.source.op
    return not shape_of(value.type) or isinstance(made, Constant | Broadcast | Splat)
