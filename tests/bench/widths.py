"""How wide accesses to memory are, beside Triton's of the same source.

    python -m tests.bench.widths [WORD ...]

compiles each kernel of the corpus whose title has one of the words (all without any) for sm_90a by
both, at a size that is measured, and prints those of which ours moves fewer bits per instruction:
of loads to registers, copies to shared memory and stores, each with how many of which width there
are. It needs Triton (its own ptxas is not asked), no GPU.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from typing import Any

from tests.bench import peers
from tests.bench.ahead import TARGET, kind
from tests.bench.sass_facts import sample
from tests.corpus import every
from tests.corpus.sample import Launch, jitted

_ACCESS = re.compile(
    r"\b(ld|st)(?:\.weak|\.volatile|\.relaxed\.\w+)?\.global(\S*?)(?:\.v(\d))?\.[a-z]+(\d+)\b"
)
_COPY = re.compile(r"\bcp\.async\.c[ag]\.shared\.global\S*\s+\[[^]]*\],\s*\[[^]]*\],\s*(\w+)")
_NAMES = {"ld": "loads", "st": "stores"}

Widths = dict[str, Counter[int]]


def widths_of(ptx: str) -> Widths:
    """Return how many accesses of which width, in bits, PTX has by what they are."""
    found: Widths = {"loads": Counter(), "copies": Counter(), "stores": Counter()}
    for row in ptx.splitlines():
        if match := _ACCESS.search(row):
            name, _, many, bits = match.groups()
            found[_NAMES[name]][int(many or 1) * int(bits)] += 1
        elif match := _COPY.search(row):
            found["copies"][8 * int(match[1], 0)] += 1
        elif "cp.async.bulk" in row:
            found["copies"][1024] += 1
    return found


def narrower(ours: Widths, theirs: Widths) -> list[str]:
    """Say where ours are narrower: in the mean, or at their narrowest."""

    def mean(widths: Counter[int]) -> float:
        return sum(bits * count for bits, count in widths.items()) / widths.total()

    def spelled(widths: Counter[int]) -> str:
        return " ".join(f"{n}x{bits}" for bits, n in sorted(widths.items(), reverse=True))

    found: list[str] = []
    for names in (("loads", "copies"), ("stores",)):
        one, other = (sum((w[n] for n in names), Counter[int]()) for w in (ours, theirs))
        if one and other and (mean(one) < mean(other) or min(one) < min(other)):
            found.append(f"{names[0]}: {spelled(one)}, Triton {spelled(other)}")
    return found


class _NoGpu:
    """What Triton asks of a driver while it compiles."""

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget  # pyright: ignore

        return GPUTarget("cuda", 90, 32)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return device


def _by_triton(peer: Any, launch: Launch) -> str:
    kernel = getattr(peer, launch.kernel.__name__)
    return kernel.warmup(*launch.arguments, **launch.named, grid=launch.grid).asm["ptx"]


def _by_us(launch: Launch) -> str:
    made = jitted(launch.kernel).warmup(
        *launch.arguments, **launch.named, grid=launch.grid, target=TARGET
    )
    return made.asm["ptx"]


def main(words: list[str]) -> int:
    """Print the table; return how many kernels have narrower accesses."""
    from triton.runtime import driver  # pyright: ignore

    driver.set_active(_NoGpu())  # pyright: ignore
    known: set[str] = set()
    bad = 0
    for entry in every.SAMPLES:
        title = f"{entry.suite} {entry.name}"
        if words and not any(word in title for word in words):
            continue
        peer = peers.under_triton(entry.module)
        for launch in sample(entry).launches:
            key = repr(kind(launch, "ours"))
            if key in known:
                continue
            known.add(key)
            try:
                found = narrower(widths_of(_by_us(launch)), widths_of(_by_triton(peer, launch)))
            except Exception as error:
                print(f"{title} {launch.kernel.__name__}: {type(error).__name__} "
                      f"{' '.join(str(error).split())[:120]}", flush=True)  # fmt: skip
                continue
            bad += bool(found)
            for line in found:
                print(f"{title} {launch.kernel.__name__}: {line}", flush=True)
    print(f"{len(known)} kernels, {bad} with narrower accesses than Triton's")
    return bad


if __name__ == "__main__":
    sys.exit(bool(main(sys.argv[1:])))
