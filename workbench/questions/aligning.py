"""The first op at which two runs of a program part: before and after a pass, or of two versions.

Ops of the two modules are paired first, by their ids and origins (`by_id`) or by what they are
(`by_kind`). Events of paired ops then stand beside each other round by round. The first pair whose
tiles differ, in the order of the right run, need not be where the fault is: if it only reads
something else, what it reads stands in no pair, and is what went wrong.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

import numpy as np

from workbench.ir import Block, Module, Op, Pointer, Scalar, Tile, Value, element_of, shape_of
from workbench.ops import Load, Store
from workbench.ops.control import For, If, While, Yield
from workbench.questions.running import Event, Run, differing

#: (op of the wrong module) -> op of the right one
Pairs = dict[Op, Op]


@dataclass(slots=True)
class Parting:
    """Where two runs part.

    `right` and `wrong` are the events that differ, None where an op stands on one side only.
    `how`: "value" (the op gives something else), "operand" (it reads something else), "gone" (it
    is not there any more), "rounds" (it runs more or less often). `tiles` are the right and the
    wrong tile, `where` says where they differ. "kept" is an op that the pass gave another name
    and that the wrong run, which an error ended, did not reach.
    """

    right: Event | None
    wrong: Event | None
    how: str
    tiles: tuple[Any, Any] | None = None
    where: np.ndarray[Any, Any] | None = None

    @property
    def op(self) -> Op:
        """The op that is named: the right run's, if it has one."""
        event = self.right or self.wrong
        assert event is not None
        return event.op


def by_id(right: Module, wrong: Module) -> Pairs:
    """Pair the ops of a module with those of what a pass made of it."""
    known = {op.id: op for op in right.walk()}
    present = {op.id for op in wrong.walk()}
    pairs: Pairs = {}
    for ops in _blocks(wrong.body):
        for place, op in enumerate(ops):
            same = known.get(op.id)
            if same is not None:
                pairs[op] = same
                continue
            origins = [known[number] for number in op.origins if number in known]
            if len(origins) != 1 or (origins[0].id in present and not _copies(op, origins[0])):
                continue
            origin = origins[0]
            # Of several ops that came of one, the last has its value.
            later = (n for n in ops[place + 1 :] if n.id not in known)
            if _fits(op, origin) and not any(
                n.origins == op.origins and _fits(n, origin) and _reads(n, op) for n in later
            ):
                pairs[op] = origin
    return pairs


def _copies(op: Op, origin: Op) -> bool:
    """Whether an op may be a further copy of one that is still there."""
    return type(op) is type(origin) and op.name == origin.name


def _reads(op: Op, other: Op) -> bool:
    return any(value in other.results for value in op.operands)


def _fits(op: Op, origin: Op) -> bool:
    if len(op.results) != len(origin.results):
        return False
    return all(
        shape_of(a.type) == shape_of(b.type)
        for a, b in zip(op.results, origin.results, strict=True)
    )


def by_kind(right: Module, wrong: Module) -> Pairs:
    """Pair the ops of two versions of a kernel: in order, by what they are."""
    ones, others = list(_all(right.body)), list(_all(wrong.body))
    matcher = SequenceMatcher(None, [*map(_kind, ones)], [*map(_kind, others)], autojunk=False)
    pairs: Pairs = {}
    for tag, a, a_end, b, b_end in matcher.get_opcodes():
        if tag == "equal":
            pairs.update(zip(others[b:b_end], ones[a:a_end], strict=True))
        elif tag == "replace":
            _pair_replaced(ones[a:a_end], others[b:b_end], pairs)
    return pairs


def _pair_replaced(ones: Sequence[Op], others: Sequence[Op], pairs: Pairs) -> None:
    """Pair what stands in one place and is of one class, in order."""
    matcher = SequenceMatcher(None, [*map(_class, ones)], [*map(_class, others)], autojunk=False)
    for a, b, size in matcher.get_matching_blocks():
        pairs.update(zip(others[b : b + size], ones[a : a + size], strict=True))


def _kind(op: Op) -> tuple[Any, ...]:
    held = tuple((name, str(value)) for name, value in op.attributes.items())
    return (op.name, *(str(v.type) for v in op.results), held, len(op.operands))


def _class(op: Op) -> tuple[Any, ...]:
    return (type(op), *(str(v.type) for v in op.results))


def _all(block: Block) -> Iterable[Op]:
    for ops in _blocks(block):
        yield from ops


def _blocks(block: Block) -> Iterable[Sequence[Op]]:
    """Yield the ops of each block of control flow; stretches between nested blocks in order."""
    stretch: list[Op] = []
    for op in block.ops:
        stretch.append(op)
        if isinstance(op, For | While | If):
            yield stretch
            stretch = []
            for region in op.regions:
                yield from _blocks(region)
    if stretch:
        yield stretch


def first_parting(
    right: Run, wrong: Run, pairs: Pairs, *, versions: bool = False
) -> Parting | None:
    """Return where two runs part, None if all that stands in pairs is the same.

    Of `versions`, who reads another value than the right one does is wrong; of a pass, what it
    put in a value's place.
    """
    return _Search(right, wrong, pairs, versions).find()


class _Search:
    def __init__(self, right: Run, wrong: Run, pairs: Pairs, versions: bool) -> None:
        self.versions = versions
        self.right, self.wrong, self.pairs = right, wrong, pairs
        self.counterparts: dict[int, list[Event]] = defaultdict(list)  # right event -> wrong ones
        self.back: dict[int, Event] = {}  # wrong event -> right one
        self.uneven: list[Op] = []
        rounds: dict[Op, list[Event]] = defaultdict(list)
        copies: dict[Op, list[Event]] = defaultdict(list)  # of each wrong op
        for event in right.events:
            rounds[event.op].append(event)
        for event in wrong.events:
            if event.op in pairs:
                copies[event.op].append(event)
        of_op: dict[Op, list[list[Event]]] = defaultdict(list)
        for op, events in copies.items():
            of_op[pairs[op]].append(events)
        for op in dict.fromkeys((*rounds, *of_op)):
            self._beside(op, rounds[op], of_op[op])

    def _beside(self, op: Op, ones: list[Event], copies: list[list[Event]]) -> None:
        """Put the rounds of an op beside those of its copies.

        Copies run as often as the op does, each (a value in two layouts), or share its rounds
        among them (those in front of a loop and those in it).
        """
        whole = [others for others in copies if len(others) == len(ones)]
        if not whole:
            whole = [sorted((e for others in copies for e in others), key=lambda e: e.number)]
        for others in whole:
            if len(ones) != len(others):
                self.uneven.append(op)
            # Loops that end early agree until they do.
            for one, other in zip(ones, others, strict=False):
                self.counterparts[one.number].append(other)
                self.back[other.number] = one

    def find(self) -> Parting | None:
        ended = self.wrong.error is not None and not self.versions
        if ended and (kept := self._renamed()) is not None:
            assert kept.right is not None
            earlier = self._wrong_before(kept.right.number)
            return kept if earlier is None else self._origin(earlier)
        concerned = self._concerned()
        for within in (concerned, None):
            for event in self.right.events:
                if within is not None and event.number not in within:
                    continue
                found = self._parted(event)
                if found is not None:
                    return self._origin(found)
        return None

    def _renamed(self) -> Parting | None:
        """Return the first op under one id that is another op after the pass, and did not run."""
        ran = {event.op for event in self.wrong.events}
        renamed = {
            one: other
            for other, one in self.pairs.items()
            if one.id == other.id and one.name != other.name and other not in ran
        }
        for event in self.right.events if renamed else ():
            other = renamed.get(event.op)
            if other is not None:
                return Parting(event, Event(-1, other, 0, (), (), ()), "kept")
        return None

    def _wrong_before(self, number: int) -> Parting | None:
        """Return the first parting among what ran in both runs, and in the right one by then.

        What an error kept from running is not wrong for that.
        """
        found = (self._parted(event) for event in self.right.events[:number])
        return next((p for p in found if p is not None and p.wrong is not None), None)

    def _concerned(self) -> set[int]:
        """Return the events of the right run that what is stored wrongly depends on."""
        todo: list[int] = []
        for event in self.right.events:
            if event.op.writes_memory:
                found = self._parted(event)
                if found is not None:
                    todo.append(event.number)
        reached: set[int] = set()
        while todo:
            number = todo.pop()
            if number < 0 or number in reached:
                continue
            reached.add(number)
            todo += self.right.events[number].sources
        # What decides how often loops run is read by nobody.
        loops = [e for e in self.right.events if isinstance(e.op, For)]
        if reached:
            for loop in loops:
                todo += [loop.number, *loop.sources]
        while todo:
            number = todo.pop()
            if number >= 0 and number not in reached:
                reached.add(number)
                todo += self.right.events[number].sources
        return reached

    def _parted(self, event: Event) -> Parting | None:
        """Say how an event of the right run differs from its counterpart, None if it does not."""
        others = self.counterparts.get(event.number, [])
        if not others:
            gone = event.op.writes_memory and event.op not in self.pairs.values()
            fewer = event.op.writes_memory and event.op in self.uneven
            return Parting(event, None, "gone" if gone else "rounds") if gone or fewer else None
        found = (self._parted_from(event, other) for other in others)
        return next((parting for parting in found if parting is not None), None)

    def _parted_from(self, event: Event, other: Event) -> Parting | None:
        if self.wrong.error is not None and any(e.later for e in other.op.own_effects()):
            return None  # it was under way when the run ended, and holds nothing yet
        for mine, theirs, value in zip(
            event.results, other.results, event.op.results, strict=False
        ):
            if not _is_number(value):
                continue
            where = differing(mine, theirs, str(element_of(value.type)))
            if where.any():
                return Parting(event, other, "value", (mine, theirs), where)
        if not event.results and not isinstance(event.op, Yield):
            return self._parted_inputs(event, other)
        return None

    def _parted_inputs(self, event: Event, other: Event) -> Parting | None:
        live = None
        if isinstance(event.op, Store) and event.op.mask is not None:
            live = event.inputs[2]
        for place, (mine, theirs) in enumerate(zip(event.inputs, other.inputs, strict=False)):
            if isinstance(event.op, For) and place >= 3:
                break
            value = event.op.operands[place]
            if not _is_number(value):
                continue
            where = differing(mine, theirs, str(element_of(value.type)))
            if live is not None and place < 2 and np.shape(live) == where.shape:
                where = where & np.asarray(live)
            if where.any():
                return Parting(event, other, "operand", (mine, theirs), where)
        if len(event.inputs) != len(other.inputs) and isinstance(event.op, Store):
            # A mask that only one of them has must hold everywhere.
            longer = event if len(event.inputs) > len(other.inputs) else other
            off = ~np.asarray(longer.inputs[2])
            if off.any():
                return Parting(event, other, "operand", (longer.inputs[2], ~off | True), off)
        return None

    def _origin(self, found: Parting) -> Parting:
        """Go back from what differs first to what made it differ."""
        seen: set[tuple[int, int]] = set()
        while found.right is not None and found.wrong is not None:
            right, wrong = found.right, found.wrong
            if (right.number, wrong.number) in seen:
                break
            seen.add((right.number, wrong.number))
            step = self._step(right, wrong)
            if step is None:
                break
            found = step
            if found.how != "again":
                return found
        return found

    def _step(self, right: Event, wrong: Event) -> Parting | None:
        """Return the operand that differs, and who made it; None: the fault is here."""
        if type(right.op) is not type(wrong.op) or len(right.inputs) != len(wrong.inputs):
            return None
        for place, (mine, theirs) in enumerate(zip(right.inputs, wrong.inputs, strict=True)):
            if isinstance(right.op, For) and place >= 3:
                return None
            if not _is_number(right.op.operands[place]):
                continue
            where = differing(mine, theirs, str(element_of(right.op.operands[place].type)))
            access = isinstance(right.op, Load | Store) and place > 0
            if where.any() and not (access and not _matters(right, wrong, where)):
                return self._made(right, wrong, place, (mine, theirs), where)
        return None

    def _made(
        self, right: Event, wrong: Event, place: int, tiles: tuple[Any, Any],
        where: np.ndarray[Any, Any],
    ) -> Parting | None:  # fmt: skip
        """Say who made an operand that differs; None where the op itself reads the wrong one."""
        one, other = right.sources[place], wrong.sources[place]
        if one < 0 or other < 0:
            return None
        a, b = self.right.events[one], self.wrong.events[other]
        if any(b is known for known in self.counterparts.get(one, ())):
            return Parting(a, b, "again", tiles, where)
        if b.number in self.back:  # made elsewhere in the right run, too: it reads another
            if a.op is self.pairs.get(b.op):
                return Parting(a, b, "rounds", tiles, where)
            carried = wrong.op.operands[place].op is None  # then who yields it chose it
            if (self.versions and not carried) or a.op in self.pairs.values():
                return None
        return Parting(a, b, "value", tiles, where)


def _is_number(value: Value) -> bool:
    """Whether a value is what it holds: which buffer or barrier one is says nothing."""
    return isinstance(value.type, Scalar | Pointer | Tile)


def _matters(right: Event, wrong: Event, where: np.ndarray[Any, Any]) -> bool:
    """Whether an operand of an access differs in a lane that is on in either run."""
    masks = [
        np.asarray(event.inputs[event.op.operands.index(mask)])
        for event in (right, wrong)
        if (mask := getattr(event.op, "mask", None)) is not None
    ]
    return (
        len(masks) < 2
        or bool((where & (masks[0] | masks[1])).any())
        or any(mask.shape != where.shape for mask in masks)
    )
