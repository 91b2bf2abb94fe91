"""What Python keeps for all threads: what another thread does with it meanwhile is no error."""

from __future__ import annotations

import ast
import linecache
import os
import threading
from pathlib import Path
from typing import Any

import pytest

import workbench
from workbench.source import Span, kernel_source, line_of
from workbench.source.environment import watch_environment
from workbench.source.undisturbed import again, environment
from workbench.source.watched import Watched


def whole(x_ptr, BLOCK):
    return x_ptr + BLOCK


class Forgotten(dict[str, Any]):
    """A cache that has just lost a file: it is asked whether it has it, and then has not."""

    def __init__(self, entries: dict[str, Any], times: int) -> None:
        super().__init__(entries)
        self.times = times

    def __contains__(self, name: object) -> bool:
        if self.times and name == __file__:
            self.times -= 1
            self.pop(__file__, None)
            return True
        return super().__contains__(name)


@pytest.mark.parametrize("times", [1, 5])
def test_a_file_that_another_thread_forgets_is_read_again(times, monkeypatch):
    cache = Forgotten(linecache.cache, times)
    monkeypatch.setattr(linecache, "cache", cache)
    assert kernel_source(whole).text.startswith("def whole(x_ptr, BLOCK):")
    cache.times = times
    assert line_of(Span(__file__, 1, 1, 1, 2)).startswith('"""What Python keeps')
    assert cache.times == 0


def test_what_is_asked_in_vain_ends():
    asked: list[int] = []

    def ask() -> None:
        asked.append(1)
        raise KeyError("gone")

    with pytest.raises(KeyError, match="gone"):
        again(ask)
    assert 1 < len(asked) < 1000


def test_variables_come_and_go_while_the_environment_is_read():
    over = threading.Event()

    def change() -> None:
        while not over.is_set():
            for number in range(20):
                os.environ[f"WORKBENCH_TEST_{number}"] = "1"
            for number in range(20):
                del os.environ[f"WORKBENCH_TEST_{number}"]

    thread = threading.Thread(target=change, daemon=True)
    thread.start()
    try:
        for _ in range(300):
            assert "PATH" in environment()
            names = {"PATH", "WORKBENCH_TEST_"}
            assert "PATH" in dict(watch_environment(names, Watched(), everything=True))
    finally:
        over.set()
        thread.join()


def test_variables_are_watched():
    watched = Watched()
    os.environ["WORKBENCH_TEST_SEEN"] = "1"
    try:
        found = watch_environment({"WORKBENCH_TEST_", "PATH"}, watched, everything=False)
        assert {"WORKBENCH_TEST_SEEN", "PATH"} <= {name for name, _ in found}
        assert watched.unchanged()
        os.environ["WORKBENCH_TEST_SEEN"] = "2"
        assert not watched.unchanged()
    finally:
        del os.environ["WORKBENCH_TEST_SEEN"]


#: What Python keeps for all threads, and the one place that deals with it; "": nobody uses it.
SHARED = {
    "ast.parse": "source/syntax.py",
    "linecache.getline": "",
    "linecache.getlines": "source/undisturbed.py",
    "linecache.checkcache": "",
    "inspect.findsource": "source/undisturbed.py",
    "inspect.getsource": "",
    "inspect.getsourcelines": "source/undisturbed.py",
    "sys.modules.items": "",
    "sys.modules.values": "",
    "sys.setrecursionlimit": "source/depth.py",
    "warnings.catch_warnings": "",
    "warnings.simplefilter": "",
    "warnings.filterwarnings": "",
    "contextlib.redirect_stdout": "",
    "contextlib.redirect_stderr": "",
    "os.chdir": "",
    "locale.setlocale": "",
}


def test_what_threads_share_is_used_in_one_place():
    folder = Path(workbench.__file__).parent
    found: list[str] = []
    for path in sorted(folder.rglob("*.py")):
        place = path.relative_to(folder).as_posix()
        for node in ast.walk(ast.parse(path.read_text())):
            name = ast.unparse(node) if isinstance(node, ast.Attribute) else ""
            if SHARED.get(name, place) != place:
                found.append(f"{place}:{node.lineno}: {name}")  # type: ignore[attr-defined]
            copies = node.values if isinstance(node, ast.Dict) else []
            for key, value in zip(node.keys if copies else [], copies, strict=True):  # type: ignore
                if key is None and ast.unparse(value) == "os.environ":
                    found.append(f"{place}:{value.lineno}: a copy of os.environ")
    assert found == []
