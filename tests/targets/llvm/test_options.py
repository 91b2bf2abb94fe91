"""Options of LLVM: each target gets its own once, and only from versions that know it."""

import pytest

from workbench.targets.llvm.helper import KNOWN, options_for

OURS = ("--enable-poison-reuse-guard=0", "--enable-gvn-memdep=0")
STORES = ("--x86-disable-avoid-SFB",)


def machine(triple: str) -> dict[str, str]:
    return {"triple": triple}


@pytest.mark.parametrize(
    ("triple", "version", "options"),
    [
        ("nvptx64-nvidia-cuda", f"{KNOWN[0]}0", OURS),
        ("nvptx64-nvidia-cuda", "0.44.0", ()),  # an unknown option ends the process
        ("x86_64-unknown-linux-gnu", f"{KNOWN[0]}0", STORES),
        ("x86_64-unknown-linux-gnu", "0.44.0", STORES),
        ("aarch64-unknown-linux-gnu", f"{KNOWN[0]}0", ()),
    ],
)
def test_a_target_gets_its_options_once(triple: str, version: str, options: tuple[str, ...]):
    already: set[str] = set()
    assert options_for(machine(triple), already, version) == options
    assert options_for(machine(triple), already, version) == ()
