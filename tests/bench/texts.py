"""The PTX of every kernel of the tests as one number each: a change that should do nothing does.

`python -m tests.bench.texts before.json` writes the numbers of this tree; with a second file,
`python -m tests.bench.texts after.json before.json`, it also names what differs and fails if
anything does. `--time` adds the seconds that each build took.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from pathlib import Path

import workbench
from tests.corpus import every
from tests.corpus.sample import Maker
from tests.passes.corpus import cases
from tests.targets.nvidia.configurations import QUICK, SLOW
from workbench.ir import Module
from workbench.passes.manager import Recorder
from workbench.passes.pipeline import tile_passes
from workbench.runtime import knobs
from workbench.targets.cpu import pipeline as cpu
from workbench.targets.nvidia import pipeline

_ROOT = str(Path(__file__).parents[2])
CHIPS = ("sm_80", "sm_90a")


def modules() -> Iterator[tuple[str, Module]]:
    """Yield tile IR by name: the kernels that passes are tried on, the benchmarks', the corpus."""
    for case in cases():
        yield case.name, case.module()
    for configuration in (*QUICK, *SLOW):
        yield f"configuration {configuration.name}", configuration.module()
    yield from samples()


def samples(wanted: Collection[str] = ()) -> Iterator[tuple[str, Module]]:
    """Yield the corpus: each launch of each sample at its last fast size, in its first type.

    If some are wanted, others are not compiled.
    """
    held: list[Module] = []
    real: Callable[..., object] = cpu.build

    def keep(module: Module, target: str, recorder: Recorder, override: None = None) -> object:
        held.append(module)
        return real(module, target, recorder, override)

    for entry in every.SAMPLES:
        suite = f"{entry.suite} {entry.name}"
        if wanted and not any(name.startswith(f"{suite} ") for name in wanted):
            continue
        problem = entry.build(Maker(entry.dtypes[0]), *entry.fast[-1])
        for number, launch in enumerate(problem.launches):
            if wanted and f"{suite} {number}" not in wanted:
                continue
            cpu.build = keep  # type: ignore[assignment]
            before, knobs.compilation.always_compile = knobs.compilation.always_compile, True
            try:
                workbench.jit(launch.kernel).warmup(  # one that knows no compilation yet
                    *launch.arguments, grid=launch.grid, target="cpu", **launch.named
                )
            finally:
                cpu.build = real  # type: ignore[assignment]
                knobs.compilation.always_compile = before
            for module in held:
                yield f"{suite} {number}", module
            held.clear()


def digests(seconds: dict[str, float]) -> dict[str, str]:
    """Return a hash of the PTX by kernel and chip; `seconds` gets how long each took."""
    found: dict[str, str] = {}
    for name, module in modules():
        for chip in CHIPS:
            key = f"{name} on {chip}"
            recorder = Recorder()
            start = time.perf_counter()
            try:
                text = pipeline.build(
                    tile_passes(replace(module), recorder), chip, recorder
                ).texts["ptx"]().text  # fmt: skip
            except Exception as error:
                text = f"{type(error).__name__}: {error}"
                print(f"no PTX: {key}: {text.splitlines()[0]}")
            seconds[key] = time.perf_counter() - start
            text = text.replace(_ROOT, "")
            found[key] = hashlib.sha256(text.encode()).hexdigest()[:16]
    return found


def main(words: list[str]) -> int:
    """Write the numbers of this tree and compare; return the exit status."""
    timed = "--time" in words
    names = [word for word in words if word != "--time"]
    seconds: dict[str, float] = {}
    found = digests(seconds)
    Path(names[0]).write_text(json.dumps(found, indent=0))
    print(f"{len(found)} texts in {sum(seconds.values()):.1f} s")
    if timed:
        for key in sorted(seconds, key=lambda k: -seconds[k])[:20]:
            print(f"{seconds[key]:7.3f} s  {key}")
    if len(names) == 1:
        return 0
    before: dict[str, str] = json.loads(Path(names[1]).read_text())
    differing = [key for key in found if before.get(key) != found[key]]
    for key in differing:
        print(f"differs: {key}")
    return bool(differing)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
