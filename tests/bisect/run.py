"""All planted faults: `python -m tests.bisect.run [compiler|beside|alone]` prints what was named.

Bars: 19 of 20 faults of the compiler at their pass and op, 19 of 20 in sources beside a right
version at their line, 18 of 20 alone within the first five lines of the slice.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from tests.bisect.asking import (
    ask_about_compiler,
    ask_about_source,
    lists_line,
    names_line,
    names_pass_and_op,
)
from tests.bisect.compiler_faults import COMPILER_FAULTS
from tests.bisect.source_faults import SOURCE_FAULTS

KINDS: dict[str, tuple[Sequence[Any], Callable[..., Any], Callable[..., bool], int]] = {
    "compiler": (COMPILER_FAULTS, ask_about_compiler, names_pass_and_op, 19),
    "beside": (SOURCE_FAULTS, lambda f: ask_about_source(f, beside=True), names_line, 19),
    "alone": (SOURCE_FAULTS, lambda f: ask_about_source(f, beside=False), lists_line, 18),
}


def main(kinds: Sequence[str]) -> int:
    """Ask about all faults of some kinds; returns 1 where a bar is not met."""
    os.environ["WORKBENCH_CACHE_DIR"] = ""
    missed = 0
    for kind in kinds or KINDS:
        faults, ask, right, bar = KINDS[kind]
        named, slowest = 0, 0.0
        for fault in faults:
            answer, seconds = ask(fault)
            found = right(fault, answer)
            named, slowest = named + found, max(slowest, seconds)
            place = answer.op.shown()[0].strip() if answer.op is not None else ""
            mark = "named " if found else "MISSED"
            sys.stdout.write(f"{mark} {seconds:5.1f} s  {fault.name}: {answer.pass_name} {place}\n")
            sys.stdout.flush()
        sys.stdout.write(f"{kind}: {named} of {len(faults)}, the slowest {slowest:.1f} s\n")
        missed += named < bar
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
