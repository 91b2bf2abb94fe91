"""What each role does in a round of a pipelined loop, as it stands in the IR that is lowered.

Nothing here knows an op. What counts is what ops declare: a copy writes a ring of buffers later, a
wait acquires through barriers or leaves `pending` ones under way, a product has operands worth
staging. `stage` and `in_flight` are what passes left on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from workbench.ir import (
    Block,
    Module,
    Op,
    Scalar,
    Shared,
    Tile,
    Value,
    element_of,
    value_names,
    walk,
)
from workbench.targets.simt.ops import roles_of
from workbench.targets.simt.rules import RuleTable
from workbench.trace import Pipeline, Ring, Step, StepKind

#: Ops that one step of computing names at most.
_NAMED = 6
_USES = ("copy", "product", "read")


def pipelines(module: Module, rules: RuleTable) -> tuple[Pipeline, ...]:
    """Return the loops of a kernel that read rings of buffers, in program order."""
    return _Reader(module, rules).found()


@dataclass
class _Part:
    """What warps of one role run."""

    name: str
    block: Block
    warps: int
    registers: int | None


@dataclass
class _Loop:
    """One loop of a role: the ops around it that are its own."""

    op: Op
    before: list[Op] = field(default_factory=list[Op])
    after: list[Op] = field(default_factory=list[Op])


class _Reader:
    def __init__(self, module: Module, rules: RuleTable) -> None:
        self.module = module
        self.rules = rules
        self.names = {
            value: f"%{name}" if name.isdigit() else name
            for value, name in value_names(module).items()
        }
        self.parts = _parts(module)
        touched = [(e, e.through) for op in module.walk() for e in op.own_effects()]
        rings = {v for op in module.walk() for v in op.results if _slots(v)}
        self.barriers = {v for e, v in touched if v in rings and e.order != "plain"}
        self.data = [v for op in module.walk() for v in op.results if v in rings - self.barriers]
        self.full: dict[Value, Value] = {}
        self.empty: dict[Value, Value] = {}
        for part in self.parts:
            self._pair(walk(part.block))

    def _pair(self, ops: Iterable[Op]) -> None:
        """Find the barriers that count a ring's copies, and those that a copy waits for."""
        waited: Value | None = None
        for op in ops:
            through = [e for e in op.own_effects() if e.through is not None]
            waited = next((e.through for e in through if e.acquires), waited)
            if self._kind(op) != "copy":
                continue
            counted = next((e.through for e in through if e.through in self.barriers), None)
            for ring in self._rings(op):
                if counted is not None:
                    self.full[ring] = counted
                if waited is not None and waited is not counted:
                    self.empty[ring] = waited

    # -- loops ----------------------------------------------------------------------------
    def found(self) -> tuple[Pipeline, ...]:
        parts = [list(self._loops(part.block)) for part in self.parts]
        pipelines: list[Pipeline] = []
        for main in parts[-1]:
            known = {main.op.id, *main.op.origins}
            loops = [
                next((loop for loop in loops if known & {loop.op.id, *loop.op.origins}), None)
                for loops in parts
            ]
            pipelines.append(self._pipeline(main.op.id, loops))
        return tuple(pipelines)

    def _loops(self, block: Block) -> Iterator[_Loop]:
        """Yield the pipelined loops of a role, each with what comes before and after it."""
        found: list[_Loop] = []
        gap: list[Op] = []
        for op in _of_one_program(block):
            inside = list(self._inside(op, [], []))
            if not inside:
                gap.append(op)
                continue
            rings = {ring for loop in inside for o in _flat(loop.op) for ring in self._rings(o)}
            first = [o for o in gap if rings.intersection(self._rings(o))]
            if found:
                found[-1].after += [o for o in gap if o not in first]
            inside[0].before[:0] = first
            found += inside
            gap = []
        if found:
            found[-1].after += gap
        yield from found

    def _inside(self, op: Op, before: Sequence[Op], after: Sequence[Op]) -> Iterator[_Loop]:
        """Yield the innermost pipelined loops in an op; regions around one are its own."""
        nothing: Sequence[Op] = ()
        first, last = (nothing, nothing) if op.repeats else (before, after)
        for region in op.regions:
            for place, inner in enumerate(region.ops):
                around = [*first, *region.ops[:place]], [*region.ops[place + 1 :], *last]
                yield from self._inside(inner, *around)
        here = [o for o in _flat(op) if self._rings(o)]
        if op.repeats and here and not any(self._deeper(op)):
            yield _Loop(op, list(before), list(after))

    def _deeper(self, op: Op) -> Iterator[Op]:
        inner = [o for region in op.regions for o in walk(region)]
        return (o for o in inner if o.repeats and any(map(self._rings, _flat(o))))

    def _pipeline(self, loop: int, loops: Sequence[_Loop | None]) -> Pipeline:
        ops = [o for one in loops if one is not None for o in _flat(one.op)]
        used = {ring for op in ops for ring in self._rings(op)}
        rings = [ring for ring in self.data if ring in used]
        steps: list[Step] = []
        for role, one in enumerate(loops):
            if one is None:
                continue
            steps += self._steps(one.before, rings, role, "before")
            steps += self._staged(self._steps(one.op.regions[-1].ops, rings, role, "round"))
            steps += self._steps(one.after, rings, role, "after")
        return Pipeline(
            loop=loop,
            roles=tuple(part.name for part in self.parts),
            stages=max(map(_slots, rings), default=0),
            ops=tuple((op, s.role, s.stage) for s in steps if s.phase == "round" for op in s.ops),
            warps=tuple(part.warps for part in self.parts),
            registers=tuple(part.registers for part in self.parts),
            rings=tuple(self._ring(ring) for ring in rings),
            steps=tuple(steps),
        )

    def _ring(self, ring: Value) -> Ring:
        full, empty = (found.get(ring) for found in (self.full, self.empty))
        assert isinstance(ring.type, Shared)
        return Ring(
            value=self.names[ring], op=_maker(ring), slots=ring.type.slots,
            bytes=ring.type.slot_bytes, full=None if full is None else _maker(full),
            empty=None if empty is None else _maker(empty),
        )  # fmt: skip

    # -- steps ----------------------------------------------------------------------------
    def _steps(self, ops: Iterable[Op], rings: list[Value], role: int, phase: str) -> list[Step]:
        """Return what ops do; what computes tiles one after the other is one step."""
        found: list[Step] = []
        made: list[Op] = []
        for op in _through(ops):
            kind = self._kind(op)
            if kind is None:
                continue
            mine = tuple(rings.index(ring) for ring in self._meant(op) if ring in rings)
            if kind == "compute":
                if not found or found[-1].kind != "compute":
                    made = []
                    found.append(Step(text="", kind=kind, phase=phase, role=role))  # type: ignore[arg-type]
                made.append(op)
                found[-1] = replace(found[-1], text=_computed(made), ops=tuple(o.id for o in made))
                continue
            found.append(Step(
                text=self._text(op, kind), kind=kind, phase=phase, role=role,  # type: ignore[arg-type]
                stage=getattr(op, "stage", 0), ops=(op.id,), rings=mine,
                in_flight=getattr(op, "in_flight", None) if kind == "product" else None,
            ))  # fmt: skip
        return found

    def _staged(self, steps: list[Step]) -> list[Step]:
        """Give what waits and signals the stage of what it does so for."""
        made: dict[Value, int] = {}
        by_id = {op.id: op for op in self.module.walk()}
        for step in steps:
            for result in by_id[step.ops[-1]].results:
                made[result] = step.stage
        found: list[Step] = []
        for place, step in enumerate(steps):
            op = by_id[step.ops[0]]
            around = (reversed(steps[:place]), steps[place:])
            if step.kind == "arrive" and not hasattr(op, "bytes"):
                around = around[:1]
            users = (
                other.stage
                for side in reversed(around)
                for other in side
                if other.kind in _USES and set(other.rings) & set(step.rings)
            )
            if step.kind in ("wait", "arrive") and step.rings:
                step = replace(step, stage=next(users, 0))
            elif step.kind == "wait":
                step = replace(step, stage=next((made[v] for v in op.operands if v in made), 0))
            found.append(step)
        return found

    def _kind(self, op: Op) -> StepKind | None:
        """Return what an op is to a schedule; None: a number's arithmetic."""
        effects = op.own_effects()
        through = {e.through: e for e in effects if e.through is not None}
        if hasattr(op, "in_flight") or self.rules.staged_of(op):
            return "product"
        if any(_slots(value) for value in op.results):
            return None
        rings = [e for v, e in through.items() if _slots(v) and v not in self.barriers]
        if any(e.writes and e.later for e in rings):
            return "copy"
        if rings:
            return "store" if any(e.writes for e in rings) else "read"
        counted = [e for v, e in through.items() if v in self.barriers]
        if any(e.acquires for e in counted) or hasattr(op, "pending"):
            return "wait"
        if any(e.releases for e in counted):
            return "arrive"
        if op.meets:
            return "meet"
        if any(e.writes for e in effects if e.through is not None and not _slots(e.through)):
            return "store"
        if any(e.reads and e.space == "global" for e in effects):
            return "load"
        return "compute" if any(isinstance(v.type, Tile) for v in op.results) else None

    def _rings(self, op: Op) -> list[Value]:
        """Return the rings of buffers that an op fills or reads."""
        through = [e.through for e in op.own_effects() if e.through is not None]
        return [v for v in dict.fromkeys(through) if _slots(v) and v not in self.barriers]

    def _meant(self, op: Op) -> list[Value]:
        """Return the rings that an op is about, through their barriers too."""
        counted = {e.through for e in op.own_effects()} & self.barriers
        of = [v for v in self.data if {self.full.get(v), self.empty.get(v)} & counted]
        return self._rings(op) or of

    # -- words ----------------------------------------------------------------------------
    def _text(self, op: Op, kind: StepKind) -> str:
        rings = self._meant(op)
        slots = ", ".join(f"{self.names[v]}[{self._slot(op, n)}]" for n, v in enumerate(rings))
        counted = {e.through for e in op.own_effects()} & self.barriers
        is_empty = bool(counted & set(self.empty.values()))
        if kind == "wait":
            return f"wait: {slots} {'empty' if is_empty else 'full'}" if rings else self._rest(op)
        if kind == "arrive":
            size = getattr(op, "bytes", 0)
            return f"expect {size:,} bytes: {slots}" if size else f"give back {slots}"
        if kind == "product":
            a, b = (self._operand(op, n) for n in range(2))
            return f"{self.names[op.results[0]]} = {a} @ {b}"
        if kind == "meet":
            return "all its warps meet"
        return f"{kind} {slots}" if rings else f"{_word(op)} {self._operands(op)}"

    def _operand(self, op: Op, number: int) -> str:
        value = op.operands[number]
        return self.names[value] + (f"[{self._slot(op, number)}]" if _slots(value) else "")

    def _rest(self, op: Op) -> str:
        pending: int = getattr(op, "pending", 0)
        what = self.names[op.operands[0]] if op.operands else "copies"
        then = f", then {_word(op)}" if len(op.operands) > 1 else ""
        return f"wait for {what}" + (f", {pending} may be under way" if pending else "") + then

    def _operands(self, op: Op) -> str:
        """Name the tiles that an op reads; masks and addresses are not what it is about."""
        floats = [v for v in op.operands if _is_float_tile(v)]
        return ", ".join(self.names[v] for v in floats[:2])

    def _slot(self, op: Op, number: int) -> str:
        """Return the slot of an op's ring as the text of the IR names it."""
        words = ("slot", "turn", f"slot_{'ab'[number % 2]}")
        value = next((v for name in words if (v := getattr(op, name, None)) is not None), None)
        if value is None:
            return "0"
        constant = getattr(value.op, "value", None)
        return str(constant) if isinstance(constant, int) else self.names[value]


def _computed(ops: Sequence[Op]) -> str:
    """Name what computes numbers; what only says where things are is not worth naming."""
    numbers = [op for op in ops if op.operands and any(map(_is_float_tile, op.results))]
    real = [op for op in numbers if not op.moves] or numbers
    names = list(dict.fromkeys(map(_word, real)))
    more = ", …" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more if names else "addresses and masks"


def _is_float_tile(value: Value) -> bool:
    """Say whether a value is a tile of floats."""
    element = element_of(value.type)
    return isinstance(value.type, Tile) and isinstance(element, Scalar) and element.is_float


def _parts(module: Module) -> list[_Part]:
    """Return what the warps of each role run: one after another wherever they part."""
    roles = roles_of(module)
    warps: int = module.attributes["num_warps"]
    if roles is None:
        return [_Part("all warps", module.body, warps, None)]
    keeps, gets = roles.registers or (None, None)
    return [
        _Part("producer", roles.producer, roles.warps, keeps),
        _Part("consumers", roles.consumers, warps, gets),
    ]


def _slots(value: Value | None) -> int:
    return value.type.slots if value is not None and isinstance(value.type, Shared) else 0


def _maker(value: Value) -> int:
    assert value.op is not None
    return value.op.id


def _through(ops: Iterable[Op]) -> Iterator[Op]:
    """Yield ops, and instead of branches what they hold."""
    for op in ops:
        if op.regions and not op.repeats and any(o.effects() or o.regions for o in _inner(op)):
            yield from _through(o for region in op.regions for o in region.ops)
        else:
            yield op


def _of_one_program(block: Block) -> Iterator[Op]:
    """Yield ops, and instead of what is run for each program what one of them does."""
    for op in block.ops:
        if op.per_program:
            yield from (o for region in op.regions for o in _of_one_program(region))
        else:
            yield op


def _inner(op: Op) -> Iterator[Op]:
    return (o for region in op.regions for o in region.ops)


def _flat(loop: Op) -> list[Op]:
    """Return the ops of a loop's rounds, those of inner loops left out."""
    return [o for region in loop.regions for o in _through(region.ops)] if loop.repeats else []


def _word(op: Op) -> str:
    return op.name.partition(".")[2]


__all__ = ["pipelines"]
