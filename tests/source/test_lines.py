"""Where a function's text begins and ends."""

from __future__ import annotations

import inspect
import textwrap

import pytest

from tests.kernels import convolution, generated, losses, matmul, norms, sorting
from workbench.source import Source, kernel_source, register_text, source_lines
from workbench.source.kernels import _block_by_indentation

MODULES = (convolution, generated, losses, matmul, norms, sorting, textwrap, inspect)


def without_end(lines: list[str]) -> list[str]:
    """Return lines without the comments and empty lines after the last statement."""
    kept = list(lines)
    while kept and (not kept[-1].strip() or kept[-1].lstrip().startswith("#")):
        kept.pop()
    return kept


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_functions_end_where_the_tokenizer_says(module):
    functions = [f for f in vars(module).values() if inspect.isfunction(f)]
    assert len(functions) > 1
    for function in functions:
        lines, first = inspect.getsourcelines(function)
        found, start = source_lines(function)
        assert (without_end(found), start) == (without_end(lines), first), function


CASES = {
    "a closing bracket at the margin": "def f(\n    x,\n):  # fmt: skip\n    return x\n",
    "decorators, comments, empty lines": "@same\n# why\n@same\ndef f(x):\n\n# out\n    return x\n",
    "one line": "def f(x): return x\n",
    "text at the margin": 'def f(x):\n    """First.\nsecond\n"""\n    return x\n',
    "a continued line": "def f(x):\n    y = x + \\\n0\n    return y\n",
    "a nested function": "def f(x):\n    def g(y):\n        return y\n    return g(x)\n",
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("after", ["", "y = 1\n", "\n\ndef h(x):\n    pass\n", "# end\n(1)\n"])
def test_nothing_is_lost_and_nothing_added(case, after):
    file = f"<{case}{len(after)}>"
    register_text(file, CASES[case] + after)
    space = {"same": lambda function: function}
    exec(compile(CASES[case] + after, file, "exec"), space)
    lines, first = source_lines(space["f"])
    assert ("".join(lines), first) == (CASES[case], 1)
    assert kernel_source(space["f"]).tree.name == "f"


@pytest.mark.parametrize("odd", ["\f", "\v", "\x1c", "\x85", "\u2028"])
def test_lines_are_those_that_python_counts(odd):
    text = f"\n{odd if odd == chr(12) else ''}\ndef f(x):\r\n    y = 1  # {odd} é\n    return y\n"
    file = f"<odd {odd!r}>"
    register_text(file, text)
    space = {}
    exec(compile(text, file, "exec"), space)
    found = kernel_source(space["f"])
    assert (found.first_line, found.tree.body[1].lineno) == (3, 3)
    assert Source(file, found.text, 3).line(5) == "    return y"


def test_indentation_alone_does_not_cut_a_string():
    lines = CASES["text at the margin"].splitlines(keepends=True)
    assert _block_by_indentation(lines) is None
