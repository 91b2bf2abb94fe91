"""Constants that are equal and make other code: no launcher, in Python or native, mixes them up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from math import inf, nan
from typing import Any, NamedTuple

import pytest

import workbench as wb
import workbench.language as tl
from workbench.launch import fastpath
from workbench.launch.launchers import exact_key

torch = pytest.importorskip("torch")

#: Launches after which native code is there, if it ever will be.
LONG = fastpath.NATIVE_AFTER + 4
NATIVE = "builtin_function_or_method"


class Pair(NamedTuple):
    a: Any
    b: Any


@dataclass(frozen=True)
class Held:
    a: Any


def kind_of_first(o, C: tl.constexpr):
    if isinstance(C[0], float):
        tl.store(o, 10)
    elif isinstance(C[0], bool):
        tl.store(o, 20)
    else:
        tl.store(o, 30)


def stored(o, C: tl.constexpr):
    tl.store(o, 5.0 if C is None else C)


def through(kernel: Any, values: list[Any], shown: Callable[[Any], str], times: int) -> list[str]:
    """Launch with each value, so often that its launches are fast; return what is stored."""
    found: list[str] = []
    for value in values:
        out = torch.zeros(1)
        for _ in range(times):
            kernel[(1,)](out, C=value)
        found.append(shown(out.item()))
    return found


@pytest.mark.parametrize("times", [1, 3, LONG])
@pytest.mark.parametrize("make", [lambda *v: tuple(v), Pair, lambda *v: wb.constexpr(tuple(v))])
def test_members_of_equal_tuples(make: Callable[..., Any], times: int) -> None:
    kernel = wb.jit(kind_of_first)
    values = [make(a, 2) for a in (1, 1.0, True, 1, 1.0)]
    assert through(kernel, values, str, times) == ["30.0", "10.0", "20.0", "30.0", "10.0"]


@pytest.mark.parametrize("times", [1, 3, LONG])
def test_floats_are_not_integers_and_nan_is_nan(times: int) -> None:
    kernel = wb.jit(stored)
    values = [0.0, 0, 1, 1.0, True, nan, float("nan"), 2.5, inf, -inf, 2.5]
    assert through(kernel, values, str, times) == [str(float(value)) for value in values]
    assert len(kernel.results) == 9


def test_floats_that_are_computed_for_each_call_are_launched_by_native_code() -> None:
    kernel = wb.jit(stored)
    out = torch.zeros(1)
    for n in range(3 * LONG):
        kernel[(1,)](out, C=float(f"{n % 2}.5"))
        assert out.item() == n % 2 + 0.5
    assert type(kernel._launch).__name__ == NATIVE
    (path,) = kernel._fast.values()
    path._python = None  # what native code knows goes through it alone
    kernel[(1,)](out, C=float("1.5"))
    assert out.item() == 1.5


@pytest.mark.parametrize("first", [None, 8, 2.5, 2**63, (1, 2)])
@pytest.mark.parametrize("second", [None, 8, 2.5, 2**63])
def test_constants_of_two_kinds_by_turns(first: Any, second: Any) -> None:
    kernel = wb.jit(of_any_kind)
    out = torch.zeros(1)
    for n in range(2 * LONG):
        value = second if n % 2 else first
        kernel[(1,)](out, C=value)
        wanted = {None: 5.0, (1, 2): 1.0}.get(value, value)
        assert out.item() == wanted


def of_any_kind(o, C: tl.constexpr):
    if C is None:
        tl.store(o, 5.0)
    elif isinstance(C, tuple):
        tl.store(o, C[0])
    else:
        tl.store(o, C)


def with_default(o, C: tl.constexpr = 3, *, negated: tl.constexpr = False):
    tl.store(o, -C if negated else C)


@pytest.mark.parametrize("other", [{"negated": True}, {"C": 4}, {"C": 4, "negated": True}])
@pytest.mark.parametrize("before", [0, 1, LONG])
@pytest.mark.parametrize("between", [1, LONG])
def test_what_a_call_leaves_out_has_its_default_whatever_others_gave(
    other: dict[str, Any], before: int, between: int
) -> None:
    kernel = wb.jit(with_default)
    out = torch.zeros(1)
    given = -other.get("C", 3) if "negated" in other else 4
    for count, options, wanted in (
        (before, {}, 3), (between, other, given), (LONG, {}, 3), (LONG, other, given), (1, {}, 3),
    ):  # fmt: skip
        for _ in range(count):
            kernel[(1,)](out, **options)
            assert out.item() == wanted


def test_options_of_two_kinds_by_turns() -> None:
    kernel = wb.jit(stored)
    out = torch.zeros(1)
    for n, warps in zip(range(3 * LONG), [None, 8, None] * LONG, strict=True):
        made = kernel[(1,)](out, C=n % 2, num_warps=warps)
        assert out.item() == n % 2
        assert dict(made.signature.options).get("num_warps") == warps


def test_exact_keys() -> None:
    values = [0, 0.0, -0.0, False, 1, 1.0, True, "1", None, (1,), (1.0,), ((1,),), ((True,),),
              Pair(1, 2), (1, 2), Pair(1.0, 2), wb.constexpr(1), wb.constexpr(1.0), nan,
              Held(1), Held(1.0), tl.float32, tl.float16, int, float]  # fmt: skip
    for (n, a), (m, b) in product(enumerate(values), enumerate(values)):
        assert (exact_key(a) == exact_key(b)) == (n == m), (a, b)
    assert exact_key(float("nan")) == exact_key(nan)
    assert exact_key(Held(2)) == exact_key(Held(2))
