"""What to do with a kernel: arguments or sizes, grid, check, baselines; all names resolved.

Magics and the command line make a Plan from an option line, `workbench.check` and `workbench.bench`
from Python values. Callables in it get the names of one launch: parameters, constexprs, and the
plain names that were given as arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from workbench.interpreter import Report
from workbench.source import Span

Names = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Peer:
    """One baseline: a known word (then `text` is None), an expression, or a callable."""

    name: str
    text: str | None = None
    call: Callable[..., object] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything that running a kernel once, or over several sizes, needs to know.

    `arguments` are given by parameter name, or `make` makes them from the axis values of each of
    `points`. `reference` computes what the outputs must be; with `interpreted` the interpreter
    does. `guard`, `unguarded` and `isolate` say how careful launches are (`guarding.py`), `report`
    what becomes of what the interpreter finds: "error" raises it, "remark" writes it down.
    With `tuned` a search among configurations, along the axes `tune`, comes first.
    `places` says where each of these was written, for errors.
    """

    arguments: Mapping[str, Any] | None = None
    words: Mapping[str, str] = field(default_factory=dict[str, str])
    make: Callable[..., Any] | None = None
    points: Sequence[Mapping[str, Any]] = ({},)
    signature: str | None = None
    assume: Sequence[str] = ()
    grid: Callable[[Names], Any] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    target: str = "auto"
    reference: Callable[[Names], Any] | None = None
    interpreted: bool = False
    reference_text: str = ""
    rtol: float | None = None
    atol: float | None = None
    timed: bool = False
    peers: Sequence[Peer] = ()
    flops: Callable[[Names], float] | None = None
    bytes: Callable[[Names], float] | None = None
    metric: str = "auto"
    warm: bool = False
    cached: bool = True
    run: bool = True
    tune: Mapping[str, Sequence[Any]] = field(default_factory=dict[str, Sequence[Any]])
    tuned: bool = False
    tune_seconds: float | None = None
    guard: bool = False
    unguarded: bool = False
    report: Report = "error"
    isolate: bool = False
    show: Sequence[str] = ()
    embed: str = "auto"
    namespace: Mapping[str, Any] = field(default_factory=dict[str, Any])
    places: Mapping[str, Span | None] = field(default_factory=dict[str, Span | None])

    @property
    def checked(self) -> bool:
        """Whether the result is to be compared with anything."""
        return self.interpreted or self.reference is not None

    @property
    def guarding(self) -> bool | None:
        """Whether launches on the CPU are guarded; None: as they are elsewhere."""
        return True if self.guard else False if self.unguarded else None

    def place(self, name: str) -> Span | None:
        """Return where the option `name` was written."""
        return self.places.get(name)
