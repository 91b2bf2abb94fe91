"""Warps of a block that go different ways: a producer's and the consumers'."""

from __future__ import annotations

from workbench.ir import NONE, Block, Frame, Module, Op, Tile, attribute
from workbench.source import ShapeError


class Roles(Op, mnemonic="gpu.roles", effects=NONE, exact=True, side_by_side=True):
    """Warps of the block part: `warps` further ones run the first region, all others the second.

    The further ones, the producer, come after the `num_warps` that hold tiles, so no layout
    changes; what the producer computes are numbers. The roles meet where a region waits at
    barriers in memory. A `gpu.barrier` inside is one of that role's threads alone. With
    `registers` a thread of the producer keeps so many, and one of the consumers gets so many.

        gpu.roles {warps = 1, registers = ()} {
          tile.yield []
        } {
          tile.yield []
        }
    """

    producer: Block
    consumers: Block
    warps: int = attribute(default=1)
    registers: tuple[int, ...] = attribute(default=())

    def verify(self) -> None:
        for name, region in (("producer", self.producer), ("consumers", self.consumers)):
            if region.arguments or region.yields:
                raise ShapeError(f"{self.name}: the {name} take and give no values", self.span)
        if self.warps < 1 or (self.registers and (self.warps % 4 or len(self.registers) != 2)):
            raise ShapeError(
                f"{self.name} of {self.warps} warps with registers {self.registers}: "
                "registers are given to whole groups of four warps, (producer, consumers)",
                self.span,
            )
        for op in _inside(self.producer):
            for value in (*op.results, *(a for region in op.regions for a in region.arguments)):
                if isinstance(value.type, Tile):
                    raise ShapeError(
                        f"{op.name} makes a tile in the producer's region, whose warps hold none",
                        op.span,
                    )

    def interpret(self, frame: Frame) -> None:
        frame.part(self, {"a producer": self.producer, "a consumer": self.consumers})


def _inside(block: Block) -> list[Op]:
    found: list[Op] = []
    for op in block.ops:
        found.append(op)
        for region in op.regions:
            found += _inside(region)
    return found


def roles_of(module: Module) -> Roles | None:
    """Return the op by which a kernel's warps part, None where all run the same code."""
    return next((op for op in module.body.ops if isinstance(op, Roles)), None)


def all_warps(module: Module) -> int:
    """Return the warps of a block: those that hold tiles and a producer's."""
    roles = roles_of(module)
    return module.attributes["num_warps"] + (roles.warps if roles is not None else 0)
