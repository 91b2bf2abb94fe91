"""What runs for the CPU target, in order: tile IR to LLVM IR to an object file of the host."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

from workbench.analysis.affine import Affine
from workbench.ir import Module, Op, element_of
from workbench.ir.build import Builder
from workbench.ir.rebuild import Replacement, rebuild
from workbench.ops import Promise
from workbench.passes.expand_assembly import expand_assembly
from workbench.passes.expand_functions import expand_functions
from workbench.passes.hints import Unobeyed, answer_hints
from workbench.passes.manager import Recorder, Remarks, begin
from workbench.passes.order import waiting_loops
from workbench.passes.pipeline import narrow
from workbench.source.overrides import Override
from workbench.targets.built import Binary, Built, symbol_of
from workbench.targets.cpu import CPU
from workbench.targets.cpu.addresses import form_chunk
from workbench.targets.cpu.chunks import memory_type
from workbench.targets.cpu.debug import FAILED
from workbench.targets.cpu.dots import multiply_operands
from workbench.targets.cpu.features import register_bits, usable
from workbench.targets.cpu.functions import has_function
from workbench.targets.cpu.guards import Guards
from workbench.targets.cpu.listing import asm_rows
from workbench.targets.cpu.memory import STREAM, alignment
from workbench.targets.cpu.numbers import from_memory
from workbench.targets.cpu.planning import Plan
from workbench.targets.cpu.statements import write_block
from workbench.targets.cpu.writer import LIKELY, STOPPED, Writer
from workbench.targets.llvm.edited import read_llvm
from workbench.targets.llvm.failures import explained
from workbench.targets.llvm.listing import llvm_rows
from workbench.targets.llvm.toolchain import Machine, assembly, host, object_code
from workbench.targets.objects import code_bytes
from workbench.targets.stages import Step, go
from workbench.trace import Resources

_ONE_THREAD = "a program runs on one thread of a processor"
_NO_COPIES = "a processor loads ahead by itself, nothing is copied"
_POOL = "threads of a pool take programs as they come"
_CACHES = "a processor's caches take no such hint"
UNOBEYED = Unobeyed(
    loops={
        "num_stages": _NO_COPIES,
        "flatten": "nested loops stay nested",
        "warp_specialize": _ONE_THREAD,
        "disallow_acc_multi_buffer": "sums are never kept in several buffers, nothing to forbid",
    },
    options={
        "num_warps": _ONE_THREAD,
        "num_stages": _NO_COPIES,
        "warp_specialize": _ONE_THREAD,
        "persistent": _POOL,
        "tickets": _POOL,
        "tma_stores": _ONE_THREAD,
        "turns": _ONE_THREAD,
        "most_rounds": _POOL,
        "cluster": _POOL,
        "launch_pdl": "launches on a processor run one after the other",
        "launch_cooperative_grid": "programs that wait for each other run together as it is",
        "maxnreg": "the registers of a processor are given out by its code generator",
    },
    memory={"cache_modifier": _CACHES, "eviction_policy": _CACHES},
)


@dataclass(frozen=True, slots=True)
class State:
    """What the stages have made so far: the module, then the function written of it."""

    recorder: Recorder
    module: Module
    unit: Machine
    writer: Writer | None = None
    llvm: str = ""


def build(
    module: Module, target: str, recorder: Recorder, override: Override | None = None
) -> Built:
    """Compile tile IR for this machine's processor; see targets/built.py.

    The code is one function `name(arguments, scratch, first, end)` that runs the program
    instances `first` to `end` (axis 0 fastest). `arguments` are slots of eight bytes: the
    kernel's, then the grid's three extents, and for checked code the guard block. `extra` says how
    much scratch memory a thread needs, and whether programs wait for each other.
    """
    del target
    state = go(STEPS, State(recorder, module, _machine()), override)
    module, unit, writer, text = state.module, state.unit, state.writer, state.llvm
    assert writer is not None
    ops = writer.emit.op_numbers

    def assemble() -> Binary:
        with explained(module, text, unit, ops):
            code = object_code(text, unit)
        return Binary("object", code, Resources(code_bytes=code_bytes(code)))

    return Built(
        symbol=symbol_of(module.name),
        assemble=assemble,
        machine=unit,
        texts={
            "llvm": lambda: llvm_rows(text, ops),
            "asm": lambda: asm_rows(assembly(text, unit), ops),
        },
        extra={"scratch_bytes": writer.scratch_bytes, "prints": writer.prints}
        | ({"waits": True} if writer.waiting else {})
        | ({"asserts": FAILED} if writer.asserts else {})
        | ({"guarded": True, "open": writer.guards.open} if writer.guards is not None else {}),
    )


def _llvm(state: State) -> State:
    module = tile_passes(state.module, state.recorder)
    begin("llvm")
    start = time.perf_counter()
    writer = write(module, state.unit)
    text = llvm_module(writer, module)
    state.recorder.times["llvm"] = (time.perf_counter() - start) * 1e3
    return replace(state, module=module, writer=writer, llvm=text)


def _read_llvm(state: State, override: Override) -> State:
    return replace(state, llvm=read_llvm(override, state.llvm, symbol_of(state.module.name)))


#: What is made, in order; the object file is what comes out.
STEPS: tuple[Step[State], ...] = (Step("llvm", _llvm, _read_llvm),)


def tile_passes(module: Module, recorder: Recorder) -> Module:
    """Return tile IR as this target's writer takes it."""
    module = recorder.run("answer-hints", partial(answer_hints, unobeyed=UNOBEYED), module, "tile")
    module = narrow(module, recorder)
    module = recorder.run("multiply-operands", multiply_operands, module, "tile")
    module = recorder.run("expand-assembly", expand_assembly, module, "tile")
    module = recorder.run("expand-functions", _expand, module, "tile")
    return recorder.run("drop-promises", drop_promises, module, "tile")


def write(module: Module, unit: Machine) -> Writer:
    """Write the function of a kernel for a processor."""
    streams = unit.triple.startswith("x86_64")
    return lower(module, register_bits(unit.features), has_streams=streams)


def _expand(module: Module, remarks: Remarks) -> Module:
    return expand_functions(module, remarks, has_function)


@cache
def _machine() -> Machine:
    triple, processor, features = host()
    return Machine(triple, processor, usable(triple, features), optimisation=2, jit=True)


def drop_promises(module: Module, remarks: Remarks) -> Module:
    """Replace each promise by the value it is about.

    Before:
        %1 = tile.promise %0 {divisible = (16,)} : tile<4xindex>
        %2 = tile.neg [%1] : tile<4xindex>
    After:
        %2 = tile.neg [%0] : tile<4xindex>

    Needs: nothing. Keeps: every value. A promise may be broken at the edge of an array (wrapped
    indices are the usual case), and a processor loads unaligned vectors at full speed, so the
    code looks at the indices themselves.
    """
    del remarks

    def rewrite(op: Op, builder: Builder) -> Replacement:
        return op.source if isinstance(op, Promise) else None

    return rebuild(module, rewrite)


def lower(module: Module, register_bits: int = 512, *, has_streams: bool = False) -> Writer:
    """Write the function of a kernel."""
    affine = Affine(module)
    writer = Writer(module, affine, Plan(module, affine), register_bits, form_chunk)
    writer.has_streams = has_streams
    emit = writer.emit
    span = next((op.span for op in module.walk() if op.span is not None), None)
    root = span.calls[0] if span is not None and span.calls else span
    file, line = (root.file, root.line) if root is not None else ("<kernel>", 1)
    writer.debug = emit.start_debug(module.name, file, line)
    emit.at(None)
    _parameters(writer, module)
    place = emit.pure("getelementptr i8, ptr %args, i64 -8")
    writer.block = emit.effect(f"load ptr, ptr {place}, align 8")
    writer.waiting = waiting_loops(module)
    if writer.waiting:
        place = emit.pure("getelementptr i8, ptr %args, i64 -16")
        writer.crew = emit.effect(f"load ptr, ptr {place}, align 8")

    x, y, _ = writer.grid
    rest = emit.pure(f"udiv i64 %first, {x}")
    start = [
        emit.pure(f"urem i64 %first, {x}"),
        emit.pure(f"urem i64 {rest}, {y}"),
        emit.pure(f"udiv i64 {rest}, {y}"),
    ]

    def program(number: str, ids: list[str]) -> list[str]:
        """Run one program instance and count on: axis 0 fastest."""
        writer.pids = (ids[0], ids[1], ids[2])
        writer.look_for_stop()
        if writer.guards is not None:
            writer.guards.start_program(writer, number)
        with writer.body(0):
            write_block(writer, module.body)
            writer.flush()
        emit.at(None)
        if writer.guards is not None:
            writer.guards.end_program(writer, number)
        a = writer.arithmetic(0)
        first, second = emit.add("i64", ids[0], "1"), emit.add("i64", ids[1], "1")
        wraps = emit.pure(f"icmp eq i64 {first}, {x}")
        second = a.select(wraps, second, ids[1], "i64")
        wraps_too = emit.pure(f"icmp eq i64 {second}, {y}")
        third = a.select(wraps_too, emit.add("i64", ids[2], "1"), ids[2], "i64")
        return [
            a.select(wraps, "0", first, "i64"), a.select(wraps_too, "0", second, "i64"), third
        ]  # fmt: skip

    writer.loop("%first", "%end", 1, program, [("i64", text) for text in start])
    emit.jump(STOPPED)
    emit.label(STOPPED)
    if writer.streamed:  # whoever is told that the launch has ended must see what it wrote
        emit.declare("llvm.x86.sse.sfence", "declare void @llvm.x86.sse.sfence()")
        emit.do("call void @llvm.x86.sse.sfence()")
    if writer.guards is not None:
        writer.guards.end(writer)
    emit.do("ret void")
    return writer


def _parameters(w: Writer, module: Module) -> None:
    for number, parameter in enumerate(module.parameters):
        element = element_of(parameter.value.type)
        stored = memory_type(element)
        place = w.emit.pure(f"getelementptr i8, ptr %args, i64 {8 * number}")
        text = w.emit.effect(f"load {stored}, ptr {place}, align {alignment(stored)}")
        w.scalars[parameter.value] = from_memory(w.arithmetic(0), text, element)
    start = 8 * len(module.parameters)
    w.grid = tuple(
        w.emit.effect(
            f"load i64, ptr {w.emit.pure(f'getelementptr i8, ptr %args, i64 {start + 8 * axis}')}"
        )
        for axis in range(3)
    )
    if module.attributes.get("guarded"):  # what launches it passes a guard block
        block = w.emit.pure(f"getelementptr i8, ptr %args, i64 {start + 24}")
        w.guards = Guards(w, block)


def llvm_module(w: Writer, module: Module) -> str:
    """Return the text of the whole LLVM module."""
    emit = w.emit
    head = (
        f"define void @{symbol_of(module.name)}(ptr noalias %args, ptr noalias %scratch, "
        f"i64 %first, i64 %end) #0{w.debug} {{\nentry:\n"
    )
    parts: list[Any] = [
        *emit.globals, "", head + "\n".join(emit.lines) + "\n}", "", *emit.declared.values(), "",
        'attributes #0 = { nounwind "prefer-vector-width"="512" "min-legal-vector-width"="512" }',
        f"{STREAM} = !{{i32 1}}", f'{LIKELY} = !{{!"branch_weights", i32 1048575, i32 1}}',
        emit.metadata(),
    ]  # fmt: skip
    return "\n".join(parts)


__all__ = ["CPU", "build", "lower"]
