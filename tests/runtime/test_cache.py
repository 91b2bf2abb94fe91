from __future__ import annotations

import subprocess
import sys
import warnings

import pytest

from workbench.runtime import cache
from workbench.runtime.cache import CacheWarning, Entry

ENTRY = Entry({"launch": {"symbol": "add", "threads": 128}}, {"code": b"\x7fELF", "index": b"[]"})


def place_of(key):
    (found,) = cache.directory().glob(f"v*/{key[:2]}/{key[2:]}")
    return found


def test_what_is_stored_is_loaded():
    key = cache.make_key("a")
    assert cache.load(key) is None
    assert cache.store(key, ENTRY)
    assert cache.load(key) == ENTRY
    assert cache.usage()[0] == 1


def test_nothing_is_left_behind_beside_the_entry():
    key = cache.make_key("a")
    cache.store(key, ENTRY)
    cache.store(key, ENTRY)
    assert [path.name for path in place_of(key).parent.iterdir()] == [key[2:]]


def test_keys_depend_on_every_part_and_its_place():
    keys = {cache.make_key(*parts) for parts in [("a", "b"), ("ab",), ("b", "a"), ("a", "b", "")]}
    assert len(keys) == 4


@pytest.mark.parametrize("name", ["code", "index", "entry.json"])
@pytest.mark.parametrize("damage", [b"", b"{}", b"\x00garbage"])
def test_a_damaged_entry_is_a_warning_and_counts_as_absent(name, damage):
    key = cache.make_key(name, repr(damage))
    cache.store(key, ENTRY)
    (place_of(key) / name).write_bytes(damage)
    with pytest.warns(CacheWarning, match="is damaged"):
        assert cache.load(key) is None
    assert cache.store(key, ENTRY)
    assert cache.load(key) == ENTRY


def test_a_missing_file_is_a_warning_too():
    key = cache.make_key("gone")
    cache.store(key, ENTRY)
    (place_of(key) / "code").unlink()
    with pytest.warns(CacheWarning, match="is damaged"):
        assert cache.load(key) is None


def test_a_changed_number_is_found():
    key = cache.make_key("number")
    cache.store(key, ENTRY)
    file = place_of(key) / "entry.json"
    file.write_text(file.read_text().replace("128", "256"))
    with pytest.warns(CacheWarning, match="another checksum"):
        assert cache.load(key) is None


def test_a_place_that_cannot_be_written_is_a_warning(tmp_path, monkeypatch):
    file = tmp_path / "file"
    file.write_text("not a folder")
    monkeypatch.setenv("WORKBENCH_CACHE_DIR", str(file / "cache"))
    with pytest.warns(CacheWarning, match="cannot write"):
        assert not cache.store(cache.make_key("a"), ENTRY)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CacheWarning)
        assert cache.load(cache.make_key("a")) is None


def test_no_place_turns_the_cache_off(monkeypatch):
    monkeypatch.setenv("WORKBENCH_CACHE_DIR", "")
    assert not cache.store(cache.make_key("a"), ENTRY)
    assert cache.load(cache.make_key("a")) is None


def test_traces_are_added_to_entries_that_exist():
    key = cache.make_key("trace")
    cache.store_trace(key, "1234", b"early")
    assert cache.load_trace(key, "1234") is None
    cache.store(key, ENTRY)
    cache.store_trace(key, "1234", b"packed")
    assert cache.load_trace(key, "1234") == b"packed"
    assert cache.load_trace(key, "5678") is None
    assert cache.load(key) == ENTRY


WRITER = """
from workbench.runtime import cache
entry = cache.Entry({"n": 1}, {"code": b"x" * 100_000})
for round in range(40):
    for key in range(5):
        key = cache.make_key(str(key))
        cache.store(key, entry)
        found = cache.load(key)
        assert found == entry, found
"""


def test_processes_do_not_disturb_each_other(own_cache):
    processes = [subprocess.Popen([sys.executable, "-W", "error", "-c", WRITER]) for _ in range(3)]
    assert [process.wait(60) for process in processes] == [0, 0, 0]


def test_clear():
    for name in "ab":
        cache.store(cache.make_key(name), ENTRY)
    assert cache.clear() == 2
    assert cache.usage() == (0, 0)
