"""Object files become code in memory."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

_LOCK = threading.Lock()
_NUMBERS = iter(range(1 << 62))


@dataclass(frozen=True, slots=True)
class Linked:
    """Code in memory: addresses by symbol; the code lives as long as this object."""

    addresses: dict[str, int]
    owner: Any


def link(image: bytes, *symbols: str) -> Linked:
    """Put an object file into memory and return where its symbols are."""
    import llvmlite.binding as llvm  # pyright: ignore[reportMissingImports]

    with _LOCK:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
            cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), jit=True
        )
        jit = llvm.create_lljit_compiler(machine)
        library = llvm.JITLibraryBuilder().add_object_img(image).add_current_process()
        for symbol in symbols:
            library.export_symbol(symbol)
        tracker = library.link(jit, f"kernel{next(_NUMBERS)}")
        return Linked({symbol: tracker[symbol] for symbol in symbols}, (jit, tracker, machine))
