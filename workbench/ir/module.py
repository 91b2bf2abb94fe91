"""A kernel in the IR: its parameters, its body, and how one goes through its ops."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from workbench.ir.operation import Block, Op, Value


@dataclass(frozen=True, slots=True)
class KernelParameter:
    """A run-time argument of the kernel and what is known about it.

    `divisible` divides the value (of a pointer: the address in bytes); `low` and `high` bound an
    integer; `noalias` says that no stored argument's memory overlaps a pointer's.
    """

    name: str
    value: Value
    divisible: int = 1
    low: int | None = None
    high: int | None = None
    noalias: bool = False


Found = TypeVar("Found")


@dataclass(frozen=True, slots=True, eq=False)
class Module:
    """One kernel: parameters, body, and what the whole of it carries.

    `attributes` holds plain data such as num_warps; `next_id` is the id of the next new op.
    """

    name: str
    parameters: tuple[KernelParameter, ...]
    body: Block
    attributes: dict[str, Any]
    next_id: int
    _ops: tuple[Op, ...] = field(default=(), init=False, repr=False)
    _found: dict[Hashable, Any] = field(default_factory=dict[Hashable, Any], init=False, repr=False)

    def walk(self) -> Iterator[Op]:
        """Return every op, outer before inner, in program order; the way is gone once."""
        if not self._ops:
            object.__setattr__(self, "_ops", tuple(walk(self.body)))
        return iter(self._ops)

    def once(self, key: Hashable, find: Callable[[], Found]) -> Found:
        """Return what `find` finds of this module, which never changes; it is asked once for a key.

        The key names who asks and holds all that the answer depends on besides. Who gets the
        answer leaves it as it is. Where an error is raised, the next one asks again.
        """
        if key not in self._found:
            self._found[key] = find()
        return self._found[key]


def walk(block: Block) -> Iterator[Op]:
    """Yield every op of a block and of its regions, outer before inner, in program order."""
    ops = iter(block.ops)
    outer: list[Iterator[Op]] = []
    while True:
        for op in ops:
            yield op
            if op.regions:
                outer.append(ops)
                outer += [iter(region.ops) for region in reversed(op.regions)]
                break
        if not outer:
            return
        ops = outer.pop()
