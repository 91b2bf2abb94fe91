"""From an option line to a plan: expressions become callables, arguments get parameter names."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from workbench.bench.plan import Peer, Plan
from workbench.bench.sweep import points_of
from workbench.interpreter import checked_report
from workbench.magics.options import Request
from workbench.magics.values import Expression, part_span, split_top_level
from workbench.source import KernelSource, OptionError, shown
from workbench.tuning.tune import SECONDS


def make_plan(request: Request, source: KernelSource, namespace: Mapping[str, Any]) -> Plan:
    """Return what an option line asks to be done with a kernel; names mean what they do now."""
    arguments, words = _arguments(request, source, namespace)
    points = points_of(
        {axis.name: axis.values(namespace) for axis in request.axes},
        request.cross_axes,
        request.place("axes"),
    )
    check = request.check
    reference = check if isinstance(check, Expression) else None
    return Plan(
        arguments=arguments,
        words=words,
        make=_make(request, namespace),
        points=points,
        signature=request.sig,
        assume=request.assume,
        grid=_later(request.grid, namespace, "K111") if request.grid is not None else None,
        settings=_settings(request, namespace),
        target=request.target,
        reference=_later(reference, namespace, "K603") if reference is not None else None,
        interpreted=check == "interpreter",
        reference_text=reference.text if reference is not None else "",
        rtol=request.rtol,
        atol=request.atol,
        timed=request.bench,
        peers=tuple(
            Peer(baseline.name, None if baseline.known else baseline.expression.text)
            for baseline in request.baselines
        ),
        flops=_count(request.flops, namespace),
        bytes=_count(request.bytes, namespace),
        metric=request.metric,
        warm=request.warm,
        cached=not request.no_cache,
        run=not request.no_run,
        tune={axis.name: axis.values(namespace) for axis in request.tune},
        tuned=bool(request.tune) or request.tune_for is not None,
        tune_seconds=request.tune_for or SECONDS,
        guard=request.guard,
        unguarded=request.no_guard,
        report=checked_report(request.report),
        isolate=request.isolate,
        show=request.show or (),
        embed=request.embed,
        namespace=namespace,
        places=request.places,
    )


def _later(
    expression: Expression, namespace: Mapping[str, Any], code: str
) -> Callable[[Mapping[str, Any]], Any]:
    return lambda names: expression.evaluate({**namespace, **names}, code)


def _count(
    expression: Expression | None, namespace: Mapping[str, Any]
) -> Callable[[Mapping[str, Any]], float] | None:
    if expression is None:
        return None

    def evaluate(names: Mapping[str, Any]) -> float:
        try:
            value = expression.evaluate({**namespace, **names}, "K119")
        except OptionError as error:
            cause = error.__cause__
            if isinstance(cause, NameError):
                message = f"{expression.option}: name '{cause.name}' is not a parameter or axis"
                known = ", ".join(name for name in names if name not in namespace)
                raise OptionError(
                    message, expression.span, code="K119", hint=f"there are: {known}"
                ) from None
            raise
        try:
            count = float(value)
        except (TypeError, ValueError, OverflowError):
            count = math.nan
        if not 0 <= count < math.inf:
            message = f"{expression.option} counts what a launch does, got {shown(value)}"
            raise OptionError(message, expression.span, code="K119", hint="give a number ≥ 0")
        return count

    return evaluate


def _make(request: Request, namespace: Mapping[str, Any]) -> Callable[..., Any] | None:
    if request.make is None:
        return None
    make = request.make.evaluate(namespace)
    if not callable(make):
        raise OptionError(
            f"--make needs a function that returns the arguments, got a {type(make).__name__}",
            request.place("make"),
            code="K115",
        )
    return make


def _settings(request: Request, namespace: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value.evaluate(namespace, "K112", _one_by_one(name, value.text))
        for name, value in request.settings
    }


def _one_by_one(name: str, text: str) -> str | None:
    """Return a hint where several settings were given as one, as in `A=1,B=2`."""
    first, *others = split_top_level(text, ",")
    if not others or not all(re.match(r"\s*[A-Za-z_]\w*\s*=[^=]", other) for other in others):
        return None
    settings = [f"{name}={first.strip()}", *(other.strip() for other in others)]
    return "one setting at a time: " + " ".join(f"--set {setting}" for setting in settings)


def _arguments(
    request: Request, source: KernelSource, namespace: Mapping[str, Any]
) -> tuple[dict[str, Any] | None, dict[str, str]]:
    """Return `--args` by parameter name, and the plain names among its words."""
    if request.args is None:
        return None, {}
    parameters = [p for p in source.parameters if not p.is_constexpr]
    values, texts = _values(request.args, namespace)
    required = [p.name for p in parameters if p.required]
    if not len(required) <= len(values) <= len(parameters):
        names = ", ".join(p.name for p in parameters)
        raise OptionError(
            f"--args gives {len(values)} values, {source.name} takes {len(parameters)}: {names}",
            request.place("args"),
            code="K110",
            hint="constexpr parameters go to --set",
        )
    names = [p.name for p in parameters]
    words = {
        text: name
        for text, name in zip(texts, names, strict=False)
        if text.isidentifier() and text not in names
    }
    return dict(zip(names, values, strict=False)), words


def _values(expression: Expression, namespace: Mapping[str, Any]) -> tuple[list[Any], list[str]]:
    if expression.is_object:
        given = expression.value
        values = list(given) if isinstance(given, (tuple, list)) else [given]
        return values, [""] * len(values)
    texts = [text.strip() for text in split_top_level(expression.text, ",")]
    texts = texts[:-1] if texts and not texts[-1] else texts
    values: list[Any] = []
    start = 0
    for text in texts:
        start = expression.text.index(text, start)
        place = part_span(expression.span, expression.text, start, start + len(text))
        values.append(replace(expression, text=text, span=place).evaluate(namespace))
        start += len(text)
    return values, texts
