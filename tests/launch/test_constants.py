"""Constants that are equal and make other code: no launcher, in Python or native, mixes them up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, IntEnum
from itertools import product
from math import inf, nan
from typing import Any, NamedTuple

import numpy as np
import pytest

import workbench as wb
import workbench.language as tl
from workbench.launch import exact_keys, fastpath
from workbench.launch.exact_keys import exact_key
from workbench.source.captures import describe_value

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


@dataclass(frozen=True)
class Own:
    a: Any

    def __eq__(self, other: object) -> bool:
        return type(other) is Own

    def __hash__(self) -> int:
        return 1


class Changing:
    def __init__(self, a: Any) -> None:
        self.a = a


class Colour(Enum):
    RED = 1
    BLUE = 2


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Slots:
    __slots__ = ("b",)


@dataclass(frozen=True)
class Slotted(Slots):
    a: Any

    def __init__(self, a: Any, b: Any) -> None:
        object.__setattr__(self, "a", a)
        object.__setattr__(self, "b", b)


@dataclass(frozen=True)
class Big(int):
    a: int = 0
    __hash__ = int.__hash__


POINTERS = [(tl.float32,), (tl.float16,), (tl.float32, 3), (tl.float32, 1, True)]
NUMBERS = [np.int8, np.int32, np.int64, np.uint8, np.float16, np.float32, np.float64]


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


class Named(float):
    """A float that says more than its number."""

    name: str


def test_a_float_of_a_class_is_all_that_it_holds() -> None:
    one, two = Named(1.0), Named(1.0)
    one.name, two.name = "one", "two"
    assert exact_key(one) != exact_key(two) != exact_key(1.0)
    assert exact_key((one,)) != exact_key((two,))


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
def test_constants_of_two_kinds_by_turns(
    first: Any, second: Any, careful: list[dict[str, Any]]
) -> None:
    kernel = wb.jit(of_any_kind)
    out = torch.zeros(1)
    for n in range(2 * LONG):
        if n == 4:
            careful.clear()
        value = second if n % 2 else first
        kernel[(1,)](out, C=value)
        wanted = {None: 5.0, (1, 2): 1.0}.get(value, value)
        assert out.item() == wanted
    assert not careful
    assert len(kernel._fast) == 1
    assert type(kernel._launch).__name__ == NATIVE
    (path,) = kernel._fast.values()
    path._python = None
    for _ in range(2):  # no launch is left to Python
        kernel[(1,)](out, C=first)
        kernel[(1,)](out, C=second)


def of_any_kind(o, C: tl.constexpr):
    if C is None:
        tl.store(o, 5.0)
    elif isinstance(C, tuple):
        tl.store(o, C[0])
    else:
        tl.store(o, C)


def stored_member(o, C: tl.constexpr):
    tl.store(o, C.a)


def with_or_without(o, x):
    if x is None:
        tl.store(o, 5.0)
    else:
        tl.store(o, tl.load(x))


def of_no_kind(o, C: tl.constexpr):
    tl.store(o, 7.0)


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


@pytest.mark.parametrize(
    "values",
    [[Colour.RED, Colour.BLUE], [Level.LOW, Level.HIGH], [Held(1), Held(2)],
     [Held(Level.LOW), Held(1)], [Colour, Level], [Colour.RED, None]],
)  # fmt: skip
def test_objects_by_turns_have_few_launchers(values: list[Any], careful: list[Any]) -> None:
    kernel = wb.jit(of_no_kind)
    out = torch.zeros(1)
    for n in range(50):
        if n == 4:
            careful.clear()
        kernel[(1,)](out, C=values[n % 2])
    assert len(kernel._fast) <= 2
    assert not careful


def test_objects_that_are_made_for_each_call_do_not_pile_up_launchers() -> None:
    kernel = wb.jit(stored_member)
    out = torch.zeros(1)
    for n in range(50):
        kernel[(1,)](out, C=Held(n % 2))
        assert out.item() == n % 2
    assert len(kernel._fast) == 2
    for n in range(20):
        kernel[(1,)](out, C=Held(n))
        assert out.item() == n
    assert len(kernel._fast) <= 16


def test_an_earlier_launcher_takes_no_object_that_was_changed() -> None:
    kernel = wb.jit(stored_member)
    out, objects = torch.zeros(1), [Changing(1), Changing(2)]
    for n in range(40):
        objects[0].a = 3 + n // 10
        kernel[(1,)](out, C=objects[n % 2])
        assert out.item() == objects[n % 2].a


def test_an_array_and_none_by_turns(careful: list[Any]) -> None:
    kernel = wb.jit(with_or_without)
    out, x = torch.zeros(1), torch.full((1,), 8.0)
    for n in range(3 * LONG):
        if n == 4:
            careful.clear()
        kernel[(1,)](out, x if n % 2 else None)
        assert out.item() == (8 if n % 2 else 5)
    assert not careful


def test_exact_keys() -> None:
    values = [0, 0.0, -0.0, False, 1, 1.0, True, "1", None, (1,), (1.0,), ((1,),), ((True,),),
              Pair(1, 2), (1, 2), Pair(1.0, 2), wb.constexpr(1), wb.constexpr(1.0), nan,
              Held(1), Held(1.0), Held(True), Held((1,)), Held((1.0,)), Held(Held(1)), Own(1),
              (Held(1),), Held(-0.0), Held(0.0), Held(tl.float32), Held(tl.float16),
              tl.float32, tl.float16, (tl.float32,), (tl.float16,), int, float,
              *(tl.pointer_type(*given) for given in POINTERS),
              *(tl.pointer_type(tl.pointer_type(*given)) for given in POINTERS),
              *(kind(1) for kind in NUMBERS), np.bool_(True), np.bool_(False),
              np.float32(0.0), np.float32(-0.0), (np.float32(1.5),), (np.float16(1.5),),
              np.longdouble(1), np.timedelta64(1, "s"), np.timedelta64(1, "m"),
              np.timedelta64(60, "s"), np.datetime64(1, "s"), np.datetime64(1, "m"),
              timedelta(seconds=60), timedelta(seconds=1), torch.device("cpu"),
              -nan, (-nan,), Held(-nan), np.float32(-nan),
              torch.device("meta"), np.dtype("f4"), np.dtype("i4"),
              np.dtype("f4", metadata={"a": 1}), np.dtype([("a", "f4")]), [1], [True], [[1]],
              {1: 2}, {1: 2.0}, {1.0: 2}, {1: 2, 3: 4}, {3: 4, 1: 2}, {1}, {1.0}, frozenset({1}),
              frozenset({True}), frozenset({1, "a"}), slice(1), slice(1.0),
              slice(2, 1)]  # fmt: skip
    for (n, a), (m, b) in product(enumerate(values), enumerate(values)):
        assert (exact_key(a) == exact_key(b)) == (n == m), (a, b)
    assert exact_key(float("nan")) == exact_key(nan)
    for make in (Held, tl.pointer_type, lambda v: (v,)):
        assert exact_key(make(tl.float32)) == exact_key(make(tl.float32))
    assert exact_key((np.float32(nan),)) == exact_key((np.float32(nan),))


class Asking:
    """Says of an array what is not in its numbers."""

    def __init__(self, array: Any) -> None:
        self.array = array

    @property
    def a(self) -> int:
        told = self.array.dtype.metadata or {"k": 7}
        return told["k"] + 10 * self.array.flags.writeable


def test_what_can_be_asked_of_arrays_tells_them_apart() -> None:
    kernel, out = wb.jit(stored_member), torch.zeros(1)
    arrays = [np.zeros(2, np.dtype("i4", metadata={"k": k})) for k in (1, 2)] + [np.zeros(2)] * 2
    arrays[3] = arrays[2].copy()
    arrays[3].flags.writeable = False
    for array, want in zip(arrays, (11, 12, 17, 7), strict=True):
        kernel[(1,)](out, C=Asking(array))
        assert out.item() == want


def first_of(out: Any, C: tl.constexpr) -> None:
    tl.store(out, C[0] + C[1][0])


def test_scalars_of_numpy_within_a_tuple_are_numbers() -> None:
    kernel, out = wb.jit(first_of), torch.zeros(1)
    kernel[(1,)](out, (np.int64(3), Pair(np.float32(0.5), 1)))
    assert out.item() == 3.5


def test_units_of_time_are_told_apart_on_disk_too() -> None:
    described = {describe_value(np.timedelta64(2, unit)) for unit in ("s", "m", "h")}
    assert len(described) == 3


def test_what_holds_itself_has_a_key() -> None:
    ring: list[Any] = [1]
    ring.append(ring)
    assert exact_key(ring) == exact_key(ring)
    assert exact_key(ring) != exact_key([1, [1]])


def test_what_an_object_holds_beside_its_fields_is_part_of_its_key() -> None:
    one, other = Held(1), Held(1)
    object.__setattr__(other, "more", 2)
    assert exact_key(one) != exact_key(other)
    assert exact_key(Slotted(1, 2)) != exact_key(Slotted(1, 3))
    assert exact_key(Big(1)) != exact_key(Big(2))


@pytest.mark.parametrize(
    "make",
    [lambda: Held(1), lambda: (Held((1, Held(2))),), lambda: (tl.float32, 8),
     lambda: (tl.pointer_type(tl.float32),), lambda: np.int32(3), lambda: (np.float32(3),),
     lambda: frozenset({1, 2.5}), lambda: torch.device("cpu"), lambda: np.dtype("f4"),
     lambda: {n: str(n) for n in range(1000)}, lambda: np.timedelta64(1, "s"),
     lambda: timedelta(seconds=3)],
)  # fmt: skip
def test_constants_that_are_made_for_each_call_are_not_described(
    make: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def described(_: Any) -> str:
        pytest.fail("described")

    monkeypatch.setattr(exact_keys, "describe_value", described)
    assert exact_key(make()) == exact_key(make())


@dataclass(frozen=True)
class Two:
    a: Any
    b: Any


def test_steps_of_slices_and_fields_in_another_order_are_other_constants():
    assert exact_key(slice(0, 8, 1)) != exact_key(slice(0, 8, True))
    assert exact_key(slice(0, 8, 1)) == exact_key(slice(0, 8, 1))
    one, other = object.__new__(Two), object.__new__(Two)
    vars(one).update(a=1, b=2)
    vars(other).update(b=1, a=2)
    assert exact_key(one) == exact_key(Two(1, 2))
    assert exact_key(one) != exact_key(other)
