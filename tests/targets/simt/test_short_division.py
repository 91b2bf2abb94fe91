"""Divisions of 64 bits that 32 bits tell: the same numbers as of 64, at all ends."""

from __future__ import annotations

import ctypes
import itertools
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

import workbench
from tests.language.harness import from_text
from tests.passes.corpus import tile_ir
from tests.targets.simt.pretend import Pretend, execute, gpu_ir
from workbench.ops import Elementwise
from workbench.ops.numbers import truncated_quotient, truncated_remainder
from workbench.targets.llvm.emit import Emitter
from workbench.targets.llvm.toolchain import Machine, host, object_code
from workbench.targets.simt.short_division import divided_in_32
from workbench.targets.simt.short_numbers import nearest_in_32

MACHINE = Pretend()
LEAST, MOST = -(1 << 31), (1 << 31) - 1
ENDS_32 = [0, 1, -1, 2, -2, 3, -3, 7, -10, 1000, MOST, MOST - 1, LEAST, LEAST + 1, 1 << 16]
ENDS_64 = [*ENDS_32, MOST + 1, MOST + 2, LEAST - 1, (1 << 32) - 1, 1 << 32, -(1 << 32),
           (1 << 32) + 5, 3 << 40, -(3 << 40), (1 << 63) - 1, -(1 << 63),
           1 - (1 << 63)]  # fmt: skip


def function_of(write: Callable[[Emitter], str], count: int) -> Callable[..., int]:
    """Return a function of numbers of 64 bits that an emitter writes, compiled for the host."""
    emit = Emitter()
    found = write(emit)
    names = ", ".join(f"i64 %{'ab'[n]}" for n in range(count))
    rows = [f"define i64 @f({names}) {{", "entry:", *emit.lines, f"  ret i64 {found}", "}"]
    text = "\n".join([*emit.declared.values(), *rows])
    triple, processor, features = host()
    image = object_code(text, Machine(triple, processor, features, jit=True))
    machine = llvm.Target.from_triple(triple).create_target_machine(jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(image))
    engine.finalize_object()
    made = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * count)
    call: Any = made(engine.get_function_address("f"))
    call.engine = engine  # which keeps the code
    return call


def expected(function: str, a: int, b: int) -> int:
    if b == 0:
        return 0 if function == "div" else a
    return int((truncated_quotient if function == "div" else truncated_remainder)(a, b))


def test_the_nearest_number_of_32_bits():
    cut = function_of(lambda emit: emit.sext(nearest_in_32(emit, "%a"), "i32", "i64"), 1)
    for number in ENDS_64:
        assert cut(number) == max(LEAST, min(number, MOST))


@pytest.mark.parametrize("function", ["div", "rem"])
@pytest.mark.parametrize("counts", [False, True])
def test_what_is_near_0_is_divided_by_anything(function: str, counts: bool):
    """By what exceeds 32 bits it gives 0 and is left as it is: so it is by what is nearest.

    What counts has no sign, and is divided by what has none.
    """

    def write(emit: Emitter) -> str:
        b = nearest_in_32(emit, "%b")
        return divided_in_32(emit, function, "%a", b, near=True, counts=counts)

    divide, least = function_of(write, 2), 0 if counts else 1 - MOST
    near = [a for a in ENDS_32 if least <= a < MOST]
    for a, b in itertools.product(near, [b for b in ENDS_64 if b >= 0 or not counts]):
        assert divide(a, b) == expected(function, a, b), (a, b)


@pytest.mark.parametrize("function", ["div", "rem"])
def test_any_two_numbers_of_32_bits(function: str):
    """The one quotient of such that 32 bits do not hold, 2^31, is right, too."""

    def write(emit: Emitter) -> str:
        b = emit.trunc("%b", "i64", "i32")
        return divided_in_32(emit, function, "%a", b, near=False, counts=False)

    divide = function_of(write, 2)
    for a, b in itertools.product(ENDS_32, ENDS_32):
        assert divide(a, b) == expected(function, a, b), (a, b)


@pytest.mark.parametrize("by", [3, -3, 48, MOST, LEAST + 1])
def test_numbers_of_32_bits_by_a_constant(by: int):
    for function in ("div", "rem"):
        divide = function_of(
            lambda emit, f=function: divided_in_32(
                emit, f, "%a", str(by), near=False, counts=False
            ),
            1,
        )
        for a in ENDS_32:
            assert divide(a) == expected(function, a, by), (a, by)


# -- kernels ------------------------------------------------------------------------------
SCALARS = from_text("""
    def scalars(out, a, b, c, d):
        tl.store(out, a.to(tl.int64) // b.to(tl.int64))
        tl.store(out + 1, a.to(tl.int64) % b.to(tl.int64))
        # Indices are exact: this divisor has up to 62 bits.
        near = a // 3
        far = b * c + d
        tl.store(out + 2, (near // far).to(tl.int64))
        tl.store(out + 3, (near % far).to(tl.int64))
""")
TILES = from_text("""
    def tiles(out, values, a, b, c, n, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        near = i * 1000 + a // 8
        tl.store(out + i, (near // (b * c)).to(tl.int64))
        tl.store(out + n + i, (near % (b * c + i)).to(tl.int64))
        # What is loaded has 32 bits, and is divided by what has: in 64.
        x, y = tl.load(values + i).to(tl.int64), tl.load(values + n + i).to(tl.int64)
        tl.store(out + 2 * n + i, x // y)
        tl.store(out + 3 * n + i, x % y)
""")


def run(function: Any, signature: str, constexprs: dict[str, int], arguments: list[Any]) -> Any:
    module = tile_ir(function, signature, constexprs, num_warps=1)
    module = replace(module, attributes={**module.attributes, "narrow_index": False})
    made = gpu_ir(module, MACHINE)
    divisions = [op for op in made.walk() if isinstance(op, Elementwise) and op.divisor is not None]
    execute(made, MACHINE, (1,), arguments)
    return [op for op in divisions if op.near]


@pytest.mark.parametrize("a", [0, 1, -1, 100, MOST, LEAST, LEAST + 1])
def test_scalars_of_a_launch(a: int):
    some = [0, 1, -1, 3, MOST, LEAST]
    near: list[Any] = []
    for b, c, d in itertools.product(some, [1, -1, MOST, LEAST], [0, -7, MOST]):
        out = np.zeros(4, np.int64)
        if not near or (b, c) in ((LEAST, LEAST), (0, 1), (-1, 1), (MOST, MOST), (1, LEAST)):
            near = run(SCALARS, "*i64 i32 i32 i32 i32", {}, [out, a, b, c, d])
            third, far = expected("div", a, 3), b * c + d
            assert out.tolist() == [
                expected("div", a, b), expected("rem", a, b),
                expected("div", third, far), expected("rem", third, far),
            ]  # fmt: skip
    assert len(near) == 2


@pytest.mark.parametrize("a", [0, -5, MOST, LEAST])
@pytest.mark.parametrize("b", [0, 5, -1, MOST, LEAST])
@pytest.mark.parametrize("c", [1, LEAST])
def test_tiles_of_a_launch(a: int, b: int, c: int):
    block = 64
    x = np.resize(np.array(ENDS_32, np.int64), block)
    y = np.resize(np.array([*ENDS_32[::-1], 5], np.int64), block)
    values = np.concatenate([x, y]).astype(np.int32)
    out = np.zeros(4 * block, np.int64)
    near = run(TILES, "*i64:16 *i32:16 i32 i32 i32 i32:16", {"BLOCK": block},
               [out, values, a, b, c, block])  # fmt: skip
    assert len(near) == 2
    start = expected("div", a, 8)
    rows = out.reshape(4, block)
    for i in range(block):
        dividend, p, q = start + 1000 * i, int(x[i]), int(y[i])
        assert rows[0, i] == expected("div", dividend, b * c)
        assert rows[1, i] == expected("rem", dividend, b * c + i)
        assert rows[2, i] == expected("div", p, q)
        assert rows[3, i] == expected("rem", p, q)


UNKNOWN = from_text("""
    def unknown(out, values, n, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        x, y = tl.load(values + i), tl.load(values + n + i)
        tl.store(out + i, x // y)
        tl.store(out + n + i, x % y)
""")


def test_numbers_of_64_bits_of_which_nothing_is_known():
    pairs = [p for p in itertools.product(ENDS_64, ENDS_64) if p != (-(1 << 63), -1)]
    block = 1024
    x, y = (np.resize(np.array([p[n] for p in pairs], np.int64), block) for n in (0, 1))
    out = np.zeros(2 * block, np.int64)
    near = run(UNKNOWN, "*i64:16 *i64:16 i32:16", {"BLOCK": block},
               [out, np.concatenate([x, y]), block])  # fmt: skip
    assert not near
    for i in range(block):
        assert out[i] == expected("div", int(x[i]), int(y[i]))
        assert out[block + i] == expected("rem", int(x[i]), int(y[i]))


LOADED = from_text("""
    def loaded(out, x, y, n, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        a, b = tl.load(x + i), tl.load(y + i)
        tl.store(out + i, a // b)
        tl.store(out + n + i, a % b)
        one, other = tl.load(x), tl.load(y)
        tl.store(out + 2 * n, one // other)
        tl.store(out + 2 * n + 1, one % other)
""")


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_the_lowest_number_by_minus_1_wraps(bits: int):
    """A processor's instruction traps there, and LLVM may take it that nobody divides so."""
    dtype, block = np.dtype(f"i{bits // 8}"), 64
    lowest = -(1 << (bits - 1))
    ends = [lowest, lowest + 1, -1, 0, 1, 5, -7, -lowest - 1]
    pairs = list(itertools.product(ends, ends))
    for first in (0, 2):  # which scalars are divided: by themselves, and by -1
        x, y = (np.array([p[n] for p in pairs], dtype) for n in (0, 1))
        y = np.roll(y, -first)
        out = np.zeros(2 * block + 2, dtype)
        types = f"*i{bits}:16 *i{bits}:16 *i{bits}:16 i32:16"
        run(LOADED, types, {"BLOCK": block}, [out, x, y, block])
        for function, start in (("div", 0), ("rem", block)):
            exact = [expected(function, int(a), int(b)) for a, b in zip(x, y, strict=True)]
            wanted = np.array([(v - lowest) % (1 << bits) + lowest for v in exact], dtype)
            assert np.array_equal(out[start : start + block], wanted)
            assert out[2 * block + (start > 0)] == wanted[0]


GROUPS = from_text("""
    def groups(out, rows, columns):
        tile = tl.program_id(0)
        down, along = tl.cdiv(rows, 128), tl.cdiv(columns, 256)
        first = tile // (8 * along) * 8
        size = min(down - first, 8)
        tl.store(out + tile * 2, tile % (8 * along) % size)
        tl.store(out + tile * 2 + 1, tile % (8 * along) // size)
""")


def test_the_code_has_no_division_of_64_bits():
    """Where a group of tiles begins may exceed 32 bits, of which the tile in it knows nothing."""
    texts = {
        short: workbench.compile(
            GROUPS, "*i32 i32 i32", {}, "sm_90a", num_warps=1, short_division=short
        ).asm["ptx"]
        for short in (True, False)
    }
    assert not re.findall(r"(?:div|rem)\.[su]64", texts[True])
    assert len(re.findall(r"(?:div|rem)\.s64", texts[False])) >= 1
