"""Random kernels around products by warpgroups, for boxes, rings, and warps that part.

`products.py` writes small products. Here one kernel is a product of 64 rows and more with one or
two oddities: rows that wrap, turn or are loaded, rounds that go down, by a loaded bound, or by a
`while`, masks of every kind, products under a condition, stores and atomics among them, an early
return, a second loop. Its GPU IR is interpreted and compared, bit for bit: numbers are small.

    python -m tests.fuzz.boxes FIRST COUNT
"""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tests.language.harness import from_text
from tests.passes.corpus import tile_ir
from tests.passes.meaning import first_difference, meaning
from tests.targets.nvidia.raising import may_run
from workbench.ir import Module
from workbench.passes.manager import Recorder
from workbench.passes.pipeline import tile_passes
from workbench.source import LaunchError
from workbench.targets.nvidia import pipeline

POINTERS = {"a": "*fp16:16", "b": "*fp16:16", "c": "*fp32:16", "d": "*fp32:16", "idx": "*i32:16"}
ROWS = {
    "plain": "om", "wrapped": "om % M", "clamped": "tl.minimum(om, M - 1)",
    "loaded": "tl.load(idx + 8 + tl.minimum(om, M - 1))", "turned": "tl.maximum(M - 1 - om, 0)",
    "shared": "om // 2 % M",
}  # fmt: skip
#: The head of a loop, and what a round begins and ends with.
ROUNDS = {
    "up": ("for k0 in tl.range(0, K, BK):", "", ""),
    "counted": ("for i in range(0, tl.cdiv(K, BK)):", "k0 = i * BK", ""),
    "down": ("for k0 in range(tl.cdiv(K, BK) * BK - BK, -1, -BK):", "", ""),
    "while": ("while k0 < K:", "", "k0 += BK"),
    "every other": ("for k0 in range(0, K, 2 * BK):", "", ""),
    "to a loaded end": ("for k0 in range(0, tl.minimum(count * BK, K), BK):", "", ""),
    "from a loaded start": ("for k0 in range(tl.maximum(count - 2, 0) * BK, K, BK):", "", ""),
}
#: Masks of the first operand beside that of its rows.
MASKS = {
    "inside": "(kk[None, :] < K)",
    "holes": "(kk[None, :] < K) & (kk[None, :] % 3 != 1)",
    "condition": "(kk[None, :] < K) & (count > 1)",
    "loaded": "(kk[None, :] < K) & (tl.load(idx + kk) > -2)[None, :]",
    "hash": "(kk[None, :] < K) & (om[:, None].to(tl.int64) * 6364136223846793005 < count)",
}
#: What a round does with its operands.
BODIES = {
    "sum": ["acc = tl.dot(x, y, acc)"],
    "some": ["if k0 > 16:", "    acc = tl.dot(x, y, acc)"],
    "if loaded": ["if count > 1:", "    acc = tl.dot(x, y, acc)"],
    "beside": ["acc += tl.dot(x, y)", "acc = tl.where(om[:, None] > 5, acc, acc + 1)"],
    "anew": ["if k0 > 30:", "    acc = acc * 0", "acc = tl.dot(x, y, acc)"],
    "computed": ["acc = tl.dot((x + x).to(tl.float16), y, acc)"],
    "told": ["acc = tl.dot(x, y, acc)", "tl.store(d + 512 + k0 // BK, tl.sum(acc))"],
    "in place": [
        "t = tl.load(d + om * 2, mask=om < M, other=0.0)", "acc = tl.dot(x, y, acc)",
        "tl.store(d + om * 2, t + 1.0, mask=om < M)",
    ],
    "counted": [
        "acc = tl.dot(x, y, acc)",
        "tl.atomic_add(d + tl.arange(0, 2), 1.0, mask=tl.arange(0, 2) < count)",
    ],
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel's text and how it is compiled and launched."""

    text: str
    sizes: dict[str, int]
    numbers: dict[str, int]
    words: dict[str, str]
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    columns: int = 1


def kernel_of(seed: int) -> Kernel:
    """Return the kernel of a seed."""
    choose = random.Random(seed)

    def odd(options: Any, often: float = 0.3) -> Any:
        usual, *others = options
        return choose.choice(others) if choose.random() < often else usual

    def some(often: float) -> bool:
        return choose.random() < often

    rows, rounds = choose.choice([*ROWS]) if some(0.3) else "plain", odd(ROUNDS, 0.5)
    mask, body = odd([*MASKS], 0.35), BODIES[odd(BODIES, 0.5)]
    head, begins, ends = ROUNDS[rounds]
    turned, wraps, other = some(0.3), some(0.15), odd(["0.0", "1.0"], 0.1)
    block = {"BM": odd([64, 128], 0.2), "BN": choose.choice([16, 32, 64]), "BK": odd([16, 32])}
    y = "kk[:, None] * sb + rn[None, :]" if not turned else "kk[:, None] + rn[None, :] * sb"
    load = [
        f"x = tl.load(a + rm[:, None] * sa + kk[None, :], mask=(om[:, None] < M) & {MASKS[mask]}, "
        f"other={other})",
        f"y = tl.load(b + {y}, mask=(kk[:, None] < K) & (rn[None, :] < N), other=0.0)",
    ]
    lines = ["pm, pn = tl.program_id(0), tl.program_id(1)", "d = d + (pm * 2 + pn) * 1024"]
    lines += ["count = tl.load(idx + pm)"]
    lines += ["if count < 1:", "    return"] if some(0.25) else []
    lines += ["om = pm * BM + tl.arange(0, BM)", f"rm = {ROWS[rows]}"]
    lines += ["on = pn * BN + tl.arange(0, BN)", f"rn = {'on % N' if wraps else 'on'}"]
    lines += ["k0 = 0", "acc = tl.zeros((BM, BN), tl.float32)", head]
    within = [begins, "kk = k0 + tl.arange(0, BK)", *load, *body, ends]
    lines += ["    " + line for line in within if line]
    if some(0.2):
        again = ["kk = k0 + tl.arange(0, BK)", *load, BODIES["sum"][0]]
        lines += ["for k0 in range(0, tl.minimum(n * BK, K), BK):", *("    " + x for x in again)]
    if some(0.2):
        lines += [
            "tl.store(tl.make_block_ptr(c, (M, N), (sc, 1), (pm * BM, pn * BN), (BM, BN), (1, 0)), "
            "acc, boundary_check=(0, 1))"
        ]
    else:
        lines += ["at = c + om[:, None] * sc + on[None, :]"]
        lines += ["tl.store(at, acc, mask=(om[:, None] < M) & (on[None, :] < N))"]
    names = [*POINTERS, "M", "N", "K", "sa", "sb", "sc", "n"]
    head = f"def kernel({', '.join(names)}, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):"
    text = "\n".join([head, *("    " + line for line in lines), ""])
    k = max(0, block["BK"] * choose.randint(0, 5) - odd([0, 3, 8]))
    m, n = 2 * block["BM"] - odd([0, 1, 20]), 2 * block["BN"] - odd([0, 5, 8])
    numbers = {"M": m, "N": n, "K": k, "sa": 176, "sb": 176, "sc": 128, "n": choose.randint(0, 3)}
    words = {name: "i32:16" if name in ("sa", "sb", "sc") else "i32" for name in numbers}
    options: dict[str, Any] = {"num_warps": odd([4, 8]), "num_stages": odd([2, 3, 1, 4], 0.6)}
    options |= {name: True for name in ("warp_specialize", "persistent", "tma_stores") if some(0.4)}
    return Kernel(text, block, numbers, {**POINTERS, **words}, options, choose.randint(1, 2))


def arguments(kernel: Kernel, seed: int) -> list[Any]:
    """Return fresh arguments of the kernel of a seed."""
    numbers = np.random.default_rng(seed)
    a, b = (numbers.integers(-2, 3, 340 * 176).astype(np.float16) for _ in range(2))
    rows = numbers.permutation(max(kernel.numbers["M"], 176)) % kernel.numbers["M"]
    idx = np.concatenate([numbers.integers(-1, 7, 8), rows]).astype(np.int32)
    c, d = np.zeros(256 * 128, np.float32), np.zeros(4 * 1024, np.float32)
    return [a, b, c, d, idx, *kernel.numbers.values()]


def modules(kernel: Kernel, seed: int) -> tuple[Module, Module]:
    """Return a kernel's tile IR, and GPU IR for a launch whose numbers fit 32 bits."""
    words = " ".join(kernel.words.values())
    module = tile_ir(from_text(kernel.text), words, kernel.sizes, **kernel.options)
    final = tile_passes(module, Recorder())
    final = replace(final, attributes={**final.attributes, "narrow_index": True})
    built = _built(final)
    if not may_run(built, arguments(kernel, seed), (2, kernel.columns)):
        built = _built(replace(final, attributes={**final.attributes, "tma": False}))
    return module, built


def _built(module: Module) -> Module:
    found = pipeline.build(module, "sm_90a", Recorder()).gpu
    assert found is not None
    return found


def difference(seed: int) -> str:
    """Say how the GPU IR of a seed's kernel differs from its tile IR; empty if it does not."""
    kernel = kernel_of(seed)
    grid = 2, kernel.columns
    module, built = modules(kernel, seed)
    wanted = meaning(module, grid, arguments(kernel, seed))
    try:
        got = meaning(built, grid, arguments(kernel, seed))
    except LaunchError as error:  # the launch takes the twin then, as launchers do
        if "no tensor map can be made" in str(error):
            return ""
        raise
    return first_difference(wanted, got)


def main(words: Sequence[str]) -> int:
    """Try so many seeds; returns how many differ."""
    first, count, wrong = int(words[0]), int(words[1]), 0
    warnings.simplefilter("ignore", RuntimeWarning)
    for seed in range(first, first + count):
        try:
            said = difference(seed)
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
        if said:
            wrong += 1
            sys.stdout.write(f"{seed}: {said}\n")
    sys.stdout.write(f"{count} kernels, {wrong} differ\n")
    return wrong


if __name__ == "__main__":
    raise SystemExit(bool(main(sys.argv[1:])))
