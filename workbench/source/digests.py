"""Writes down what arrays and tensors hold, as digests that are equal where their elements are."""

from __future__ import annotations

import os
from collections.abc import Callable
from hashlib import sha256
from itertools import count
from typing import Any

from workbench.source.looking import buffer_of, form_of, is_frozen, is_tensor
from workbench.source.watched import Watched, in_parts, same_bytes

#: The most bytes of arrays that are read for one kernel.
_MOST_BYTES = 64 << 20
_COUNT, _PROCESS = count(), os.urandom(8).hex()


def unique_text() -> str:
    """Return a text for what is too much to tell: it is never what it was, in any process."""
    return f"never the same {_PROCESS} {os.getpid()} {next(_COUNT)}"


class Arrays:
    """Says what arrays hold, and has launches ask whether they still do.

    All arrays of a kernel share one budget of bytes; what is beyond it is never the same.
    """

    def __init__(self, say: Callable[[str, str], None], watched: Watched) -> None:
        self._say = say
        self._watched = watched
        self._bytes = 0

    def take(self, where: str, name: str, value: Any) -> bool:
        """Write down what an array holds; returns whether it is one."""
        try:
            view = buffer_of(value)
            if view is None:
                return is_tensor(value) and self._take_tensor(where, name, value)
        except Exception:  # it has none, or will not say
            if is_tensor(value):
                self._say(where, unique_text())
            return is_tensor(value)
        self._bytes += view.nbytes
        if self._bytes > _MOST_BYTES:
            self._say(where, unique_text())
            return True
        before, form = in_parts(view), form_of(value)
        shape = f"{view.format} {view.shape}" if form is None else " ".join(map(str, form))
        digest = sha256(b"".join(before)).hexdigest()
        self._say(where, f"{name} {shape} {digest}")
        if not is_frozen(value):
            self._watched.check(
                (id(value), shape, digest),
                lambda: form_of(value) == form and _same_array(value, before),
            )
        elif form is not None:
            self._watched.check((id(value), shape), lambda: form_of(value) == form)
        return True

    def _take_tensor(self, where: str, name: str, value: Any) -> bool:
        """Write down a tensor that is elsewhere; torch counts what it does to it."""
        held = value.detach().cpu()
        form = form_of(value)
        shape = " ".join(map(str, (name, *(form or ()), value.device)))
        self._bytes += held.nbytes
        view = buffer_of(held) if self._bytes <= _MOST_BYTES else None
        digest = unique_text() if view is None else sha256(b"".join(in_parts(view))).hexdigest()
        self._say(where, f"{shape} {digest}")
        before = value._version, value.data_ptr(), form
        self._watched.check(
            (id(value), before),
            lambda: (value._version, value.data_ptr(), form_of(value)) == before,
        )
        return True


def _same_array(value: Any, before: list[bytes]) -> bool:
    view = buffer_of(value)
    return view is not None and same_bytes(view, before)
