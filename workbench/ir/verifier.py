"""Checks that hold for every module, whatever made it."""

from __future__ import annotations

from workbench.ir.module import Module
from workbench.ir.operation import Block, Value


class InvalidModuleError(AssertionError):
    """A pass made a module that breaks a rule of the IR: our mistake, never the user's."""


def verify_module(module: Module) -> None:
    """Raise InvalidModuleError unless values are defined before use, ids unique, regions ended."""
    seen: set[int] = set()
    _verify_block(module.body, {p.value for p in module.parameters}, seen, module)
    ids = max(seen, default=0)
    if ids >= module.next_id:
        raise InvalidModuleError(f"op #{ids} has an id that is still to be given out")


def _verify_block(block: Block, outer: set[Value], seen: set[int], module: Module) -> None:
    defined = outer | set(block.arguments)
    if not block.ops:
        raise InvalidModuleError("a region is empty; it needs at least a yield or return")
    for op in block.ops:
        if op.id in seen or not op.id:
            raise InvalidModuleError(f"{op.name} has the id {op.id}, which is taken or none")
        seen.add(op.id)
        for operand in op.operands:
            if operand not in defined:
                raise InvalidModuleError(
                    f"{op!r} in {module.name} reads {operand!r} before it exists"
                )
        op.verify()
        for region in op.regions:
            _verify_block(region, defined, seen, module)
        defined.update(op.results)
