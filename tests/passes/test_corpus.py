"""Every pass keeps the IR valid and what the kernels of the corpus compute."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.passes.corpus import Case, cases
from tests.passes.meaning import first_difference, meaning
from tests.passes.pipelines import gpu_steps, tile_steps
from workbench.analysis.ranges import index_program
from workbench.ir import Module, verify_module


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_every_pass_keeps_what_the_kernel_computes(case: Case):
    first = before = case.module()
    verify_module(first)
    wanted = meaning(first, case.grid, case.arguments())
    assert any(any(array) for array in wanted)

    def check(name: str, after: Module) -> None:
        verify_module(after)
        got = meaning(after, case.grid, case.arguments())
        assert got == wanted, f"{name}: {first_difference(wanted, got)}"

    for name, after in tile_steps(first):
        if after is not before:
            check(name, after)
        before = after
    final, options = before, {"num_warps": 4, "num_stages": 3} | case.options
    integers = zip(final.parameters, case.arguments(), strict=True)
    launch = {p.name: a for p, a in integers if isinstance(a, int)}
    for narrow in (False, True):
        assert not narrow or index_program(final).fits(launch, case.grid)
        before = replace(final, attributes={**final.attributes, **options, "narrow_index": narrow})
        for name, after in gpu_steps(before):
            if after is not before:
                check(f"{name}, narrow_index {narrow}", after)
            before = after
