"""Answers that a file or a notebook keeps beside its traces, as pages show them again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from workbench.source import OptionError
from workbench.trace import Trace, TraceError
from workbench.trace.answers import Comparison, Route, Walk
from workbench.trace.codec import decoder
from workbench.viewer.comparisons import answer_of
from workbench.viewer.output import Answer
from workbench.viewer.walks import route_answer, walk_answer, walk_html


def answer_in(beside: Mapping[str, Any], traces: Sequence[Trace]) -> Answer | None:
    """Return the answer in what stands beside traces, None where nothing was asked.

    Raises OptionError K801 for one that is damaged.
    """
    try:
        if "compare" in beside and len(traces) == 2:
            found = decoder(Comparison)(beside["compare"])
            text = f"A: {found.labels[0]}\nB: {found.labels[1]}\n{found.said}"
            return answer_of(found, (traces[0], traces[1]), text)
        if "follow" in beside:
            route = decoder(Route)(beside["follow"])
            rows = [f"{stop.where}: {stop.sentence}" for stop in route.stops]
            return route_answer(route, "\n".join([route.question, *rows]))
        if "step" in beside:
            walk = decoder(Walk)(beside["step"])
            return walk_answer(walk, f"{walk.kernel}: {len(walk.steps)} steps", walk_html(walk))
    except TraceError as error:
        raise OptionError(
            f"what was asked of the trace is damaged: {error}", code="K801"
        ) from error
    return None
