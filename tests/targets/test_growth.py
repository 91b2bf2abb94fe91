"""Values that are used twice at each of many steps: the work grows with the kernel's length only.

Whatever looks at a value once for every way that leads to it would look 2**28 times here, and
numbers that are squared at every step would have as many digits. Either would never end.
"""

from __future__ import annotations

import pytest

from workbench import run_cell

STEPS = 28
KERNEL = """
def chain(p, q, o, n, STEPS: tl.constexpr):
    i = tl.arange(0, 16)
    j = i.to(tl.int64)
    s = tl.program_id(0) + n
    x = tl.load(p + i)
    m = i < n
    y = x[:, None] + x[None, :]
    a = p + i
    for k in tl.static_range(STEPS):
        {step}
    tl.store(o + i, x + i + j + s + tl.load(a, mask=m), mask=m)
    tl.store(o + 16 + tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :], y)
"""
CHAINS = {
    "floats": "x = x * x + x",
    "float remainders": "x = (x + 1.5) % (x * 0.5 + 2.0)",
    "floats chosen": "x = tl.where(x > 0.5, x * x, x + x)",
    "masks": "m = (m & (x > k)) | (m ^ (x < k))",
    "masks of indices": "m = m & (i * 2 < n + k) & m",
    "squares of indices": "i = i * i + i",
    "quotients of indices": "i = i + i * 3 - (i // 2)",
    "remainders of indices": "i = (i + k) % n + i // (n + k)",
    "indices chosen": "i = tl.where(i < n, i + 1, i * 2)",
    "bits": "j = (j ^ (j << 3)) + (j & (j >> 1))",
    "squares of scalars": "s = s * s + s",
    "remainders of scalars": "s = (s + k) % (n + s * 2) + s",
    "smaller scalars": "s = tl.minimum(s, n - s) + tl.maximum(s, k)",
    "loaded indices": "i = tl.load(q + i % 16) + i",
    "pointers chosen": "a = tl.where(m, a + i, a + s)",
    "transposed tiles": "y = tl.trans(y) + y",
}


@pytest.mark.parametrize("target", ["cpu", "sm_90a"])
@pytest.mark.parametrize("chain", CHAINS)
def test_long_chains_compile(chain: str, target: str):
    text = KERNEL.format(step=CHAINS[chain])
    line = f'chain --sig "*f32 *i32 *f32 i32" --set STEPS={STEPS} --target {target} --no-cache -q'
    result = run_cell(text, line, {})
    assert result.stages["asm" if target == "cpu" else "ptx"]
