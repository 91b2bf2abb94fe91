"""What a kernel asks the chip, and how launches overlap."""

from __future__ import annotations

from workbench.language.dtypes import int32, int64
from workbench.language.inline_assembly import assembly
from workbench.language.state import current
from workbench.language.table import described
from workbench.language.values import tensor
from workbench.ops import GridDependencyWait, LaunchDependents

DEFAULT_WARPS = 4


def globaltimer() -> tensor:
    """Return the chip's clock in nanoseconds, as int64."""
    return assembly("mov.u64 $0, %globaltimer;", "=l", [], [int64], has_effects=True)[0]


def smid() -> tensor:
    """Return the number of the multiprocessor that runs this program, as int32."""
    return assembly("mov.u32 $0, %smid;", "=r", [], [int32])[0]


def num_warps() -> int:
    """Return how many warps run a program; a kernel that asks is compiled for 4 unless told."""
    state = current()
    if state.num_warps is None:
        state.num_warps = DEFAULT_WARPS
    return state.num_warps


def num_threads() -> int:
    """Return how many threads run a program."""
    return 32 * num_warps()


def gdc_wait() -> None:
    """Wait until the launches that this one depends on are done and their stores are visible.

    A launch with `launch_pdl=True` begins while the one before it in its stream still runs, and
    waits here for its end; without the option it begins behind it, and there is nothing to wait
    for. Before sm_90, and away from GPUs, launches run one after the other.
    """
    current().builder.insert(GridDependencyWait())


def gdc_launch_dependents() -> None:
    """Let launches that depend on this one begin."""
    current().builder.insert(LaunchDependents())


for _function in (globaltimer, smid, num_warps, num_threads, gdc_wait, gdc_launch_dependents):
    described(_function)

__all__ = [
    "gdc_launch_dependents", "gdc_wait", "globaltimer", "num_threads", "num_warps", "smid",
]  # fmt: skip
