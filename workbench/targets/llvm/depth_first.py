"""Pure code in the order of who needs it, and how much of a function's code is alive at once.

A tile's op is written for all registers of a thread before the next op is, so a chain of ten ops on
sixteen elements holds sixteen values at each of its steps, and ptxas keeps much of the order that
it is given: sixteen sigmoids took 102 registers, and 32 written one after the other.

    a0 = exp x0        a0 = exp x0
    a1 = exp x1        b0 = add a0, 1
    b0 = add a0, 1     a1 = exp x1
    b1 = add a1, 1     b1 = add a1, 1

What is under way at once hides latency, too, so this is for code that more warps then have room
for: where 16 warps had 128 registers each, 98 of another order were 17 % slower on an H100.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

_NAME = re.compile(r"%v[0-9]+")
#: Instructions whose results take two registers, and those that take none of their own.
_TWO = re.compile(
    r"getelementptr|inttoptr|call (?:i64|double)|\w+ (?:n[su]w )*(?:i64|double)|.* to i64"
)
_NONE = re.compile(r"[if]cmp|extractelement|extractvalue|(?:and|or|xor) i1")
#: Runs of fewer lines stay as they are.
_FEWEST = 8


def depth_first(lines: Sequence[str], pure: Collection[str]) -> list[str]:
    """Return the lines of a function, runs of pure ones ordered by need if that holds less.

    A run lies between two lines that are not pure; what its lines give to others is computed in
    the order in which it was, each from its operands on. `pure`: the names of what has no effects.
    """
    names = [line[2 : line.index(" ", 2)] if line.startswith("  %v") else "" for line in lines]
    used = [_NAME.findall(line, len(name) + 2) for line, name in zip(lines, names, strict=True)]
    last = {operand: number for number, operands in enumerate(used) for operand in operands}
    written: list[str] = []
    start = 0
    for number, name in enumerate([*names, ""]):
        if name in pure:
            continue
        run = {names[i]: used[i] for i in range(start, number)}
        places = dict(zip(run, range(start, number), strict=True))
        late = {
            v for v in (*run, *(v for o in run.values() for v in o)) if last.get(v, 0) >= number
        }
        order = _by_need(run) if len(run) >= _FEWEST else run
        if order is not run and _most_held(order, run, late) >= _most_held(run, run, late):
            order = run
        written += [lines[places[n]] for n in order]
        written += lines[number : number + 1]
        start = number + 1
    return written


def _by_need(run: Mapping[str, Sequence[str]]) -> Collection[str]:
    inner = {v for operands in run.values() for v in operands if v in run}
    found: dict[str, None] = {}
    seen = set[str]()
    for sink in run:
        if sink in inner:
            continue
        seen.add(sink)
        work: list[tuple[str, Iterator[str]]] = [(sink, iter(run[sink]))]
        while work:
            name, left = work[-1]
            for operand in left:
                if operand in run and operand not in seen:
                    seen.add(operand)
                    work.append((operand, iter(run[operand])))
                    break
            else:
                found[name] = None
                work.pop()
    return found


def _most_held(
    order: Iterable[str], run: Mapping[str, Sequence[str]], late: Collection[str]
) -> int:
    """Return how many values are alive at once, of those that a run makes or uses up."""
    rest = Counter(v for operands in run.values() for v in operands)  # uses to come
    held = most = sum(1 for v in rest if v not in run and v not in late)
    for name in order:
        for v in run[name]:
            rest[v] -= 1
            if not rest[v] and v not in late:
                held -= 1
        held += name in rest or name in late
        most = max(most, held)
    return most


def most_alive(lines: Sequence[str]) -> int:
    """Return about how many registers a function's values take at once, loops taken as written."""
    last: dict[str, int] = {}
    for number, line in enumerate(lines):
        for operand in _NAME.findall(line.partition(" = ")[2] or line):
            last[operand] = number
    ends: dict[int, list[str]] = {}
    for name, number in last.items():
        ends.setdefault(number, []).append(name)
    size: dict[str, int] = {}
    alive = most = 0
    for number, line in enumerate(lines):
        alive -= sum(size.get(name, 0) for name in ends.get(number, ()))
        name, _, text = line.strip().partition(" = ")
        if name in last:
            size[name] = 0 if _NONE.match(text) else 2 if _TWO.match(text) else 1
            alive += size[name]
        most = max(most, alive)
    return most
