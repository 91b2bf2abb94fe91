"""Compile options: what each is called, what it is where nobody asks, and what it does.

The one place that lists them: launches check names and values by it, the front end hands on what
differs from its default as a module's attribute, which passes read, and `%explain NAME` shows what
is said here. Those that turn a decision of the compiler off are its twins: a race of both says what
the decision is worth.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, slots=True)
class CompileOption:
    """An option; `default` None: the compiler chooses, as `text` says.

    Attributes:
        name: as launches, `wb.compile` and Triton (where it has it) call it.
        text: what it does, or what is left out without it.
        default: what stands where nobody asks.
        counts: whether it is a positive number, not a switch.
        most: the largest number that is no slip.
    """

    name: str
    text: str
    default: bool | int | None = None
    counts: bool = False
    most: int | None = None


def _number(
    name: str, text: str, default: int | None = None, most: int | None = None
) -> CompileOption:
    return CompileOption(name, text, default, True, most)


def _on(name: str, text: str) -> CompileOption:
    return CompileOption(name, text, True)


def _off(name: str, text: str) -> CompileOption:
    return CompileOption(name, text, False)


def _chosen(name: str, text: str) -> CompileOption:
    return CompileOption(name, text)


#: What a program is given, and what its arithmetic means.
_PROGRAMS = (
    _number("num_warps", "warps of a program; unset: 4", most=1 << 62),
    _number("num_stages", "rounds of a loop whose copies may be under way; unset: 3", most=1024),
    _number(
        "num_ctas",
        "Triton's blocks of a program: a program is one block here, with the same result",
        1, 1 << 62,
    ),
    _number("maxnreg", "the most registers of a thread; unset: as many as ptxas likes", most=1024),
    _on("enable_fp_fusion", "products and sums become one instruction that rounds once"),
    _off(
        "launch_pdl",
        "a launch of a kernel that waits by itself (tl.extra.cuda.gdc_wait) begins while the one "
        "before it in its stream still runs (CUDA's programmatic dependent launch)",
    ),
    _off(
        "launch_cooperative_grid",
        "a launch whose programs are not all there at one time is refused",
    ),
    _off("exact", "sums are combined in the interpreter's order, without contraction"),
    _off("wrap_index", "arithmetic of i32 wraps, as Triton's does"),
    _off(
        "wrap_loaded",
        "arithmetic of i32 wraps where it is of loaded values and constants among themselves, "
        "which addresses are not made of",
    ),
    _off("debug", "tl.device_assert is checked, and tl.assume"),
)  # fmt: skip

#: What is done unless somebody says no.
_TWINS = (
    _on("wgmma", "products go by four warps at once, on chips that have such instructions"),
    _on("tma", "loads become boxes of tensor maps where they can"),
    _on("overlap", "of a loop's two products one may end a round later, beside the next"),
    _on("skip_masks", "rounds in which a mask holds everywhere leave it out"),
    _on(
        "loads_first",
        "what is loaded before a loop is asked for before all that fills the loop's ring; where "
        "blocks stay, a producer brings it",
    ),
    _on(
        "apart",
        "a loop that could copy ahead only where arguments do not overlap is written twice",
    ),
    _on(
        "reorder_rounds",
        "loops around a product take another order where rounds in a row then read the same "
        "sectors",
    ),
    _on(
        "rounds_at_once",
        "what the rounds of a short loop read from one run of memory is loaded together",
    ),
    _on(
        "fewer_stages",
        "a ring whose copies wait for a table takes fewer stages than asked for where more blocks "
        "then share a multiprocessor",
    ),
    _on(
        "fewer_slots",
        "a ring that warps multiply from does without a slot where enough warps then share a "
        "multiprocessor; copies start behind what reads their slot",
    ),
    _on(
        "tell_blocks",
        "ptxas is told how many blocks are to be resident, so that threads of a loop of warps' "
        "products have registers to load ahead",
    ),
    _on(
        "reread_operands",
        "what all rounds of warps' products read lies in shared memory, not in registers, where "
        "more blocks are resident then",
    ),
    _on(
        "computed_first",
        "a product's second operand that is computed of what memory holds becomes the first one, "
        "which products by four warps take from registers",
    ),
    _on(
        "loaded_first",
        "an operand that memory has in an order that products by four warps cannot read is their "
        "first one, which they take from registers, and is not turned by threads",
    ),
    _on("l2_policies", "copies by threads tell the L2 what a load's eviction_policy says"),
    _on(
        "short_division",
        "numbers of 64 bits are divided as such of 32 where these hold what is divided",
    ),
    _on(
        "compare_together",
        "registers of a mask that differ by constants compare one difference",
    ),
)  # fmt: skip

#: What somebody has to ask for.
_ASKED = (
    _off("skip_ones", "warps ask each round whether factors that are mostly 1 are"),
    _off(
        "swap_operands",
        "a product of few rows goes by four warps as C.T = B.T @ A.T, whose few columns an "
        "instruction may have",
    ),
    _off(
        "rounds_together",
        "copies whose rows are short, and go on in the next round, start for several rounds at "
        "once",
    ),
    _off(
        "fast_rescale",
        "an extreme that a loop carries on may lie behind by 8 powers of 2 of what is made of it: "
        "who asks for that says that it cancels out, as the maximum of an online softmax does",
    ),
    _off(
        "tables_ahead",
        "tables that say where copies read are loaded a round before them where warps multiply, "
        "too",
    ),
)  # fmt: skip

#: What the compiler decides, if nobody does.
_CHOSEN = (
    _chosen(
        "keep_operands",
        "what products read in all rounds as their first operand stays in registers; unset: where "
        "these suffice, and no block less is resident for it",
    ),
    _chosen(
        "turns",
        "groups of four warps beside a producer start the products of a round one group after the "
        "other; unset: where a round starts two of them, and all programs have as many rounds",
    ),
    _chosen(
        "copy_narrow",
        "rings bring what lies so thinly over the threads that no copy would, in another layout, "
        "and rows and columns that meet the results of products; unset: where products are made of "
        "narrower numbers, whose scales rounds would wait for",
    ),
    _chosen(
        "prefetch_l2",
        "copies bring 256 bytes around each vector to the L2, which next rounds read; unset: where "
        "warps multiply numbers narrower than the products', and rows of a tile are shorter than "
        "256 bytes",
    ),
    _chosen(
        "through_registers",
        "a tile that no copy brings as a product reads it is loaded rounds ahead; unset: where no "
        "copy brings it at all",
    ),
    _chosen(
        "tma_stores",
        "results of products are stored by boxes of tensor maps; unset: where blocks stay and "
        "rings leave room for a whole tile",
    ),
    _chosen(
        "warp_specialize",
        "warps part into a producer's and those that multiply; unset: where several "
        "groups of four warps have a multiprocessor to themselves, or compute between products",
    ),
    _chosen(
        "persistent",
        "blocks whose warps part stay for one program after the other; unset: where that pays",
    ),
    _chosen(
        "reorder",
        "programs with the longest loops begin first; unset: where nothing that is loaded decides "
        "how long these are",
    ),
    _chosen(
        "tickets",
        "blocks that stay draw their programs; unset: where what is loaded decides how long these "
        "take. A captured launch has one counter for that: a graph that is instantiated twice and "
        "replayed in two streams at once needs tickets=False",
    ),
    _number(
        "most_rounds",
        "how many programs a block that stays takes at most: where a launch has more, each program "
        "has a block; unset: what its loops read decides",
        most=(1 << 31) - 1,
    ),
    _number(
        "cluster",
        "how many blocks that stay copy together what their programs all read, 1, 2, 4 or 8; "
        "unset: 2 where rows of what they read are known to begin in the midst of lines of memory, "
        "else 1",
    ),
)  # fmt: skip

COMPILE_OPTIONS: tuple[CompileOption, ...] = (*_PROGRAMS, *_TWINS, *_ASKED, *_CHOSEN)


@cache
def compile_option(name: str) -> CompileOption | None:
    """Return the option of a name; None: there is none.

    >>> compile_option("num_warps").counts
    True
    """
    return next((option for option in COMPILE_OPTIONS if option.name == name), None)


__all__ = ["COMPILE_OPTIONS", "CompileOption", "compile_option"]
