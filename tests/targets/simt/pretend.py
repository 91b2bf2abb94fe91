"""A GPU that nobody makes, with 64 lanes to a warp, and a way to run its code.

Its hooks are plain LLVM: a thread's numbers, shuffles and waiting are calls of the functions in
`RUNTIME`. They run on the host: every thread of a block is a context of its own (ucontext of the
C library), and goes on until it has to wait or has offered a word; then the next one's turn comes.
Nothing runs at the same time, so a run always goes the same way.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from tests.execution import SLOTS
from tests.targets.simt import watched
from workbench.ir import Module, Pointer
from workbench.layouts import Banks
from workbench.passes.accumulation import accumulate_products
from workbench.passes.cleanup import drop_dead, hoist_invariants, merge_equal
from workbench.passes.manager import Recorder
from workbench.passes.pipeline import narrow, tile_passes
from workbench.targets.built import symbol_of
from workbench.targets.llvm.emit import Emitter
from workbench.targets.llvm.toolchain import Machine, host, object_code
from workbench.targets.simt.hardware import Costs, Shuffle
from workbench.targets.simt.kernel import expand, lower, parameters_of
from workbench.targets.simt.options import with_options
from workbench.targets.simt.passes.assign_layouts import assign_layouts
from workbench.targets.simt.passes.barriers import insert_barriers
from workbench.targets.simt.passes.conversions import halve_conversions
from workbench.targets.simt.passes.shared_memory import allocate
from workbench.targets.simt.rules import Device, RuleTable
from workbench.targets.simt.table import SIMT
from workbench.targets.simt.verifier import verify_layouts

PRETEND = RuleTable("pretend", parent=SIMT)
BANKS = Banks(count=64)
COSTS = Costs(
    sector_bytes=64, access=1, line_bytes=256, again=0.5, quotient=3, shuffle=2, staging=3,
    warp_wait=8, block_wait=50, crossing=40, reduced=0.5, scanned=1,
)  # fmt: skip
_READ = " nounwind memory(none) speculatable"
_KINDS = {"shuffle": 1, "warp": 2, "block": 3, "end": 4}


@dataclass(frozen=True)
class Pretend(Device):
    """The machine; nothing here is NVIDIA's but what LLVM calls shared memory."""

    name: str = "pretend"
    lanes: int = 64
    shared_bytes: int = 48 * 1024
    most_scratch: int = 2048
    shared_space: int = 3
    widest_bytes: int = 8
    most_warps: int = 16
    banks: Banks = BANKS
    costs: Costs = COSTS

    @property
    def rules(self) -> RuleTable:
        return PRETEND

    def most_registers(self, num_warps: int) -> int:
        return 128

    def thread(self, emit: Emitter) -> str:
        return emit.call("i32", "pretend.thread", "", "", _READ)

    def program(self, emit: Emitter, axis: int) -> str:
        return emit.call("i32", "pretend.program", f"i32 {axis}", "i32", _READ)

    def programs(self, emit: Emitter, axis: int) -> str:
        return emit.call("i32", "pretend.programs", f"i32 {axis}", "i32", _READ)

    def shuffle(self, emit: Emitter, kind: Shuffle, word: str, lane: str) -> str:
        thread, inside = self.thread(emit), str(self.lanes - 1)
        if kind == "xor":
            source = emit.bitwise("xor", "i32", thread, lane)
        elif kind == "index":
            start = emit.bitwise("and", "i32", thread, str(-self.lanes))
            source = emit.bitwise("or", "i32", start, lane)
        else:
            own = emit.bitwise("and", "i32", thread, inside)
            moved = (emit.sub if kind == "up" else emit.add)("i32", own, lane)
            there = emit.pure(f"icmp ult i32 {moved}, {self.lanes}")
            step = (emit.sub if kind == "up" else emit.add)("i32", thread, lane)
            source = emit.pure(f"select i1 {there}, i32 {step}, i32 {thread}")
        emit.declare("pretend.shuffle", "declare i32 @pretend.shuffle(i32, i32)")
        return emit.effect(f"call i32 @pretend.shuffle(i32 {word}, i32 {source})")

    def wait_for_block(self, emit: Emitter) -> None:
        self._wait(emit, "block")

    def wait_for_warp(self, emit: Emitter) -> None:
        self._wait(emit, "warp")

    def _wait(self, emit: Emitter, kind: str) -> None:
        emit.declare("pretend.wait", "declare void @pretend.wait(i32)")
        emit.do(f"call void @pretend.wait(i32 {_KINDS[kind]})")

    def print_line(self, emit: Emitter, form: str, operands: Sequence[tuple[str, str]]) -> None:
        raise NotImplementedError

    def fail(self, emit: Emitter, message: str, file: str, line: int, function: str) -> None:
        raise NotImplementedError


def gpu_ir(
    module: Module, chip: Device, between: Callable[[Module], Module] = lambda module: module
) -> Module:
    """Return tile IR with layouts and barriers for a machine; every pass is verified.

    `between` may choose other layouts.
    """
    recorder = Recorder(check=True)
    module = with_options(tile_passes(module, recorder), recorder.remarks, chip)
    module = narrow(module, recorder)
    module = recorder.run("expand-functions", expand, module, "tile")
    module = recorder.run("accumulate-products", accumulate_products, module, "gpu")
    recorder.verify = partial(verify_layouts, chip=chip)
    steps = [
        ("assign-layouts", partial(assign_layouts, chip=chip)),
        ("other-layouts", lambda module, remarks: between(module)),
        ("hoist-invariants", hoist_invariants),
        ("merge-equal", merge_equal),
        ("drop-dead", drop_dead),
        ("halve-conversions", partial(halve_conversions, chip=chip)),
    ]
    module = recorder.pipeline(steps, module, "gpu")
    offsets, _, _ = allocate(module, chip)
    ordered = partial(insert_barriers, offsets=offsets, chip=chip)
    return recorder.run("insert-barriers", ordered, module, "gpu")


#: What the hooks call. A thread that waits says why and gives its turn away; words that it offers
#: are kept twice, since the next are offered before all have read.
RUNTIME = """
@pretend.current = global i32 0
@pretend.grid = global [6 x i32] zeroinitializer
@pretend.contexts = global [1024 x ptr] zeroinitializer
@pretend.main = global ptr null
@pretend.waits = global [1024 x i32] zeroinitializer
@pretend.turns = global [1024 x i32] zeroinitializer
@pretend.words = global [2048 x i32] zeroinitializer
@pretend.arguments = global [32 x i64] zeroinitializer
declare i32 @swapcontext(ptr, ptr) returns_twice

define i32 @pretend.thread() noinline {
  %t = load volatile i32, ptr @pretend.current
  ret i32 %t
}
define i32 @pretend.program(i32 %axis) noinline {
  %p = getelementptr i32, ptr @pretend.grid, i32 %axis
  %v = load volatile i32, ptr %p
  ret i32 %v
}
define i32 @pretend.programs(i32 %axis) noinline {
  %a = add i32 %axis, 3
  %p = getelementptr i32, ptr @pretend.grid, i32 %a
  %v = load volatile i32, ptr %p
  ret i32 %v
}
define void @pretend.wait(i32 %kind) noinline {
  %t = load volatile i32, ptr @pretend.current
  %w = getelementptr i32, ptr @pretend.waits, i32 %t
  store volatile i32 %kind, ptr %w
  %c = getelementptr ptr, ptr @pretend.contexts, i32 %t
  %context = load ptr, ptr %c
  %main = load ptr, ptr @pretend.main
  call i32 @swapcontext(ptr %context, ptr %main)
  ret void
}
define i32 @pretend.shuffle(i32 %word, i32 %source) noinline {
  %t = load volatile i32, ptr @pretend.current
  %n = getelementptr i32, ptr @pretend.turns, i32 %t
  %turn = load i32, ptr %n
  %next = xor i32 %turn, 1024
  store i32 %next, ptr %n
  %mine = add i32 %turn, %t
  %place = getelementptr i32, ptr @pretend.words, i32 %mine
  store volatile i32 %word, ptr %place
  call void @pretend.wait(i32 1)
  %theirs = add i32 %turn, %source
  %other = getelementptr i32, ptr @pretend.words, i32 %theirs
  %found = load volatile i32, ptr %other
  ret i32 %found
}
; Processors without AVX512-BF16 ask compiler-rt for this one, and a process need not have it.
define bfloat @__truncsfbf2(float %x) noinline {
  %bits = bitcast float %x to i32
  %nan = fcmp uno float %x, %x
  %high = lshr i32 %bits, 16
  %odd = and i32 %high, 1
  %half = add i32 %odd, 32767
  %sum = add i32 %bits, %half
  %rounded = lshr i32 %sum, 16
  %quiet = or i32 %high, 64
  %word = select i1 %nan, i32 %quiet, i32 %rounded
  %short = trunc i32 %word to i16
  %y = bitcast i16 %short to bfloat
  ret bfloat %y
}
"""


def llvm_text(module: Module, chip: Device) -> str:
    """Return the LLVM module of GPU IR, with the functions that it calls and one that starts it.

    Before each access it asks whether it lies where it may (watched.py).
    """
    offsets, intervals, total = allocate(module, chip)
    low = lower(module, chip, offsets)
    lines = [
        f"@shared_memory = internal addrspace({chip.shared_space}) global "
        f"[{max(1, total)} x i8] zeroinitializer, align 1024",
        RUNTIME,
        watched.RUNTIME,
        *low.emit.globals,
        *(text for name, text in low.emit.declared.items() if not name.startswith("pretend.")),
        f"define void @{symbol_of(module.name)}({', '.join(parameters_of(module))}){low.debug} {{",
        "entry:",
        *watched.watched(low.emit, intervals, total),
        "}",
        "define void @pretend.start() {",
    ]
    words: list[str] = []
    for i, parameter in enumerate(parameters_of(module)):
        type = parameter.split(" %")[0]
        type = " ".join(word for word in type.split() if word != "noalias").split(" align")[0]
        lines.append(f"  %p{i} = getelementptr i64, ptr @pretend.arguments, i32 {i}")
        lines.append(f"  %a{i} = load {type}, ptr %p{i}")
        words.append(f"{type} %a{i}")
    lines += [
        f"  call void @{symbol_of(module.name)}({', '.join(words)})",
        "  call void @pretend.wait(i32 4)",
        "  ret void",
        "}",
        low.emit.metadata(),
    ]
    return "\n".join(lines)


_CONTEXT_BYTES, _STACK_BYTES = 4096, 1 << 18


class Block:
    """Contexts of the threads of a block, made once for a kernel and its arrays."""

    def __init__(self, text: str, threads: int, arrays: list[Any]) -> None:
        triple, processor, features = host()
        image = object_code(text, Machine(triple, processor, features, jit=True))
        machine = llvm.Target.from_triple(triple).create_target_machine(jit=True)
        self.engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
        self.engine.add_object_file(llvm.ObjectFileRef.from_data(image))
        self.engine.finalize_object()
        self.threads, self.arrays = threads, arrays
        watched.allow(self.engine, arrays)
        self.library = ctypes.CDLL(None)
        self.main = ctypes.create_string_buffer(_CONTEXT_BYTES)
        self.contexts = [ctypes.create_string_buffer(_CONTEXT_BYTES) for _ in range(threads)]
        self.stacks = [ctypes.create_string_buffer(_STACK_BYTES) for _ in range(threads)]
        self.current = self._global("pretend.current", ctypes.c_int32)
        self.waits = self._global("pretend.waits", ctypes.c_int32 * 1024)
        self._global("pretend.main", ctypes.c_void_p).value = ctypes.addressof(self.main)
        held = self._global("pretend.contexts", ctypes.c_void_p * 1024)
        for number, context in enumerate(self.contexts):
            held[number] = ctypes.addressof(context)

    def _global(self, name: str, kind: Any) -> Any:
        return kind.from_address(self.engine.get_global_value_address(name))

    def run(self, program: Sequence[int], grid: Sequence[int], arguments: bytes) -> int:
        """Run one program to its end; returns how often its threads waited for each other."""
        self._global("pretend.grid", ctypes.c_int32 * 6)[:] = (*program, *grid)
        place = self.engine.get_global_value_address("pretend.arguments")
        ctypes.memmove(place, arguments, len(arguments))
        start = self.engine.get_function_address("pretend.start")
        for context, stack in zip(self.contexts, self.stacks, strict=True):
            self.library.getcontext(context)
            # ucontext_t: flags, link, then the stack's address, flags and size.
            struct.pack_into("QQQQ", context, 8, 0, ctypes.addressof(stack), 0, _STACK_BYTES)
            self.library.makecontext(context, ctypes.c_void_p(start), 0)
        waited = 0
        while True:
            for thread, context in enumerate(self.contexts):
                self.current.value = thread
                self.library.swapcontext(self.main, context)
            why = set(self.waits[: self.threads])
            assert watched.OUTSIDE not in why, watched.complaint(self.engine, self.arrays)
            assert len(why) == 1, f"threads wait for different things: {why}"
            if why == {_KINDS["end"]}:
                return waited
            waited += 1


def execute(
    module: Module, chip: Device, grid: Sequence[int], arguments: Sequence[Any], blocks: int = 0
) -> int:
    """Run GPU IR as machine code, arguments in place; returns how often threads waited.

    Where blocks stay there are so many, and the code is told the grid.
    """
    grid = (*grid, 1, 1)[:3]
    packed = b""
    for parameter, value in zip(module.parameters, arguments, strict=True):
        if isinstance(parameter.value.type, Pointer):
            packed += struct.pack("Q", value.ctypes.data)
        else:
            packed += struct.pack(SLOTS[str(parameter.value.type)], value)
    threads = chip.lanes * module.attributes["num_warps"]
    arrays = [a for a in arguments if isinstance(a, np.ndarray)]
    if blocks:
        packed, grid = packed + struct.pack("3q", *grid), (blocks, 1, 1)
    block = Block(llvm_text(module, chip), threads, arrays)
    return sum(block.run(program[::-1], grid, packed) for program in np.ndindex(*grid[::-1]))
