"""What the tl functions write into: the builder and options of the kernel being lowered.

One thread lowers one kernel at a time; `current()` is where a tl function finds it, and raises
where a tl function is called as ordinary Python.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from workbench.ir import Builder
from workbench.source import CompileError


@dataclass
class State:
    """The kernel being lowered, as far as tl functions need it.

    `exact_index`: int32 `+ - *` keep their exact value (False: they wrap; with `wrap_loaded` they
    wrap where no operand is exact already, as loaded values are not). `call` inlines a device
    function at the current place. `remark` leaves a remark at the current place.
    """

    builder: Builder
    call: Callable[[Any, Sequence[Any]], Any]
    remark: Callable[[str], None]
    exact_index: bool = True
    wrap_loaded: bool = False
    exact: bool = False
    debug: bool = False
    #: What the code is for ("sm_90a", "cpu", ...); warps of a program, None: not fixed yet.
    target: str = ""
    num_warps: int | None = None
    #: Superset uses already remarked upon: one remark per place and text.
    remarked: set[tuple[Any, str]] = field(default_factory=set[tuple[Any, str]])

    def superset(self, text: str, *, once: bool = False) -> None:
        """Say that Triton would not accept what was just written (`once`: in the whole kernel)."""
        key = (None if once else self.builder.span, text)
        if key not in self.remarked:
            self.remarked.add(key)
            self.remark(f"not portable to Triton: {text}")


class _Local(threading.local):
    state: State | None = None


_LOCAL = _Local()


def current() -> State:
    """Return the state of the kernel being lowered; raises CompileError outside of one."""
    state = _LOCAL.state
    if state is None:
        raise CompileError(
            "a tl function was called outside a kernel",
            hint="call it inside a device function, and launch that with kernel[grid](...)",
            code="K217",
        )
    return state


def active() -> bool:
    """Say whether a kernel is being lowered on this thread."""
    return _LOCAL.state is not None


def lowering(state: State, lower: Callable[[], None]) -> None:
    """Call a function while `state` is the current one; not a context manager.

    Those that are generators can be interrupted between entering and the block, and are left when
    nobody holds the traceback any more.
    """
    before = _LOCAL.state
    try:
        _LOCAL.state = state
        lower()
    finally:
        _LOCAL.state = before


@contextmanager
def wrapping_index() -> Generator[None]:
    """Compute int32 in plain wrapping arithmetic for a while (combine regions)."""
    state = current()
    before, state.exact_index = state.exact_index, False
    try:
        yield
    finally:
        state.exact_index = before
