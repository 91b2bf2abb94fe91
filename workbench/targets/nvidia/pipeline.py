"""What runs for an NVIDIA target, in order: tile IR to GPU IR to LLVM IR to PTX to cubin."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from functools import partial
from math import prod

from workbench.analysis.affine import Affine
from workbench.ir import Module, Pointer, Tile, Value, element_of, shape_of
from workbench.ops import Dot, combines
from workbench.passes.accumulation import accumulate_products
from workbench.passes.cleanup import drop_dead, hoist_invariants, merge_equal
from workbench.passes.expand_functions import expand_functions
from workbench.passes.hints import Unobeyed, answer_hints
from workbench.passes.manager import Recorder, Remarks
from workbench.passes.pipeline import narrow
from workbench.source import ResourceError
from workbench.targets.built import Binary, Built, symbol_of
from workbench.targets.llvm.listing import llvm_rows
from workbench.targets.llvm.toolchain import Machine, assembly
from workbench.targets.nvidia.chip import Chip, chip, residency
from workbench.targets.nvidia.functions import has_function
from workbench.targets.nvidia.listing import ptx_rows, sass_rows
from workbench.targets.nvidia.lowering import Lowering, llvm_type
from workbench.targets.nvidia.passes.assign_layouts import assign_layouts
from workbench.targets.nvidia.passes.barriers import insert_barriers
from workbench.targets.nvidia.passes.conversions import halve_conversions
from workbench.targets.nvidia.passes.full_blocks import split_full_blocks
from workbench.targets.nvidia.passes.pipeline_loads import pipeline_loads
from workbench.targets.nvidia.passes.shared_memory import Interval, allocate
from workbench.targets.nvidia.pressure import fitted, note_pressure, note_spills, spilled
from workbench.targets.nvidia.table import NVIDIA
from workbench.targets.nvidia.toolchain import disassemble, find, missing
from workbench.targets.objects import code_bytes
from workbench.targets.simt.verifier import verify_layouts
from workbench.trace import Occupancy, Rendered, Resources, SharedBuffer

#: The most elements of a tile that one thread may hold; nearly all of so many are spilled.
MOST_ELEMENTS = 2048
_DEFAULT_WARPS = 4
_DEFAULT_STAGES = 3
UNOBEYED = Unobeyed(
    loops={
        "flatten": "nested loops stay nested",
        "warp_specialize": "all warps run the same code",
        "disallow_acc_multi_buffer": "sums are never kept in several buffers, nothing to forbid",
    },
    second="an access in PTX takes one hint",
)


def build(module: Module, target: str, recorder: Recorder) -> Built:
    """Compile tile IR for a chip; see targets/built.py."""
    unit = chip(target)
    module = _with_options(module, recorder.remarks)
    module = recorder.run("answer-hints", partial(answer_hints, unobeyed=UNOBEYED), module, "tile")
    module = narrow(module, recorder)
    module = recorder.run("expand-functions", _expand, module, "tile")
    module = _gpu_passes(module, unit, recorder)
    offsets, intervals, shared_bytes = allocate(module, unit)
    ordered = partial(insert_barriers, offsets=offsets, chip=unit)
    module = recorder.run("insert-barriers", ordered, module, "gpu")
    recorder.remarks.pass_name = "registers"
    note_pressure(module, recorder.remarks)
    start = time.perf_counter()
    low = lower(module, unit, offsets, shared_bytes)
    text = llvm_module(low, module, unit)
    recorder.times["llvm"] = (time.perf_counter() - start) * 1e3
    start = time.perf_counter()
    ptx = assembly(text, machine(unit, text))
    recorder.times["ptx"] = (time.perf_counter() - start) * 1e3
    return _built(module, unit, low, text, ptx, intervals, shared_bytes, recorder.remarks)


def _built(
    module: Module, unit: Chip, low: Lowering, text: str, ptx: str,
    intervals: tuple[Interval, ...], shared_bytes: int, remarks: Remarks,
) -> Built:  # fmt: skip
    ops = low.emit.op_numbers
    made: dict[str, Binary] = {}
    assembled: list[str] = []  # the text that was, if it was: with a limit of registers, perhaps

    def binary() -> Binary:
        if "cubin" not in made:
            if find("ptxas") is None:
                made["cubin"] = Binary(
                    "ptx",
                    ptx.encode(),
                    Resources(shared_bytes=0, dynamic_shared_bytes=shared_bytes),
                )
            else:
                found = fitted(ptx, unit.name, module.attributes["num_warps"])
                assembled.append(found.ptx)
                result = found.result
                made["cubin"] = Binary("cubin", result.cubin, Resources(
                    registers=result.registers,
                    shared_bytes=0,
                    dynamic_shared_bytes=shared_bytes,
                    spill_store_bytes=result.spill_store_bytes,
                    spill_load_bytes=result.spill_load_bytes,
                    stack_bytes=result.stack_bytes,
                    barriers=result.barriers,
                    occupancy=_occupancy(unit, module, result.registers, shared_bytes),
                    code_bytes=code_bytes(result.cubin),
                ))  # fmt: skip
                if spilled(result):
                    note_spills(result, sass(), module, remarks)
        return made["cubin"]

    def sass() -> Rendered:
        for tool in ("ptxas", "nvdisasm"):
            if find(tool) is None:
                return Rendered("", (), "missing", f"SASS {missing(tool)}")
        return sass_rows(disassemble(binary().data), ptx_rows(ptx, ops))

    return Built(
        symbol=symbol_of(module.name),
        assemble=binary,
        num_warps=module.attributes["num_warps"],
        num_stages=module.attributes["num_stages"],
        threads=32 * module.attributes["num_warps"],
        shared_bytes=shared_bytes,
        dynamic_shared_bytes=shared_bytes,
        gpu=module,
        texts={
            "llvm": lambda: llvm_rows(text, ops),
            "ptx": lambda: ptx_rows(assembled[0] if assembled else ptx, ops),
            "sass": sass,
        },
        fields={"shared": tuple(_interval(i) for i in intervals)},
    )


def _occupancy(unit: Chip, module: Module, registers: int, shared_bytes: int) -> Occupancy:
    found = residency(unit, module.attributes["num_warps"], registers, shared_bytes)
    return Occupancy(warps=found.warps, max=unit.warps, limit=found.limit)


def _interval(found: Interval) -> SharedBuffer:
    return SharedBuffer(
        name=found.name,
        op=found.op,
        offset=found.offset,
        bytes=found.bytes,
        from_=found.first,
        to=found.last,
    )


def _with_options(module: Module, remarks: Remarks) -> Module:
    """Choose warps and stages where the author did not."""
    options = dict(module.attributes)
    if not options.get("num_warps"):
        options["num_warps"] = _warps(module, remarks)
    warps = options["num_warps"]
    if warps & (warps - 1) or not 1 <= warps <= 32:
        raise ResourceError(
            f"num_warps is {warps}, expected a power of two from 1 to 32",
            hint="--set warps=4",
            code="K402",
        )
    _check_width(module, warps)
    if options.get("num_stages") is None:
        options["num_stages"] = _DEFAULT_STAGES
        options["stages_are_free"] = True
    return replace(module, attributes=options)


def _check_width(module: Module, warps: int) -> None:
    """Refuse tiles whose code would be written out for minutes, only to spill nearly all of it."""
    threads = 32 * warps
    for op in module.walk():
        for value in op.results:
            if not isinstance(value.type, Tile):
                continue
            elements = prod(1 << (extent - 1).bit_length() for extent in shape_of(value.type))
            if elements > MOST_ELEMENTS * threads:
                raise ResourceError(
                    f"a tile of {prod(shape_of(value.type)):,} elements leaves "
                    f"{elements // threads:,} to each of {threads} threads, which have at most "
                    "255 registers",
                    op.span,
                    hint="take a smaller tile and more programs, or a loop over the tile",
                    code="K402",
                )


def _warps(module: Module, remarks: Remarks) -> int:
    """Return warps for a kernel whose author named none.

    Four, but where no dot fixes the work of a warp and a tile is reduced, as many as leave about
    16 bytes times 4 of the widest tile to a thread: rows are then in registers without spilling.
    """
    reduces = widest = 0
    for op in module.walk():
        if isinstance(op, Dot):
            return _DEFAULT_WARPS
        if combines(op):
            reduces += 1
        for value in op.results:
            if isinstance(value.type, Tile) and element_of(value.type).bits > 1:
                widest = max(widest, prod(1 << (e - 1).bit_length() for e in shape_of(value.type)))
    if not reduces:
        return _DEFAULT_WARPS
    warps = max(1, min(32, widest // (32 * 16)))
    each = widest // (32 * warps)
    share = (
        f"about {each} elements a thread" if each else f"{widest} elements for {32 * warps} threads"
    )
    remarks.note(None, f"num_warps = {warps}: {share}")
    return warps


def _gpu_passes(module: Module, unit: Chip, recorder: Recorder) -> Module:
    split = partial(split_full_blocks, rules=unit.rules)
    module = recorder.run("split-full-blocks", split, module, "gpu")
    module = recorder.run("accumulate-products", accumulate_products, module, "gpu")
    recorder.verify = partial(verify_layouts, chip=unit)
    steps = [
        ("assign-layouts", partial(_assign, unit=unit)),
        ("hoist-invariants", hoist_invariants),
        ("pipeline-loads", partial(pipeline_loads, chip=unit)),
        ("merge-equal", merge_equal),
        ("drop-dead", drop_dead),
        ("halve-conversions", partial(halve_conversions, chip=unit)),
    ]
    return recorder.pipeline(steps, module, "gpu")


def _expand(module: Module, remarks: Remarks) -> Module:
    return expand_functions(module, remarks, has_function)


def _assign(module: Module, remarks: Remarks, unit: Chip) -> Module:
    return assign_layouts(module, remarks, unit)


def machine(unit: Chip, text: str) -> Machine:
    """Return what LLVM generates code for: the oldest PTX version that has all the text uses."""
    version = int(unit.ptx)
    if "mma.sync" in text and (".e4m3" in text or ".e5m2" in text):
        version = max(version, 84)  # PTX ISA 8.4 brought products of 8-bit floats
    if re.search(r"atom\.[^ ]*\.v\d\.", text):
        version = max(version, 81)  # PTX ISA 8.1 brought vectors of atomic additions
    return Machine("nvptx64-nvidia-cuda", unit.name, f"+ptx{version}")


def lower(module: Module, unit: Chip, offsets: dict[int, int], shared_bytes: int) -> Lowering:
    """Return a finished lowering of GPU IR."""
    low = Lowering(module, unit, NVIDIA, offsets, Affine(module, tiles=True))
    first = next((op.span for op in module.walk() if op.span is not None), None)
    file, line = (first.file, first.line) if first is not None else ("kernel", 1)
    low.debug = low.emit.start_debug(module.name, file, line)
    low.emit.at(None)
    for i, parameter in enumerate(module.parameters):
        value: Value = parameter.value
        low.set_scalar(value, f"%a{i}")
    low.block(module.body)
    return low


def llvm_module(low: Lowering, module: Module, unit: Chip) -> str:
    """Return the text of the LLVM module."""
    parameters: list[str] = []
    for i, parameter in enumerate(module.parameters):
        element = element_of(parameter.value.type)
        words = [llvm_type(element)]
        if isinstance(element, Pointer):
            if parameter.noalias:
                words.append("noalias")
            if parameter.divisible > 1:
                words.append(f"align {min(128, parameter.divisible & -parameter.divisible)}")
        parameters.append(f"{' '.join(words)} %a{i}")
    threads = 32 * module.attributes["num_warps"]
    body = "\n".join(low.emit.lines)
    globals_ = "\n".join(low.emit.globals)
    declared = "\n".join(low.emit.declared.values())
    name = symbol_of(module.name)
    limit = module.attributes.get("maxnreg")
    registers = f' "nvvm.maxnreg"="{limit}"' if limit else ""
    return (
        f'source_filename = "{name}"\n'
        f'target triple = "nvptx64-nvidia-cuda"\n'
        f"@shared_memory = external addrspace(3) global [0 x i8], align 1024\n"
        f"{globals_}\n{declared}\n"
        f"define ptx_kernel void @{name}({', '.join(parameters)}) #0{low.debug} {{\n"
        f"entry:\n{body}\n}}\n"
        f'attributes #0 = {{ nounwind "nvvm.reqntid"="{threads}"{registers} }}\n'
        f"{low.emit.metadata()}"
    )
