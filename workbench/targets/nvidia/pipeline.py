"""What runs for an NVIDIA target, in order: tile IR to GPU IR to LLVM IR to PTX to cubin."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

from workbench.ir import Module
from workbench.passes.accumulation import accumulate_products
from workbench.passes.cleanup import drop_dead, hoist_invariants, merge_equal
from workbench.passes.float_differences import float_differences
from workbench.passes.hints import Unobeyed, answer_hints
from workbench.passes.load_once import load_once
from workbench.passes.manager import Recorder, Remarks, begin
from workbench.passes.part_quotients import part_quotients
from workbench.passes.pipeline import narrow
from workbench.passes.repeated_rows import multiply_rows_once
from workbench.passes.select_extremes import select_extremes
from workbench.passes.sums_to_products import multiply_broadcast_tiles
from workbench.source import KernelError
from workbench.source.depth import deep
from workbench.source.overrides import Override
from workbench.targets.built import Binary, Built, symbol_of
from workbench.targets.llvm.edited import check_ptx, read_llvm, refused_by_ptxas
from workbench.targets.llvm.failures import explained
from workbench.targets.llvm.listing import llvm_rows
from workbench.targets.llvm.toolchain import Machine, assembly
from workbench.targets.nvidia.chip import MOST_HALVINGS, Chip, chip, residency
from workbench.targets.nvidia.dots import options_for_weights
from workbench.targets.nvidia.launch_attributes import attributes_of, note_attributes
from workbench.targets.nvidia.listing import ptx_rows, sass_rows
from workbench.targets.nvidia.map_words import made_parameters
from workbench.targets.nvidia.ops import CopyRounds, TensorLoad
from workbench.targets.nvidia.passes.expand_roles import expand_roles
from workbench.targets.nvidia.passes.keep_extremes import keep_extremes
from workbench.targets.nvidia.passes.leave_stores import leave_stores
from workbench.targets.nvidia.passes.overlap_products import overlap_products
from workbench.targets.nvidia.passes.pipeline_loads import pipeline_loads
from workbench.targets.nvidia.passes.raise_tma import asked, raise_tma
from workbench.targets.nvidia.passes.reread_operands import reread_operands
from workbench.targets.nvidia.passes.roles import role_partition
from workbench.targets.nvidia.passes.rounds_at_once import copy_rounds_at_once, read_in_place
from workbench.targets.nvidia.passes.stage_products import BLOCKS_WANTED, stage_products
from workbench.targets.nvidia.passes.start_products import start_products
from workbench.targets.nvidia.passes.still_read import still_read
from workbench.targets.nvidia.passes.take_turns import take_turns
from workbench.targets.nvidia.refusals import refused
from workbench.targets.nvidia.rereading import rows_read_again
from workbench.targets.nvidia.spills import (
    Fitted,
    check_shares,
    fitted,
    note_assembler,
    note_spills,
    spilled,
)
from workbench.targets.nvidia.tensors import map_parameters
from workbench.targets.nvidia.told_blocks import told_blocks
from workbench.targets.nvidia.toolchain import (
    PtxError,
    assembler,
    disassemble,
    find,
    live_registers,
    missing,
)
from workbench.targets.nvidia.warpgroup_choice import options_for_turned
from workbench.targets.nvidia.wide_sums import with_wide_sums
from workbench.targets.objects import code_bytes
from workbench.targets.simt.kernel import expand, lower, parameters_of
from workbench.targets.simt.lowering import Lowering
from workbench.targets.simt.ops import all_warps, cluster_of, is_drawn, is_persistent, most_rounds
from workbench.targets.simt.options import with_options
from workbench.targets.simt.passes.apart import split_by_overlap
from workbench.targets.simt.passes.ask_first import ask_first
from workbench.targets.simt.passes.assign_layouts import assign_layouts
from workbench.targets.simt.passes.barriers import insert_barriers
from workbench.targets.simt.passes.begin_early import begin_early
from workbench.targets.simt.passes.conversions import halve_conversions
from workbench.targets.simt.passes.early_loads import load_early
from workbench.targets.simt.passes.flatten_loops import flatten_loops
from workbench.targets.simt.passes.full_blocks import split_full_blocks
from workbench.targets.simt.passes.longest_first import longest_first, told_order
from workbench.targets.simt.passes.order_loops import READS_AGAIN, order_loops
from workbench.targets.simt.passes.own_rounds import load_in_own_round
from workbench.targets.simt.passes.shared_memory import (
    Interval,
    allocate,
    bytes_needed,
    room_for_rings,
)
from workbench.targets.simt.passes.skip_masks import skip_masks
from workbench.targets.simt.passes.skip_ones import skip_ones
from workbench.targets.simt.passes.spread_quotients import spread_quotients
from workbench.targets.simt.passes.turn_tiles import turn_tiles
from workbench.targets.simt.placed import layouts
from workbench.targets.simt.pressure import fitting, note_pressure, overflows, peak
from workbench.targets.simt.schedule import pipelines
from workbench.targets.simt.verifier import verify_layouts
from workbench.targets.stages import Step, go, read_module
from workbench.trace import Occupancy, Rendered, Resources, SharedBuffer

UNOBEYED = Unobeyed(
    loops={
        "disallow_acc_multi_buffer": "sums are never kept in several buffers, nothing to forbid",
    },
    second="an access in PTX takes one hint",
)


#: Registers of a thread beside tiles, about.
_BESIDE_TILES = 32


@dataclass(frozen=True, slots=True)
class State:
    """What the stages have made so far.

    Attributes:
        unit: what it is made for.
        recorder: what hears of passes and times.
        module: tile IR at first, then GPU IR.
        offsets: bytes into shared memory of each op that has some, by op id.
        intervals: which op has how much of it, and how long.
        shared_bytes: how much a program needs.
        llvm: the text of the LLVM module.
        ops: ids of ops by the dense numbers in its debug locations.
        ptx: the text of the PTX.
        fitted: what ptxas has made of it, if it had to say whether it takes it.
    """

    unit: Chip
    recorder: Recorder
    module: Module
    offsets: Mapping[int, int] = field(default_factory=dict[int, int])
    intervals: tuple[Interval, ...] = ()
    shared_bytes: int = 0
    llvm: str = ""
    ops: Mapping[int, int] = field(default_factory=dict[int, int])
    ptx: str = ""
    fitted: Fitted | None = None


def build(
    module: Module, target: str, recorder: Recorder, override: Override | None = None
) -> Built:
    """Compile tile IR for a chip; see targets/built.py."""
    return _built(go(STEPS, State(chip(target), recorder, module), override))


def _gpu(state: State) -> State:
    unit, recorder = state.unit, state.recorder
    free = not state.module.attributes.get("num_warps")
    module = _with(state.module, **_options(state.module, recorder.remarks, unit))
    module = recorder.run("answer-hints", partial(answer_hints, unobeyed=UNOBEYED), module, "tile")
    module = recorder.run("part-quotients", part_quotients, module, "tile")
    module = narrow(module, recorder)
    tiles = recorder.run("expand-functions", expand, module, "tile")
    for_warps = partial(_for_warps, tiles, unit)
    way = _Way(recorder, unit)
    module = way.take(tiles)
    if free and overflows(module, unit):
        warps: int = tiles.attributes["num_warps"]
        more = fitting(for_warps, warps, unit).warps
        if more is not None:
            tiles = _with(tiles, num_warps=more)
            module = way.take(tiles, f"num_warps = {more}: tiles do not fit {warps} warps")
    module = _fitted(tiles, module, way)
    state = _placed(state, module, way.beside_rings(module))
    ordered = partial(insert_barriers, offsets=dict(state.offsets), chip=state.unit)
    module = recorder.run("insert-barriers", ordered, module, "gpu")
    module = recorder.run("take-turns", partial(take_turns, chip=state.unit), module, "gpu")
    for name, unset in (("most_rounds", None), ("cluster", 1), ("tickets", False)):
        asked_for = module.attributes.get(name)
        if asked_for not in (None, unset) and not is_persistent(module):
            text = f"{name}={asked_for} is not obeyed: no block stays for another program"
            recorder.remarks.note(None, text, "missed")
    note_attributes(module, state.unit, recorder.remarks)
    recorder.remarks.pass_name = "registers"
    # What would fit takes the passes again for other warps.
    said = deep(partial(note_pressure, module, recorder.remarks, unit, for_warps))
    recorder.remarks.later(said)
    return replace(state, module=module)


def _options(module: Module, remarks: Remarks, unit: Chip) -> dict[str, Any]:
    """Return the options of a module, with those chosen that the author left open.

    Tiles of products that become matrix products are never made: they are nothing to refuse.
    """
    left = multiply_broadcast_tiles(module, Remarks())
    return dict(with_options(left, remarks, unit).attributes)


class _Way:
    """The passes of GPU IR, taken again where what came of them does not fit."""

    def __init__(self, recorder: Recorder, unit: Chip) -> None:
        self.recorder = recorder
        self.unit = unit
        self._before = len(recorder.passes), len(recorder.remarks.items), recorder.verify
        self._said: list[str] = []
        self._beside: tuple[Module, Chip] | None = None

    def beside_rings(self, module: Module) -> Chip:
        """Return what `_beside_rings` does: first it is asked whether a module fits, then where."""
        if self._beside is None or self._beside[0] is not module:
            self._beside = module, _beside_rings(module, self.unit)
        return self._beside[1]

    def room(self, module: Module) -> int | None:
        """Return the bytes that rings may take beside the rest, None: all fits."""
        return room_for_rings(module, self.beside_rings(module))

    def take(self, tiles: Module, said: str = "", room: int | None = None) -> Module:
        """Return the GPU IR of tile IR; only this attempt and what is said stay on record."""
        module = self._take(tiles, said, room)
        if not _has_boxes_left(module):
            return module
        off = "loads by pointers: rings of boxes do not fit shared memory"
        return self._take(_with(tiles, tma=False), off, room)

    def _take(self, tiles: Module, said: str, room: int | None) -> Module:
        recorder = self.recorder
        del recorder.passes[self._before[0] :], recorder.remarks.items[self._before[1] :]
        recorder.verify = self._before[2]
        self._said += [said] if said else []
        for text in self._said:
            recorder.remarks.note(None, text)
        return _gpu_passes(tiles, self.unit, recorder, room)


def _has_boxes_left(module: Module) -> bool:
    """Say whether a box of a tensor is read other than by copies into a ring, as nothing does."""
    return any(isinstance(op, TensorLoad) for op in module.walk())


def _fitted(tiles: Module, module: Module, way: _Way) -> Module:
    """Return GPU IR whose buffers fit, if rings of less room or no warpgroups make them fit.

    What the author asked for stays: a slot more for a product in flight and stages that nobody
    asked for are given up, then rounds that are copied at once, then products by warpgroups, whose
    operands all lie in shared memory.
    """
    room = way.room(module)
    if room is None:
        return module
    smaller = way.take(tiles, room=room)
    if is_persistent(module) and not is_persistent(smaller):
        off = _with(tiles, persistent=False)
        text = (
            "not persistent: rings do not fit shared memory beside what else a program keeps there"
        )
        return _fitted(off, way.take(off, text), way)
    if way.room(smaller) is None:
        return smaller
    if any(isinstance(op, CopyRounds) for op in smaller.walk()):
        off = _with(tiles, rounds_at_once=False)
        text = "rounds that read one run of memory are not copied at once: that does not fit"
        return _fitted(off, way.take(off, text), way)
    if not tiles.attributes.get("wgmma", True):
        return smaller
    off = _with(tiles, wgmma=False)
    by_warps = _gpu_passes(off, way.unit, Recorder())
    if way.room(by_warps) is not None:
        return way.take(tiles)
    return way.take(off, "products by warps: operands of warpgroups do not fit shared memory")


def _placed(state: State, module: Module, unit: Chip) -> State:
    """Give a module its shared memory."""
    offsets, intervals, shared_bytes = allocate(module, unit)
    return replace(
        state, unit=unit, module=module, offsets=offsets, intervals=intervals,
        shared_bytes=shared_bytes,
    )  # fmt: skip


def _beside_rings(module: Module, unit: Chip) -> Chip:
    """Return the chip with so much scratch for an op that most blocks are resident.

    Where blocks stay, rings are filled while they end a program, so nothing else lies there.
    """
    if not is_persistent(module):
        return replace(unit, halvings=0)
    # What a launch takes, whoever has more of it then.
    registers = min(unit.most_registers(all_warps(module)), _BESIDE_TILES + peak(module)[1])

    def warps(shared_bytes: int) -> int:
        return residency(unit, all_warps(module), registers, shared_bytes).warps

    best, resident, most = replace(unit, halvings=0), -1, warps(0)
    for halvings in range(MOST_HALVINGS + 1):
        one = replace(unit, halvings=halvings)
        found = warps(bytes_needed(module, one))
        if found > resident:
            best, resident = one, found
        if resident == most:  # registers allow no more
            break
    return best


def _read_gpu(state: State, override: Override) -> State:
    """Take GPU IR as it is written: its barriers too."""

    def read(made: Module, remarks: Remarks) -> Module:
        del remarks
        return read_module(override, made, partial(verify_layouts, chip=state.unit))

    module = state.recorder.run("override", read, state.module, "gpu")
    return _placed(state, module, _beside_rings(module, state.unit))


def _llvm(state: State) -> State:
    begin("llvm")
    start = time.perf_counter()
    low = lower(state.module, state.unit, dict(state.offsets))
    text = llvm_module(low, state.module, state.unit, state.shared_bytes)
    state.recorder.times["llvm"] = (time.perf_counter() - start) * 1e3
    return replace(state, llvm=text, ops=low.emit.op_numbers)


def _read_llvm(state: State, override: Override) -> State:
    return replace(state, llvm=read_llvm(override, state.llvm, symbol_of(state.module.name)))


def _ptx(state: State) -> State:
    begin("ptx")
    start = time.perf_counter()
    unit = machine(state.unit, state.llvm)
    with explained(state.module, state.llvm, unit, state.ops):
        ptx = with_wide_sums(assembly(state.llvm, unit))
    state.recorder.times["ptx"] = (time.perf_counter() - start) * 1e3
    return replace(state, ptx=ptx)


def _read_ptx(state: State, override: Override) -> State:
    """Take PTX that ptxas takes; without ptxas it is the driver that will say."""
    check_ptx(override, state.ptx, symbol_of(state.module.name))
    text, fits = override.text, None
    if find("ptxas") is not None:
        try:
            fits = fitted(text, state.unit, all_warps(state.module))
        except PtxError as error:
            raise refused_by_ptxas(override, error.rows) from None
    return replace(state, ptx=text, fitted=fits)


#: What is made, in order.
STEPS: tuple[Step[State], ...] = (
    Step("gpu", _gpu, _read_gpu),
    Step("llvm", _llvm, _read_llvm),
    Step("ptx", _ptx, _read_ptx),
)


def _disassembled(made: Binary, rows: Rendered) -> Rendered:
    live = live_registers(made.data) if made.resources.spill_store_bytes else ""
    return sass_rows(disassemble(made.data), rows, live)


def _built(state: State) -> Built:
    module, unit, ptx, ops = state.module, state.unit, state.ptx, state.ops
    shared_bytes, remarks = state.shared_bytes, state.recorder.remarks
    made: dict[str, Binary] = {}
    assembled: list[str] = []  # the text that was, if it was: with a limit of registers, perhaps

    rows_of = cache(partial(ptx_rows, ops=ops, llvm=state.llvm))

    def binary() -> Binary:
        if "cubin" not in made:
            if find("ptxas") is None:
                made["cubin"] = Binary(
                    "ptx",
                    ptx.encode(),
                    Resources(shared_bytes=0, dynamic_shared_bytes=shared_bytes),
                )
            else:
                try:
                    found = state.fitted or fitted(ptx, unit, all_warps(module))
                except PtxError as error:
                    raise refused(error, module, rows_of(ptx)) from error
                assembled.append(found.ptx)
                result = found.result
                check_shares(result, module)
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
                # Whoever launches does not wait until it is known where.
                if spilled(result):
                    remarks.later(lambda: note_spills(result, sass(), module, remarks))
                if result.notes:
                    remarks.later(lambda: note_assembler(
                        found, rows_of(found.ptx), module, remarks))  # fmt: skip
        return made["cubin"]

    disassembled = cache(lambda: _disassembled(binary(), rows_of(ptx)))

    def sass() -> Rendered:
        for tool in ("ptxas", "nvdisasm"):
            if find(tool) is None:
                return Rendered("", (), "missing", f"SASS {missing(tool)}")
        return disassembled()

    return Built(
        symbol=symbol_of(module.name),
        assemble=binary,
        num_warps=module.attributes["num_warps"],
        num_stages=module.attributes["num_stages"],
        threads=unit.lanes * all_warps(module),
        shared_bytes=shared_bytes,
        dynamic_shared_bytes=shared_bytes,
        gpu=module,
        machine=machine(unit, state.llvm),
        texts={
            "llvm": lambda: llvm_rows(state.llvm, ops),
            "ptx": lambda: rows_of(assembled[0] if assembled else ptx),
            "sass": sass,
        },
        fields={
            "shared": tuple(_interval(i) for i in state.intervals),
            "pipelines": partial(pipelines, module, unit.rules),
            "layouts": partial(layouts, module),
        },
        extra={**_extra(module, unit), "tools": assembler()},
    )


def _extra(module: Module, unit: Chip) -> dict[str, Any]:
    """Return what a launch is told: of tensor maps, what they ask of it, when it begins."""
    made, needs = made_parameters(module), asked(module)
    told: dict[str, Any] = dict.fromkeys(attributes_of(module, unit), True)
    if module.attributes.get(READS_AGAIN):
        told["reads_again"] = True
    if not made:
        if (rows := rows_read_again(module, unit)) is not None:
            told["rows"] = rows.to_data()
        return told
    told["made"] = made
    if rounds := most_rounds(module):
        told["persistent"] = rounds
    if is_drawn(module):
        told["drawn"] = True
    if (blocks := cluster_of(module)) > 1:
        told["cluster"] = blocks
    if needs and needs.steps:
        told["asked"] = needs.to_data()
    return told


def _occupancy(unit: Chip, module: Module, registers: int, shared_bytes: int) -> Occupancy:
    found = residency(unit, all_warps(module), registers, shared_bytes)
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


def _with(module: Module, **options: object) -> Module:
    return replace(module, attributes={**module.attributes, **options})


def _for_warps(module: Module, unit: Chip, warps: int) -> Module | None:
    """Return the GPU IR of a kernel for other warps than it has, None where they cannot be."""
    module = _with(module, num_warps=warps)
    try:
        found = _gpu_passes(module, unit, Recorder())
        if not _has_boxes_left(found):
            return found
        return _gpu_passes(_with(module, tma=False), unit, Recorder())
    except KernelError:
        return None


def _gpu_passes(module: Module, unit: Chip, recorder: Recorder, room: int | None = None) -> Module:
    module = recorder.run("order-loops", partial(order_loops, chip=unit), module, "gpu")
    at_once = partial(copy_rounds_at_once, chip=unit)
    module = recorder.run("copy-rounds-at-once", at_once, module, "gpu")
    own = partial(load_in_own_round, chip=unit)
    module = recorder.run("load-in-own-round", own, module, "gpu")
    module = recorder.run("sums-to-products", multiply_broadcast_tiles, module, "gpu")
    module = recorder.run("multiply-rows-once", multiply_rows_once, module, "gpu")
    module = recorder.run("load-once", load_once, module, "gpu")
    module = recorder.run("float-differences", float_differences, module, "gpu")
    module = recorder.run("select-extremes", select_extremes, module, "gpu")
    split = partial(split_full_blocks, chip=unit)
    module = recorder.run("split-full-blocks", split, module, "gpu")
    module = recorder.run("accumulate-products", accumulate_products, module, "gpu")
    module = recorder.run("longest-first", partial(longest_first, chip=unit), module, "gpu")
    recorder.verify = partial(verify_layouts, chip=unit)
    steps = [
        ("assign-layouts", partial(_assign, unit=unit)),
        ("hoist-invariants", hoist_invariants),
        ("read-in-place", partial(read_in_place, chip=unit)),
        ("raise-tma", partial(raise_tma, chip=unit, room=room)),
        ("flatten-boxes", partial(flatten_loops, chip=unit, boxes=True)),
        ("role-partition", partial(role_partition, chip=unit, room=room)),
        ("expand-roles", partial(expand_roles, chip=unit)),
        ("split-by-overlap", partial(split_by_overlap, chip=unit)),
        ("flatten-loops", partial(flatten_loops, chip=unit)),
        ("load-early", partial(load_early, chip=unit)),
        ("pipeline-loads", partial(pipeline_loads, chip=unit, room=room)),
        ("overlap-products", partial(overlap_products, rules=unit.rules)),
        ("merge-equal", merge_equal),
        ("skip-masks", skip_masks),  # copies what makes a mask: not to be merged again
        ("skip-ones", partial(skip_ones, chip=unit)),
        ("spread-quotients", spread_quotients),
        ("keep-extremes", keep_extremes),
        ("drop-dead", drop_dead),
        ("reread-operands", partial(reread_operands, chip=unit)),
        ("stage-products", partial(stage_products, chip=unit)),
        ("turn-tiles", partial(turn_tiles, chip=unit)),
        ("start-products", partial(start_products, chip=unit)),
        ("leave-stores", partial(leave_stores, chip=unit)),
        ("halve-conversions", partial(halve_conversions, chip=unit)),
        ("begin-early", begin_early),
        ("ask-first", partial(ask_first, chip=unit)),
        ("told-order", told_order),
        ("still-read", partial(still_read, chip=unit)),
    ]
    return recorder.pipeline(steps, module, "gpu")


def _assign(module: Module, remarks: Remarks, unit: Chip) -> Module:
    chosen = {**options_for_weights(module, unit), **options_for_turned(module, unit)}
    return assign_layouts(_with(module, **{**chosen, **module.attributes}), remarks, unit)


def machine(unit: Chip, text: str) -> Machine:
    """Return what LLVM generates code for: the oldest PTX version that has all the text uses."""
    version = int(unit.ptx)
    if "mma.sync" in text and (".e4m3" in text or ".e5m2" in text):
        version = max(version, 84)  # PTX ISA 8.4 brought products of 8-bit floats
    if unit.capability < 90 and re.search(r"cvt\.[^ ]*e[45]m[23]x2", text):
        version = max(version, 81)  # PTX ISA 8.1 brought conversions of 8-bit floats to sm_89
    if re.search(r"atom\.[^ ]*\.v\d\.", text):
        version = max(version, 81)  # PTX ISA 8.1 brought vectors of atomic additions
    if re.search(r'cp\.async\.c[ag]\.[^"]*\], \d+, \$', text):
        version = max(version, 75)  # PTX ISA 7.5 brought copies that a predicate makes zeros
    if "L1::evict_" in text or "createpolicy" in text:
        version = max(version, 74)  # PTX ISA 7.4 brought priorities and policies of eviction
    return Machine("nvptx64-nvidia-cuda", unit.name, f"+ptx{version}", places=True)


def llvm_module(low: Lowering, module: Module, unit: Chip, shared_bytes: int) -> str:
    """Return the text of the LLVM module; `shared_bytes` are a block's."""
    threads = unit.lanes * all_warps(module)
    body = "\n".join(low.emit.lines)
    globals_ = "\n".join(low.emit.globals)
    declared = "\n".join(low.emit.declared.values())
    name = symbol_of(module.name)
    parameters = [*parameters_of(module), *map_parameters(module)]
    limit = module.attributes.get("maxnreg")
    more = f' "nvvm.maxnreg"="{limit}"' if limit else ""
    wanted = module.attributes.get(BLOCKS_WANTED) or told_blocks(module, unit, shared_bytes)
    more += f' "nvvm.minctasm"="{wanted}"' if wanted else ""
    blocks = cluster_of(module)
    more += f' "nvvm.cluster_dim"="{blocks},1,1"' if blocks > 1 else ""
    return (
        f'source_filename = "{name}"\n'
        f'target triple = "nvptx64-nvidia-cuda"\n'
        f"@shared_memory = external addrspace({unit.shared_space}) global [0 x i8], align 1024\n"
        f"{globals_}\n{declared}\n"
        f"define ptx_kernel void @{name}({', '.join(parameters)}) #0{low.debug} {{\n"
        f"entry:\n{body}\n}}\n"
        f'attributes #0 = {{ nounwind "nvvm.reqntid"="{threads}"{more} }}\n'
        f"{low.emit.metadata()}"
    )
