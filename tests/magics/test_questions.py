"""`%bisect`, `%diff` and `%follow` as a notebook and a shell ask them."""

from __future__ import annotations

import json

import pytest
import torch

from workbench import run_cell
from workbench.cli import main
from workbench.magics import registry
from workbench.magics.comparisons import shown_comparison
from workbench.magics.grammar import parse
from workbench.magics.options import complete
from workbench.magics.question_magics import stopped_in_one_line
from workbench.magics.questioning import bisect, compare, diff, follow
from workbench.questions.comparing import difference
from workbench.questions.live import live_where_most
from workbench.source import CheckError, KernelError, OptionError
from workbench.targets.nvidia.toolchain import live_registers
from workbench.trace.answers import Contrast

ADD = """
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    y = tl.load(y_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, x + y, mask=offsets < n)
"""
LINE = "--args x,y,out,7 --grid 2 --set BLOCK=4 --target cpu"


@pytest.fixture(autouse=True)
def _empty_registry():
    registry.clear()
    yield
    registry.clear()


def names():
    x, y = torch.arange(7.0), torch.full((7,), 10.0)
    return {"x": x, "y": y, "out": torch.zeros(7), "torch": torch}


def test_a_failed_check_offers_bisect_which_needs_nothing_more():
    space = names()
    with pytest.raises(KernelError) as caught:
        run_cell(ADD.replace("x + y", "x - y"), f'{LINE} --check "x + y"', space)
    assert caught.value.hint == "%bisect add names the first wrong op"
    answer = bisect(namespace=space)
    assert answer.verdict == "source"
    assert answer.op is not None
    assert (answer.op.name, answer.op.line) == ("tile.sub", 7)
    assert "likely wrong: with '+' in place of '-'" in answer.text
    assert torch.equal(space["out"], torch.arange(7.0) - 10)  # the user's arrays are left alone


def test_what_is_right_is_said_to_be():
    space = names()
    run_cell(ADD, f'{LINE} --check "x + y"', space)
    answer = bisect("add", namespace=space)
    assert answer.verdict == "right"
    assert json.dumps(answer.data())


def test_a_right_version_must_take_the_same_arguments():
    space = names()
    run_cell(ADD, f'{LINE} --check "x + y"', space)
    run_cell(ADD.replace("add", "other").replace(", n,", ", n, m,"), "--no-run --target cpu --set "
             'BLOCK=4 --sig "*f32 *f32 *f32 i32 i32"', space)  # fmt: skip
    with pytest.raises(OptionError, match="other takes 5 arguments, add 4"):
        bisect("add", namespace=space, other="other")


def test_without_a_reference_two_versions_are_compared():
    space = names()
    run_cell(ADD.replace("add", "right"), LINE, space)
    run_cell(ADD.replace("x + y", "x - y"), LINE, space)
    answer = bisect("add", namespace=space, other="right")
    assert (answer.verdict, answer.op and answer.op.line) == ("version", 7)
    assert answer.instead is not None
    assert answer.instead.name == "tile.add"


def test_a_store_that_nobody_makes_is_told():
    space = names()
    with pytest.raises(KernelError):
        run_cell(ADD, f'{LINE.replace("--grid 2", "--grid 1")} --check "x + y"', space)
    assert bisect("add", namespace=space).sentences[0].startswith("no program stores out[4]")


def test_a_forgotten_mask_is_the_answer_and_nothing_runs_unguarded():
    space = names()
    forgotten = ADD.replace("x + y, mask=offsets < n", "x + y")
    run_cell(forgotten, f"{LINE} --no-run", space)
    answer = bisect("add", parse("bisect", LINE + ' --check "x + y"', space), space)
    assert (answer.verdict, answer.op and answer.op.line) == ("source", 7)
    assert answer.sentences[0].startswith("K502: ")
    assert not space["out"].any()


def test_a_loop_in_which_nothing_changes_is_the_answer():
    space = names()
    head = "    i = 0\n    while i < n:\n        i = i * 2\n    tl.store"
    loop = ADD.replace("    tl.store", head)
    run_cell(loop, f"{LINE} --no-run", space)
    answer = bisect("add", parse("bisect", LINE, space), space)
    assert answer.verdict == "source"
    assert "K515" in answer.text


TOGETHER = {
    "total": """
def total(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    tl.atomic_add(out_ptr, tl.sum(x, axis=0))
""",
    "last": """
def last(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    ticket = tl.atomic_add(out_ptr + 1, 1.0)
    tl.atomic_add(out_ptr, tl.sum(x, axis=0) + ticket * 0.0)
""",
}


@pytest.mark.parametrize("name", TOGETHER)
def test_programs_that_add_to_one_element_are_not_the_compilers_fault(name):
    space = {"x": torch.arange(7.0), "out": torch.zeros(2), "torch": torch}
    line = "--args x,out,7 --grid 2 --set BLOCK=4 --target cpu"
    run_cell(TOGETHER[name], line, space)
    space["out"].zero_()
    right = f"torch.stack([x.sum(), x.sum() * 0 + {2 * (name == 'last')}])"
    asked = parse("bisect", f'{line} --check "{right}"', space)
    assert bisect(name, asked, space).verdict == "right"
    assert bisect(name, parse("bisect", "", space), space).verdict == "right"
    wrong = parse("bisect", f'{line} --check "x.sum() + 1"', space)
    assert bisect(name, wrong, space).verdict == "source"


def test_a_reference_that_does_not_fit_is_told_as_the_check_tells_it():
    space = names()
    run_cell(ADD, LINE, space)
    with pytest.raises(CheckError) as caught:
        bisect("add", parse("bisect", '--check "x[:3]"', space), space)
    assert caught.value.code == "K602"


@pytest.mark.parametrize("given", ["--args x,y,out,7", "--make made"])
def test_what_a_line_does_not_say_is_as_it_was(given):
    space = names()

    def made(size):
        return {"x_ptr": torch.ones(size), "y_ptr": torch.ones(size),
                "out_ptr": torch.zeros(size), "n": size}  # fmt: skip

    space["made"] = made
    rest = '--grid "cdiv(n, BLOCK)" --set BLOCK=4 --target cpu'
    run_cell(ADD, f"--make made --x size=5,7 {rest}", space)
    line = f'{given} --check "x_ptr + y_ptr"'
    answer = bisect("add", parse("bisect", line, space), space)
    assert (answer.verdict, answer.target) == ("right", "cpu")


def test_stop_shows_one_line():
    with pytest.raises(KeyboardInterrupt) as caught, stopped_in_one_line("bisect"):
        raise KeyboardInterrupt
    assert len(caught.value._render_traceback_()) == 1


def test_an_element_that_nobody_wrote_is_told_though_an_earlier_run_left_it_right():
    space = names()
    run_cell(ADD, f'{LINE} --check "x + y"', space)
    run_cell(ADD.replace("x + y, mask=offsets < n", "x + y, mask=offsets < n - 1"), LINE, space)
    answer = bisect("add", parse("bisect", '--check "x + y"', space), space)
    assert answer.verdict == "source"
    assert answer.sentences[0].startswith("1 of 7 elements of out were not written")


def test_what_is_written_in_place_is_told_to_start_from_now():
    space = names()
    text = ADD.replace("out_ptr", "x_ptr").replace("(x_ptr, y_ptr, x_ptr, n", "(x_ptr, y_ptr, n")
    line = "--args x,y,7 --grid 2 --set BLOCK=4 --target cpu"
    run_cell(text, line, space)
    answer = bisect("add", parse("bisect", '--check "x + y"', space), space)
    assert "x is written in place: the launch starts from what it holds now" in answer.text


def test_diff_of_two_versions_labels_sides_and_lines():
    space = names()
    run_cell(ADD, LINE, space)
    run_cell(ADD.replace("x + y", "x * y"), LINE, space)
    found = diff()
    assert "A: add cpu" in found.text
    assert "line 6: 6 -> 6 rows: +1 tile.mul, -1 tile.add" in found.text.replace("-1 tile.add, +1 "
        "tile.mul", "+1 tile.mul, -1 tile.add").replace("line 7", "line 6")  # fmt: skip
    assert json.loads(json.dumps(found.data()))["source"]
    assert str(diff("add~1", "add", stage="tile")).startswith("--- A: add cpu")


def test_sides_are_called_what_the_user_calls_them():
    space = names()
    run_cell(ADD, LINE, space)
    run_cell(ADD.replace("x + y", "x * y"), LINE, space)
    request = parse("diff", "add~1 add --labels 'by sum,by product'", space)
    assert request.labels == ("by sum", "by product")
    found = compare(*request.names, labels=request.labels, namespace=space)
    assert found.comparison().labels == found.difference.labels == request.labels
    assert found.difference.text.startswith("A: by sum\nB: by product\n")
    one_stage = str(diff("add~1", "add", stage="tile", labels=request.labels))
    assert one_stage.startswith("--- A: by sum\n+++ B: by product\n")


@pytest.mark.parametrize("given", ["one", "a,b,c", "a,", "a,a", f"a,{'b' * 41}", "'a,\x1bb'"])
def test_labels_that_tell_nothing_apart_are_refused(given):
    with pytest.raises(OptionError) as caught:
        parse("diff", f"--labels {given}", {})
    assert caught.value.code == "K152"
    assert "--labels before,after" in caught.value.hint


def test_registers_are_explained_where_nvdisasm_names_them():
    space = names()
    sig = '--sig "*f32 *f32 *f32 i32"'
    for block in (128, 2048):
        run_cell(ADD, f"--no-run --target sm_90a --set BLOCK={block} {sig}", space)
    if not registry.latest("add").trace.text("sass"):
        pytest.skip("needs ptxas and nvdisasm")
    found = compare(namespace=space)
    registers = next(q for q in found.difference.quantities if q.name == "registers")
    assert registers.of == "registers are live where most are"
    assert {share.a for share in registers.shares} >= {(0, 4), (0, 5)}  # both loads are live there
    mine = [one.compiled for one in registry.results() if one.compiled and one.name == "add"][-2:]
    live = [len(live_where_most(live_registers(compiled.code))) for compiled in mine]
    assert sum(share.amount for share in registers.shares) == live[1] - live[0] > 0
    saved = difference(*found.traces, ("A", "B"))
    assert next(q for q in saved.quantities if q.name == "registers").shares == ()


def test_diff_compiles_other_settings_and_targets():
    space = names()
    run_cell(ADD, LINE, space)
    found = diff("add@BLOCK=4", "add@BLOCK=8", namespace=space)
    assert Contrast(name="BLOCK", a=4, b=8) in found.options
    found = diff("add@cpu", "add@sm_90a", namespace=space)
    assert Contrast(name="target", a="cpu", b="sm_90a") in found.options
    with pytest.raises(OptionError, match="there is none 1 before the latest"):
        diff("add", namespace=space)
    with pytest.raises(OptionError, match="not both sides have the stage 'sass'"):
        diff("add@cpu", "add@sm_90a", stage="sass", namespace=space)


def test_saved_traces_are_compared_and_followed_by_the_command_line(tmp_path, capsys):
    space = names()
    first, second = tmp_path / "a.wbt", tmp_path / "b.wbt"
    run_cell(ADD, LINE, space).save(first)
    run_cell(ADD.replace("x + y", "x * y"), LINE, space).save(second)
    assert main(["diff", str(first), str(second), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["stages"]["tile"]
    assert main(["follow", str(first), "tile:4"]) == 0
    assert "why is tile row 4 here" in capsys.readouterr().out
    assert main(["follow", str(first)]) == 2
    pages = {"compare": ["diff", str(first), str(second)], "follow": ["follow", str(first), "5"]}
    for asked, command in pages.items():
        page = tmp_path / f"{asked}.html"
        assert main([*command, "--output", str(page)]) == 0
        assert f'"asked":"{asked}"' in page.read_text()
        assert main([*command, "--output", str(page)]) == 2  # it exists
        assert main([*command, "--output", str(page), "--force"]) == 0
    capsys.readouterr()


def test_what_is_kept_of_a_comparison_is_viewed_again(tmp_path, capsys):
    space = names()
    run_cell(ADD, LINE, space)
    run_cell(ADD.replace("x + y", "x * y"), LINE, space)
    shown = shown_comparison(namespace=space)
    shown.save(tmp_path / "both.wbt")
    assert main(["view", str(tmp_path / "both.wbt"), "--output", str(tmp_path / "a.html")]) == 0
    assert '"asked":"compare"' in (tmp_path / "a.html").read_text()
    capsys.readouterr()


def test_bisect_on_the_command_line(tmp_path, capsys):
    file = tmp_path / "kernels.py"
    head = "import torch\nx, y, out = torch.arange(7.0), torch.ones(7), torch.zeros(7)\n"
    file.write_text(head + ADD.replace("x + y", "x - y"))
    line = ["--args", "x,y,out,7", "--grid", "2", "--set", "BLOCK=4", "--check", "x + y"]
    assert main(["bisect", f"{file}::add", *line, "--target", "cpu"]) == 1
    assert "likely wrong: with '+' in place of '-'" in capsys.readouterr().out


def test_a_line_a_value_and_a_row_are_followed():
    space = names()
    run_cell(ADD, f"{LINE.replace('cpu', 'sm_90a')} --no-run", space)
    way = follow("add", "5", namespace=space)
    assert way.stations[0].where == "front end"
    assert {"tile", "gpu", "llvm", "ptx"} <= {station.where for station in way.stations}
    assert any("by the rule" in station.sentence for station in way.stations)
    value = follow("add", "offsets", namespace=space)
    assert "tile.add" in value.stations[0].sentence
    text = registry.find("add").stages["ptx"].split("\n")
    row = next(n for n, each in enumerate(text, 1) if "ld.global" in each)
    why = follow("add", f"ptx:{row}", namespace=space)
    assert "tile.load of line" in why.stations[0].sentence
    nobody = follow("add", "ptx:1", namespace=space)
    assert "no op stands behind this row" in nobody.text


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("nope", "no value is called 'nope'"),
        ("400", "no op came from line 400"),
        ("sass:5", "add for cpu has no SASS"),
        ("tile:999", "tile IR has rows 1 to"),
        (None, "what is to be followed"),
    ],
)
def test_what_cannot_be_followed_is_said(what, said):
    space = names()
    run_cell(ADD, LINE, space)
    with pytest.raises(OptionError, match=said):
        follow("add", what, namespace=space)


LISTING = """
                                        // |   # 0 1 2   10 | # P |
   .text:                               // |                |     |
        /*0000*/  MOV R1, 0x1 ;         // |   1   ^        |     |
        /*0010*/  LDG.E.64 R2, [R4.64] ;// |   3   : ^   ^  |     |
        /*0020*/  FADD R0, R2, R1 ;     // |   4 ^ v :   :  |   1 |
        /*0030*/  FADD R2, R0, R2 ;     // |   3 v   x   :  |     |
        /*0040*/  STG.E [R4.64], R2 ;   // |   2     v   v  |     |
"""


def test_registers_belong_to_the_instruction_that_wrote_them():
    assert live_where_most(LISTING) == [0x20, 0x00, 0x10, 0x10]
    assert live_where_most(LISTING.replace("|   4 ^", "|   5 ^")) == []  # it counts otherwise
    assert live_where_most("/*0000*/ MOV R1, 0x1 ;") == []


def test_the_commands_complete_their_flags():
    assert complete("diff", "--st") == ["--stage"]
    assert "--check" in complete("bisect", "--ch")
    assert complete("follow", "--") == ["--force", "--output", "--json"]
