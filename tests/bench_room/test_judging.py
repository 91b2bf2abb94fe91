"""A check tells right kernels from wrong ones: none that is wrong passes, none that is right fails.

    python -m tests.bench_room.test_judging [cpu|interpreter|sm_90a]

judges all of judged.py (12 kernels, right and with 5 faults, 3 types, 2 sizes) and delicate.py
(21 right kernels that round in odd ways, 3 types). The tests do the small ones in a type each.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import torch

import workbench as wb
from tests.bench_room import delicate, judged
from workbench.bench import checking, running
from workbench.bench.guarding import Watched
from workbench.bench.locate import Search
from workbench.source import CheckError

TYPES = (torch.float32, torch.float16, torch.bfloat16)
TARGETS = [
    "cpu",
    pytest.param(
        "sm_90a",
        marks=[
            pytest.mark.gpu,
            pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
        ],
    ),
]
#: A fault that changes fewer elements' bits than this is none.
SEEN = 0.001


@dataclass(frozen=True)
class Judgement:
    """What a check said of one kernel; `right` and `faulty` are both false if nothing changed."""

    name: str
    right: bool
    faulty: bool
    passed: bool
    said: str

    @property
    def wrong(self) -> bool:
        """Whether the check was mistaken."""
        return self.passed if self.faulty else self.right and not self.passed


def judge(case: judged.Case, target: str, **settings: object) -> str:
    """Check a kernel; return what was said against it, "" if nothing."""
    device = "cuda" if target.startswith("sm_") else "cpu"
    arguments = {
        name: value.to(device) if isinstance(value, torch.Tensor) else value
        for name, value in case.arguments.items()
    }
    try:
        wb.check(
            wb.jit(case.kernel), case.reference, args=arguments, grid=case.grid, target=target,
            **case.settings, **settings,
        )  # fmt: skip
    except CheckError as error:
        return error.message
    finally:
        case.arguments["out_ptr"].copy_(arguments["out_ptr"])
    return ""


def judgements(target: str, dtype: torch.dtype, large: bool, name: str) -> Iterator[Judgement]:
    """Judge a kernel of judged.py, right and with each fault."""
    right = None
    for fault in ("", *judged.FAULTS):
        case = judged.cases(dtype, large)[name]
        said = judge(case, target, FAULT=fault)
        out = case.arguments["out_ptr"]
        right = out if right is None else right
        seen = float((out != right).float().mean()) > SEEN
        full = f"{name} {fault or 'right'} {dtype} {'large' if large else 'small'}"
        yield Judgement(full, not fault, bool(fault) and seen, not said, said)


@pytest.fixture(autouse=True)
def _only_judged(monkeypatch):
    quick(monkeypatch.setattr)


def quick(replace) -> None:
    """Leave out what a check does besides: the search for a wrong element's program, and races."""
    replace(running, "watch_checked", lambda subject: Watched(0, 1))
    replace(checking, "who_stored", lambda *_: Search())


@pytest.mark.parametrize("name", judged.cases(torch.float32, False))
@pytest.mark.parametrize("target", TARGETS)
def test_faults_are_found_and_right_kernels_pass(name, target):
    place = list(judged.cases(torch.float32, False)).index(name)
    found = list(judgements(target, TYPES[place % 3], False, name))
    assert not [judgement for judgement in found if judgement.wrong]
    assert sum(judgement.faulty for judgement in found) >= 4


@pytest.mark.parametrize("name", delicate.cases(torch.float32))
@pytest.mark.parametrize("target", TARGETS)
def test_right_kernels_that_round_in_odd_ways_pass(name, target):
    place = list(delicate.cases(torch.float32)).index(name)
    assert judge(delicate.cases(TYPES[place % 3])[name], target) == ""


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("target", TARGETS)
def test_numbers_that_no_float_holds_are_rounded_once(dtype, target):
    right = delicate.with_numbers(dtype)
    assert {name: judge(case, target) for name, case in right.items()} == dict.fromkeys(right, "")
    if dtype == torch.float32:
        wrong = delicate.with_numbers(dtype, shift=0.300002, factor=0.100001)
        assert [name for name, case in wrong.items() if judge(case, target)] == [
            "scaled",
            "shifted",
        ]


def say(text: str) -> None:
    sys.stdout.write(text + "\n")


def main(target: str) -> int:
    """Judge everything on a target; return how many judgements were wrong."""
    quick(setattr)
    faults = mistakes = right = 0
    for dtype in TYPES:
        for name, case in {**delicate.cases(dtype), **delicate.with_numbers(dtype)}.items():
            said = judge(case, target)
            right, mistakes = right + 1, mistakes + bool(said)
            if said:
                say(f"refused: {name} {dtype}: {said}")
        for large in (False, True):
            for name in judged.cases(dtype, large):
                for judgement in judgements(target, dtype, large, name):
                    faults, right = faults + judgement.faulty, right + judgement.right
                    mistakes += judgement.wrong
                    if judgement.wrong:
                        say(f"{'passed' if judgement.passed else 'refused'}: {judgement.name}")
    say(f"{faults} faults, {right} right kernels, {mistakes} mistakes on {target}")
    return mistakes


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:] or ["cpu"]) > 0)
