"""`%bisect`, `%diff` and `%follow`: what they parse, and what they ask.

Each has a function of the same name that needs no IPython; the magics are at the end.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from workbench.bench.binding import Binder
from workbench.bench.plan import Plan
from workbench.bench.subject import Subject
from workbench.magics import registry
from workbench.magics.options import Request
from workbench.magics.planning import make_plan
from workbench.questions.answers import Answer
from workbench.questions.first_wrong import find_first_wrong
from workbench.source import OptionError

Namespace = Mapping[str, Any]


def bisect(
    kernel: Any = None,
    request: Request | None = None,
    namespace: Namespace | None = None,
    other: Any = None,
) -> Answer:
    """Return where the first wrong op of a kernel's launch is.

    Args:
        kernel: a name, a result or a kernel object; the latest result if None.
        request: options; what is not given is as it was in the kernel's latest run.
        namespace: where names are looked up first.
        other: a right version of the kernel, which takes the same arguments in the same order.

    Raises:
        OptionError: K129 for an unknown kernel, K110 where nobody knows the arguments.
        CheckError: K602 or K603 for a reference that does not fit or fails.
    """
    request = request or Request()
    names = dict(namespace or {})
    entry, known = _kernel(kernel, names)
    plan = _plan(entry, known, request, names)
    subject = _subject(entry, plan)
    beside = None
    if other is not None:
        right, right_known = _kernel(other, names)
        beside = _subject(right, _same_launch(plan, right_known, entry, right))
    reference = plan.reference
    return find_first_wrong(
        subject, reference, plan.reference_text, other=beside, rtol=plan.rtol, atol=plan.atol
    )


def _kernel(what: Any, names: Mapping[str, Any]) -> tuple[Any, Plan | None]:
    """Return a kernel object, and the plan of its latest run if there is one."""
    found: Any = names.get(what) if isinstance(what, str) else what
    if hasattr(found, "kernel_source"):
        latest = registry.latest(found.kernel_source.name)
        fits = latest is not None and latest.kernel is found
        return found, latest.plan if latest is not None and fits else None
    result = registry.find(what, names)
    return result.kernel, result.plan


def _plan(entry: Any, known: Plan | None, request: Request, names: Mapping[str, Any]) -> Plan:
    source = entry.kernel_source
    if request.args is not None or request.make is not None:
        asked = make_plan(request, source, names)
        if known is not None and asked.reference is None:
            asked = replace(
                asked, reference=known.reference, reference_text=known.reference_text,
                grid=asked.grid or known.grid, settings={**known.settings, **asked.settings},
            )  # fmt: skip
        return asked
    if known is None or (known.arguments is None and known.make is None):
        raise OptionError(
            f"what are the arguments of {source.name}?", code="K110",
            hint="add --args x,y,… or --make f, and --check for what is right",
        )  # fmt: skip
    asked = make_plan(request, source, names)
    target = request.target if request.target != "auto" else known.target
    changed: dict[str, Any] = {"settings": {**known.settings, **asked.settings}, "target": target}
    if asked.grid is not None:
        changed["grid"] = asked.grid
    if asked.reference is not None:
        changed |= {"reference": asked.reference, "reference_text": asked.reference_text}
    return replace(known, **changed)


def _same_launch(plan: Plan, own: Plan | None, entry: Any, other: Any) -> Plan:
    """Return the plan of the same launch for another version: arguments go by their places."""
    mine, theirs = (
        [p.name for p in kernel.kernel_source.parameters if not p.is_constexpr]
        for kernel in (entry, other)
    )
    if len(mine) != len(theirs):
        raise OptionError(
            f"{other.kernel_source.name} takes {len(theirs)} arguments, "
            f"{entry.kernel_source.name} {len(mine)}", code="K110",
            hint="a right version takes the same arguments in the same order",
        )  # fmt: skip
    arguments = plan.arguments
    if arguments is not None and mine != theirs:
        arguments = {theirs[mine.index(n)]: v for n, v in arguments.items() if n in mine}
    constants = {p.name for p in other.kernel_source.parameters if p.is_constexpr}
    theirs_too = {p.name for p in entry.kernel_source.parameters if p.is_constexpr} - constants
    settings = {name: v for name, v in plan.settings.items() if name not in theirs_too}
    if own is not None:
        settings = {**settings, **own.settings}
    grid = own.grid if own is not None and own.grid is not None else plan.grid
    return replace(plan, arguments=arguments, settings=settings, grid=grid, words={})


def _subject(kernel: Any, plan: Plan) -> Subject:
    binder = Binder(kernel, kernel.kernel_source, plan)
    return binder.bind(plan.points[-1])


def as_json(data: Any) -> str:
    """Return plain data as the command line and `--json` print it."""
    return json.dumps(data, indent=1)
