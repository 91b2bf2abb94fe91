"""Tries configurations and options of a contest in one interleaved run: what does one of them change?

    python -m tests.bench.trial FILE [SECONDS]
    python -m tests.bench.trial "attention_fwd D128 full fp16 4096: 128x128 w8 s2, 128x128 w8 s2 no overlap"

A line of the file names contests by the beginning of their title, then configurations of ours as results print
them (blocks, warps, stages, options; "no " switches one off); "triton " in front is Triton's, "*" every
configuration that the contest has (with options behind it, each of them with these). Each result is compared
with the contest's reference and two more launches to the bit. A contest runs in a process that may hang for at
most SECONDS (90). Nothing is kept: rows come from `tests.bench.gpu`.
"""  # noqa: E501, what can be pasted

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import torch

from tests.bench import contests, peers
from tests.bench.contests import Config, Contest, Tensors
from tests.bench.racing import Call, call_of, error_of, is_lost
from workbench.runtime.measuring import measure
from workbench.runtime.timing import Effort

EFFORT = Effort(warm_up=6.0, milliseconds=15.0, runs=10)
SECONDS = 90.0


def config_of(text: str) -> Config:
    """Read a configuration as `Config` prints it; ValueError where it is none."""
    words = text.split()
    if len(words) < 3 or words[1][:1] != "w" or words[2][:1] != "s":
        raise ValueError(f"{text!r} is no configuration: expected such as '128x128 w8 s2 no tma'")
    options: list[str] = []
    for word in words[3:]:
        if options and options[-1] == "no":
            options[-1] = f"no {word}"
        else:
            options.append(word)
    blocks = tuple(int(extent) for extent in words[0].split("x"))
    return Config(blocks, int(words[1][1:]), int(words[2][1:]), tuple(options))


def entries(contest: Contest, text: str) -> Iterator[tuple[str, Config]]:
    """Yield the compiler and the configuration of each entry of a line."""
    for part in (one.strip() for one in text.split(",")):
        who = "triton" if part.startswith("triton ") else "ours"
        part = part.removeprefix("triton ")
        if part.startswith("*"):
            more = config_of(f"1 w1 s1 {part[1:]}").more
            for config in contest.table(who):
                yield who, config._replace(more=(*config.more, *more))
        else:
            yield who, config_of(part)


def trial(contest: Contest, text: str) -> None:
    """Measure one contest; prints a line for each entry and baseline, the fastest first."""
    prepared = contest.prepare(Tensors("cuda"))
    want = prepared.reference().clone()
    calls: dict[str, Call] = {}
    for who, config in entries(contest, text):
        if who == "triton" and not (contest.peer and peers.triton_installed()):
            continue
        say = f"{who} {config}"
        try:
            call = call_of(prepared.launches(config), contest, who)
            prepared.result.fill_(float("nan") if want.is_floating_point() else 77)
            call()
            torch.cuda.synchronize()
            excess = error_of(prepared, want)
            first = prepared.result.clone()
            same = True
            for _ in range(2):
                call()
                same = same and torch.equal(first, prepared.result)
        except Exception as error:
            print(f"    {say}: {type(error).__name__}: {' '.join(str(error).split())[:200]}")
            if is_lost(error):
                raise
            continue
        if excess > 0:
            print(f"    {say}: WRONG by {excess:.3g} more than allowed", flush=True)
        if not same:
            print(f"    {say}: launches DIFFER", flush=True)
        calls[say] = call
    calls.update(prepared.baselines)
    timings = measure(calls, gpu=True, warm=contest.hot, effort=EFFORT)
    for say in sorted(timings, key=lambda s: timings[s].median):
        took = timings[say].median * 1e3
        print(f"    {took:10.1f} us {contest.flops / took / 1e6:7.0f} TFLOP/s "
              f"{contest.moved / took / 1e3:7.0f} GB/s  {say}", flush=True)  # fmt: skip


def matching(line: str) -> Iterator[Contest]:
    """Yield the contests that a line names."""
    prefix = line.partition(":")[0].strip()
    found = [c for c in contests.all_contests() if f"{c.title} ".startswith(f"{prefix} ")]
    if not found:
        print(f"{prefix}: no contest begins so", flush=True)
    yield from found


def main(arguments: list[str]) -> None:
    """Run each contest of each line in a process of its own."""
    if arguments[:1] == ["--one"]:
        torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
        torch.cuda.set_stream(torch.cuda.Stream())
        title, text = arguments[1:]
        trial(next(c for c in contests.all_contests() if c.title == title), text)
        return
    given = Path(arguments[0])
    lines = given.read_text().splitlines() if given.is_file() else [arguments[0]]
    seconds = float(arguments[1]) if len(arguments) > 1 else SECONDS
    for line in lines:
        if not line.strip() or line.startswith("#"):
            continue
        for contest in matching(line):
            print(contest.title, flush=True)
            text = line.partition(":")[2]
            command = [sys.executable, "-m", "tests.bench.trial", "--one", contest.title, text]
            try:
                subprocess.run(command, timeout=seconds, check=False)
            except subprocess.TimeoutExpired:
                print(f"    took longer than {seconds:g} s: killed", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
