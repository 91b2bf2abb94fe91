"""Twenty faults in passes and lowering rules: each does to one kind of op what it must not.

None shows in a text: a fault is a rewrite that a pass does besides its own, or a rule that lowers
another op than it was given. `op` is the mnemonic of the op that is to be named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

from workbench.ir import Op, element_of
from workbench.ir.build import Builder
from workbench.ir.rebuild import DROP, Replacement, rebuild
from workbench.ops import Constant, Dot, Elementwise, Iota, Load, Scan, Select, Store
from workbench.passes import pipeline as tile_pipeline
from workbench.passes.rules import RULES, Rule
from workbench.targets.cpu.table import CHUNKS, CPU
from workbench.targets.nvidia import pipeline as nvidia_pipeline

Plant = Callable[[ExitStack], None]


@dataclass(frozen=True)
class CompilerFault:
    """A fault in the compiler, and the kernel of `GROUNDS` that it shows in."""

    kernel: str
    target: str
    where: str  # a pass's name, or "lowering"
    op: str
    plant: Plant

    @property
    def name(self) -> str:
        return f"{self.target} {self.where} {self.op} in {self.kernel}"


@contextmanager
def planted(fault: CompilerFault) -> Iterator[None]:
    """Compile with the fault."""
    with ExitStack() as stack:
        fault.plant(stack)
        yield


Rewrite = Callable[[Op, Builder], Replacement]


def _also(work: Any, rewrite: Rewrite) -> Any:
    """Return a pass that does a rewrite besides its own."""

    def faulty(module: Any, remarks: Any, *args: Any, **given: Any) -> Any:
        return rebuild(work(module, remarks, *args, **given), rewrite)

    return faulty


def tile_pass(name: str, rewrite: Rewrite) -> Plant:
    def plant(stack: ExitStack) -> None:
        steps = [(n, _also(w, rewrite) if n == name else w) for n, w in tile_pipeline.TILE_PASSES]
        stack.enter_context(mock.patch.object(tile_pipeline, "TILE_PASSES", steps))

    return plant


def target_pass(room: Any, function: str, rewrite: Rewrite) -> Plant:
    def plant(stack: ExitStack) -> None:
        faulty = _also(getattr(room, function), rewrite)
        stack.enter_context(mock.patch.object(room, function, faulty))

    return plant


def rule(rewrite: Rewrite, *functions: str) -> Plant:
    def plant(stack: ExitStack) -> None:
        wrong = Rule("planted", "x - y = y - x", "", Elementwise, rewrite, functions)
        stack.enter_context(mock.patch.object(RULES, "rules", (wrong, *RULES.rules)))
        stack.enter_context(mock.patch.object(RULES, "_by_op", {}))

    return plant


def lowering(table: Any, kind: type[Op], change: Callable[[Any], Op]) -> Plant:
    """A rule that lowers another op than it was given."""

    def plant(stack: ExitStack) -> None:
        right = table.rules[kind]

        def faulty(writer: Any, op: Any, *rest: Any) -> Any:
            wrong = change(op)
            wrong.__dict__["results"] = op.results
            return right(writer, wrong, *rest)

        stack.enter_context(mock.patch.dict(table.rules, {kind: faulty}))

    return plant


# -- rewrites -------------------------------------------------------------------------------------
def function(was: str, now: str) -> Rewrite:
    def rewrite(op: Op, builder: Builder) -> Replacement:
        if isinstance(op, Elementwise) and op.function == was:
            return Elementwise(now, op.inputs)
        return None

    return rewrite


def same_id(was: str, now: str) -> Rewrite:
    return lambda op, _: (
        op.changed(function=now) if isinstance(op, Elementwise) and op.function == was else None
    )


def no_other(op: Op, builder: Builder) -> Replacement:
    return op.changed(other=None) if isinstance(op, Load) and op.other is not None else None


def first_operand(was: str) -> Rewrite:
    return lambda op, _: (
        op.inputs[0] if isinstance(op, Elementwise) and op.function == was else None
    )


def forgetful_dot(op: Op, builder: Builder) -> Replacement:
    if isinstance(op, Dot):
        zero = builder.add(Constant(0.0, op.result.type))
        return op.changed(accumulator=zero)
    return None


def other_branch(op: Op, builder: Builder) -> Replacement:
    if isinstance(op, Select):
        return op.changed(then=op.otherwise, otherwise=op.then)
    return None


def dropped_store(op: Op, builder: Builder) -> Replacement:
    return DROP if isinstance(op, Store) else None


def lower_constant(op: Op, builder: Builder) -> Replacement:
    if isinstance(op, Constant) and op.value == 0.5:
        return op.changed(value=0.25)
    return None


def later_counting(op: Op, builder: Builder) -> Replacement:
    return op.changed(start=op.start + 1) if isinstance(op, Iota) and op.start == 0 else None


def if_function(was: str, now: str) -> Callable[[Any], Op]:
    """Change a function of floats; of indices it would lead out of all arrays."""

    def change(op: Any) -> Op:
        floats = element_of(op.inputs[0].type).is_float
        return op.changed(function=now) if op.function == was and (floats or was == "ge") else op

    return change


def _swapped(op: Any) -> Op:
    return op.changed(then=op.otherwise, otherwise=op.then)


COMPILER_FAULTS = [
    CompilerFault("gelu", "cpu", "canonicalize", "tile.div", rule(function("div", "mul"), "div")),
    CompilerFault("gelu", "cpu", "merge-equal", "tile.exp", tile_pass(
        "merge-equal", first_operand("exp"))),
    CompilerFault("gelu", "cpu", "drop-dead", "tile.abs", tile_pass(
        "drop-dead", same_id("abs", "neg"))),
    CompilerFault("gelu", "cpu", "use-intervals", "tile.constant", tile_pass(
        "use-intervals", lower_constant)),
    CompilerFault("softmax", "cpu", "hoist-invariants", "tile.load", tile_pass(
        "hoist-invariants", no_other)),
    CompilerFault("softmax", "sm_90a", "split-full-blocks", "tile.div", target_pass(
        nvidia_pipeline, "split_full_blocks", function("div", "mul"))),
    CompilerFault("softmax", "sm_90a", "assign-layouts", "tile.div", target_pass(
        nvidia_pipeline, "assign_layouts", same_id("div", "mul"))),
    CompilerFault("layer_norm", "cpu", "narrow-index", "tile.iota", target_pass(
        tile_pipeline, "narrow_index", later_counting)),
    CompilerFault("layer_norm", "sm_90a", "scalar-inductions", "tile.sqrt", tile_pass(
        "scalar-inductions", function("sqrt", "rsqrt"))),
    CompilerFault("matmul", "sm_90a", "accumulate-products", "tile.dot", target_pass(
        nvidia_pipeline, "accumulate_products", forgetful_dot)),
    CompilerFault("matmul", "sm_90a", "halve-conversions", "tile.select", target_pass(
        nvidia_pipeline, "halve_conversions", other_branch)),
    CompilerFault("matmul", "sm_90a", "pipeline-loads", "tile.ge", target_pass(
        nvidia_pipeline, "pipeline_loads", same_id("ge", "lt"))),
    CompilerFault("attention", "sm_90a", "merge-equal-again", "tile.exp", tile_pass(
        "merge-equal-again", first_operand("exp"))),
    CompilerFault("cross_entropy", "cpu", "canonicalize-again", "tile.store", tile_pass(
        "canonicalize-again", dropped_store)),
    CompilerFault("gelu", "cpu", "lowering", "tile.mul", lowering(
        CHUNKS, Elementwise, if_function("mul", "add"))),
    CompilerFault("gelu", "cpu", "lowering", "tile.select", lowering(CHUNKS, Select, _swapped)),
    CompilerFault("attention", "cpu", "lowering", "tile.ge", lowering(
        CHUNKS, Elementwise, if_function("ge", "gt"))),
    CompilerFault("rotary", "cpu", "lowering", "tile.sub", lowering(
        CHUNKS, Elementwise, if_function("sub", "add"))),
    CompilerFault("cumulative", "cpu", "lowering", "tile.scan", lowering(
        CPU, Scan, lambda op: op.changed(reverse=True))),
    CompilerFault("matmul", "cpu", "lowering", "tile.select", lowering(CHUNKS, Select, _swapped)),
]  # fmt: skip
