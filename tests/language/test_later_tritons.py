"""What Triton accepts since 3.7 or 3.8 is accepted whatever version is claimed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench.language as tl
from tests.language.harness import error_of, from_text, result
from workbench.language import core, later


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


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_blocks_of_several_axes_follow_each_other_along_one(axis: int):
    x = np.arange(2 * 4 * 8, dtype=np.int32).reshape(2, 4, 8)
    kernel = from_text(
        f"""
        def kernel(out, x):
            i = tl.reshape(tl.arange(0, 64), (2, 4, 8))
            both = tl.cat(tl.load(x + i), tl.load(x + i) + 100, dim={axis})
            tl.store(out + tl.arange(0, 128), tl.reshape(both, (128,)))
        """
    )
    want = np.concatenate([x, x + 100], axis)
    assert result(kernel, np.int32, 128, x=x.ravel()).tolist() == want.ravel().tolist()


def test_blocks_that_do_not_follow_each_other():
    text = "def kernel():\n    tl.cat(tl.zeros((4, 2), tl.int32), tl.zeros((2, 2), tl.int32))\n"
    assert "cat needs two blocks of one dtype and shape" in str(error_of(from_text(text)))
    text = "def kernel():\n    x = tl.zeros((4, 2), tl.int32)\n    y = tl.cat(x, x, dim=2)\n"
    assert "invalid axis 2" in str(error_of(from_text(text)))


def test_types_of_what_is_known_are_values():
    kernel = from_text(
        """
        def kernel(out, n, N: tl.constexpr, P: tl.constexpr):
            tl.static_assert(N.type == tl.constexpr_type(8))
            tl.static_assert(N.type != tl.constexpr_type(9))
            tl.static_assert(isinstance(P[0].type, tl.constexpr_type))
            tl.static_assert(P.type == (1, (2, 3)).type)
            tl.static_assert(P.type != (1, (2, 4)).type)
            tl.static_assert((n, N).type == tl.tuple_type([tl.int32, tl.constexpr_type(8)]))
            y: tl.constexpr
            x, y = 0, 5
            tl.static_assert(x.dtype == tl.int32)
            tl.static_assert(y.type == tl.constexpr_type(5))
            tl.store(out, n)
        """
    )
    assert result(kernel, np.int32, 1, n=7, N=8, P=(1, (2, 3))).tolist() == [7]


def test_a_replaced_field_is_what_it_was_declared_as():
    first = core._aggregate(type("Known", (), {"__annotations__": {"x": tl.constexpr}}))
    made: Any = first(3)
    assert isinstance(later.aggregate_replace(made, x=4).x, tl.constexpr)
    with pytest.raises(TypeError, match="has no field 'z'"):
        later.aggregate_replace(made, z=1)
    with pytest.raises(TypeError, match="expects an aggregate instance"):
        later.aggregate_replace(42, x=1)


def test_a_name_of_another_version_says_so():
    error = error_of(from_text("def kernel(out):\n    tl.atomic_poll(out, 1)\n"), out=np.zeros(1))
    assert "tl.atomic_poll exists since 3.9.0 of Triton" in str(error.hint)


def test_axes_that_are_inserted_twice():
    text = "def kernel():\n    tl.expand_dims(tl.arange(0, 4), (0, -3))\n"
    assert "duplicate axes, normalized axes = [0, 0]" in str(error_of(from_text(text)))
