"""Options of a kernel: what the author left open is chosen, what cannot be is refused."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from workbench.ir import Module, Tile, element_of, shape_of
from workbench.ops import Dot, combines
from workbench.passes.manager import Remarks
from workbench.source import ResourceError
from workbench.targets.simt.hardware import Hardware

#: The most elements of a tile that one thread may hold; nearly all of so many are spilled.
MOST_ELEMENTS = 2048
_DEFAULT_WARPS = 4
_DEFAULT_STAGES = 3


def with_options(module: Module, remarks: Remarks, chip: Hardware) -> Module:
    """Choose warps and stages where the author did not.

    Raises ResourceError (K402) for what no block of the chip can be.
    """
    options = dict(module.attributes)
    if not options.get("num_warps"):
        options["num_warps"] = _warps(module, remarks, chip)
    warps = options["num_warps"]
    if warps & (warps - 1) or not 1 <= warps <= chip.most_warps:
        raise ResourceError(
            f"num_warps is {warps}, expected a power of two from 1 to {chip.most_warps}",
            hint="--set warps=4",
            code="K402",
        )
    _check_width(module, warps, chip)
    if options.get("num_stages") is None:
        options["num_stages"] = _DEFAULT_STAGES
        options["stages_are_free"] = True
    return replace(module, attributes=options)


def _check_width(module: Module, warps: int, chip: Hardware) -> None:
    """Refuse tiles whose code would be written out for minutes, only to spill nearly all of it."""
    threads = chip.lanes * warps
    for op in module.walk():
        for value in op.results:
            if not isinstance(value.type, Tile):
                continue
            elements = prod(1 << (extent - 1).bit_length() for extent in shape_of(value.type))
            if elements > MOST_ELEMENTS * threads:
                raise ResourceError(
                    f"a tile of {prod(shape_of(value.type)):,} elements leaves "
                    f"{elements // threads:,} to each of {threads} threads, which have at most "
                    f"{chip.most_registers(1)} registers",
                    op.span,
                    hint="take a smaller tile and more programs, or a loop over the tile",
                    code="K402",
                )


def _warps(module: Module, remarks: Remarks, chip: Hardware) -> int:
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
    warps = max(1, min(chip.most_warps, widest // (chip.lanes * 16)))
    threads = chip.lanes * warps
    each = widest // threads
    share = (
        f"about {each} elements a thread" if each else f"{widest} elements for {threads} threads"
    )
    remarks.note(None, f"num_warps = {warps}: {share}")
    return warps
