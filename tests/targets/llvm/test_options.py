"""Options of LLVM: each target gets its own once, and only from versions that know it."""

import pytest

from workbench.targets.llvm.helper import KNOWN, option_for

GUARD = "--enable-poison-reuse-guard=0"


def machine(triple: str) -> dict[str, str]:
    return {"triple": triple}


@pytest.mark.parametrize(
    ("triple", "version", "option"),
    [
        ("nvptx64-nvidia-cuda", f"{KNOWN[0]}0", GUARD),
        ("nvptx64-nvidia-cuda", "0.44.0", None),  # an unknown option ends the process
        ("x86_64-unknown-linux-gnu", f"{KNOWN[0]}0", "--x86-disable-avoid-SFB"),
        ("x86_64-unknown-linux-gnu", "0.44.0", "--x86-disable-avoid-SFB"),
        ("aarch64-unknown-linux-gnu", f"{KNOWN[0]}0", None),
    ],
)
def test_a_target_gets_its_option_once(triple: str, version: str, option: str | None):
    already: set[str] = set()
    assert option_for(machine(triple), already, version) == option
    assert option_for(machine(triple), already, version) is None
