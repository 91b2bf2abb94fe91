"""Which numbers of 64 bits are far from the ends of these, so that their bytes fit, too.

Exact integers are (analysis/ranges.py). What an author computes in 64 bits is any number: a hash,
or an index where a mask is off.
"""

from __future__ import annotations

from collections.abc import Sequence

from workbench.analysis.transfer import MOVES
from workbench.ir import Module, Pointer, Scalar, Value, element_of
from workbench.ops import AddPointer, Cast, Constant, Elementwise


def room_in(module: Module) -> Room:
    """Return what is known of a module's numbers; it is found once."""
    return module.once("room of numbers", lambda: Room(module))


class Room:
    """Numbers far from the ends of 64 bits, and pointers that such have moved."""

    def __init__(self, module: Module) -> None:
        self._given: dict[Value, list[Value]] = {}
        for op in module.walk():
            for given, received in op.flows():
                self._given.setdefault(received, []).append(given)
        self._found: dict[Value, bool] = {}

    def has(self, value: Value) -> bool:
        """Say whether all that a value is made of is such; each is looked at once."""
        if value not in self._found:
            seen, waiting, found = {value}, [value], True
            while waiting and found:
                one = waiting.pop()
                if (known := self._found.get(one)) is not None:
                    found = known
                    continue
                more = self._made_of(one)
                found = more is not None
                waiting += [other for other in more or () if other not in seen]
                seen.update(more or ())
            # Where all of it has room, so has all that was met.
            self._found.update(dict.fromkeys(seen if found else (value,), found))
        return self._found[value]

    def _made_of(self, value: Value) -> Sequence[Value] | None:
        """Return what has to have room for a value to have some, None if it has none."""
        element, made = element_of(value.type), value.op
        if isinstance(element, Scalar) and element.bits <= 32:
            return ()
        if given := self._given.get(value):
            return given
        if isinstance(made, Cast) and element_of(made.source.type).is_float:
            return None  # which saturates at the ends of 64 bits
        if made is not None and (isinstance(made, AddPointer | Cast) or type(made) in MOVES):
            return made.operands
        if isinstance(element, Pointer) or isinstance(made, Constant):
            return ()
        return () if isinstance(made, Elementwise) and made.no_wrap else None
