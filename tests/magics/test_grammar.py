"""The grammar of an option line: words, braces, flags, places."""

from __future__ import annotations

import pytest

from workbench.magics import run_cell
from workbench.magics.grammar import Origin, parse, parse_arguments, split_cell, split_words
from workbench.source import OptionError


def test_words_split_as_in_a_shell():
    words = split_words("""add --check "x + y" --set 'A=1' a\\ b""")
    assert [word.text for word in words] == ["add", "--check", "x + y", "--set", "A=1", "a b"]


def test_value_may_follow_or_be_attached():
    apart = parse("kernel", "--grid cdiv(n,4) --target cpu")
    attached = parse("kernel", "--grid=cdiv(n,4) --target=cpu")
    assert apart.grid.text == attached.grid.text == "cdiv(n,4)"
    assert apart.target == attached.target == "cpu"


def test_lone_braces_give_the_object_and_inner_ones_are_spliced():
    grid = (3, 1)
    request = parse(
        "kernel",
        "--grid {grid} --set BLOCK={2*size} {name}",
        locals() | {"size": 64, "name": "add"},
    )
    assert request.grid.value is grid
    assert request.settings[0][1].text == "128"
    assert request.name == "add"


def test_doubled_braces_are_literal():
    assert parse("kernel", '--check "{{1: 2}}"').check.text == "{1: 2}"


def test_expression_with_braces_inside_is_one_expression():
    request = parse("kernel", "--grid \"{dict({'a': 5})['a']}\"", {})
    assert request.grid.value == 5


def test_failing_expression_is_k102_with_its_place():
    with pytest.raises(OptionError) as caught:
        parse("kernel", "add --grid {nowhere}", {}, Origin("In[1]", 1, 10))
    assert caught.value.code == "K102"
    assert "NameError" in caught.value.message
    assert (caught.value.span.line, caught.value.span.column) == (1, 21)
    assert caught.value.span.end_column == 30


@pytest.mark.parametrize("line", ["--grid {n", "--grid n}", "--grid {n // 4}"])
def test_unbalanced_braces_are_k102(line):
    with pytest.raises(OptionError, match="unbalanced braces") as caught:
        parse("kernel", line, {"n": 4})
    assert caught.value.code == "K102"


def test_unclosed_quote_is_k103():
    with pytest.raises(OptionError, match="never closed") as caught:
        parse("kernel", '--check "x + y')
    assert caught.value.code == "K103"


def test_backslash_continues_the_line_and_counts_lines():
    line, body, taken = split_cell(
        "add --grid 3 \\", "  --set BLOCK=4 \\\n  --bench\ndef add(): ...\n"
    )
    assert taken == 3
    assert body == "def add(): ...\n"
    request = parse("kernel", line, {}, Origin("In[2]", 1, 10))
    assert request.bench
    assert [name for name, _ in request.settings] == ["BLOCK"]


def test_places_of_continued_lines_are_those_of_the_cell():
    line, _, _ = split_cell("add \\", "  --gird 3\n")
    with pytest.raises(OptionError) as caught:
        parse("kernel", line, {}, Origin("In[2]", 1, 10))
    assert (caught.value.span.line, caught.value.span.column) == (2, 3)


def test_repeated_options_accumulate_and_short_names_are_lengthened():
    request = parse("kernel", "--set BLOCK=128 --set warps=8 --set num_stages=2")
    assert [name for name, _ in request.settings] == ["BLOCK", "num_warps", "num_stages"]


def test_bare_check_means_the_interpreter():
    assert parse("kernel", "--check").check == "interpreter"
    assert parse("kernel", "--check --bench").check == "interpreter"
    assert parse("kernel", "--check x+y --bench").check.text == "x+y"


def test_negative_numbers_are_values_not_flags():
    with pytest.raises(OptionError, match="must be a number ≥ 0, got -1") as caught:
        parse("kernel", "--rtol -1")
    assert caught.value.code == "K117"


@pytest.mark.parametrize(
    ("line", "option", "value"),
    [
        ("--set BLOCK=4 --grid 3", "grid", "3"),
        ("--grid=cdiv(n,4) --bench", "grid", "cdiv(n,4)"),
        ('--check "x + y"', "check", '"x + y"'),
        ("--set warps=4 --set BLOCK=8", "settings.num_warps", "warps=4"),
        ("--bench", "bench", "--bench"),
    ],
)
def test_the_place_of_an_option_is_that_of_its_value(line, option, value):
    span = parse("kernel", line, {}, Origin("In[1]", 1, 1)).place(option)
    assert line[span.column - 1 : span.end_column - 1] == value


@pytest.mark.parametrize("quote", ["", '"'])
def test_the_place_within_a_word_is_that_of_the_part(quote):
    line = f"--show {quote}source,tir,ptx{quote}"
    with pytest.raises(OptionError) as caught:
        parse("kernel", line, {}, Origin("In[1]", 1, 1))
    span = caught.value.span
    assert line[span.column - 1 : span.end_column - 1] == "tir"


@pytest.mark.parametrize(
    "line", ["--set BLOCK=1 --set BLOCK=2", "--set warps=4 --set num_warps=8", "--grid 1 --grid 2"]
)
def test_two_values_for_one_thing_are_k106(line):
    with pytest.raises(OptionError, match="is given twice") as caught:
        parse("kernel", line)
    assert caught.value.code == "K106"


@pytest.mark.parametrize(
    ("line", "code", "text"),
    [
        ("--gird 3", "K100", "did you mean --grid"),
        ("--llvm-passes", "K100", "unknown option '--llvm-passes'"),
        ("--che x", "K100", "did you mean --check"),
        ("--grid", "K101", "--grid needs a value"),
        ("--bench=1", "K101", "--bench takes no value"),
        ("add sub", "K103", "unexpected 'sub'"),
        ("--grid cdiv(n, 4)", "K103", "unexpected '4)'"),
        ("--target sm_91", "K114", "unknown target sm_91; known: cpu, interpreter, sm_80"),
        ("--metric gb", "K120", "unknown metric 'gb'; did you mean gbps?"),
        ("--show source,tir", "K122", "unknown pane 'tir'; panes: source ast tile gpu"),
        ("--as 3x", "K123", "--as needs an identifier"),
        ("--as class", "K123", "'class', a word of Python"),
        ("--as tl", "K123", "--as tl would hide what cells mean by tl"),
        ("--as range", "K123", "--as range would hide what Python means by range"),
        ("--as __builtins__", "K123", "--as __builtins__ would hide what Python means"),
        ("--as get_ipython", "K123", "--as get_ipython would hide what cells mean"),
        ("--args x --make mk", "K124", "--args and --make exclude each other"),
        ("--x N=1:4", "K125", "--x needs --make"),
        ("--cold --warm", "K127", "--cold and --warm exclude each other"),
        ("--embed some", "K128", "unknown embed mode 'some'"),
        ("--set 5", "K112", "--set takes NAME=VALUE"),
        ("--x 5 --make mk", "K116", "--x takes NAME=VALUES"),
        ("--grid 3 --grid 4", "K106", "--grid is given twice"),
    ],
)
def test_wrong_lines_say_what_is_wrong(line, code, text):
    with pytest.raises(OptionError) as caught:
        parse("kernel", line)
    assert caught.value.code == code
    assert text in caught.value.message


@pytest.mark.parametrize(
    "line", ["--set BM=128 BN=64", "--set BM=128,BN=64", "--set BM=128, BN=64"]
)
def test_several_settings_in_one_are_shown_one_by_one(line):
    with pytest.raises(OptionError) as caught:
        run_cell("def k(x, BM: tl.constexpr): tl.store(x, BM)\n", f"{line} --sig *fp32", {})
    assert "--set BN=64" in caught.value.hint


def test_render_shows_the_word_with_carets():
    from workbench.source import register_text

    register_text("In[7]", "%%kernel add --gird 3\ndef add(): ...\n")
    with pytest.raises(OptionError) as caught:
        parse("kernel", "add --gird 3", {}, Origin("In[7]", 1, 10))
    assert str(caught.value).splitlines()[:4] == [
        "error K100: unknown option '--gird'; did you mean --grid?",
        "  --> In[7]:1:14",
        "  1 | %%kernel add --gird 3",
        "    |              ^^^^^^",
    ]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("N=1,2,5", (1, 2, 5)),
        ("N=[8, 9]", (8, 9)),
        ("N=256:2048:*2", (256, 512, 1024, 2048)),
        ("N=10:30:10", (10, 20, 30)),
        ("N=3:5", (3, 4, 5)),
        ("N=2**4:2**6:*2", (16, 32, 64)),
        ("N=sizes", (7, 11)),
        ("N=7", (7,)),
    ],
)
def test_axis_values(text, values):
    request = parse("kernel", f"--make mk --x '{text}'")
    assert request.axes[0].values({"sizes": [7, 11]}) == values


@pytest.mark.parametrize("text", ["N=1:8:0", "N=0:8:*2", "N=1:8:*1", "N=1:2:3:4"])
def test_axis_that_never_ends_is_refused(text):
    request = parse("kernel", f"--make mk --x '{text}'")
    with pytest.raises(OptionError, match="not a range that ends"):
        request.axes[0].values({})


def test_baselines_have_names():
    request = parse(
        "kernel", """--baseline torch --baseline cuBLAS="torch.mm(a, b)" --baseline "a == b" """
    )
    assert [(b.name, b.known) for b in request.baselines] == [
        ("torch", True),
        ("cuBLAS", False),
        ("a == b", False),
    ]
    assert request.baselines[1].expression.text == "torch.mm(a, b)"


def test_command_line_leaves_braces_alone():
    assert (
        parse_arguments("compile", ["f.py::k", "--set", "D={1:2}"]).settings[0][1].text == "{1:2}"
    )


def test_a_dict_in_a_line_says_how_it_is_written():
    with pytest.raises(OptionError) as caught:
        parse("kernel", "--check \"{'out': x + y}\"", {"x": 1, "y": 2})
    assert caught.value.code == "K102"
    assert "{{ and }}, or as dict(name=value)" in caught.value.hint
    written = parse("kernel", "--check \"{{'out': x + y}}\"", {"x": 1, "y": 2}).check
    assert "{'out': x + y}" in str(written)


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("add --warps 3", "options of compilation go to --set: --set warps=..."),
        ("add --num-warps 3", "options of compilation go to --set: --set num_warps=..."),
        ("add --args x, out, n", "write the list of --args without spaces, as in --args x,out,n"),
    ],
)
def test_what_stands_elsewhere_is_told(line: str, hint: str):
    with pytest.raises(OptionError) as caught:
        parse("kernel", line)
    assert caught.value.hint == hint
