"""What a target computes between two ops: a kernel compiled with probes, which store tiles.

A probe is a buffer and a counter behind two more parameters, and after its op

    count = load counter; store the tile to buffer[count]; store count + 1

all under a mask that holds in one program only, so the whole grid runs as it did. Loops, branches
and waits need nothing else. The counter is memory: a program sees its own accesses in order on
every target.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np

from workbench.compiler import family_of
from workbench.interrupts import imported
from workbench.ir import (
    INDEX,
    Block,
    KernelParameter,
    Module,
    Op,
    Pointer,
    Scalar,
    Tile,
    Value,
    element_of,
    shape_of,
)
from workbench.ir.build import Builder
from workbench.launch.abi import LaunchData, Parameter
from workbench.ops import (
    AddPointer,
    Cast,
    Constant,
    Elementwise,
    Iota,
    Load,
    ProgramId,
    Reshape,
    Splat,
    Store,
)
from workbench.ops.control import For, If, While
from workbench.ops.numbers import decode, memory_dtype
from workbench.passes.manager import Recorder
from workbench.questions.aligning import Parting
from workbench.questions.running import Bench, Event, Program, Run, differing
from workbench.targets.built import Built

#: All probes of one run together, and rounds of one op.
MOST_BYTES, MOST_ROUNDS = 256 << 20, 4096


@dataclass(slots=True)
class Probe:
    """Where the tiles of one value go: `rounds` of them at most."""

    value: Value
    rounds: int
    parameter: str = ""

    @property
    def element(self) -> Scalar:
        """What is stored: indices, whose width is the target's, as 64 bits."""
        element = element_of(self.value.type)
        assert isinstance(element, Scalar)
        return _COUNT if element == INDEX else element

    @property
    def size(self) -> int:
        """Elements of one tile."""
        return prod(shape_of(self.value.type))

    @property
    def bytes(self) -> int:
        """Bytes of its buffer."""
        return self.rounds * self.size * np.dtype(memory_dtype(self.element)).itemsize


def probes_of(events: Sequence[Event]) -> list[Probe]:
    """Return a probe for each value that a program of the interpreter computed, in order."""
    rounds: dict[Op, int] = {}
    for event in events:
        rounds[event.op] = event.round + 1
    found: list[Probe] = []
    room = MOST_BYTES
    for op, count in rounds.items():
        for value in () if isinstance(op, For | Constant) else op.results:
            element = element_of(value.type)
            if not isinstance(element, Scalar):
                continue
            probe = Probe(value, min(count, MOST_ROUNDS))
            if probe.bytes <= room:
                room -= probe.bytes
                found.append(probe)
    return found


def with_probes(module: Module, probes: Sequence[Probe], program: Program) -> Module:
    """Return a module that stores the values of probes where it runs as `program`."""
    return _Prober(module, probes, program).module()


class _Prober:
    def __init__(self, module: Module, probes: Sequence[Probe], program: Program) -> None:
        self.old = module
        self.program = program
        self.builder = Builder(module.next_id)
        self.probes: dict[Value, Probe] = {}
        self.parameters: dict[str, KernelParameter] = {}
        for number, probe in enumerate(probes):
            probe.parameter = f"_probe{number}"
            self.probes[probe.value] = probe
            kinds = {probe.parameter: probe.element, f"{probe.parameter}_count": _COUNT}
            for name, element in kinds.items():
                value = Value(Pointer(element), name)
                self.parameters[name] = KernelParameter(name, value, divisible=64)

    def module(self) -> Module:
        builder = self.builder
        with builder.block() as ops:
            self.here = self._here()
            for op in self.old.body.ops:
                self._op(op)
        return replace(
            self.old,
            parameters=(*self.old.parameters, *self.parameters.values()),
            body=Block(self.old.body.arguments, tuple(ops)),
            next_id=builder.next_id,
        )

    def _here(self) -> Value:
        """Return whether this is the program that is asked about."""
        builder, found = self.builder, None
        for axis, place in enumerate(self.program):
            where = builder.add(ProgramId(axis, type=_INTEGER))
            wanted = builder.add(Constant(place, _INTEGER))
            same = builder.add(Elementwise("eq", (where, wanted)))
            found = same if found is None else builder.add(Elementwise("and", (found, same)))
        assert found is not None
        return found

    def _op(self, op: Op) -> None:
        if isinstance(op, For | While | If):
            names = op.region_names
            blocks = zip(names, op.regions, strict=True)
            op = op.noted(**{name: self._block(block) for name, block in blocks})
        self.builder.insert(op)
        for value in op.results:
            if value in self.probes:
                self.builder.span, self.builder.origins = op.span, (op.id,)
                self._store(value, self.probes[value])

    def _block(self, block: Block) -> Block:
        with self.builder.block() as ops:
            for op in block.ops:
                self._op(op)
        return Block(block.arguments, tuple(ops))

    def _store(self, value: Value, probe: Probe) -> None:
        builder = self.builder
        buffer, counter = (
            self.parameters[name].value for name in (probe.parameter, f"{probe.parameter}_count")
        )
        count = builder.add(Load(counter, mask=self.here))
        room = builder.add(Elementwise("lt", (count, self._number(probe.rounds))))
        live = builder.add(Elementwise("and", (room, self.here)))
        start = builder.add(Elementwise("mul", (count, self._number(probe.size))))
        shape = shape_of(value.type)
        if element_of(value.type) == INDEX:
            value = builder.add(Cast(value, _COUNT))
        pointers = builder.add(AddPointer(buffer, start))
        mask = live
        if shape:
            offsets = builder.add(Iota(0, Tile((probe.size,), _COUNT)))
            if len(shape) > 1:
                offsets = builder.add(Reshape(offsets, shape))
            spread = builder.add(Splat(pointers, shape))
            pointers = builder.add(AddPointer(spread, offsets))
            mask = builder.add(Splat(live, shape))
        builder.insert(Store(pointers, value, mask))
        more = builder.add(Elementwise("add", (count, self._number(1))))
        builder.insert(Store(counter, more, self.here))

    def _number(self, value: int) -> Value:
        return self.builder.add(Constant(value, _COUNT))


_COUNT = Scalar("i64", "int", 64)
_INTEGER = Scalar("i32", "int", 32)


# -- running --------------------------------------------------------------------------------------
@dataclass(slots=True)
class Loadable:
    """A module that was built, as launches take it."""

    name: str
    target: str
    module: Module
    built: Built
    launch: LaunchData
    index_program: Any = None
    hulls: Any = None
    loaded: dict[Any, Any] = field(default_factory=dict[Any, Any])

    @property
    def code(self) -> bytes:
        """What a loader takes."""
        return self.built.assemble().data

    def without_maps(self) -> Loadable:
        """Build it again, for arguments of which no tensor map can be made."""
        attributes = {**self.module.attributes, "tma": False}
        return build(replace(self.module, attributes=attributes), self.target)


def build(module: Module, target: str, built: Built | None = None) -> Loadable:
    """Compile tile IR for a target, unless it is `built` already."""
    if built is None:
        pipeline = imported(f"workbench.targets.{family_of(target)}.pipeline")
        built = pipeline.build(module, target, Recorder())
        assert built is not None
    words = tuple((p.name, _word(p.value)) for p in module.parameters)
    binary = built.assemble()
    launch = LaunchData(
        symbol=built.symbol, kind=binary.kind, parameters=words, num_warps=built.num_warps,
        num_stages=built.num_stages, threads=built.threads, shared_bytes=built.shared_bytes,
        dynamic_shared_bytes=built.dynamic_shared_bytes,
        made=tuple(Parameter(**made) for made in built.extra.get("made", ())),
        extra={n: v for n, v in built.extra.items() if n not in ("tools", "made")},
    )  # fmt: skip
    return Loadable(module.name, target, module, built, launch)


def _word(value: Value) -> str:
    if isinstance(value.type, Pointer):
        return f"*{value.type.pointee}"
    return "i32" if value.type == INDEX else str(value.type)


def launch(
    code: Loadable, bench: Bench, grid: Sequence[int], probes: Sequence[Probe] = ()
) -> dict[Value, list[np.ndarray[Any, Any]]]:
    """Run a grid on the target over a bench's arrays; returns the tiles that probes saw."""
    bench.reset()
    x, y, z = (*grid, 1, 1)[:3]
    extents = (x, y, z)
    names = {p.name: p.value for p in code.module.parameters}
    if code.target != "cpu":
        from workbench.questions.probing_on_cuda import launch_on_cuda

        raw = launch_on_cuda(code, bench, extents, buffer_sizes(probes))
    else:
        from workbench.launch import on_cpu

        raw = {n: np.zeros(size + 64, np.uint8) for n, size in buffer_sizes(probes).items()}
        values = [raw[name].ctypes.data if name in raw else bench.slot(name) for name in names]
        on_cpu.load(code)(*extents, None, *values)
    return read_back(raw, probes)


def buffer_sizes(probes: Sequence[Probe]) -> dict[str, int]:
    """Return the bytes of each probe's buffer and counter, by parameter."""
    sizes = {probe.parameter: probe.bytes for probe in probes}
    return sizes | {f"{probe.parameter}_count": 8 for probe in probes}


def read_back(
    raw: dict[str, np.ndarray[Any, Any]], probes: Sequence[Probe]
) -> dict[Value, list[np.ndarray[Any, Any]]]:
    """Return the tiles in the buffers of probes, in the order in which they were stored."""
    found: dict[Value, list[np.ndarray[Any, Any]]] = {}
    for probe in probes:
        count = int(raw[f"{probe.parameter}_count"][:8].view(np.int64)[0])
        bits = raw[probe.parameter][: probe.bytes].view(memory_dtype(probe.element))
        tiles = bits.reshape(probe.rounds, *shape_of(probe.value.type))
        kept = min(max(count, 0), probe.rounds)
        found[probe.value] = [np.asarray(decode(tile, probe.element)) for tile in tiles[:kept]]
    return found


def probed_parting(
    bench: Bench, module: Module, target: str, grid: Any, program: Program, source: Run,
    least: float = 0.0, left_out: Set[int] = frozenset(),
) -> Parting | None:  # fmt: skip
    """Return the first op whose tile on the target differs from the interpreter's.

    Events whose numbers are `left_out` may differ where both are right.
    """
    probes = probes_of(source.events)
    code = build(with_probes(module, probes, program), target)
    seen = launch(code, bench, grid, probes)
    for event in source.events:
        if event.number in left_out:
            continue
        for value, tile in zip(event.op.results, event.results, strict=False):
            tiles = seen.get(value)
            if tiles is None or event.round >= len(tiles):
                continue
            theirs = tiles[event.round]
            where = differing(tile, theirs, str(element_of(value.type)), least)
            if where.any():
                return Parting(event, event, "value", (tile, theirs), where)
    return None
