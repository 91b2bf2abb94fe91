"""Makes a failing program small: ops go, values become constants, as long as it still fails."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from workbench.ir import (
    DROP,
    Block,
    Module,
    Op,
    Scalar,
    Value,
    element_of,
    print_module,
    rebuild,
    shape_of,
    verify_module,
)
from workbench.ops import Constant, Elementwise, For, If, Reduce, Scan, Store, While, Yield
from workbench.passes.cleanup import drop_dead, merge_equal
from workbench.passes.manager import Remarks
from workbench.source import KernelError

Fails = Callable[[Module], bool]
Change = Callable[[Op, Any], Any]


#: A changed program that runs longer has lost the end of a loop.
SECONDS = 3.0


class TooLongError(Exception):
    """A program that does not end."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Interrupt Python code that runs too long."""

    def stop(number: int, frame: Any) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def lines_of(module: Module) -> int:
    """Return how many ops a program has, which is how many lines it prints inside its body."""
    return len(print_module(module).splitlines()) - 2


def reduced(module: Module, fails: Fails) -> Module:
    """Return a small program that still fails; `fails` is asked about valid programs only."""

    def still(candidate: Module) -> bool:
        try:
            verify_module(candidate)
            with at_most(SECONDS):
                return fails(candidate)
        except (
            TooLongError,
            KernelError,
            AssertionError,
            IndexError,
            KeyError,
            ValueError,
            TypeError,
        ):
            return False  # not a program any more, or one that is not well defined

    module = _in_bulk(_without_effects(module, still), still)
    before = None
    while before is not module:
        before = module
        for change in _changes(module):
            candidate = _cleaned(rebuild(module, change))
            # Only a smaller program is progress, else two changes could undo each other.
            if _weight(candidate) < _weight(module) and still(candidate):
                module = candidate
    return module


def _cleaned(module: Module) -> Module:
    return merge_equal(drop_dead(module, Remarks()), Remarks())


def _weight(module: Module) -> tuple[int, int, int]:
    """Order programs: fewer ops, then fewer elements, then more constants."""
    ops = list(module.walk())
    elements = sum(_elements(v) for op in ops for v in op.results)
    return len(ops), elements, sum(not isinstance(op, Constant) for op in ops)


def _elements(value: Value) -> int:
    count = 1
    for extent in shape_of(value.type):
        count *= extent
    return count


def _without_effects(module: Module, still: Callable[[Module], bool]) -> Module:
    """Leave out halves, quarters, ... of the effects, then single ones."""
    effects = [op.id for op in module.walk() if not op.pure and not op.regions and not op.results]
    effects = [n for n in effects if not _ends_block(module, n)]
    size = max(1, len(effects) // 2)
    while effects:
        kept = list(effects)
        for start in range(0, len(effects), size):
            gone = set(effects[start : start + size])
            candidate = _cleaned(rebuild(module, lambda op, _, gone=gone: _drop(op, gone)))
            if still(candidate):
                module = candidate
                kept = [n for n in kept if n not in gone]
        if size == 1:
            break
        effects, size = kept, max(1, size // 2)
    return module


def _in_bulk(module: Module, still: Callable[[Module], bool]) -> Module:
    """Let loops give what they began with, and ops 0: many at once, the last ones first."""
    size = len(list(module.walk())) // 2
    while size >= 4:
        end = len(plain := _plain(module))
        while end > 0:
            chosen = set(plain[max(0, end - size) : end])
            change: Change = lambda op, build, chosen=chosen: (  # noqa: E731
                _simple(op, build) if op.id in chosen else None
            )
            candidate = _cleaned(rebuild(module, change))
            if _weight(candidate) < _weight(module) and still(candidate):
                module = candidate
                plain = _plain(module)
            end = min(end, len(plain)) - size
        size //= 2
    return module


def _plain(module: Module) -> list[int]:
    """Return the ops that `_simple` has something for."""
    combining = _combining(module)
    return [
        op.id
        for op in module.walk()
        if op.id not in combining
        and (isinstance(op, For | While) or (_is_number(op) and not isinstance(op, Constant)))
    ]


def _is_number(op: Op) -> bool:
    return len(op.results) == 1 and isinstance(element_of(op.results[0].type), Scalar)


def _simple(op: Op, build: Any) -> Any:
    if isinstance(op, For | While):
        return op.inits
    element = element_of(op.results[0].type)
    assert isinstance(element, Scalar)
    return build.add(Constant(0.0 if element.is_float else 0, op.results[0].type))


def _combining(module: Module) -> set[int]:
    """Return what reductions combine by, which stays associative, or they would mean nothing."""
    return {
        inner.id for op in module.walk() if isinstance(op, Reduce | Scan)
        for inner in op.combine.ops
    }  # fmt: skip


def _drop(op: Op, gone: set[int]) -> Any:
    return DROP if op.id in gone else None


def _ends_block(module: Module, number: int) -> bool:
    def blocks(block: Block) -> Iterator[Block]:
        yield block
        for op in block.ops:
            for region in op.regions:
                yield from blocks(region)

    return any(block.ops[-1].id == number for block in blocks(module.body))


def _changes(module: Module) -> Iterator[Change]:
    """Yield rewrites that each make one op simpler, the last ops first."""
    combining = _combining(module)
    for op in reversed(list(module.walk())):
        number = op.id
        if number in combining:
            continue
        if isinstance(op, Store):
            yield lambda o, b, n=number: DROP if o.id == n else None
            if op.mask is not None:
                yield lambda o, b, n=number: o.changed(mask=None) if o.id == n else None
        if isinstance(op, For | While):
            yield lambda o, b, n=number: o.inits if o.id == n else None
        if isinstance(op, If):
            for branch in (0, 1):
                yield lambda o, b, n=number, k=branch: _taken(o, k) if o.id == n else None
        if isinstance(op, Reduce | Scan) and len(op.combine.ops) > len(op.inputs) + 1:
            yield lambda o, b, n=number: o.changed(combine=_largest(o, b)) if o.id == n else None
        if len(op.results) == 1 and not isinstance(op, Constant):
            yield from _operands(op)
            yield from _constants(op)


def _largest(op: Reduce | Scan, build: Any) -> Block:
    """Return a combination that is as good as any: the largest of each input."""
    arguments, count = op.combine.arguments, len(op.inputs)
    pairs = zip(arguments[:count], arguments[count:], strict=True)
    with build.block() as ops:
        found = tuple(build.add(Elementwise("max", pair)) for pair in pairs)
        build.insert(Yield(found))
    return Block(arguments, tuple(ops))


def _operands(op: Op) -> Iterator[Change]:
    """Put an operand of the same type in an op's place."""
    for place, operand in enumerate(op.operands):
        if operand.type == op.results[0].type:
            yield lambda o, b, n=op.id, k=place: _operand(o, k) if o.id == n else None


def _operand(op: Op, place: int) -> Value | None:
    """Return an operand; a change made meanwhile may have taken it away."""
    return op.operands[place] if place < len(op.operands) else None


def _taken(op: If, branch: int) -> Any:
    """Return what a branch of pure constants yields; other branches stay."""
    block = op.regions[branch]
    return block.yields if len(block.ops) == 1 else None


def _constants(op: Op) -> Iterator[Change]:
    type, element = op.results[0].type, element_of(op.results[0].type)
    if not isinstance(element, Scalar):
        return
    for number in (0, 1, 3):
        value: Any = float(number) if element.is_float else number
        if element.kind == "bool" and number > 1:
            continue
        yield lambda o, b, n=op.id, v=value: b.add(Constant(v, type)) if o.id == n else None
