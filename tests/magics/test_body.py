"""Running a cell's body: names, line numbers, triton imports, device functions."""

from __future__ import annotations

import ast
import inspect

import pytest

from workbench.magics.body import bound_names, device_functions, execute, last_entry
from workbench.source import UnknownNameError


def run(body, namespace=None, file="In[90]"):
    namespace = {} if namespace is None else namespace
    return execute(f"%%kernel\n{body}", body, 2, file, namespace), namespace


def test_lines_are_those_of_the_cell():
    _, namespace = run("def f():\n    return 1\n")
    assert namespace["f"].__code__.co_firstlineno == 2
    assert inspect.getsource(namespace["f"]) == "def f():\n    return 1\n"


def test_a_kernel_may_use_the_language_only_to_say_what_is_fixed():
    """It calls helpers, and does nothing itself."""
    text = (
        "def host(): pass\ndef k(x, N: tl.constexpr): part(x, N)\ndef part(x, N): tl.store(x, N)\n"
    )
    tree = ast.parse(text)
    assert device_functions(tree) == ["k", "part"]
    assert last_entry(tree) == "k"


def test_bound_names_come_in_order_of_their_last_binding():
    tree = ast.parse(
        "a = 1\nimport os.path\ndef f(): x = 2\nfor i in []: b = 3\na += 1\n[c for c in []]\n"
    )
    assert list(bound_names(tree)) == ["os", "f", "i", "b", "a"]


def test_earlier_meanings_can_be_restored():
    namespace = {"f": "old"}
    body, namespace = run("def f(): ...\ng = 1\n", namespace)
    body.restore(namespace, ["f", "g"])
    assert namespace["f"] == "old"
    assert "g" not in namespace


def test_functions_that_use_the_language_and_their_helpers_are_device_functions():
    tree = ast.parse(
        "def helper(x): return x\n"
        "def host(n): return n\n"
        "def first(p): tl.store(p, helper(1))\n"
        "def second(p): tl.store(p, 1)\n"
        "def after(): host(2)\n"
    )
    assert device_functions(tree) == ["helper", "first", "second"]
    assert last_entry(tree) == "second"
    assert last_entry(tree, ["helper", "first"]) == "first"


def test_a_helper_below_the_kernel_that_calls_it_is_not_the_entry():
    """As in Triton's tutorial of the matrix product."""
    tree = ast.parse(
        "def matmul(c): tl.store(c, leaky(tl.load(c)))\n"
        "def leaky(x): return tl.where(x > 0, x, 0)\n"
    )
    assert last_entry(tree) == "matmul"
    both = ast.parse("def a(x): return b(tl.abs(x))\ndef b(x): return a(tl.abs(x))\n")
    assert last_entry(both) == "b"


@pytest.mark.parametrize(
    "statement",
    [
        "import triton\nimport triton.language as tl",
        "import triton, triton.language\ntl = triton.language",
        "from triton import language as tl\nimport triton",
        "def f():\n    import triton, triton.language as t\n    return triton, t\ntriton, tl = f()",
    ],
)
def test_triton_imports_bind_our_modules(statement):
    import workbench.triton
    import workbench.triton.language

    body, namespace = run(statement)
    assert body.imports_triton
    assert namespace["triton"] is workbench.triton
    assert namespace["tl"] is workbench.triton.language


def test_unknown_triton_names_are_listed_all_at_once():
    with pytest.raises(UnknownNameError) as caught:
        run("import triton\nfrom triton import nothing, jit\nimport triton.nowhere as w\n")
    errors = (caught.value, *caught.value.others)
    assert [str(error.span) for error in errors] == ["In[90]:3:20", "In[90]:4:8"]
    assert "'triton.nothing' has no counterpart here" in str(errors[0])
    assert "^^^^^^^" in str(errors[0])


def test_guarded_triton_imports_raise_importerror_for_the_cell_to_handle():
    _, namespace = run(
        "try:\n    from triton.language.nowhere import tanh\nexcept ImportError:\n    tanh = None\n"
    )
    assert namespace["tanh"] is None
