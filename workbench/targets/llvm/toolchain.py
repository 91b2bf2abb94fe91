"""The one typed door to llvmlite: LLVM IR text to assembly or object code."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import cache
from typing import Any

from workbench.source import deep

_LOCK = threading.Lock()


@dataclass(frozen=True, slots=True)
class Machine:
    """What code is generated for: LLVM triple, processor, features, and code model options."""

    triple: str
    processor: str
    features: str = ""
    optimisation: int = 3
    jit: bool = False


@cache
def _binding() -> Any:
    import llvmlite.binding as llvm  # pyright: ignore[reportMissingTypeStubs]

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm


def host() -> tuple[str, str, str]:
    """Return triple, processor name and feature string of this machine's CPU."""
    llvm = _binding()
    return (
        llvm.get_process_triple(),
        llvm.get_host_cpu_name(),
        llvm.get_host_cpu_features().flatten(),
    )


@cache
def _target_machine(machine: Machine) -> Any:
    target = _binding().Target.from_triple(machine.triple)
    return target.create_target_machine(
        cpu=machine.processor,
        features=machine.features,
        opt=machine.optimisation,
        reloc="pic" if machine.jit else "default",
        codemodel="default",
        jit=machine.jit,
    )


@deep
def assembly(text: str, machine: Machine) -> str:
    """Return the assembly (PTX for NVPTX triples) of LLVM IR text."""
    with _LOCK:
        module = _parse(text)
        return _target_machine(machine).emit_assembly(module)


@deep
def object_code(text: str, machine: Machine) -> bytes:
    """Return the object file of LLVM IR text."""
    with _LOCK:
        module = _parse(text)
        return _target_machine(machine).emit_object(module)


def _parse(text: str) -> Any:
    llvm = _binding()
    try:
        return llvm.parse_assembly(text, llvm.create_context())
    except RuntimeError as error:
        error.add_note("the emitted LLVM IR does not parse; this is our mistake, not yours")
        raise
