"""What a kernel is compiled for: types, constants and facts of its arguments, and options.

Built by the launcher from real arguments, or by `compile` from a signature text. Everything in
here is hashable plain data: it is (part of) the compile key.
"""

from __future__ import annotations

from dataclasses import dataclass

from workbench.ir import SCALARS, Element, Pointer
from workbench.source.arguments import Argument
from workbench.source.overrides import Override

__all__ = ["Argument", "Options", "Specialization", "type_of"]


@dataclass(frozen=True, slots=True)
class Options:
    """Compile options under their language names; None: chosen by the compiler.

    With `launch_pdl` a launch of a kernel that waits by itself (`tl.extra.cuda.gdc_wait`) begins
    while the one before it in its stream still runs (CUDA's programmatic dependent launch); with
    `launch_cooperative_grid` a launch whose programs are not all there at one time is refused.
    `exact` combines in the interpreter's order without contraction; `wrap_index` gives i32
    arithmetic Triton's wrapping, `wrap_loaded` only that of loaded values and constants among
    themselves, which addresses are not made of; `narrow_index` says that all index arithmetic on
    arguments, program ids and ranges is known to fit 32 bits in the launches this is compiled for;
    `guarded` puts a check in front of every access; without `wgmma` products go by the instructions
    of a warp on chips that have those of four, without `tma` no load becomes a box of a tensor map,
    without `overlap` the two products of a loop end in the round in which they start, without
    `skip_masks` every round applies the masks of its tiles; without `loads_first` what is loaded
    before a loop waits behind all that fills the loop's ring, and no producer brings it where
    blocks stay; without `apart` no loop is written twice that could copy ahead only where arguments
    do not overlap; without `reorder_rounds` loops around a product keep the author's order where in
    another one rounds in a row read the same sectors; without `rounds_at_once` each round loads for
    itself what those of short loops read from one run of memory; without `fewer_stages` a ring
    whose copies wait for a table has all stages asked for, though more blocks would share a
    multiprocessor with fewer; without `fewer_slots` one that warps multiply from has a slot for
    each stage, though enough warps would share a multiprocessor if copies started behind what reads
    their slot; without `tell_blocks` ptxas gives threads of a loop of warps' products as few
    registers as it likes; without `reread_operands` what all rounds of such a loop read stays in
    registers, though more blocks would be resident without; without `computed_first` a product's
    second operand goes to shared memory where it is computed of what memory holds, on chips that
    have products by four warps; without `loaded_first` an operand that memory has as no such
    product reads it is turned by threads; without `l2_policies` no copy by threads tells the L2 how
    long to keep what an `eviction_policy` is of; without `short_division` numbers of 64 bits are
    divided as such, though 32 bits hold what is divided; without `compare_together` each register
    of a mask compares for itself what differs between them by constants. With `tables_ahead` tables
    that say where copies read are loaded a round before them where warps multiply, too; with
    `skip_ones` warps ask each round whether factors that are mostly 1 are; with `swap_operands` a
    product of few rows goes by four warps as C.T = B.T @ A.T, whose few columns an instruction may
    have; with `rounds_together` copies whose rows are short, and go on in the next round, start for
    several rounds at once; with `fast_rescale` an extreme that a loop carries on may lie behind
    by 8 powers of 2 of what is made of it: who asks for that says that it cancels out of that, as
    the maximum of an online softmax does.
    `keep_operands` says whether what products read in all rounds as their first operand stays in
    registers (unset: where these suffice, and no block less is resident for it), `turns` whether
    groups of four warps beside a producer start the products of a round one group after the other
    (unset: where a round starts two of them, and all programs have as many rounds).
    `copy_narrow` says whether rings bring what lies so thinly over the threads that no copy would,
    in another layout, and rows and columns that meet the results of products (unset: where products
    are made of narrower numbers, whose scales rounds would wait for), `prefetch_l2` whether copies
    bring 256 bytes around each vector to the L2, which next rounds read (unset: where warps
    multiply such numbers, and rows of a tile are shorter than that), `through_registers` says
    whether a tile that no copy brings as a product reads it is loaded rounds ahead (unset: where no
    copy brings it at all), `tma_stores` whether results of products are stored by boxes of tensor
    maps (unset: where blocks stay and rings leave room for a whole tile), `warp_specialize` whether
    warps part into a producer's and those that multiply, and `persistent` whether blocks whose
    warps part stay for one program after the other; `reorder` says whether programs with the
    longest loops begin first (unset: where nothing that is loaded decides how long these are),
    `tickets` whether blocks that stay draw their programs (unset: where what is loaded decides how
    long these take); a captured launch has one counter for that, so a graph that is instantiated
    twice and replayed in two streams at once needs `tickets=False`. `most_rounds` says how many
    programs a block that stays takes at most: where a launch has more, each program has a block
    (unset: what its loops read decides), and `cluster` how many of these blocks copy together what
    their programs all read, a power of two (unset: 2 where rows of what they read are known to
    begin in the midst of lines of memory, else 1).
    """

    num_warps: int | None = None
    num_stages: int | None = None
    num_ctas: int = 1
    maxnreg: int | None = None
    enable_fp_fusion: bool = True
    launch_pdl: bool = False
    launch_cooperative_grid: bool = False
    exact: bool = False
    wrap_index: bool = False
    wrap_loaded: bool = False
    debug: bool = False
    wgmma: bool = True
    tma: bool = True
    overlap: bool = True
    skip_masks: bool = True
    loads_first: bool = True
    apart: bool = True
    reorder_rounds: bool = True
    rounds_at_once: bool = True
    fewer_stages: bool = True
    fewer_slots: bool = True
    tell_blocks: bool = True
    reread_operands: bool = True
    computed_first: bool = True
    loaded_first: bool = True
    l2_policies: bool = True
    short_division: bool = True
    compare_together: bool = True
    skip_ones: bool = False
    swap_operands: bool = False
    rounds_together: bool = False
    fast_rescale: bool = False
    tables_ahead: bool = False
    keep_operands: bool | None = None
    turns: bool | None = None
    copy_narrow: bool | None = None
    prefetch_l2: bool | None = None
    through_registers: bool | None = None
    tma_stores: bool | None = None
    warp_specialize: bool | None = None
    persistent: bool | None = None
    reorder: bool | None = None
    tickets: bool | None = None
    most_rounds: int | None = None
    cluster: int | None = None
    narrow_index: bool = False
    guarded: bool = False
    #: What the code is for, where the kernel asks (tl.target_info).
    target: str = ""


@dataclass(frozen=True, slots=True)
class Specialization:
    """All of it: arguments by parameter name in order, options, and an edited stage."""

    arguments: tuple[tuple[str, Argument], ...]
    options: Options = Options()
    override: Override | None = None

    def argument(self, name: str) -> Argument:
        """Return what is known about one parameter; raises KeyError."""
        return dict(self.arguments)[name]


def type_of(word: str) -> Element:
    """Return the IR type of a type name: "i32", "*f32", "*kf32" (memory that is only read).

    >>> str(type_of("*f16"))
    'ptr<f16>'
    """
    if word.startswith("*"):
        constant_memory = word.startswith("*k")
        return Pointer(type_of(word.removeprefix("*").removeprefix("k")), constant_memory)
    return SCALARS[word]
