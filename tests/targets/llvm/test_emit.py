"""The text emitter: folding, value numbering, what leaves loops, debug locations."""

from __future__ import annotations

import re
import struct

import llvmlite.binding as llvm
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.passes.meaning import cases
from workbench.ir import F32
from workbench.ops import Constant
from workbench.source import Span
from workbench.targets.llvm.emit import Emitter, float_literal, is_integer, wrap


def module(emit: Emitter, parameters: str = "i32 %a, i32 %b, ptr %p", debug: str = "") -> str:
    """Return the emitted lines as a whole module."""
    declared = "\n".join(emit.declared.values())
    body = "\n".join(emit.lines)
    return (
        f"{declared}\ndefine void @f({parameters}){debug} {{\nentry:\n{body}\n}}\n{emit.metadata()}"
    )


def accepted(text: str) -> llvm.ModuleRef:
    """Parse and verify LLVM IR."""
    found = llvm.parse_assembly(text, llvm.create_context())
    found.verify()
    return found


def store(emit: Emitter, value: str, type: str = "i32") -> None:
    emit.do(f"store {type} {value}, ptr %p")


# -- folding ----------------------------------------------------------------------------------
INTEGERS = st.one_of(st.integers(-(1 << 31), (1 << 31) - 1), st.integers(-4, 4))


@given(INTEGERS, INTEGERS, st.sampled_from(["i8", "i16", "i32"]))
@cases(100)
def test_folding_is_arithmetic_modulo_the_width(x: int, y: int, type: str):
    emit, bits = Emitter(), int(type[1:])
    a, b = wrap(x, type), wrap(y, type)
    x, y = int(a), int(b)
    folded = {
        "add": (emit.add(type, a, b), x + y),
        "sub": (emit.sub(type, a, b), x - y),
        "mul": (emit.mul(type, a, b), x * y),
        "and": (emit.bitwise("and", type, a, b), x & y),
        "or": (emit.bitwise("or", type, a, b), x | y),
        "xor": (emit.bitwise("xor", type, a, b), x ^ y),
        "shl": (emit.shift("shl", type, a, 3), x << 3),
        "sext": (emit.sext(a, type, "i64"), x),
        "zext": (emit.zext(a, type, "i64"), x % (1 << bits)),
        "trunc": (emit.trunc(a, type, "i4"), (x + 8) % 16 - 8),
    }
    for name, (text, exact) in folded.items():
        assert is_integer(text), name
        assert (int(text) - exact) % (1 << min(bits, 4)) == 0, name
        if name in ("add", "sub", "mul", "and", "or", "xor", "shl"):
            assert -(1 << bits - 1) <= int(text) < 1 << bits - 1, name
            assert (int(text) - exact) % (1 << bits) == 0, name
        elif name != "trunc":
            assert int(text) == exact, name
        else:
            assert int(text) == exact
    assert emit.lines == []


def test_neutral_operands_write_nothing():
    emit = Emitter()
    assert emit.add("i32", "%a", "0") == emit.add("i32", "0", "%a") == "%a"
    assert emit.sub("i32", "%a", "0") == emit.mul("i32", "%a", "1") == "%a"
    assert emit.mul("i32", "0", "%a") == emit.bitwise("and", "i32", "%a", "0") == "0"
    assert emit.bitwise("xor", "i32", "%a", "%a") == "0"
    assert emit.bitwise("or", "i32", "%a", "%a") == "%a"
    assert (
        emit.bitwise("and", "i1", "%a", "true") == emit.bitwise("or", "i1", "%a", "false") == "%a"
    )
    assert emit.bitwise("or", "i1", "%a", "true") == "true"
    assert emit.shift("lshr", "i32", "%a", 0) == "%a"
    assert emit.sext("%a", "i32", "i32") == "%a"
    assert emit.lines == []


def test_truth_values_are_words():
    assert wrap(3, "i1") == "true"
    assert wrap(2, "i1") == "false"
    assert Emitter().trunc("6", "i32", "i1") == "false"
    assert Emitter().zext("true", "i1", "i32") == "1"
    assert not is_integer("true")
    assert not is_integer("0x3FF0000000000000")
    assert not is_integer("%v1")


@given(st.floats(width=32), st.floats(width=16))
@cases(50)
def test_float_literals_have_exactly_their_value(single: float, half: float):
    bits = float_literal(single, "float")
    again = struct.unpack(">d", bytes.fromhex(bits[2:]))[0]
    assert np.float32(again) == np.float32(single) or single != single
    held = np.uint16(int(float_literal(half, "half")[3:], 16)).view(np.float16)
    assert held == np.float16(half) or half != half
    accepted(f"define float @f() {{\n  ret float {bits}\n}}")


def test_bfloat_literals_round_to_nearest_even():
    assert float_literal(1.0, "bfloat") == "0xR3F80"
    assert float_literal(1.00390625, "bfloat") == "0xR3F80"  # halfway: to even
    assert float_literal(1.01171875, "bfloat") == "0xR3F82"
    assert float_literal(float("inf"), "bfloat") == "0xR7F80"
    assert float_literal(float("nan"), "bfloat") == "0xR7FC0"
    assert float_literal(-0.0, "bfloat") == "0xR8000"


# -- structs ----------------------------------------------------------------------------------
@pytest.mark.parametrize("count", [2, 4, 5, 64])
def test_long_structs_are_called_by_a_name_that_is_declared_once(count: int):
    emit = Emitter()
    letters = ",".join(["=r"] * count)
    for _ in range(2):
        struct_type = emit.struct("i32", count)
        whole = emit.effect(f'call {struct_type} asm sideeffect "", "{letters}"()')
        store(emit, emit.effect(f"extractvalue {struct_type} {whole}, {count - 1}"))
    emit.do("ret void")
    assert emit.struct("i32", count) == ("%i32." + str(count) if count > 4 else struct_type)
    assert len(emit.declared) == (count > 4)
    accepted(module(emit))


# -- value numbering --------------------------------------------------------------------------
def test_equal_pure_instructions_are_written_once():
    emit = Emitter()
    first = emit.add("i32", "%a", "%b")
    assert emit.add("i32", "%a", "%b") == first
    assert emit.add("i32", "7", "%a") == emit.add("i32", "%a", "7")
    assert emit.effect("load i32, ptr %p") != emit.effect("load i32, ptr %p")
    assert len(emit.lines) == 4


def test_names_of_one_branch_are_not_used_in_the_other():
    emit = Emitter()
    before = emit.add("i32", "%a", "%b")
    emit.branch("true", "then", "else")
    seen = []
    for label in ("then", "else"):
        emit.label(label)
        with emit.scope():
            assert emit.add("i32", "%a", "%b") == before
            seen.append(emit.mul("i32", "%a", "%b"))
            store(emit, seen[-1])
        emit.jump("end")
    emit.label("end")
    after = emit.mul("i32", "%a", "%b")
    store(emit, after)
    emit.do("ret void")
    assert len({*seen, after}) == 3
    accepted(module(emit))


def test_a_scope_is_open_as_long_as_it_is_written():
    emit = Emitter()
    outside = emit.scope_id
    with emit.scope():
        inside = emit.scope_id
        assert emit.is_open(outside)
        assert emit.is_open(inside)
    assert not emit.is_open(inside)
    with emit.scope():
        assert emit.scope_id != inside  # a name of a closed scope never comes back


# -- loops ------------------------------------------------------------------------------------
def loop(emit: Emitter, number: int, body) -> None:
    """Write a counted loop around what `body` writes with the counter."""
    head, end = emit.fresh("loop"), emit.fresh("after")
    entry = emit.block
    with emit.loop():
        emit.jump(head)
        emit.label(head)
        counter = emit.effect(f"phi i32 [ 0, %{entry} ], [ ?, ? ]")
        body(counter)
        following = emit.add("i32", counter, "1")
        emit.patch(counter, f"phi i32 [ 0, %{entry} ], [ {following}, %{emit.block} ]")
        emit.branch(emit.pure(f"icmp slt i32 {following}, {number}"), head, end)
    emit.label(end)


def test_what_does_not_change_goes_before_the_loop():
    emit = Emitter()

    def body(counter: str) -> None:
        fixed = emit.mul("i32", "%a", "%b")
        moving = emit.add("i32", fixed, counter)
        store(emit, emit.mul("i32", moving, fixed))

    loop(emit, 9, body)
    emit.do("ret void")
    text = module(emit)
    accepted(text)
    before, inside = text.split("loop1:")
    assert "mul i32 %a, %b" in before
    assert "mul i32 %a" not in inside
    assert len(re.findall("add i32", inside)) == 2


def test_nested_loops_hoist_as_far_as_the_operands_allow():
    emit = Emitter()

    def outer(i: str) -> None:
        def inner(j: str) -> None:
            everywhere = emit.mul("i32", "%a", "%b")
            by_row = emit.mul("i32", i, everywhere)
            store(emit, emit.add("i32", by_row, j))

        loop(emit, 3, inner)

    loop(emit, 4, outer)
    emit.do("ret void")
    text = module(emit)
    accepted(text)
    entry, first, second = re.split(r"loop\d:", text)[:3]
    assert "mul i32 %a, %b" in entry
    assert "mul i32 %v" in first
    assert "mul" not in second


def test_effects_and_conditional_code_stay_in_the_loop():
    emit = Emitter()

    def body(counter: str) -> None:
        loaded = emit.effect("load i32, ptr %p")
        store(emit, emit.mul("i32", loaded, "%a"))
        emit.branch(emit.pure(f"icmp eq i32 {counter}, 3"), "rare", "usual")
        emit.label("rare")
        with emit.scope():
            store(emit, emit.pure("sdiv i32 %a, %b"))
        emit.jump("usual")
        emit.label("usual")

    loop(emit, 9, body)
    emit.do("ret void")
    text = module(emit)
    accepted(text)
    before, inside = text.split("loop1:")
    assert "load" not in before
    assert "sdiv" not in before  # it may divide by zero where it does not run
    assert "load" in inside


def test_a_phi_that_is_not_there_cannot_be_patched():
    emit = Emitter()
    emit.effect("load i32, ptr %p")
    with pytest.raises(KeyError):
        emit.patch("%v99", "add i32 1, 2")


# -- debug locations --------------------------------------------------------------------------
def located(number: int, span: Span | None) -> Constant:
    op = Constant(1.0, F32, span=span)
    op.__dict__["id"] = number
    return op


def test_locations_carry_the_line_and_a_dense_number_of_the_op():
    emit = Emitter()
    debug = emit.start_debug("f", 'a "b".py', 10)
    for number, line in ((700, 12), (3, 13), (700, 12)):
        emit.at(located(number, Span('a "b".py', line, 1, line, 9)))
        emit.effect("load i32, ptr %p")
    emit.at(None)
    emit.do("ret void")
    assert emit.op_numbers == {1: 700, 2: 3}
    text = module(emit, debug=debug)
    accepted(text)
    places = {}
    for number, line, column in re.findall(
        r"!(\d+) = !DILocation\(line: (\d+), column: (\d+)", text
    ):
        places[number] = (int(line), int(column))
    used = [places[n] for n in re.findall(r"^  .*!dbg !(\d+)$", text, re.MULTILINE)]
    assert used == [(12, 1), (13, 2), (12, 1), (0, 0)]
    # LineTablesOnly would mark PTX as debug, and ptxas would stop optimising.
    assert "emissionKind: DebugDirectivesOnly" in text


def test_inlined_helpers_have_a_chain_of_places():
    emit = Emitter()
    debug = emit.start_debug("f", "kernel.py", 1)
    calls = (Span("kernel.py", 5, 1, 5, 9), Span("helper.py", 20, 1, 20, 9))
    emit.at(located(1, Span("other.py", 40, 1, 40, 9, calls)))
    emit.effect("load i32, ptr %p")
    emit.at(located(2, Span("kernel.py", 6, 1, 6, 9)))
    emit.effect("load i32, ptr %p")
    emit.at(None)
    emit.do("ret void")
    text = module(emit, debug=debug)
    accepted(text)
    inner = re.search(r"!DILocation\(line: 40, column: 1, scope: !(\d+), inlinedAt: !(\d+)\)", text)
    assert inner is not None
    middle = re.search(
        rf"!{inner[2]} = distinct !DILocation\(line: 20, .*inlinedAt: !(\d+)\)", text
    )
    assert middle is not None
    assert re.search(rf"!{middle[1]} = distinct !DILocation\(line: 5, column: 0, scope", text)


def test_where_a_nested_write_ends_the_place_is_what_it_was():
    emit = Emitter()
    emit.start_debug("f", "kernel.py", 1)
    emit.at(located(1, Span("kernel.py", 5, 1, 5, 9)))
    before = emit.current
    emit.at(located(2, Span("kernel.py", 6, 1, 6, 9)))
    assert emit.current != before
    emit.current = before
    emit.effect("load i32, ptr %p")
    assert emit.lines[-1].endswith(before)


def test_without_debug_there_are_no_locations():
    emit = Emitter()
    emit.at(located(1, Span("kernel.py", 5, 1, 5, 9)))
    emit.effect("load i32, ptr %p")
    emit.do("ret void")
    text = module(emit)
    accepted(text)
    assert "!dbg" not in text
    assert emit.metadata() == ""
