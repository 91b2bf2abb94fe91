"""The table of names: what it promises is there, and nothing is there that it does not know."""

import subprocess
import sys

import pytest

import workbench.language as tl
from tests.language.harness import error_of
from workbench.language.table import BUILTINS, NAMES
from workbench.language.values import tensor


@pytest.mark.parametrize("name", [n for n, row in NAMES.items() if row.tier <= 1])
def test_names_of_the_first_tiers_are_there(name):
    assert hasattr(tl, name)


@pytest.mark.parametrize("name", [n for n, row in NAMES.items() if row.tier == 3])
def test_names_of_the_last_tier_are_absent_and_say_so(name):
    assert not hasattr(tl, name)
    error = error_of(f"def k(x):\n    tl.{name}\n", x=None)
    assert error.message == f"tl.{name} is not supported yet"


def test_every_public_name_is_in_the_table():
    assert set(tl.__all__) <= set(NAMES)
    assert all(hasattr(tl, name) for name in tl.__all__)


@pytest.mark.parametrize("name", [n for n, row in NAMES.items() if row.method and n in BUILTINS])
def test_methods_are_the_functions(name):
    assert getattr(tensor, name) is BUILTINS[name]


@pytest.mark.parametrize("name", sorted(BUILTINS))
def test_every_function_says_what_it_does(name):
    assert BUILTINS[name].__doc__


def test_a_tl_function_outside_a_kernel_is_an_error():
    with pytest.raises(Exception, match="called outside a kernel"):
        tl.arange(0, 4)


def test_names_are_usable_on_the_host():
    assert tl.cdiv(7, 3) == 3
    assert (tl.constexpr(4) * 2 + 1).value == 9
    assert tl.float16.primitive_bitwidth == 16
    assert tl.dtype("fp32") == tl.float32
    assert repr(tl.float32) == "triton.language.fp32"
    assert tl.pointer_type(tl.float16).element_ty == tl.float16


def test_the_language_loads_no_host_package():
    code = (
        "import sys, workbench.language, workbench.frontend; "
        "print({'torch', 'IPython', 'llvmlite', 'cuda'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
