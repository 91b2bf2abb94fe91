"""Object files become code in memory.

Here, and nowhere else, LLVM works in this process: it puts code where it can run, and takes it
away. Neither is interrupted, and a fork waits for it.
"""

from __future__ import annotations

import itertools
import weakref
from dataclasses import dataclass
from typing import Any

from workbench.interrupts import in_one_piece, unforked

_numbers = itertools.count()
#: What LLVM owns of each code; taken away here, with the next code, and not where one dies: the
#: collector runs anywhere, and what it runs can be interrupted.
_owned: list[tuple[weakref.ref[Linked], Any]] = []


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Linked:
    """Code in memory: addresses by symbol; the code lives as long as this object."""

    addresses: dict[str, int]


def link(image: bytes, *symbols: str) -> Linked:
    """Put an object file into memory and return where its symbols are."""
    return in_one_piece(_link, image, symbols)


def _link(image: bytes, symbols: tuple[str, ...]) -> Linked:
    import llvmlite.binding as llvm  # pyright: ignore[reportMissingImports]

    with unforked:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
            cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), jit=True
        )
        jit = llvm.create_lljit_compiler(machine)
        library = llvm.JITLibraryBuilder().add_object_img(image).add_current_process()
        for symbol in symbols:
            library.export_symbol(symbol)
        tracker = library.link(jit, f"kernel{next(_numbers)}")
        linked = Linked({symbol: tracker[symbol] for symbol in symbols})
        _owned[:] = [item for item in _owned if item[0]() is not None]
        _owned.append((weakref.ref(linked), (jit, tracker, machine)))
        return linked
