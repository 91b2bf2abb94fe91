"""Runs a random program in the interpreter and on a target, and says how they differ."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from tests.execution import execute
from tests.passes.launches import Launch
from tests.passes.leaves import GRID
from workbench.interpreter import run_module
from workbench.ir import Module, Scalar, element_of, parse_module, print_module, shape_of
from workbench.ops import Bitcast, Store
from workbench.ops.numbers import bits_of
from workbench.passes.manager import Recorder
from workbench.passes.pipeline import tile_passes

WARPS = (1, 2, 4, 8)
STAGES = (1, 2, 3, 4)
#: What a difference says when the device met an illegal access.
DEVICE_LOST = "CUDA error"


def options_for(seed: int, target: str) -> dict[str, int]:
    """Return the compile options that a seed is run with: all pairs come up on a GPU."""
    if not target.startswith("sm_"):
        return {}
    return {"num_warps": WARPS[seed % 4], "num_stages": STAGES[seed // 4 % 4]}


def kind_of(said: str) -> str:
    """Return the sort of a difference: an exception and its first words, or a wrong value."""
    name, colon, rest = said.partition(": ")
    return f"{name} {' '.join(rest.split()[:3])}" if colon else said.partition("[")[0]


def outputs(arguments: list[Any]) -> tuple[Any, Any]:
    """Return what a program wrote."""
    return arguments[3], arguments[4]


def with_options(module: Module, **options: Any) -> Module:
    """Return the module with other compile options."""
    return replace(module, attributes={**module.attributes, **options})


@contextmanager
def nan_bits_refused() -> Iterator[None]:
    """Raise where a program looks at the bits of a NaN: which NaN it is, is left open."""
    plain = Bitcast.interpret

    def interpret(self: Bitcast, frame: Any) -> Any:
        values, element = frame[self.source], element_of(self.source.type)
        if isinstance(element, Scalar) and element.is_float and np.isnan(values).any():
            raise ValueError("the program looks at the bits of a NaN")
        return plain(self, frame)

    Bitcast.interpret = interpret
    try:
        yield
    finally:
        Bitcast.interpret = plain


@contextmanager
def stores_apart() -> Iterator[None]:
    """Raise where one store writes two values to one place: which of them stays, is left open."""
    plain = Store.interpret

    def interpret(self: Store, frame: Any) -> None:
        shape = shape_of(self.pointers.type)
        live = np.broadcast_to(frame.get(self.mask, True), shape).ravel()
        places = np.asarray(frame[self.pointers]).ravel()[live]
        element = element_of(self.value.type)
        if isinstance(element, Scalar):
            bits = bits_of(np.broadcast_to(frame[self.value], shape), element).ravel()[live]
            order = np.lexsort((bits, places))
            places, bits = places[order], bits[order]
            if ((places[1:] == places[:-1]) & (bits[1:] != bits[:-1])).any():
                raise ValueError("a store writes two values to one place")
        plain(self, frame)

    Store.interpret = interpret
    try:
        yield
    finally:
        Store.interpret = plain


def _passed(module: Module) -> Module:
    return parse_module(print_module(tile_passes(module, Recorder())))


def difference(module: Module, launch: Launch, target: str, *, watch: bool = False) -> str:
    """Say how a target's result differs from the interpreter's; empty if it does not.

    An exception of the target counts as a difference; one of the interpreter is raised, since the
    program then is not well defined. With `watch` a race between programs raises ValueError too:
    random programs have none, one that was made smaller may.
    """
    wanted, got = launch.arguments(), launch.arguments()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        with nan_bits_refused(), stores_apart():
            found = run_module(module, GRID, wanted, watch=watch)
        if any(f.kind == "race" and f.severity == "error" for f in found.findings):
            raise ValueError("programs race")
        try:
            # The interpreter is judged by itself: on what the passes and the text form make of it.
            run = _passed(module) if target == "interpreter" else module
            execute(run, GRID, got, target)
        except Exception as error:
            first = str(error).splitlines()[0] if str(error) else ""
            return f"{type(error).__name__}: {first}"
    for name, a, b in zip(("floats", "integers"), outputs(wanted), outputs(got), strict=True):
        if not np.array_equal(a, b, equal_nan=True):
            place = int(np.flatnonzero(~((a == b) | ((a != a) & (b != b))))[0])
            return f"{name}[{place}] is {b[place]}, the interpreter says {a[place]}"
    return ""
