"""Makes tensor maps for launches: a maker of parameters (assembly.py).

The compiler says by instructions over a launch's arguments where an array begins, how long its axes
are and how far apart (targets/nvidia/map_words.py). Native code runs them at every launch, asks
what the hardware asks, and has the driver encode the map into the parameter: nothing is kept, so
nothing can dangle, and a captured graph holds the bytes. Where no map can be made (an extent of 0,
rows that lie backwards) the maker says so, and the kernel's twin without tensor maps runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from workbench.devices import cuda
from workbench.interrupts import MadeOnce
from workbench.launch.assembly import register_maker
from workbench.launch.conditions import COMPUTER, Builder, Program, encoded, llvm_interpreter
from workbench.launch.machine import Code
from workbench.source import LaunchError
from workbench.targets.nvidia.map_words import MAKER, WALKED_MAKER, MapWords
from workbench.targets.nvidia.ops.tensors import CORNERS, MOST_STEP

#: What a map cannot be made of: not one of the driver's codes.
REFUSED = -1
_MOST_AXES = 5
#: Products of more than this are no places in memory.
_FAR = 1 << 48
_MOST_EXTENT, _STRIDE_END, _GRAIN = 1 << 32, 1 << 40, 16
#: Words in front of the program: type, swizzle, rank, then the box, two 32-bit numbers in each.
_BOX, _PROGRAM = 3, 6
#: CUDA 13.0 cuda.h: CU_TENSOR_MAP_L2_PROMOTION_L2_128B and L2_256B; no interleave; zeros outside.
#: Where rows begin anywhere in a line of 128 bytes a box is better fetched line by line (measured
#: on an H200: products of 4104 take 0.86 of the time with 128, those of 4096 the same with both).
_PROMOTED_128, _PROMOTED_256 = 2, 3
_LINE = 128


def program_of(given: MapWords) -> Program:
    """Return what a launch computes: base, extents and strides in bytes, and what they must be."""
    build = Builder()
    found: list[int] = []
    for name, a, b in given.code:
        if name == "constant":
            found.append(build.constant(a))
        elif name == "argument":
            found.append(build.argument(a))
        elif name in ("narrow", "unsigned"):
            found.append(_narrowed(build, found[a], signed=name == "narrow"))
        else:
            found.append(build.apply(name, found[a], found[b]))
            if name == "mul":
                for number in (found[a], found[b]):
                    build.require(build.between(number, -_FAR, _FAR))
    base, *rest = (found[n] for n in given.results)
    rank = len(given.box)
    extents, strides, windows = rest[:rank], rest[rank : 2 * rank - 1], rest[2 * rank - 1 :]
    build.require(build.equal(build.mask(base, _GRAIN - 1), 0))
    for extent in extents:
        build.require(build.between(extent, 1, _MOST_EXTENT))
    steps: list[int] = []
    for stride in strides:
        # Small enough first: in native code a product of more than 64 bits wraps.
        build.require(build.between(stride, 0, _STRIDE_END))
        step = build.apply("mul", stride, build.constant(given.itemsize))
        build.require(build.between(step, 0, _STRIDE_END - 1))
        build.require(build.equal(build.mask(step, _GRAIN - 1), 0))
        steps.append(step)
    return build.finish(base, *extents, *steps, *_corners(build, extents[1:], windows))


def _corners(build: Builder, extents: Sequence[int], windows: Sequence[int]) -> list[int]:
    """Return first places, how far behind the last element last ones are, and steps."""
    count = len(windows) // 3
    firsts, counts, apart = (windows[count * n : count * (n + 1)] for n in range(3))
    if not count:
        return []
    lasts: list[int] = []
    one = build.constant(1)
    for first, many, step, extent in zip(firsts, counts, apart, extents, strict=False):
        build.require(build.between(many, 1, _MOST_EXTENT))
        build.require(build.between(step, 1, MOST_STEP))
        build.require(build.between(first, -CORNERS[count], CORNERS[count] - 1))
        reached = build.apply("mul", build.apply("sub", many, one), step)
        behind = build.apply("sub", reached, build.apply("sub", extent, one))
        lasts.append(build.apply("add", first, behind))
        build.require(build.between(lasts[-1], -CORNERS[count], CORNERS[count] - 1))
    return [*firsts, *lasts, *apart]


def _narrowed(build: Builder, number: int, signed: bool) -> int:
    half = build.constant(1 << 31 if signed else 0)
    low = build.mask(build.apply("add", number, half), (1 << 32) - 1)
    return build.apply("sub", low, half)


def encode(data: Sequence[int], inputs: int) -> list[int]:
    """Return the words that the maker reads."""
    given = MapWords.read(data)
    box = [*given.box, *[1] * (2 * (_PROGRAM - _BOX) - len(given.box))]
    pairs = [low | high << 32 for low, high in zip(box[::2], box[1::2], strict=True)]
    return [given.type, given.swizzle, len(given.box), *pairs, *encoded(program_of(given))]


_TILED = """
  %status = call i32 inttoptr (i64 {encoder} to ptr)(ptr %destination, i32 %type, i32 %rank,
      ptr %base, ptr %extents, ptr %strides, ptr %box, ptr @ones, i32 0, i32 %swizzle,
      i32 %promotion, i32 0)"""
#: Corners and steps are numbers of 32 bits; the first and the last axis have steps of 1.
_WALKED = """
  %corners = alloca [10 x i32], align 8
  %steps = alloca [5 x i32], align 8
  %windows = sub i64 %rank_, 2
  %first_at = shl i64 %rank_, 1
  %last_step = sub i64 %rank_, 1
  %last_step_at = getelementptr i32, ptr %steps, i64 %last_step
  store i32 1, ptr %steps
  store i32 1, ptr %last_step_at
  br label %axes
axes:
  %axis = phi i64 [0, %known], [%axis1, %axes]
  %axis1 = add i64 %axis, 1
  %low_from = add i64 %first_at, %axis
  %high_from = add i64 %low_from, %windows
  %step_from = add i64 %high_from, %windows
  %low_at = getelementptr i64, ptr %results, i64 %low_from
  %high_at = getelementptr i64, ptr %results, i64 %high_from
  %step_at = getelementptr i64, ptr %results, i64 %step_from
  %low_ = load i64, ptr %low_at
  %high_ = load i64, ptr %high_at
  %step_ = load i64, ptr %step_at
  %low = trunc i64 %low_ to i32
  %high = trunc i64 %high_ to i32
  %step = trunc i64 %step_ to i32
  %high_place = add i64 %axis, 5
  %low_to = getelementptr i32, ptr %corners, i64 %axis
  %high_to = getelementptr i32, ptr %corners, i64 %high_place
  %step_to = getelementptr i32, ptr %steps, i64 %axis1
  store i32 %low, ptr %low_to
  store i32 %high, ptr %high_to
  store i32 %step, ptr %step_to
  %is_axis = icmp slt i64 %axis1, %windows
  br i1 %is_axis, label %axes, label %encoded
encoded:
  %highs = getelementptr i32, ptr %corners, i64 5
  %places_at = getelementptr i32, ptr %box, i64 1
  %in_place = load i32, ptr %box
  %places = load i32, ptr %places_at
  %status = call i32 inttoptr (i64 {encoder} to ptr)(ptr %destination, i32 %type, i32 %rank,
      ptr %base, ptr %extents, ptr %strides, ptr %corners, ptr %highs, i32 %in_place, i32 %places,
      ptr %steps, i32 0, i32 %swizzle, i32 %promotion, i32 0)"""


def maker_text(encoder: int, *, walked: bool = False) -> str:
    """Return the maker in LLVM IR, for an encoder that is called as cuTensorMapEncodeTiled is.

    Or, for maps that are walked, as cuTensorMapEncodeIm2col is.
    """
    ones = ", ".join(["i32 1"] * _MOST_AXES)
    return f"""
@ones = private constant [{_MOST_AXES} x i32] [{ones}], align 8

define i32 @make(ptr %data, ptr %inputs, ptr %destination) {{
entry:
  %results = alloca [{5 * _MOST_AXES} x i64], align 16
  %program_ = getelementptr i64, ptr %data, i64 {_PROGRAM}
  %fine = call i64 @{COMPUTER}(ptr %program_, ptr %inputs, ptr null, ptr %results)
  %is_fine = icmp ne i64 %fine, 0
  br i1 %is_fine, label %encode, label %refused
encode:
  %type_ = load i64, ptr %data
  %type = trunc i64 %type_ to i32
  %swizzle_at = getelementptr i64, ptr %data, i64 1
  %swizzle_ = load i64, ptr %swizzle_at
  %swizzle = trunc i64 %swizzle_ to i32
  %rank_at = getelementptr i64, ptr %data, i64 2
  %rank_ = load i64, ptr %rank_at
  %rank = trunc i64 %rank_ to i32
  %box = getelementptr i64, ptr %data, i64 {_BOX}
  %base = load ptr, ptr %results
  %extents = getelementptr i64, ptr %results, i64 1
  %before = add i64 %rank_, 1
  %strides = getelementptr i64, ptr %results, i64 %before
  %place = load i64, ptr %results
  %into = and i64 %place, {_LINE - 1}
  br label %rows
rows:
  %row = phi i64 [0, %encode], [%next, %more]
  %odd = phi i64 [%into, %encode], [%sum, %more]
  %next = add i64 %row, 1
  %is_more = icmp slt i64 %next, %rank_
  br i1 %is_more, label %more, label %known
more:
  %stride_at = getelementptr i64, ptr %strides, i64 %row
  %stride = load i64, ptr %stride_at
  %below = and i64 %stride, {_LINE - 1}
  %sum = or i64 %odd, %below
  br label %rows
known:
  %in_lines = icmp eq i64 %odd, 0
  %promotion = select i1 %in_lines, i32 {_PROMOTED_256}, i32 {_PROMOTED_128}
{(_WALKED if walked else _TILED).format(encoder=encoder)}
  ret i32 %status
refused:
  ret i32 {REFUSED}
}}
{llvm_interpreter(COMPUTER)}
"""


@MadeOnce
def _code(encoder: int, *, walked: bool) -> Code:
    return Code(maker_text(encoder, walked=walked))


def _address(*, walked: bool = False) -> int:
    encoder = cuda.encoder_address(walked=walked)
    if not encoder:
        name = f"cuTensorMapEncode{'Im2col' if walked else 'Tiled'}"
        raise LaunchError(
            f"the driver here makes no tensor maps ({name} is not in libcuda)",
            hint="compile with tma=False, or update the driver",
        )
    return _code(encoder, walked=walked).address("make")


register_maker(MAKER, _address, encode)
register_maker(WALKED_MAKER, partial(_address, walked=True), encode)
