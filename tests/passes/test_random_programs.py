"""Laws on random programs: every pass keeps the IR valid and what the program computes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from tests.passes.launches import Launch, launches
from tests.passes.leaves import GRID
from tests.passes.meaning import cases, first_difference, meaning
from tests.passes.pipelines import gpu_steps, tile_steps
from tests.passes.programs import modules
from workbench.analysis.ranges import index_program
from workbench.ir import Module, print_module, verify_module
from workbench.passes.manager import Recorder, Remarks
from workbench.passes.narrow_index import narrow_index
from workbench.passes.pipeline import tile_passes


def check_steps(module: Module, launch: Launch, steps: Iterable[tuple[str, Module]]) -> None:
    """Verify and interpret what each pass left behind."""
    note(print_module(module))
    wanted = meaning(module, GRID, launch.arguments())
    before = module
    for name, after in steps:
        if after is before:
            continue
        verify_module(after)
        got = meaning(after, GRID, launch.arguments())
        assert got == wanted, f"{name}: {first_difference(wanted, got)}\n{print_module(after)}"
        before = after


@given(modules(), launches())
@cases(25)
def test_every_tile_pass_keeps_the_meaning(module: Module, launch: Launch):
    check_steps(module, launch, tile_steps(module))


def narrowed(module: Module, launch: Launch) -> Iterable[tuple[str, Module]]:
    """Yield the 64-bit twin of a module and, where the launch fits, the 32-bit one."""
    for flag in (False, True):
        if not flag or index_program(module).fits(launch.numbers, GRID):
            options = {**module.attributes, "narrow_index": flag}
            yield (
                f"narrow-index {flag}",
                narrow_index(replace(module, attributes=options), Remarks()),
            )


@given(modules(indices=True), launches())
@cases(25)
def test_exact_integers_keep_their_values_in_machine_widths(module: Module, launch: Launch):
    check_steps(module, launch, narrowed(module, launch))
    final = tile_passes(module, Recorder())
    check_steps(final, launch, narrowed(final, launch))


@given(modules(most=12), launches(), st.sampled_from([1, 2, 4]), st.booleans())
@cases(12)
def test_every_gpu_pass_keeps_the_meaning(
    module: Module, launch: Launch, num_warps: int, optimise: bool
):
    if optimise:
        module = tile_passes(module, Recorder())
    check_steps(module, launch, gpu_steps(module, num_warps=num_warps))


@pytest.mark.slow
@given(modules(most=25), launches(), st.sampled_from([1, 2, 4, 8]))
@cases(30)
def test_all_passes_one_after_the_other_keep_the_meaning(
    module: Module, launch: Launch, num_warps: int
):
    final = tile_passes(module, Recorder())
    narrow = index_program(final).fits(launch.numbers, GRID)
    verify_module(final)
    check_steps(module, launch, gpu_steps(final, num_warps=num_warps, narrow_index=narrow))
