"""What is told of a `%%kernel` cell while it is written, without running any of it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

import workbench
from workbench.magics import registry
from workbench.magics.cells import run_cell
from workbench.magics.while_typing import complete_at, describe_at, look

ROOT = Path(__file__).resolve().parents[2]
LINE = "%%kernel --args x,y,7 --set BLOCK=4 --grid 2 --target cpu"
BODY = """
def double(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(y_ptr + offs, x * 2, mask=offs < n)
"""


@pytest.fixture(autouse=True)
def _no_results():
    registry.clear()
    yield
    registry.clear()


def arrays():
    return {"x": np.ones(7, np.float32), "y": np.zeros(7, np.float32)}


def cell(body=BODY, line=LINE):
    return line + body


def problems(text, names=None):
    return [
        (p.line, p.column, p.end_column, p.severity, p.code)
        for p in look(text, arrays() if names is None else names).problems
    ]


def held(text, names=None):
    """Return what each name is said to hold, the last time it is seen."""
    found = look(text, arrays() if names is None else names)
    return {seen.name: seen.text for seen in found.seen if seen.name}


def test_a_right_cell_has_no_problems_and_its_names_have_types():
    assert problems(cell()) == []
    told = held(cell())
    assert told["x_ptr"] == "x_ptr: pointer<fp32>"
    assert told["offs"] == "offs: int32 of shape (4,)"
    assert told["x"] == "x: fp32 of shape (4,)"
    assert told["BLOCK"] == "BLOCK = 4  (constexpr)"
    assert look("def double(): pass", {}) is None


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (("tl.load", "tl.lod"), (4, 9, 15, "error", "K203")),
        (("offs < n)\n    tl.store", "off < n)\n    tl.store"), (4, 36, 39, "error", "K203")),
        (("x_ptr + offs, mask", "x_ptr + offs, maks"), (4, 9, 45, "error", "K220")),
        (("x * 2", "x + tl.zeros((3,), tl.float32)"), (5, 28, 58, "error", "K302")),
        (("arange(0, BLOCK)", "arange(0, n)"), (3, 39, 54, "error", "K210")),
        (("x = tl.load(x_ptr", "x = = tl.load(x_ptr"), (4, 9, 10, "error", "K219")),
        (("--args x,y,7", "--args x,y"), (1, 17, 20, "error", "K110")),
        (("--args x,y,7", "--args x,yy,7"), (1, 19, 21, "warning", "K104")),
        (("--set BLOCK=4", "--set BLCK=4"), (1, 29, 35, "error", "K112")),
        (("--grid 2", "--gird 2"), (1, 37, 43, "error", "K100")),
        (("--target cpu", "--target sm_91"), (1, 55, 60, "error", "K114")),
        (("--args x,y,7", '--sig "*f32 *f12 i32"'), (1, 22, 26, "error", "K113")),
        (("--args x,y,7", "--sig *f32,*f32,i32,i32"), (1, 30, 33, "error", "K113")),
        (("%%kernel ", "%%kernel other "), (1, 10, 15, "error", "K131")),
        (("\ndef", "\nimport triton.nothing\ndef"), (2, 8, 22, "error", "K203")),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_at_its_place(change, place):
    assert problems(cell().replace(*change, 1)) == [place]


def test_all_independent_errors_are_told_at_once():
    body = BODY.replace("tl.load", "tl.lod").replace("tl.store", "tl.stre")
    assert [p[0] for p in problems(cell(body))] == [4, 5]


def test_without_types_names_and_calls_are_checked_all_the_same():
    body = BODY.replace("x * 2", "tl.exq(x)").replace("mask=offs < n)\n    tl", "msk=off)\n    tl")
    found = problems(cell(body, "%%kernel"), {})
    assert [(line, code) for line, _, _, _, code in found] == [
        (4, "K220"), (4, "K203"), (5, "K203"),
    ]  # fmt: skip
    assert held(cell(BODY, "%%kernel"), {})["x_ptr"].startswith("x_ptr: type unknown")


def test_under_an_unknown_condition_it_is_a_warning():
    body = BODY.replace("    x =", "    if n > BLOCK:\n        tl.future()\n    x =")
    assert problems(cell(body, "%%kernel"), {}) == [(5, 9, 18, "warning", "K203")]


@pytest.mark.parametrize(
    ("line", "body"),
    [
        ('%%kernel --sig "*f32 *f32 i32" --set BLOCK=4', BODY),
        ("%%kernel --args {x},y,7 --tune BLOCK=4,8", BODY),
        ("%%kernel", f"{BODY}\ndouble[2,](x, y, 7, BLOCK=4)\n"),
        ("%%kernel --args x,y,x.shape[0]", BODY.replace("constexpr", "constexpr = 4")),
        (
            "%%kernel --args x,y,cdiv(13,2)",
            "\n@triton.autotune(configs=[triton.Config({'BLOCK': 4}, num_warps=2)], key=['n'])"
            f"\n@triton.jit{BODY}",
        ),
    ],
)  # fmt: skip
def test_types_come_from_whoever_tells_them(line, body):
    told = held(cell(body, line))
    assert told["offs"] == "offs: int32 of shape (4,)"
    if "{x}" not in line:
        assert told["x"] == "x: fp32 of shape (4,)"


def test_what_a_kernel_was_launched_with_is_remembered():
    text = cell(BODY, "%%kernel")
    assert "x" not in held(text, {})
    run_cell(BODY, LINE.removeprefix("%%kernel"), arrays(), file="In[1]")
    assert held(text, {})["x"] == "x: fp32 of shape (4,)"


def test_what_is_broken_is_left_out_and_the_rest_is_told():
    body = BODY.replace("x = tl.load(x_ptr + offs, mask=offs < n)", "x = tl.load(x_ptr +")
    found = look(cell(body), arrays())
    assert [(p.line, p.code) for p in found.problems] == [(4, "K219")]
    assert any(seen.text == "offs: int32 of shape (4,)" for seen in found.seen)
    loop = BODY.replace("    tl.store", "    for i in rang(:\n        x += i\n    tl.store")
    assert [(p.line, p.code) for p in look(cell(loop), arrays()).problems] == [(5, "K219")]


def test_helpers_are_looked_at_where_they_are_called():
    body = f"\ndef twice(v, by):\n    return v * byy\n{BODY.replace('x * 2', 'twice(x, 2)')}"
    assert problems(cell(body)) == [(3, 16, 19, "error", "K203")]


def test_other_kernels_of_the_cell_are_read_and_host_functions_are_not():
    host = "\ndef host(a):\n    import os\n    return {tl.float32: os.name}[a]\n"
    other = f"\n@triton.jit{BODY.replace('double', 'other').replace('tl.load', 'tl.lod')}"
    found = problems(cell(f"{host}{other}\n@triton.jit{BODY}"))
    assert [(line, code) for line, _, _, _, code in found] == [(9, "K203")]


def test_columns_count_characters():
    body = BODY.replace("    x = tl.load", "    'Ä🙂'; x = tl.lod")
    assert problems(cell(body)) == [(4, 15, 21, "error", "K203")]


def test_blank_lines_above_and_continued_options_keep_their_places():
    line = LINE.replace(" --grid", " \\\n   --gird")
    found = problems(f"\n\n{cell(BODY.replace('tl.load', 'tl.lod'), line)}")
    assert [(at[0], at[1]) for at in found] == [(4, 4), (7, 9)]


# -- nothing runs -----------------------------------------------------------------------------
HOSTILE = """%%kernel --args odd,odd.a,{ran.append('braces')} --grid "odd(1)" --check odd()
ran.append("body")
from nowhere import something
N = ran.append("assigned")
LIMIT: tl.constexpr = odd + 1
@odd.decorator(ran.append("decorator"))
def plain(x): return x
@triton.constexpr_function
def now(x):
    ran.append("constexpr")
    return 4
class Made(odd.base): ran.append("class")
@triton.jit
def kernel(x_ptr, y, n, BLOCK: ran.append("note") = ran.append("default"), C: tl.constexpr = odd):
    offs = tl.arange(0, now(4))
    a = odd.value + odd[0] + C.value
    b = odd(1) + plain(2) + Made() + now(2)
    c = tl.load(x_ptr + offs) if odd else f"{odd}"
    d = getattr(odd, "x"), hasattr(odd, "x"), odd == 1, len(odd), str(odd), named(1)
    for i in odd: pass
    e = lazy.member + ran.append("kernel")
    f = typed.anything
    tl.static_print(odd, lazy.other)
    return odd
kernel[odd](odd, odd[1], ran.append("launch"))
"""


def test_nothing_of_the_users_runs():
    ran = []

    def note(word):
        def run(self, *args, **given):
            ran.append(word)
            return self

        return run

    words = "call add radd getitem eq bool iter len str format hash getattr mod mul lt index"
    odd = type("Odd", (), {f"__{word}__": note(word) for word in words.split()})()
    meta = type("Meta", (type,), {"__getattr__": note("metaclass"), "__call__": note("made")})
    lazy = SimpleNamespace.__class__("lazy", (), {"__getattr__": note("lazy")})()
    module = type(json)("lazymodule")
    module.__getattr__ = lambda name: ran.append("module")
    names = {
        "odd": odd, "ran": ran, "lazy": lazy, "typed": meta("Typed", (), {}), "named": module,
        "Made": meta("Made", (), {}),
    }  # fmt: skip
    found = look(HOSTILE, names)
    assert ran == []
    assert found is not None
    for at in range(0, len(HOSTILE), 7):
        complete_at(HOSTILE, at, names)
    describe_at(HOSTILE, HOSTILE.index("odd.value") + 2, names)
    assert ran == []
    assert set(names) == {"odd", "ran", "lazy", "typed", "named", "Made"}


class Pair(NamedTuple):
    one: int = 3
    other: int = 4


def test_attributes_and_tuples_of_the_users_run_nothing():
    ran = []

    def run(self, *args):
        ran.append(self)
        return 1

    made = type("Descriptor", (), {"__get__": run})()
    settings = type("Settings", (), {"x": made, "BLOCK": 4})
    words = ["iter", "len", "getitem", "eq", "add", "mul", "lt", "contains", "hash", "bool"]
    row = type("Row", (tuple,), {f"__{word}__": run for word in words})
    odd = type("Odd", (), {"__eq__": run, "__lt__": run, "__len__": run, "__index__": run})()
    area = type("Area", (Pair,), {"area": property(run)})
    names = {
        "C": settings, "R": row((1, 2)), "P": area(1), "L": [odd, odd], "T": (odd,), "U": (1, odd),
        "deep": [], "pair": Pair(), "Plain": type("Plain", (), {"BLOCK": 4}), "odd": odd,
        "x": np.zeros(10),
    }  # fmt: skip
    names["deep"].append(names["deep"])
    texts = (
        "C.x C.BLOCK R R[0] R+R len(R) max(R) (*R,) R==R tuple(R) P.area P+P L==T T==U max(L) "
        "T<U deep deep[0] x[odd] max(x) min(odd,1) x.size(odd) hasattr(C,'x') tl.zeros(R,tl.int32)"
    )
    for text in texts.split():
        body = f"\ndef kernel(N: tl.constexpr):\n    a = {text}\n    b = tl.arange(0, {text})\n"
        assert look(f"%%kernel --args {text} --set N={text}{body}", names) is not None
        assert ran == [], text
    body = "\ndef kernel(p):\n    a = tl.arange(0, pair.other)\n    b = tl.arange(0, Plain.BLOCK)\n"
    told = held(f"%%kernel{body}", names)
    assert told["a"] == "a: int32 of shape (4,)"
    assert told["b"] == "b: int32 of shape (4,)"


def test_a_look_ends_when_its_time_is_over():
    body = BODY.replace(
        "    x =", "    for i in tl.static_range(60000):\n        offs += i\n    x ="
    )
    found = look(cell(body), arrays(), seconds=0)
    assert found.partial
    assert found.problems == []


# -- completion and inspection ----------------------------------------------------------------
@pytest.mark.parametrize(
    ("before", "words"),
    [
        ("%%kernel --ar", ("--args",)),
        ("%%kernel \\\n  --tune-", ("--tune-for",)),
        ("%%kernel --target=int", ("interpreter",)),
        ("%%kernel --show source,sa", ("sass",)),
        ("%%kernel --set BL", ("BLOCK=",)),
        ("%%kernel --set num_w", ("num_warps=",)),
        ("%%kernel --args x,lon", ("long_name",)),
        ("%%kernel dou", ("double",)),
    ],
)
def test_options_are_completed(before, words):
    names = {**arrays(), "long_name": 1}
    found = complete_at(before + BODY, len(before), names)
    assert found.words == words
    assert found.alone
    assert before[found.start :] == before[-len(before) + found.start :]


@pytest.mark.parametrize(
    ("typed", "some", "none"),
    [
        ("tl.lo", {"load", "log", "log2"}, {"logging"}),
        ("tl.", {"load", "arange", "float32"}, {"aggregates", "add_methods"}),
        ("tl.extra.libdevice.fast_e", {"fast_expf"}, {"exp"}),
        ("x.s", {"sum", "shape", "sigmoid"}, {"stored", "split_"}),
    ],
)
def test_the_language_is_completed_as_authors_may_write_it(typed, some, none):
    text = cell(BODY.replace("    tl.store", f"    z = {typed}\n    tl.store"))
    cursor = text.index(f"z = {typed}") + len(f"z = {typed}")
    names = {**arrays(), "tl": workbench.magics.cells.default_names()["tl"]}
    found = complete_at(text, cursor, names)
    assert some <= set(found.words)
    assert not none & set(found.words)


def test_a_place_is_described_in_words():
    text = cell(BODY.replace("tl.store", "tl.stre"))
    at = text.index("offs < n") + 2
    assert describe_at(text, at, arrays()) == "offs: int32 of shape (4,)"
    assert describe_at(text, text.index("stre") + 1, arrays()).startswith("error K203: 'tl' has no")
    assert describe_at(text, text.index("--set") + 2, arrays()).startswith("--set K=V\na constexpr")
    assert describe_at(text, text.index("cpu") + 1, arrays()).startswith("--target T\n")
    assert describe_at(text, text.index("tl.load") + 4, arrays()) == ""  # Python's own tells that


def test_notebooks_are_told_nothing_wrong_but_what_is():
    """Nothing has run here, so what other cells define is told to be missing, and that is right."""
    told = set()
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        defined = set()
        for one in json.loads(path.read_text())["cells"]:
            text = "".join(one["source"])
            found = re.findall(r"^(?:def (\w+)|(\w+)(?:: [\w.]+)? =)", text, re.MULTILINE)
            defined |= {f"name '{name}' is not defined" for pair in found for name in pair if name}
            if text.startswith("%%kernel") and "raises-exception" not in one["metadata"].get(
                "tags", []
            ):
                problems = [p for p in look(text, {}).problems if p.code != "K104"]
                told |= {(path.name, p.text) for p in problems if p.text not in defined}
    assert told == set()


@pytest.mark.parametrize("name", ["matmul", "softmax", "attention_forward", "norms", "sorting"])
def test_kernels_of_modules_are_told_nothing_wrong(name):
    text = (ROOT / "tests" / "kernels" / f"{name}.py").read_text()
    assert look(f"%%kernel\n{text}", {}, seconds=10).problems == []


# -- in IPython -------------------------------------------------------------------------------
def test_a_shell_completes_inspects_and_answers_once():
    pytest.importorskip("IPython")
    from IPython.core.completer import provisionalcompleter
    from IPython.core.interactiveshell import InteractiveShell

    targets, sent = {}, []
    kernel = SimpleNamespace(
        do_inspect=lambda code, at, level=0, omit=(): {"found": False, "data": {}, "status": "ok"},
        comm_manager=SimpleNamespace(register_target=targets.__setitem__),
    )
    InteractiveShell.clear_instance()
    try:
        shell = InteractiveShell.instance()
        shell.kernel = kernel
        shell.run_line_magic("load_ext", "workbench")
        shell.run_line_magic("reload_ext", "workbench")
        shell.user_ns.update(arrays())
        with provisionalcompleter():
            found = list(shell.Completer.completions("%%kernel --args x --targ", 24))
            plain = [c.text for c in shell.Completer.completions("json = 1; jso", 13)]
        assert [c.text for c in found] == ["--target"]
        assert "json" in plain or plain
        at = cell().index("offs < n") + 2
        reply = kernel.do_inspect(cell(), at)
        assert reply["found"]
        assert reply["data"] == {"text/plain": "offs: int32 of shape (4,)"}
        assert not kernel.do_inspect("offs", 2)["found"]

        handlers = []
        comm = SimpleNamespace(on_msg=handlers.append, send=sent.append)
        targets["workbench.typing"](comm, {})
        for text in (cell(BODY.replace("tl.load", "tl.lod")), "x = 1", 5):
            handlers[0]({"content": {"data": {"v": 1, "id": 3, "text": text}}})
    finally:
        InteractiveShell.clear_instance()
    answer, nothing, none = sent
    assert json.loads(json.dumps(answer)) == answer
    assert answer["look"]["problems"][0]["place"] == [4, 9, 4, 15]
    assert {"v": 1, "id": 3, "look": None} == nothing == none
    assert all(seen[4] < len(answer["look"]["texts"]) for seen in answer["look"]["seen"])
