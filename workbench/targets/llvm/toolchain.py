"""The one typed door to llvmlite: LLVM IR text to assembly or object code."""

from __future__ import annotations

import marshal
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from workbench.interrupts import in_one_piece, unforked
from workbench.targets.llvm.generator import LlvmError, ask, prepare

__all__ = [
    "LlvmError",
    "Machine",
    "assembly",
    "baseline",
    "fails",
    "host",
    "object_code",
    "prepare",
    "types",
    "verify",
]


@dataclass(frozen=True, slots=True)
class Machine:
    """What code is generated for: LLVM triple, processor, features, and code model options.

    `places`: an instruction whose place LLVM has lost says so, and does not take the place of the
    one before it.
    """

    triple: str
    processor: str
    features: str = ""
    optimisation: int = 3
    jit: bool = False
    places: bool = False


@cache
def _binding() -> Any:
    import llvmlite.binding as llvm  # pyright: ignore[reportMissingTypeStubs]

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm


@cache
def host() -> tuple[str, str, str]:
    """Return triple, processor name and feature string of this machine's CPU."""
    return in_one_piece(_host)


@cache
def _host() -> tuple[str, str, str]:
    with unforked:
        llvm = _binding()
        return (
            llvm.get_process_triple(),
            llvm.get_host_cpu_name(),
            llvm.get_host_cpu_features().flatten(),
        )


@cache
def baseline() -> Machine:
    """Return what every processor of this machine's kind runs: for code that only glues."""
    triple = host()[0]
    processor = "x86-64" if triple.startswith("x86_64") else "generic"
    return Machine(triple, processor, "", 2, jit=True)


@cache
def _imported() -> Any:
    import llvmlite  # pyright: ignore[reportMissingTypeStubs]

    from workbench.targets.llvm.helper import Imported

    return Imported(llvmlite.__path__[0])


def assembly(text: str, machine: Machine) -> str:
    """Return the assembly (PTX for NVPTX triples) of LLVM IR text; raises LlvmError."""
    return _generate("assembly", text, machine).decode()


def object_code(text: str, machine: Machine) -> bytes:
    """Return the object file of LLVM IR text; raises LlvmError."""
    return _generate("object", text, machine)


def fails(text: str, machine: Machine) -> bool:
    """Say whether LLVM ends or refuses to generate code for LLVM IR text, in a helper."""
    try:
        ask("assembly", asdict(machine), text)
    except LlvmError as error:
        return error.parses
    return False


def types(text: str) -> dict[str, str]:
    """Return the type of every named value of LLVM IR text; raises LlvmError."""
    return marshal.loads(ask("types", {}, text))


def verify(text: str) -> None:
    """Raise LlvmError with LLVM's words for LLVM IR that it cannot parse, or finds invalid."""
    try:
        ask("verified", {}, text)
    except OSError:  # no other process is allowed here
        try:
            _imported().verify(text.encode())
        except Exception as error:
            raise LlvmError(str(error), died=False) from None


def _generate(want: str, text: str, machine: Machine) -> bytes:
    try:
        try:
            return ask(want, asdict(machine), text)
        except OSError:  # no other process is allowed here
            unit = asdict(machine)
            return _imported().generate(text.encode(), unit, is_object=want == "object")
    except LlvmError as error:
        if not error.parses:
            wrong = RuntimeError(error.words)
            wrong.add_note("the emitted LLVM IR does not parse; this is our mistake, not yours")
            raise wrong from None
        raise
