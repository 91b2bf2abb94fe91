"""Blocks that stay: each takes several programs of the launch, one after the other."""

from __future__ import annotations

from workbench.ir import I32, NONE, Array, Block, Frame, Module, Op, Type, Value, attribute
from workbench.ops.control import carried, verify_carried
from workbench.source import ShapeError


class EachProgram(
    Op, mnemonic="gpu.each_program", effects=NONE, repeats=True, per_program=True, exact=True
):
    """Run the body for each program that this block takes, one after the other.

    Programs are numbered along the author's grid, axis 0 first. Blocks take them back and forth: of
    n blocks b takes b, 2n - 1 - b, 2n + b, 4n - 1 - b, …. Where programs grow with their number
    along an axis (causal attention), who had a small one then has a large one.

    With `blocks` = C, a power of two, blocks whose numbers differ in those bits alone are a
    cluster, and there is a multiple of C of them: then their programs differ in those bits alone,
    too, and only the launch's last may lack some.

    With `drawn` only a block's first program is so found: the body says which one follows, by the
    first number that it hands on (`gpu.draw`), and what is not below the count of all is none.

    A block takes at most `most_rounds`: a launch of more than these for each block that there is at
    once starts one for each program.

    In the body `tile.program_id` is the current program's, and all that follows from it has its
    place there; `tile.num_programs` is the author's grid anywhere. The body's arguments are carried
    from one program to the next (places in rings: barriers count on, whose program it is), and the
    results are what the last one yields. What is in memory is not: programs of a launch come in no
    order, so nothing waits for a store to global memory of the program before.

        %3 = gpu.each_program [%x] {most_rounds = 32} {
        ^(%slot: f32):
          tile.yield [%slot]
        } : f32
    """

    inits: tuple[Value, ...]
    body: Block
    most_rounds: int
    blocks: int = attribute(default=1)
    drawn: bool = attribute(default=False)

    def infer(self) -> tuple[Type, ...]:
        return tuple(value.type for value in self.inits)

    def verify(self) -> None:
        if self.drawn and (self.blocks > 1 or [v.type for v in self.inits[:1]] != [I32]):
            raise ShapeError(
                f"{self.name}: blocks of a cluster draw no programs, others hand on the number of "
                "the next one first, an i32",
                self.span,
            )
        verify_carried(self, self.inits, self.body.arguments, self.body)

    def flows(self) -> tuple[tuple[Value, Value], ...]:
        return carried(self.inits, self.body, self.body.arguments, self.results)

    def interpret(self, frame: Frame) -> tuple[Array, ...]:
        held = tuple(frame[value] for value in self.inits)
        following = (lambda: int(held[0])) if self.drawn else None
        for program in frame.programs(following):
            held = program.run(self.body, held)
        return held


def is_persistent(module: Module) -> bool:
    """Say whether blocks of a kernel take several programs each."""
    return any(op.per_program for op in module.walk())


def is_drawn(module: Module) -> bool:
    """Say whether blocks of a kernel draw their programs."""
    return any(op.drawn for op in module.walk() if isinstance(op, EachProgram))


def most_rounds(module: Module) -> int:
    """Return how many programs a block takes at most, 0 where each has a block of its own."""
    return max((op.most_rounds for op in module.walk() if isinstance(op, EachProgram)), default=0)


def cluster_of(module: Module) -> int:
    """Return how many blocks of a kernel make a cluster, 1 where each is by itself."""
    return max((op.blocks for op in module.walk() if isinstance(op, EachProgram)), default=1)
