"""What the author of a wrong kernel reads: message, place from start to end, and what to do."""

import math

import numpy as np
import pytest

import workbench.language as tl
import workbench.triton as triton
from tests.language.harness import Typed, error_of, from_text, lowered
from workbench.ir import F32
from workbench.source import (
    ArgumentError,
    CompileError,
    ConstexprError,
    KernelTypeError,
    ShapeError,
    UnknownNameError,
    UnsupportedSyntaxError,
)

X = np.zeros(16, np.float32)


@triton.jit
def helper(x):
    tl.store(x, 1.0)


def rendered(text: str, **values: object) -> str:
    """Return the error's text without the file's number."""
    error = error_of(text, x=X, **values)
    return error.render().replace(error.span.file, "In[1]")


def test_unknown_function_of_tl():
    assert rendered("def k(x, n):\n    a = tl.lod(x + n, mask=n > 3)\n", n=3) == (
        "error K203: 'tl' has no function 'lod'\n"
        "  --> In[1]:2:9\n"
        "  2 |     a = tl.lod(x + n, mask=n > 3)\n"
        "    |         ^^^^^^\n"
        "help: did you mean tl.load?"
    )


def test_unknown_name():
    error = error_of("def k(x, BLOCK: tl.constexpr):\n    a = x + blok\n", x=X, BLOCK=1)
    assert error.message == "name 'blok' is not defined"
    assert error.hint == "did you mean BLOCK?"
    assert (error.span.line, error.span.column, error.span.end_column) == (2, 13, 17)


def test_an_ordinary_global_is_refused():
    error = error_of(from_text("def k(x):\n    tl.store(x, SIZE)\n", SIZE=4), x=X)
    assert isinstance(error, UnknownNameError)
    assert error.hint == "write SIZE = tl.constexpr(4), or pass it as an argument"
    lowered(from_text("def k(x):\n    tl.store(x, SIZE)\n", SIZE=tl.constexpr(4)), x=X)


def test_unsupported_syntax():
    text = "def k(x):\n    try:\n        a = 1\n    except ValueError:\n        pass\n"
    assert rendered(text) == (
        "error K215: 'try' cannot run on a device\n"
        "  --> In[1]:2:5\n"
        "  2 |     try:\n"
        "    |     ^^^^\n"
        "note: device code supports if/for/while, assert, return, calls to device functions, "
        "and static Python values\n"
        "help: move the try block to the host function around the launch"
    )


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("a = lambda: 1", "lambda"), ("a = {1: 2}", "a dict"), ("import os", "import"),
        ("with x: pass", "with"), ("class A: pass", "class"), ("def f(): pass", "def"),
        ("raise ValueError", "raise"), ("del x", "del"),
        ("a = {i for i in (1, 2)}", "a set comprehension"),
        ("a = tl.load(**x)", "**kwargs in a call"), ("global y", "global"),
        ("for i in range(3): pass\n    else: pass", "for ... else"),
        ("while False: pass\n    else: pass", "while ... else"),
    ],
)  # fmt: skip
def test_each_unsupported_construct_is_named(line, word):
    error = error_of(f"def k(x):\n    {line}\n", x=X)
    assert isinstance(error, UnsupportedSyntaxError)
    assert error.message.startswith(f"'{word}")
    assert error.span.line in (2, 3)


def test_assignment_to_an_element():
    error = error_of("def k(x):\n    x[0] = 1\n", x=X)
    assert error.code == "K215"
    assert "store to memory by pointer" in error.hint


def test_a_type_that_changes_in_a_loop():
    text = """
        def k(x, n):
            total = 0
            for i in range(n):
                total += 1.5
            tl.store(x, total)
    """
    error = error_of(from_text(text), x=X, n=3)
    assert isinstance(error, KernelTypeError)
    assert error.message == (
        "'total' changes its type in the loop: int32 on entry, fp32 after one round"
    )
    assert (error.span.line, error.span.column, error.span.end_column) == (4, 9, 21)
    assert error.notes[0].text == "total is int32 before the loop"
    assert error.notes[0].span.line == 2
    assert error.hint == "start it as 0.0, or keep its type in the loop with .to(...)"
    assert error.others == ()


def test_a_shape_that_changes_in_a_loop():
    text = """
        def k(x, n):
            block = tl.zeros((4,), tl.float32)
            while n > 0:
                block = block[:, None] + block
                n -= 1
            tl.store(x, tl.sum(block))
    """
    error = error_of(from_text(text), x=X, n=3)
    assert isinstance(error, ShapeError)
    assert error.message == (
        "'block' changes its shape in the loop: fp32 of shape (4,) on entry, "
        "fp32 of shape (4, 4) after one round"
    )
    assert "tl.zeros((4, 4), tl.float32)" in error.hint


def test_types_and_shapes_that_differ_between_branches():
    text = """
        def k(x, n):
            if n > 3:
                v = {}
            else:
                v = {}
            tl.store(x, v)
    """
    error = error_of(from_text(text.format(1, 2.0)), x=X, n=3)
    assert isinstance(error, KernelTypeError)
    assert error.message == "Mismatched type for v: it differs between the branches, int32 and fp32"
    assert error.span.line == 2
    shapes = text.format("tl.arange(0, 4)", "tl.arange(0, 8)")
    error = error_of(from_text(shapes), x=X, n=3)
    assert isinstance(error, ShapeError)
    assert "int32 of shape (4,) and int32 of shape (8,)" in error.message


def test_a_name_of_one_branch_or_of_a_loop_has_no_value_after_it():
    text = "def k(x, n):\n    if n > 3:\n        v = 1\n    tl.store(x, v)\n"
    error = error_of(text, x=X, n=3)
    assert error.message == "'v' is assigned in only one branch (line 3)"
    assert error.hint == "assign it before the 'if', or in both branches"
    text = "def k(x, n):\n    for i in range(n):\n        v = 1\n    tl.store(x, v)\n"
    assert error_of(text, x=X, n=3).message == "'v' is assigned only inside the loop (line 3)"


def test_shapes_that_do_not_broadcast():
    text = """
        def k(x):
            a = tl.arange(0, 64)
            b = tl.arange(0, 128)
            c = a + b
    """
    error = error_of(from_text(text), x=X)
    assert isinstance(error, ShapeError)
    assert error.message == "the shapes of '+' do not broadcast: 'a' (64,) and 'b' (128,)"
    assert [(n.text, n.span.line) for n in error.notes] == [
        ("a is int32 of shape (64,)", 2),
        ("b is int32 of shape (128,)", 3),
    ]
    assert (error.span.line, error.span.column, error.span.end_column) == (4, 9, 14)


def test_inner_sizes_of_dot():
    text = """
        def k(x):
            a = tl.zeros((128, 64), tl.float16)
            b = tl.zeros((32, 128), tl.float16)
            acc = tl.dot(a, b)
    """
    error = error_of(from_text(text), x=X)
    assert error.code == "K302"
    assert error.message == "dot needs matching inner sizes: a is (128, 64), b is (32, 128)"


def test_a_run_time_value_where_a_constexpr_is_needed():
    error = error_of("def k(x, n):\n    a = tl.arange(0, n)\n", x=X, n=3)
    assert isinstance(error, ConstexprError)
    assert error.message == (
        "the end of arange must be known at compile time, 'n' is a run-time int32"
    )
    assert (error.span.line, error.span.column, error.span.end_column) == (2, 9, 24)
    helper = """
        def helper(v, B: tl.constexpr):
            return v + tl.arange(0, B)

        def k(x, n):
            helper(n, n)
    """
    error = error_of(from_text(helper), x=X, n=3)
    assert error.message.startswith("the end of arange must be known at compile time")
    error = error_of("def k(x, B: tl.constexpr):\n    pass\n", x=X, B=typed_argument())
    assert "is a constexpr, it got a run-time i32" in error.message


def typed_argument():
    from workbench.frontend import Argument

    return Argument("i32")


def test_a_constexpr_is_not_assigned_again():
    text = "def k(x, B: tl.constexpr):\n    B: tl.constexpr = 3\n"
    assert error_of(text, x=X, B=1).message == "'B' is a constexpr and cannot be assigned again"
    text = "def k(x, n, B: tl.constexpr):\n    for i in range(n):\n        B = B + 1\n"
    error = error_of(text, x=X, n=3, B=1)
    assert error.message == "'B' is a constexpr and cannot be assigned in a loop"
    assert error.span.line == 3


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("scale(n)", "scale is missing 'factor'"),
        ("scale(n, 1, 2)", "scale takes 2 arguments (v, factor), got 3"),
        ("scale(n, facto=2)", "scale has no parameter 'facto'"),
        ("scale(n, 2, v=3)", "scale got 'v' twice"),
        ("tl.load()", "load is missing 'pointer'"),
        ("tl.program_id(0, 1)", "program_id takes at most 1 arguments, got 2"),
        ("tl.load(x, maks=n > 1)", "load has no parameter 'maks'"),
        ("tl.load(x, pointer=x)", "load got 'pointer' twice"),
        ("x.to()", "to is missing 'dtype'"),
        ("len()", "len takes 1 arguments by position, got 0"),
    ],
)
def test_wrong_arguments(call, message):
    text = f"def scale(v, factor):\n    return v * factor\n\ndef k(x, n):\n    a = {call}\n"
    error = error_of(text, x=X, n=3)
    assert isinstance(error, ArgumentError)
    assert isinstance(error, TypeError)
    assert error.message == message
    assert (error.span.line, error.span.column) == (5, 9)
    assert error.span.end_column == 9 + len(call)


def test_missing_and_unknown_arguments_of_the_kernel():
    text = "def k(x, B: tl.constexpr):\n    pass\n"
    assert rendered(text) == (
        "error K220: k is missing the constexpr 'B'\n"
        "  --> In[1]:1:1\n"
        "  1 | def k(x, B: tl.constexpr):\n"
        "    | ^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "help: give it a value: B=... in the launch, or --set B=..."
    )
    assert error_of(text, B=1).message == "k is missing the argument 'x'"
    assert error_of(text, x=X, B=1, C=2).message == "k has no parameter 'C'"


def test_errors_in_helpers_show_the_call():
    text = "def helper(v):\n    return v.foo\n\ndef k(x, n):\n    a = helper(n)\n"
    error = error_of(text, x=X, n=3)
    assert error.span.line == 2
    assert [call.line for call in error.span.calls] == [5]
    assert "note: called from" in error.render()


def test_all_independent_errors_are_reported_and_follow_ups_are_not():
    text = """
        def k(x, n):
            a = tl.lod(x)
            b = a + 1
            tl.store(x, b)
            if n > 3:
                c = unknown
            else:
                c = 1
            tl.store(x, c)
            for i in range(n):
                d = i.nope
            tl.store(x, 1.0, 2.0)
    """
    error = error_of(from_text(text), x=X, n=3)
    found = [error, *error.others]
    assert [e.span.line for e in found] == [2, 6, 11, 12]
    text = "def k(x):\n" + "".join(f"    tl.no_{i}()\n" for i in range(30))
    error = error_of(text, x=X)
    assert len(error.others) == 19


@pytest.mark.parametrize("loop", ["for i in range(n):", "while total[0] < n:"])
def test_what_a_loop_carries_is_not_wrong_twice(loop: str):
    text = f"""
        def k(x, n):
            total = (0.0, 0.0)
            {loop}
                total = (total[0] + tl.lod(x), total[1])
            tl.store(x, total[0])
            tl.store(x, tl.no())
    """
    error = error_of(from_text(text), x=X, n=3)
    assert [e.span.line for e in [error, *error.others]] == [4, 6]


def test_static_assert_stops_and_names_its_message():
    error = error_of(
        "def k(x, B: tl.constexpr):\n    tl.static_assert(B > 3, 'too small')\n", x=X, B=1
    )
    assert isinstance(error, CompileError)
    assert error.message == "static assertion failed: too small"
    assert error.code == "K211"


def test_a_kernel_returns_nothing():
    error = error_of("def k(x):\n    return 3\n", x=X)
    assert (error.code, error.message) == ("K212", "a kernel returns nothing")


def test_stores_to_constant_memory():
    text = "def k(x: tl.const):\n    tl.store(x, 1.0)\n"
    assert "which points to constant memory" in error_of(text, x=X).message


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("tl.load(n)", "load needs a pointer, got 'n' (int32)"),
        ("tl.load(x, mask=n)", "a mask needs conditions (int1), got 'n' (int32)"),
        ("tl.load(x, other=1.0)", "load got 'other' without a mask"),
        ("x + 1.5", "a pointer moves by integers, got fp32"),
        ("x * 2", "'*' does not take 'x' (pointer<fp32>) and int 2"),
        ("tl.exp(n)", "exp takes floats, got 'n' (int32)"),
        ("tl.arange(0, 4)[9]", "[9]: 9 is outside axis 0 of"),
        ("tl.arange(4, 0)", "arange(4, 0) is empty"),
        ("tl.full((1 << 21,), 0, tl.int8)", "a block of shape (2097152,) has 2,097,152 elements"),
        ("tl.reshape(tl.arange(0, 8), (3, 3))", "reshape of int32 of shape (8,), 8 elements"),
        (
            "tl.sum(tl.arange(0, 8), axis=1)",
            "invalid axis 1: the axis of sum 1 is outside a block with 1 axes",
        ),
        ("int(n)", "int() needs a compile-time value, got 'n' (int32)"),
        ("f'{n}'", "an f-string can show only values known at compile time"),
        ("a, b = 1, 2, 3", "2 names are assigned from 3 values"),
        ("x = 1 if x else 2", "the condition of 'if' is a pointer"),
        ("x.nope()", "a tensor has no attribute 'nope'"),
        ("n()", "'n' cannot be called in a kernel: it is a scalar"),
        ("tl.num_programs(3)", "num_programs axis must be 0, 1, or 2 but got 3"),
        ("tl.zeros((4,), 'f32')", "a dtype is needed, got str 'f32'"),
    ],
)
def test_wrong_values(line, message):
    error = error_of(f"def k(x, n):\n    {line}\n", x=X, n=3)
    assert error.message.startswith(message)
    assert error.span.line == 2
    assert error.hint or "condition" in message or "axis" in message or error.code in (
        "K203", "K210", "K301",
    )  # fmt: skip


def test_text_that_is_not_ascii_keeps_its_columns():
    error = error_of("def k(x):\n    a = 'größe'; b = tl.nein()\n", x=X)
    assert (error.span.column, error.span.end_column) == (22, 29)


def test_a_float_argument_is_not_a_bound():
    error = error_of("def k(x, n):\n    for i in range(n): pass\n", x=X, n=Typed(1.0, F32))
    assert error.message == "the upper bound of a loop must be an integer scalar, got 'n' (fp32)"


@pytest.mark.parametrize("use", ["tl.load(x, mask=n > 3, other=HUGE)", "tl.load(x) + HUGE"])
def test_an_integer_beyond_all_floats(use: str):
    error = error_of(f"def k(x, n, HUGE: tl.constexpr):\n    a = {use}\n", x=X, n=3, HUGE=1 << 8000)
    assert isinstance(error, ConstexprError)
    assert "too large for f32" in error.message
    assert error.span.line == 2


@pytest.mark.parametrize(
    ("expression", "hint"),
    [
        ("np.exp(v)", "write tl.exp(...)"),
        ("np.tanh(v)", "write tl.extra.libdevice.tanh(...)"),
        ("np.matmul(v, v)", "write tl.dot(a, b)"),
        ("sum(v)", "write tl.sum(...)"),
        ("np.fft.fft(v)", "a kernel calls tl functions, device functions and a few Python "
         "built-ins"),
        ("v.mean()", "divide a sum by the number of elements, e.g. tl.sum(x, axis=0) / n"),
        ("v.astype(tl.float32)", "write x.to(tl.float32)"),
        ("v.transpose()", "did you mean .trans?"),
        ("v.nothing_like_it", None),
        ("(1, 2).append(3)", "a tuple does not change: make a longer one, e.g. items = items + "
         "(x,)"),
        ("x[i]", "what a pointer points to is loaded, e.g. tl.load(x + i)"),
        ("v[:, None][i, i, i]", "None adds an axis, e.g. x[:, None]"),
        ("x + 1.5", "an offset is an integer (// divides integers, .to(tl.int64) casts); what a "
         "pointer points to is loaded first, e.g. tl.load(x + offsets)"),
        ("(lambda a: a)(v)", "write a function of its own outside the kernel, with @triton.jit, "
         "and call it"),
        ("f'{v}'", 'tl.device_print("x =", x) shows what a value is when the kernel runs'),
    ],
)  # fmt: skip
def test_who_knows_other_libraries_is_told_what_to_write(expression: str, hint: str | None):
    text = f"def k(x):\n    i = tl.arange(0, 16)\n    v = tl.load(x + i)\n    w = {expression}\n"
    assert error_of(from_text(text, np=np), x=X).hint == hint


@pytest.mark.parametrize(
    ("over", "hint"),
    [
        ("v", "a tile is computed with as a whole, or reduced, e.g. tl.sum(x, axis=0)"),
        ("16", "write e.g. for i in range(n)"),
    ],
)
def test_loops_over_what_has_no_rounds(over: str, hint: str):
    text = f"def k(x):\n    v = tl.load(x + tl.arange(0, 16))\n    for a in {over}:\n        pass\n"
    assert error_of(text, x=X).hint == hint


def test_errors_of_one_statement_are_all_found_in_their_order():
    error = error_of(
        """
        def kernel(x_ptr, out):
            tl.store(out, tl.lod(x_ptr) + tl.foo(1) * undefined, mask=tl.bar(2), other=nothing)
            tl.store(out, tl.zeros((3,), tl.flaot32) + tl.zeros((4,), tl.float32))
        """,
        x_ptr=np.zeros(4, np.float32), out=np.zeros(4, np.float32),
    )  # fmt: skip
    words = ["lod", "foo", "undefined", "bar", "nothing", "flaot32"]
    found = [error, *error.others]
    assert len(found) == len(words)
    assert all(f"'{word}'" in one.message for word, one in zip(words, found, strict=True))


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (3, "write held = tl.constexpr(3), or pass it as an argument"),
        ([3, 4], "write held = tl.constexpr((3, 4)), or pass a tuple as an argument"),
        ({"n": 3}, "take what is needed out of it before: N = tl.constexpr(...), or pass that"),
        (X, "pass it as an argument"),
    ],
)
def test_a_variable_of_the_function_around_is_no_global(value: object, hint: str):
    text = """
        def around(held):
            def k(x):
                tl.store(x, held)
            return k
    """
    error = error_of(from_text(text)(value), x=X)
    assert error.message.startswith("'held' is an ordinary variable of the function around this")
    assert error.hint == hint


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("del x", "leave it out"),
        ("global q", "a kernel stores what it computes"),
        ("yield 1", "a kernel stores what it computes"),
        ("x.dtype = tl.float32", "values do not change"),
        ("x.dtype += 1", "values do not change"),
        ("x[0] += 1", "build a new value with tl.where"),
        ("x.numel()", "how many elements a tile has is x.numel"),
        ("for i, j in enumerate(range(3)): pass", "count in the loop"),
        ("for i, j in zip(x, x): pass", "count in the loop"),
        ("a = sorted((1, 2))", "write tl.sort"),
        ("tl.sum(tl.zeros([4], tl.float32), axis=1)", "its one axis is 0"),
        ("tl.sum(tl.zeros([4, 4], tl.float32), axis=2)", "axes are 0, 1, or counted"),
        ("tl.program_id(3)", "a grid has three axes"),
        ("math.exp(tl.load(x))", "write tl.exp(...)"),
        ("triton.next_power_of_2(tl.load(x).to(tl.int32))", "compute it before the launch"),
        ("helper[(1,)](x)", "a kernel calls device functions"),
        ("tl.make_tensor_descriptor(x, [4, 4], [4, 1], [4, 4]).load(0)", "give one for each axis"),
        ("None + 1", "ask first: if x is not None"),
        ("tl.load(x) + None", "ask first: if x is not None"),
        ("'n = %d' % tl.load(x)", "texts hold no values of a run"),
        ("tl.static_assert(tl.load(x) > 1)", "tl.device_assert(condition) checks it"),
        ("tl.static_assert(B == 3, 'no')", "here B = 4; launch with values"),
    ],
)
def test_errors_say_what_to_do(line: str, hint: str):
    text = f"def k(x, B: tl.constexpr):\n    {line}\n"
    names = {"math": math, "triton": triton, "helper": helper}
    error = error_of(from_text(text, **names), x=X, B=4)
    assert error.hint is not None
    assert error.hint.startswith(hint)
