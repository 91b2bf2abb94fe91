"""What a kernel reaches by names and arguments is part of what it is: nothing stale is launched."""

from __future__ import annotations

import dataclasses
import enum
import functools
import os
import subprocess
import sys
import types
from typing import Any

import numpy as np
import pytest
import torch

import workbench.language as tl
import workbench.triton as triton
from workbench.launch.fastpath import NATIVE_AFTER
from workbench.source import register_text
from workbench.source.captures import captures_of_value, describe_value
from workbench.source.watched import in_parts, same_bytes

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

SETTINGS = "class C:\n    def __init__(self, n): self.n = n\n"

#: The same of what compile-time functions read.
READ: dict[str, tuple[str, str, str]] = {
    "environment": (
        "import os\nos.environ['WORKBENCH_N'] = '1'", "os.environ['WORKBENCH_N'] = '2'",
        "int(os.environ['WORKBENCH_N'])",
    ),
    "environment by a function": (
        "import os\nos.environ['WORKBENCH_N'] = '1'", "os.environ['WORKBENCH_N'] = '2'",
        "int(os.getenv('WORKBENCH_N'))",
    ),
    "environment under a name": (
        "from os import environ\nenviron['WORKBENCH_N'] = '1'", "environ['WORKBENCH_N'] = '2'",
        "int(environ.get('WORKBENCH_N', 3))",
    ),
    "environment that is not there": (
        "import os\nos.environ.pop('WORKBENCH_N', 0)", "os.environ['WORKBENCH_N'] = '2'",
        "int(os.getenv('WORKBENCH_N', '1'))",
    ),
    "environment by names that begin so": (
        "import os\nos.environ['WORKBENCH_N'] = '1'", "os.environ['WORKBENCH_N'] = '2'",
        "int(os.getenv('WORKBENCH_' + chr(78)))",
    ),
    "environment by names that begin so, not there": (
        "import os\nos.environ.pop('WORKBENCH_N', 0)", "os.environ['WORKBENCH_N'] = '2'",
        "int(os.getenv('WORKBENCH_' + chr(78), '1'))",
    ),
    "environment that grows": (
        "import os\nos.environ.pop('WORKBENCH_N', 0)", "os.environ['WORKBENCH_N'] = '2'",
        "1 + any('BENCH_N' in k for k in os.environ)",
    ),
    "bytes that grow": ("B = bytearray(b'a')", "B.append(1)", "len(B)"),
    "environment by a name that is held": (
        "import os\nV = 'WORKBENCH.N'\nclass C:\n    name = V\nos.environ[V] = '1'",
        "os.environ[V] = '2'", "int(os.environ[C.name])",
    ),
    "environment in bytes": (
        "import os\nos.environ['WORKBENCH_N'] = '1'", "os.environ['WORKBENCH_N'] = '2'",
        "int(os.environb[b'WORKBENCH_N'])",
    ),
    "environment by names that are made": (
        "import os\nos.environ['WORKBENCH_N'] = '1'", "os.environ['WORKBENCH_N'] = '2'",
        "int(os.environ['workbench_n'.upper()])",
    ),
    "environment that is gone through": (
        "import os\nos.environ['WORKBENCH_N'] = '1'", "os.environ['WORKBENCH_N'] = '2'",
        "sum(int(v) for k, v in os.environ.items() if 'BENCH_N' in k)",
    ),
    "environment asked of its module": (
        "import os\nasks = getattr\nos.environ['WORKBENCH_N'] = '1'",
        "os.environ['WORKBENCH_N'] = '2'", "int(asks(os, 'environ')['WORKBENCH_N'])",
    ),
    "getattr under another name": (
        "asks = getattr\nclass C: pass\nq = C(); q.N = 1", "q.N = 2", "asks(q, chr(78))"
    ),
    "behind __getattr__ of an installed class": (
        "q = installed({'B': 1})", "q.__dict__['_held']['B'] = 2", "q.B"
    ),
    "behind __getitem__ of an installed class": (
        "q = installed({'B': 1})", "q.__dict__['_held'] = {'B': 2}", "q['B']"
    ),
    "class method": (
        "class C:\n    K = 1\n    @classmethod\n    def b(cls): return cls.K", "C.K = 2", "C.b()"
    ),
    "inherited member, overridden": ("class P:\n    K = 1\nclass C(P): pass", "C.K = 2", "C.K"),
    "inherited by an object": (
        "class P:\n    K = 1\nclass C(P): pass\nq = C()", "q.K = 2", "q.K"
    ),
    "cached property": (
        f"{SETTINGS}    @functools.cached_property\n    def b(self): return self.n\nq = C(1)",
        "q = C(2)", "q.b",
    ),
    "computed property": (
        f"{SETTINGS}    @property\n    def b(self): return self.n\nq = C(1)", "q.n = 2", "q.b"
    ),
    "slots": (
        "class C:\n    __slots__ = ('n',)\nq = C(); q.n = 1", "q.n = 2", "q.n"
    ),
    "slots, in a function": (
        "class C:\n    __slots__ = ('n',)\nq = C(); q.n = 1\ndef f(c): return c.n",
        "q.n = 2", "f(q)",
    ),
    "namespace": ("q = types.SimpleNamespace(n=1)", "q.n = 2", "q.n"),
    "arguments": ("import argparse\nq = argparse.Namespace(n=1)", "q.n = 2", "q.n"),
    "a text of its own": (
        f"{SETTINGS}    def __repr__(self): return 'C'\nq = C(1)", "q.n = 2", "q.n"
    ),
    "the middle of a tensor": (
        "t = torch.ones(3000, dtype=torch.int32)", "t[1500] = 2", "int(t[1500])"
    ),
    "the middle of a tensor of few bits": (
        "t = torch.ones(64, 64, dtype=torch.bfloat16).T", "t[20, 30] = 2", "int(t[20, 30])"
    ),
    "metaclass": (
        "class M(type):\n    @property\n    def b(cls): return cls.K\n"
        "class C(metaclass=M): K = 1", "C.K = 2", "C.b",
    ),
    "member of a metaclass": (
        "class M(type): K = 1\nclass C(metaclass=M): pass", "M.K = 2", "C.K"
    ),
    "attribute of a function": ("def f(): pass\nf.K = 1", "f.K = 2", "f.K"),
    "attribute of a function, within": (
        "def f(): return f.K\nf.K = 1", "f.K = 2", "f()"
    ),
    "attribute of a function, given": (
        "def f(): pass\nf.K = 1\ndef g(f): return f.K", "f.K = 2", "g(f)"
    ),
    "defaults": ("def g(n=1): return n", "g.__defaults__ = (2,)", "g()"),
    "a name over a built-in": ("", "def max(*n): return 2", "max(1, 0)"),
    "an attribute that there was not": (
        "class C: pass\nq = C()", "q.n = 2", "2 if hasattr(q, 'n') else 1"
    ),
    "an attribute with a default": ("class C: pass\nq = C()", "q.n = 2", "getattr(q, 'n', 1)"),
    "an attribute by a computed name": (
        f"{SETTINGS}q = C(1)\nw = ['n']", "q.n = 2", "getattr(q, w[0])"
    ),
    "all attributes": (f"{SETTINGS}q = C(1)", "q.n = 2", "vars(q)['n']"),
    "all fields": (
        "@dataclasses.dataclass\nclass C:\n    n: int\nq = C(1)", "q.n = 2",
        "dataclasses.asdict(q)['n']",
    ),
    "a getter of attributes": (
        f"{SETTINGS}q = C(1)\nimport operator\nget = operator.attrgetter('n')", "q.n = 2",
        "get(q)",
    ),
    "lookup of an object's own": (
        "class C:\n    def __getattr__(self, name): return K\nK = 1\nq = C()", "K = 2", "q.n"
    ),
    "special method": (
        "class C:\n    def __len__(self): return K\nK = 1\nq = C()", "K = 2", "len(q)"
    ),
    "captured variable": (
        "def make():\n    n = 1\n    def put(v):\n        nonlocal n\n        n = v\n"
        "    def f(): return n\n    return put, f\nput, f = make()", "put(2)", "f()",
    ),
    "partial": ("def g(n): return n[0]\nh = [1]\nf = functools.partial(g, h)", "h[0] = 2", "f()"),
    "method of an object": (
        f"{SETTINGS}    def b(self): return self.n\nq = C(1)\nf = q.b", "q.n = 2", "f()"
    ),
    "item of a user's dict": (
        "class D(dict): pass\nq = D(n=1)", "q['n'] = 2", "q['n']"
    ),
    "queue": ("import collections\nq = collections.deque([1])", "q[0] = 2", "q[0]"),
    "number with attributes": (
        "class I(int): pass\nq = I(5); q.n = 1", "q.n = 2", "q.n"
    ),
    "array of objects": (
        "h = [1]\nG = np.empty(1, object)\nG[0] = h", "h[0] = 2", "G[0][0]"
    ),
    "an object in an array": (
        "G = np.empty(1, object)\nG[0] = [1]", "G[0] = [2]", "G[0][0]"
    ),
    "bytes": ("b = bytearray([1])", "b[0] = 2", "b[0]"),
    "an alias of a module": (
        "m = types.ModuleType('m'); m.K = 1\nw = types.ModuleType('w'); w.K = 2", "m = w", "m.K"
    ),
    "a member of an enumeration": (
        "class E(enum.Enum):\n    A = 1\n    def __init__(self, n): self.n = n",
        "E.A.n = 2", "E.A.n",
    ),
    "all of an enumeration": (
        "class E(enum.Enum):\n    A = 1\n    def __init__(self, n): self.n = n",
        "E.A.n = 2", "[e.n for e in E][0]",
    ),
    "single dispatch": (
        f"{SETTINGS}    @functools.singledispatchmethod\n"
        "    def b(self, x): return self.n\nq = C(1)",
        "q.n = 2", "q.b(0)",
    ),
    "another kind of equal number": ("G = [1]", "G[0] = 1.0", "2 if type(G[0]) is float else 1"),
    "none": ("n = None\nq = [1]", "n = 1", "1 if n is None else 2"),
    "an attribute over a method": (
        "class C:\n    def b(self): return 0\nq = C(); q.b = lambda: 1", "q.b = lambda: 2", "q.b()"
    ),
    "an attribute over a method, later": (
        "class C:\n    def b(self): return 1\nq = C()", "q.b = lambda: 2", "q.b()"
    ),
    "an attribute over a default": (
        "@dataclasses.dataclass\nclass C:\n    b: object = lambda x: x\nq = C(lambda x: x + 1)",
        "q.b = lambda x: x + 2", "q.b(0)",
    ),
    "a method behind": (
        "class P:\n    def b(self): return 1\nclass C(P):\n"
        "    def b(self): return super().b()\nq = C()", "P.b = lambda self: 2", "q.b()",
    ),
    "a member behind": (
        "class P: n = 1\nclass C(P):\n    n = 0\n    def b(self): return super().n\nq = C()",
        "P.n = 2", "q.b()",
    ),
    "a class method behind": (
        "class P:\n    @classmethod\n    def b(cls): return 1\nclass C(P):\n"
        "    @classmethod\n    def b(cls): return super().b()",
        "P.b = classmethod(lambda cls: 2)", "C.b()",
    ),
    "a special method behind": (
        "class P(dict):\n    def __getitem__(self, k): return 1\nclass C(P):\n"
        "    def __getitem__(self, k): return super().__getitem__(k)\nq = C()",
        "P.__getitem__ = lambda self, k: 2", "q['n']",
    ),
    "the shape of an array": ("d = np.zeros((1, 2))", "d.shape = 2, 1", "d.shape[0]"),
    "the shape of an array of objects": (
        "d = np.full((1, 2), None)", "d.shape = 2, 1", "d.shape[0]"
    ),
    "the shape of an array that is not written to": (
        "d = np.zeros((1, 2)); d.flags.writeable = False", "d.shape = 2, 1", "d.shape[0]"
    ),
    "the kind of an array's elements": (
        "d = np.zeros(1, np.int32)", "d.dtype = np.float32", "1 if d.dtype.kind == 'i' else 2"
    ),
    "the shape of a tensor": ("d = torch.zeros(1, 2)", "d.resize_(2, 1)", "d.shape[0]"),
    "the strides of a tensor": ("d = torch.zeros(2, 2).t()", "d.t_()", "d.stride(0)"),
    "an array of dates": (
        "d = np.array(['1970-01-02'], 'M8[D]')", "d[0] = '1970-01-03'", "int(d.astype(int)[0])"
    ),
    "the sign of a zero": (
        "import math\nG = [0.0]", "G[0] = -0.0", "1 if math.copysign(1, G[0]) > 0 else 2"
    ),
}  # fmt: skip


_INSTALLED = """
class Config:
    def __init__(self, held): self.__dict__["_held"] = held
    def __getattr__(self, name): return self.__dict__["_held"][name]
    def __getitem__(self, name): return self.__dict__["_held"][name]
"""


def installed(held: dict[str, Any]) -> Any:
    """Return an object of a class that an installed package has."""
    module = types.ModuleType("an_installed_package")
    module.__file__ = "/lib/site-packages/an_installed_package.py"
    sys.modules[module.__name__] = module
    exec(_INSTALLED, vars(module))
    return vars(module)["Config"](held)


class Cells:
    """A notebook's names."""

    count = 0

    def __init__(self) -> None:
        self.names: dict[str, Any] = {
            "triton": triton, "tl": tl, "np": np, "enum": enum, "types": types,
            "functools": functools, "torch": torch,
            "dataclasses": dataclasses, "installed": installed, "__name__": "__main__",
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


TAKING = """
call = triton.constexpr_function(lambda f: f())

@triton.jit
def k(out, f: tl.constexpr):
    tl.store(out, float(call(f)))
"""


@pytest.mark.parametrize("make", [
    "q = [1]\nf = functools.partial(lambda q: q[0], q)",
    "class G:\n    def n(self):\n        return q[0]\nq = [1]\nf = G().n",
], ids=["partial", "method"])  # fmt: skip
def test_what_a_call_that_is_given_reaches_may_change(make: str):
    cells = Cells()
    cells.run(make)
    cells.run(TAKING)
    assert cells.launch(cells.names["f"]) == 1
    cells.names["q"][0] = 2
    assert cells.launch(cells.names["f"]) == 2


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


@pytest.mark.parametrize("what", READ)
def test_what_a_compile_time_function_reads_may_change(what: str):
    first, second, read = READ[what]
    cells = Cells()
    cells.run(f"{first}\n@triton.constexpr_function\ndef reads():\n    return {read}\n")
    cells.run(KERNEL.format("reads()"))
    assert cells.launch() == 1
    assert cells.names["k"].captures.unchanged() or "cached" in what
    cells.run(second)
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


NATIVE = {
    "data class": (f"{DATA}c = tl.constexpr(C(1))", "c = tl.constexpr(C(2))", "c.B"),
    "member of a class": ("class C:\n    B = tl.constexpr(1)", "C.B = tl.constexpr(2)", "C.B"),
    "list": ("G = [1]\n" + COMPUTED.format("G[0]"), "G[0] = 2", "h(0)"),
    "a name over a built-in": (COMPUTED.format("max(1, 0)"), "def max(*n): return 2", "h(0)"),
    "none": ("n = None\n" + COMPUTED.format("1 if n is None else 2"), "n = 3", "h(0)"),
    "none over a built-in": (
        "max = None\n" + COMPUTED.format("1 if max is None else 2"), "del max", "h(0)"
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", NATIVE)
def test_launchers_of_native_code_ask_as_well(what: str):
    first, second, stored = NATIVE[what]
    cells = Cells()
    cells.run(first)
    cells.run(KERNEL.format(stored))
    assert {cells.launch() for _ in range(NATIVE_AFTER + 8)} == {1}
    assert type(cells.names["k"]._launch).__name__ == "builtin_function_or_method"
    cells.run(second)
    assert cells.launch() == 2


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


def test_linked_objects_may_be_many():
    class Link:
        def __init__(self, n: int, link: Any) -> None:
            self.n, self.link = n, link

    first = link = Link(0, None)
    for n in range(1, 3000):
        link = Link(n, link)
    nested: Any = ()
    for _ in range(3000):
        nested = (nested,)
    for value in (link, nested):
        found = captures_of_value(value)
        assert found.unchanged()
        assert describe_value(value) == describe_value(value)
    found = captures_of_value(link)
    first.n = 5
    assert not found.unchanged()


def test_what_holds_itself_twice_a_level_is_looked_at_once():
    value: Any = (object(),)
    for _ in range(60):
        value = (value, value)
    assert len(captures_of_value(value).values) < 200


def test_attributes_that_nobody_mentions_do_not_count():
    cells = Cells()
    cells.run(
        f"{SETTINGS}q = C(1)\ndef f(c): return c.n\n"
        "@triton.constexpr_function\ndef reads(): return f(q) + q.n\n"
    )
    cells.run(KERNEL.format("reads()"))
    cells.launch()
    found, held = cells.names["k"].captures, cells.names["q"]
    for n in range(1000):
        setattr(held, f"other{n}", n)
    assert found.unchanged()
    assert cells.names["k"].captures is found
    held.n = 2
    assert not found.unchanged()


def test_what_is_read_by_name_is_told():
    cells = Cells()
    cells.run("K: tl.constexpr = 1\nclass C:\n    B = 1\nq = C()\nG = [1]\n")
    cells.run("@triton.constexpr_function\ndef reads(): return K + q.B + G[0]\n")
    told = cells.names["reads"].used_global_vals
    assert {name for name, _ in told} == {"K", "q", "G"}
    assert all(value is cells.names[name] for (name, _), (value, _) in told.items())
    assert all(space is cells.names for _, space in told.values())


ODD = """
import functools, threading, weakref, argparse, logging
class C:
    def __init__(self): self.n, self.held = 1, {1, 2}
    @functools.cached_property
    def b(self): return 1
    @functools.singledispatchmethod
    def d(self, x): return 1
    @d.register
    def _(self, x: str): return 2
    @functools.lru_cache
    def l(self): return 1
q = C()
q.lock, q.again, q.ref = threading.Lock(), threading.RLock(), weakref.ref(C)
q.log = logging.getLogger()
q.sets = frozenset(["a", "b", "c", "d", ("e", 1), None]), {"x", "y", "z"}
q.function = eval("lambda x: x in {'a', 'b', 'c', 'd'}")
q.objects = [object(), C]
@triton.constexpr_function
def reads(x):
    q.b, q.d(x), q.d("x"), q.l(), q.sets, q.lock, q.again, q.ref, q.log, q.function, q.objects
    return 1 if x in {"a", "b", "c", "d"} else 2
"""


def test_keys_are_the_same_in_another_process(tmp_path):
    code = (
        "import sys, workbench.triton as triton\nfrom workbench.source import register_text\n"
        "text = sys.stdin.read()\nregister_text('<odd>', text)\n"
        "names = {'triton': triton, '__name__': '__main__'}\n"
        "exec(compile(text, '<odd>', 'exec'), names)\n"
        "import workbench.language as tl\n"
        "from workbench.source.captures import describe_value\n"
        "print(names['reads'].cache_key, describe_value(names['q']))\n"
        "pointer = tl.pointer_type(tl.float16)\n"
        "for one in tl.bfloat16, tl.int1, tl.void, pointer, tl.block_type(pointer, (4, 2)):\n"
        "    print(hash(one) is None, describe_value(one), describe_value((one, 1)))"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", code], input=ODD, capture_output=True, check=True, text=True,
            timeout=60, env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(said) == 1


def test_a_buffer_that_grew_holds_other_bytes(monkeypatch):
    monkeypatch.setattr("workbench.source.watched._PART", 2)  # of whole parts, too
    before = in_parts(memoryview(b"ab"))
    assert same_bytes(memoryview(b"ab"), before)
    assert not same_bytes(memoryview(b"abc"), before)
    assert not same_bytes(memoryview(b"a"), before)
