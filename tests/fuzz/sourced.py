"""Runs random kernels of source text against NumPy; what fails is made small and kept as text."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tests.execution import execute
from tests.fuzz import oracle
from tests.fuzz.accesses import kernel_text
from tests.fuzz.keep import FOUND
from tests.fuzz.reduce import TooLongError, at_most
from tests.fuzz.running import options_for, with_options
from tests.fuzz.sources import ROOM, SIZE
from tests.language.harness import from_text, lowered

PROGRAMS = 2
#: A changed kernel that runs longer has lost the end of a loop.
SECONDS = 10.0


def arguments(seed: int) -> dict[str, Any]:
    """Return fresh arguments of the kernel of a seed."""
    numbers = np.random.default_rng(seed)
    return {
        "f": (numbers.integers(-8, 9, SIZE) / 2).astype(np.float32),
        "g": numbers.integers(-8, 9, SIZE).astype(np.int32),
        "floats": np.zeros(ROOM * PROGRAMS, np.float32),
        "integers": np.zeros(ROOM * PROGRAMS, np.int64),
        "n": int(numbers.integers(0, 9)),
        "m": int(numbers.integers(-50, 51)),
    }


def difference(text: str, seed: int, target: str) -> str:
    """Say how a target's result differs from NumPy's; empty if it does not.

    An exception of ours counts as a difference; one of NumPy's is raised, since the kernel then is
    not well defined.
    """
    wanted, got = arguments(seed), arguments(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        oracle.run(text, "kernel", PROGRAMS, list(wanted.values()))
        try:
            module, _ = lowered(from_text(text), **got)
            module = with_options(module, **options_for(seed, target))
            execute(module, (PROGRAMS,), list(got.values()), target)
        except Exception as error:
            first = str(error).splitlines()[0] if str(error) else ""
            return f"{type(error).__name__}: {first}"
    for name in ("floats", "integers"):
        a, b = wanted[name], got[name]
        if not np.array_equal(a, b):
            place = int(np.flatnonzero(a != b)[0])
            return f"{name}[{place}] is {b[place]}, NumPy says {a[place]}"
    return ""


def save(name: str, text: str, seed: int, target: str, said: str, folder: Path = FOUND) -> Path:
    """Write a failing kernel down as a test."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.txt"
    head = json.dumps({"seed": seed, "target": target})
    path.write_text(f"# {head}\n# {said}\n{text}\n")
    return path


def read(path: Path) -> tuple[str, int, str]:
    """Return (text, seed of the arguments, target) of a file."""
    head, _, text = path.read_text().rstrip("\n").split("\n", 2)
    found = json.loads(head.removeprefix("# "))
    return text, found["seed"], found["target"]


# -- making kernels small -------------------------------------------------------------------------
#: Yields texts in which so many nodes, from one on, are gone or simpler.
Change = Callable[[str, int, int], Iterator[str]]


def reduced(text: str, fails: Callable[[str], bool]) -> str:
    """Return a small kernel that still fails."""

    def still(candidate: str) -> bool:
        try:
            with at_most(SECONDS):
                return fails(candidate)
        except (Exception, TooLongError):
            return False  # not a kernel any more, or one that is not well defined

    text = ast.unparse(ast.parse(text))
    before = ""
    while before != text:
        before = text
        for change, sort in ((_without, ast.stmt), (_unwrapped, ast.stmt), (_simpler, ast.expr)):
            text = _tried(text, change, sort, still)
    return text


def _tried(text: str, change: Change, sort: type[ast.AST], still: Callable[[str], bool]) -> str:
    """Make a change wherever it goes, of many nodes at once first, the last ones first."""
    size = _count(text, sort)
    while size := size // 2:
        for start in reversed(range(0, _count(text, sort), size)):
            for candidate in change(text, start, size):
                if len(candidate) < len(text) and still(candidate):
                    text = candidate
                    break
    return text


def _count(text: str, sort: type[ast.AST]) -> int:
    return 2 * sum(isinstance(node, sort) for node in ast.walk(ast.parse(text)))


def _without(text: str, start: int, size: int) -> Iterator[str]:
    """Leave statements out, counted in the order of the text."""
    seen = iter(range(1 << 30))

    class Drop(ast.NodeTransformer):
        def generic_visit(self, node: ast.AST) -> Any:
            if isinstance(node, ast.stmt):
                gone = start <= next(seen) < start + size
                if gone and not (isinstance(node, ast.FunctionDef) and node.name == "kernel"):
                    return None
            return _whole(super().generic_visit(node))

    yield ast.unparse(Drop().visit(ast.parse(text)))


def _unwrapped(text: str, place: int, size: int) -> Iterator[str]:
    """Put the body of a loop or a branch in its place."""
    seen = iter(range(1 << 30))

    class Unwrap(ast.NodeTransformer):
        def generic_visit(self, node: ast.AST) -> Any:
            here = isinstance(node, ast.stmt) and next(seen) == place
            node = _whole(super().generic_visit(node))
            if here and isinstance(node, ast.If | ast.For | ast.While):
                return node.body
            return node

    if size == 1:
        yield ast.unparse(Unwrap().visit(ast.parse(text)))


def _whole(node: Any) -> Any:
    """Give a body that lost everything a statement that does nothing."""
    if isinstance(node, ast.FunctionDef | ast.If | ast.For | ast.While) and not node.body:
        node.body = [ast.Pass()]
    return node


def _simpler(text: str, place: int, size: int) -> Iterator[str]:
    """Put a part of an expression, or a small number, in its place."""
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.expr)]
    if size > 1 or place >= len(nodes):
        return
    found = nodes[place]
    parts = [part for part in ast.iter_child_nodes(found) if isinstance(part, ast.expr)]
    if isinstance(found, ast.Constant) or not isinstance(
        getattr(found, "ctx", ast.Load()), ast.Load
    ):
        return
    for part in [*parts, ast.Constant(1)]:
        seen = iter(range(1 << 30))
        tree = ast.parse(text)
        numbers = {id(n): next(seen) for n in ast.walk(tree) if isinstance(n, ast.expr)}

        class Put(ast.NodeTransformer):
            def visit(self, node: ast.AST, part: ast.expr = part, numbers: Any = numbers) -> Any:
                if numbers.get(id(node)) == place:
                    return part
                return self.generic_visit(node)

        yield re.sub(r"\n\n+", "\n\n", ast.unparse(Put().visit(tree)))


__all__ = ["difference", "kernel_text", "read", "reduced", "save"]
