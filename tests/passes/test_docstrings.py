"""A pass's docstring is its first test: the text under Before becomes the text under After."""

from __future__ import annotations

import inspect
import re
from functools import partial
from typing import Any

import pytest

from tests.passes.pipelines import PASSES, with_barriers
from workbench.ir import Module, parse_module, print_module, verify_module
from workbench.passes.cleanup import drop_dead
from workbench.passes.manager import Remarks
from workbench.targets.simt.passes.barriers import insert_barriers

#: Types of the names that examples use without defining them.
FREE = {
    "x": "f32", "y": "f32", "lo": "index", "hi": "index", "step": "index", "one": "index",
    "zero": "index", "s": "index", "n": "index", "p": "ptr<f32>", "q": "ptr<f16>",
    "flag": "ptr<i32>", "h": "f16", "small": "f8e4m3", "tiny": "f8e4m3",
}  # fmt: skip
#: Passes that change the types of parameters: what they are afterwards.
FREE_AFTER = {"narrow-index": {"n": "i32"}}
#: Passes whose smallest example is too long for a docstring; they have golden files.
LONG = (
    *("raise-tma", "pipeline-loads", "split-full-blocks", "stage-products", "overlap-products"),
    *("role-partition", "expand-roles", "skip-masks", "flatten-loops", "split-by-overlap"),
    *("flatten-boxes", "load-early", "skip-ones", "keep-extremes", "longest-first"),
    *("told-order", "spread-quotients", "load-once", "float-differences", "load-in-own-round"),
    *("ask-first", "order-loops", "part-quotients"),
)
OPTIONS = {"num_warps": 1, "num_stages": 2}
_RESULTS = re.compile(r"((?:%\w+(?:, )?)+) = ")


def function(work: Any) -> Any:
    """Return the function whose docstring describes a pass."""
    if work is with_barriers:
        return insert_barriers
    return work.func if isinstance(work, partial) else work


def example(work: Any, word: str) -> str:
    """Return the lines under `Before:` or `After:`."""
    lines = inspect.cleandoc(function(work).__doc__ or "").splitlines()
    start = lines.index(f"{word}:") + 1
    end = next((i for i in range(start, len(lines)) if lines[i][:1].strip()), len(lines))
    return inspect.cleandoc("\n".join(lines[start:end]))


def defined(text: str, indent: str = r"\s*") -> set[str]:
    """Return the names that a text defines: results, and arguments of regions."""
    found: set[str] = set()
    for line in text.splitlines():
        if match := re.match(indent + _RESULTS.pattern, line):
            found |= set(re.findall(r"%(\w+)", match.group(1)))
        elif line.lstrip().startswith("^(") and indent:
            found |= set(re.findall(r"%(\w+):", line))
    return found


def whole(text: str, free: dict[str, str], used: list[str]) -> Module:
    """Return a kernel of the lines that uses some of the values they define."""
    aliases = [line for line in text.splitlines() if line.startswith("#")]
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    if lines[-1] != "tile.return":
        if used:
            lines.append(f"tile.print [{', '.join('%' + name for name in used)}]")
        lines.append("tile.return")
    parameters = ", ".join(f"%{name}: {type}" for name, type in free.items())
    options = ", ".join(f"{name} = {value}" for name, value in OPTIONS.items())
    head = f"kernel @example({parameters}) {{{options}}} {{"
    module = parse_module("\n".join([*aliases, head, *lines, "}"]))
    verify_module(module)
    return module


def free_names(*texts: str) -> dict[str, str]:
    """Return the names that texts read and do not define, with their types."""
    read: set[str] = set()
    for text in texts:
        read |= set(re.findall(r"%(\w+)", text)) - defined(text)
    assert read <= FREE.keys(), f"{read - FREE.keys()} are neither defined nor known here"
    return {name: type for name, type in FREE.items() if name in read}


def renamed(module: Module) -> str:
    """Return the text with values numbered in order, after dropping what nobody uses."""
    text = print_module(drop_dead(module, Remarks()))
    numbers: dict[str, str] = {}
    return re.sub(r"%[\w.]+", lambda m: numbers.setdefault(m.group(), f"%{len(numbers)}"), text)


@pytest.mark.parametrize("name", [name for name in PASSES if name not in LONG])
def test_before_becomes_after(name: str):
    work = PASSES[name]
    before, after = example(work, "Before"), example(work, "After")
    free = free_names(before, after)
    used = sorted(defined(before, "") & defined(after, ""))
    module = work(whole(before, free, used), Remarks())
    verify_module(module)
    wanted = whole(after, free | FREE_AFTER.get(name, {}), used)
    assert renamed(module) == renamed(wanted), print_module(module)


def test_every_pass_says_what_it_keeps():
    for name, work in PASSES.items():
        text = function(work).__doc__ or ""
        assert re.search(r"\bKeeps: ", text), f"{name} does not say what it keeps"
