"""Native code that launches share or own, made by LLVM in memory."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any


def _release(engine: Any, context: Any) -> None:
    """Free a module's code, then the context that it was made in."""
    engine.close()
    context.close()


class Code:
    """A module of LLVM IR as code in memory; `address` finds its functions.

    The code lives as long as this object, and the context that it was made in at least as long.
    """

    def __init__(self, text: str) -> None:
        import llvmlite.binding as llvm

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        context = llvm.create_context()
        machine = llvm.Target.from_default_triple().create_target_machine(opt=1, jit=True)
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(text, context), machine)
        engine.finalize_object()
        self.address: Callable[[str], int] = engine.get_function_address
        # Held outside: where launcher and kernel die as a cycle, the context must still go last.
        weakref.finalize(self, _release, engine, context).atexit = False
