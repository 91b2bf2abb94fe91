"""Instructions and ops explained: all that occur in our listings; control bits; the listing."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

import workbench as wb
from tests.magics.sources import PRODUCT
from tests.passes.corpus import cases
from workbench.cli import main
from workbench.ir import MNEMONICS
from workbench.magics import glossary, lines, machine_code, registry
from workbench.magics.cells import default_names
from workbench.magics.glossary import instruction, look_up, mnemonics
from workbench.magics.options import Request
from workbench.passes.manager import Recorder
from workbench.passes.pipeline import tile_passes
from workbench.source import OptionError
from workbench.targets.nvidia import pipeline
from workbench.targets.nvidia.control import control_of
from workbench.targets.nvidia.toolchain import find

#: What occurred in the PTX and SASS of all kernels of the tests; `python -m tests.bench.mnemonics`
#: writes it anew.
SEEN = Path(__file__).with_name("mnemonics.txt")

needs_tools = pytest.mark.skipif(
    find("ptxas") is None or find("nvdisasm") is None, reason="needs ptxas and nvdisasm"
)

CELL = "\n@kernel" + PRODUCT


@pytest.fixture(scope="module", autouse=True)
def result():
    registry.clear()
    line = '--sig "*f16:16 *f16:16 *f32:16 i32:16" --set N=64 --set BK=32 --set warps=4'
    more = "--set maxnreg=40 --target sm_90a"
    return wb.run_cell(CELL, f"product {line} {more}", default_names(), file="In[1]")


def test_everything_that_was_seen_is_explained():
    words = [line.split() for line in SEEN.read_text().splitlines()]
    assert len(words) > 100
    assert not [word for language, word in words if instruction(language, word) is None]


def test_everything_in_some_listings_is_explained():
    seen = {tuple(line.split()) for line in SEEN.read_text().splitlines()}
    for case in itertools.islice(cases(), 0, None, 18):
        recorder = Recorder()
        built = pipeline.build(tile_passes(case.module(), recorder), "sm_90a", recorder)
        for language in ("ptx", "sass"):
            words = mnemonics(language, built.texts[language]().text)
            for word in filter(None, words):
                entry = instruction(language, word)
                assert entry is not None, word
                assert (language, entry.mnemonic) in seen or language == "sass", word


@pytest.mark.parametrize("word", MNEMONICS)
def test_every_op_is_explained(word):
    entry = look_up(word)
    assert entry is not None
    assert len(entry.text) > 10


def test_the_viewers_table_is_this_one():
    path = Path(__file__).parents[2] / "extension" / "src" / "instructions.ts"
    assert path.read_text() == glossary.typescript()


def test_the_longest_prefix_counts():
    assert look_up("cp.async.commit_group").text.startswith("Ends a group")
    assert look_up("cp.async.cg.shared.global").mnemonic == "cp.async"
    entry = look_up("LDG.E.128.CONSTANT")
    assert dict(entry.modifiers)[".128"] == "16 bytes of each lane"
    assert look_up("hmma").language == "sass"
    assert look_up("FOO.E") is None


def test_explain_says_where_it_occurs():
    text = lines.explain("HMMA.16816.F32")
    assert text.startswith("HMMA.16816.F32 (SASS)  HMMA d, a, b, c")
    if find("ptxas"):
        assert "in product for sm_90a: 16 rows, from line 10" in text
        other = lines.explain("HMMA.16816.BF16")
        assert "in product for sm_90a: no HMMA.16816.BF16, but HMMA.16816.F32 (16 rows)" in other
    assert "in product for sm_90a: 1 row, from line 10" in lines.explain("tile.dot")
    assert json.loads(lines.explain("cp.async", as_json=True))["mnemonic"] == "cp.async"
    assert json.loads(lines.explain("K302", as_json=True))["code"] == "K302"
    with pytest.raises(OptionError, match="nothing is known about 'foobar'"):
        lines.explain("foobar")


def test_the_command_line_explains(capsys):
    assert main(["explain", "ldmatrix", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["language"] == "ptx"


@pytest.mark.parametrize(
    ("row", "text"),
    [  # as nvdisasm -hex prints them: S2R, then an HMMA that waits
        ("0x0000000000287919 0x000e6e0000002100", "------:-:1:-:07"),
        ("0x00000a00ff017b82 0x000fe20000000800", "------:-:-:-:01"),
        ("0x0000000000007918 0x000fc00000000000", "------:-:-:Y:00"),
    ],
)
def test_control_bits(row, text):
    low, high = (int(word, 16).to_bytes(8, "little") for word in row.split())
    assert str(control_of(low + high)) == text


@needs_tools
def test_the_listing_with_control_bits():
    text = machine_code.sass_listing("product", Request())
    head, *rows, last = text.splitlines()
    assert head.startswith("// product for sm_90a: wait:rd:wr:yield:stall")
    assert rows[0].startswith("------:-:1:-:01     1")
    assert any("// spilled %" in row for row in rows)
    assert "registers live" in last
    data = json.loads(machine_code.sass_listing("product", Request(json=True)))["instructions"]
    assert len(data) == len(rows)
    assert {"address", "text", "control", "live", "line", "spill"} == data[0].keys()
    waits = [row["control"]["wait"] for row in data]
    sets = [row["control"]["write"] for row in data]
    assert {n for wait in waits for n in wait} <= {0, 1, 2, 3, 4, 5}
    assert any(n is not None for n in sets)
    assert all(row["live"] is not None for row in data[:10])
    only = json.loads(machine_code.sass_listing("product", Request(json=True, line=10)))[
        "instructions"
    ]
    assert only
    assert {row["line"] for row in only} == {10}
    empty = machine_code.sass_listing("product", Request(line=500))
    assert "// no instruction came from line 500" in empty
    empty = machine_code.sass_listing("product", Request(lines=(9000, 9001)))
    assert "// no instruction is one of 9000 to 9001" in empty


def test_no_machine_code():
    names = default_names()
    line = '--sig "*f16 *f16 *f32 i32" --set N=16 --set BK=16 --target cpu'
    wb.run_cell(CELL.replace("product", "small"), line, names)
    with pytest.raises(OptionError, match="small has no machine code of a GPU"):
        machine_code.sass_listing("small", Request())


def test_rows_of_listings():
    assert mnemonics("sass", "  /*0010*/   @!P0 LDG.E.64 R2, [R4] ;") == ["LDG.E.64"]
    assert mnemonics("ptx", "\t@%p1 ld.global.b32 %r1, [%rd5];\n$L__1:\n.reg .b32 %r<2>;") == [
        "ld.global.b32", None, None,
    ]  # fmt: skip
    assert glossary.occurrences(registry.find("product").trace, "ptx", "nothing") == ""
