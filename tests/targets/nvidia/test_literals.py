"""What the emitter computes of literals is what the ops mean, in every integer type."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tests.passes.pipelines import SM_80
from workbench.ir import I8, I16, I32, I64, U8, U16, U32, U64, Scalar
from workbench.ops.functions import FUNCTIONS
from workbench.ops.numbers import round_to
from workbench.targets.llvm.emit import Emitter, is_integer, wrap
from workbench.targets.simt.arithmetic import compare_integers, integer_function

FOLDED = ("add", "sub", "mul", "and", "or", "xor", "div", "rem")
COMPARED = ("lt", "le", "gt", "ge", "eq", "ne")


@pytest.mark.parametrize("element", [I8, I16, I32, I64, U8, U16, U32, U64], ids=str)
def test_functions_of_two_literals(element: Scalar):
    edge = 1 << element.bits - 1
    numbers = (0, 1, 2, 3, 7, edge - 1, edge, edge + 1, 2 * edge - 2, 2 * edge - 1)
    type = f"i{element.bits}"
    emit = Emitter()
    folded = 0
    for x, y in product(numbers, numbers):
        texts = [wrap(x, type), wrap(y, type)]
        unsigned = np.array([x, y], np.uint64)
        a, b = round_to(unsigned, element)[:, None]
        for function in (*FOLDED, *COMPARED):
            if function in ("div", "rem") and y == 0:
                continue
            with np.errstate(all="ignore"):
                wanted = FUNCTIONS[function].evaluate(a, b)[0]
            if function in COMPARED:
                found = compare_integers(emit, function, element, *texts)
                assert found == ("true" if wanted else "false"), (function, x, y)
                continue
            found = integer_function(emit, SM_80, function, element, texts)
            if is_integer(found):
                folded += 1
                assert found == wrap(int(wanted), type), (function, x, y)
    assert folded > 600
