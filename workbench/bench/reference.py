"""What the outputs of a launch must be, and how sure that is.

The user's expression is evaluated on float64 copies of the arguments where it can be, so that the
reference has no errors that count. Evaluated again in float32 and on slightly turned inputs it
tells how strongly rounding shows in each element (tolerances.py). Where float64 does not work (an
operator that lacks it, tensors from elsewhere that stay what they are), it is evaluated as written,
and its own errors count.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from workbench.bench.arrays import dtype_of, host_copies, is_array, is_float, is_tensor, to_numpy
from workbench.bench.roundings import UNIT
from workbench.bench.subject import Subject, call_by_name
from workbench.bench.tolerances import Conditioning, Floats, block_maxima
from workbench.interpreter import run_module
from workbench.source import CheckError, KernelError, Span

#: Gets the names that stand for copies of the arguments; returns the reference.
Reference = Callable[[Mapping[str, Any]], Any]
How = Literal["float64", "as written", "interpreter"]

#: An evaluation that took longer than this is not repeated on turned inputs, and one that took
#: longer than four times this not in float32 either.
SECONDS = 1.0
#: Relative changes of the inputs: a jump answers alike to both, what is smooth does not.
_TURN, _SMALL_TURN = 2.0**-24, 2.0**-30


@dataclass(slots=True)
class References:
    """The references of a launch's outputs, by parameter name.

    `units` holds the unit roundoff of a reference's own errors, 0 for an exact one.
    """

    values: dict[str, Any]
    how: How
    units: dict[str, float] = field(default_factory=dict[str, float])
    conditioning: dict[str, Conditioning] = field(default_factory=dict[str, Conditioning])


def references(
    subject: Subject,
    reference: Reference | None,
    before: Mapping[str, Any],
    said: str,
    place: Span | None,
    others: Mapping[str, Any] | None = None,
) -> References:
    """Return the reference of each output.

    `reference` is what to evaluate (None: the interpreter runs the kernel), over copies of the
    arguments from `before` the launch; `others` are arrays of the user's that it may name besides.
    Raises CheckError K602 or K603 for a reference that does not fit or fails.
    """
    if reference is None:
        return References(_interpreted(subject, before), "interpreter")
    spelled = {word: before[name] for word, name in subject.words.items()}
    arrays = {name: value for name, value in (others or {}).items() if _narrow(value)}
    names = {**subject.constants, **before, **spelled}
    evaluation = _Evaluation(subject, reference, said, place, names, {**arrays, **names})
    return evaluation.references()


#: What NumPy makes of objects, texts, times and complex numbers, none of which an output holds.
_NO_NUMBERS = "OUSmMc"


class _Evaluation:
    """The evaluations of one reference."""

    def __init__(
        self,
        subject: Subject,
        reference: Reference,
        said: str,
        place: Span | None,
        names: Mapping[str, Any],
        arrays: Mapping[str, Any],
    ) -> None:
        self.subject = subject
        self.reference = reference
        self.said = said
        self.place = place
        self.names = names
        self.arrays = arrays

    def references(self) -> References:
        """Evaluate exactly where that is possible, else as written."""
        start = time.perf_counter()
        exact = self._exactly()
        took = time.perf_counter() - start
        values = exact if exact is not None else self._values(self.names)
        found = References(values, "as written" if exact is None else "float64")
        for name, value in values.items():
            dtype = dtype_of(value) if is_array(value) else "f64"
            found.units[name] = 0.0 if dtype == "f64" or dtype not in UNIT else UNIT[dtype]
        if exact is not None:
            self._condition(found, took)
        return found

    def _exactly(self) -> dict[str, Any] | None:
        """Return the values on float64 copies; None where that fails or changes nothing."""
        if not any(map(_narrow, self.arrays.values())):
            return None
        try:
            values = self._values(self._converted("f64"))
        except (Exception, SystemExit):
            return None  # what is wrong with it is said of it as written
        if any(
            is_array(value)
            and tuple(value.shape) != tuple(self.subject.arguments[name].shape)
            and to_numpy(value).size != 1
            for name, value in values.items()
        ):
            return None
        changed = any(is_array(value) and dtype_of(value) == "f64" for value in values.values())
        return values if changed else None

    def _condition(self, found: References, took: float) -> None:
        """Measure how strongly rounding shows in each element."""
        exact = {
            name: to_numpy(value) for name, value in found.values.items()
            if is_array(value) and is_float(dtype_of(value))
        }  # fmt: skip
        sums: dict[str, Floats] = {}
        values: dict[str, Floats] = {}
        if took <= 4 * SECONDS and not any(_is_wide(v) for v in self.arrays.values()):
            for name, narrow in self._again("f32").items():
                if name in exact and narrow.shape == exact[name].shape:
                    # What overflows in float32 on the way does so in a right kernel too.
                    lost = ~np.isfinite(narrow) & np.isfinite(exact[name])
                    if lost.any():
                        exact[name] = np.where(lost, narrow, exact[name])
                        found.values[name] = exact[name]
                    sums[name] = block_maxima(_apart(narrow, exact[name])) / UNIT["f32"]
        written: dict[str, Floats] = {}
        if took <= SECONDS:
            values, written = self._answers(exact), self._written(exact)
        for name in exact:
            found.conditioning[name] = Conditioning(
                sums.get(name), values.get(name), written.get(name)
            )

    def _written(self, exact: Mapping[str, Floats]) -> dict[str, Floats]:
        """Measure what the reference rounds where it is evaluated in its arguments' narrow type."""
        units = {dtype_of(value): UNIT[dtype_of(value)]
                 for value in self.arrays.values() if _narrow(value)}  # fmt: skip
        if not any(unit > UNIT["f32"] for unit in units.values()):
            return {}
        try:
            values = self._values(self.names)
        except (Exception, SystemExit):
            return {}
        found: dict[str, Floats] = {}
        for name, value in values.items():
            unit = UNIT.get(dtype_of(value), 0.0) if is_array(value) else 0.0
            if unit > UNIT["f32"] and name in exact and value.shape == exact[name].shape:
                found[name] = block_maxima(_apart(to_numpy(value), exact[name])) / unit
        return found

    def _answers(self, exact: Mapping[str, Floats]) -> dict[str, Floats]:
        """Return how far the reference moves when its inputs do, per unit of relative change."""
        answers: dict[str, Floats] = {}
        for name, turned in self._again("f64", _TURN).items():
            if name in exact and turned.shape == exact[name].shape:
                answers[name] = _apart(turned, exact[name]) / _TURN
        suspicious = [
            name for name, moved in answers.items()
            if (moved > 64 * np.abs(exact[name]) + 1e-300).any()
        ]  # fmt: skip
        if suspicious:
            smaller = self._again("f64", _SMALL_TURN)
            for name in suspicious:
                moved = _apart(smaller[name], exact[name]) / _SMALL_TURN
                jumps = moved > 8 * answers[name]
                answers[name] = np.where(jumps, 0.0, answers[name])
        return {name: block_maxima(moved) for name, moved in answers.items()}

    def _again(self, dtype: str, turn: float = 0.0) -> dict[str, Floats]:
        """Evaluate once more, in a type and on inputs turned by a relative amount."""
        try:
            values = self._values(self._converted(dtype, turn))
        except (Exception, SystemExit):
            return {}
        return {name: to_numpy(value) for name, value in values.items() if is_array(value)}

    def _converted(self, dtype: str, turn: float = 0.0) -> dict[str, Any]:
        """Return the names with narrow floats converted to float32 or float64."""
        rng = np.random.default_rng(0)
        converted: dict[int, Any] = {}
        names = dict(self.names)
        for name, value in self.arrays.items():
            if not _narrow(value):
                continue
            if id(value) not in converted:  # an argument and the word that names it are one
                converted[id(value)] = _turned(_as(value, dtype), turn, rng)
            names[name] = converted[id(value)]
        return names

    def _values(self, names: Mapping[str, Any]) -> dict[str, Any]:
        value: Any = None
        try:
            with _same_random_numbers():
                value = self.reference(names)
                if callable(value) and not is_array(value):
                    value = call_by_name(value, names)
        except KernelError:
            raise
        except Exception as error:
            message = f"the reference {self.said} raised {type(error).__name__}: {error}"
            hint = None
            if callable(value):  # it got what its parameters name, as far as they can be known
                first = next((name for name, held in names.items() if is_array(held)), "x")
                hint = f"say what it gets, e.g. {self.said}({first})"
            raise CheckError(message, self.place, code="K603", hint=hint) from error
        found = _by_output(self.subject.outputs, value, self.said, self.place)
        for name, one in found.items():
            if to_numpy(one).dtype.kind in _NO_NUMBERS:
                raise CheckError(
                    f"the reference {self.said} gives {_kind(one)} for {name}, which no output can "
                    "hold", self.place, code="K602",
                    hint="give one value for each element of the output, or a single number",
                )  # fmt: skip
        return found


def _kind(value: Any) -> str:
    """Return what a value is, in a word or two."""
    return f"{to_numpy(value).dtype} numbers" if is_array(value) else type(value).__name__


def _by_output(
    outputs: tuple[str, ...], value: Any, said: str, place: Span | None
) -> dict[str, Any]:
    if isinstance(value, Mapping):
        unknown = [str(name) for name in value if name not in outputs]
        if not unknown and value:
            return dict(value)
        found = f"names {', '.join(unknown)}" if unknown else "is an empty dict"
    elif isinstance(value, (tuple, list)):
        if len(value) == len(outputs):
            return dict(zip(outputs, value, strict=True))
        found = f"gives {len(value)} values"
    elif len(outputs) == 1:
        return {outputs[0]: value}
    else:
        found = "gives one value"
    raise CheckError(
        f"the reference {said} {found}; the outputs are {', '.join(outputs)}",
        place,
        code="K602",
        hint="give a tuple in parameter order, or a dict by parameter name",
    )


def _interpreted(subject: Subject, before: Mapping[str, Any]) -> dict[str, Any]:
    values = host_copies(before)
    arguments = [values[parameter.name] for parameter in subject.module.parameters]
    run_module(subject.module, subject.grid, arguments)
    return {name: values[name] for name in subject.outputs}


def _narrow(value: Any) -> bool:
    """Whether a value is an array of floats of at most 32 bits."""
    return is_array(value) and dtype_of(value) in UNIT and dtype_of(value) != "f64"


def _is_wide(value: Any) -> bool:
    return is_array(value) and dtype_of(value) == "f64"


def _as(value: Any, dtype: str) -> Any:
    """Return a copy of an array in float32 or float64."""
    if is_tensor(value):
        value = value.detach()
        return (value.double() if dtype == "f64" else value.float()).clone()
    return np.array(value, np.float64 if dtype == "f64" else np.float32)


def _turned(value: Any, turn: float, rng: np.random.Generator) -> Any:
    """Return an array with each element made larger or smaller by a relative amount."""
    if not turn:
        return value
    signs: Any = 2 * rng.integers(0, 2, tuple(value.shape), np.int8) - 1
    if is_tensor(value):
        signs = sys.modules["torch"].from_numpy(signs).to(value)
    return value * (1 + turn * signs)


def _apart(values: Floats, exact: Floats) -> Floats:
    with np.errstate(invalid="ignore"):
        return np.abs(values - exact)


@contextlib.contextmanager
def _same_random_numbers() -> Iterator[None]:
    """Leave torch's generator as it was, so that every evaluation draws the same numbers."""
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(devices=list(devices)):
        yield
