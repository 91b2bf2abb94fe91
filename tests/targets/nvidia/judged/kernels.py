"""The kernels whose rows are judged, and what is kept of a compilation to judge them by.

What is kept does not move with the compiler: PTX with its debug lines, nvdisasm's listing, the
cubin, the GPU IR with its op ids and the source lines of ops. Which op a row came from is read
off these anew, by today's code.
"""

from __future__ import annotations

import json
import linecache
import lzma
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from tests.bench.texts import samples
from tests.passes.corpus import cases
from tests.targets.nvidia import test_overlap
from tests.targets.nvidia.configurations import QUICK, SLOW
from workbench.ir import Module, print_rows
from workbench.passes.manager import Recorder
from workbench.passes.pipeline import tile_passes
from workbench.targets.nvidia.chip import chip
from workbench.targets.nvidia.listing import ptx_rows, sass_rows
from workbench.targets.nvidia.pipeline import STEPS, State
from workbench.targets.nvidia.spills import fitted, spilled
from workbench.targets.nvidia.toolchain import disassemble, live_registers
from workbench.targets.simt.ops import all_warps
from workbench.targets.stages import go
from workbench.trace import Rendered

CHIP = "sm_90a"
_KIND = re.compile(r"\s*(?:[%\w., :]+ = )?([a-z]+\.\w+)")
KEPT = Path(__file__).parent / "kernels.json.xz"

#: What is compiled, by what it stands for: its name in the tests, and options besides.
WANTED: dict[str, tuple[str, dict[str, Any]]] = {
    "elementwise": ("geglu geglu 0", {}),
    "softmax": ("configuration softmax fp32 1024", {}),
    "layernorm": ("layernorm layer_norm 0", {}),
    "reduction": ("reductions row_argmax_by_pairs 0", {}),
    "scan": ("scans long_cumsum 0", {}),
    "mma": ("matmul fp16 40x48x50 nn warps 4 stages 3 leaky_relu", {}),
    "wgmma": ("configuration matmul 128x128x64 w4 s3", {}),
    "roles": ("two products", {"narrow_index": True, "warp_specialize": True}),
    "atomics": ("layernorm layer_norm_backward_locked 0", {}),
    "spills": ("layernorm layer_norm_backward 0", {"maxnreg": 24}),
    "sort": ("sorts row_argsort 0", {}),
    "dropout": ("dropout seeded_dropout 0", {}),
}


@cache
def modules() -> dict[str, Callable[[], Module]]:
    """Return what makes the tile IR of the tests' kernels, of samples those that are judged."""
    found: dict[str, Callable[[], Module]] = {"two products": test_overlap.module_of}
    found |= {case.name: case.module for case in cases()}
    found |= {f"configuration {one.name}": one.module for one in (*QUICK, *SLOW)}
    wanted = {name for name, _ in WANTED.values()}
    return found | {name: partial(replace, module) for name, module in samples(wanted)}


@dataclass(frozen=True)
class Compiled:
    """What is kept of a kernel.

    Attributes:
        llvm: the LLVM IR.
        ptx: with its debug lines.
        listing: of nvdisasm, with the PTX row of each instruction.
        live: where registers are spilled, the same with what each instruction writes and reads.
        numbers: op ids by the dense numbers of the debug lines.
        ir: the rows of the GPU IR, each with the id of its op, 0 for none.
        kinds: each op's mnemonic, by id.
        lines: the source line of each op that has one, by id.
        source: the lines of source that ops name.
    """

    llvm: str
    ptx: str
    listing: str
    live: str
    numbers: dict[int, int]
    ir: list[tuple[str, int]]
    kinds: dict[int, str]
    lines: dict[int, int]
    source: dict[int, str]

    def rows(self) -> Rendered:
        """Return the instructions with their ops, by today's code."""
        return sass_rows(self.listing, ptx_rows(self.ptx, self.numbers, self.llvm), self.live)


@cache
def compiled(what: str) -> Compiled:
    """Compile one of the kernels with today's compiler."""
    wanted, options = WANTED[what]
    module = modules()[wanted]()
    module = replace(module, attributes={**module.attributes, **options})
    recorder = Recorder()
    state = go(STEPS, State(chip(CHIP), recorder, tile_passes(module, recorder)), None)
    found = fitted(state.ptx, state.unit, all_warps(state.module))
    rows = print_rows(state.module)
    spans = {op.id: op.span for op in state.module.walk() if op.span is not None}
    return Compiled(
        state.llvm,
        found.ptx,
        disassemble(found.result.cubin),
        live_registers(found.result.cubin) if spilled(found.result) else "",
        dict(state.ops),
        rows,
        {op: match[1] for row, op in reversed(rows) if op and (match := _KIND.match(row))},
        {op: span.line for op, span in spans.items()},
        {span.line: linecache.getline(span.file, span.line).rstrip() for span in spans.values()},
    )


def keep() -> None:
    """Compile all of them and write what is kept."""
    found = {what: asdict(compiled(what)) for what in WANTED}
    data = json.dumps(found, ensure_ascii=False).encode()
    KEPT.write_bytes(lzma.compress(data, preset=9 | lzma.PRESET_EXTREME))


@cache
def kept() -> dict[str, Compiled]:
    """Return what is kept, by what it stands for."""
    found: dict[str, dict[str, Any]] = json.loads(lzma.decompress(KEPT.read_bytes()))
    for fields in found.values():
        for name in ("numbers", "kinds", "lines", "source"):
            fields[name] = {int(key): item for key, item in fields[name].items()}
    return {what: Compiled(**fields) for what, fields in found.items()}
