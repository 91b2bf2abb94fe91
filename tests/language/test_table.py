"""The table of names: every row of its tiers 0 to 2 computes what its case says."""

import inspect
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import workbench.language as tl
from tests.language.harness import from_text, run
from tests.language.table_cases import CASES, N
from workbench.language import reference
from workbench.language.table import BUILTINS, NAMES
from workbench.language.values import tensor

RANDOM = np.random.default_rng(13)
A = RANDOM.uniform(0.25, 2.0, N).astype(np.float32)
B = RANDOM.uniform(0.25, 2.0, N).astype(np.float32)
M = RANDOM.permutation(N).astype(np.int32)
#: Rows that are methods alone.
METHODS_ALONE = {"item"}


def _source(case, shape, size):
    if case.shape is not None:
        body = case.text
    elif shape:
        body = (
            f"r = {case.text}\n"
            f"tl.static_assert(r.shape == {shape})\n"
            f"tl.store(out + tl.reshape(tl.arange(0, {size}), {shape}), r)"
        )
    else:
        body = f"tl.store(out, {case.text})"
    lines = ["    " + line for line in body.splitlines()]
    return (
        "def smaller(p, q):\n    return tl.minimum(p, q)\n\n"
        "def kernel(out, x, y, k, s, constant: tl.const):\n"
        "    i = tl.arange(0, 16)\n"
        "    a, b, m = tl.load(x + i), tl.load(y + i), tl.load(k + i)\n" + "\n".join(lines) + "\n"
    )


@pytest.mark.parametrize("name", sorted(CASES))
def test_a_row_computes_what_its_case_says(name):
    case = CASES[name]
    want = np.asarray(case.want(A, B, M))
    shape = want.shape if case.shape is None else case.shape
    size = max(1, int(np.prod(shape)))
    out = np.zeros(max(size, 2 * N), case.dtype)
    kernel = from_text(_source(case, shape, size))
    run(kernel, out=out, x=A, y=B, k=M, s=3, constant=A.copy())
    got, want = out[:size], want.astype(np.float64).reshape(-1) if want.dtype != object else want
    if case.bound == 0 or np.dtype(case.dtype).kind in "iub":
        assert np.array_equal(got, want.astype(case.dtype).reshape(-1)), (got, want)
    else:
        bound = max(case.bound, float(np.finfo(case.dtype).eps))
        assert np.allclose(got, want, rtol=bound, atol=bound, equal_nan=True), (got, want)


@pytest.mark.parametrize("name", [n for n, row in NAMES.items() if row.tier <= 2])
def test_every_row_has_a_case_and_is_there(name):
    assert name in CASES
    assert hasattr(tl, name) == (name not in METHODS_ALONE)


@pytest.mark.parametrize(
    "name", [n for n in CASES if n in BUILTINS and len(inspect.signature(BUILTINS[n]).parameters)]
)
def test_every_argument_of_a_function_has_a_name_triton_knows(name):
    row = BUILTINS[name].__signature_row__
    assert all(word.isidentifier() and not word.startswith("_") for word in row.parameters)
    assert row.text().startswith(name + "(")


@pytest.mark.parametrize("name", [n for n, row in NAMES.items() if row.tier == 3])
def test_names_of_the_last_tier_are_here(name):
    """What they do is in test_last_tier.py."""
    assert hasattr(tl, name)


def test_every_public_name_is_in_the_table():
    assert set(tl.__all__) <= set(NAMES)
    assert all(hasattr(tl, name) for name in tl.__all__)


@pytest.mark.parametrize("name", [n for n, row in NAMES.items() if row.method])
def test_methods_are_the_functions(name):
    assert getattr(tensor, name) is BUILTINS[name]


@pytest.mark.parametrize("name", sorted(BUILTINS))
def test_every_function_says_what_it_does(name):
    assert BUILTINS[name].__doc__


def test_the_page_of_names_is_what_the_table_says():
    assert reference.PAGE.read_text() == reference.page(), (
        "run python -m workbench.language.reference"
    )


@pytest.mark.parametrize("rule", range(1, 31))
def test_every_rule_has_a_test(rule):
    texts = [p.read_text() for p in Path(__file__).parent.rglob("test_*.py")]
    assert any(f"def test_{rule:02d}_" in text or f"_{rule:02d}_" in text for text in texts)


def test_a_tl_function_outside_a_kernel_is_an_error():
    with pytest.raises(Exception, match="called outside a kernel"):
        tl.arange(0, 4)


def test_names_are_usable_on_the_host():
    assert tl.cdiv(7, 3) == 3
    assert (tl.constexpr(4) * 2 + 1).value == 9
    assert tl.float16.primitive_bitwidth == 16
    assert tl.dtype("fp32") == tl.float32
    assert repr(tl.float32) == "triton.language.float32"
    assert tl.pointer_type(tl.float16).element_ty == tl.float16


def test_the_language_loads_no_host_package():
    code = (
        "import sys, workbench.language, workbench.frontend; "
        "print({'torch', 'IPython', 'llvmlite', 'cuda'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
