"""What stands in targets/simt holds for a machine that is not NVIDIA's and has wider warps.

Kernels are given layouts, shared memory and barriers for it; the GPU IR is verified, interpreted
and watched for missing barriers; its code, in plain LLVM, runs lane by lane.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.files import form
from tests.files.form import Text
from tests.files.test_files import agree
from tests.kernels import (
    broadcasting,
    large_tiles,
    matmul,
    reductions,
    scans,
    softmax,
    sorting,
    vector_add,
)
from tests.passes.corpus import numbers, tile_ir
from tests.targets.nvidia.hazards import simulate
from tests.targets.simt.pretend import PRETEND, Pretend, execute, gpu_ir
from workbench.interpreter import run_module
from workbench.ir import MNEMONICS, InvalidModuleError, Module, layout_of
from workbench.layouts import blocked, plan_convert
from workbench.layouts.convert import SharedPlan, ShufflePlan
from workbench.layouts.predict import linear_wavefronts, phases
from workbench.ops import ConvertLayout
from workbench.source import ResourceError
from workbench.targets.nvidia.chip import chip
from workbench.targets.simt.layout import convert_plan
from workbench.targets.simt.passes.shared_memory import allocate
from workbench.targets.simt.verifier import verify_layouts

MACHINE = Pretend()
F32, I32 = np.float32, np.int32


@dataclass(frozen=True, eq=False)
class Case:
    """A kernel, its signature and constants, its arguments, and how many programs run it.

    within: the relative error that functions of floats may bring; 0 for equal bits.
    """

    name: str
    kernel: Callable[..., Any]
    signature: str
    constexprs: dict[str, Any]
    arguments: Callable[[], list[Any]]
    grid: tuple[int, ...] = (1,)
    warps: int = 4
    within: float = 0.0
    options: dict[str, Any] = field(default_factory=dict)

    def module(self) -> Module:
        module = tile_ir(
            self.kernel, self.signature, self.constexprs, num_warps=self.warps, **self.options
        )
        return replace(module, attributes={**module.attributes, "narrow_index": True})


def rows(count: int, columns: int, *outputs: Any) -> Callable[[], list[Any]]:
    """Return rows of small numbers and outputs; an output is a type or (type, columns)."""

    def arguments() -> list[Any]:
        given = [numbers(count * columns)]
        for output in outputs:
            kind, width = output if isinstance(output, tuple) else (output, columns)
            given.append(np.zeros(count * width, kind))
        return [*given, columns, columns]

    return arguments


def tiles(kinds: str, *sizes: int) -> Callable[[], list[Any]]:
    """Return arrays of small numbers; the last one is for the result."""
    held = {"f": F32, "i": I32}

    def arguments() -> list[Any]:
        arrays = [
            numbers(size, held[kind], seed)
            for seed, (kind, size) in enumerate(zip(kinds, sizes, strict=True))
        ]
        arrays[-1][:] = 0
        return arrays

    return arguments


def picks() -> list[Any]:
    arrays = tiles("fif", 1024, 1024, 1024)()
    arrays[1][:] = np.random.default_rng(3).integers(0, 32, 1024)
    return arrays


def words() -> list[Any]:
    return [np.random.default_rng(3).integers(-9, 140, 512).astype(I32), np.zeros(128, I32)]


def counts() -> list[Any]:
    return [np.random.default_rng(4).integers(0, 64, 500).astype(I32), np.zeros(64, I32), 500]


def product(m: int, n: int, k: int) -> Callable[[], list[Any]]:
    return lambda: [numbers(m * k), numbers(k * n, F32, 2), np.zeros(m * n, F32), m, n, k, k, n, n]


ROW = "*fp32:16 *fp32:16 i32 i32"
CASES = [
    Case("add", vector_add.add, "*fp32:16 *fp32:16 *fp32:16 i32", {"BLOCK": 512},
         lambda: [numbers(700), numbers(700, F32, 2), np.zeros(700, F32), 700], (2,), 2),
    Case("add of bytes", vector_add.add, "*i8:16 *i8:16 *i8:16 i32", {"BLOCK": 256},
         lambda: [numbers(256, np.int8), numbers(256, np.int8, 2), np.zeros(256, np.int8), 256],
         (1,), 1),
    Case("softmax", softmax.softmax, "*fp32:16 *fp32:16 i32 i32 i32", {"BLOCK": 512},
         lambda: [np.zeros(600, F32), numbers(600), 300, 300, 300], (2,), 4, 1e-5),
    *(Case(f"{name} {block} warps {warps}", getattr(reductions, name),
           ROW.replace("*fp32:16 i32", f"*{'i32' if 'arg' in name else 'fp32'}:16 i32", 1),
           {"BLOCK": block}, rows(3, block - 3, (I32 if "arg" in name else F32, 1)), (3,), warps)
      for name in ("row_sum", "row_max", "row_argmin", "long_row_sum")
      for block, warps in ((64, 1), (512, 4))),
    Case("sums of a cube", large_tiles.normalized, "*fp32:16 *fp32:16", {"A": 3, "B": 13, "C": 9},
         tiles("ff", 351, 351), warps=2),
    Case("both ways", large_tiles.both_ways, "*fp32:16 *fp32:16 *fp32:16", {"A": 50, "B": 60},
         lambda: [numbers(3000), np.zeros(50, F32), np.zeros(60, F32)]),
    Case("product by sums", broadcasting.product_by_sums, "*fp32:16 *fp32:16 *fp32:16 i32 i32 i32",
         {"BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 16},
         lambda: [numbers(1024), numbers(2048, F32, 2), np.zeros(2048, F32),
                  32, 64, 32]),
    Case("distances", broadcasting.distances, "*fp32:16 *fp32:16 *fp32:16 i32 i32 i32",
         {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32},
         lambda: [numbers(640), numbers(640, F32, 2), np.zeros(900, F32), 30, 30, 20], within=1e-5),
    *(Case(f"cumsum {way} {block} warps {warps}", scans.row_cumsum, ROW,
           {"BLOCK": block, "REVERSE": way == "back"}, rows(2, block - 5, F32), (2,), warps)
      for way, block, warps in (("on", 64, 1), ("back", 256, 1), ("on", 512, 4), ("back", 512, 4))),
    Case("column cumsum", scans.column_cumsum, "*fp32:16 *fp32:16 i32 i32",
         {"ROWS": 32, "COLS": 32}, lambda: [numbers(930), np.zeros(930, F32), 30, 31], warps=2),
    Case("running maxima", scans.row_cummax, "*fp32:16 *fp32:16 *i32:16 i32 i32", {"BLOCK": 256},
         rows(2, 200, F32, I32), (2,), 2),
    *(Case(f"sort {block} warps {warps}", sorting.row_sort, ROW,
           {"BLOCK": block, "DESCENDING": False}, rows(2, block - 7, F32), (2,), warps)
      for block, warps in ((128, 1), (512, 4))),
    Case("argsort", sorting.row_argsort, "*fp32:16 *fp32:16 *i32:16 i32 i32", {"BLOCK": 256},
         rows(2, 250, F32, I32), (2,), 2),
    Case("topk", sorting.row_topk, "*fp32:16 *fp32:16 *i32:16 i32 i32", {"BLOCK": 256, "K": 8},
         rows(2, 250, (F32, 8), (I32, 8)), (2,), 2),
    Case("transpose", large_tiles.transposed, "*fp32:16 *fp32:16", {"A": 64, "B": 32},
         tiles("ff", 2048, 2048)),
    Case("transpose with holes", large_tiles.transposed, "*fp32:16 *fp32:16", {"A": 50, "B": 30},
         tiles("ff", 1500, 1500), warps=2),
    Case("gather", large_tiles.gathered, "*fp32:16 *i32:16 *fp32:16", {"A": 32, "B": 32}, picks),
    Case("concatenate", large_tiles.concatenated, "*fp32:16 *fp32:16 *fp32:16", {"N": 512},
         tiles("fff", 512, 512, 1024)),
    Case("histogram", large_tiles.counted, "*i32:16 *i32:16", {"N": 512, "BINS": 128}, words),
    Case("histogram by atomics", scans.histogram, "*i32:16 *i32:16 i32",
         {"BINS": 64, "BLOCK": 256}, counts, (2,)),
    Case("products", large_tiles.batched_dot, "*fp32:16 *fp32:16 *fp32:16",
         {"B": 2, "M": 16, "N": 8, "K": 24}, tiles("fff", 768, 384, 256), warps=2),
    Case("matmul", matmul.matmul,
         "*fp32:16 *fp32:16 *fp32:16 i32 i32 i32 i32 i32=1 i32 i32=1 i32 i32=1",
         {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 16, "GROUP_M": 2, "ACTIVATION": ""},
         product(33, 32, 40), (2,), 2),
]  # fmt: skip


@cache
def compiled(case: Case) -> Module:
    return gpu_ir(case.module(), MACHINE)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_gpu_ir_means_what_the_kernel_means(case: Case):
    module = compiled(case)
    verify_layouts(module, MACHINE)
    layouts = {layout_of(v.type) for op in module.walk() for v in op.results} - {None}
    assert {layout.size("lane") for layout in layouts} == {64}  # type: ignore[union-attr]
    got = case.arguments()
    run_module(module, case.grid, got)
    check(case, got)


def check(case: Case, got: list[Any]) -> None:
    """Compare arrays with what the interpreter makes of the kernel."""
    wanted = case.arguments()
    run_module(case.module(), case.grid, wanted)
    for want, found in zip(wanted, got, strict=True):
        if isinstance(want, np.ndarray):
            np.testing.assert_allclose(found, want, rtol=case.within, atol=0)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_no_barrier_is_missing(case: Case):
    module = compiled(case)
    offsets, _, total = allocate(module, MACHINE)
    simulate(module, offsets, total, case.grid, case.arguments(), MACHINE)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_code_computes_what_the_kernel_means(case: Case):
    got = case.arguments()
    execute(compiled(case), MACHINE, case.grid, got)
    check(case, got)


TEXTS = [
    text
    for text in form.texts()
    if text.path.parent.name in ("arithmetic", "atomics", "control", "memory")
    and text.path.parent.parent == form.ROOTS[0]
]


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text.name)
def test_files_mean_the_same_in_plain_llvm(text: Text):
    """Conditions, atomics, shifts by any amount and functions, with no instruction of a chip."""
    module = text.module({"num_warps": 2})
    wanted, got = text.arguments(), text.arguments()
    with np.errstate(all="ignore"):
        run_module(module, text.grid, list(wanted.values()))
    execute(gpu_ir(module, MACHINE), MACHINE, text.grid, list(got.values()))
    for name, array in wanted.items():
        if isinstance(array, np.ndarray):
            found, want = text.read(name, got[name]), text.read(name, array)
            assert agree(text, found, want), f"%{name}: {found}, interpreter {want}"


def test_conversions_go_by_words_and_through_shared_memory_in_rounds():
    """The cases reach what they are for."""
    case = next(case for case in CASES if case.name == "transpose with holes")
    conversions = [op for op in compiled(case).walk() if isinstance(op, ConvertLayout)]
    plans = [convert_plan(op, MACHINE) for op in conversions]
    assert any(isinstance(plan, ShufflePlan) for plan in plans)
    assert any(isinstance(plan, SharedPlan) and len(plan.load.rounds) > 1 for plan in plans)


def test_every_op_has_a_rule_or_a_reason():
    for op in set(MNEMONICS.values()):
        if ".nvidia." not in op.__module__ and PRETEND.rule(op) is None:
            assert PRETEND.reason(op), f"{op.__name__} has neither a rule nor a reason"


@pytest.mark.parametrize("itemsize", [1, 2, 4, 8])
def test_staging_has_no_bank_conflicts_on_other_banks(itemsize: int):
    source = blocked((64, 64), 1, (1, 0), 4, 64)
    target = blocked((64, 64), 1, (0, 1), 4, 64)
    plan = plan_convert(source, target, 8 * itemsize, None, MACHINE.banks)
    assert isinstance(plan, SharedPlan)
    for access in (plan.store, plan.load):
        size = itemsize * access.vector
        found = linear_wavefronts(access.lane, size, MACHINE.banks)
        assert found == phases(size, 64, MACHINE.banks)


def test_limits_are_the_machines():
    case = CASES[0]
    with pytest.raises(ResourceError, match="expected a power of two from 1 to 16"):
        gpu_ir(replace(case, warps=32).module(), MACHINE)
    large = next(case for case in CASES if case.name == "transpose")
    small = replace(MACHINE, shared_bytes=1024)
    with pytest.raises(ResourceError, match="pretend allows 1,024"):
        gpu_ir(large.module(), small)


def test_layouts_of_another_lane_count_are_refused():
    module = compiled(CASES[0])
    with pytest.raises(InvalidModuleError, match="64 lanes of 32"):
        verify_layouts(module, chip("sm_80"))
