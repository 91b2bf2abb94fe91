"""How a dot becomes a product by warpgroups: which operand is the instruction's first, and layouts.

Only the first operand may be in registers. The second operand of a dot is that where it is
computed of what memory holds, as weights are that become floats: what is multiplied then is
C.T = B.T @ A.T (`computed_first=False` is the twin). Nobody stores it, fences, and meets the others
for it. A product is turned if the layout of its sums is (`WarpgroupDot.is_turned`).

First is also the operand that memory has with k as rows, where the instruction takes none such from
shared memory (tf32, 8 bits): threads read their fragments from where a copy has put it
(`loaded_first=False` is the twin). They multiply its rows in the order in which those are read
without bank conflicts (`layouts/between.py`, `row_order`), and have the sums in that order.

With `swap_operands` products of few rows are turned, too: of an instruction's 64 most would be
copies, while it may have few columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import prod

from workbench.ir import F32, Builder, Module, Value, element_of, layout_of, shape_of
from workbench.layouts import LinearLayout, byte_pairs_fit, swizzled, wgmma_a, wgmma_d
from workbench.layouts.between import from_memory, row_order
from workbench.ops import ConvertLayout, Dot
from workbench.targets.nvidia.chip import Chip, chip_of
from workbench.targets.nvidia.ops import WarpgroupDot
from workbench.targets.nvidia.warpgroups import (
    MOST_COLUMNS,
    ROWS,
    Shares,
    long_after,
    obstacle_of_shape,
    obstacle_of_type,
    shares_of,
    sums_of,
    unit_of,
)
from workbench.targets.simt.dots import ACCUMULATOR_FIRST
from workbench.targets.simt.passes.costs import run_along
from workbench.targets.simt.rules import SAME, Along, Layouts, Setting

#: Registers of a thread that are not for sums where a producer has some of them.
_BESIDE_A_PRODUCER = 48
#: A product is turned to multiply no more than so much of what it would.
_FAR_LESS = 0.8
#: Sums times bytes along k of a product that takes as long as memory to answer (1,000 cycles).
_LONG = 128 * 256 * 128
#: The fewest bytes side by side of which there are copies to shared memory.
_COPIED_BYTES = 4


def warpgroup_layouts(op: Dot, on: Setting) -> Layouts | None:
    """Return the layouts of a dot that wgmma computes; None if another instruction has to."""
    unit, chip = unit_of(op), chip_of(on.chip)
    if unit is None or not chip.has_warpgroups or obstacle_of_type(op, on.options):
        return None
    turned = is_to_be_turned(op, on)
    if not turned and obstacle_of_shape(shape_of(op.result.type), chip, on.options):
        return None
    loaded = is_first_as_loaded(op, on)
    fragments = _fragments(op, on, turned=turned, loaded=loaded)
    # What is loaded takes no fragment's layout: it is to be copied as memory has it.
    held = None if loaded else Along(fragments.get, None)
    if turned:
        read = _is_read(op.b, on) and not loaded
        operands = (_turning(op, op.a, on), _turning(op, op.b, on) if read else held, SAME)
    else:
        read = _is_read(op.a, on) and not loaded
        operands = (_turning(op, op.a, on) if read else held, _turning(op, op.b, on), SAME)
    return Layouts(
        work=op.result,
        operands=operands,
        order=ACCUMULATOR_FIRST,
        offers=lambda: fragments,
        fixed=True,
        far=turned and not loaded,
        becomes=partial(_becomes, op, on, fragments if loaded else {}),
    )


def _fragments(
    op: Dot, on: Setting, *, turned: bool, loaded: bool
) -> dict[LinearLayout, LinearLayout]:
    """Return layouts of the sums, and those of the first operand for them.

    `loaded`: their rows are in the order in which threads read what a copy has put down.
    """
    unit, shape = unit_of(op), shape_of(op.result.type)
    assert unit is not None
    first, warps = shape_of(op.a.type), on.num_warps
    if turned:
        shape, first = shape[::-1], shape_of(op.b.type)[::-1]
    shares = _shares(op, on, turned=turned)
    rows: tuple[int, ...] = ()
    if loaded:
        buffer, size = _as_it_lies(op, turned=turned), element_of(op.a.type).itemsize
        groups = warps // 4 // shares.across
        rows = row_order(buffer, size, unit.kw, int(not turned), groups, on.chip.banks)
    d = wgmma_d(shape, warps, shares.across, rows, shares.in_turns)
    a = wgmma_a(first, unit.kw, warps, shares.across, rows)
    return {d.transpose((1, 0)): a.transpose((1, 0))} if turned else {d: a}


def _shares(op: Dot, on: Setting, *, turned: bool) -> Shares:
    """Return how warpgroups divide the columns of a dot.

    In turns only what the instruction reads with k inside: of columns side by side it takes 64.
    """
    unit, second = unit_of(op), op.a if turned else op.b
    assert unit is not None
    inside = not unit.turns or _order_in_memory(second, on)[0] == int(turned)
    shape = shape_of(op.result.type)
    in_turns = inside and unit.accumulator.is_float
    return shares_of(shape[::-1] if turned else shape, on.num_warps, in_turns=in_turns)


def _as_it_lies(op: Dot, *, turned: bool) -> LinearLayout:
    """Return the layout of a buffer to which copies bring the first operand with k as rows."""
    first, k_axis = (op.b, 0) if turned else (op.a, 1)
    size = element_of(first.type).itemsize
    return swizzled(shape_of(first.type), size, (1 - k_axis, k_axis), exchange=False)


def _turning(op: Dot, operand: Value, on: Setting) -> Along | None:
    """Return the layout of a tile that is turned on its way from a load to shared memory.

    That is one that memory has with k as rows where wgmma takes no such operand, and one that it
    takes both ways and no copy brings: element by element it is loaded along one axis, and stored
    in vectors along the other.
    """
    unit, is_a = unit_of(op), operand is op.a
    inner, width = _order_in_memory(operand, on)
    shape, itemsize = shape_of(operand.type), element_of(operand.type).itemsize
    copied, asked = width * itemsize >= _COPIED_BYTES, on.options.get("through_registers")
    if asked is None:  # as `goes_through_registers` has it
        asked = on.chip.loads_ahead and not copied
    if unit is None or inner is None or not asked:
        return None
    if copied if unit.turns else inner == int(is_a):
        return None
    target = swizzled(shape, itemsize, (1 - inner, inner), exchange=False)
    found = from_memory(target, inner, width, itemsize, on.lanes, on.num_warps, on.chip.banks)
    return None if found is None else Along(lambda layout: found, None)


def _order_in_memory(value: Value, on: Setting) -> tuple[int | None, int]:
    """Return the axis along which a tile lies side by side in memory, and how much in one access.

    None for one that no load gives, or only moved otherwise than by exchanging two axes.
    """
    turned = False
    while value.op is not None and value.op.exchanges_axes:
        value, turned = value.op.operands[0], not turned
    access = None if value.op is None else on.chip.rules.access_of(value.op)
    if access is None or len(shape_of(value.type)) != 2:
        return None, 1
    pointers, mask = access.pointers, access.mask
    steps = [on.facts.usual_stride(pointers, axis, mask) for axis in range(2)]
    if steps.count(1) != 1:
        return None, 1
    axis = steps.index(1)
    most = on.chip.widest_bytes // element_of(value.type).itemsize
    return axis ^ turned, run_along(on.facts, pointers, mask, axis, most)


def _is_read(value: Value, on: Setting) -> bool:
    """Say whether a tile is memory's, its elements perhaps moved: it goes to shared memory as is.

    What is computed stays in registers.
    """
    found = _moved(value).op
    return found is not None and on.chip.rules.access_of(found) is not None


def _moved(value: Value) -> Value:
    """Return the tile whose elements a value has, perhaps in other places."""
    while value.op is not None and value.op.moves:
        value = value.op.operands[0]
    return value


def is_to_be_turned(op: Dot, on: Setting) -> bool:
    """Say whether the second operand of a dot is to be the first of the instruction.

    The other one is memory's, which goes to shared memory by a copy. A loop adds to the sums: what
    lies turned is turned back once, behind it. What is computed, or to be read as it is loaded, is
    turned unasked if there are rows enough, and where there are few, what memory has, too, if the
    author asks (`swap_operands`).
    """
    if op.imprecise_limit or not _is_read(op.a, on):
        return False
    if op.accumulator.op is not None:  # sums that a loop does not go on with are read as they lie
        return False
    users = [user for user in on.module.walk() if op.result in user.operands]
    if not all(user.ends_block or user.pointwise for user in users):
        return False
    shape = shape_of(op.result.type)
    if obstacle_of_shape(shape[::-1], chip_of(on.chip), on.options):
        return False
    few = shape[0] <= ROWS // 2
    if few and not on.options.get("swap_operands", False):
        return False
    if not _is_read(op.b, on):
        return on.options.get("computed_first", True) and _is_made_of_memory(op.b, on)
    loaded = _is_held_as_loaded(op, op.b, on)
    if loaded and _is_held_as_loaded(op, op.a, on):  # threads turn the other one, the smaller
        loaded = prod(shape_of(op.b.type)) > prod(shape_of(op.a.type))
    return few or loaded or _multiplies_less_turned(op, on)


def _multiplies_less_turned(op: Dot, on: Setting) -> bool:
    """Say whether far less lies beside the tile if its columns are the instruction's rows.

    Of 176 by 192 with k inside A alone two groups of warps take the columns by 64, the rows in
    turns: 33,792 sums instead of 49,152.
    """
    unit, shape = unit_of(op), shape_of(op.result.type)
    if unit is None or not unit.turns or on.num_warps % 4:
        return False
    plain = _shares(op, on, turned=False).padded(shape, on.num_warps)
    turned = _shares(op, on, turned=True).padded(shape[::-1], on.num_warps)
    return prod(turned) <= _FAR_LESS * prod(plain)


def is_first_as_loaded(op: Dot, on: Setting) -> bool:
    """Say whether the first operand is one that the instruction cannot read where copies put it."""
    first = op.b if is_to_be_turned(op, on) else op.a
    return _is_held_as_loaded(op, first, on)


def options_for_turned(module: Module, chip: Chip) -> dict[str, bool]:
    """Return the options that products choose of whose operands threads turn one, read the other.

    Of tf32 and bytes where memory has both with k as rows (tn): with `through_registers` the block
    meets once a round, and the other operand comes by boxes (an H100, 128 x 256 and 256 x 128 by
    128 bytes of eight warps: tf32 at 4096 1.15, int8 1.25). Products have to be longer than memory
    takes to answer (tf32 of 128 x 128 by 32: 0.82).
    """
    on = Setting(module, chip)
    for op in module.walk():
        if not isinstance(op, Dot) or warpgroup_layouts(op, on) is None:
            continue
        bytes_ = shape_of(op.a.type)[-1] * element_of(op.a.type).itemsize
        if prod(shape_of(op.result.type)) * bytes_ < _LONG or not is_first_as_loaded(op, on):
            continue
        if all(_lies_across(op, operand, on) for operand in (op.a, op.b)):
            return {"through_registers": True}
    return {}


def _lies_across(op: Dot, operand: Value, on: Setting) -> bool:
    """Say whether memory has an operand with k as rows, and the instruction takes none such."""
    unit = unit_of(op)
    if unit is None or unit.turns:
        return False
    return _order_in_memory(operand, on)[0] == int(operand is not op.a)


def _is_held_as_loaded(op: Dot, operand: Value, on: Setting) -> bool:
    """Say whether threads are to read fragments of an operand from where a copy puts it.

    A register of those is one element, or several along k that matrices bring at once: else each
    would be read by itself, and put together. They are read in the round of a loop that loads them,
    half of them while the other half is multiplied.
    """
    unit, inner = unit_of(op), shape_of(op.a.type)[-1]
    if not on.options.get("loaded_first", True) or unit is None or op.imprecise_limit:
        return False
    if inner % (2 * unit.k):
        return False
    if not _lies_across(op, operand, on) or op.accumulator.op is not None:
        return False
    turned, shape = operand is not op.a, shape_of(op.result.type)
    if obstacle_of_shape(shape[::-1] if turned else shape, chip_of(on.chip), on.options):
        return False
    if unit.kw != 1:
        buffer = _as_it_lies(op, turned=turned)
        fragments = _fragments(op, on, turned=turned, loaded=True).values()
        if not all(byte_pairs_fit(buffer, fragment) for fragment in fragments):
            return False
    load = _moved(operand).op
    blocks = (region for loop in on.module.walk() for region in loop.regions if loop.repeats)
    return any(
        any(one is op for one in block.ops) and any(one is load for one in block.ops)
        for block in blocks
    )


def _is_made_of_memory(value: Value, on: Setting) -> bool:
    """Say whether a tile is made element by element of loads, one at least.

    Those can be read in the layout of fragments; results of other ops lie as they leave them.
    """
    loads, seen, work = 0, set[Value](), [value]
    while work:
        op = work.pop().op
        if op is None:
            return False
        if on.chip.rules.access_of(op) is not None:
            loads += 1
        elif op.moves or op.pointwise or op.pairs:
            tiles = [v for v in op.operands if v.type.takes_layout and v not in seen]
            seen.update(tiles)
            work += tiles
        elif op.operands:
            return False
    return loads > 0


def _becomes(
    op: Dot, on: Setting, fragments: Mapping[LinearLayout, LinearLayout], builder: Builder,
    operands: Sequence[Value],
) -> tuple[Value, ...]:  # fmt: skip
    """`fragments`: of the first operand by the layout of the sums, if it is to be read in such."""
    a, b, start = operands
    layout = layout_of(start.type)
    assert layout is not None
    unit, product = unit_of(op), WarpgroupDot(a, b, start)
    if layout in fragments:
        held = builder.add(ConvertLayout(product.first, fragments[layout]), product.first.hint)
        product = WarpgroupDot(*((a, held) if product.is_turned else (held, b)), start)
    if op.imprecise_limit and unit is not None and unit.accumulator == F32:
        # The sums of the instruction are short ones (for 8-bit floats): each goes to a long one.
        after, columns = long_after(op, unit), _columns_of_piece(op, on)
        product = WarpgroupDot(a, b, start, long_after=after, columns=columns)
    return (builder.add(product, op.result.hint),)


def _columns_of_piece(op: Dot, on: Setting) -> int:
    """Return of how many columns of 64 rows short sums are added to the long ones at a time.

    Their registers must be there beside those of the long sums. Beside a producer a thread has
    fewer, and two groups of warps take turns there.
    """
    shape, warps = shape_of(op.result.type), on.num_warps
    own = _shares(op, on, turned=False).own(shape[1])
    have = min(chip_of(on.chip).most_registers(warps), on.options.get("maxnreg") or MOST_COLUMNS)
    spare = (have - _BESIDE_A_PRODUCER - sums_of(shape, warps)) * 2
    pieces = -(-own // max(8, min(own, MOST_COLUMNS, spare // 8 * 8)))
    return -(-own // pieces // 8) * 8


__all__ = ["is_first_as_loaded", "is_to_be_turned", "options_for_turned", "warpgroup_layouts"]
