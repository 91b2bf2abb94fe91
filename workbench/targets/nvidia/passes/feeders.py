"""Loads that feed products which read tiles where copies of boxes leave them.

From registers too: what is moved to the threads that hold a product's operand they may read there,
and what they compute an operand of, element by element.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from workbench.ir import Module, Op, Shared, Value, shape_of
from workbench.layouts import swizzled, tensor_fits
from workbench.ops import For, counted_loops, pointee_of
from workbench.targets.simt.copying import Raised
from workbench.targets.simt.passes.costs import goes_through_registers
from workbench.targets.simt.passes.early_loads import loaded_early
from workbench.targets.simt.passes.staged_loads import (
    Early,
    Known,
    held_of_product,
    transposes,
)
from workbench.targets.simt.rules import Device


@dataclass(frozen=True, slots=True)
class Feeding:
    """A load, and the tile that products read: its own, or one without its axes of extent 1.

    `computed`: they do not read it, but what is computed of it, from registers.
    """

    load: Op
    how: Raised
    tile: Value
    computed: bool


class Feeders:
    """Finds the loads that feed products which read tiles where copies of boxes leave them."""

    def __init__(self, module: Module, chip: Device) -> None:
        self.module = module
        self.chip = chip
        self.rules = chip.rules
        self.uses: dict[Value, list[Op]] = {}
        #: Of what operands are made, element by element, that products read from registers.
        self.made: set[Value] = set()
        for op in module.walk():
            for operand in op.operands:
                self.uses.setdefault(operand, []).append(op)
        for op in reversed(list(module.walk())):  # users come first
            if (held := held_of_product(op, self.rules)) is not None:
                self.made.add(held)
            elif op.by_elements and not self.made.isdisjoint(op.results):
                self.made.update(op.operands)

    def groups(self) -> Iterator[tuple[For | None, list[Feeding]]]:
        """Yield the loads of each loop that feed products and would be copied ahead, if any do."""
        for loop in counted_loops(self.module.walk()):
            if loop.stages_in(self.module.attributes) < 2:
                continue
            found = [f for op in loop.body.ops if (f := self.feeding(op))]
            if not all(feeding.computed for feeding in found):
                yield loop, found

    def loaded_soon(self, loop: For) -> list[Op]:
        """Return the loads of a loop that threads make a round before they need them."""
        return loaded_early(Early(loop, Known(self.module, self.chip)))

    def stored_by_threads(self, loop: For) -> set[Op]:
        """Return the loads of a loop that threads would store to its ring, a round later."""
        known = Known(self.module, self.chip)
        here = set(map(id, loop.body.ops))
        found: set[Op] = set()
        for op in loop.body.ops:
            access = self.rules.access_of(op)
            if access is None or len(op.results) != 1 or not op.result.type.takes_layout:
                continue
            size = pointee_of(access.pointers.type).itemsize
            asked = goes_through_registers(known.on, access.pointers, access.mask, size)
            if asked and known.stored(op.result, here) is not None:
                found.add(op)
        return found

    def first(self) -> Iterator[tuple[For | None, list[Feeding]]]:
        """Yield the loads before all loops that feed products, if they may be copied ahead."""
        options = self.module.attributes
        if options.get("persistent") is not False and options.get("loads_first", True):
            for op in self.module.body.ops:
                found = self.feeding(op)
                if found is not None and not found.computed:
                    yield None, [found]

    def feeding(self, op: Op) -> Feeding | None:
        """Return a load and what products read of it; None if none does."""
        how = self.rules.raised_of(op)
        if how is None:
            return None
        feeding = Feeding(op, how, self._view(op.result), computed=False)
        if self.feeds(feeding, None):
            return feeding
        return Feeding(op, how, op.result, computed=True) if op.result in self.made else None

    def _view(self, tile: Value) -> Value:
        """Return a tile, or what alone is made of it, without its axes of extent 1."""
        users, shape = self.uses.get(tile, []), shape_of(tile.type)
        kept = [axis for axis, extent in enumerate(shape) if extent != 1]
        if len(kept) == len(shape) or len(users) != 1 or not users[0].moves:
            return tile
        (user,) = users
        longer = tuple(shape[axis] for axis in kept)
        if shape_of(user.result.type) != longer:
            return tile
        for new, axis in enumerate(kept):  # the last element along an axis is still that
            place = tuple(n - 1 if a == new else 0 for a, n in enumerate(longer))
            before = tuple(n - 1 if a == axis else 0 for a, n in enumerate(shape))
            if user.place_before(place) != before:
                return tile
        return user.result

    def feeds(self, feeding: Feeding, inner: int | None) -> bool:
        """Say whether a product reads a load's tile in a buffer whose rows are axis `inner`.

        Or what is made of it.
        """
        whole, element = feeding.tile, feeding.how.element
        shape = shape_of(whole.type)
        if feeding.computed:
            return inner is None or _fills(shape, element.itemsize, inner)
        if len(shape) != 2:
            return False
        turned = transposes(whole, self.uses)
        for order in ((0, 1), (1, 0)):
            if inner is not None and order[0] != inner:
                continue
            buffer = Shared(shape, element, swizzled(shape, element.itemsize, order))
            for tile in (whole, *turned):
                for user in self.uses.get(tile, []):
                    how = self.rules.in_place_of(user, tile, buffer, tile is not whole)
                    layout = None if how is None else how.buffer.layout
                    if self._is_held(user):
                        layout = swizzled(shape, element.itemsize, order, exchange=False)
                    if layout is not None and tensor_fits(layout, element.itemsize, order[0]):
                        return True
        return False

    def _is_held(self, op: Op) -> bool:
        """Say whether an op gives a tile to the threads that multiply it, from registers."""
        return op.moves and any(
            held_of_product(user, self.rules) is op.result
            for result in op.results
            for user in self.uses.get(result, [])
        )


def _fills(shape: tuple[int, ...], itemsize: int, inner: int) -> bool:
    """Say whether boxes fill a buffer of a tile whose rows are axis `inner`."""
    if len(shape) > 2:
        return False
    order = (inner,) if len(shape) == 1 else (inner, 1 - inner)
    layout = swizzled(shape, itemsize, order, exchange=False)
    return tensor_fits(layout, itemsize, inner) is not None
