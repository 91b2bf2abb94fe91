"""What runs for an NVIDIA target, in order: tile IR to GPU IR to LLVM IR to PTX to cubin."""

from __future__ import annotations

import re
import time
from functools import partial

from workbench.ir import Module
from workbench.passes.accumulation import accumulate_products
from workbench.passes.cleanup import drop_dead, hoist_invariants, merge_equal
from workbench.passes.hints import Unobeyed, answer_hints
from workbench.passes.manager import Recorder, Remarks, begin
from workbench.passes.pipeline import narrow
from workbench.targets.built import Binary, Built, symbol_of
from workbench.targets.llvm.failures import explained
from workbench.targets.llvm.listing import llvm_rows
from workbench.targets.llvm.toolchain import Machine, assembly
from workbench.targets.nvidia.chip import Chip, chip, residency
from workbench.targets.nvidia.listing import ptx_rows, sass_rows
from workbench.targets.nvidia.passes.full_blocks import split_full_blocks
from workbench.targets.nvidia.passes.pipeline_loads import pipeline_loads
from workbench.targets.nvidia.spills import fitted, note_spills, spilled
from workbench.targets.nvidia.toolchain import disassemble, find, missing
from workbench.targets.objects import code_bytes
from workbench.targets.simt.kernel import expand, lower, parameters_of
from workbench.targets.simt.lowering import Lowering
from workbench.targets.simt.options import with_options
from workbench.targets.simt.passes.assign_layouts import assign_layouts
from workbench.targets.simt.passes.barriers import insert_barriers
from workbench.targets.simt.passes.conversions import halve_conversions
from workbench.targets.simt.passes.shared_memory import Interval, allocate
from workbench.targets.simt.pressure import note_pressure
from workbench.targets.simt.verifier import verify_layouts
from workbench.trace import Occupancy, Rendered, Resources, SharedBuffer

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
    module = with_options(module, recorder.remarks, unit)
    module = recorder.run("answer-hints", partial(answer_hints, unobeyed=UNOBEYED), module, "tile")
    module = narrow(module, recorder)
    module = recorder.run("expand-functions", expand, module, "tile")
    module = _gpu_passes(module, unit, recorder)
    offsets, intervals, shared_bytes = allocate(module, unit)
    ordered = partial(insert_barriers, offsets=offsets, chip=unit)
    module = recorder.run("insert-barriers", ordered, module, "gpu")
    recorder.remarks.pass_name = "registers"
    note_pressure(module, recorder.remarks, unit)
    begin("llvm")
    start = time.perf_counter()
    low = lower(module, unit, offsets)
    text = llvm_module(low, module, unit)
    recorder.times["llvm"] = (time.perf_counter() - start) * 1e3
    begin("ptx")
    start = time.perf_counter()
    with explained(module, text, machine(unit, text), low.emit.op_numbers):
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
                found = fitted(ptx, unit, module.attributes["num_warps"])
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
        threads=unit.lanes * module.attributes["num_warps"],
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


def llvm_module(low: Lowering, module: Module, unit: Chip) -> str:
    """Return the text of the LLVM module."""
    threads = unit.lanes * module.attributes["num_warps"]
    body = "\n".join(low.emit.lines)
    globals_ = "\n".join(low.emit.globals)
    declared = "\n".join(low.emit.declared.values())
    name = symbol_of(module.name)
    limit = module.attributes.get("maxnreg")
    registers = f' "nvvm.maxnreg"="{limit}"' if limit else ""
    return (
        f'source_filename = "{name}"\n'
        f'target triple = "nvptx64-nvidia-cuda"\n'
        f"@shared_memory = external addrspace({unit.shared_space}) global [0 x i8], align 1024\n"
        f"{globals_}\n{declared}\n"
        f"define ptx_kernel void @{name}({', '.join(parameters_of(module))}) #0{low.debug} {{\n"
        f"entry:\n{body}\n}}\n"
        f'attributes #0 = {{ nounwind "nvvm.reqntid"="{threads}"{registers} }}\n'
        f"{low.emit.metadata()}"
    )
