"""The builder: inserts ops into the block being written, gives them ids and places."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from workbench.ir.operation import Op, Value
from workbench.source import Span


class Builder:
    """Collects ops; `next_id` counts on, `span` and `origins` go to ops that have none."""

    def __init__(self, next_id: int = 1) -> None:
        self.next_id = next_id
        self.span: Span | None = None
        self.origins: tuple[int, ...] = ()
        self._lists: list[list[Op]] = [[]]

    @property
    def ops(self) -> list[Op]:
        """The ops of the block being written."""
        return self._lists[-1]

    def insert(self, op: Op) -> Op:
        """Append an op and return it; an op without an id gets the next one."""
        fields: dict[str, Any] = op.__dict__
        if not fields["id"]:
            fields["id"] = self.next_id
            self.next_id += 1
            if fields["span"] is None:
                fields["span"] = self.span
            if not fields["origins"]:
                fields["origins"] = self.origins
        self._lists[-1].append(op)
        return op

    def add(self, op: Op, hint: str = "") -> Value:
        """Append an op with one result and return that result."""
        value = self.insert(op).results[0]
        if hint and not value.hint:
            value.hint = hint
        return value

    @contextmanager
    def block(self, ops: list[Op] | None = None) -> Generator[list[Op]]:
        """Write into a fresh block, or go on with one; the list holds its ops afterwards."""
        ops = [] if ops is None else ops
        self._lists.append(ops)
        try:
            yield ops
        finally:
            self._lists.pop()
