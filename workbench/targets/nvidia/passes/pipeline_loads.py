"""Software pipelining: loads that feed dots start several rounds ahead, into a ring of buffers.

For a loop of T rounds and S stages the ring has S slots. Before the loop the copies of rounds
0 … S-2 are started; round i waits for its own copy, meets all threads at one barrier (so slot
i-1 is free as well), starts the copy of round i+S-1 into the slot that round i-1 used, and works
on slot i. Addresses of a later round come from running the loop's address arithmetic ahead: the
carried values it needs are carried a second time, S-1 rounds further on. Tables that an address is
read from are read ahead with it, in rounds that the loop reaches and in no others.

Only what nobody can tell may happen early: memory that the loop may write is not read ahead, nor is
memory that other programs may write over anything that puts accesses into an order.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from workbench.analysis.affine import Affine
from workbench.analysis.memory import Memory
from workbench.ir import (
    I1,
    Block,
    Builder,
    Effect,
    Module,
    Op,
    Scalar,
    Shared,
    Tile,
    Value,
    copy_op,
    element_of,
    layout_of,
    rebuild,
    shape_of,
)
from workbench.layouts import LinearLayout, swizzled
from workbench.ops import (
    Constant,
    ConvertLayout,
    Dot,
    Elementwise,
    For,
    Load,
    Select,
    Splat,
    Transpose,
    pointee_of,
)
from workbench.passes.manager import Remarks
from workbench.passes.rules import constant_of
from workbench.targets.nvidia.ops import AsyncCopy, CommitCopies, WaitCopies
from workbench.targets.nvidia.widths import vector_width
from workbench.targets.simt.ops import BlockBarrier, SharedAllocate, SharedLoad


@dataclass(frozen=True, slots=True)
class _Staged:
    """A load, the conversions to operand layouts that read it, and whether anything else does."""

    load: Load
    users: tuple[Op, ...]
    has_others: bool


def pipeline_loads(module: Module, remarks: Remarks, shared_limit: int) -> Module:
    """Turn loads that feed dots in a loop into asynchronous copies, started rounds ahead.

    Needs: layouts. Keeps: every value (memory that the loop stores to is not loaded ahead).
    """
    stages = module.attributes["num_stages"]
    facts = Affine(module, tiles=True)
    memory = Memory(module)
    uses = _uses(module)

    def rewrite(op: Op, builder: Builder) -> tuple[Value, ...] | None:
        if not isinstance(op, For):
            return None
        depth = op.stages if op.stages is not None else stages
        if depth < 2:
            return None
        early = _Early(op, memory)
        found: list[_Staged] = []
        if any(isinstance(inner, Dot) for inner in op.body.ops):
            found = [s for load in op.body.ops if (s := _staged(early, load, uses, facts, remarks))]
        if found and op.stages is None and module.attributes.get("stages_are_free"):
            depth = _fitting(op, found, depth, shared_limit, remarks)
        else:
            found = _affordable(early, found, depth, shared_limit, remarks)
        if not found or depth < 2:
            _answer_stages(op, remarks)
            return None
        for staged in found:
            _answer_memory_hints(staged.load, remarks)
        return _pipelined(early, found, depth, builder, remarks)

    return rebuild(module, rewrite)


def _affordable(
    early: _Early, found: list[_Staged], depth: int, shared_limit: int, remarks: Remarks
) -> list[_Staged]:
    """Return the loads to stage: not those behind a table if there is no room for them too."""
    if sum(_tile_bytes(staged.load) for staged in found) * depth <= shared_limit:
        return found
    kept: list[_Staged] = []
    for staged in found:
        ahead = early.slice_of(staged.load) or []
        if any(not op.pure for op in ahead):
            remarks.note(
                staged.load,
                f"not copied ahead: {depth} stages of what a table leads to do not fit",
                "missed",
            )
        else:
            kept.append(staged)
    return kept


def _fitting(
    loop: For, found: list[_Staged], depth: int, shared_limit: int, remarks: Remarks
) -> int:
    """Return how many of the stages that nobody asked for fit into shared memory."""
    each = sum(_tile_bytes(staged.load) for staged in found)
    fits = shared_limit // max(each, 1)
    if fits < depth:
        remarks.note(loop, f"{depth} stages need {depth * each:,} bytes; {fits} fit", "missed")
    return min(depth, fits)


def _answer_stages(loop: For, remarks: Remarks) -> None:
    if loop.stages is None:
        return
    text = "no load of this loop can be copied ahead"
    if not any(isinstance(inner, Dot) for inner in loop.body.ops):
        text = "loads are copied ahead for products, this loop has none"
    remarks.note(loop, f"num_stages={loop.stages} is not obeyed: {text}", "missed")


def _answer_memory_hints(load: Load, remarks: Remarks) -> None:
    """PTX ISA 9.0, cp.async: .ca or .cg by its width, an eviction policy by a descriptor only."""
    cache = "" if load.cache in ("ca", "cg") else load.cache
    words = {"cache_modifier": cache, "eviction_policy": load.eviction}
    for name, word in words.items():
        if word:
            text = "the load is copied ahead, and such a copy takes none"
            remarks.note(load, f"{name} '{word}' is not obeyed: {text}", "missed")


def _tile_bytes(load: Load) -> int:
    """Return the bytes of one slot of a load's ring."""
    shape, element = shape_of(load.result.type), element_of(load.result.type)
    return prod(1 << (extent - 1).bit_length() for extent in shape) * element.itemsize


def _uses(module: Module) -> dict[Value, list[Op]]:
    uses: dict[Value, list[Op]] = {}
    for op in module.walk():
        for operand in op.operands:
            uses.setdefault(operand, []).append(op)
    return uses


class _Early:
    """What of a loop may happen rounds before its turn."""

    def __init__(self, loop: For, memory: Memory) -> None:
        self.loop = loop
        self.memory = memory
        effects = [e for op in loop.body.ops for e in op.effects() if e.space == "global"]
        self._writes = [e for e in effects if e.writes]
        #: What puts accesses into an order that other programs may see.
        self._orders = [e for e in effects if e.order != "plain" and _is_seen(e)]

    def obstacle(self, op: Op) -> str:
        """Say why an op must not read memory before its turn; "" if it may."""
        for effect in op.own_effects():
            if effect.order != "plain":
                return "the load is volatile"
            if any(self.memory.may_meet(effect, write) for write in self._writes):
                return "the loop stores to memory it might load"
            if self._orders and not self.memory.is_settled(effect):
                return "the loop waits for other programs or signals to them"
        return ""

    def slice_of(self, load: Load) -> list[Op] | None:
        """Return the loop's ops that compute a load's address and mask, in order.

        With them come those that compute the carried values they need. None if one of them must
        not run early: then the address is not known rounds ahead.
        """
        loop = self.loop
        by_result = {r: op for op in loop.body.ops for r in op.results}
        carried = dict(zip(loop.body.arguments[1:], loop.body.yields, strict=True))
        needed: set[int] = set()
        work = [v for v in (load.pointers, load.mask) if v is not None]
        seen: set[Value] = set()
        while work:
            value = work.pop()
            if value in seen:
                continue
            seen.add(value)
            if value in carried:
                work.append(carried[value])
            op = by_result.get(value)
            if op is None:
                continue
            if op.regions or not op.removable or self.obstacle(op):
                return None
            needed.add(id(op))
            work += op.operands
        return [op for op in loop.body.ops if id(op) in needed]


def _is_seen(effect: Effect) -> bool:
    """Say whether an order is one for other programs: what a block's own fence does is not."""
    return effect.reads or effect.writes or effect.scope != "cta"


def _staged(
    early: _Early, op: Op, uses: dict[Value, list[Op]], facts: Affine, remarks: Remarks
) -> _Staged | None:
    """Return how a load of the loop can be staged in shared memory; None if it cannot."""
    if not isinstance(op, Load) or not isinstance(op.result.type, Tile):
        return None
    users: list[Op] = []
    here = set(map(id, early.loop.body.ops))
    readers = uses.get(op.result, [])
    for user in readers:
        end = user
        if isinstance(user, Transpose):
            (end,) = uses[user.result] if len(uses[user.result]) == 1 else (user,)
        converts = isinstance(user, ConvertLayout) or isinstance(end, ConvertLayout)
        # What a branch or an inner loop reads is taken out of the ring once, before it.
        if converts and here.issuperset((id(user), id(end))):
            users.append(user)
    if not users or not _feeds_dot(users, uses):
        return None
    reason = _obstacle(early, op, facts)
    if reason:
        remarks.note(op, f"not copied ahead: {reason}", "missed")
        return None
    return _Staged(op, tuple(users), len(users) < len(readers))


def _feeds_dot(users: list[Op], uses: dict[Value, list[Op]]) -> bool:
    work = list(users)
    while work:
        op = work.pop()
        if isinstance(op, Dot):
            return True
        if isinstance(op, ConvertLayout | Transpose):
            work += uses.get(op.results[0], [])
    return False


def _obstacle(early: _Early, op: Load, facts: Affine) -> str:
    element = pointee_of(op.pointers.type)
    if reason := early.obstacle(op):
        return reason
    if op.other is not None and constant_of(op.other) != 0:
        return "masked-off elements are not zero"
    if not isinstance(element, Scalar) or element == I1:
        return "pointers and i1 are not staged"
    assert isinstance(op.result.type, Tile)
    assert op.result.type.layout is not None
    width, _ = vector_width(facts, op.pointers, op.mask, op.result.type.layout, element.itemsize)
    if width * element.itemsize < 4:
        return (
            f"only {width * element.itemsize} bytes lie side by side and aligned, "
            "cp.async moves 4, 8 or 16; alignment of the strides and bounds is not known"
        )
    if early.slice_of(op) is None:
        return "its address depends on what must not be read ahead"
    return ""


def _needed_carries(loop: For, ops: list[Op], loads: list[Load]) -> list[int]:
    """Return which carried values the address arithmetic reads."""
    arguments = loop.body.arguments[1:]
    reads = {v for op in ops for v in op.operands}
    reads |= {v for load in loads for v in (load.pointers, load.mask) if v is not None}
    needed = {i for i, a in enumerate(arguments) if a in reads}
    # A carried value that only another needed one is computed from.
    changed = True
    while changed:
        changed = False
        for i in list(needed):
            after = loop.body.yields[i]
            if after in arguments and arguments.index(after) not in needed:
                needed.add(arguments.index(after))
                changed = True
    return sorted(needed)


def _pipelined(
    early: _Early, found: list[_Staged], stages: int, builder: Builder, remarks: Remarks
) -> tuple[Value, ...]:
    loop = early.loop
    loads = [staged.load for staged in found]
    needed = {id(inner) for load in loads for inner in early.slice_of(load) or ()}
    ops = [op for op in loop.body.ops if id(op) in needed]
    carries = _needed_carries(loop, ops, loads)
    counter = element_of(loop.lower.type)
    assert isinstance(counter, Scalar)
    buffers = [_ring(load, stages, builder) for load in loads]
    ahead = _Ahead(loop, loads, buffers, ops, carries, builder)

    state = {a: loop.inits[i] for i, a in enumerate(loop.body.arguments[1:]) if i in carries}
    index = loop.lower
    for stage in range(stages - 1):
        slot = builder.add(Constant(stage, _I32))
        state = ahead.start(index, state, slot, always=False)
        index = builder.add(Elementwise("add", (index, loop.step), no_wrap=True))

    zero = builder.add(Constant(0, _I32))
    last = builder.add(Constant(stages - 1, _I32))
    arguments = loop.body.arguments
    next_index = Value(counter, "ahead")
    read_slot, write_slot = Value(_I32, "slot"), Value(_I32, "fill")
    shadows = {
        arguments[1 + i]: Value(arguments[1 + i].type, arguments[1 + i].hint) for i in carries
    }
    with builder.block() as body:
        builder.insert(WaitCopies(stages - 2))
        builder.insert(BlockBarrier())
        moved = ahead.start(next_index, dict(shadows), write_slot, always=False)
        replaced = _with_buffers(loop, found, buffers, read_slot, builder)
        yields = [replaced.get(v, v) for v in loop.body.yields]
        following = builder.add(Elementwise("add", (next_index, loop.step), no_wrap=True))
        slots = [_next_slot(v, stages, builder) for v in (read_slot, write_slot)]
        ends = [*yields, following, *slots, *(moved[a] for a in shadows)]
        builder.insert(loop.body.terminator.changed(values=tuple(ends)))
    inits = (*loop.inits, index, zero, last, *(state[a] for a in shadows))
    block = Block((*arguments, next_index, read_slot, write_slot, *shadows.values()), tuple(body))
    new = builder.insert(loop.changed(inits=inits, body=block))
    builder.insert(WaitCopies(0))
    total = sum(b.type.bytes for b in buffers if isinstance(b.type, Shared))
    remarks.note(
        loop,
        f"{len(loads)} loads copied {stages - 1} rounds ahead "
        f"through {total:,} bytes of shared memory",
        "applied",
    )
    return new.results[: len(loop.results)]


_I32 = Scalar("i32", "int", 32)


def _ring(load: Load, stages: int, builder: Builder) -> Value:
    """Allocate the ring for a load, in the order in which memory holds the tile."""
    shape = shape_of(load.result.type)
    element = element_of(load.result.type)
    assert isinstance(element, Scalar)
    layout = layout_of(load.result.type)
    assert layout is not None
    order = sorted(range(len(shape)), key=lambda d: -layout.consecutive("register", d))
    type = Shared(shape, element, swizzled(shape, element.itemsize, tuple(order)), stages)
    return builder.add(SharedAllocate(type=type), load.result.hint)


class _Ahead:
    """Starts the copies of one round, given the counter and the carried values of that round."""

    def __init__(
        self, loop: For, loads: list[Load], buffers: list[Value], ops: list[Op], carries: list[int],
        builder: Builder,
    ) -> None:  # fmt: skip
        self.loop = loop
        self.loads = loads
        self.buffers = buffers
        self.ops = ops
        self.carries = carries
        self.builder = builder

    def start(
        self, index: Value, state: dict[Value, Value], slot: Value, always: bool
    ) -> dict[Value, Value]:
        """Start all copies of the round and return the carried values of the next."""
        builder, loop = self.builder, self.loop
        values = {loop.body.arguments[0]: index, **state}
        runs = None if always else self._runs(index)
        for op in self.ops:
            copied = copy_op(op, values, builder)
            if isinstance(copied, Load) and runs is not None:
                copied = self._guarded(op, copied, runs, values)
            builder.insert(copied)
        for load, buffer in zip(self.loads, self.buffers, strict=True):
            before = builder.span, builder.origins
            builder.span, builder.origins = load.span, (load.id,)
            mask = values.get(load.mask, load.mask) if load.mask is not None else None
            if runs is not None:
                mask = self._under(runs, mask, load)
            pointers = values.get(load.pointers, load.pointers)
            builder.insert(
                AsyncCopy(pointers, buffer, slot, mask, cache=load.cache, eviction=load.eviction)
            )
            builder.span, builder.origins = before
        builder.insert(CommitCopies())
        arguments = loop.body.arguments[1:]
        return {
            arguments[i]: values.get(loop.body.yields[i], loop.body.yields[i]) for i in self.carries
        }

    def _guarded(self, op: Op, load: Load, runs: Value, values: dict[Value, Value]) -> Load:
        """Return a load that reads nothing in rounds that the loop does not reach."""
        mask = self._under(runs, load.mask, load) if shape_of(load.pointers.type) else runs
        if load.mask is not None and not shape_of(load.pointers.type):
            mask = self.builder.add(Elementwise("and", (runs, load.mask)))
        new = load.changed(mask=mask)
        values[op.results[0]] = new.result
        return new

    def _runs(self, index: Value) -> Value:
        """Return whether the loop reaches a round with this counter."""
        builder, loop = self.builder, self.loop
        step = constant_of(loop.step)
        up = builder.add(Elementwise("lt", (index, loop.upper)))
        if step is not None and step > 0:
            return up
        down = builder.add(Elementwise("gt", (index, loop.upper)))
        if step is not None:
            return down
        zero = builder.add(Constant(0, element_of(loop.step.type)))
        rises = builder.add(Elementwise("gt", (loop.step, zero)))
        return builder.add(Select(rises, up, down))

    def _under(self, runs: Value, mask: Value | None, load: Load) -> Value:
        shape = shape_of(load.pointers.type)
        layout = layout_of(load.pointers.type)
        everywhere = self.builder.add(Splat(runs, shape, layouts=(layout,)))
        if mask is None:
            return everywhere
        return self.builder.add(Elementwise("and", (everywhere, mask)))


def _with_buffers(
    loop: For, found: list[_Staged], buffers: list[Value], slot: Value, builder: Builder
) -> dict[Value, Value]:
    """Insert the loop's ops with staged loads read from the ring; return replaced values."""
    replaced: dict[Value, Value] = {}
    by_user = {
        id(user): (staged.load, buffer)
        for staged, buffer in zip(found, buffers, strict=True)
        for user in staged.users
    }
    staged_loads = {
        id(staged.load): (staged, buffer) for staged, buffer in zip(found, buffers, strict=True)
    }
    # A transposed operand is read untransposed, in the layout that transposing turns into it.
    targets = {op.source: op.layout for op in loop.body.ops if isinstance(op, ConvertLayout)}
    for op in loop.body.ops[:-1]:
        if id(op) in staged_loads:
            staged, buffer = staged_loads[id(op)]
            if staged.has_others:
                layout = layout_of(staged.load.result.type)
                assert layout is not None
                loaded = _from_buffer(staged.load, op, layout, buffer, slot)
                replaced[op.results[0]] = builder.add(loaded, op.results[0].hint)
            continue
        if id(op) in by_user:
            load, buffer = by_user[id(op)]
            if isinstance(op, ConvertLayout):
                loaded = _from_buffer(load, op, op.layout, buffer, slot)
                replaced[op.result] = builder.add(loaded, op.result.hint)
                continue
            assert isinstance(op, Transpose)
            back = tuple(op.order.index(i) for i in range(len(op.order)))
            layout = targets[op.result]
            loaded = _from_buffer(load, op, layout.transpose(back), buffer, slot)
            value = builder.add(loaded, op.result.hint)
            turned = op.changed(source=value, layouts=(layout,))
            replaced[op.result] = builder.insert(turned).results[0]
            continue
        new = _reading(op, replaced)
        if isinstance(new, ConvertLayout) and new.source.type == new.result.type:
            replaced[op.results[0]] = new.source
            continue
        builder.insert(new)
        if new is not op:
            replaced.update(zip(op.results, new.results, strict=True))
    return replaced


def _from_buffer(
    load: Load, user: Op, layout: LinearLayout, buffer: Value, slot: Value
) -> SharedLoad:
    """Return the op that reads what `load` copied, in the layout that `user` wants."""
    assert isinstance(load.result.type, Tile)
    type = load.result.type.with_layout(layout)
    return SharedLoad(buffer, slot, type=type, span=load.span, origins=(load.id, user.id))


def _reading(op: Op, replaced: dict[Value, Value]) -> Op:
    """Return an op, and what stands in its regions, with replaced operands."""
    fields: dict[str, Any] = {}
    for spec in op.fields:
        held = op.__dict__[spec.name]
        if spec.role in ("operand", "optional") and held in replaced:
            fields[spec.name] = replaced[held]
        elif spec.role == "operands" and any(v in replaced for v in held):
            fields[spec.name] = tuple(replaced.get(v, v) for v in held)
        elif spec.role == "region":
            block = _block_reading(held, replaced)
            if block is not held:
                fields[spec.name] = block
    return op.changed(**fields) if fields else op


def _block_reading(block: Block, replaced: dict[Value, Value]) -> Block:
    inner = dict(replaced)
    ops: list[Op] = []
    for op in block.ops:
        new = _reading(op, inner)
        if new is not op:
            inner.update(zip(op.results, new.results, strict=True))
        ops.append(new)
    same = all(new is old for new, old in zip(ops, block.ops, strict=True))
    return block if same else Block(block.arguments, tuple(ops))


def _next_slot(slot: Value, stages: int, builder: Builder) -> Value:
    """Return slot + 1, or 0 after the last."""
    one = builder.add(Constant(1, _I32))
    following = builder.add(Elementwise("add", (slot, one), no_wrap=True))
    count = builder.add(Constant(stages, _I32))
    past = builder.add(Elementwise("ge", (following, count)))
    zero = builder.add(Constant(0, _I32))
    return builder.add(Select(past, zero, following))
