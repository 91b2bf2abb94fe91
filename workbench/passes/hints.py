"""Hints of the author that a target does not obey: each is answered by a remark at its line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from workbench.ir import Module
from workbench.ops import For, Load, Store, While
from workbench.passes.manager import Remarks


@dataclass(frozen=True, slots=True)
class Unobeyed:
    """The hints that a target leaves aside, each with the reason.

    `loops`: by the name in `tl.range`; `options`: by the name of a compile option; `memory`: by
    the name in `tl.load` and `tl.store`; `second`: why an access with both of those, or a volatile
    one, keeps the first only.
    """

    loops: Mapping[str, str] = field(default_factory=dict[str, str])
    options: Mapping[str, str] = field(default_factory=dict[str, str])
    memory: Mapping[str, str] = field(default_factory=dict[str, str])
    second: str = ""


def answer_hints(module: Module, remarks: Remarks, unobeyed: Unobeyed) -> Module:
    """Say of each hint that this target does not obey why. Keeps: the module as it is."""
    said: set[tuple[object, str]] = set()
    for op in module.walk():
        found: list[str] = []
        if isinstance(op, For | While):
            stages = (op.stages or 0) if isinstance(op, For) else 0
            given = [*op.hints, *([("num_stages", stages)] if stages > 1 else [])]
            found = [
                f"{name}={value} is not obeyed: {unobeyed.loops[name]}"
                for name, value in given
                if name in unobeyed.loops
            ]
        elif isinstance(op, Load | Store):
            found = _of_access(op, unobeyed)
        for text in found:
            if (op.span, text) not in said:  # once, however many copies unrolling made
                said.add((op.span, text))
                remarks.note(op, text, "missed")
    for name, reason in unobeyed.options.items():
        value = module.attributes.get(name)
        if value is not None:
            remarks.note(None, f"{name}={value} is not obeyed: {reason}", "note")
    return module


def _of_access(op: Load | Store, unobeyed: Unobeyed) -> list[str]:
    volatile = isinstance(op, Load) and op.volatile
    words = {"volatile": "True" if volatile else "", "cache_modifier": op.cache,
             "eviction_policy": op.eviction}  # fmt: skip
    given = [(name, word) for name, word in words.items() if word]
    found = [
        f"{name} '{word}' is not obeyed: {unobeyed.memory[name]}"
        for name, word in given
        if name in unobeyed.memory
    ]
    if unobeyed.second:
        found += [
            f"{name} '{word}' is not obeyed: {unobeyed.second}, {given[0][0]} has it"
            for name, word in given[1:]
        ]
    return found
