"""The schedule of a pipelined loop in words: roles, how far ahead steps are, rings of buffers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from workbench.trace import Links, Pipeline, Ring, Step, Trace

#: Says of an op in which line of the source it stands, None: in none.
Line = Callable[[int], int | None]

HEAD = ("role", "when", "line", "step")


def line_in(trace: Trace) -> Line:
    """Return what says of the ops of a trace where they stand."""
    links = Links(trace)

    def line(op: int) -> int | None:
        place = links.line_of(op)
        return None if place is None else place[1]

    return line


def title(pipeline: Pipeline, line: Line) -> str:
    """Name a loop by its line."""
    where = line(pipeline.loop)
    return "a loop" if where is None else f"the loop in line {where}"


def ring_words(ring: Ring) -> str:
    """Say how large a ring is and what tells that its slots are filled and read."""
    barriers = [name for name, op in (("full", ring.full), ("empty", ring.empty)) if op is not None]
    told = f"barriers {' and '.join(barriers)}" if barriers else "no barriers in memory"
    return f"{ring.value}: {ring.slots} slots × {ring.bytes:,} bytes, {told}"


def role_words(pipeline: Pipeline, role: int) -> str:
    """Say how many warps a role has, and the registers that its threads are given."""
    warps = pipeline.warps[role] if role < len(pipeline.warps) else None
    registers = pipeline.registers[role] if role < len(pipeline.registers) else None
    words = [] if warps is None else [f"{warps} warp{'s' * (warps != 1)}"]
    words += [] if registers is None else [f"{registers} registers a thread"]
    return f"{pipeline.roles[role]}: {', '.join(words)}" if words else pipeline.roles[role]


def when(pipeline: Pipeline, step: Step) -> str:
    """Say in which round of its loop a step belongs."""
    if step.phase != "round":
        return f"{step.phase} the loop"
    if step.stage == 0:
        return "this round"
    count = abs(step.stage)
    rounds = "a round" if count == 1 else f"{count} rounds"
    if step.stage > 0:
        return f"{rounds} late"
    # One that waits for slots alone runs ahead as far as there are some.
    alone = len(pipeline.roles) > 1 and pipeline.roles[step.role] == "producer"
    return f"up to {rounds} ahead" if alone else f"{rounds} ahead"


def step_words(step: Step) -> str:
    """Say what a step does, and how many products are under way then."""
    count = step.in_flight
    if not count:
        return step.text
    return f"{step.text} ({count} product{'s' * (count != 1)} under way)"


def lines_of(step: Step, line: Line) -> str:
    """Return the lines that a step's ops stand in: "41", "41-53"."""
    found = sorted({number for op in step.ops if (number := line(op)) is not None})
    if not found:
        return ""
    return str(found[0]) if len(found) == 1 else f"{found[0]}-{found[-1]}"


def rows(pipeline: Pipeline, line: Line) -> list[tuple[str, str, str, str]]:
    """Return the steps of a loop as rows under HEAD, in program order role by role."""
    return [
        (
            pipeline.roles[step.role],
            when(pipeline, step),
            lines_of(step, line),
            step_words(step),
        )
        for step in pipeline.steps
    ]


def text(pipelines: Sequence[Pipeline], line: Line) -> str:
    """Return schedules as text."""
    parts: list[str] = []
    for pipeline in pipelines:
        table = [HEAD, *rows(pipeline, line)]
        widths = [max(len(row[n]) for row in table) for n in range(len(HEAD))]
        parts.append("\n".join([
            title(pipeline, line),
            *(f"  {role_words(pipeline, role)}" for role in range(len(pipeline.roles))),
            *(f"  {ring_words(ring)}" for ring in pipeline.rings),
            *(
                "  ".join(f"{c:<{w}}" for c, w in zip(row, widths, strict=True)).rstrip()
                for row in table
            ),
        ]))  # fmt: skip
    return "\n\n".join(parts)
