"""What hints do to the code of every kernel of the tests: it never gets worse.

    python -m tests.bench.hints [--jobs N] [WORD ...]

Every kernel of tests/kernels (the corpus with its launches, those that passes are tried on, large
tiles, attention) runs in the interpreter, which tells what holds of its numbers in all programs and
rounds. All of that is then said: `tl.multiple_of`, `tl.max_contiguous`, `tl.max_constancy` beside
the numbers, `tl.assume` of the arguments; and loops get each hint that `tl.range` takes, accesses
each cache modifier and eviction policy. With each of these the PTX of sm_90a has to access memory
as wide as without it, copy ahead what it did, and be hardly longer. WORDs choose kernels and hints
by parts of their names; the exit status is 1 where something is worse.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from math import gcd
from typing import Any

import numpy as np

from tests.analysis.watching import Watched
from tests.corpus import every
from tests.corpus.sample import Maker, jitted
from tests.kernels import attention
from tests.passes.corpus import Case, cases, numbers, tile_ir
from tests.targets.nvidia import test_scratch
from tests.targets.nvidia.test_ptx import CODE
from workbench.interpreter.machine import Machine
from workbench.ir import (
    Array,
    Block,
    Module,
    Op,
    Pointer,
    Scalar,
    Value,
    element_of,
    print_module,
    rebuild,
    shape_of,
    walk,
)
from workbench.ir.rebuild import Rebuilder
from workbench.ops import AddPointer, Assume, Constant, Elementwise, For, If, Load, Promise, Store
from workbench.passes.manager import Recorder
from workbench.passes.pipeline import tile_passes
from workbench.runtime import interpreted
from workbench.targets.nvidia.pipeline import build

CHIP = "sm_90a"
#: Programs that are looked at; more of them say nothing new.
MOST_PROGRAMS = 64
Grid = tuple[int, int, int]


# -- the kernels, and what holds of their numbers -----------------------------------------------
@dataclass(frozen=True)
class Run:
    """What of an integer or a pointer held whenever it was looked at, along each axis.

    Lengths of aligned runs of consecutive and of equal numbers (pointers: of neighbours), and what
    divides the first of the former (pointers: its address).
    """

    contiguous: tuple[int, ...]
    constant: tuple[int, ...]
    divisible: tuple[int, ...]

    def both(self, other: Run) -> Run:
        """Return what held here and there: all are powers of two."""
        return Run(*(
            tuple(map(min, getattr(self, name), getattr(other, name)))
            for name in ("contiguous", "constant", "divisible")
        ))  # fmt: skip


@dataclass
class Kernel:
    """Tile IR as the front end made it, and what held of its values in a run."""

    name: str
    module: Module
    runs: dict[Value, Run] = field(default_factory=dict[Value, Run])
    arguments: dict[Value, int] = field(default_factory=dict[Value, int])

    def look(self, frame: Watched, op: Op, value: Value, array: Array) -> None:
        """Note what holds of a value now."""
        element, shape = element_of(value.type), shape_of(value.type)
        if not _is_said_of(op, value) or np.shape(array) != shape:
            return
        step = element.pointee.itemsize if isinstance(element, Pointer) else 1
        lines = np.asarray(array, np.int64).reshape(shape or (1,))
        axes = [_runs(np.moveaxis(lines, axis, -1), step) for axis in range(lines.ndim)]
        now = Run(*zip(*axes, strict=True))
        before = self.runs.get(value)
        self.runs[value] = now if before is None else now.both(before)

    def watch(self, grid: Sequence[int], arguments: Sequence[Any]) -> None:
        """Run the kernel, and note what holds."""
        machine = Machine(self.module, grid, arguments)
        for parameter, given in zip(self.module.parameters, arguments, strict=True):
            element = element_of(parameter.value.type)
            if isinstance(element, Scalar) and element.is_integer and element.kind != "bool":
                self.arguments[parameter.value] = int(given)
        x, y, z = (*grid, 1, 1)[:3]
        programs = [(i, j, k) for k in range(z) for j in range(y) for i in range(x)]
        for number, program in enumerate(programs):
            # The rest must run too: other launches may read what they write.
            chosen = number < MOST_PROGRAMS or number + 4 > len(programs)
            look = self.look if chosen else lambda frame, op, value, array: None
            Watched(machine, program, look).run(self.module.body, ())


def _is_said_of(op: Op, value: Value) -> bool:
    """Say whether authors would say something of a value: counts, offsets, pointers."""
    element = element_of(value.type)
    if isinstance(element, Pointer):
        return isinstance(op, AddPointer)
    return element.kind in ("index", "int") and op.pure and not isinstance(op, Constant)


def _runs(lines: Array, step: int) -> tuple[int, int, int]:
    """Return how long aligned runs of neighbours and of equal numbers are, and what divides."""
    lengths = []
    for distance in (step, 0):
        length = 1
        while lines.shape[-1] % (2 * length) == 0:
            runs = lines.reshape(-1, 2 * length)
            if np.any(np.diff(runs) != distance):
                break
            length *= 2
        lengths.append(length)
    first = np.ones(lines.shape, bool)
    first[..., 1:] = np.diff(lines) != step
    divisor = int(np.gcd.reduce(lines[first], initial=64))
    return lengths[0], lengths[1], divisor & -divisor


def kernels() -> Iterator[Kernel]:
    """Yield all kernels with what holds of them."""
    yield from map(watched, cases())
    yield from corpus()
    for large in test_scratch.SMALL:
        found = Kernel(large.name, large.module())
        found.watch((1, 1, 1), large.arguments())
        yield found
    yield attention_backward()


def watched(case: Case) -> Kernel:
    """Return a kernel that passes are tried on."""
    found = Kernel(case.name, case.module())
    found.watch(case.grid, case.arguments())
    return found


def corpus(*names: str) -> Iterator[Kernel]:
    """Yield each launch of each sample (of these names) at a small size, in its first type."""
    held: list[Kernel] = []

    def instead(kernel: Any, grid: Grid, values: Any) -> None:
        held.append(Kernel("", kernel.module))
        held[-1].watch(grid, values)

    for entry in every.SAMPLES:
        if names and entry.name not in names:
            continue
        problem = entry.build(Maker(entry.dtypes[0]), *entry.fast[-1])
        for number, launch in enumerate(problem.launches):
            real, interpreted.interpret = interpreted.interpret, instead
            try:
                jitted(launch.kernel)[launch.grid](
                    *launch.arguments, **launch.named, target="interpreter"
                )
            finally:
                interpreted.interpret = real
            for found in held:
                found.name = f"{entry.suite} {entry.name} {number}"
                yield found
            held.clear()


def attention_backward() -> Kernel:
    """Return the backward pass of attention, small."""
    rows, head = 64, 32
    constexprs = {"BLOCK_M1": 32, "BLOCK_N1": 64, "BLOCK_M2": 64, "BLOCK_N2": 32, "SLICE": 2,
                  "HEAD": head}  # fmt: skip
    module = tile_ir(
        attention.attention_backward,
        "*fp16:16 *fp16:16 *fp16:16 f32 *fp16:16 *fp16:16 *fp16:16 *fp16:16 *fp32:16 *fp32:16 "
        "i32:16 i32:16 i32:16 i32=1 i32 i32:16",
        constexprs, num_warps=4, num_stages=2,
    )  # fmt: skip
    found = Kernel("attention backward", module)
    halves = [numbers(rows * head, np.float16, seed) for seed in range(7)]
    lines = [numbers(rows, np.float32, seed) for seed in range(2)]
    size = rows * head
    found.watch(
        (1, 1, 1),
        [*halves[:3], 1.0, *halves[3:], *lines, size, size, head, 1, rows],
    )  # fmt: skip
    return found


# -- hints ----------------------------------------------------------------------------------------
Said = Callable[[Value, Run], Promise | None]


class _Promising(Rebuilder):
    """Puts what is said of values behind the ops that compute them."""

    def __init__(self, kernel: Kernel, said: Said) -> None:
        super().__init__(kernel.module, lambda op, builder: None)
        self.kernel = kernel
        self.said = said

    def op(self, op: Op) -> None:
        super().op(op)
        for result in op.results:
            run = self.kernel.runs.get(result)
            promise = self.said(self.values.get(result, result), run) if run is not None else None
            if promise is not None:
                self.values[result] = self.builder.insert(promise).results[0]


def promised(kernel: Kernel, said: Said) -> Module:
    """Return the kernel with promises."""
    rebuilder = _Promising(kernel, said)
    body = rebuilder.block(kernel.module.body)
    return replace(kernel.module, body=body, next_id=rebuilder.builder.next_id)


def _says(*names: str, of: str = "all") -> Callable[[Kernel], Module]:
    """Return the hint that says these properties of all values of a kind."""

    def said(value: Value, run: Run) -> Promise | None:
        is_pointer = isinstance(element_of(value.type), Pointer)
        kinds = {"pointers": is_pointer, "scalars": not shape_of(value.type),
                 "offsets": not is_pointer and bool(shape_of(value.type))}  # fmt: skip
        if not kinds.get(of, True):
            return None
        shape = shape_of(value.type)
        words = {name: getattr(run, name) for name in names if shape or name == "divisible"}
        return Promise(value, **words) if any(max(word) > 1 for word in words.values()) else None

    return partial(promised, said=said)


def assuming(kernel: Kernel) -> Module:
    """Return the kernel with what its integer arguments are: sign, a bound, what divides them."""

    class Assuming(Rebuilder):
        def block(self, block: Block) -> Block:
            new = super().block(block)
            if block is not kernel.module.body:
                return new
            with self.builder.block() as ops:
                for parameter, number in kernel.arguments.items():
                    for name, value, bound in _true_of(self, parameter, number):
                        constant = self.builder.add(Constant(bound, parameter.type))
                        holds = self.builder.add(Elementwise(name, (value, constant)))
                        self.builder.insert(Assume(holds))
            return Block(new.arguments, (*ops, *new.ops))

    rebuilder = Assuming(kernel.module, lambda op, builder: None)
    body = rebuilder.block(kernel.module.body)
    return replace(kernel.module, body=body, next_id=rebuilder.builder.next_id)


def _true_of(to: Rebuilder, value: Value, number: int) -> Iterator[tuple[str, Value, int]]:
    yield ("gt", value, 0) if number > 0 else ("ge", value, number)
    yield "le", value, max(1, number) * 2
    divisor = gcd(number, 16)
    if divisor > 1:
        constant = to.builder.add(Constant(divisor, value.type))
        yield "eq", to.builder.add(Elementwise("rem", (value, constant))), 0


def with_loops(kernel: Kernel, stages: int | None = None, **hints: Any) -> Module:
    """Return the kernel with hints on all its loops."""

    def rewrite(op: Op, builder: Any) -> Op | None:
        if not isinstance(op, For):
            return None
        given = tuple({**dict(op.hints), **hints}.items())
        return op.changed(stages=op.stages if stages is None else stages, hints=given)

    return rebuild(kernel.module, rewrite)


def with_access(kernel: Kernel, load: str = "", store: str = "", eviction: str = "") -> Module:
    """Return the kernel with a hint on all its accesses that have none."""

    def rewrite(op: Op, builder: Any) -> Op | None:
        if not isinstance(op, Load | Store) or op.cache or op.eviction:
            return None
        if isinstance(op, Load) and op.volatile:
            return None
        return op.changed(cache=load if isinstance(op, Load) else store, eviction=eviction)

    return rebuild(kernel.module, rewrite)


@dataclass(frozen=True)
class Hint:
    """A way to say something; `longer`: how much longer code may be by it, None: as it likes."""

    name: str
    write: Callable[[Kernel], Module]
    longer: float | None = 0.03


ALL = ("contiguous", "constant", "divisible")
HINTS = [
    Hint("all promises", _says(*ALL)),
    Hint("promises of offsets", _says(*ALL, of="offsets")),
    Hint("promises of pointers", _says("contiguous", "divisible", of="pointers")),
    Hint("promises of scalars", _says("divisible", of="scalars")),
    *(Hint(f"only {name}", _says(name)) for name in ALL),
    Hint("assumptions", assuming),
    *(Hint(f"num_stages={n}", partial(with_loops, stages=n), None) for n in (2, 3, 5)),
    *(Hint(f"loop_unroll_factor={n}", partial(with_loops, loop_unroll_factor=n), None)
      for n in (2, 3)),
    # What is computed again in each round is what the author asked for.
    Hint("disable_licm", partial(with_loops, disable_licm=True), 0.25),
    *(Hint(name, partial(with_loops, **{name: True}), 0.0)
      for name in ("flatten", "warp_specialize", "disallow_acc_multi_buffer")),
    *(Hint(f"eviction_policy={word}", partial(with_access, eviction=word))
      for word in ("evict_first", "evict_last", "evict_normal")),
    *(Hint(f"cache_modifier={load},{store}", partial(with_access, load=load, store=store))
      for load, store in (("ca", "wb"), ("cg", "cs"), ("cv", "wt"))),
]  # fmt: skip


# -- the code -------------------------------------------------------------------------------------
@dataclass
class Code:
    """What of the PTX matters: bytes of the accesses by op and kind, and how many instructions.

    Without those of the block at the edge; `whole` counts these too.
    """

    accesses: dict[tuple[int, str], list[int]]
    count: int
    whole: int

    def narrowest(self, key: tuple[int, str]) -> int:
        """Return the bytes of an op's narrowest access of a kind; 0 where it has none."""
        return min(self.accesses.get(key, [0]))


_ACCESS = re.compile(r"\b(ld|st)(?:\.volatile)?\.global(\S*)|\b(cp\.async\.c[ag])\S* [^;]*")
_LENGTH = re.compile(r"\], (\d+)")


def code_of(module: Module, known: dict[str, Code]) -> Code:
    """Compile tile IR and look at its PTX; what the block at the edge does is left aside.

    `known`: the code of tile IR by its text after the passes for all targets.
    """
    recorder = Recorder()
    source = module
    given = {name: value for name, value in module.attributes.items() if value is not None}
    module = replace(module, attributes={"num_warps": 4, **given, "narrow_index": True})
    module = tile_passes(module, recorder)
    text = print_module(module)
    if text not in known:
        known[text] = _compiled(module, source, recorder)
    return known[text]


def _compiled(module: Module, source: Module, recorder: Recorder) -> Code:
    built = build(module, CHIP, recorder)
    assert built.gpu is not None
    roots = _Roots(source, recorder, built.gpu)
    rows, edge = built.texts["ptx"](), at_the_edge(built.gpu)
    accesses: dict[tuple[int, str], list[int]] = {}
    count = whole = 0
    for line, ops in zip(rows.text.splitlines(), rows.rows, strict=True):
        if not CODE["ptx"].match(line):
            continue
        whole += 1
        if ops and edge.issuperset(ops):
            continue
        count += 1
        found = _ACCESS.search(line)
        if found is not None:
            kind = "copy" if found[3] else found[1]
            for op in ops:
                for root in roots(op):
                    accesses.setdefault((root, kind), []).append(_bytes(found))
    return Code(accesses, count, whole)


def _bytes(found: re.Match[str]) -> int:
    if found[3]:
        length = _LENGTH.search(found[0])
        assert length is not None, found[0]
        return int(length[1])
    vector = re.search(r"\.v(\d)", found[2])
    bits = re.search(r"\.[bufs](\d+)$", found[2])
    assert bits is not None, found[0]
    return int(vector[1] if vector else 1) * int(bits[1]) // 8


def at_the_edge(module: Module) -> set[int]:
    """Return the ops that have a copy, for full blocks, in the other branch."""
    found: set[int] = set()
    for op in module.walk():
        if isinstance(op, If):
            copied = {number for inner in walk(op.then) for number in inner.origins}
            here = {inner.id for inner in walk(op.otherwise)}
            if copied & here:
                found |= here
    return found


class _Roots:
    """Which ops of the author's an op was made of."""

    def __init__(self, source: Module, recorder: Recorder, last: Module) -> None:
        self.first = source.next_id
        modules = [record.after for record in recorder.passes if record.changed]
        ops = [op for module in (*modules, last) for op in module.walk()]
        self.origins = {op.id: op.origins for op in ops}
        self.spans = {op.id: op.span for op in ops}
        #: Copies of copies that one pass made say by their place alone what they were.
        self.accesses: dict[Any, set[int]] = {}
        for op in source.walk():
            if isinstance(op, Load | Store):
                self.accesses.setdefault(op.span, set()).add(op.id)

    def __call__(self, op: int) -> set[int]:
        found: set[int] = set()
        work, seen = [op], set[int]()
        while work:
            number = work.pop()
            if number in seen:
                continue
            seen.add(number)
            if number < self.first:
                found.add(number)
            else:
                work += self.origins.get(number, ())
        return found or self.accesses.get(self.spans.get(op), set())


def worse(before: Code, after: Code, longer: float | None) -> list[str]:
    """Say what is worse in the second."""
    found: list[str] = []
    for op, kind in before.accesses:
        old = before.narrowest((op, kind))
        now = after.narrowest((op, kind))
        if kind == "copy" and not now:
            found.append(f"op {op} is not copied ahead any more")
        elif kind != "copy" and not now and after.narrowest((op, "copy")):
            continue  # it is copied ahead now
        elif now < old:
            found.append(f"op {op}: {kind} of {now} bytes, {old} before")
    if longer is None:
        return found
    if any(before.narrowest(key) < after.narrowest(key) for key in before.accesses):
        longer = max(longer, 0.15)  # other layouts, in which more is loaded at once
    # Where a mask is known to be whole, one code does what two did.
    most = max(before.count * (1 + longer) + (4 if longer else 0), before.whole)
    if after.count > most:
        found.append(f"{after.count} instructions, {before.count} before")
    return found


def checked(kernel: Kernel, hints: Iterable[Hint]) -> Iterator[str]:
    """Say what each hint makes worse."""
    known: dict[str, Code] = {}
    before = code_of(kernel.module, known)
    for hint in hints:
        module = hint.write(kernel)
        if module is not kernel.module:
            for text in worse(before, code_of(module, known), hint.longer):
                yield f"{kernel.name}, {hint.name}: {text}"


def _all_of(place: int, jobs: int, words: Sequence[str]) -> tuple[int, int]:
    named = [hint for hint in HINTS if any(word in hint.name for word in words)]
    names = [word for word in words if not any(word in hint.name for hint in HINTS)]
    tried = count = 0
    for number, kernel in enumerate(kernels()):
        wanted = not names or any(name in kernel.name for name in names)
        if number % jobs == place and wanted:
            tried += 1
            for text in checked(kernel, named or HINTS):
                sys.stdout.write(text + "\n")
                sys.stdout.flush()
                count += 1
    return tried, count


def main() -> int:
    """Try all hints on all kernels; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("words", nargs="*")
    given = parser.parse_args()
    with ProcessPoolExecutor(given.jobs) as pool:
        parts = [
            pool.submit(_all_of, place, given.jobs, given.words) for place in range(given.jobs)
        ]
        results = [part.result() for part in parts]
    tried, count = map(sum, zip(*results, strict=True))
    sys.stdout.write(f"{tried} kernels, {count} times worse\n")
    return bool(count)


if __name__ == "__main__":
    sys.exit(main())
