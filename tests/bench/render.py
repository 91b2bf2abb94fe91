"""Writes tables from the committed results: `python tests/bench/render.py`.

README.md gets one row for each suite that is raced beside a library, of all machines with such;
results/README.md all suites and sizes of all machines. So it does the numbers that notebooks draw
(figures.py); `make notebooks` then draws them. `--check` changes nothing and fails if a document or
a notebook is not what the results say.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # run by its path, as the README says
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench import figures

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "tests" / "bench" / "results"
START, END = "<!-- results: start -->", "<!-- results: end -->"
HEAD = """\
# Results
Written by `python tests/bench/render.py` from the files beside this one; the README says how they
are measured. Above 1 is faster. Of a suite with several cases the geometric mean stands first, then
the least in brackets; ratios on which two rounds do not agree (*unsteady*, ~), or that may hold the
host's time (*host*), are in no mean. [MEASURED.md](../MEASURED.md) says what bounds them.
"""

#: What the suites of contests are, for who reads the README; others stand there by their names.
TITLES = {
    "matmul_nn": "A @ B, fp16 and bf16, 512 to 16384",
    "matmul_nt": "A @ B.T",
    "matmul_tn": "A.T @ B",
    "matmul_tt": "A.T @ B.T",
    "odd": "products of odd extents (1000, 1001, 2056, 4095, 4104)",
    "small": "products of 512 and 1024, hot",
    "fp8": "fp8 products, fast and exact sums",
    "int8": "int8 products",
    "tf32": "tf32 products, all orders",
    "leaky_relu": "product and leaky ReLU in one kernel",
    "attention_fwd": "attention forward, heads of 64 and 128, full and causal, 1024 to 16384",
    "attention_forms": "heads of 80, 96, 256; grouped, varlen, window, soft cap",
    "attention_bwd": "attention backward",
    "paged_decode": "decoding over pages",
    "paged_prefill": "prefill over pages",
    "skinny": "products of 1 to 256 rows",
    "mixed": "int4, int8, fp8, e2m1, mxfp8 weights",
    "grouped": "grouped products",
    "moe": "mixture of experts",
    "conv2d": "convolutions",
}

#: Suites whose rows are steps of one kernel: their mean says nothing.
LADDERS = frozenset(("ladder",))
#: Baselines in the order of their columns; the libraries share one.
COLUMNS = {
    "triton": ("triton",),
    "torch, cuBLAS": ("torch", "cublas", "cudnn"),
    "copy": ("copy",),
    "roofline": ("roofline",),
}

#: Those that the README tells of.
_BESIDE = ("torch, cuBLAS", "triton")

Result = dict[str, Any]


def rendered(folder: Path = RESULTS) -> str:
    """Return the tables as Markdown: per machine one row for each suite."""
    parts = []
    for data in _machines(folder):
        suites = _by_suite(data)
        versions = ", ".join(f"{name} {version}" for name, version in data["versions"].items())
        parts.append(f"**{data['machine']}** ({data['date']}; {versions})\n")
        hosted = {s: rows for s, rows in suites.items() if all(_is_host(r) for r in rows)}
        compared = {
            s: rows
            for s, rows in suites.items()
            if s not in hosted and any(r["ratio"] for r in rows)
        }
        parts += _compared(compared)
        parts += _speeds(suites)
        parts += _hosted(hosted)
        parts += _timed({s: rows for s, rows in suites.items() if s not in {**compared, **hosted}})
    return "\n".join(parts)


def summary(folder: Path = RESULTS) -> str:
    """Return the README's table: contests of all machines that have some, and the rest.

    A suite is a contest if its rows were tuned. Without any there is no table. The machine with the
    most of them stands first.
    """
    found = [(data, *_contests(data)) for data in _machines(folder)]
    machines = sorted((one for one in found if one[1]), key=lambda one: -len(one[1]))
    if not machines:
        return ""
    said = (f"**{data['machine']}**, {data['date']}" for data, _, _ in machines)
    words = [data["machine"].removeprefix("NVIDIA ").split()[0] for data, _, _ in machines]
    many = len(machines) > 1
    heads = [
        f"{word}: {what}" if many else what
        for word in words
        for what in ("÷ cuBLAS, cuDNN, torch", "÷ Triton")
    ]
    lines = [
        "; ".join(said) + "\n",
        f"| work | cases | {' | '.join(heads)} |",
        "|---|---" + "|---" * len(heads) + "|",
    ]
    every = [contests for _, contests, _ in machines]
    for suite in dict.fromkeys(suite for contests in every for suite in contests):
        rows = [contests.get(suite, []) for contests in every]
        title = TITLES.get(suite, suite.replace("_", " "))
        means = [_mean(_steady(own, COLUMNS[c])) for own in rows for c in _BESIDE]
        lines.append(f"| {title} | {max(map(_count, rows))} | {' | '.join(means)} |")
    others = [rest for _, _, rest in machines]
    most = max(len({r["suite"] for r in own}) for own in others)
    # A few of many suites are no mean of them all.
    others = [own if 2 * len({r["suite"] for r in own}) > most else [] for own in others]
    if any(others):
        means = [_mean_and_least(own, COLUMNS[c]) for own in others for c in _BESIDE]
        number = max(len({r["suite"] for r in own}) for own in others)
        title = f"{number} suites of other kernels, most of them bound by memory"
        lines.append(f"| {title} | {max(map(_count, others))} | {' | '.join(means)} |")
    return "\n".join([*lines, ""])


def _contests(data: dict[str, Any]) -> tuple[dict[str, list[Result]], list[Result]]:
    """Return a machine's contests by suite, and the rows of all other kernels."""
    suites = {s: rows for s, rows in _by_suite(data).items() if s not in LADDERS}
    contests = {s: rows for s, rows in suites.items() if any(r.get("config") for r in rows)}
    rest = [r for s, rows in suites.items() if s not in contests for r in rows]
    return contests, [r for r in rest if r["ratio"] and not _is_host(r)]


def _machines(folder: Path) -> list[dict[str, Any]]:
    """Return what is kept of each machine, the newest first."""
    kept = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    return sorted(kept, key=lambda data: data["date"], reverse=True)


def _by_suite(data: dict[str, Any]) -> dict[str, list[Result]]:
    suites: dict[str, list[Result]] = defaultdict(list)
    for row in data["rows"]:
        suites[row["suite"]].append(row)
    return suites


def _count(rows: list[Result]) -> int:
    return len({(r["suite"], r["case"], r["dtype"], r["size"]) for r in rows})


def _steady(rows: list[Result], baselines: tuple[str, ...]) -> list[float]:
    """Return the ratios to some baselines that are in means."""
    return [
        r["ratio"]
        for r in rows
        if r["ratio"] and r["baseline"] in baselines and not _is_left_out(r)
    ]


def _mean_and_least(rows: list[Result], baselines: tuple[str, ...]) -> str:
    """Return the mean, and the least with its kernel: among many suites that says where to look."""
    found = [r for r in rows if _steady([r], baselines)]
    if not found:
        return ""
    least = min(found, key=lambda r: r["ratio"])
    mean = math.exp(statistics.fmean(math.log(r["ratio"]) for r in found))
    return f"{mean:.2f} ({least['ratio']:.2f} {least['case'].split()[0]})"


def _compared(suites: dict[str, list[Result]]) -> list[str]:
    """Return the table of what has baselines: means over a suite's cases, the worst in brackets.

    Ratios that are unsteady, or that hold time of the host, are in no mean; they are counted.
    """
    named = {
        title: baselines
        for title, baselines in COLUMNS.items()
        if any(r["baseline"] in baselines for rows in suites.values() for r in rows)
    }
    left_out = any(_is_left_out(r) for rows in suites.values() for r in rows)
    last = ["left out"] if left_out else []
    titles = ["suite", "kernels", "types", "cases", *(f"÷ {title}" for title in named), *last]
    lines = [f"| {' | '.join(titles)} |", "|" + "---|" * len(titles)]
    for suite, rows in suites.items():
        if suite in LADDERS:
            continue
        words = dict.fromkeys(r["case"].split()[0] for r in rows)
        kernels = [word for word in words if word.isidentifier()]
        types = dict.fromkeys(r["dtype"] for r in rows)
        means = (_mean(_steady(rows, baselines)) for baselines in named.values())
        marks = [_left_out(rows)] if left_out else []
        lines.append(
            f"| {suite.replace('_', ' ')} | {', '.join(kernels)} | {', '.join(types)} "
            f"| {_count(rows)} | {' | '.join([*means, *marks])} |"
        )
    return [*lines, ""]


def _speeds(suites: dict[str, list[Result]]) -> list[str]:
    """Return the table of contests: TFLOP/s by size, over those of the library (or of Triton)."""
    lines: list[str] = []
    for suite, rows in suites.items():
        cases: dict[tuple[str, str], dict[int, list[Result]]] = defaultdict(dict)
        for row in rows:
            if row.get("config") and row.get("flops"):
                cases[row["case"], row["dtype"]].setdefault(row["size"], []).append(row)
        for (case, dtype), sizes in cases.items():
            cells = " · ".join(f"{size}: {_speed(found)}" for size, found in sorted(sizes.items()))
            lines.append(f"| {suite.replace('_', ' ')}, {case} | {dtype} | {cells} |")
    if not lines:
        return []
    title = "| contest | type | size: TFLOP/s (÷ cuBLAS, cuDNN or torch; ÷ triton) |"
    return [title, "|---|---|---|", *lines, ""]


def _speed(rows: list[Result]) -> str:
    """Return one size of a contest: what ours does, and by how much that is more; ~ if unsteady."""
    ratios = {
        name: f"{row['ratio']:.2f}{'~' if _is_left_out(row) else ''}"
        for name in ("library", "triton")
        for row in rows
        if row["ratio"]
        and row["baseline"] in (("triton",) if name == "triton" else COLUMNS["torch, cuBLAS"])
    }
    beside = f" ({', '.join(ratios.get(n, '–') for n in ('library', 'triton'))})" if ratios else ""
    return f"{rows[0]['flops'] / rows[0]['ours_us'] / 1e6:.0f}{beside}"


def _is_host(row: Result) -> bool:
    return row.get("timed") == "host"


def _is_left_out(row: Result) -> bool:
    """Whether a row supports no claim; results of before rows said so are taken as they are."""
    return _is_host(row) or bool(row.get("unsteady"))


def _left_out(rows: list[Result]) -> str:
    host = sum(_is_host(r) for r in rows)
    unsteady = sum(_is_left_out(r) for r in rows) - host
    parts = [f"{n} {what}" for n, what in ((host, "host"), (unsteady, "unsteady")) if n]
    return ", ".join(parts)


def _hosted(suites: dict[str, list[Result]]) -> list[str]:
    """Return the table of what the host's time is asked of."""
    lines = ["| on the host | microseconds | ratios |", "|---|---|---|"] if suites else []
    for suite, rows in suites.items():
        cases: dict[str, list[Result]] = defaultdict(list)
        for row in rows:
            cases[row["case"]].append(row)
        for case, found in cases.items():
            ratios = ", ".join(
                f"÷ {r['baseline']} {r['ratio']:.2f}{' (unsteady)' if r.get('unsteady') else ''}"
                for r in found
                if r["ratio"]
            )
            lines.append(f"| {suite}: {case} | {found[0]['ours_us']:.2f} | {ratios} |")
    return [*lines, ""] if lines else []


def _mean(found: list[float]) -> str:
    if not found:
        return ""
    mean = math.exp(sum(map(math.log, found)) / len(found))
    return f"{mean:.2f} ({min(found):.2f})" if len(found) > 1 else f"{mean:.2f}"


def _timed(suites: dict[str, list[Result]]) -> list[str]:
    """Return the table of times alone; of a suite with many, the median and the longest."""
    lines = ["| what | milliseconds |", "|---|---|"] if suites else []
    for suite, rows in suites.items():
        if len(rows) <= 10:
            lines += [f"| {r['case']} | {r['ours_us'] / 1000:.1f} |" for r in rows]
            continue
        times = [r["ours_us"] / 1000 for r in rows]
        longest = max(rows, key=lambda r: r["ours_us"])
        lines.append(
            f"| {suite.replace('_', ' ')}: {len(rows)} kernels, cold to PTX | median "
            f"{statistics.median(times):.0f}, longest {max(times):.0f} ({longest['case']}) |"
        )
    return [*lines, ""] if lines else []


def main(arguments: list[str]) -> int:
    """Write the documents and the notebooks' numbers, or with --check compare them."""
    check = "--check" in arguments
    for name in figures.stale(write=not check):
        if check:
            print(f"{name} is older than tests/bench/results; run python tests/bench/render.py")
            return 1
        print(f"{name} has new numbers; run make notebooks")
    readme = ROOT / "README.md"
    before, rest = readme.read_text().split(START)
    _, after = rest.split(END)
    documents = {
        readme: f"{before}{START}\n{summary()}{END}{after}",
        RESULTS / "README.md": f"{HEAD}\n{rendered()}",
    }
    for path, new in documents.items():
        if check and (not path.exists() or path.read_text() != new):
            name = path.relative_to(ROOT)
            print(f"{name} is older than tests/bench/results; run python tests/bench/render.py")
            return 1
        if not check:
            path.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
