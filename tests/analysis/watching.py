"""Runs a module and compares every value, when it is computed, with what was claimed of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from workbench.analysis.affine import Affine, Atom, Form
from workbench.interpreter.machine import Machine
from workbench.interpreter.program import ProgramFrame
from workbench.ir import I1, Array, Block, Module, Op, Pointer, Value, element_of, shape_of
from workbench.ops import For

Look = Callable[["Watched", Op, Value, Array], None]


class Watched(ProgramFrame):
    """A program instance that shows each result to `look`, and evaluates forms."""

    def __init__(self, machine: Machine, program: tuple[int, int, int], look: Look) -> None:
        super().__init__(machine, program)
        self.look = look
        self.loops = {
            op.body.arguments[0]: op for op in machine.module.walk() if isinstance(op, For)
        }
        self.names = {p.name: p.value for p in machine.module.parameters}

    def run(self, block: Block, arguments: Sequence[Array]) -> tuple[Array, ...]:
        for name, array in zip(block.arguments, arguments, strict=True):
            self.values[name] = array
        for op in block.ops:
            results = op.interpret(self)  # type: ignore[arg-type]
            held = results if isinstance(results, tuple) else (results,) * len(op.results)
            for value, array in zip(op.results, held, strict=True):
                self.values[value] = np.asarray(array)
            for value in op.results:
                self.look(self, op, value, self.values[value])
        return tuple(self.values[value] for value in block.ops[-1].operands)

    # -- forms ----------------------------------------------------------------------------
    def evaluate(self, form: Form, shape: tuple[int, ...]) -> Array:
        """Return the form's value at all coordinates, with this program's numbers."""
        total = np.zeros(shape, np.int64)
        for monomial, coefficient in form.terms.items():
            product = np.full(shape, coefficient, np.int64)
            for atom in monomial:
                product = product * self.atom(atom, shape)
            total = total + product
        return total

    def atom(self, atom: Atom, shape: tuple[int, ...]) -> Any:
        """Return what an atom stands for now."""
        kind, key = atom.kind, atom.key
        if kind == "arg":
            return elements(self.values[self.names[key]], self.names[key])
        if kind == "pid":
            return self.program_id(key)
        if kind == "programs":
            return self.num_programs(key)
        if kind in ("trip", "trips"):
            return self.rounds_of(self.loops[key], done=kind == "trip")
        if kind == "value":
            # What a branch that was not taken would have computed is never selected.
            return elements(self.values.get(key, np.asarray(0)), key)
        if kind == "x":
            return np.indices(shape)[key]
        if kind == "promise":
            return self.promised(key, shape)
        if kind == "moved":
            return self.moved(key, shape)
        return self.made(kind, [self.evaluate(form, shape) for form in key])

    def made(self, kind: str, parts: list[Array]) -> Array:
        """Return what an atom that is made of forms stands for."""
        *conditions, a, b = parts
        if kind == "select":
            on = reduce(np.logical_and, [c < 0 for c in conditions], np.True_)
            return np.where(on, a, b)
        if kind in ("min", "max"):
            return np.minimum(a, b) if kind == "min" else np.maximum(a, b)
        assert kind in ("div", "rem"), kind
        # Truncated, like C and the ops.
        quotient = np.abs(a) // np.abs(b) * np.sign(a) * np.sign(b)
        return quotient if kind == "div" else a - quotient * b

    def moved(self, key: Any, shape: tuple[int, ...]) -> Any:
        """Return how far a carried tile is from where it began: everywhere the same."""
        value, start = key
        if value not in self.values:
            return 0  # what a branch that was not taken would have computed is never selected
        far = elements(self.values[value], value) - self.evaluate(start, shape_of(value.type))
        assert np.all(far == far.flat[0]), f"{value!r} did not move as a whole: {far.tolist()}"
        return far.flat[0]

    def rounds_of(self, loop: For, *, done: bool) -> int:
        """Return the number of the current round of a loop, or how many there are."""
        if not {loop.lower, loop.upper, loop.step} <= self.values.keys():
            return 0  # of a branch that was not taken
        lower, upper, step = (int(self.values[v]) for v in (loop.lower, loop.upper, loop.step))
        if done:
            return (int(self.values[loop.body.arguments[0]]) - lower) // step
        return len(range(lower, upper, step))

    def promised(self, key: Any, shape: tuple[int, ...]) -> Array:
        """Return a promised tile, its axes where the form has them."""
        value, places = key[0], key[1]
        # What a branch that was not taken would have computed is never selected.
        held = self.values.get(value, np.zeros(shape_of(value.type), np.int64))
        array = elements(held, value)
        kept = [axis for axis, place in enumerate(places) if place is not None]
        array = array[tuple(slice(None) if p is not None else 0 for p in places)]
        order = sorted(range(len(kept)), key=lambda i: places[kept[i]])
        array = np.transpose(array, order)
        spread = [1] * len(shape)
        for axis in kept:
            spread[places[axis]] = shape[places[axis]]
        return np.broadcast_to(array.reshape(spread), shape)


def elements(array: Array, value: Value) -> Array:
    """Return numbers as forms count: pointers in elements of what they point at."""
    element = element_of(value.type)
    if isinstance(element, Pointer):
        return np.asarray(array, np.int64) // element.pointee.itemsize
    return np.asarray(array, np.int64)


def watch(module: Module, grid: Sequence[int], arguments: Sequence[Any], look: Look) -> None:
    """Run all program instances under watch."""
    machine = Machine(module, grid, arguments)
    for program in range(grid[0]):
        Watched(machine, (program, 0, 0), look).run(module.body, ())


def check_forms(facts: Affine, frame: Watched, value: Value, array: Array) -> None:
    """Compare a value with its form and everything that follows from the form."""
    form = facts.form(value)
    shape = shape_of(value.type)
    if form is None:
        return
    held = elements(array, value)
    if isinstance(element_of(value.type), Pointer):
        assert not np.any(array % element_of(value.type).pointee.itemsize)
    got = frame.evaluate(form, shape)
    assert np.array_equal(got, held), f"{value!r} is {held.tolist()}, {form} says {got.tolist()}"
    divisor = facts.divisor(form)
    assert not np.any(held % divisor), f"{value!r} = {form}: {divisor} does not divide {held}"
    for axis, extent in enumerate(shape):
        check_run(facts, form, np.moveaxis(held, axis, -1), axis, extent, value)
        if isinstance(element_of(value.type), Pointer):
            width = facts.vector(value, axis)
            lines = runs_of(np.moveaxis(array, axis, -1), width)
            size = element_of(value.type).pointee.itemsize
            assert not np.any(lines[:, :1] % (size * min(width, extent))), (width, lines)
            assert np.all(np.diff(lines) == size), (width, lines)


def runs_of(lines: Array, length: int) -> Array:
    """Return the aligned runs of a length along the last axis, whole ones only, as rows."""
    extent = lines.shape[-1]
    return lines[..., : extent - extent % length].reshape(-1, length)


def check_run(facts: Affine, form: Form, lines: Array, axis: int, extent: int, what: Any) -> None:
    """Compare what `run` says about an axis with all aligned runs along it."""

    def told() -> str:  # arrays take long to print: not of what is right
        return f"{what!r} = {form}: along {axis} stride {stride}, runs of {length}, {start}: {runs}"

    stride, length, start = facts.run(form, axis, extent)
    runs = runs_of(lines, min(length, 1 << extent.bit_length()))
    assert not np.any(runs[:, 0] % start), told()
    assert stride is None or np.all(np.diff(runs) == stride), told()


def check_mask(facts: Affine, value: Value, array: Array) -> None:
    """Compare how long a mask is said to be constant with the mask."""
    for axis, extent in enumerate(shape_of(value.type)):
        length = facts.mask_run(value, axis, extent)
        lines = np.moveaxis(array, axis, -1)
        runs = runs_of(lines, min(length, extent))
        assert np.all(runs == runs[:, :1]), f"{value!r} along {axis}, runs of {length}: {runs}"


def check_conjuncts(facts: Affine, frame: Watched, value: Value, array: Array) -> None:
    """Compare a mask with the forms that are below 0 where it is on."""
    if not facts.tiles:
        return
    shape = shape_of(value.type)
    forms = facts.conjuncts(value)
    on = reduce(np.logical_and, [frame.evaluate(h, shape) < 0 for h in forms], np.ones(shape, bool))
    assert np.array_equal(on, array), f"{value!r}: {forms}"


def check_under_masks(facts: Affine, frame: Watched, value: Value, array: Array) -> None:
    """Compare what is said of a pointer where a mask is on with the places where it is."""
    shape = shape_of(value.type)
    element = element_of(value.type)
    if not isinstance(element, Pointer) or not facts.tiles:
        return
    size = element.pointee.itemsize
    masks = [m for m in frame.values if element_of(m.type) == I1 and shape_of(m.type) == shape]
    for mask in masks[-2:] if shape else ():
        on = frame.values[mask]
        for axis, extent in enumerate(shape):
            width = facts.vector(value, axis, mask)
            lines = runs_of(np.moveaxis(array, axis, -1), min(width, extent))
            live = runs_of(np.moveaxis(on, axis, -1), min(width, extent)).all(1)
            assert not np.any(lines[live, :1] % (size * min(width, extent))), (
                f"{facts.accessed(value, mask)} along {axis}: {width}, {lines[live]}"
            )
            assert np.all(np.diff(lines[live]) == size), (
                f"{facts.accessed(value, mask)} along {axis}: {width}, {lines[live]}"
            )
