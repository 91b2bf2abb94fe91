"""How findings are said: one set of texts and codes, whoever watched the run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from workbench.interpreter.recording import Finding
from workbench.source import LaunchError, Note, OptionError

#: What is done with a finding that is an error: raised, or shown as a remark.
Report = Literal["error", "remark"]

_WORDS = {
    "outside": "an access leaves the argument that was passed",
    "race": "two programs touch an element, one writes it, and nothing orders them",
    "doubled": "one store writes several values to one element: which one stays, nobody can tell",
    "acquire": "a plain load waits for another program",
    "uninitialised": "an element is read before anything wrote it",
    "promise": "a promise about a value does not hold",
    "assumption": "an assumption does not hold",
    "grouping": "elements are combined by a function that is not associative",
}
_CODES = {
    "race": "K514", "doubled": "K514", "acquire": "K514", "uninitialised": "K516",
    "promise": "K517", "assumption": "K517", "grouping": "K517", "outside": "K502",
}  # fmt: skip


def checked_report(report: str) -> Report:
    """Return what is to become of findings; raises OptionError K134 for an unknown word."""
    if report == "error" or report == "remark":
        return report
    raise OptionError(
        f'report is "error" or "remark", got {report!r}',
        hint="error raises what was found, remark leaves it in the result",
        code="K134",
    )


def grouped(findings: Sequence[Finding]) -> list[list[Finding]]:
    """Return findings by kind and op, in the order in which they came up."""
    groups: dict[tuple[str, str, int], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.kind, finding.severity, finding.op), []).append(finding)
    return list(groups.values())


def said_of(found: Sequence[Finding], report: Report = "error") -> LaunchError:
    """Return one sort of finding at one op as an error, which need not be raised."""
    first = found[0]
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    notes = [Note(f"program {first.program}: {first.message}{more}"), *first.notes]
    error = LaunchError(
        _WORDS[first.kind], first.span, code=_CODES[first.kind], notes=notes,
        hint=first.hint,
    )  # fmt: skip
    if first.severity == "remark" or report == "remark":
        error.kind = "remark"
    return error


def errors_of(findings: Sequence[Finding]) -> list[LaunchError]:
    """Return the findings that are errors, one for each kind and op."""
    return [said_of(found) for found in grouped(findings) if found[0].severity == "error"]


def error_of(findings: Sequence[Finding]) -> LaunchError | None:
    """Return the first error among findings, the rest in its `others`; None: there is none."""
    errors = errors_of(findings)
    if not errors:
        return None
    errors[0].others = tuple(errors[1:])
    return errors[0]
