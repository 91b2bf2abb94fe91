"""Programs that once failed, one file each: the launch in the first line, then tile IR."""

from __future__ import annotations

import json
from pathlib import Path

from tests.passes.programs import Launch
from workbench.ir import Module, parse_module, print_module

FOUND = Path(__file__).parent / "found"


def save(name: str, module: Module, launch: Launch, target: str, said: str) -> Path:
    """Write a failing program down as a test."""
    numbers = {"n": launch.n, "m": launch.m, "seed": launch.seed, "target": target}
    options = {
        k: module.attributes[k] for k in ("num_warps", "num_stages") if k in module.attributes
    }
    FOUND.mkdir(exist_ok=True)
    path = FOUND / f"{name}.ir"
    path.write_text(f"// {json.dumps(numbers | options)}\n// {said}\n{print_module(module)}\n")
    return path


def read(path: Path) -> tuple[Module, Launch, str]:
    """Return (module, launch, target) of a file."""
    text = path.read_text()
    head = json.loads(text.splitlines()[0].removeprefix("// "))
    body = "\n".join(line for line in text.splitlines() if not line.startswith("//"))
    module = parse_module(body, path.name)
    return module, Launch(head["n"], head["m"], head["seed"]), head["target"]
