"""What the cache believes: planted folders, files and secrets. Tests say when they need root."""

from __future__ import annotations

import os
import pickle
import shutil
import stat
import subprocess
import sys
import tempfile
import textwrap
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import workbench as wb
from tests.runtime.kernels import add
from workbench.analysis.ranges import from_data
from workbench.runtime import cache, compiling, signing, tiers
from workbench.runtime.cache import CacheWarning, Entry
from workbench.runtime.folders import DistrustError, open_folder
from workbench.source import OptionError

NOBODY = 65534
IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0
root_only = pytest.mark.skipif(not IS_ROOT, reason="gives files to another user: needs root")
KEY, OTHER = cache.make_key("a"), cache.make_key("b")
ENTRY = Entry({"launch": {"threads": 128}}, {"code": b"\x7fELF" * 8})
ANOTHER = Entry({"launch": {"threads": 256}}, {"code": b"other"})


@pytest.fixture
def folder(own_cache: Path) -> Path:
    """A cache with one entry, as another process finds it; its files' folder."""
    cache.store(KEY, ENTRY)
    tiers.forget()
    return own_cache / "v3"


def names(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir())


def refused(match: str) -> None:
    """Nothing is found, one warning says why; this process goes on with a folder of its own."""
    with pytest.warns(CacheWarning, match=match) as said:
        found = cache.load(KEY), cache.store(KEY, ANOTHER), cache.load(KEY), cache.load(OTHER)
    assert found == (None, True, ANOTHER, None)
    assert len(said) == 1
    assert "starts cold" in str(said[0].message)


def replaced(name: str = KEY) -> None:
    """A file is not believed, one warning says so, and the next entry takes its place."""
    with pytest.warns(CacheWarning, match="is damaged"):
        assert cache.load(name) is None
    with warnings.catch_warnings(action="error"):
        assert cache.load(name) is None
        assert cache.store(name, ENTRY)
        assert cache.load(name) == ENTRY


# -- folders ------------------------------------------------------------------------------------
def test_our_folder_is_closed_to_readers(folder):
    folder.parent.chmod(0o755)
    assert cache.load(KEY) == ENTRY
    assert [stat.S_IMODE(path.stat().st_mode) for path in (folder.parent, folder)] == [0o700] * 2
    assert stat.S_IMODE((folder / KEY).stat().st_mode) == 0o600


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o722, 0o1777])
def test_a_folder_that_others_can_write_is_not_used(folder, mode):
    folder.parent.chmod(mode)
    refused(r"others can write to .*/cache \(mode .*\): chmod 700")
    assert names(folder) == [KEY]


def test_a_folder_inside_that_others_can_write_is_not_used(folder):
    folder.chmod(0o777)
    refused(r"others can write to .*/v3")


@pytest.mark.parametrize(("mode", "good"), [(0o777, False), (0o775, False), (0o1777, True)])
def test_parents_may_be_open_only_if_sticky(own_cache, monkeypatch, mode, good):
    parent = own_cache / "above"
    parent.mkdir(parents=True)
    parent.chmod(mode)
    monkeypatch.setenv("WORKBENCH_CACHE_DIR", str(parent / "deeper" / "cache"))
    if good:
        assert cache.store(KEY, ENTRY)
        assert (parent / "deeper" / "cache" / "v3" / KEY).exists()
    else:
        refused("others can write to .*/above .*: chmod go-w")
        assert not any(parent.iterdir())


@root_only
def test_a_folder_of_another_user_is_not_used_whatever_its_mode(folder):
    os.chown(folder.parent, NOBODY, NOBODY)
    folder.parent.chmod(0o777)
    refused("cache belongs to nobody|user 65534")


@root_only
@pytest.mark.parametrize("part", ["", "v3"])
def test_no_part_of_the_path_may_belong_to_another_user(folder, part, monkeypatch):
    if part:
        os.chown(folder, NOBODY, NOBODY)
    else:
        monkeypatch.setenv("WORKBENCH_CACHE_DIR", str(folder.parent / "v3" / "deeper"))
        os.chown(folder, NOBODY, NOBODY)
    refused("v3 belongs to")


def test_a_link_to_the_folder_is_resolved_first(folder, own_cache, tmp_path, monkeypatch):
    (tmp_path / "link").symlink_to(own_cache)
    monkeypatch.setenv("WORKBENCH_CACHE_DIR", str(tmp_path / "link"))
    assert cache.load(KEY) == ENTRY
    own_cache.chmod(0o777)
    tiers.forget()
    refused("others can write to .*/cache ")


def test_a_linked_folder_inside_is_not_followed(folder, tmp_path):
    shutil.move(folder, tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    refused("v3 of .* is a link")
    assert (tmp_path / "elsewhere" / KEY).exists()


def test_what_a_path_means_later_does_not_matter(folder, tmp_path):
    assert cache.load(KEY) == ENTRY
    shutil.move(folder.parent, tmp_path / "moved")
    shutil.copytree(tmp_path / "moved", folder.parent)  # somebody puts another one there
    (folder / KEY).write_bytes(b"planted")
    assert cache.load(KEY) == ENTRY


# -- files --------------------------------------------------------------------------------------
def test_every_bit_and_every_byte_counts(folder):
    good = (folder / KEY).read_bytes()
    secret = signing.read_secret(open_folder(folder.parent))
    for place in range(len(good)):
        bad = bytearray(good)
        bad[place] ^= 1 << (place % 8)
        if not 0 <= place < 32:  # the sum is of no use to those who have the secret
            with pytest.raises(signing.DamagedError):
                signing.unseal(KEY, bytes(bad), secret)
        if not 32 <= place < 64:  # nor the signature to those who do not
            with pytest.raises(signing.DamagedError):
                signing.unseal(KEY, bytes(bad), None)
        for each in (secret, None):
            with pytest.raises(signing.DamagedError):
                signing.unseal(KEY, good[:place], each)
    with pytest.raises(signing.DamagedError):
        signing.unseal(KEY, good + b"\0", secret)


def test_an_entry_is_good_under_its_own_key_only(folder):
    cache.store(OTHER, ANOTHER)
    here, there = (folder / KEY).read_bytes(), (folder / OTHER).read_bytes()
    (folder / KEY).write_bytes(there)
    (folder / OTHER).write_bytes(here)
    replaced(KEY)
    assert cache.load(OTHER) is None


def test_a_trace_is_good_under_its_own_place_only(folder):
    cache.store_trace(KEY, "12", b"one")
    cache.store_trace(KEY, "34", b"two")
    shutil.copy(folder / f"{KEY}.trace-34", folder / f"{KEY}.trace-12")
    with pytest.warns(CacheWarning, match="is damaged"):
        assert cache.load_trace(KEY, "12") is None
    assert cache.load_trace(KEY, "34") == b"two"


def link(place: Path) -> None:
    place.rename(place.parent.parent / "elsewhere")
    place.symlink_to(place.parent.parent / "elsewhere")


def folder_with_content(place: Path) -> None:
    place.unlink()
    place.mkdir()
    (place / "entry.json").write_text("{}")


def pipe(place: Path) -> None:
    place.unlink()
    os.mkfifo(place)  # reading it would wait for ever


def open_to_others(place: Path) -> None:
    place.chmod(0o666)


def of_another_user(place: Path) -> None:
    os.chown(place, NOBODY, NOBODY)


def huge(place: Path) -> None:
    os.truncate(place, 1 << 40)


@pytest.mark.parametrize(
    "plant",
    [
        link, folder_with_content, pipe, open_to_others, huge,
        pytest.param(of_another_user, marks=root_only),
    ],
)  # fmt: skip
def test_what_is_no_plain_file_of_ours_is_replaced(folder, plant):
    plant(folder / KEY)
    replaced()


def test_a_forged_entry_with_a_right_sum_is_not_believed(folder):
    sealed = signing.seal(KEY, cache._encode(ANOTHER), os.urandom(32))
    (folder / KEY).write_bytes(sealed)
    with pytest.warns(CacheWarning, match="not signed with this user's secret"):
        assert cache.load(KEY) is None


def test_the_bytes_that_were_checked_are_the_bytes_that_are_used(folder, monkeypatch):
    def swapped(*given):
        content = signing.unseal(*given)
        (folder / KEY).write_bytes(b"planted between the check and the use")
        return content

    monkeypatch.setattr(cache, "unseal", swapped)
    assert cache.load(KEY) == ENTRY


RAN: list[str] = []


class Gadget:
    """What runs when it is unpickled."""

    def __reduce__(self):
        return RAN.append, ("ran",)


def test_nothing_is_unpickled(own_cache):
    kernel = wb.compile(add, "*f32 *f32 *f32 i32", {"BLOCK": 8}, target="cpu")
    assert kernel.code
    stored = cache.load(kernel.hash)
    gadget = pickle.dumps(Gadget())
    for index in (gadget.decode("latin1"), {"steps": [["x", [], []]], "closed": []}, [gadget[0]]):
        cache.store(kernel.hash, Entry({**stored.data, "index": index}, stored.files))
        compiling.forget()
        with pytest.warns(CacheWarning, match="it is no kernel"):
            again = wb.compile(add, "*f32 *f32 *f32 i32", {"BLOCK": 8}, target="cpu")
        assert not again.from_cache
        tiers._warned.clear()
    for name in ("index", "code"):
        cache.store(kernel.hash, Entry(stored.data, {name: gadget}))
        compiling.forget()
        with warnings.catch_warnings(action="ignore"):
            wb.compile(add, "*f32 *f32 *f32 i32", {"BLOCK": 8}, target="cpu")
    old = own_cache / "v2" / kernel.hash[:2] / kernel.hash[2:]
    old.mkdir(parents=True)
    (old / "index").write_bytes(gadget)
    compiling.forget()
    wb.compile(add, "*f32 *f32 *f32 i32", {"BLOCK": 8}, target="cpu")
    assert RAN == []


def test_an_index_program_is_plain_data():
    kernel = wb.compile(add, "*f32 *f32 *f32 i32", {"BLOCK": 8}, target="cpu")
    _ = kernel.compiled.binary
    from workbench.analysis.ranges import index_program

    program = index_program(kernel.module)
    assert from_data(program.to_data()) == program
    good = program.to_data()
    for steps in (
        [["os.system", [], []]],
        [["add", [0, 0], []]],
        [["between", [], [0]]],
        [["between", [], [0, True]]],
        [["argument", [], [0, 0, 0]]],
    ):
        with pytest.raises(ValueError, match="step"):
            from_data({**good, "steps": steps})
    with pytest.raises(ValueError, match="closes"):
        from_data({**good, "closed": [len(good["steps"])]})


# -- the secret ---------------------------------------------------------------------------------
def test_the_secret_is_made_once_and_closed_to_others(folder, tmp_path):
    path = tmp_path / "state" / "workbench" / "cache.key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(path.read_bytes()) == 32
    assert names(path.parent) == ["cache.key"]
    before = path.read_bytes()
    assert cache.load(KEY) == ENTRY
    assert path.read_bytes() == before


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o620, 0o604])
def test_a_secret_that_others_may_know_is_not_used(folder, mode):
    signing.secret_file().chmod(mode)
    refused(r"cache.key can be read or written by others \(mode 0")
    assert (folder / KEY).exists()  # nothing of ours is thrown away


@root_only
def test_a_secret_of_another_user_is_not_used(folder):
    os.chown(signing.secret_file(), NOBODY, NOBODY)
    refused("cache.key belongs to")


def test_a_linked_secret_is_not_used(folder, tmp_path):
    secret = signing.secret_file()
    secret.rename(tmp_path / "known")
    secret.symlink_to(tmp_path / "known")
    refused("cache.key is a link")


def test_a_short_secret_is_not_used(folder):
    signing.secret_file().write_bytes(b"")
    refused("has 0 bytes, not 32")


@pytest.mark.parametrize("inside", ["", "deep/er", "link"])
def test_a_secret_below_the_cache_is_not_used(own_cache, tmp_path, monkeypatch, inside):
    state = own_cache / inside if inside != "link" else tmp_path / "link"
    if inside == "link":
        own_cache.mkdir(mode=0o700)
        state.symlink_to(own_cache)
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    refused("its secret .* lies below it")
    assert not list(own_cache.rglob("cache.key"))


def test_no_place_for_a_secret_means_a_cold_start(own_cache, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    refused("is not used: .*file")
    assert names(own_cache / "v3") == []


def test_a_state_folder_that_others_can_write_is_not_used(folder, tmp_path):
    (tmp_path / "state").chmod(0o777)
    refused("others can write to .*/state")


def test_a_lost_secret_makes_entries_foreign_until_they_are_merged(folder, own_cache, tmp_path):
    signing.secret_file().unlink()
    assert cache.merge(own_cache) == 1
    assert cache.load(KEY) == ENTRY
    signing.secret_file().unlink()
    tiers.forget()
    with pytest.warns(CacheWarning, match="not signed"):
        assert cache.load(KEY) is None


def test_all_who_make_the_secret_at_once_have_the_same(own_cache):
    opened = open_folder(own_cache)
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda _: signing.read_secret(opened), range(64)))
    assert len(set(found)) == 1
    script = (
        "import sys; sys.stdin.read(1)\n"
        "from pathlib import Path\n"
        "from workbench.runtime import folders, signing\n"
        f"print(signing.read_secret(folders.open_folder(Path({str(own_cache)!r}))).hex())"
    )
    signing.secret_file().unlink()
    started = [
        subprocess.Popen([sys.executable, "-c", script], stdin=-1, stdout=-1, text=True)
        for _ in range(3)
    ]
    assert len({process.communicate("x", 60)[0] for process in started}) == 1


# -- another user -------------------------------------------------------------------------------
AS_NOBODY = """
    import os, sys, warnings
    from workbench.runtime import cache
    from workbench.runtime.cache import Entry
    os.setgroups([]); os.setgid({nobody}); os.setuid({nobody})
    os.environ.update(XDG_STATE_HOME={state!r}, HOME={state!r}, **{settings!r})
    warnings.simplefilter("always")
    key = {key!r}
    {body}
"""


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A folder that another user can pass through; pytest's own are closed."""
    place = Path(tempfile.mkdtemp(prefix="workbench-test-"))
    place.chmod(0o755)
    (place / "home").mkdir(mode=0o700)
    os.chown(place / "home", NOBODY, NOBODY)
    yield place
    shutil.rmtree(place)


def as_nobody(place: Path, body: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run lines as the user nobody, at home below `place`."""
    script = textwrap.dedent(AS_NOBODY).format(
        nobody=NOBODY, state=str(place / "home"), key=KEY, body=body, settings=settings
    )
    command = [sys.executable, "-c", script]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@root_only
def test_another_user_has_no_use_for_our_cache(reachable, monkeypatch):
    place = reachable / "cache"
    monkeypatch.setenv("WORKBENCH_CACHE_DIR", str(place))
    cache.store(KEY, ENTRY)
    tried = "print(cache.load(key), cache.store(key, Entry({}, {})), cache.load(key) is None)"
    for mode in (0o755, 0o700):  # readable, and closed as we leave it
        place.chmod(mode)
        done = as_nobody(reachable, tried, WORKBENCH_CACHE_DIR=str(place))
        assert done.stdout.split() == ["None", "True", "False"], done.stderr
        assert done.stderr.count("kernel cache:") == 1
        assert "belongs to root" in done.stderr or "Permission denied" in done.stderr
    assert cache.load(KEY) == ENTRY


@root_only
def test_a_cache_that_its_owner_cannot_write_is_read(reachable):
    place = reachable / "home" / "cache"
    fill = "print(cache.store(key, Entry({'n': 1}, {})))"
    done = as_nobody(reachable, fill, WORKBENCH_CACHE_DIR=str(place))
    assert done.stdout == "True\n", done.stderr
    (place / "v3").chmod(0o500)
    body = "print(cache.load(key).data, cache.store('0' * 64, Entry({}, {})))"
    done = as_nobody(reachable, body, WORKBENCH_CACHE_DIR=str(place))
    assert done.stdout == "{'n': 1} False\n", done.stderr
    assert "cannot write" in done.stderr


# -- shared -------------------------------------------------------------------------------------
@pytest.fixture
def shared(folder, own_cache, tmp_path, monkeypatch) -> Path:
    """The cache of another user, as a copy for readers; our own is empty."""
    place = tmp_path / "shared"
    own_cache.rename(place)
    (tmp_path / "state").rename(tmp_path / "state of another")
    for path in (place, *place.rglob("*")):
        path.chmod(0o755)
        if IS_ROOT:
            os.chown(path, NOBODY, NOBODY)
    tiers.forget()
    return place


@root_only
def test_a_shared_cache_is_used_if_its_owner_is_named(shared, own_cache, monkeypatch):
    monkeypatch.setenv("WORKBENCH_SHARED_CACHE", f"{NOBODY}:{shared}")
    before = {path: path.stat().st_mtime_ns for path in shared.rglob("*")}
    assert cache.load(KEY) == ENTRY
    assert any(f"unsigned, what {NOBODY}, root wrote" in line for line in cache.trusted())
    assert cache.store(KEY, ANOTHER)
    assert cache.load(KEY) == ANOTHER
    assert cache.clear() == 1
    assert cache.load(KEY) == ENTRY
    assert {path: path.stat().st_mtime_ns for path in shared.rglob("*")} == before


@root_only
@pytest.mark.parametrize("named", ["", "daemon:", "no such user:"])
def test_a_shared_cache_of_somebody_else_is_not_used(shared, monkeypatch, named):
    monkeypatch.setenv("WORKBENCH_SHARED_CACHE", f"{named}{shared}")
    with pytest.warns(CacheWarning, match="belongs to|no user") as said:
        found = cache.load(KEY), cache.load(OTHER)
    assert found == (None, None)
    assert len(said) == 1
    if not named:
        assert f"write WORKBENCH_SHARED_CACHE=OWNER:{shared}" in str(said[0].message)
    assert any("not trusted" in line for line in cache.trusted())


@root_only
@pytest.mark.parametrize("place", [".", "v3"])
@pytest.mark.parametrize("does", ["opened", "given"])
def test_the_rule_holds_for_shared_folders_too(shared, monkeypatch, place, does):
    (shared / place).chmod(0o777) if does == "opened" else os.chown(shared / place, 2, 2)
    monkeypatch.setenv("WORKBENCH_SHARED_CACHE", f"{NOBODY}:{shared}")
    with pytest.warns(CacheWarning, match="others can write to|belongs to"):
        assert cache.load(KEY) is None


@root_only
def test_a_damaged_shared_entry_is_left_alone_and_made_for_ourselves(shared, monkeypatch):
    planted = (shared / "v3" / KEY).read_bytes()[:-1] + b"?"
    (shared / "v3" / KEY).write_bytes(planted)
    monkeypatch.setenv("WORKBENCH_SHARED_CACHE", f"{NOBODY}:{shared}")
    with pytest.warns(CacheWarning, match="is damaged"):
        assert cache.load(KEY) is None
    assert (shared / "v3" / KEY).read_bytes() == planted
    assert cache.store(KEY, ENTRY)
    assert cache.load(KEY) == ENTRY


@root_only
def test_a_shared_file_of_a_third_user_is_not_believed(shared, monkeypatch):
    os.chown(shared / "v3" / KEY, 2, 2)
    monkeypatch.setenv("WORKBENCH_SHARED_CACHE", f"{NOBODY}:{shared}")
    with pytest.warns(CacheWarning, match="belongs to"):
        assert cache.load(KEY) is None


def test_merging_signs_what_is_whole(shared, folder):
    (shared / "v3" / OTHER).write_bytes(b"damaged")
    (shared / "v3" / "notes.txt").write_text("no entry")
    with pytest.warns(CacheWarning, match="is not taken over: its checksum"):
        assert wb.cache.merge(shared) == 1
    assert cache.load(KEY) == ENTRY
    assert cache.load(OTHER) is None
    cache.store(KEY, ANOTHER)
    tiers._warned.clear()
    with pytest.warns(CacheWarning, match="is not taken over"):
        assert wb.cache.merge(shared) == 0  # ours stays
    assert cache.load(KEY) == ANOTHER


def test_merging_nothing_is_said(tmp_path, monkeypatch):
    with pytest.raises(OptionError, match="holds no kernel cache of this version") as caught:
        wb.cache.merge(tmp_path)
    assert caught.value.code == "K806"
    (tmp_path / tiers.FOLDER).mkdir(mode=0o700)
    with pytest.raises(OptionError, match="No such file") as caught:
        wb.cache.merge(tmp_path / tiers.FOLDER)
    assert str(tmp_path) in (caught.value.hint or "")
    assert "Errno" not in str(caught.value)
    with pytest.raises(OptionError, match="folder is a path, got 3"):
        wb.cache.merge(3)
    monkeypatch.setenv("WORKBENCH_CACHE_DIR", "")
    with pytest.raises(OptionError, match="the kernel cache is off"):
        wb.cache.merge(tmp_path)


def test_the_magic_names_what_is_trusted(folder, tmp_path):
    from workbench.magics.doctor import cache as shown

    assert f"trusted: what is signed with {tmp_path}/state/workbench/cache.key" in shown()
    (tmp_path / "cache").chmod(0o777)
    tiers.forget()
    with pytest.warns(CacheWarning):
        assert f"{tmp_path}/cache is not used: others can write to" in shown()


def test_a_folder_is_looked_at_as_it_was_opened(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert open_folder(tmp_path / "link").path == Path(os.path.realpath(tmp_path / "real"))
    with pytest.raises(DistrustError):
        open_folder(tmp_path / "real").read("../real")
