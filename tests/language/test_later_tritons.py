"""What Triton accepts since 3.7 or 3.8 is accepted whatever version is claimed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench.language as tl
from tests.language.harness import error_of, from_text, result
from workbench.language import core


@core._aggregate
class Base:
    first: tl.tensor
    step: tl.constexpr = 3

    def scaled(self):
        return self.first * self.step


@core._aggregate
class Derived(Base):
    second: tl.tensor
    more: tl.constexpr = tl.constexpr(4)  # callable, as a device function is

    def total(self):
        return self.scaled() + self.second * self.more


def test_aggregates_inherit_fields_methods_and_defaults():
    kernel = from_text(
        """
        def kernel(out, n):
            d = Derived(n, 5, second=n + 1)
            tl.store(out, d.total())
            tl.store(out + 1, Derived(first=n, second=1).scaled())
        """,
        Derived=Derived,
    )
    assert result(kernel, np.int32, 2, n=7).tolist() == [7 * 5 + 8 * 4, 21]
    assert Derived._fields == ("first", "step", "second", "more")


@core._aggregate
class Filled:
    first: tl.tensor
    second: tl.tensor

    def __init__(self, first, second):
        self.first = first + second
        self.second = second


@core._aggregate
class FilledAlike(Filled):
    def total(self):
        return self.first * 10


@core._aggregate
class FilledMore(Filled):
    third: tl.tensor

    def __init__(self, first, third):
        super().__init__(first, third)
        self.third = third


@core._aggregate
class FilledByName(Filled):
    third: tl.tensor

    def __init__(self, first, third):
        Filled.__init__(self, first, second=third)
        self.third = third * 2


def test_a_constructor_is_inherited_and_can_be_called():
    kernel = from_text(
        """
        def kernel(out, n):
            tl.store(out, FilledAlike(n, 1).total())
            more = FilledMore(n, 2)
            tl.store(out + 1, more.first * 100 + more.second * 10 + more.third)
            named = FilledByName(n, 3)
            tl.store(out + 2, named.first * 100 + named.second * 10 + named.third)
        """,
        FilledAlike=FilledAlike, FilledMore=FilledMore, FilledByName=FilledByName,
    )  # fmt: skip
    assert result(kernel, np.int32, 3, n=7).tolist() == [80, 922, 1036]


@pytest.mark.parametrize(
    ("args", "given", "said"),
    [
        ((1, 2, 3), {}, "takes 2 values but 3 were given"),
        ((1,), {"frist": 2}, "unexpected keyword argument 'frist'"),
        ((1,), {"first": 2}, "multiple values for argument 'first'"),
        ((), {"step": 2}, "leaves first without a value"),
    ],
)
def test_fields_are_given_once_and_by_their_names(args: Any, given: Any, said: str):
    make: Any = Base
    with pytest.raises(TypeError, match=said):
        make(*args, **given)


def test_an_aggregate_is_not_changed_and_inherits_from_aggregates_only():
    made: Any = Base
    with pytest.raises(AttributeError, match="cannot assign to field 'first'"):
        made(1).first = 2

    class Plain:
        pass

    class Mixed(Plain):
        x: tl.tensor

    with pytest.raises(TypeError, match="Plain, which is none"):
        core._aggregate(Mixed)


def test_a_declared_constexpr_is_one_once_it_is_assigned():
    kernel = from_text(
        """
        def kernel(out, n, N: tl.constexpr):
            size: tl.constexpr
            other: tl.int32
            if N > 4:
                other, size = n, N * 2
            else:
                other, size = n + 1, 4
            tl.store(out + tl.arange(0, size), other)
        """
    )
    assert result(kernel, np.int32, 17, n=9, N=8).tolist() == [9] * 16 + [0]
    again = "def kernel():\n    y: tl.constexpr\n    y = 1\n    y = 2\n"
    assert "'y' is a constexpr and cannot be assigned again" in str(error_of(from_text(again)))


def test_topk_keeps_the_smallest_too():
    x = np.array([3, -1, 8, 0, 5, 7, 2, 4], np.float32)
    kernel = from_text(
        """
        def kernel(out, x):
            v = tl.load(x + tl.arange(0, 8))
            tl.store(out + tl.arange(0, 4), tl.topk(v, 4, descending=False))
        """
    )
    assert result(kernel, np.float32, 4, x=x).tolist() == [-1, 0, 2, 3]


def test_a_product_has_the_type_of_a_half_accumulator():
    kernel = from_text(
        """
        def kernel(out):
            a = tl.full((16, 16), 0.5, tl.float16)
            c = tl.dot(a, a, tl.full((16, 16), 1.0, tl.float16))
            tl.static_assert(c.dtype == tl.float16)
            tl.static_assert(tl.dot(a, a).dtype == tl.float32)
            tl.store(out, tl.sum(tl.sum(c, 1), 0) / 256)
        """
    )
    assert result(kernel, np.float32, 1).tolist() == [5.0]
