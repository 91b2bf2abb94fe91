"""Turning it on and off."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any

from workbench.inductor.compiling import compiling
from workbench.inductor.graphs import Graphs
from workbench.inductor.patching import Patches
from workbench.inductor.switching import switch
from workbench.inductor.writing import driving

#: All graphs of this process that were compiled through us.
graphs = Graphs()

#: Settings of torch that hold meanwhile: it writes kernels for the CPU too.
_SETTINGS = {"torch._inductor.config:cpu_backend": "triton"}


class InTorchCompile:
    """That torch compiles through us; leaving it as a context manager ends it."""

    def __init__(self) -> None:
        self._graphs = Graphs()
        _uses.append(self)
        if len(_uses) == 1:
            try:
                _turn_on()
            except BaseException:
                self.remove()
                raise

    def __enter__(self) -> Graphs:
        """Return the graphs that are compiled within the block."""
        return self._graphs

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.remove()

    def remove(self) -> None:
        """Have torch compile as before; what was compiled meanwhile stays as it is."""
        if self in _uses:
            _uses.remove(self)
            if not _uses:
                _turn_off()

    @property
    def graphs(self) -> Graphs:
        """The graphs that were compiled meanwhile."""
        return self._graphs

    def __repr__(self) -> str:
        return f"<torch.compile through workbench: {len(self._graphs)} graphs>"


_uses: list[InTorchCompile] = []
_patches = Patches()


class _Listeners:
    """Tells everybody who listens of a kernel."""

    def add(self, scope: Mapping[str, Any], name: str, made: Any) -> None:
        for listener in (graphs, *(use.graphs for use in _uses)):
            listener.add(scope, name, made)


def _turn_on() -> None:
    switch.enter(writing=True)
    compiling(_patches)
    driving(_patches, _Listeners())
    for path, value in _SETTINGS.items():
        _patches.put(path, lambda _, value=value: value)


def _turn_off() -> None:
    _patches.undo()
    if switch.is_on:
        switch.leave()


def use_in_torch_compile() -> InTorchCompile:
    """Have `torch.compile` compile its kernels with our compiler, on the CPU and on CUDA.

    Call it once for the rest of the process, or use it as a context manager, which gives the
    graphs that were compiled within the block. What was compiled before stays as it is, and so does
    what was compiled within the block afterwards. A kernel that we cannot compile is compiled by
    Triton where there is one, and its graph says so and why; where there is none (and on the CPU)
    it is an error.

    Raises:
        OptionError: this torch lacks something that we take the place of, which is named (K139).
    """
    return InTorchCompile()
