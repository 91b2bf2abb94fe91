"""Kernels as the notebooks and benchmarks launch them: what must assemble without spilling."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from tests.bench.cases import MATMUL_CONFIGS
from tests.kernels import matmul, reductions, softmax, vector_add
from tests.language.harness import from_text
from tests.passes.corpus import tile_ir
from workbench.ir import Module
from workbench.passes.manager import Recorder
from workbench.passes.pipeline import tile_passes
from workbench.targets.built import Built
from workbench.targets.nvidia.pipeline import build

NOTEBOOKS = Path(__file__).parents[3] / "notebooks"


@dataclass(frozen=True)
class Configuration:
    """A kernel, its facts and options; `narrow`: the launch fact that indices fit 32 bits."""

    name: str
    function: Callable[[], Any]
    signature: str
    constexprs: dict[str, Any]
    options: dict[str, Any] = field(default_factory=dict)
    narrow: bool = True

    def module(self) -> Module:
        module = tile_ir(self.function(), self.signature, self.constexprs, **self.options)
        return replace(module, attributes={**module.attributes, "narrow_index": self.narrow})

    def built(self, chip: str, recorder: Recorder | None = None) -> Built:
        recorder = recorder or Recorder()
        return build(tile_passes(self.module(), recorder), chip, recorder)


@cache
def notebook_kernel(notebook: str, name: str) -> Any:
    """Return the last kernel of a name that a notebook's cells define."""
    cells = json.loads((NOTEBOOKS / notebook).read_text())["cells"]
    texts = ["".join(c["source"]) for c in cells if c["cell_type"] == "code"]
    text = [t for t in texts if t.startswith(f"%%kernel {name} ")][-1]
    lines = text.splitlines()
    while lines[0].endswith("\\"):
        lines.pop(0)
    return from_text("\n".join(line for line in lines[1:] if not line.startswith("x, y, out")))


def _of(notebook: str, name: str) -> Callable[[], Any]:
    return lambda: notebook_kernel(notebook, name)


def _matmul(blocks: tuple[int, int, int], warps: int, stages: int, narrow: bool) -> Configuration:
    names = ("BLOCK_M", "BLOCK_N", "BLOCK_K")
    return Configuration(
        f"matmul {'x'.join(map(str, blocks))} w{warps} s{stages}{'' if narrow else ' wide'}",
        lambda: matmul.matmul,
        "*fp16:16 *fp16:16 *fp16:16 i32:16 i32:16 i32:16 i32:16 i32=1 i32:16 i32=1 i32:16 i32=1",
        dict(zip(names, blocks, strict=True)) | {"GROUP_M": 8, "ACTIVATION": ""},
        {"num_warps": warps, "num_stages": stages}, narrow,
    )  # fmt: skip


def _softmax(dtype: str, columns: int) -> Configuration:
    signature = f"*{dtype}:16 *{dtype}:16 i32:16 i32:16 i32:16"
    return Configuration(
        f"softmax {dtype} {columns}", lambda: softmax.softmax, signature, {"BLOCK": columns}
    )


def _reduction(name: str, out: str) -> Configuration:
    signature = f"*fp32:16 *{out}:16 i32:16 i32:16"
    kernel = getattr(reductions, name)
    options = {"num_warps": 8}
    return Configuration(f"{name} 4096", lambda: kernel, signature, {"BLOCK": 4096}, options)


def _notebook_matmul(dtype: str, narrow: bool) -> Configuration:
    return Configuration(
        f"notebook matmul {dtype}{'' if narrow else ' wide'}", _of("03-matmul.ipynb", "matmul"),
        f"*{dtype}:16 *{dtype}:16 *{dtype}:16 i32:16 i32:16 i32:16 i32:16 i32:16 i32:16",
        {"BM": 64, "BN": 64, "BK": 32, "GROUP": 8}, {"num_warps": 4, "num_stages": 3}, narrow,
    )  # fmt: skip


#: The seed's add: blocks of 512, four warps, everything a multiple of 16.
SEED_ADD = Configuration("add 512 w4", lambda: vector_add.add, "*fp32:16 *fp32:16 *fp32:16 i32:16",
                         {"BLOCK": 512}, {"num_warps": 4})  # fmt: skip

#: Configurations that assemble in a moment.
QUICK = [
    SEED_ADD,
    Configuration("bench add 1024", lambda: vector_add.add, "*fp32:16 *fp32:16 *fp32:16 i32:16",
                  {"BLOCK": 1024}),
    Configuration("notebook add", _of("01-vector-add.ipynb", "add"),
                  "*fp32:16 *fp32:16 *fp32:16 i32", {"BLOCK": 1024}),
    Configuration("notebook softmax 1024", _of("02-fused-softmax.ipynb", "softmax"),
                  "*fp32:16 *fp32:16 i32:16 i32:16", {"BLOCK": 1024}),
    Configuration("notebook softmax 781", _of("02-fused-softmax.ipynb", "softmax"),
                  "*fp32:16 *fp32:16 i32 i32", {"BLOCK": 1024}),
    _softmax("fp32", 1024),
    _softmax("bf16", 32768),
    _notebook_matmul("fp16", True),
    Configuration("long row sum", lambda: reductions.long_row_sum,
                  "*fp32:16 *fp32:16 i32:16 i32:16", {"BLOCK": 1024}),
]  # fmt: skip

#: The rest: every size of the benchmarks, and the 64-bit twins.
SLOW = [
    *(_softmax(dtype, 1 << power) for dtype in ("fp32", "bf16") for power in range(8, 16)),
    *(Configuration(f"notebook softmax {1 << power}", _of("02-fused-softmax.ipynb", "softmax"),
                    "*fp32:16 *fp32:16 i32:16 i32:16", {"BLOCK": 1 << power})
      for power in (8, 9, 11, 12, 13)),
    *(_reduction(name, "i32" if "arg" in name else "fp32")
      for name in ("row_sum", "row_max", "row_min", "row_argmax", "row_argmin")),
    *(_matmul((bm, bn, bk), warps, stages, True) for bm, bn, bk, warps, stages in MATMUL_CONFIGS),
    _matmul((128, 128, 32), 4, 4, False),
    _notebook_matmul("fp16", False), _notebook_matmul("fp32", True),
]  # fmt: skip
