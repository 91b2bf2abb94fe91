"""What an op does besides computing its results: `Op.effects()`.

An op that is silent about this does *everything* (`ANYTHING`); an op whose results are all it does
says so where it is declared:

    class Add(Op, mnemonic="tile.add", effects=NONE):

and an op that touches memory answers per access:

    class Store(Op, mnemonic="tile.store"):
        def own_effects(self) -> Effects:
            return (writes("global", self.pointers),)

`Op.effects()` adds what the ops in its regions do, so a loop over stores stores. Passes, analyses,
targets and the race finder ask this; none of them lists op classes.

Three questions are answered by fields:

- *what*: `reads` and `writes` name the space that is read or written, `through` the operand whose
  addresses (or buffer) say where; None means anywhere in that space.
- *order*: "plain" accesses are ordered within their program only. The rest is the order of the
  PTX and C++ memory models: "relaxed" accesses are indivisible and neither repeated, merged nor
  left out; a "release" comes after every earlier access of its program, nothing after an
  "acquire" moves before it.
- *scope*: which threads see that order: those of the program ("cta"), the device ("gpu"), or all
  ("sys").

An effect that neither reads nor writes but has an order is a fence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from workbench.ir.operation import Value

#: "global": memory behind pointers. "shared": buffers of a block. "outside": what the host sees
#: (printed lines, a launch that is stopped).
Space = Literal["global", "shared", "outside"]
Order = Literal["plain", "relaxed", "acquire", "release", "acq_rel"]
Scope = Literal["cta", "gpu", "sys"]


@dataclass(frozen=True, slots=True)
class Effect:
    """One thing that an op does; see the top of this file."""

    space: Space
    reads: bool = False
    writes: bool = False
    through: Value | None = None
    order: Order = "plain"
    scope: Scope = "gpu"
    #: It may happen after the op, until something waits for it (asynchronous copies).
    later: bool = False

    @property
    def acquires(self) -> bool:
        """Whether nothing after it may move before it."""
        return self.order in ("acquire", "acq_rel")

    @property
    def releases(self) -> bool:
        """Whether it comes after every earlier access of the program."""
        return self.order in ("release", "acq_rel")

    @property
    def is_meeting(self) -> bool:
        """Whether threads wait there for each other: an order both ways, and no access."""
        return self.acquires and self.releases and not (self.reads or self.writes)

    @property
    def is_wait(self) -> bool:
        """Whether each thread by itself sees behind it what others released, and no more."""
        return self.acquires and not (self.releases or self.reads or self.writes)

    @property
    def removable(self) -> bool:
        """Whether nobody could tell that it did not happen."""
        return not self.writes and self.order == "plain" and self.space != "outside"


Effects = tuple[Effect, ...]

#: What an op does that says nothing.
ANYTHING: Effects = (
    Effect("global", reads=True, writes=True, order="acq_rel", scope="sys"),
    Effect("shared", reads=True, writes=True, order="acq_rel", scope="cta"),
    Effect("outside", reads=True, writes=True),
)
#: What an op does whose results are all it gives.
NONE: Effects = ()
#: What an op does that tells the host something.
SEEN_OUTSIDE: Effects = (Effect("outside", writes=True),)
#: What an op does at which the threads of a block meet: what each did before, all see after.
BLOCK_FENCE: Effects = (
    Effect("global", order="acq_rel", scope="cta"),
    Effect("shared", order="acq_rel", scope="cta"),
)


def reads(space: Space, through: Value, order: Order = "plain", scope: Scope = "gpu") -> Effect:
    """Return the effect of reading through an operand."""
    return Effect(space, reads=True, through=through, order=order, scope=scope)


def writes(space: Space, through: Value) -> Effect:
    """Return the effect of writing through an operand."""
    return Effect(space, writes=True, through=through)
