"""What a kernel reaches by names and arguments is part of what it is: nothing stale is launched."""

from __future__ import annotations

import dataclasses
import enum
import functools
import subprocess
import sys
import types
from typing import Any

import numpy as np
import pytest
import torch

import workbench.language as tl
import workbench.triton as triton
from workbench.source import register_text
from workbench.source.captures import captures_of_value

KERNEL = "@triton.jit\ndef k(o):\n    tl.store(o, {})\n"
AGGREGATE = """
@tl.core._aggregate
class A:
    v: tl.tensor
    def __init__(self, v):
        self.v = v
    @triton.jit
    def g(self):
        return self.h()
    @triton.jit
    def h(self):
        return self.v + {}
"""
HELPER = "@triton.jit\ndef h(x, b: tl.constexpr = K):\n    return x + b\n"
COMPUTED = "@triton.constexpr_function\ndef h(x):\n    return x + {}\n"
MAKER = "def make(n):\n    @triton.{}\n    def h(x, y=n):\n        return x + y\n    return h\n"
METHOD = "class C:\n    @staticmethod\n    def b(): return {}\n"
DATA = "@dataclasses.dataclass\nclass C:\n    B: int = dataclasses.field(repr=False)\n"

#: What a first and a second cell define, and what a kernel of them stores: 1 and 2.
CHANGES: dict[str, tuple[str, str, str]] = {
    "member of a class": ("class C:\n    B = tl.constexpr(1)", "C.B = tl.constexpr(2)", "C.B"),
    "class": ("class C:\n    B = tl.constexpr(1)", "class C:\n    B = tl.constexpr(2)", "C.B"),
    "inherited": (
        "class P:\n    B = tl.constexpr(1)\nclass C(P):\n    pass", "P.B = tl.constexpr(2)", "C.B"
    ),
    "class in a module": (
        "m = types.ModuleType('m')\nclass C:\n    B = tl.constexpr(1)\nm.C = C",
        "m.C.B = tl.constexpr(2)", "m.C.B",
    ),
    "enumeration": (
        "class E(enum.IntEnum):\n    A = 1", "class E(enum.IntEnum):\n    A = 2", "E.A"
    ),
    "methods of methods": (AGGREGATE.format(1), AGGREGATE.format(2), "A(tl.program_id(0)).g()"),
    "attribute of an object": (
        "class C:\n    pass\nq = C(); q.B = 1\nc = tl.constexpr(q)", "q.B = 2", "c.B"
    ),
    "field of a data class": (f"{DATA}c = tl.constexpr(C(1))", "c = tl.constexpr(C(2))", "c.B"),
    "default": (f"K = 1\n{HELPER}", f"K = 2\n{HELPER}", "h(0)"),
    "default of one that is made": (MAKER.format("jit") + "h = make(1)", "h = make(2)", "h(0)"),
    "default of one that computes": (
        MAKER.format("constexpr_function") + "h = make(1)", "h = make(2)", "h(0)"
    ),
    "global of one that computes": ("G = 1\n" + COMPUTED.format("G"), "G = 2", "h(0)"),
    "item of a list": ("G = [1]\n" + COMPUTED.format("G[0]"), "G[0] = 2", "h(0)"),
    "element of an array": (
        "G = np.zeros(5000, int); G[2000] = 1\n" + COMPUTED.format("int(G[2000])"),
        "G[2000] = 2", "h(0)",
    ),
    "method": (METHOD.format(1) + COMPUTED.format("C.b()"), METHOD.format(2), "h(0)"),
    "wrapped function": (
        "@functools.lru_cache\ndef g(): return 1\n" + COMPUTED.format("g()"),
        "@functools.lru_cache\ndef g(): return 2", "h(0)",
    ),
    "function without text": (
        "g = eval('lambda: 1')\n" + COMPUTED.format("g()"), "g = eval('lambda: 2')", "h(0)"
    ),
}  # fmt: skip


class Cells:
    """A notebook's names."""

    count = 0

    def __init__(self) -> None:
        self.names: dict[str, Any] = {
            "triton": triton, "tl": tl, "np": np, "enum": enum, "types": types,
            "functools": functools, "dataclasses": dataclasses, "__name__": "__main__",
        }  # fmt: skip

    def run(self, text: str) -> None:
        Cells.count += 1
        file = f"<captured {Cells.count}>"
        register_text(file, text)
        exec(compile(text, file, "exec"), self.names)

    def launch(self, *more: Any) -> float:
        out = torch.zeros(1)
        self.names["k"][(1,)](out, *more)
        return out.item()


@pytest.mark.parametrize("again", [False, True], ids=["kept", "run again"])
@pytest.mark.parametrize("what", CHANGES)
def test_what_a_kernel_reaches_may_change(what: str, again: bool):
    first, second, stored = CHANGES[what]
    cells = Cells()
    cells.run(first)
    cells.run(KERNEL.format(stored))
    assert cells.launch() == 1
    cells.run(second)
    if again:
        cells.run(KERNEL.format(stored))
    assert cells.launch() == 2


def test_an_object_given_to_a_kernel_is_what_it_holds():
    cells = Cells()
    cells.run(
        "@triton.jit\ndef k(o, c: tl.constexpr):\n    tl.store(o, c.B)\nclass C:\n    B = 1\n"
    )
    held = cells.names["C"]
    one, two = held(), held()
    one.B, two.B = 3, 4
    assert [cells.launch(given) for given in (held, one, two, one)] == [1, 3, 4, 3]
    one.B, held.B = 5, 6
    assert [cells.launch(given) for given in (one, two, held)] == [5, 4, 6]


def test_what_holds_itself_is_described():
    cells = Cells()
    cells.run("class C:\n    pass\nq = C(); q.me = q; q.B = 1; q.more = [q]\nc = tl.constexpr(q)")
    cells.run(KERNEL.format("c.B"))
    assert cells.launch() == 1


def test_launches_of_kernels_with_plain_names_have_plain_guards():
    """Native launchers ask dicts alone."""
    cells = Cells()
    cells.run("K: tl.constexpr = 1\n" + HELPER)
    cells.run(KERNEL.format("h(0) + K"))
    assert all(type(space) is dict for space, _, _ in cells.names["k"].captures.guards)


def decorated(add: int) -> str:
    """A helper under a decorator of the user's, whose own text is not what can be read."""
    return (
        "def plus(f):\n    @functools.wraps(f)\n    def made(x):\n"
        f"        return f(x) + {add}\n    return made\n@plus\ndef g(x): return x\n"
    )


def test_what_wraps_a_function_counts():
    cells = Cells()
    cells.run(decorated(1) + COMPUTED.format("g(0)"))
    cells.run(KERNEL.format("h(0)"))
    assert cells.launch() == 1
    cells.run(decorated(2))
    assert cells.launch() == 2


def test_code_of_another_assembler_is_made_again(tmp_path, monkeypatch):
    from workbench import compiler
    from workbench.runtime import compiling
    from workbench.targets.nvidia import pipeline

    monkeypatch.setenv("WORKBENCH_CACHE_DIR", str(tmp_path / "cache"))
    tool, compiled = tmp_path / "ptxas", []
    tool.write_text("one")
    stamp = [(str(tool), tool.stat().st_size, tool.stat().st_mtime_ns)]
    monkeypatch.setattr(pipeline, "assembler", lambda: stamp)
    compile_kernel = compiler.compile_kernel
    monkeypatch.setattr(
        compiler, "compile_kernel", lambda *a: compiled.append(1) or compile_kernel(*a)
    )
    cells = Cells()
    cells.run(KERNEL.format("1"))
    for text, times in (("one", 1), ("one", 1), ("another", 2)):
        if text != tool.read_text():
            tool.write_text(text)
        compiling.forget()
        assert compiling.compile(cells.names["k"], "*f32").code
        assert len(compiled) == times


def test_what_holds_much_is_looked_at_once():
    """Guards of lists in lists asked for all that is in them, each: twice as long a level."""
    nested: list[Any] = [1]
    for _ in range(40):
        nested = [nested]
    found = captures_of_value(nested)
    assert found.unchanged()
    assert len(found.guards) < 100
    inner = nested
    while isinstance(inner[0], list):
        inner = inner[0]
    inner[0] = 1
    assert found.unchanged()
    inner[0] = 2
    assert not found.unchanged()


@pytest.mark.parametrize(
    ("held", "change"),
    [({"a": 1}, lambda d: d.update(b=2)), ({"a": 1}, lambda d: d.update(a=2)),
     ({1, 2}, lambda s: s.add(3)), ([1, 2], list.clear)],
)  # fmt: skip
def test_a_container_that_was_changed_is_another(held: Any, change: Any):
    found = captures_of_value([held])
    assert found.unchanged()
    change(held)
    assert not found.unchanged()


def test_objects_that_answer_as_they_like_are_described():
    class Asked:
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError(name)

    class Plain:
        pass

    assert captures_of_value([Asked()]).unchanged()
    assert captures_of_value({Plain(), Plain()}).unchanged()


def test_threads_may_use_the_package_first():
    code = """
import threading, workbench as wb
start, errors = threading.Barrier(4), []
def use(name):
    start.wait()
    try:
        getattr(wb, name)
    except Exception as error:
        errors.append(error)
threads = [threading.Thread(target=use, args=(n,)) for n in ("compile", "jit", "tl", "compile")]
[t.start() for t in threads]; [t.join() for t in threads]
assert not errors, errors
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
