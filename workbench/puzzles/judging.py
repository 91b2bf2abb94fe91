"""Whether a kernel solves a puzzle: every case, in the interpreter and on the CPU, then its rules.

A check launches the kernel itself, from the stated signature, so nothing but the kernel can make
the result. Inputs and hidden sizes depend on a seed. Arrays lie between guards; outputs hold
garbage, another one in each run; an access outside an array is an error at its line. Every launch
is watched for races and for reads of what nobody wrote, once in the order of the grid and once in
another, so a race is found even where the result is right.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from workbench.bench.arrays import to_numpy
from workbench.bench.checking import model_of
from workbench.bench.compare import Comparison, compare
from workbench.bench.reference import References, references
from workbench.bench.roundings import roundings
from workbench.bench.subject import Subject, call_by_name
from workbench.bench.tolerances import Model
from workbench.interpreter import Finding, Recording, said_of
from workbench.ir import Scalar, Tile, element_of, shape_of
from workbench.ops import Dot, For, While
from workbench.puzzles.arguments import ODD, Arguments
from workbench.puzzles.puzzle import Case, Puzzle
from workbench.puzzles.trial import Attempt, Trial
from workbench.runtime.jit import JITFunction
from workbench.source import CheckError, KernelError, Note, Span

#: Seeds of the orders in which programs run besides: in both another one is first, and last.
_OTHER_ORDERS = (1, 4)
#: Options of a launch that a check may be given.
_OPTIONS = {"num_warps", "num_stages"}


@dataclass(slots=True)
class Judgement:
    """What judging found.

    Attributes:
        passed: the cases that went right, before the first that did not.
        error: why the attempt is refused, None if it is accepted.
        case: the case in which that came up, None for what concerns all.
        trial: of that case; of the shown one if it is accepted.
        comparison: the output that is wrong.
        wrong: which of its elements are.
    """

    passed: list[Case] = field(default_factory=list[Case])
    error: KernelError | None = None
    case: Case | None = None
    trial: Trial | None = None
    comparison: Comparison | None = None
    wrong: np.ndarray[Any, Any] | None = None

    @property
    def accepted(self) -> bool:
        """Whether the kernel solves the puzzle."""
        return self.error is None


def judge(puzzle: Puzzle, attempt: Attempt, seed: int) -> Judgement:
    """Judge an attempt; inputs and hidden sizes follow from the seed."""
    found = Judgement()
    try:
        _check_form(puzzle, attempt)
    except KernelError as error:
        found.error = error
        return found
    for number, case in enumerate(puzzle.cases(seed)):
        trial = Trial(puzzle, case, attempt, seed + number)
        try:
            _try(trial, found)
        except KernelError as error:
            found.error, found.case, found.trial = error, case, trial
            return found
        found.passed.append(case)
        if not number:
            found.trial = trial
    return found


# -- what was handed in -----------------------------------------------------------------------
def _check_form(puzzle: Puzzle, attempt: Attempt) -> None:
    """Raise CheckError K610 for what is no kernel of the stated signature."""
    kernel = attempt.kernel
    if type(kernel) is not JITFunction:
        what = getattr(kernel, "__name__", None) or type(kernel).__name__
        raise CheckError(
            f"puzzle {puzzle.number} takes a kernel, {what} is a {type(kernel).__name__}",
            code="K610",
            hint="hand in the function under @wb.jit itself: the check launches it, nothing else "
            "runs",
        )
    if kernel.pre_run_hooks:
        raise CheckError("a kernel with hooks cannot be judged", code="K610",
                         hint="hand in a kernel without add_pre_run_hook")  # fmt: skip
    constants = {p.name for p in kernel.params if p.is_constexpr}
    runtime = tuple(name for name in kernel.arg_names if name not in constants)
    if runtime != puzzle.parameters:
        raise CheckError(
            f"{kernel.__name__} takes {', '.join(runtime) or 'nothing'}", _span_of(kernel),
            code="K610", hint=f"the check launches {puzzle.signature}",
        )  # fmt: skip
    odd = sorted({*attempt.settings} - constants - _OPTIONS)
    if odd:
        raise CheckError(
            f"{kernel.__name__} has no constexpr {', '.join(odd)}", _span_of(kernel), code="K610",
            hint=f"besides constexprs a check takes {', '.join(sorted(_OPTIONS))}",
        )  # fmt: skip
    known = {*puzzle.constants, *attempt.settings}
    required = {
        p.name for p in inspect.signature(kernel.fn).parameters.values() if p.default is p.empty
    }
    unknown = sorted((constants & required) - known)
    if unknown:
        raise CheckError(
            f"nobody says what {', '.join(unknown)} is", _span_of(kernel), code="K610",
            hint=f"give it to the check: check({puzzle.number}, {kernel.__name__}, "
            f"{unknown[0]}=16)",
        )  # fmt: skip
    missing = sorted({*puzzle.constants} - constants)
    if missing:
        raise CheckError(
            f"{kernel.__name__} has no constexpr {', '.join(missing)}", _span_of(kernel),
            code="K610", hint=f"the check launches {puzzle.signature}",
        )  # fmt: skip


def _span_of(kernel: Any) -> Span | None:
    try:
        source = kernel.kernel_source
    except KernelError:
        return None
    line = source.source.first_line
    text = source.source.line(line)
    return Span(source.source.file, line, 1, line, len(text) + 1)


# -- one case ---------------------------------------------------------------------------------
def _try(trial: Trial, found: Judgement) -> None:
    """Run one case every way; raises KernelError for what is wrong."""
    _check_tiles(trial)
    _check_sums(trial)
    arguments, recording = trial.interpret()
    _check_findings(recording)
    _check_result(trial, arguments, recording, found, "interpreter")
    _check_reads(trial, recording)
    _check_writes(trial, recording)
    for order in _OTHER_ORDERS:
        arguments, other = trial.interpret(order, record=False)
        _check_findings(other)
        _check_result(trial, arguments, recording, found, "interpreter")
    _check_result(trial, trial.launch(ODD), recording, found, "cpu")


def _check_tiles(trial: Trial) -> None:
    """Raise CheckError K611 for a tile that is larger than the puzzle allows."""
    widest = trial.puzzle.widest
    for op in trial.module.walk():
        for value in op.results:
            if isinstance(value.type, Tile):
                count = 1
                for extent in shape_of(value.type):
                    count *= extent
                if count > widest:
                    raise CheckError(
                        f"a tile of {count} elements; this puzzle allows {widest}", op.span,
                        code="K611", hint="share the work among programs, or go round a loop",
                    )  # fmt: skip


def _check_sums(trial: Trial) -> None:
    """Raise CheckError K614 for a sum in less than float32: no bound could tell it from right."""
    for op in trial.module.walk():
        if not isinstance(op, For | While | Dot):
            continue
        for value in op.results:
            element = element_of(value.type)
            if isinstance(element, Scalar) and element.is_float and element.bits < 32:
                what = "this product" if isinstance(op, Dot) else "what this loop carries"
                raise CheckError(
                    f"{what} is {element}: sums lose too much there", op.span, code="K614",
                    hint="sum up in float32, e.g. from tl.zeros(..., tl.float32)",
                )  # fmt: skip


def _check_result(
    trial: Trial, arguments: Arguments, recording: Recording, found: Judgement, target: str
) -> None:
    """Raise CheckError K601 for an output that is wrong, or K612 for memory that was harmed."""
    where = "" if target == "interpreter" else " (launched on the CPU)"
    for comparison, wrong in _comparisons(trial, arguments, target):
        if not comparison.ok:
            found.comparison, found.wrong = comparison, wrong
            raise _difference(trial, comparison, recording, where)
    harmed = arguments.damaged()
    if harmed is not None:
        raise CheckError(harmed + where, code="K612", hint="is every store masked, at its place?")


def _comparisons(
    trial: Trial, arguments: Arguments, target: str
) -> Iterator[tuple[Comparison, np.ndarray[Any, Any]]]:
    """Yield each output compared with its reference, and which elements are wrong."""
    puzzle = trial.puzzle
    subject = trial.subject(arguments, target)

    held = _references(trial, subject, arguments)
    scalars = {**subject.scalars, **trial.case.sizes}
    executed = roundings(trial.module, trial.grid, scalars, target)
    # Only what the puzzle computes in may be a source of errors; sums are in float32 at least.
    wide = ("f32", "f64")
    count = {
        name: n if name in wide else 1
        for name, n in executed.count.items()
        if name in puzzle.precision
    }
    executed = replace(executed, count=count, any=True, truncated=frozenset())
    if all(array.dtype.is_floating_point is False for array in held.values.values()):
        executed = replace(executed, any=False)
    for name, want in held.values.items():
        model = model_of(subject, name, held, executed, want)
        comparison = compare(name, arguments.values[name], want, model)
        yield comparison, _wrong(to_numpy(arguments.values[name]), to_numpy(want), model)


def _references(trial: Trial, subject: Subject, arguments: Arguments) -> References:
    """Return what is right, which is the same for all runs of a trial."""
    known: References | None = vars(trial).get("right")
    if known is None:
        puzzle = trial.puzzle
        names = {**arguments.values, **arguments.before, **trial.case.sizes}
        known = references(
            subject, lambda given: call_by_name(puzzle.reference, given), names,
            f"the reference of puzzle {puzzle.number}", None,
        )  # fmt: skip
        vars(trial)["right"] = known
    return known


def _wrong(got: np.ndarray[Any, Any], want: np.ndarray[Any, Any], model: Model) -> Any:
    """Say which elements are wrong by more than rounding explains."""
    got, want = got.astype(np.float64), np.broadcast_to(want, got.shape).astype(np.float64)
    most = model.errors(want.ravel(), 0).most.reshape(got.shape)
    with np.errstate(invalid="ignore"):
        near = np.abs(got - want) <= most
    return ~(near | (got == want) | (np.isnan(got) & np.isnan(want)))


def _difference(
    trial: Trial, comparison: Comparison, recording: Recording, where: str
) -> CheckError:
    """Return the error for a wrong output: which element, expected and seen, who stored it."""
    name = comparison.name
    if not comparison.first:
        shift = comparison.shift
        return CheckError(
            f"{name} is off by {0 if shift is None else shift.mean:.3g} on average{where}",
            hint="look for a term or a factor that does not belong there",
        )
    first = comparison.first[0]
    index = f"[{', '.join(map(str, first.index))}]"
    stored = None
    for access in recording.accesses:
        here = access.write and access.live and access.argument == name
        if here and trial.index_of(name, access.element) == first.index:
            stored = access
    notes: list[Note | str] = [f"{name}{index}: expected {first.want:.6g}, seen {first.got:.6g}"]
    span = None
    if stored is None:
        notes.append(f"no program stored {name}{index}")
    else:
        span = trial.ops[stored.op].span
        notes.append(f"program {trial.program(stored.program)} stored it last")
    return CheckError(
        f"{comparison.wrong} of {comparison.total} elements of {name} are wrong{where}",
        span, notes=notes,
    )  # fmt: skip


def _check_findings(recording: Recording) -> None:
    """Raise what was found in a watched run; a race is one though values stayed the same."""
    counted = [f for f in recording.findings if f.severity == "error" or f.kind == "race"]
    if counted:
        first = counted[0]
        error = said_of([Finding(*first[:5], "error", *first[6:])])
        raise error


def _check_reads(trial: Trial, recording: Recording) -> None:
    """Raise CheckError K613 where an element is read more often than the puzzle allows."""
    seen: Counter[tuple[str, int]] = Counter()
    for access in recording.accesses:
        if access.live and not access.write and access.argument in trial.puzzle.once:
            key = access.argument, access.element
            seen[key] += 1
            if seen[key] > 1:
                index = trial.index_of(*key) or (access.element,)
                raise CheckError(
                    f"{access.argument}[{', '.join(map(str, index))}] is read more than once",
                    trial.ops[access.op].span, code="K613",
                    notes=[f"by program {trial.program(access.program)}, for the second time"],
                    hint="keep the value that was loaded",
                )  # fmt: skip


def _check_writes(trial: Trial, recording: Recording) -> None:
    """Raise CheckError K612 for a write to an input, though of what it held before."""
    for access in recording.accesses:
        held = trial.data.get(access.argument)
        if access.live and access.write and held is not None and held.role == "in":
            raise CheckError(
                f"{access.argument} is there to be read, and is written to",
                trial.ops[access.op].span, code="K612",
                notes=[f"by program {trial.program(access.program)}"],
                hint="keep values in tiles; only the outputs are stored",
            )  # fmt: skip
