"""What torch's autotuner keeps of a configuration: an artefact with the function that launches it.

Imported only where torch is: the classes here are torch's.
"""

from __future__ import annotations

import importlib
import pickle
from typing import Any

from torch._inductor.runtime.triton_heuristics import (  # pyright: ignore[reportMissingImports]
    CompileResult,
    GridExpr,
)

from workbench.devices.streams import HOST
from workbench.inductor.artefacts import Artefact
from workbench.inductor.switching import switch
from workbench.runtime.bound import load


class Result(CompileResult[Artefact]):
    """One configuration that we compiled."""

    def make_launcher(self) -> Any:
        """Return `launcher(*arguments, stream)`, which computes the grid and runs the kernel."""
        artefact = self.kernel
        gpu = artefact.target.startswith("sm_")
        device = (self.compile_meta.get("device") or 0) if gpu else HOST
        names = [name for name, _ in artefact.signature.arguments]
        _, given, _ = self._get_arg_lists(names, artefact.declared)
        passed = [_passed(word, type_) for word, type_ in artefact.launch.parameters]
        grid = GridExpr.from_meta(self.inductor_meta, self.config)
        text = [
            f"def launcher({', '.join((*given, 'stream'))}):",
            *(f"    {line}" for line in grid.prefix),
            f"    grid_0 = {grid.x_grid}",
            f"    grid_1 = {grid.y_grid}",
            f"    grid_2 = {grid.z_grid}",
            "    if grid_0 and grid_1 and grid_2:",
            f"        _run({', '.join(('grid_0', 'grid_1', 'grid_2', 'stream', *passed))})",
        ]
        scope: dict[str, Any] = {"_run": load(artefact, device)}
        scope |= {name: importlib.import_module(name) for name in ("math", "torch")}
        exec("\n".join(text), scope)
        return _described(scope["launcher"], self, len(given))


def _passed(name: str, type_: str) -> str:
    return f"{name}.data_ptr()" if type_.startswith("*") else name


def _described(launcher: Any, result: Result, count: int) -> Any:
    """Give a launcher what torch reads of one."""
    artefact = result.kernel
    launcher.config = result.config
    launcher.n_regs = artefact.launch.registers or 0
    launcher.n_spills = artefact.launch.spill_bytes or 0
    launcher.shared = artefact.launch.shared_bytes
    launcher.cache_hash = artefact.hash
    launcher.store_cubin = False
    launcher._expected_positional_count = count
    launcher.artefact = artefact
    return launcher


class FallenBack(CompileResult[Any]):
    """One configuration that the real Triton compiled, because we could not.

    Attributes:
        reason: why we could not.
    """

    def __init__(self, made: Any, reason: str) -> None:
        self.config = made.config
        self.compile_meta = made.compile_meta
        self.inductor_meta = made.inductor_meta
        self.reason = reason
        self._made: Any = made
        self._sent = b""

    def __getstate__(self) -> dict[str, Any]:
        if not self._sent:
            with switch.off():
                self._sent = pickle.dumps(self._made)
        return {**self.__dict__, "_made": None}

    @property
    def made(self) -> Any:
        """What Triton made; read where Triton's names mean Triton's, whoever received it."""
        if self._made is None:
            with switch.off():
                self._made = pickle.loads(self._sent)
        return self._made

    @property
    def kernel(self) -> Any:
        """Triton's compiled kernel."""
        return self.made.kernel

    def make_launcher(self) -> Any:
        """Return the launcher that Triton's kernel has."""
        made = self.made
        with switch.off():
            launcher = made.make_launcher()
        launcher.reason = self.reason
        return launcher
