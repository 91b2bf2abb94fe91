"""Gives exact integers (`index`) a machine width: 32 bits where they are known to fit, else 64."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from workbench.analysis.ranges import (
    FULL32,
    FULL64,
    ROOM32,
    counting_arguments,
    known_intervals,
)
from workbench.ir import (
    I32,
    I64,
    INDEX,
    KernelParameter,
    Module,
    Op,
    Scalar,
    Type,
    Value,
    element_of,
    with_element,
)
from workbench.ir.rebuild import Rebuilder
from workbench.ops import (
    AddPointer,
    Cast,
    Constant,
    Elementwise,
    For,
    If,
    Iota,
    Select,
    While,
    Yield,
)
from workbench.ops.program import NumPrograms, ProgramId
from workbench.passes.manager import Remarks

#: So near to 0 that differences, and constants that are kept apart, are far from what 64 bits hold.
_FAR = 1 << 61
_RING = ("add", "sub", "mul", "neg", "and", "or", "xor")


def narrow_index(module: Module, remarks: Remarks) -> Module:
    """Replace every `index` by i32 or i64.

    Before:
        %1 = tile.iota {start = 0, type = tile<8xindex>} : tile<8xindex>
        %2 = tile.splat %n {shape = (8,)} : tile<8xindex>
        %3 = tile.lt [%1, %2] : tile<8xi1>
        %4 = tile.add [%1, %2] : tile<8xindex>
    After:
        %1 = tile.iota {start = 0, type = tile<8xi32>} : tile<8xi32>
        %2 = tile.splat %n {shape = (8,)} : tile<8xi32>
        %3 = tile.lt [%1, %2] : tile<8xi1>
        %5 = tile.cast %1 {to = i64} : tile<8xi64>
        %6 = tile.cast %2 {to = i64} : tile<8xi64>
        %4 = tile.add [%5, %6] {no_wrap = True} : tile<8xi64>

    A value is 32 bits wide where its interval fits (with the launch fact `narrow_index`: where it
    depends on nothing loaded), or where only its low 32 bits are used. A loop says whether its
    counter fits behind the last round (`may_wrap`). Arguments whose signs the same fact tells say
    so (`low`). Keeps: every exact value.
    """
    worker = _Narrower(module)
    parameters = tuple(map(worker.parameter, module.parameters))
    body = worker.block(module.body)
    wide = sum(1 for op in module.walk() if any(worker.is_wide(r) for r in op.results))
    if wide:
        remarks.note(
            None,
            f"{wide} index values may exceed 32 bits and are computed in 64; a launch whose "
            "numbers fit uses 32",
        )
    if body is module.body and parameters == module.parameters:
        return module
    return replace(module, parameters=parameters, body=body, next_id=worker.builder.next_id)


class _Narrower(Rebuilder):
    def __init__(self, module: Module) -> None:
        super().__init__(module, lambda op, builder: None)
        narrow = bool(module.attributes.get("narrow_index"))
        self.intervals, self.past = known_intervals(module, narrow)
        self.counting = counting_arguments(module) if narrow else frozenset[str]()
        self.short_division = module.attributes.get("short_division", True)
        self.compare_together = module.attributes.get("compare_together", True)
        self.low_only = _low_bits_only(module)
        self.carried: dict[Value, Scalar] = {}
        for op in module.walk():
            if isinstance(op, For | While | If):
                self._unify(op)

    def parameter(self, parameter: KernelParameter) -> KernelParameter:
        """An exact integer argument is passed as an i32."""
        if parameter.name in self.counting:
            parameter = replace(parameter, low=0)
        if parameter.value.type != INDEX:
            return parameter
        value = Value(I32, parameter.value.hint)
        self.values[parameter.value] = value
        return replace(parameter, value=value)

    def is_wide(self, value: Value) -> bool:
        return _is_index(value.type) and self.width(value) == I64

    def width(self, value: Value) -> Scalar:
        """Return the machine type of an index value."""
        if value in self.carried:
            return self.carried[value]
        if value in self.low_only:
            return I32
        interval = self.intervals.get(value)
        if interval is None:
            return I64
        return I32 if FULL32[0] <= interval[0] and interval[1] <= FULL32[1] else I64

    def _unify(self, op: Op) -> None:
        """Give all values that one carried name or branch result goes through one width."""
        groups: list[tuple[Value, ...]] = []
        if isinstance(op, For):
            groups += [(op.body.arguments[0], op.lower, op.upper, op.step)]
            groups += zip(op.inits, op.body.arguments[1:], op.body.yields, op.results, strict=True)
        elif isinstance(op, While):
            groups += zip(op.inits, op.body.arguments, op.condition.arguments, op.body.yields,
                          op.results, strict=True)  # fmt: skip
        elif isinstance(op, If):
            groups += zip(op.then.yields, op.otherwise.yields, op.results, strict=True)
        for group in groups:
            if not _is_index(group[0].type):
                continue
            fits = all(
                self.width(v) == I32 for v in group if v in self.intervals or v in self.low_only
            )
            known = all(v in self.intervals for v in group[:2])
            own = [v for v in group if v.op is None or v.op is op]
            for value in own:
                self.carried[value] = I32 if fits and known else I64

    def argument(self, value: Value) -> Value:
        if not _is_index(value.type):
            return value
        return Value(with_element(value.type, self.width(value)), value.hint)

    def sized(self, value: Value, element: Scalar) -> Value:
        """Return the (already replaced) value in a machine type."""
        new = self.values.get(value, value)
        if element_of(new.type) == element:
            return new
        if isinstance(new.op, Constant) and element == I64:
            constant = Constant(new.op.value, with_element(new.type, element))
            return self.builder.add(constant, value.hint)
        return self.builder.add(Cast(new, element), value.hint)

    def op(self, op: Op) -> None:
        builder = self.builder
        before = builder.span, builder.origins
        builder.span, builder.origins = op.span, (op.id,)
        new = self._replacement(op)
        builder.span, builder.origins = before
        if isinstance(new, Value):
            self._map(op, (new,))
            return
        builder.insert(new)
        self._map(op, new.results)

    def _replacement(self, op: Op) -> Op | Value:
        touches = any(_is_index(v.type) for v in (*op.operands, *op.results))
        if isinstance(op, For | While | If):
            return self._loop(op)
        if not touches:
            return self.with_new_operands(op)
        if isinstance(op, Constant | Iota):
            return op.changed(type=with_element(op.type, self.width(op.result)))
        if isinstance(op, ProgramId | NumPrograms):
            return op.changed(type=self.width(op.result))
        if isinstance(op, Elementwise):
            return self._elementwise(op)
        if isinstance(op, Cast):
            return self._cast(op)
        if isinstance(op, Select) and _is_index(op.result.type):
            width = self.width(op.result)
            return op.changed(
                condition=self.values.get(op.condition, op.condition),
                then=self.sized(op.then, width),
                otherwise=self.sized(op.otherwise, width),
            )
        if isinstance(op, Yield):
            return self.with_new_operands(op)
        if isinstance(op, AddPointer):
            return self.with_new_operands(op)
        return self._uniform(op)

    def _uniform(self, op: Op) -> Op:
        """Shape ops, promises, stores of exact integers: results are as wide as the operand."""
        new = self.with_new_operands(op)
        for old, now in zip(op.results, new.results, strict=True):
            if _is_index(old.type) and element_of(now.type) != self.width(old):
                self.carried[old] = element_of(now.type)  # type: ignore[assignment]
        return new

    def _elementwise(self, op: Elementwise) -> Op | Value:
        widths = [self._now(v) for v in op.inputs]
        if op.row.compares:
            width = I64 if I64 in widths else I32
            near = width == I64 and self.compare_together and self._is_near(op)
            return op.changed(inputs=tuple(self.sized(v, width) for v in op.inputs), near=near)
        width = self.width(op.result)
        if width == I32 and I64 in widths and op.function not in _RING:
            # The result fits but an operand may not: compute wide, then narrow.
            inputs = tuple(self.sized(v, I64) for v in op.inputs)
            wide = op.changed(inputs=inputs, near=self._is_near(op))
            self.builder.insert(wide)
            return self.builder.add(Cast(wide.result, I32, no_wrap=True))
        exact = op.function in (*_RING, "shl") and self._is_exact(op, width)
        return op.changed(
            inputs=tuple(self.sized(v, width) for v in op.inputs),
            no_wrap=exact,
            near_end=exact and width == I32 and not self._has_room(op.result),
            near=width == I64 and self._is_near(op),
        )

    def _is_near(self, op: Elementwise) -> bool:
        """Say whether numbers of 64 bits are as near to 0 as `Elementwise.near` has it."""
        if op.row.compares:
            return all(self._within(value, _FAR) for value in op.inputs)
        divides = self.short_division and op.function in ("div", "rem")
        return divides and self._within(op.inputs[0], FULL32[1])

    def _within(self, value: Value, end: int) -> bool:
        low, high = self.intervals.get(value, FULL64)
        return -end < low and high < end

    def _is_exact(self, op: Elementwise, width: Scalar) -> bool:
        """Say whether an op computes exact integers of exact integers.

        What lost its high bits on the way may wrap again where the result fits.
        """
        exact = op.result not in self.low_only or self._fits(op.result)
        return exact and all(self._keeps(value, width) for value in op.inputs)

    def _keeps(self, value: Value, width: Scalar) -> bool:
        """Say whether an input given a width is still the exact integer."""
        whole = value not in self.low_only and (width == I64 or self._now(value) == I32)
        return whole or self._fits(value)

    def _fits(self, value: Value) -> bool:
        low, high = self.intervals.get(value, FULL64)
        return FULL32[0] <= low and high <= FULL32[1]

    def _has_room(self, value: Value) -> bool:
        """Say whether 32 bits also hold a value less a constant that is kept apart from it."""
        low, high = self.intervals.get(value, FULL64)
        return ROOM32[0] <= low and high <= ROOM32[1]

    def _now(self, value: Value) -> Any:
        return element_of(self.values.get(value, value).type)

    def _cast(self, op: Cast) -> Op | Value:
        source = self.values.get(op.source, op.source)
        to = self.width(op.result) if op.to == INDEX else op.to
        if element_of(source.type) == to:
            return source
        return op.changed(source=source, to=to)

    def _loop(self, op: Op) -> Op:
        fields: dict[str, Any] = {}
        if isinstance(op, For):
            width = self._bound_width(op)
            for name in ("lower", "upper", "step"):
                old = op.__dict__[name]
                fields[name] = self.sized(old, width) if width else self.values.get(old, old)
            fields["inits"] = self._carried_in(op.inits, op.body.arguments[1:])
            fields["body"] = self._region(op.body, op.body.arguments[1:])
            fields["may_wrap"] = self._wraps_past_end(op, width)
        elif isinstance(op, While):
            fields["inits"] = self._carried_in(op.inits, op.body.arguments)
            fields["condition"] = self.block(op.condition)
            fields["body"] = self._region(op.body, op.body.arguments)
        elif isinstance(op, If):
            fields["condition"] = self.values.get(op.condition, op.condition)
            fields["then"] = self._region(op.then, op.results)
            fields["otherwise"] = self._region(op.otherwise, op.results)
        if all(
            op.__dict__[name] is value or op.__dict__[name] == value
            for name, value in fields.items()
        ):
            return op
        return op.changed(**fields)

    def _wraps_past_end(self, op: For, width: Scalar | None) -> bool:
        """Say whether the counter may not hold what it would be behind the last round.

        Of loops in what combines elements nothing is known.
        """
        counter = op.body.arguments[0]
        element = width or element_of(counter.type)
        assert isinstance(element, Scalar)
        signed = element.kind == "int"
        low = -(1 << (element.bits - 1)) if signed else 0
        high = (1 << (element.bits - signed)) - 1
        past = self.past.get(counter)
        return past is None or past[0] < low or high < past[1]

    def _bound_width(self, op: For) -> Scalar | None:
        counter = op.body.arguments[0]
        return self.width(counter) if _is_index(counter.type) else None

    def _carried_in(self, inits: tuple[Value, ...], like: tuple[Value, ...]) -> tuple[Value, ...]:
        return tuple(
            self.sized(v, self.width(a)) if _is_index(v.type) else self.values.get(v, v)
            for v, a in zip(inits, like, strict=True)
        )

    def _region(self, block: Any, like: tuple[Value, ...]) -> Any:
        """Rebuild a region whose yields take the widths of `like`."""
        from workbench.ir import Block

        new = self.block(block)
        if not any(_is_index(v.type) for v in like):
            return new
        with self.builder.block() as ops:
            for inner in new.ops[:-1]:
                self.builder.insert(inner)
            end = block.terminator
            values = tuple(
                self.sized(v, self.width(a)) if _is_index(v.type) else self.values.get(v, v)
                for v, a in zip(end.operands, like, strict=True)
            )
            self.builder.insert(end.changed(values=values))
        return Block(new.arguments, tuple(ops))


def _is_index(type: Type) -> bool:
    try:
        return element_of(type) == INDEX
    except TypeError:
        return False


def _low_bits_only(module: Module) -> set[Value]:
    """Return exact integers of which only the low 32 bits are ever used."""
    uses: dict[Value, list[Op]] = {}
    order = list(module.walk())
    for op in order:
        for operand in op.operands:
            uses.setdefault(operand, []).append(op)
    found: set[Value] = set()
    for op in reversed(order):
        for result in op.results:
            if (
                _is_index(result.type)
                and uses.get(result)
                and all(_uses_low_bits(user, found) for user in uses[result])
            ):
                found.add(result)
    return found


def _uses_low_bits(user: Op, found: set[Value]) -> bool:
    if isinstance(user, Cast):
        return (
            user.to != INDEX
            and user.to.is_integer
            and user.to.bits <= 32
            and user.to.kind != "bool"
        )
    if isinstance(user, Elementwise) and user.function in _RING:
        return user.result in found
    return False
