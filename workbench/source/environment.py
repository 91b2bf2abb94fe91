"""What compile-time code reads of the environment: variables whose names it mentions."""

from __future__ import annotations

import os
from collections.abc import Collection
from hashlib import sha256
from typing import Any, cast

from workbench.source.watched import Watched

#: Attributes by which it is read.
READING = frozenset({"environ", "environb", "getenv", "getenvb"})
#: Functions that read the environment, where its object itself is not met.
_READERS = (os.getenv, getattr(os, "getenvb", None))


def is_environment(value: Any) -> bool:
    """Say whether a value is the environment, what reads it, or the module that has both."""
    return value is os or type(value) is type(os.environ) or any(value is one for one in _READERS)


def watch_environment(
    texts: Collection[str], watched: Watched, *, everything: bool
) -> list[tuple[str, str]]:
    """Have variables watched whose names are among some texts, or begin with one that ends in _.

    Returns (name, digest of the value) of those that are there; values may be secrets.

    Args:
        texts: what code mentions.
        watched: who asks at launches.
        everything: whether all variables count, whatever they are called.
    """
    held = _held()
    if held is None:  # kept in another way by this Python
        return [(name, _digest(os.environ[name])) for name in sorted(os.environ) if name in texts]
    begins = tuple(text for text in texts if text.endswith("_"))
    here = [n for n in sorted(os.environ) if everything or n in texts or n.startswith(begins)]
    encode = cast("Any", os.environ).encodekey
    for name in here:
        watched.entry(held, held, encode(name), held[encode(name)])
    missing = [encode(text) for text in texts if text not in os.environ]
    watched.absent(held, held, missing)
    if everything or begins:
        first: tuple[Any, ...] = tuple(map(encode, begins))

        def count() -> int:
            return sum(everything or name.startswith(first) for name in held)

        before = count()
        watched.check((id(held), first, everything, before), lambda: count() == before)
    return [(name, _digest(os.environ[name])) for name in here]


def _held() -> dict[Any, Any] | None:
    held = getattr(os.environ, "_data", None)
    return cast("dict[Any, Any]", held) if type(held) is dict else None


def _digest(value: str) -> str:
    return sha256(value.encode(errors="surrogateescape")).hexdigest()[:16]
