"""LLVM's code generator, in a process of its own: `ask` starts it (helper.py) and asks it.

LLVM ends its process where it meets what it cannot generate, and knows no way to stop. So it never
runs in ours: a request whose process dies raises LlvmError with LLVM's last words, and one that is
interrupted leaves its process to be killed. The process serves one request after the other, starts
in some 20 ms while the front end works (`prepare`), and ends with ours, whose pipe it reads.
"""

from __future__ import annotations

import _thread
import atexit
import contextlib
import itertools
import marshal
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from workbench.interrupts import in_one_piece, renewed_lock, unforked

_HELPER = Path(__file__).with_name("helper.py")
#: Of what LLVM writes before it ends, so many characters are kept.
_MOST_WORDS = 2000


class LlvmError(Exception):
    """LLVM refused its input (`words` says why), or its process ended over it."""

    def __init__(self, words: str, *, died: bool, parses: bool = True) -> None:
        super().__init__(words)
        self.words = words
        self.died = died
        self.parses = parses


@dataclass(slots=True)
class _Process:
    """A helper; `busy` while a request is under way, for good if that was interrupted.

    Attributes:
        process: the helper.
        source: what it answers, a file descriptor.
        target: what it is asked, a file descriptor.
        errors: the file that its error stream goes to.
    """

    process: subprocess.Popen[bytes]
    source: int
    target: int
    errors: Any
    numbers: Iterator[int] = field(default_factory=itertools.count)
    busy: bool = False

    @property
    def usable(self) -> bool:
        return not self.busy and self.process.poll() is None

    def ask(self, *request: Any) -> bytes:
        self.busy = True
        number = next(self.numbers)
        rest = memoryview(_framed((number, *request)))
        try:
            while rest:
                rest = rest[os.write(self.target, rest) :]
        except BrokenPipeError:
            raise LlvmError(self._last_words(), died=True) from None
        size = int.from_bytes(self._read(8), "little")
        answered, made, parses = marshal.loads(self._read(size))
        if answered != number:
            raise LlvmError("its process answered another request", died=True)
        self.busy = False
        if parses is not None:
            raise LlvmError(made, died=False, parses=parses)
        return made

    def _read(self, size: int) -> bytes:
        got = bytearray()
        while len(got) < size:
            more = os.read(self.source, size - len(got))
            if not more:
                raise LlvmError(self._last_words(), died=True)
            got += more
        return bytes(got)

    def _last_words(self) -> str:
        status = self.process.wait()
        self.errors.seek(0)
        words = self.errors.read().decode(errors="replace")
        start = words.find("LLVM ERROR")
        if start > 0 and words.startswith("LLVM ERROR: Broken module", start):
            return words[:start].strip()[:_MOST_WORDS]  # the verifier has said what is broken
        words = words[max(0, start) :].strip()[:_MOST_WORDS]
        if status < 0 and not words.startswith("LLVM ERROR"):
            words = f"{signal.Signals(-status).name} {words}".strip()
        return words or f"its process ended with status {status} and said nothing"

    def end(self) -> None:
        """Kill it, whatever it is doing."""
        self.process.kill()
        self.process.wait()
        self.forget()

    def forget(self) -> None:
        """Close our ends of its pipes."""
        os.close(self.source)
        os.close(self.target)
        self.errors.close()


def _framed(request: tuple[Any, ...]) -> bytes:
    data = marshal.dumps(request)
    return len(data).to_bytes(8, "little") + data


@cache
def _folder() -> tuple[str, str]:
    """Return where llvmlite lies, and its version; it is not imported for that."""
    found = find_spec("llvmlite")
    if found is None or not found.submodule_search_locations:
        raise ImportError("workbench needs llvmlite: pip install llvmlite")
    folder = Path(next(iter(found.submodule_search_locations)))
    text = (folder / "_version.py").read_text() if (folder / "_version.py").exists() else ""
    for word in ('version_version = "', "version_version = '", 'version = "', "version = '"):
        if word in text:
            return str(folder), text.split(word, 1)[1].split(word[-1], 1)[0]
    return str(folder), ""


def llvmlite_folder() -> str:
    """Return where llvmlite lies; it is not imported for that."""
    return _folder()[0]


def llvmlite_version() -> str:
    """Return the version of llvmlite, "" if it does not say it; it is not imported for that."""
    return _folder()[1]


_lock, _starting = renewed_lock(), renewed_lock()
_helper: _Process | None = None


def ask(want: str, machine: dict[str, Any], text: str) -> bytes:
    """Return what the helper makes of LLVM IR.

    Raises:
        LlvmError: it cannot.
        OSError: no process can be started here.
    """
    with _lock:
        if _helper is None or not _helper.usable:
            in_one_piece(_start)
        helper = _helper
        assert helper is not None
        try:
            return helper.ask(want, machine, text.encode())
        finally:
            if helper.busy:  # it has died, or is at work on what nobody waits for
                helper.process.kill()


def prepare() -> None:
    """Have the helper start meanwhile, if there is none."""
    if _helper is None and find_spec("llvmlite") is not None:
        with contextlib.suppress(RuntimeError):  # the interpreter is ending
            _thread.start_new_thread(_start_first, ())


def _start_first() -> None:
    if _helper is None and _starting.acquire(blocking=False):
        try:
            if _helper is None:
                with contextlib.suppress(OSError, ImportError):  # who asks is told
                    _start()
        finally:
            _starting.release()


def _start() -> None:
    """Start a helper in the place of one that cannot be used.

    A fork waits: a child would keep pipes open that it does not know of, whose end ends the helper
    and tells us that it has started.
    """
    global _helper
    with _starting, unforked:
        old = _helper
        if old is not None and old.usable:
            return
        if not sys.executable:
            raise OSError("the path of Python is not known")
        ours, its_target = os.pipe()
        its_source, target = os.pipe()
        errors = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process
        command = [sys.executable, "-I", "-S", str(_HELPER), *_folder()]
        try:
            process = subprocess.Popen(
                command, stdin=its_source, stdout=its_target, stderr=errors, start_new_session=True
            )
        except OSError:
            os.close(ours)
            os.close(target)
            raise
        finally:
            os.close(its_source)
            os.close(its_target)
        _helper = _Process(process, ours, target, errors)
        if old is not None:
            old.end()


def _forget() -> None:
    """In a child of a fork: the helper is the parent's."""
    global _helper
    old, _helper = _helper, None
    if old is not None:
        old.forget()
        old.process.returncode = 0  # nobody waits for it here


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def _at_exit() -> None:
    """End the helper: its input ends, and it has nothing to do."""
    helper = _helper
    if helper is not None:
        helper.process.kill()
        helper.process.wait()


atexit.register(_at_exit)
