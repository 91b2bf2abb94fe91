"""Lets products add to what their result would be added to."""

from __future__ import annotations

from collections import Counter

from workbench.ir import (
    DROP,
    F8E4M3,
    F8E5M2,
    Block,
    Builder,
    Drop,
    Module,
    Op,
    Value,
    element_of,
    rebuild,
)
from workbench.ops import Dot, Elementwise
from workbench.passes.manager import Remarks
from workbench.passes.rules import constant_of


def accumulate_products(module: Module, remarks: Remarks) -> Module:
    """Write the sum of a product and something else as a product that starts from there.

    A tensor core adds for nothing, and the product needs no registers of its own.

    Before:
        %a = tile.splat %x {shape = (4, 4)} : tile<4x4xf32>
        %z = tile.constant {value = 0.0, type = tile<4x4xf32>} : tile<4x4xf32>
        %1 = tile.dot %a, %a, %z : tile<4x4xf32>
        %2 = tile.add [%a, %1] : tile<4x4xf32>
    After:
        %a = tile.splat %x {shape = (4, 4)} : tile<4x4xf32>
        %z = tile.constant {value = 0.0, type = tile<4x4xf32>} : tile<4x4xf32>
        %2 = tile.dot %a, %a, %a : tile<4x4xf32>

    Needs: the product is used once, in the block in which it is computed, and is not `exact`.
    8-bit floats are left alone: what they start from would be summed in the short accumulator.
    So is what has yet to be loaded for a product that need not wait: it is added behind it.
    Keeps: every result, but that the product is not rounded before the addition.
    """
    if module.attributes.get("exact"):
        return module
    found = _Sums(module)
    moved: dict[int, Dot] = {}

    def rewrite(op: Op, builder: Builder) -> Value | Drop | None:
        if op.id in found.products:
            assert isinstance(op, Dot)
            moved[op.id] = op
            return DROP
        product = found.sums.get(op.id)
        if product is None:
            return None
        assert isinstance(op, Elementwise)
        first, second = op.inputs
        dot = moved[product.id]
        start = second if first is product.result else first
        limit = dot.imprecise_limit
        new = Dot(
            dot.a, dot.b, start, dot.factors, precision=dot.precision, imprecise_limit=limit
        )  # fmt: skip
        return builder.add(new, op.result.hint)

    return rebuild(module, rewrite)


class _Sums:
    """The products to drop, and for each sum by id the product that takes its place."""

    def __init__(self, module: Module) -> None:
        self.uses = Counter(value for op in module.walk() for value in _read(op))
        self.products: set[int] = set()
        self.sums: dict[int, Dot] = {}
        self._search(module.body)

    def _search(self, block: Block) -> None:
        here = set(block.ops)
        for op in block.ops:
            for region in op.regions:
                self._search(region)
            if not isinstance(op, Elementwise) or op.function != "add":
                continue
            for value in op.inputs:
                dot, (first, second) = value.op, op.inputs
                if not isinstance(dot, Dot) or dot not in here or not self._fits(dot):
                    continue
                start = second if value is first else first
                if not self._is_loaded(start, here) or self._is_loaded(dot.a, here, dot.b):
                    self.products.add(dot.id)
                    self.sums[op.id] = dot
                    break

    def _is_loaded(self, value: Value, here: set[Op], *more: Value) -> bool:
        """Say whether a block loads what one of some values is made of."""
        wanted, seen = [value, *more], set[Op]()
        while wanted:
            op = wanted.pop().op
            if op is None or op not in here or op in seen:
                continue
            seen.add(op)
            if any(e.space == "global" and e.reads for e in op.own_effects()):
                return True
            wanted += op.operands
        return False

    def _fits(self, dot: Dot) -> bool:
        small = element_of(dot.a.type) in (F8E4M3, F8E5M2)
        return (
            self.uses[dot.result] == 1
            and dot.id not in self.products
            and not small
            and constant_of(dot.accumulator) == 0
        )


def _read(op: Op) -> tuple[Value, ...]:
    return (*op.operands, *(value for region in op.regions for value in region.yields))


__all__ = ["accumulate_products"]
