"""How fast NVIDIA's chips are: numbers of data sheets, for predictions before anything runs.

One product stands for a compute capability: the largest of its data-centre or desktop line.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Speeds:
    """What a GPU does in a cycle, and in a second.

    Attributes:
        product: whose numbers they are.
        multiprocessors: how many it has.
        gigahertz: the clock that it keeps under load.
        memory_gbps: of its memory, in GB/s of the data sheet.
        tensor: operations of 16-bit products that a multiprocessor does in a cycle.
        warp_share: the part of it that products by single warps reach (mma.sync).
        lanes: results of fp32 arithmetic in a cycle of a multiprocessor.
    """

    product: str
    multiprocessors: int
    gigahertz: float
    memory_gbps: float
    tensor: int
    warp_share: float = 1.0
    lanes: int = 128


#: NVIDIA's data sheets; operations in a cycle: the peak by multiprocessors and boost clock.
_SPEEDS = {
    80: Speeds("A100", 108, 1.41, 2039, 2048, lanes=64),
    86: Speeds("A40", 84, 1.74, 696, 1024),
    87: Speeds("Orin", 16, 1.3, 205, 2048),
    89: Speeds("L40", 142, 2.49, 864, 1024),
    90: Speeds("H200", 132, 1.755, 4800, 4096, warp_share=0.62),
    100: Speeds("B200", 148, 1.85, 8000, 8192, warp_share=0.25),
    103: Speeds("B300", 148, 1.85, 8000, 8192, warp_share=0.25),
    110: Speeds("Thor", 20, 1.57, 273, 4096, warp_share=0.5),
    120: Speeds("RTX PRO 6000", 188, 2.6, 1792, 1024),
    121: Speeds("GB10", 48, 2.4, 273, 1024),
}
#: Operations of other operand types for one of 16 bits.
_SHARES = {"tf32": 0.5, "f32": 0.5, "i8": 2.0, "u8": 2.0}


def speeds(target: str) -> Speeds:
    """Return the numbers of a chip by its target's name; KeyError for one that is not known."""
    return _SPEEDS[int(target[3:].rstrip("af"))]


def share(operand: str) -> float:
    """Return how many operations of products a type has for one of 16 bits.

    >>> share("f16"), share("f8e4m3"), share("tf32")
    (1.0, 2.0, 0.5)
    """
    return 2.0 if operand.startswith("f8") else _SHARES.get(operand, 1.0)
