"""A target's way as data: its stages in order, and how each goes on from a text.

A step makes the content of its stage from that of the stage before. Where somebody has edited the
text of a stage, the step reads that text in the place of what it has made, and the rest of the way
is the same for both. What was made stays at hand while the text is read: it says which function,
parameters and options the text must have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from workbench.ir import InvalidModuleError, Module, parse_module, verify_module
from workbench.source import CompileError, OptionError, Span
from workbench.source.overrides import Override
from workbench.trace import StageId

State = TypeVar("State")


@dataclass(frozen=True, slots=True)
class Step(Generic[State]):
    """One stage of a way.

    Attributes:
        stage: whose text it makes.
        make: from what the steps before have made.
        read: from a text, given what `make` has made; raises CompileError at the text's row.
    """

    stage: StageId
    make: Callable[[State], State]
    read: Callable[[State, Override], State]


def go(steps: Sequence[Step[State]], state: State, override: Override | None = None) -> State:
    """Take all steps; that of the override's stage goes on from its text."""
    for step in steps:
        state = step.make(state)
        if override is not None and override.stage == step.stage:
            state = step.read(state, override)
    return state


def check_stage(override: Override, target: str, stages: Sequence[str]) -> None:
    """Raise OptionError K150 where a target has no such stage to go on from."""
    if override.stage not in stages:
        raise OptionError(
            f"{target} cannot go on from '{override.stage}'; it can from {', '.join(stages)}",
            code="K150",
            hint="edit one of these stages, or compile for a target that has this one"
            if override.stage in ("tile", "gpu", "llvm", "ptx")
            else "SASS and assembly are what comes out; edit the stage before",
        )


# -- IR ---------------------------------------------------------------------------------------
#: Attributes that a launch counts on: an edited text cannot change them.
_KEPT = ("narrow_index", "guarded")


def read_module(
    override: Override, made: Module, verifier: Callable[[Module], None] = verify_module
) -> Module:
    """Return the module of a text that stands for `made`; raises CompileError K290 or K291.

    Its ops are new ones, with ids after those of `made` and the text's rows as their places.
    """
    override.register()
    module = parse_module(override.padded, override.file, made.next_id)
    _same_parameters(override, module, made)
    kept = {name: made.attributes[name] for name in _KEPT if name in made.attributes}
    module = replace(module, name=made.name, attributes={**module.attributes, **kept})
    try:
        verifier(module)
    except InvalidModuleError as error:
        raise _invalid(override, module, error) from None
    except (KeyError, AssertionError, IndexError, TypeError, ValueError) as error:
        words = f"this module breaks a rule of the IR: {type(error).__name__} {error}"
        raise CompileError(words, override.span(1), code="K291") from error
    return module


def _same_parameters(override: Override, module: Module, made: Module) -> None:
    found = [(p.name, str(p.value.type)) for p in module.parameters]
    wanted = [(p.name, str(p.value.type)) for p in made.parameters]
    if found != wanted:
        shown = ", ".join(f"%{name}: {kind}" for name, kind in wanted)
        raise CompileError(
            f"the kernel's parameters are fixed by its launch: they are ({shown})",
            _row_with(override, "kernel @"), code="K291", hint="leave this row as it was",
        )  # fmt: skip


def _invalid(override: Override, module: Module, error: InvalidModuleError) -> CompileError:
    """Return the error at the op that the verifier names."""
    words = str(error)
    blamed = next((op for op in module.walk() if repr(op) in words), None)
    span = None
    if blamed is not None:
        span = blamed.span
        words = words.replace(f" at {span}", "").replace(repr(blamed), blamed.name)
    hint = "compare with the text as it was: %tile, %gpu or %override print it"
    return CompileError(words, span or override.span(1), code="K291", hint=hint)


def _row_with(override: Override, words: str) -> Span:
    rows = override.text.splitlines()
    return override.span(next((n for n, row in enumerate(rows, 1) if words in row), 1))
