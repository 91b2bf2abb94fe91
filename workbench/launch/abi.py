"""What compiled code takes, as plain data, and how a launch packs it."""

from __future__ import annotations

import ctypes
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from workbench.source import LaunchError


class RangeError(LaunchError, OverflowError):
    """An integer that its type does not hold (an OverflowError as in Triton)."""

    code = "K501"


#: The most values that one parameter is made of, and the strictest alignment that one may ask for.
MOST_INPUTS = 32
MOST_ALIGNMENT = 128


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of compiled code: a value of the launch, or bytes made of some.

    Attributes:
        inputs: places of the values among those that a launch passes; without a maker the one
            value that the parameter is.
        maker: the name of what makes it (`assembly.py`), empty for a value itself.
        size: its bytes, a multiple of 8.
        alignment: of its address in memory, in bytes: a power of two from 8 to 128.
        data: numbers that the compiler gives the maker.
    """

    inputs: tuple[int, ...]
    maker: str = ""
    size: int = 8
    alignment: int = 8
    data: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what launchers cannot pack."""
        fits = self.size > 0 and self.size % 8 == 0 and len(self.inputs) <= MOST_INPUTS
        powers = [1 << n for n in range(3, MOST_ALIGNMENT.bit_length())]
        if not fits or self.alignment not in powers:
            raise ValueError(f"{self} cannot be a parameter")
        if not self.maker and (len(self.inputs), self.size) != (1, 8):
            raise ValueError(f"{self} is no value, and nothing makes it")


def offsets(parameters: Sequence[Parameter]) -> tuple[list[int], int]:
    """Return where parameters lie one after the other, and the end, a multiple of 8.

    >>> offsets([Parameter((0,)), Parameter((0, 1), "words", 128, 64), Parameter((1,))])
    ([0, 64, 192], 200)
    """
    found: list[int] = []
    end = 0
    for parameter in parameters:
        found.append(-(-end // parameter.alignment) * parameter.alignment)
        end = found[-1] + parameter.size
    return found, end


#: CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION and CU_LAUNCH_ATTRIBUTE_COOPERATIVE of
#: cuda.h.
EARLY, TOGETHER = 6, 2


@dataclass(frozen=True, slots=True)
class LaunchData:
    """The numbers that a launch needs, plain data that the cache stores.

    `parameters` are (path, type name) of the run-time arguments, whose values a launch passes;
    `made` are the code's own parameters where they are not those one by one. `outputs` are the
    names of the arguments that the kernel stores through.
    """

    symbol: str
    kind: str
    parameters: tuple[tuple[str, str], ...]
    num_warps: int = 1
    num_stages: int = 1
    threads: int = 1
    shared_bytes: int = 0
    dynamic_shared_bytes: int = 0
    registers: int | None = None
    spill_bytes: int | None = None
    narrow_index: bool = False
    outputs: tuple[str, ...] = ()
    made: tuple[Parameter, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def persistent(self) -> bool:
        """Whether a block takes several programs.

        Three more values stand behind those of the arguments, then: the grid, of which the launch
        starts as many blocks as there are at once.
        """
        return self.most_rounds > 0

    @property
    def drawn(self) -> bool:
        """Whether blocks draw their programs: behind the grid stands where the counter is."""
        return self.extra.get("drawn", False)

    @property
    def most_rounds(self) -> int:
        """How many programs a block takes at most, 0 where each has a block of its own.

        A launch that has more for each block that there is at once starts a block for each.
        """
        return self.extra.get("persistent", 0)

    @property
    def early(self) -> bool:
        """Whether a launch begins before the one in front of it is done: its code waits itself."""
        return self.extra.get("early", False)

    @property
    def together(self) -> bool:
        """Whether all programs of a launch have to be there at one time."""
        return self.extra.get("together", False)

    @property
    def reads_again(self) -> bool:
        """Whether rounds read again what the first cache holds, if shared memory leaves it room."""
        return self.extra.get("reads_again", False)

    @property
    def attribute(self) -> int:
        """The attribute of a launch (`devices/launching.py`), 0 for none."""
        return EARLY if self.early else TOGETHER if self.together else 0

    @property
    def cluster(self) -> int:
        """How many blocks are a cluster: a launch starts a multiple of these."""
        return self.extra.get("cluster", 1)


class Loadable(Protocol):
    """A compiled kernel as launches need it."""

    loaded: dict[Any, Any]

    @property
    def index_program(self) -> Any:
        """What 32-bit indices need of a launch (`analysis/ranges.py`), None: there is one code."""
        ...

    @property
    def hulls(self) -> Any:
        """Where its accesses may lie (`analysis/hulls.py`), None where nobody knows."""
        ...

    @property
    def name(self) -> str:
        """The kernel's name."""
        ...

    @property
    def target(self) -> str:
        """What it was compiled for: "cpu", "interpreter" or a chip."""
        ...

    @property
    def launch(self) -> LaunchData:
        """The numbers of a launch."""
        ...

    @property
    def code(self) -> bytes:
        """The bytes that the loader takes."""
        ...

    @property
    def module(self) -> Any:
        """The tile IR, where messages look up the place of an op."""
        ...

    def without_maps(self) -> Loadable | None:
        """Return the kernel for arguments of which no tensor map can be made, None: there is none.

        It takes the same arguments.
        """
        ...


class NativeCode:
    """What native code passes to the launch function at address `launch`.

    `most_blocks`: how many blocks take all programs, 0 where each has one of its own; `most_taken`:
    how many programs they take, further ones have blocks of their own, all of them; `cluster`: of
    how many blocks a multiple is started.
    """

    __slots__ = (
        "cluster", "handle", "launch", "made", "most_blocks", "most_taken", "shared_bytes",
        "threads",
    )  # fmt: skip

    def __init__(
        self,
        launch: int,
        handle: int,
        threads: int,
        shared_bytes: int,
        made: Sequence[Parameter] = (),
        most_blocks: int = 0,
        most_taken: int = 0,
        cluster: int = 1,
    ) -> None:
        self.launch = launch
        self.handle = handle
        self.threads = threads
        self.shared_bytes = shared_bytes
        self.made = made
        self.most_blocks = most_blocks
        self.most_taken = most_taken
        self.cluster = cluster


#: run(grid x, y, z, stream, *values) -> the compiled kernel
Runner = Callable[..., Any]


#: struct formats of scalar arguments; each argument takes a slot of eight bytes, and floats of
#: 16 bits arrive as fp32
FORMATS = {
    "i1": "?7x", "i8": "b7x", "i16": "h6x", "i32": "i4x", "i64": "q", "u8": "B7x", "u16": "H6x",
    "u32": "I4x", "u64": "Q", "f16": "f4x", "bf16": "f4x", "f32": "f4x", "f64": "d",
}  # fmt: skip


def format_of(word: str) -> str:
    """Return the struct format of one argument's slot."""
    return "Q" if word.startswith("*") else FORMATS[word]


#: What struct raises for numbers that a slot does not hold.
PACK_ERRORS = OverflowError, struct.error


def fitted(form: str, values: Sequence[Any]) -> list[Any]:
    """Return values that struct refused as slots hold them: floats beyond fp32 are infinite.

    Raises RangeError for an integer that its type does not hold.
    """
    found: list[Any] = []
    for letter, value in zip(re.findall("[?bBhHiIqQfd]", form), values, strict=False):
        if letter == "f":
            found.append(ctypes.c_float(value).value)
            continue
        try:
            struct.pack(letter, value)
        except PACK_ERRORS as error:
            raise RangeError(f"an argument of the launch is {value}: {error}") from error
        found.append(value)
    return found


def slots(kernel: Loadable) -> struct.Struct:
    """Return the packer of a kernel's run-time arguments, eight bytes each."""
    return struct.Struct("<" + "".join(format_of(word) for _, word in kernel.launch.parameters))
