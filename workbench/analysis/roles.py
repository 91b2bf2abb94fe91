"""Which parameters a kernel reads and which it writes, by following its pointers."""

from __future__ import annotations

from typing import Literal

from workbench.ir import Block, Module, Op, Pointer, Value, element_of
from workbench.ir.types import Tile
from workbench.ops import AtomicCompareExchange, AtomicUpdate, For, If, Load, Store, While

Role = Literal["in", "out", "inout", "scalar"]


def parameter_roles(module: Module) -> dict[str, Role]:
    """Return each parameter's role; a pointer that is never used counts as "in"."""
    roots = _Roots(module)
    read: set[str] = set()
    written: set[str] = set()
    for op in module.walk():
        match op:
            case Load():
                read |= roots.of(op.pointers)
            case Store():
                written |= roots.of(op.pointers)
            case AtomicUpdate() | AtomicCompareExchange():
                read |= roots.of(op.pointers)
                written |= roots.of(op.pointers)
            case _:
                pass
    return {p.name: _role(p.value, p.name in read, p.name in written) for p in module.parameters}


def _role(value: Value, read: bool, written: bool) -> Role:
    if not isinstance(value.type, Pointer):
        return "scalar"
    if written:
        return "inout" if read else "out"
    return "in"


def _is_pointer(value: Value) -> bool:
    return isinstance(value.type, Pointer | Tile) and isinstance(element_of(value.type), Pointer)


class _Roots:
    """For each pointer value the parameters it may have been made from."""

    def __init__(self, module: Module) -> None:
        self._found: dict[Value, set[str]] = {p.value: {p.name} for p in module.parameters}
        self._changed = True
        while self._changed:  # carried pointers need a second round; sets only grow
            self._changed = False
            self._block(module.body)

    def of(self, value: Value) -> set[str]:
        return self._found.get(value, set())

    def _flow(self, source: Value, target: Value) -> None:
        if not _is_pointer(target):
            return
        known = self._found.setdefault(target, set())
        new = self.of(source) - known
        if new:
            known |= new
            self._changed = True

    def _block(self, block: Block) -> None:
        for op in block.ops:
            self._op(op)

    def _op(self, op: Op) -> None:
        match op:
            case For():
                self._loop(op.inits, op.body.arguments[1:], op.body.yields, op.results)
            case While():
                self._loop(op.inits, op.body.arguments, op.body.yields, op.results)
                self._pairs(op.inits, op.condition.arguments)
                self._pairs(op.body.yields, op.condition.arguments)
            case If():
                self._pairs(op.then.yields, op.results)
                self._pairs(op.otherwise.yields, op.results)
            case _:
                for result in op.results:
                    for operand in op.operands:
                        self._flow(operand, result)
        for region in op.regions:
            self._block(region)

    def _loop(
        self,
        inits: tuple[Value, ...],
        arguments: tuple[Value, ...],
        yields: tuple[Value, ...],
        results: tuple[Value, ...],
    ) -> None:
        self._pairs(inits, arguments)
        self._pairs(yields, arguments)
        self._pairs(inits, results)
        self._pairs(yields, results)

    def _pairs(self, sources: tuple[Value, ...], targets: tuple[Value, ...]) -> None:
        for source, target in zip(sources, targets, strict=True):
            self._flow(source, target)
