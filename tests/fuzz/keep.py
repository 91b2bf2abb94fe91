"""Writes programs that failed down as tests, in the form of tests/files/form.py."""

from __future__ import annotations

from pathlib import Path

from tests.passes.launches import Launch
from tests.passes.leaves import GRID
from workbench.ir import Module, print_module

FOUND = Path(__file__).parent / "found"


def save(
    name: str, module: Module, launch: Launch, target: str, said: str, folder: Path = FOUND
) -> Path:
    """Write a failing program down as a test."""
    given = module.attributes
    options = [f"{k}={given[k]}" for k in ("num_warps", "num_stages") if k in given]
    lines = [said, " ".join(["test", target, *options]), f"grid {GRID[0]}"]
    lines += [f"%{parameter} = {words}" for parameter, words in launch.values().items()]
    head = "".join(f"// {line}\n" for line in lines)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.ir"
    path.write_text(f"{head}{print_module(module)}\n")
    return path


__all__ = ["FOUND", "save"]
