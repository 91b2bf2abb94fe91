"""Which instructions occur in the PTX and SASS of all kernels of the tests.

`python -m tests.bench.mnemonics` writes tests/magics/mnemonics.txt: a language and a mnemonic a
row, as the table of explanations names it. It takes some ten minutes.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.bench.texts import modules
from workbench.magics.glossary import instruction, mnemonics
from workbench.passes.manager import Recorder
from workbench.passes.pipeline import tile_passes
from workbench.source import KernelError
from workbench.targets.nvidia import pipeline

CHIPS = ("sm_80", "sm_90a", "sm_120a")
_FILE = Path(__file__).parents[1] / "magics" / "mnemonics.txt"


def main() -> None:
    """Build every kernel for every chip, and write what occurs."""
    found: set[tuple[str, str]] = set()
    for name, module in modules():
        for chip in CHIPS:
            recorder = Recorder()
            try:
                built = pipeline.build(tile_passes(replace(module), recorder), chip, recorder)
            except KernelError as error:
                print(f"{name} on {chip}: {error.message}")
                continue
            for language in ("ptx", "sass"):
                for word in filter(None, mnemonics(language, built.texts[language]().text)):
                    entry = instruction(language, word)
                    found.add((language, word if entry is None else entry.mnemonic))
    _FILE.write_text("".join(f"{language} {word}\n" for language, word in sorted(found)))


if __name__ == "__main__":
    main()
