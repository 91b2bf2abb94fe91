"""What a target's `pipeline.build` gives back: code to load, texts to show, numbers.

Every target has one entry point with the same face:

    build(module: Module, target: str, recorder: Recorder, override: Override | None = None)

and a list of its stages after tile IR, STEPS (stages.py), from whose texts it can go on. It gives a
Built. `module` is tile IR after the target-independent passes, its attributes hold the compile
options (`num_warps`, `num_stages`, ...; None: the target chooses). `target` is the full name
("sm_90a"). Passes run through `recorder`, so the trace knows them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from workbench.ir import Module
from workbench.targets.llvm.toolchain import Machine
from workbench.trace import Rendered, Resources, StageId


def symbol_of(name: str) -> str:
    """Return what a kernel is called in the code: Python names may have any letters.

    >>> symbol_of("add_1"), symbol_of("größe")
    ('add_1', 'gr_u00f6__u00df_e')

    LLVM IR, PTX and linkers agree on ASCII letters, digits and the underscore only.
    """
    return "".join(
        letter
        if letter.isascii() and (letter.isalnum() or letter == "_")
        else f"_u{ord(letter):04x}_"
        for letter in name
    )


Kind = Literal["cubin", "ptx", "object", "module"]


@dataclass(frozen=True, slots=True)
class Binary:
    """Code that a loader can take, and what one program of it needs.

    `kind` "ptx" is left to the driver to assemble (no ptxas here); "object" is a relocatable
    object of the host; "module" has no bytes: the interpreter runs the IR itself.
    """

    kind: Kind
    data: bytes = b""
    resources: Resources = field(default_factory=Resources)


@dataclass(frozen=True, slots=True)
class Built:
    """One kernel built for one target.

    Attributes:
        symbol: the name of the function in the code.
        num_warps: warps of one program (1 where the word means nothing).
        num_stages: depth of pipelined loops.
        threads: threads of one program as launched (helper warps included).
        shared_bytes: shared memory of one program, static and dynamic.
        dynamic_shared_bytes: the part of it that the launch must ask for.
        assemble: gives the loadable code; called at most once, and only if somebody needs it.
        gpu: the module after the last pass of the target, None where there is none to show.
        texts: further stages ("llvm", "ptx", "sass", "asm"), printed when somebody looks; each row
            lists the ids of the ops that it came from.
        machine: what LLVM generates code for; None where it generates none.
        fields: further keys of the Trace (layouts, shared, pipelines, access) or callables.
        extra: plain data that this target's loader wants to see again (JSON).
    """

    symbol: str
    assemble: Callable[[], Binary]
    num_warps: int = 1
    num_stages: int = 1
    threads: int = 1
    shared_bytes: int = 0
    dynamic_shared_bytes: int = 0
    gpu: Module | None = None
    texts: Mapping[StageId, Callable[[], Rendered]] = field(
        default_factory=dict[StageId, Callable[[], Rendered]]
    )
    machine: Machine | None = None
    fields: Mapping[str, Any] = field(default_factory=dict[str, Any])
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
