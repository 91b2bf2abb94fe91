from __future__ import annotations

import os
import shutil
import subprocess
import sys
import warnings

import pytest

from tests.runtime import hammer
from workbench.runtime import cache, tiers
from workbench.runtime.cache import CacheWarning, Entry

ENTRY = Entry({"launch": {"symbol": "add", "threads": 128}}, {"code": b"\x7fELF", "index": b"[]"})


def place_of(key):
    (found,) = cache.directory().glob(f"v*/{key}")
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
    assert [path.name for path in place_of(key).parent.iterdir()] == [key]


def test_keys_depend_on_every_part_and_its_place():
    keys = {cache.make_key(*parts) for parts in [("a", "b"), ("ab",), ("b", "a"), ("a", "b", "")]}
    assert len(keys) == 4


@pytest.mark.parametrize("damage", [b"", b"{}", b"\x00garbage"])
def test_a_damaged_entry_is_a_warning_and_is_replaced(damage):
    key = cache.make_key(repr(damage))
    cache.store(key, ENTRY)
    place_of(key).write_bytes(damage)
    with pytest.warns(CacheWarning, match="is damaged .its checksum is another"):
        assert cache.load(key) is None
    with warnings.catch_warnings(action="error"):
        assert cache.load(key) is None  # it has gone
    assert cache.store(key, ENTRY)
    assert cache.load(key) == ENTRY


def test_a_newer_entry_takes_the_place_of_an_older_one():
    key = cache.make_key("number")
    cache.store(key, ENTRY)
    newer = Entry({"launch": {"symbol": "add", "threads": 256}}, {"code": b"other"})
    assert cache.store(key, newer)
    assert cache.load(key) == newer


def test_a_place_that_cannot_be_made_is_a_warning_and_a_folder_of_this_process(
    tmp_path, monkeypatch
):
    file = tmp_path / "file"
    file.write_text("not a folder")
    monkeypatch.setenv("WORKBENCH_CACHE_DIR", str(file / "cache"))
    with pytest.warns(CacheWarning, match="is not used: .*This process starts cold"):
        assert cache.load(cache.make_key("a")) is None
    assert cache.store(cache.make_key("a"), ENTRY)
    assert cache.load(cache.make_key("a")) == ENTRY
    assert file.read_text() == "not a folder"


def test_a_folder_that_was_removed_is_made_again(own_cache):
    key = cache.make_key("a")
    cache.store(key, ENTRY)
    shutil.rmtree(own_cache)
    assert cache.load(key) is None
    assert cache.store(key, ENTRY)
    assert place_of(key).exists()


def test_what_others_left_unfinished_is_removed(own_cache):
    (own_cache / "v3").mkdir(parents=True)
    old, new = own_cache / "v3" / ".new-1-old", own_cache / "v3" / ".new-2-new"
    old.write_bytes(b"x")
    new.write_bytes(b"x")
    os.utime(old, (0, 0))
    cache.store(cache.make_key("a"), ENTRY)
    assert (old.exists(), new.exists()) == (False, True)


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
for round in range(20):
    for key in range(5):
        key = cache.make_key(str(key))
        cache.store(key, entry)
        found = cache.load(key)
        assert found == entry, found
"""


def test_processes_do_not_disturb_each_other(own_cache):
    processes = [subprocess.Popen([sys.executable, "-W", "error", "-c", WRITER]) for _ in range(2)]
    assert [process.wait(60) for process in processes] == [0, 0]


def test_reads_are_right_whatever_happens_to_the_cache():
    # A process of its own, since it forks and this one may have threads.
    command = [sys.executable, "-m", "tests.runtime.hammer", "60", "7"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert "\n0 wrong reads, 60 processes" in done.stdout
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_full_disk_is_a_warning(own_cache):
    large = Entry({"n": 1}, {"code": os.urandom(1_000_000)})
    with hammer.small_disk(own_cache, "200k") as is_small:
        if not is_small:
            pytest.skip("mounts a small disk: needs root who may mount")
        assert cache.store(cache.make_key("small"), ENTRY)
        with pytest.warns(CacheWarning, match="No space left on device"):
            assert not cache.store(cache.make_key("large"), large)
        assert cache.load(cache.make_key("small")) == ENTRY
        assert cache.load(cache.make_key("large")) is None
        assert [path.name for path in (own_cache / "v3").iterdir()] == [cache.make_key("small")]
        tiers.forget()


def test_clear():
    for name in "ab":
        cache.store(cache.make_key(name), ENTRY)
    assert cache.clear() == 2
    assert cache.usage() == (0, 0)


def test_a_file_of_one_size_that_was_written_again_makes_other_keys(tmp_path, monkeypatch):
    (tmp_path / "passes").mkdir()
    file = tmp_path / "passes" / "one.py"
    file.write_text("A = 1\n")
    os.utime(file, ns=(10**18, 10**18))
    monkeypatch.setattr(cache, "PACKAGE", tmp_path)
    before = cache.compiler_stamp.__wrapped__()
    assert cache.compiler_stamp.__wrapped__() == before
    file.write_text("A = 2\n")
    os.utime(file, ns=(10**18, 10**18 + 1))
    assert cache.compiler_stamp.__wrapped__() != before
