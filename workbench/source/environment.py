"""What compile-time code reads of the environment: variables whose names it mentions."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from hashlib import sha256
from typing import Any, cast

from workbench.source.undisturbed import environment
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
        now = environment()
        return [(name, _digest(now[name])) for name in sorted(now) if name in texts]
    kept = cast("Any", os.environ)
    encode = kept.encodekey
    begins = tuple(encode(text) for text in texts if text.endswith("_"))
    known = {encode(text) for text in texts}
    now = held.copy()  # other threads set and unset variables
    here = sorted(n for n in now if everything or n in known or n.startswith(begins))
    for name in here:
        watched.entry(held, held, name, now[name])
    watched.absent(held, held, known.difference(now))
    if everything or begins:

        def count(names: Iterable[Any]) -> int:
            return sum(everything or name.startswith(begins) for name in names)

        before = count(now)
        watched.check((id(held), begins, everything, before), lambda: count(tuple(held)) == before)
    return [(kept.decodekey(name), _digest(kept.decodevalue(now[name]))) for name in here]


def _held() -> dict[Any, Any] | None:
    held = getattr(os.environ, "_data", None)
    return cast("dict[Any, Any]", held) if type(held) is dict else None


def _digest(value: str) -> str:
    return sha256(value.encode(errors="surrogateescape")).hexdigest()[:16]
