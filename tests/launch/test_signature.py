from __future__ import annotations

import pytest

from workbench import KernelError, tl
from workbench.launch.signature import read_signature, read_word
from workbench.source import ArgumentError, OptionError, kernel_source
from workbench.source.arguments import Argument, constant


def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr): ...


SOURCE = kernel_source(add)


def known(signature, constexprs=None, assume=()):
    return dict(read_signature(SOURCE, signature, constexprs or {"BLOCK": 8}, assume))


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("*f32", Argument("*f32")),
        ("*fp16:16", Argument("*f16", divisible=16)),
        ("*fp8e4nv", Argument("*f8e4m3")),
        ("*kbf16", Argument("*kbf16")),
        ("i32:16", Argument("i32", divisible=16)),
        ("u64", Argument("u64")),
        ("i32=1", constant(1)),
        ("f32=0.5", constant(0.5)),
        ("i1", Argument("i1")),
    ],
)
def test_words(word, expected):
    assert read_word(word) == expected


def test_text_and_dict_say_the_same():
    text = known("*f32:16 *fp32:16 *f32 i32:16")
    names = {"x_ptr": "*fp32:16", "y_ptr": "*f32:16", "out_ptr": "*fp32", "n": "i32:16"}
    assert text == known(names)
    assert text["BLOCK"] == constant(8)


@pytest.mark.parametrize(
    ("fact", "name", "expected"),
    [
        ("n % 16 == 0", "n", Argument("i32", divisible=16)),
        ("n % BLOCK == 0", "n", Argument("i32", divisible=8)),
        ("n == 1", "n", constant(1)),
        ("0 <= n < 2**12", "n", Argument("i32", low=0, high=4095)),
        ("n > 3 and n <= BLOCK * 2", "n", Argument("i32", low=4, high=16)),
        ("16 >= n", "n", Argument("i32", high=16)),
        ("x_ptr % 16 == 0", "x_ptr", Argument("*f32", divisible=16)),
    ],
)
def test_assumptions(fact, name, expected):
    assert known("*f32 *f32 *f32 i32", assume=[fact])[name] == expected


def test_divisibilities_combine():
    found = known("*f32 *f32 *f32 i32:6", assume=["n % 4 == 0"])
    assert found["n"].divisible == 12


@pytest.mark.parametrize(
    ("signature", "assume", "text"),
    [
        ("*f12 *f32 *f32 i32", [], "--sig: unknown type '*f12' at column 1"),
        ("*f32 *f32 *f32 i3", [], "--sig: unknown type 'i3' at column 16"),
        ("*f32 *f32 *f32 i32 i32", [], "--sig gives 5 types, add takes 4: x_ptr"),
        ("*f32 *f32 *f32 f32:16", [], "which only integers and pointers have"),
        ("*f32 *f32 *f32 i32=0.5", [], "0.5 is no value of type i32"),
        ({"m": "i32"}, [], "signature names 'm', add takes x_ptr"),
        ("*f32 *f32 *f32 i32", ["m % 2 == 0"], "names 'm', which is no parameter"),
        ("*f32 *f32 *f32 i32", ["n % 16"], "is not a fact that the compiler can use"),
        ("*f32 *f32 *f32 i32", ["n <"], "is not an expression"),
        ("*f32 *f32 *f32 i32", ["n < 0", "n > 4"], "leaves no value"),
        ("*f32 *f32 *f32 i32", ["BLOCK == 9"], "is false for the given constants"),
        ("*f32 *f32 *f32 f32", ["n % 2 == 0"], "n is not an integer or pointer"),
    ],
)
def test_what_cannot_be_read_is_refused(signature, assume, text):
    with pytest.raises(OptionError) as caught:
        known(signature, assume=assume)
    assert caught.value.code == "K113"
    assert text in str(caught.value)


def test_a_missing_type_points_at_the_parameter():
    with pytest.raises(ArgumentError) as caught:
        known("*f32 *f32 *f32")
    assert caught.value.code == "K220"
    assert "add: no type given for 'n'" in str(caught.value)
    assert str(caught.value).splitlines()[3].index("^") == str(caught.value).splitlines()[2].index(
        "n, BLOCK"
    )


def test_a_missing_constexpr_points_at_the_parameter():
    with pytest.raises(KernelError) as caught:
        read_signature(SOURCE, "*f32 *f32 *f32 i32")
    assert "add: no constexpr given for 'BLOCK'" in str(caught.value)
    assert caught.value.span.line == SOURCE.first_line


def test_a_number_in_a_signature_is_shown_as_it_is_written():
    with pytest.raises(OptionError, match="unknown type '1'") as caught:
        read_word("1")
    assert "is i32=1;" in caught.value.hint
