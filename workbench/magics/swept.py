"""Maps of `%whatif` as a notebook shows them, and what a click on a square of one asks.

A page asks by the map's key and the numbers of squares. What is compiled for it stands in this
process; nothing that a saved notebook holds is ever run.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from workbench.magics.comparisons import ShownComparison, shown_comparison
from workbench.questions.whatif import Measure, WhatIf, word
from workbench.source import OptionError
from workbench.trace import to_data
from workbench.trace.answers import Sweep, SweptNumber, SweptSquare

MIME = "application/vnd.workbench.sweep+json"
TARGET = "workbench.asked"
VERSION = 1
#: So many maps can be asked about.
KEPT = 32

_maps: OrderedDict[str, WhatIf] = OrderedDict()


def sweep_of(found: WhatIf, measures: Sequence[Measure], notes: Sequence[str]) -> dict[str, Any]:
    """Return a map as plain data, and remember it under the key that it names."""
    key = next((known for known, one in _maps.items() if one is found), "")
    if not key:
        key = secrets.token_hex(8)
        _maps[key] = found
        while len(_maps) > KEPT:
            _maps.popitem(last=False)
    rows, columns = found.values if len(found.values) == 2 else (("",), found.values[0])
    axes = (found.axes[0], found.axes[1]) if len(found.axes) == 2 else ("", found.axes[0])
    best = found.best
    squares = tuple(
        SweptSquare(
            values=" ".join(f"{n}={v}" for n, v in zip(found.axes, square.values, strict=True)),
            words=tuple(word(square, each) for each in measures),
            numbers=tuple(square.number(each) for each in measures),
            note="; ".join(filter(None, (
                square.reason,
                f"bound by {square.prediction.bound}" if square.prediction is not None else "",
            ))),
            compare=found.comparison(square) if square.facts is not None else "",
        )
        for square in found.squares
    )  # fmt: skip
    return {"v": VERSION, **to_data(Sweep(
        key=key, title=f"{found.kernel} for {found.target}", axes=axes,
        rows=tuple(map(str, rows)), columns=tuple(map(str, columns)), squares=squares,
        numbers=tuple(SweptNumber(title=m.title, unit=m.unit, less=m.less) for m in measures),
        best=None if best is None else found.squares.index(best), notes=tuple(notes),
    ))}  # fmt: skip


def compare_squares(
    found: WhatIf, number: int, namespace: Mapping[str, Any] | None = None
) -> ShownComparison:
    """Return a square of a map beside the best one, the best beside the first; both are compiled.

    Raises OptionError K103 for a square that there is not, or with nothing to compare.
    """
    if not 0 <= number < len(found.squares):
        raise OptionError(
            f"the map has {len(found.squares)} squares, there is no square {number}", code="K103"
        )
    sides = found.compared(found.squares[number])
    if sides is None:
        raise OptionError("there is no other square to compare this one with", code="K103")
    return shown_comparison(*sides, namespace=namespace)


def answer(data: Any, namespace: Mapping[str, Any]) -> dict[str, Any]:
    """Return the reply to what a page asks: the output of a comparison, or why there is none."""
    found = _maps.get(data.get("key", "")) if isinstance(data, dict) else None
    number = data.get("square") if isinstance(data, dict) else None
    if found is None or type(number) is not int:
        return {"why": "this kernel does not know the map any more: run %whatif again"}
    try:
        return {"output": compare_squares(found, number, namespace).output()}
    except OptionError as error:
        return {"why": str(error.message)}


def load(shell: Any) -> None:
    """Answer pages of a shell's kernel over a comm; once."""
    comms = getattr(getattr(shell, "kernel", None), "comm_manager", None)
    if comms is None:
        return

    def opened(comm: Any, _message: Any) -> None:
        def received(message: Any) -> None:
            data = message["content"]["data"]
            try:
                reply = answer(data, dict(shell.user_ns))
            except (Exception, KeyboardInterrupt) as error:  # the page is told, whatever it is
                reply = {"why": f"{type(error).__name__}: {error}"}
            comm.send({"v": VERSION, "id": data.get("id"), **reply})

        comm.on_msg(received)

    comms.register_target(TARGET, opened)
