"""Runs passes one after the other and remembers what each did.

Since modules are immutable, remembering is keeping references: nothing is printed or compared
until somebody looks.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Literal

from workbench.ir import Module, Op, verify_module
from workbench.passes.rules import Rule
from workbench.source import Span

Severity = Literal["error", "warning", "note", "missed", "applied"]


#: Who hears of each stage and pass as it begins: (stage, pass), the pass "" outside of passes.
follower: ContextVar[Callable[[str, str], object] | None] = ContextVar("follower", default=None)


def begin(stage: str, name: str = "") -> None:
    """Say that a stage, or a pass of it, begins now."""
    hears = follower.get()
    if hears is not None:
        hears(stage, name)


@dataclass(frozen=True, slots=True)
class Remark:
    """Why the compiler did or did not do something, tied to an op."""

    severity: Severity
    text: str
    pass_name: str = ""
    op: int = 0
    span: Span | None = None
    code: str = ""


#: Rules and the ids of the ops at which they were applied, in order.
Applied = list[tuple[Rule, int]]


class Remarks:
    """Collects remarks; `pass_name` is the pass that runs now."""

    def __init__(self) -> None:
        self._items: list[Remark] = []
        self._later: list[tuple[str, Callable[[], object]]] = []
        self.pass_name = ""
        #: What the pass that runs now has applied.
        self.rules: Applied = []

    @property
    def items(self) -> list[Remark]:
        """The remarks; what was to be said later is said first."""
        while self._later:
            before, count = self.pass_name, len(self._items)
            self.pass_name, say = first = self._later.pop(0)
            try:
                say()
            except BaseException:  # it is said whole, to whoever looks next
                del self._items[count:]
                self._later.insert(0, first)
                raise
            finally:
                self.pass_name = before
        return self._items

    def later(self, say: Callable[[], object]) -> None:
        """Have `say` make its remarks, as those of the pass that runs now, when somebody looks."""
        self._later.append((self.pass_name, say))

    def note(self, op: Op | None, text: str, severity: Severity = "note", code: str = "") -> None:
        """Record one remark about `op` (None: about the kernel)."""
        number, span = (op.id, op.span) if op is not None else (0, None)
        self._items.append(Remark(severity, text, self.pass_name, number, span, code))

    def aside(self) -> Remarks:
        """Return other remarks of the pass that runs now, of what may come to nothing."""
        other = Remarks()
        other.pass_name = self.pass_name
        return other

    def take(self, aside: Remarks) -> None:
        """Record what has been said aside, as the words of the pass that runs now."""
        self._items += (replace(item, pass_name=self.pass_name) for item in aside.items)

    def applied(self, rule: Rule, op: Op) -> None:
        """Record that a rule rewrote `op`; it is written out when somebody looks."""
        self.rules.append((rule, op.id))


Pass = Callable[[Module, Remarks], Module]

#: What stands for the pass in remarks that were made before there were any.
FRONT_END = "front end"


@dataclass(frozen=True, slots=True)
class PassRecord:
    """One pass that ran: its module before and after, and how long it took."""

    name: str
    pipe: Literal["tile", "gpu"]
    before: Module
    after: Module
    milliseconds: float
    rules: Applied = field(default_factory=list[tuple[Rule, int]])

    @property
    def changed(self) -> bool:
        """Whether the pass did anything."""
        return self.before is not self.after


@dataclass
class Recorder:
    """What a compilation leaves behind for the Trace."""

    remarks: Remarks = field(default_factory=Remarks)
    passes: list[PassRecord] = field(default_factory=list[PassRecord])
    times: dict[str, float] = field(default_factory=dict[str, float])
    check: bool = field(default_factory=lambda: os.environ.get("WORKBENCH_VERIFY") == "1")
    #: What a pass must leave true; a target demands more of its own IR.
    verify: Callable[[Module], None] = verify_module

    def run(self, name: str, work: Pass, module: Module, pipe: Literal["tile", "gpu"]) -> Module:
        """Run one pass; under WORKBENCH_VERIFY=1 its result is verified."""
        begin(pipe, name)
        self.remarks.pass_name = name
        rules: Applied = []
        self.remarks.rules = rules
        start = time.perf_counter()
        try:
            after = work(module, self.remarks)
        except Exception as error:
            if not hasattr(error, "render"):
                error.add_note(f"in pass {name} on kernel {module.name}; this is our mistake")
            raise
        took = (time.perf_counter() - start) * 1e3
        self.passes.append(PassRecord(name, pipe, module, after, took, rules))
        if self.check and after is not module:
            self.verify(after)
        return after

    def front_end(self) -> tuple[Remark, ...]:
        """Return what the front end had to say."""
        return tuple(item for item in self.remarks.items if item.pass_name == FRONT_END)

    def pipeline(
        self, steps: list[tuple[str, Pass]], module: Module, pipe: Literal["tile", "gpu"]
    ) -> Module:
        """Run passes in order."""
        for name, work in steps:
            module = self.run(name, work, module, pipe)
        return module
