"""Writes the tables of README.md from the committed results: `python tests/bench/render.py`.

`--check` changes nothing and fails if the README is not what the results say.
"""

from __future__ import annotations

import json
import math
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "tests" / "bench" / "results"
START, END = "<!-- results: start -->", "<!-- results: end -->"


def rendered() -> str:
    """Return the tables as Markdown: per machine one row per suite and baseline."""
    parts = []
    for path in sorted(RESULTS.glob("*.json"), reverse=True):
        data = json.loads(path.read_text())
        groups: dict[tuple[str, str, str], list[dict]] = defaultdict(list)
        for row in data["rows"]:
            groups[row["suite"], row["dtype"], row["baseline"]].append(row)
        versions = ", ".join(f"{k} {v}" for k, v in data["versions"].items())
        parts.append(f"**{data['machine']}** ({data['date']}; {versions})\n")
        parts.append("| suite | type | sizes | against | speed, geometric mean | worst | best |")
        parts.append("|---|---|---|---|---|---|---|")
        alone = []
        for (suite, dtype, baseline), rows in groups.items():
            ratios = [r["ratio"] for r in rows if r["ratio"]]
            if not ratios:
                alone += rows
                continue
            sizes = sorted(r["size"] for r in rows)
            extent = f"{sizes[0]:,} … {sizes[-1]:,}" if len(sizes) > 1 else f"{sizes[0]:,}"
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            parts.append(
                f"| {suite.replace('_', ' ')} | {dtype} | {extent} | {baseline} "
                f"| {mean:.2f} × | {min(ratios):.2f} | {max(ratios):.2f} |"
            )
        if alone:
            parts += ["", "| what | milliseconds |", "|---|---|"]
            parts += [f"| {r['case']} | {r['ours_us'] / 1000:.1f} |" for r in alone]
        parts.append("")
    return "\n".join(parts)


def main(arguments: list[str]) -> int:
    """Write the README, or with --check compare it."""
    readme = ROOT / "README.md"
    text = readme.read_text()
    before, rest = text.split(START)
    _, after = rest.split(END)
    new = f"{before}{START}\n{rendered()}\n{END}{after}"
    if "--check" in arguments:
        if new != text:
            print("README.md is older than tests/bench/results; run python tests/bench/render.py")
            return 1
        return 0
    readme.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
