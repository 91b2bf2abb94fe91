"""What ptxas found no room for, and what else it says about a kernel."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from workbench.ir import Module, Op
from workbench.passes.manager import Remark, Remarks
from workbench.source import ResourceError, ToolError
from workbench.targets.nvidia.chip import Chip, registers_of_warp
from workbench.targets.nvidia.ops import WarpgroupDot
from workbench.targets.nvidia.refusals import assembled
from workbench.targets.nvidia.toolchain import Assembled, assemble, listed
from workbench.targets.simt.ops import roles_of
from workbench.trace import Rendered

#: Bytes spilled that cost less than half of the blocks do.
_FEW_SPILLED = 32
#: How many blocks are to be resident at least.
_BLOCKS = re.compile(r"\.minnctapersm (\d+)\n?")


@dataclass(frozen=True, slots=True)
class Fitted:
    """What ptxas made of a text: the given one but for its version and a limit of registers."""

    ptx: str
    result: Assembled


def spilled(result: Assembled) -> int:
    """Return the bytes that a thread stores and loads again for want of registers."""
    return result.spill_store_bytes + result.spill_load_bytes


def fitted(ptx: str, chip: Chip, num_warps: int) -> Fitted:
    """Assemble; where registers are spilled though there are more, again with leave to use them.

    ptxas gives up on some large kernels: it then uses 32 registers and spills the rest. With a
    limit stated it does not, but uses what it may. So the first limit is the least that more blocks
    share and that holds what was spilled. A limit on the command line is ignored where the text has
    `.reqntid`. Nor does ptxas always see how many warps begin with, where some give registers to
    others (C7508). Where registers are spilled so that more blocks have some, it is not worth it
    beside products of warpgroups, which wait for each other then. Where warps multiply it is, if
    none are in a loop, or few are and half of the blocks would be lost (12 bytes: paged decoding of
    128 keys by eight warps 418 to 373 us on an H100).
    """
    ptx, result = assembled(ptx, lambda text: assemble(text, chip.name))
    best = Fitted(ptx, result)
    blocks = _BLOCKS.search(ptx)
    if spilled(best.result) and blocks is not None:
        told, ptx = best, _BLOCKS.sub("", ptx, count=1)
        warps_multiply = "wgmma" not in ptx
        if warps_multiply and not spills_in_loops(told.result.cubin):
            return told
        best = Fitted(ptx, assemble(ptx, chip.name))
        more_than_half = num_warps * (int(blocks[1]) // 2 + 1)
        halved = best.result.registers > chip.most_registers(more_than_half)
        if warps_multiply and halved and spilled(told.result) <= _FEW_SPILLED:
            return told
    first, most = best.result, chip.most_registers(num_warps)
    shared_out = "setmaxnreg" in ptx
    all_used = first.registers >= most - 7 and not shared_out
    if not spilled(first) or all_used or ".maxnreg" in ptx:
        return best
    wanted = first.registers + -(-first.spill_store_bytes // 4)
    shares = range(chip.warps // num_warps, 1, -1)
    limits = [chip.most_registers(num_warps * blocks) for blocks in shares]
    least = most if shared_out else next((n for n in limits if n >= wanted), most)
    for limit in dict.fromkeys((least, most)):
        again = re.sub(r"(\.reqntid [\d, ]+)", rf"\1 .maxnreg {limit}", ptx, count=1)
        result = assemble(again, chip.name)
        if spilled(result) < spilled(best.result):
            best = Fitted(again, result)
        if not spilled(result):
            break
    return best


def spills_in_loops(cubin: bytes) -> bool:
    """Say whether a loop of a kernel stores or loads what was spilled; True if nobody can tell."""
    try:
        rows = listed(cubin).splitlines()
    except ToolError:
        return True
    labels = {row.strip()[:-1]: n for n, row in enumerate(rows) if row.startswith(".L")}
    for number, row in enumerate(rows):
        target = re.search(r"\bBRA\b.*`\((\.L\w+)\)", row)
        first = labels.get(target[1], number) if target else number
        if any(re.search(r"\b(STL|LDL)\b", inside) for inside in rows[first:number]):
            return True
    return False


def note_spills(result: Assembled, sass: Rendered, module: Module, remarks: Remarks) -> None:
    """Remark first of all on what was spilled, at the line that spills most."""
    places: Counter[int] = Counter()
    for line, ops in zip(sass.text.splitlines(), sass.rows, strict=False):
        if ops and re.search(r"\b(STL|LDL)\b", line):
            places[ops[0]] += 1
    spans = {op.id: op.span for op in module.walk() if op.span is not None}
    op = next((op for op, _ in places.most_common() if op in spans), 0)
    remarks.items.insert(0, Remark(
        "missed",
        f"{spilled(result):,} bytes spilled: {result.registers} registers of a thread do not hold "
        "its tiles; take smaller tiles or more warps",
        "ptxas", op, spans.get(op),
    ))  # fmt: skip


def check_shares(result: Assembled, module: Module) -> None:
    """Raise ResourceError where roles ask for more registers than a launch takes.

    `setmaxnreg` would wait for ever: no launch may come to that.
    """
    roles = roles_of(module)
    if roles is None or not roles.registers:
        return
    keeps, gets = roles.registers
    warps: int = module.attributes["num_warps"]
    wanted = 32 * (keeps * roles.warps + gets * warps)
    has = registers_of_warp(result.registers) * (roles.warps + warps)
    if wanted > has:
        raise ResourceError(
            f"roles with {keeps} and {gets} registers a thread ask for {wanted:,}, a block of "
            f"{roles.warps + warps} warps has {has:,}",
            roles.span,
            hint="compile without warp_specialize, or with another num_warps",
        )


def note_assembler(fitted: Fitted, ptx: Rendered, module: Module, remarks: Remarks) -> None:
    """Remark on what ptxas says: C75xx are products that it makes wait, for each other or at all.

    Args:
        fitted: the text that was assembled, and what came of it.
        ptx: the same text with the op of each row, as ptxas counts rows.
        module: the GPU IR.
        remarks: get one for each thing said, at the product's line or where ptxas says.
    """
    ops = {op.id: op for op in module.walk()}
    for note in dict.fromkeys(fitted.result.notes):
        op = _noted(note, ptx, ops)
        text = _NAMED_ROW.sub("", re.sub(r"^ptxas \S+\s*:\s*", "", note)).strip()
        remarks.items.append(Remark(
            "missed", f"ptxas: {text}", "ptxas", op.id if op else 0, op.span if op else None
        ))  # fmt: skip


#: The row of the PTX that a note names; 0 stands for none.
_NAMED_ROW = re.compile(r"\s*(?:in around|in) line (\d+)")


def _noted(note: str, ptx: Rendered, ops: Mapping[int, Op]) -> Op | None:
    """Return the op that a note is about: a product, if products wait for each other."""
    named = _NAMED_ROW.search(note)
    row = int(named.group(1)) - 1 if named else -1
    at = [ops[op] for op in ptx.rows[row] if op in ops] if 0 <= row < len(ptx.rows) else []
    products = [op for op in ops.values() if isinstance(op, WarpgroupDot)]
    if "serialized" not in note or not products:
        return next(iter(at), None)
    # One that goes on is what a schedule is for; the note is of the whole function.
    going = [op for op in products if op.in_flight]
    return next((op for op in (*at, *going, *products) if op in products), None)
