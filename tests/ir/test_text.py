"""The text form: everything that is printed is read back as it was."""

from __future__ import annotations

import math
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ops.examples import all_examples
from tests.passes.corpus import Case
from tests.passes.corpus import cases as corpus
from tests.passes.launches import Launch, launches
from tests.passes.leaves import GRID
from tests.passes.meaning import cases, meaning
from tests.passes.pipelines import gpu_steps, tile_steps
from tests.passes.programs import modules
from workbench.ir import (
    F16,
    F32,
    F64,
    I1,
    I8,
    I32,
    U64,
    Block,
    Builder,
    KernelParameter,
    Module,
    Op,
    Pointer,
    Value,
    parse_module,
    print_module,
    print_rows,
    verify_module,
)
from workbench.ops import Constant, DevicePrint, Elementwise, Load, Return
from workbench.source import CompileError, KernelError


def read_back(module: Module) -> Module:
    """Return what the module's text says; its text is the same again."""
    text = print_module(module)
    again = parse_module(text)
    verify_module(again)
    assert print_module(again) == text
    assert again.attributes == module.attributes
    for old, new in zip(module.parameters, again.parameters, strict=True):
        assert (new.name, new.value.type) == (old.name, old.value.type)
        assert (new.divisible, new.low, new.high) == (old.divisible, old.low, old.high)
        assert new.noalias == old.noalias
    for old, new in zip(module.walk(), again.walk(), strict=True):
        assert (new.name, new.layouts is None) == (old.name, old.layouts is None) or old.results
        assert [r.type for r in new.results] == [r.type for r in old.results]
        assert new.attributes.keys() == old.attributes.keys()
    return again


def kernel(*ops: Op, parameters: tuple[KernelParameter, ...] = (), **attributes: object) -> Module:
    builder = Builder()
    with builder.block() as body:
        for op in (*ops, Return()):
            builder.insert(op)
    return Module("k", parameters, Block((), tuple(body)), attributes, builder.next_id)


@given(modules(), launches())
@cases(30)
def test_random_programs_are_read_back_and_mean_the_same(module: Module, launch: Launch):
    again = read_back(module)
    assert meaning(again, GRID, launch.arguments()) == meaning(module, GRID, launch.arguments())


@pytest.mark.parametrize("case", corpus()[::3], ids=lambda case: case.name)
def test_every_stage_of_the_corpus_is_read_back(case: Case):
    module = case.module()
    read_back(module)
    final = [after for _, after in tile_steps(module)][-1]
    for _, after in gpu_steps(final, **case.options):
        read_back(after)


@pytest.mark.parametrize(
    "number", [0.0, -0.0, 1e-45, 1e300, -1e-7, 1e22, math.inf, -math.inf, math.nan, 0.1]
)
def test_floats_are_read_back_bit_for_bit(number: float):
    (again, _) = read_back(kernel(Constant(number, F64))).body.ops
    assert repr(again.value) == repr(number)


def test_integers_and_truth_values_keep_their_kind():
    ops = read_back(kernel(Constant(1 << 63, U64), Constant(-5, I8), Constant(True, I1))).body.ops
    assert [repr(op.value) for op in ops[:3]] == [str(1 << 63), "-5", "True"]


@pytest.mark.parametrize("text", ['a"b', "a\\nb", "a\nb", "\\", "} {x = 1} // no %x", "größe ×"])
def test_strings_are_read_back(text: str):
    (again, _) = read_back(kernel(DevicePrint((), prefix=text))).body.ops
    assert again.prefix == text


def test_names_of_any_alphabet_are_read_back():
    value = Value(F32, "α")
    sums = Elementwise("add", (value, value), hint="größe")
    again = read_back(kernel(sums, parameters=(KernelParameter("α", value),)))
    assert again.body.ops[0].results[0].hint == "größe"


def test_members_of_tuples_keep_their_names_apart_from_numbered_ones():
    """`t.1` is a parameter here, and the second value called `t` must not take its name."""
    names = ("t.0", "t.1", "t", "0")
    parameters = tuple(KernelParameter(name, Value(F32, name)) for name in names)
    pair = (parameters[0].value, parameters[1].value)
    ops = [Elementwise("add", pair, hint=hint) for hint in ("t", "t.1", "", "t")]
    module = kernel(*ops, parameters=parameters)
    read_back(module)
    defined = re.findall(r"(%\S+) =", print_module(module)) + [f"%{name}" for name in names]
    assert len(set(defined)) == len(defined) == 8


def test_facts_of_parameters_and_attributes_of_kernels_are_read_back():
    constant, nested = Value(Pointer(F32, True), "x"), Value(Pointer(Pointer(F16)), "y")
    parameters = (
        KernelParameter("x", constant, 16, noalias=True),
        KernelParameter("y", nested),
        KernelParameter("n", Value(I32, "n"), 8, -3, (1 << 31) - 1),
    )
    options = {"num_warps": 4, "name": "a b", "nothing": None, "nested": (1, (2, "c"), ())}
    read_back(kernel(Load(constant, volatile=True, cache="cg"), parameters=parameters, **options))


def test_each_row_names_its_op():
    module = corpus()[0].module()
    rows = print_rows(module)
    names = {op.id: op.name for op in module.walk()}
    for text, op in rows:
        if op and " = tile." in text:
            assert f" = {names[op]}" in text
    assert {op for _, op in rows} - {0} == names.keys()


# -- errors -----------------------------------------------------------------------------------
HEAD = "kernel @k(%x: f32, %p: ptr<f32>) {\n"


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("kernel k() {\n}\n", 1, 8, "expected the kernel's name, e.g. @add, found 'k'"),
        ("kernel @k(%x: f31) {\n}\n", 1, 15, "unknown type 'f31'"),
        ("kernel @k(%x: tile<0x4xf32>) {\n}\n", 1, 24, "a tile needs extents of at least 1"),
        ("kernel @k(%x: f32 {even = 2}) {\n}\n", 1, 29, "unknown fact 'even'"),
        (HEAD + "  tile.load %q : f32\n}\n", 2, 13, "unknown value '%q'"),
        (HEAD + "  %y = tile.lod %p : f32\n}\n", 2, 8, "unknown op 'tile.lod'"),
        (HEAD + "  %y = tile.load %p : f16\n}\n", 2, 23, "tile.load gives f32, the text says f16"),
        (HEAD + "  %y, %z = tile.load %p : f32, f32\n}\n", 2, 32, "has 1 results, 2 are named"),
        (HEAD + "  %y = tile.add [%x %x]\n}\n", 3, 1, "expected ':', found '}'"),
        (HEAD + "  tile.store %p %x\n}\n", 2, 17, "expected ',', found '%x'"),
        (HEAD + "  tile.return\n", 3, 1, "expected '}', found the end of the text"),
        (HEAD + "  tile.return €\n}\n", 2, 15, "unexpected character '€'"),
        (HEAD + "  tile.splat %x {form = (4,)}\n}\n", 2, 3, "these are no operands and attributes"),
        ("#L0 = linear<8, lane=[1,2>\nkernel @k() {\n}\n", 1, 7, "is no layout"),
        ("kernel @k(%x: tile<4xf32, #L7>) {\n}\n", 1, 27, "unknown layout '#L7'"),
    ],
)  # fmt: skip
def test_a_mistake_is_reported_where_it_stands(text: str, line: int, column: int, message: str):
    with pytest.raises(KernelError) as caught:
        parse_module(text, "kernel.ir")
    error = caught.value
    assert message in error.message
    assert error.code == "K290"
    assert (error.span.file, error.span.line, error.span.column) == ("kernel.ir", line, column)


def test_a_wrong_operand_is_the_ops_own_error_at_its_row():
    with pytest.raises(KernelError) as caught:
        parse_module(HEAD + "  %y = tile.add [%x, %p] : f32\n}\n")
    assert caught.value.code == "K302"
    assert (caught.value.span.line, caught.value.span.column) == (2, 3)


EXAMPLES = [example.text for example in all_examples()]
WORDS = ["{", "}", "(", ")", "<", ">", "[", "]", "%x", "7", "-1", "1.5", "tile.add", "f32", '"',
         ",", "=", "^", ":", "#L9", "linear<", "€", "tile<", "ptr<", "None"]  # fmt: skip


def error_of(text: str) -> KernelError | None:
    """Return what is wrong with a text, None if it is IR; nothing else may escape."""
    try:
        parse_module(text)
    except KernelError as error:
        return error
    return None


@given(st.sampled_from(EXAMPLES), st.randoms(use_true_random=False))
@cases(150)
def test_damaged_text_is_an_error_with_a_place(text: str, source: random.Random):
    tokens = re.findall(r"\s+|[%#@]?[\w.]+|.", text)
    for _ in range(source.choice([1, 2])):
        place = source.randrange(len(tokens))
        new = source.choice([[], [source.choice(WORDS)], [source.choice(tokens)]])
        tokens[place : place + source.choice([0, 1])] = new
    damaged = "".join(tokens)
    error = error_of(damaged)
    if error is not None:
        assert error.span is not None
        rows = damaged.split("\n")
        assert 1 <= error.span.line <= len(rows)
        assert 1 <= error.span.column <= len(rows[error.span.line - 1]) + 1


def test_rings_of_buffers_say_their_slots():
    text = "\n".join((
        "#S0 = linear<4x4, offset=[(0,1),(0,2),(1,0),(2,0)]>",
        "kernel @k() {",
        "  %a = gpu.shared_allocate {type = shared<4x4xf16, #S0, slots=3>} : "
        "shared<4x4xf16, #S0, slots=3>",
        "  %b = gpu.shared_allocate {type = shared<2x4x4xf16>} : shared<2x4x4xf16>",
        "  %c = gpu.shared_allocate {type = shared<8xf32, slots=1>} : shared<8xf32, slots=1>",
        "  tile.return",
        "}",
        "",
    ))  # fmt: skip
    module = parse_module(text)
    assert print_module(module) == text
    ring, tile, one = (op.result.type for op in module.body.ops[:-1])
    assert (ring.slots, ring.shape, ring.bytes, ring.slot_bytes) == (3, (4, 4), 96, 32)
    assert (tile.slots, tile.shape, tile.bytes) == (0, (2, 4, 4), 64)
    assert (one.slots, one.bytes) == (1, 32)
    for wrong in ("slots=0", "slots=x", "slots"):
        with pytest.raises(CompileError, match=r"slots are a number|expected '='"):
            parse_module(text.replace("slots=3", wrong))
