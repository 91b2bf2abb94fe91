"""Twenty faults in sources, as people make them: what stood there, and what stands there now."""

from __future__ import annotations

from dataclasses import dataclass

from tests.bisect.kernels import GROUNDS


@dataclass(frozen=True)
class SourceFault:
    """A kernel of `GROUNDS` with one text in place of another, which stands there once."""

    kernel: str
    right: str
    wrong: str

    @property
    def name(self) -> str:
        return f"{self.kernel}: {self.wrong.strip()}"

    def text(self) -> str:
        """The faulty kernel."""
        whole = GROUNDS[self.kernel].text
        assert whole.count(self.right) == 1, (self.kernel, self.right)
        return whole.replace(self.right, self.wrong)

    def line(self) -> int:
        """The number of the faulty line in a cell whose first line is the magic."""
        lines = self.text().split("\n")
        right = GROUNDS[self.kernel].text.split("\n")
        return 2 + next(n for n, (a, b) in enumerate(zip(lines, right, strict=True)) if a != b)


SOURCE_FAULTS = [
    SourceFault("gelu", "0.044715 * x", "0.44715 * x"),
    SourceFault("gelu", "inner < 0.0, -t, t", "inner < 0.0, t, -t"),
    SourceFault("gelu", "-2.0 * tl.abs(inner)", "-1.0 * tl.abs(inner)"),
    SourceFault("gelu", "mask = offsets < n", "mask = offsets < n - 1"),
    SourceFault("softmax", 'other=float("-inf")', "other=0.0"),
    SourceFault("softmax", "scaled = x * scale", "scaled = x + scale"),
    SourceFault("softmax", "tl.sum(numerator, axis=0)", "tl.max(numerator, axis=0)"),
    SourceFault("layer_norm", "/ n - mean * mean", "/ n - mean"),
    SourceFault("layer_norm", "squares += x * x", "squares += x"),
    SourceFault("layer_norm", "variance + eps", "variance - eps * 100000.0"),
    SourceFault("layer_norm", "inverse * weight + bias", "inverse * weight - bias"),
    SourceFault("matmul", "range(0, tl.cdiv(K, BK))", "range(0, tl.cdiv(K, BK) - 1)"),
    SourceFault("matmul", "a_ptrs += BK * stride_ak", "a_ptrs += stride_ak"),
    SourceFault("matmul", "accumulator >= 0", "accumulator <= 0"),
    SourceFault("attention", "rows[:, None] >= columns", "rows[:, None] > columns"),
    SourceFault("attention", "accumulator * kept[:, None]", "accumulator * newest[:, None]"),
    SourceFault("attention", "total = total * kept +", "total = total +"),
    SourceFault("rotary", "first * cos - second * sin", "first * cos + second * sin"),
    SourceFault("cross_entropy", "largest + tl.log(total) - own", "largest + total - own"),
    SourceFault("cumulative", "carry += tl.sum(x, axis=0)", "carry = tl.sum(x, axis=0)"),
]  # fmt: skip
