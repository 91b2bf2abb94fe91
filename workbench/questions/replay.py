"""A recorded program, run again with one op changed: only what depends on it is computed anew.

What a change may need beside the op's own operands is what its values were when they were last
read. So a change that helps is tried once more in the interpreter before anybody is told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench.interpreter import Machine
from workbench.interpreter.program import ProgramFrame
from workbench.ir import Array, Module, Op, Value
from workbench.ir.build import Builder
from workbench.ops import Load, Store
from workbench.ops.control import For
from workbench.questions.running import Bench, Event, Program, Run

#: What a change makes of an op (`suspects.py`).
Rewrite = Callable[[Op, Builder], Any]


class UnknownError(Exception):
    """The change alters more than values: nobody knows without a run."""


class Replay:
    """One program's recording, to be run again with changes."""

    def __init__(
        self, bench: Bench, module: Module, grid: Sequence[int], program: Program, run: Run
    ) -> None:
        self.bench, self.module, self.run = bench, module, run
        bench.reset()
        self.frame = ProgramFrame(Machine(module, grid, bench.values(module)), program)
        self.outputs = bench.outputs()
        self.places = {name: bench.extent(name) for name in bench.names}
        decides = {v for op in module.walk() if op.regions for v in op.decided_by()}
        self.decides = {op for op in module.walk() if any(v in decides for v in op.results)}
        self.possible = run.complete and not any(
            event.op.effects() and not isinstance(event.op, Load | Store | For)
            for event in run.events
        )
        self.first: dict[Op, int] = {}
        for event in run.events:
            self.first.setdefault(event.op, event.number)

    def changed(self, op: Op, rewrite: Rewrite) -> dict[str, np.ndarray[Any, Any]]:
        """Return the outputs with a change; raises UnknownError where only a run can tell."""
        if not self.possible or op not in self.first:
            raise UnknownError
        builder = Builder(self.module.next_id)
        done = rewrite(op, builder)
        if isinstance(done, Op):
            if done not in builder.ops:
                builder.insert(done)
            results: tuple[Value, ...] = done.results
        elif done is None:
            raise UnknownError
        else:
            results = done if isinstance(done, tuple) else (done,)
        new: dict[tuple[int, int], Array] = {}
        outputs = {name: array.copy() for name, array in self.outputs.items()}
        with np.errstate(all="ignore"):
            for event in self.run.events:
                self._step(event, op, builder.ops, results, new, outputs)
        return outputs

    def _step(
        self, event: Event, op: Op, ops: Sequence[Op], results: Sequence[Value],
        new: dict[tuple[int, int], Array], outputs: dict[str, np.ndarray[Any, Any]],
    ) -> None:  # fmt: skip
        values = self.frame.values
        inputs = event.inputs
        here = event.op is op
        if new:
            inputs = tuple(self._input(event, n, new) for n in range(len(event.inputs)))
        again = here or any(a is not b for a, b in zip(inputs, event.inputs, strict=True))
        for value, array in zip(event.op.operands, inputs, strict=True):
            values[value] = array
        found: Sequence[Array] = event.results
        if again and isinstance(event.op, For):
            return  # what it starts from has changed; how often it runs is in `decides`
        if again:
            if event.op in self.decides:
                raise UnknownError
            for each in ops if here else (event.op,):
                self._compute(each, outputs)
            given = results if here and event.op.results else event.op.results
            found = [values[value] for value in given]
            new.update({(event.number, n): array for n, array in enumerate(found)})
        elif isinstance(event.op, Store):
            self._store(event.op, outputs)
        for value, array in zip(event.op.results, found, strict=False):
            values[value] = array

    def _input(self, event: Event, number: int, new: dict[tuple[int, int], Array]) -> Array:
        source, array = event.sources[number], event.inputs[number]
        if source < 0:
            return array
        made = self.run.events[source].results
        place = next((n for n, held in enumerate(made) if held is array), 0)
        return new.get((source, place), array)

    def _compute(self, op: Op, outputs: dict[str, np.ndarray[Any, Any]]) -> None:
        if isinstance(op, Store):
            self._store(op, outputs)
            return
        frame: Any = self.frame
        found = op.interpret(frame)
        if isinstance(found, tuple):
            frame.values.update(zip(op.results, found, strict=True))
        elif op.results:
            frame.values[op.results[0]] = np.asarray(found)

    def _store(self, op: Store, outputs: dict[str, np.ndarray[Any, Any]]) -> None:
        values = self.frame.values
        addresses = np.asarray(values[op.pointers], np.int64).ravel()
        written = np.broadcast_to(values[op.value], np.shape(values[op.pointers])).ravel()
        live = np.ones(addresses.shape, bool)
        if op.mask is not None:
            live = np.broadcast_to(values[op.mask], np.shape(values[op.pointers])).ravel()
        for name, extent in self.places.items():
            assert extent is not None
            start, end, size = extent
            if not self.bench.is_dense(name):
                raise UnknownError
            inside = live & (addresses >= start) & (addresses < end)
            flat = outputs[name].reshape(-1)
            flat[(addresses[inside] - start) // size] = written[inside]
