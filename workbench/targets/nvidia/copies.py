"""What shared memory has beside stores and loads: loads of matrices, asynchronous copies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

from workbench.ir import I1, Scalar, Shared, element_of, layout_of
from workbench.layouts import (
    BYTE_PAIRS,
    LinearLayout,
    MatrixInstruction,
    MatrixPlan,
    apart_fits,
    byte_pairs_fit,
    ldmatrix_fits,
    swizzled,
)
from workbench.ops import Load, Store, pointee_of
from workbench.passes.rules import constant_of
from workbench.targets.llvm.emit import Emitter
from workbench.targets.nvidia.instructions import address_of
from workbench.targets.nvidia.ops import AsyncCopy, CommitCopies, WaitCopies
from workbench.targets.nvidia.table import NVIDIA
from workbench.targets.simt.copying import Ahead, Raised, Sent
from workbench.targets.simt.lowering import Lowering
from workbench.targets.simt.memory import plan_access
from workbench.targets.simt.ops import SharedLoad
from workbench.targets.simt.passes.costs import vector_width
from workbench.targets.simt.rules import SAME, Layouts, Setting, as_they_are
from workbench.targets.simt.shared import (
    Addresses,
    addresses_of,
    buffer_layout,
    packing_of,
    slot_base,
)
from workbench.targets.simt.shared import lower_load as load_vectors

#: What a copy may ask of the L2 at most, in bytes.
_PREFETCHED = 256
_FOR_LATER_ROUNDS = (
    "the copy asks the L2 for the 256 bytes around, which later rounds read (prefetch_l2=False: "
    "it does not)"
)

NVIDIA.layouts(CommitCopies, WaitCopies)(as_they_are)


@NVIDIA.layouts(AsyncCopy)
def copy_layouts(op: AsyncCopy, on: Setting) -> Layouts:
    """The mask is read beside the pointers."""
    along = tuple(SAME if operand is op.mask else None for operand in op.operands)
    return Layouts(work=op.pointers, operands=along)


@NVIDIA.ahead(Load)
def copy_of_load(op: Load, on: Setting) -> Ahead | None:
    """cp.async moves 4, 8 or 16 bytes that lie side by side, into the order that memory has."""
    layout, element = layout_of(op.result.type), element_of(op.result.type)
    if layout is None or not isinstance(element, Scalar):
        return None
    shape = layout.shape
    width, along = vector_width(
        on.facts, op.pointers, op.mask, layout, element.itemsize, on.chip.widest_bytes
    )
    # What one copy moves lies side by side there too; else what a thread has.
    axes = range(len(shape))
    order = tuple(sorted(axes, key=lambda d: (d != along, -layout.side_by_side("register", d))))
    ways = ((False, False), (True, False), (False, True))
    orders = [
        swizzled(shape, element.itemsize, order, turned=turned, spread=spread)
        for turned, spread in ways
    ]
    buffer, *others = [Shared(shape, element, swizzle) for swizzle in dict.fromkeys(orders)]
    wanted = on.options.get("prefetch_l2")
    if wanted is None:  # rows as long as that are asked for by themselves
        short = along is None or shape[along] * element.itemsize < _PREFETCHED
        wanted = short and on.options.get("prefetch_short_rows", False)
    prefetch = _PREFETCHED if wanted else 0
    # PTX ISA 9.0, cp.async: .ca or .cg by its width, an eviction policy by a number. What lies
    # around a vector of 16 bytes is for later rounds, and has its policy: it is not to leave first.
    around = prefetch > 0 and width * element.itemsize >= on.chip.widest_bytes
    stays = op.eviction == "evict_first" and around
    obeys = on.options.get("l2_policies", True)
    kept = op.eviction if obeys and not stays else ""
    asked = {"cache_modifier": "" if op.cache in ("ca", "cg") else op.cache,
             "eviction_policy": "" if kept else op.eviction}  # fmt: skip
    return Ahead(
        buffer=buffer,
        others=tuple(others),
        copy=lambda pointers, mask, buffer, slot: AsyncCopy(
            pointers, buffer, slot, mask, cache=op.cache, eviction=kept, prefetch=prefetch
        ),
        obstacle=_obstacle(op, on, layout, element),
        unheard={name: word for name, word in asked.items() if word},
        why_unheard={"eviction_policy": _FOR_LATER_ROUNDS} if stays and obeys else {},
    )


@NVIDIA.raised(Load)
def box_for_load(op: Load) -> Raised | None:
    """PTX ISA 9.0, cp.async.bulk.tensor: it goes past L1, an eviction policy is not written."""
    element = element_of(op.result.type)
    if not isinstance(element, Scalar) or element == I1:
        return None
    asked = {"cache_modifier": "" if op.cache == "cg" else op.cache,
             "eviction_policy": op.eviction}  # fmt: skip
    return Raised(
        pointers=op.pointers,
        mask=op.mask,
        other=op.other,
        element=element,
        obstacle="the load asks for memory past the caches" if op.cache == "cv" else "",
        unheard={name: word for name, word in asked.items() if word},
    )


@NVIDIA.sent(Store)
def boxes_of_store(op: Store) -> Sent | None:
    """PTX ISA 9.0, cp.async.bulk.tensor: hints go by descriptors, which are not written."""
    if not isinstance(element_of(op.value.type), Scalar):
        return None
    asked = {"cache_modifier": op.cache, "eviction_policy": op.eviction}
    return Sent(
        pointers=op.pointers,
        mask=op.mask,
        tile=op.value,
        obstacle="the store asks for a way past the caches" if op.cache in ("wt", "cs") else "",
        unheard={name: word for name, word in asked.items() if word},
    )


def _obstacle(op: Load, on: Setting, layout: LinearLayout, element: Scalar) -> str:
    if op.other is not None and constant_of(op.other) != 0:
        return "masked-off elements are not zero"
    if element == I1:
        return "i1 is not staged"
    width, _ = vector_width(
        on.facts, op.pointers, op.mask, layout, element.itemsize, on.chip.widest_bytes
    )
    if width * element.itemsize < 4:
        return (
            f"only {width * element.itemsize} bytes lie side by side and aligned, "
            "cp.async moves 4, 8 or 16; alignment of the strides and bounds is not known"
        )
    return ""


@NVIDIA.lower(SharedLoad)
def lower_load(low: Lowering, op: SharedLoad) -> None:
    """Read matrices where the layouts are those of fragments, else vectors."""
    layout, shared = low.layout(op.result), buffer_layout(op.buffer)
    itemsize = op.type.element.itemsize
    if itemsize == 1 and (plan := byte_pairs_fit(shared, layout)) is not None:
        _load_byte_pairs(low, op, plan, slot_base(low, op.buffer, op.slot))
        return
    if itemsize <= 4:
        base = slot_base(low, op.buffer, op.slot)
        for transposed in (False, True):
            plan = ldmatrix_fits(shared, layout, itemsize, transposed)
            if plan is not None:
                _load_matrices(low, op, plan, base)
                return
        if (found := apart_fits(shared, layout, itemsize)) is not None:
            _load_apart(low, op, *found, base)
            return
    load_vectors(low, op)


def _load_apart(
    low: Lowering, op: SharedLoad, plan: MatrixPlan, order: Sequence[int], base: str
) -> None:
    """As `_load_matrices`, where elements of a word are registers that are no neighbours."""
    type, each = low.pack_of(op.result)

    def own(register: int) -> int:
        return sum((register >> bit & 1) << place for bit, place in enumerate(order))

    live, count = set(low.live(op.result)), low.layout(op.result).registers()
    first_ones = {
        first // each for first in range(0, count, each)
        if any(own(first + i) in live for i in range(each))
    }  # fmt: skip
    registers: list[str | None] = [None] * count
    for step, found in _matrices(low, op, plan, base, first_ones):
        for first, word in zip(step.registers, found, strict=True):
            for i, operand in enumerate(low.packing.unpack(word, type)):
                registers[own(first + i)] = operand
    low.set_registers(op.result, registers)


def _load_matrices(low: Lowering, op: SharedLoad, plan: MatrixPlan, base: str) -> None:
    """PTX ISA 9.0, ldmatrix (sm_75): one, two or four 8x8 matrices of 16-bit elements."""
    _, each = low.pack_of(op.result)
    words: list[str] = ["0"] * (low.layout(op.result).registers() // each)
    for step, found in _matrices(low, op, plan, base):
        for first, word in zip(step.registers, found, strict=True):
            words[first // each] = word
    low.set_words(op.result, words)


def _load_byte_pairs(low: Lowering, op: SharedLoad, plan: MatrixPlan, base: str) -> None:
    """PTX ISA 9.0, ldmatrix, prmt: of two matrices two words (`byte_pairs_fit`)."""
    emit = low.emit
    words: list[str] = ["0"] * (low.layout(op.result).registers() // 4)
    bit = emit.bitwise("and", "i32", low.lane, "2")
    late = emit.pure(f"icmp ne i32 {bit}, 0")
    even, odd = (
        emit.pure(f"select i1 {late}, i32 {turned}, i32 {plain}") for plain, turned in BYTE_PAIRS
    )
    name = "llvm.nvvm.prmt"
    emit.declare(name, f"declare i32 @{name}(i32, i32, i32) nounwind memory(none)")
    for step, found in _matrices(low, op, plan, base):
        for pair in range(0, len(found), 2):
            first, second = found[pair : pair + 2]
            for word, chosen in zip(step.registers[pair : pair + 2], (even, odd), strict=True):
                text = f"call i32 @{name}(i32 {first}, i32 {second}, i32 {chosen})"
                words[word // 4] = emit.pure(text)
    low.set_words(op.result, words)


def _matrices(
    low: Lowering, op: SharedLoad, plan: MatrixPlan, base: str, words: Set[int] = frozenset()
) -> Iterator[tuple[MatrixInstruction, list[str]]]:
    """Load the matrices of a plan that have live registers; yield what each instruction gives.

    words: the live ones, where the plan's registers are not those of the tile.
    """
    emit = low.emit
    addresses = Addresses(low, base, plan.lane, plan.warp, packing_of(op.buffer))
    _, each = low.pack_of(op.result)
    transposed = ".trans" if plan.trans else ""
    live = words or {r // each for r in low.live(op.result)}
    loaded: dict[int, list[str]] = {}  # by place: what is repeated in a thread is read once
    for step in plan.instructions:
        if live.isdisjoint(first // each for first in step.registers):
            continue
        if step.offset in loaded:
            yield step, loaded[step.offset]
            continue
        address = addresses(step.offset)
        count = plan.count
        result = f"{{{', '.join(['i32'] * count)}}}" if count > 1 else "i32"
        targets = ", ".join(f"${i}" for i in range(count))
        text = (
            f"ldmatrix.sync.aligned.m8n8.x{count}{transposed}.shared.b16 {{{targets}}}, [${count}];"
        )
        constraints = ",".join(["=r"] * count + ["r"])
        place = emit.pure(f"ptrtoint ptr addrspace(3) {address} to i32")
        call = emit.effect(f'call {result} asm sideeffect "{text}", "{constraints}"(i32 {place})')
        found = loaded[step.offset] = [call]
        if count > 1:
            found[:] = [emit.effect(f"extractvalue {result} {call}, {i}") for i in range(count)]
        yield step, found


def _policy(emit: Emitter, eviction: str) -> str:
    """Return what tells the L2 how long it keeps what is copied, "" if nobody asks for it.

    It is a number of 64 bits that copies take; PTX ISA 9.0, createpolicy (sm_80). Each has its own:
    one for all ptxas may keep in registers of the threads, and bring back for each copy (R2UR).
    """
    if eviction not in ("evict_first", "evict_last"):
        return ""
    text = f"createpolicy.fractional.L2::{eviction}.b64 $0;"
    return emit.effect(f'call i64 asm sideeffect "{text}", "=l"()')


def _sum_of_its_own(emit: Emitter, address: str) -> str:
    """Return an address of shared memory as a number that ptxas does not see to be a sum.

    Where it is a register and a uniform one, LDGSTS adds them, and names a pair of uniform ones:
    what is added, and the upper half of the policy. ptxas before 13.4.59 (12.9.86 to 13.3.33 do)
    leaves 0 for the pair's number, so that the copy reads what nobody has written: an illegal
    instruction on an H100. One policy a copy changes nothing. No such address is negative.
    """
    number = emit.pure(f"ptrtoint ptr addrspace(3) {address} to i32")
    return emit.pure(f'call i32 asm "max.s32 $0, $1, 0;", "=r,r"(i32 {number})')


@NVIDIA.lower(AsyncCopy)
def lower_async_copy(low: Lowering, op: AsyncCopy) -> None:
    """PTX ISA 9.0, cp.async (sm_80): 4, 8 or 16 bytes; a source that is ignored writes zeros.

    What does not exist has no bytes of its own, so nothing is written there. Of several threads
    that hold a pointer one copies: rows that all warps read are brought once.
    """
    emit = low.emit
    element = pointee_of(op.pointers.type)
    itemsize = element.itemsize
    shared, layout = buffer_layout(op.buffer), low.layout(op.pointers)
    places = shared.offsets(layout)
    addresses = addresses_of(low, slot_base(low, op.buffer, op.slot), places, op.buffer)
    table = places.table("register")
    access = plan_access(low, op.pointers, op.mask, itemsize)
    owner = low.owner(layout)
    for group in access.groups:
        exists = low.inside(layout, group[0])
        if exists == "false":
            continue
        first = table[group[0]]
        if any(table[register] != first + n for n, register in enumerate(group)):
            raise AssertionError(f"{op!r} copies to what does not lie side by side")
        runs = low.and_all([exists, owner])
        source, beside = address_of(emit, low.place(op.pointers, group[0]))
        condition = None if op.mask is None else low.register(op.mask, group[0])
        condition = low.and_all([condition])
        policy = _policy(emit, op.eviction)
        if policy:
            address, further = addresses.parts(first * itemsize)
            place = emit.add("i32", _sum_of_its_own(emit, address), further)
        else:
            address = addresses(first * itemsize)
            place = emit.pure(f"ptrtoint ptr addrspace(3) {address} to i32")
        bytes_ = itemsize * len(group)
        cache = "cg" if bytes_ == 16 and op.cache != "ca" else "ca"
        near = f".L2::{op.prefetch}B" if op.prefetch and bytes_ == low.chip.widest_bytes else ""
        hint = ".L2::cache_hint" if policy else ""
        text = f"cp.async.{cache}.shared.global{hint}{near} [$0], [$1{beside}], {bytes_}"
        arguments, constraints = [f"i32 {place}", f"ptr addrspace(1) {source}"], ["r", "l"]
        if condition is not None:
            ignored = emit.pure(f"xor i1 {condition}, true")
            text += ", $2"
            arguments.append(f"i1 {ignored}")
            constraints.append("b")
        if policy:
            text += f", ${len(arguments)}"
            arguments.append(f"i64 {policy}")
            constraints.append("l")
        if runs is not None:
            text = f"@${len(arguments)} {text}"
            arguments.append(f"i1 {runs}")
            constraints.append("b")
        emit.do(
            f'call void asm sideeffect "{text};", "{",".join(constraints)}"({", ".join(arguments)})'
        )


@NVIDIA.lower(CommitCopies)
def lower_commit(low: Lowering, op: CommitCopies) -> None:
    low.emit.do('call void asm sideeffect "cp.async.commit_group;", ""()')


@NVIDIA.lower(WaitCopies)
def lower_wait(low: Lowering, op: WaitCopies) -> None:
    low.emit.do(f'call void asm sideeffect "cp.async.wait_group {op.pending};", ""()')
