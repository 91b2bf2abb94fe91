"""Check a kernel's result against a reference: an expression, a function, or the interpreter."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from workbench.bench.arrays import clone, copies_of, dtype_of, offset_of, shape_of, to_numpy
from workbench.bench.compare import Comparison, compare
from workbench.bench.guarding import launch_in_time
from workbench.bench.likely import likely_causes
from workbench.bench.locate import Search, who_stored
from workbench.bench.phases import say
from workbench.bench.reference import How, Reference, References, references
from workbench.bench.roundings import Roundings, roundings
from workbench.bench.subject import Subject
from workbench.bench.tolerances import Conditioning, Given, Model
from workbench.bench.unwritten import described, unwritten
from workbench.ir import element_of
from workbench.ops import Store
from workbench.source import CheckError, LaunchError, Note, Span, checking
from workbench.trace import Check, Mismatch


@dataclass(slots=True)
class Verdict:
    """The result of one check: the record for the Trace, and the error if it failed.

    A launch whose programs race fails with a LaunchError, whatever its result is.

    `unwritten` says of outputs that are right where the kernel left them alone.
    """

    record: Check
    comparisons: tuple[Comparison, ...]
    error: CheckError | LaunchError | None = None
    unwritten: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether every output is within its tolerance."""
        return self.error is None


def check_launch(
    subject: Subject,
    reference: Reference | References | None,
    said: str,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    synchronize: Callable[[], object] = lambda: None,
    place: Span | None = None,
    others: Mapping[str, Any] | None = None,
) -> Verdict:
    """Launch once and compare every output with the reference.

    `reference` gets copies of the arguments from before the launch (None: the interpreter runs the
    kernel on them), unless it is what that gave for equal arguments; `said` names it in messages;
    `place` is where it was asked for; `others` are arrays that it may name besides. What may differ
    says tolerances.py, unless `rtol` and `atol` do. Raises CheckError K602 or K603 for a reference
    that does not fit or fails.
    """
    if not subject.outputs:
        raise CheckError(
            f"{subject.name} stores to none of its arguments, so there is nothing to check",
            place,
            code="K602",
            hint="store the result through a pointer parameter",
        )
    before = copies_of(subject.arguments, {*subject.outputs})
    with checking():
        launch_in_time(subject, before, subject.launch)
        synchronize()
        if isinstance(reference, References):
            found = reference
        else:
            found = references(subject, reference, before, said, place, others)
    executed = roundings(subject.module, subject.grid, subject.scalars, subject.target)
    given = Given(rtol, atol)
    comparisons: list[Comparison] = []
    for name, want in found.values.items():
        model = model_of(subject, name, found, executed, want)
        try:
            comparisons.append(compare(name, subject.arguments[name], want, model, given))
        except ValueError as error:
            raise CheckError(
                str(error), place, code="K602",
                hint="give one value for each element of the output, or a single number",
            ) from error  # fmt: skip
    failed = [comparison for comparison in comparisons if not comparison.ok]
    search = _search(subject, failed[0], before) if failed and failed[0].first else Search()
    error = _error(subject, failed[0], said, search, before) if failed else None
    record = _record(subject, comparisons, said, search, found.how, given)
    verdict = Verdict(record, tuple(comparisons), error)
    if not failed:
        _look_for_unwritten(subject, verdict, before, said, synchronize, reference is None)
    return verdict


def _look_for_unwritten(
    subject: Subject,
    verdict: Verdict,
    before: Mapping[str, Any],
    said: str,
    synchronize: Callable[[], object],
    interpreted: bool,
) -> None:
    """Enter into a verdict what a right result hides: elements that were right all along.

    Some of an output may be meant to stay; a launch that wrote nothing of one shows nothing. A
    reference that reads an output says itself what stays of it.
    """
    words = set() if interpreted else set(re.findall(r"\w+", said))
    for name, left in unwritten(subject, before, synchronize).items():
        shown = subject.spelled(name)
        if words & {name, shown} or not left.any():
            continue
        if left.all() and prod(subject.grid):
            verdict.record = replace(verdict.record, ok=False)
            verdict.error = CheckError(
                f"nothing was written to {shown}: what it holds, which is right, was there before",
                _store_span(subject, name),
                code="K604",
                hint="is the mask of the store always off, or does it go elsewhere?",
            )
        elif not interpreted:
            verdict.unwritten += (described(shown, left),)


def model_of(
    subject: Subject, name: str, found: References, executed: Roundings, comparing: Any
) -> Model:
    """Return the errors that a right launch may make in an output."""
    conditioning = found.conditioning.get(name, Conditioning())
    floor = 0.0
    if conditioning.sums is None and conditioning.values is None:
        # Nothing is known of what was summed up: take it to be as large as the output is.
        want = np.atleast_1d(to_numpy(comparing))
        finite = want[np.isfinite(want)] if want.dtype.kind == "f" else want[:0]
        if finite.size:
            longest = max(executed.count.values(), default=1)
            floor = float(np.sqrt(np.mean(finite * finite))) * max(1.0, longest**0.5 / 2)
    dtype = dtype_of(subject.arguments[name])
    return Model(dtype, executed, conditioning, found.units.get(name, 0.0), floor)


def _search(subject: Subject, failed: Comparison, before: Mapping[str, Any]) -> Search:
    """Find out who stored the wrong elements of one output."""
    say(f"looking for the program that stored {failed.name}")
    array = before[failed.name]
    elements = {offset_of(array, difference.index): difference for difference in failed.first}
    flat = int(np.ravel_multi_index(failed.first[0].index, shape_of(array))) if array.shape else 0
    share = flat / max(failed.total, 1)
    copies = {name: clone(value) for name, value in before.items()}
    return who_stored(subject.module, subject.grid, copies, failed.name, set(elements), share)


def _error(
    subject: Subject, failed: Comparison, said: str, search: Search, before: Mapping[str, Any]
) -> CheckError:
    if not failed.first:
        return _shifted(subject, failed, said)
    first = failed.first[0]
    element = offset_of(subject.arguments[failed.name], first.index)
    storing = search.found.get(element)
    index = f"[{', '.join(map(str, first.index))}]" if first.index else ""
    shown = subject.spelled(failed.name)
    note = f"{shown}{index} = {first.got:.6g}, expected {first.want:.6g}"
    hint = None
    if storing is not None and storing.program is not None:
        note += f"; stored by program {storing.program}"
    elif search.nobody(element):
        note += f"; no program stored it. {_covered(subject, failed, search)}"
        hint = _grid_hint(subject, failed, search)
    notes: list[Note | str] = [note]
    if failed.nans:
        count = f"{failed.nans:,} elements are" if failed.nans != 1 else "one element is"
        notes.append(f"{count} NaN where the reference is not")
    if not search.findings:
        notes += likely_causes(subject, failed, before, is_stored=storing is not None)
    notes += [
        Note(f"program {finding.program}: {finding.message}", finding.span)
        for finding in search.findings[:2]
    ]
    edited = subject.compiled is not None and subject.compiled.signature.override is not None
    if hint is None and not edited:
        # which looks at the kernel as it is written
        hint = f"%bisect {subject.name} names the first wrong op"
    usual = "" if failed.usual is None else f"usual {failed.usual:.2g}, "
    return CheckError(
        f"{shown} differs from {said}: {failed.wrong:,} of {failed.total:,} elements, "
        f"max abs error {failed.largest_absolute:.3g} ({usual}allowed {failed.allowed:.2g})",
        storing.span if storing is not None else _store_span(subject, failed.name),
        notes=notes,
        hint=hint,
    )


def _shifted(subject: Subject, failed: Comparison, said: str) -> CheckError:
    """Say that an output is right to within rounding in each element, and wrong on average."""
    shift = failed.shift
    assert shift is not None
    shown = subject.spelled(failed.name)
    what = f"{1 + shift.mean:.6g} times" if shift.relative else f"{shift.mean:+.3g} off"
    return CheckError(
        f"{shown} differs from {said} on average: it is {what} the reference "
        f"(rounding explains {shift.allowed:.2g}), {shift.deviations:,.0f} standard errors",
        _store_span(subject, failed.name),
        notes=[
            f"no single element is off by more than rounding may be: max abs error "
            f"{failed.largest_absolute:.3g}, usual {failed.usual or 0:.2g}"
        ],
        hint="look for a factor or a term that the reference does not have; --rtol and --atol "
        "replace this test",
    )


def _covered(subject: Subject, failed: Comparison, search: Search) -> str:
    constants = " ".join(f"{name}={value}" for name, value in subject.constants.items())
    settings = f" with {constants}" if constants else ""
    covered = sorted(search.covered)
    if not covered:
        return f"Grid {subject.grid}{settings} stores nothing to {subject.spelled(failed.name)}"
    if covered[-1] - covered[0] + 1 == len(covered):
        place = f"{subject.spelled(failed.name)}[{covered[0]}:{covered[-1] + 1}]"
        return f"Grid {subject.grid}{settings} covers {place}"
    return f"Grid {subject.grid}{settings} covers {len(covered)} elements"


def _grid_hint(subject: Subject, failed: Comparison, search: Search) -> str | None:
    """Say which grid would cover the output, where each program stores the same number."""
    count, total = len(search.covered), failed.total
    if not count or count >= total or len(subject.grid) != 1 or count % subject.grid[0]:
        return None
    each = count // subject.grid[0]
    block = next((name for name, value in subject.constants.items() if value == each), None)
    extent = next((name for name, value in subject.scalars.items() if value == total), None)
    grid = f'"cdiv({extent}, {block})"' if block and extent else str(-(-total // each))
    return f"the grid covers {count} of {total} elements; use --grid {grid}"


def _store_span(subject: Subject, name: str) -> Span | None:
    """Return the place of the last store through pointers of an array, else of the last store."""
    stores = [op for op in subject.module.walk() if op.writes_memory]
    dtype = dtype_of(subject.arguments[name])
    fitting = [op for op in stores if str(element_of(op.operands[1].type)) == dtype] or stores
    return fitting[-1].span if fitting else None


def _record(
    subject: Subject,
    comparisons: list[Comparison],
    said: str,
    search: Search,
    how: How,
    given: Given,
) -> Check:
    failed = next((c for c in comparisons if not c.ok), None)
    shift = failed.shift if failed else None
    usual = [c.usual for c in comparisons if c.usual is not None]
    first: list[Mismatch] = []
    for difference in failed.first if failed else ():
        assert failed is not None
        element = offset_of(subject.arguments[failed.name], difference.index)
        storing = search.found.get(element)
        unknown = storing is None and not search.nobody(element)
        store = _store_op(subject) if unknown else None
        first.append(
            Mismatch(
                out=failed.name,
                index=difference.index,
                got=difference.got,
                want=difference.want,
                program=storing.number if storing else None,
                op=storing.op if storing else store,
            )
        )
    return Check(
        ok=failed is None,
        ref=said,
        reference=how,
        rtol=given.rtol,
        atol=given.atol,
        usual=max(usual, default=None),
        shift=None if shift is None else shift.mean,
        shift_relative=shift is not None and shift.relative,
        wrong=sum(c.wrong for c in comparisons),
        total=sum(c.total for c in comparisons),
        max_abs=max(c.largest_absolute for c in comparisons),
        max_rel=max(c.largest_relative for c in comparisons),
        nan=sum(c.nans for c in comparisons),
        first=tuple(first),
    )


def _store_op(subject: Subject) -> int | None:
    stores = [op.id for op in subject.module.walk() if isinstance(op, Store)]
    return stores[-1] if stores else None
