"""Many processes on one cache that are killed, lied to and run out of disk: no read may be wrong.

    python -m tests.runtime.hammer [PROCESSES] [SEED]

| process | what it does |
|---------|--------------|
| worker | stores, loads, adds traces, now and then clears; of one of two versions, side by side |
| killed | the same, ended at any moment |
| full | the same on a full disk: files that it writes end after some bytes |
| other | the same as another user (as root only), who may not even read the folder |
| corrupter | flips, cuts, swaps, links, replaces files, takes the folder or the secret away |

What belongs under a key follows from the key, so every read can be judged.
"""

from __future__ import annotations

import contextlib
import os
import random
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

from workbench.runtime import cache, signing, tiers
from workbench.runtime.cache import Entry

KEYS = [sha256(f"key {number}".encode()).hexdigest() for number in range(24)]
NOBODY = 65534
AT_ONCE = 24
WRONG, FAILED = 3, 4


def entry_of(key: str, version: int) -> Entry:
    """Return what belongs under a key: from no bytes to 200 kB."""
    size = int(key[:8], 16) % 200_000 if int(key[8], 16) % 4 else int(key[:2], 16)
    code = sha256(f"{key} {version}".encode()).digest() * (size // 32)
    return Entry({"key": key, "version": version}, {"code": code})


def trace_of(key: str, version: int) -> bytes:
    return f"trace {key} {version}".encode() * 50


def work(dice: random.Random, version: int) -> tuple[int, int]:
    """Use the cache for a while; returns (loads, hits), ends the process after a wrong read."""
    tiers.FOLDER = cache.FOLDER = f"v{3 + version}"
    signing.FORMAT = f"workbench cache {3 + version}\n".encode()
    loads = hits = 0
    for _ in range(dice.randrange(10, 60)):
        key, what = dice.choice(KEYS), dice.random()
        if what < 0.3:
            cache.store(key, entry_of(key, version))
        elif what < 0.4:
            cache.store_trace(key, "1", trace_of(key, version))
        elif what < 0.41:
            cache.clear()
        else:
            wants_trace = what < 0.5
            found = cache.load_trace(key, "1") if wants_trace else cache.load(key)
            loads += 1
            hits += found is not None
            wanted = trace_of(key, version) if wants_trace else entry_of(key, version)
            if found is not None and found != wanted:
                os._exit(WRONG)
    return loads, hits


def corrupt(dice: random.Random, folder: Path) -> None:
    """Do some of what nobody may do."""
    for _ in range(dice.randrange(3, 12)):
        time.sleep(dice.random() / 500)
        with contextlib.suppress(OSError, ValueError):
            names = [path for path in folder.glob("cache/v*/*") if path.name[0] != "."]
            if dice.random() < 0.05:
                gone = folder / dice.choice(["cache", "state", "cache/v3"])
                gone.rename(folder / f"gone-{os.getpid()}-{dice.random()}")
                continue
            names = [path for path in names if path.is_file()]
            place, other = dice.choice(names or [folder]), dice.choice(names or [folder])
            dice.choice(DAMAGES)(dice, place, other)


def flip(dice: random.Random, place: Path, other: Path) -> None:
    data = bytearray(place.read_bytes())
    data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    place.write_bytes(data)


def cut(dice: random.Random, place: Path, other: Path) -> None:
    os.truncate(place, dice.randrange(place.stat().st_size))


def swap(dice: random.Random, place: Path, other: Path) -> None:
    shutil.copy(place, f"{other}.copy")
    Path(f"{other}.copy").replace(other)


def link(dice: random.Random, place: Path, other: Path) -> None:
    place.unlink()
    place.symlink_to(other)


def pipe(dice: random.Random, place: Path, other: Path) -> None:
    place.unlink()
    os.mkfifo(place)


def folder_instead(dice: random.Random, place: Path, other: Path) -> None:
    place.unlink()
    (place / "deep").mkdir(parents=True)


def open_up(dice: random.Random, place: Path, other: Path) -> None:
    place.chmod(0o777)


DAMAGES: list[Callable[[random.Random, Path, Path], None]] = [
    flip, flip, cut, swap, link, pipe, folder_instead, open_up,
]  # fmt: skip


def process(role: str, seed: int, folder: Path, told: int) -> int:
    """Start a process; returns its number. It tells role, loads and hits through a pipe."""
    child = os.fork()
    if child:
        return child
    try:
        warnings.simplefilter("ignore")
        dice = random.Random(seed)
        if role == "corrupter":
            corrupt(dice, folder)
            os._exit(0)
        if role == "full":
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, 5_000))
        if role == "other":
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            os.environ["XDG_STATE_HOME"] = str(folder / "home of nobody")
        loads, hits = work(dice, seed % 2)
        os.write(told, f"{role} {loads} {hits}\n".encode())
        os._exit(0)
    except BaseException as error:
        sys.__stderr__.write(f"{role} {seed}: {type(error).__name__}: {error}\n")
        os._exit(FAILED)


def hammer(processes: int, seed: int, folder: Path) -> Counter[str]:
    """Run so many processes; returns how many ended how, and their loads and hits."""
    dice = random.Random(seed)
    roles = ["worker"] * 5 + ["killed"] * 2 + ["full", "corrupter", "corrupter"]
    (folder / "home of nobody").mkdir(parents=True)
    (folder / "home of nobody").chmod(0o700)
    if os.geteuid() == 0:
        roles.append("other")
        os.chown(folder / "home of nobody", NOBODY, NOBODY)
        folder.chmod(0o711)
    os.environ.update(
        WORKBENCH_CACHE_DIR=str(folder / "cache"), XDG_STATE_HOME=str(folder / "state")
    )
    count: Counter[str] = Counter()
    hear, told = os.pipe()
    running: dict[int, tuple[str, float]] = {}
    for number in range(processes):
        role = dice.choice(roles)
        # A corrupter may hang in a pipe of another one.
        seconds = {"killed": dice.random() / 20, "corrupter": 5.0}.get(role, 120.0)
        child = process(role, seed * 100_000 + number, folder, told)
        running[child] = (role, time.monotonic() + seconds)
        while len(running) >= AT_ONCE:
            _reap(running, count)
            _listen(hear, count)
    while running:
        _reap(running, count)
    os.close(told)
    _listen(hear, count)
    os.close(hear)
    return count


def _listen(hear: int, count: Counter[str]) -> None:
    """Add what processes have told; each line comes whole."""
    while select.select([hear], [], [], 0)[0] and (lines := os.read(hear, 1 << 16)):
        for line in lines.decode().splitlines():
            role, loads, hits = line.split()
            count[f"{role} loads"] += int(loads)
            count[f"{role} hits"] += int(hits)


@contextlib.contextmanager
def small_disk(place: Path, size: str) -> Iterator[bool]:
    """Make a folder a disk of so many bytes ("1m"); False where that is not allowed."""
    place.mkdir(mode=0o700, parents=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "tmpfs", str(place)]
    is_root = os.geteuid() == 0 and shutil.which("mount") is not None
    mounted = is_root and subprocess.run(command, capture_output=True).returncode == 0
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(place)], check=True)


def _reap(running: dict[int, tuple[str, float]], count: Counter[str]) -> None:
    """Count who has ended, end who is to be killed."""
    for child, (role, ends) in list(running.items()):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            del running[child]
            code = os.waitstatus_to_exitcode(status)
            word = {0: "ended", WRONG: "WRONG", FAILED: "FAILED", -signal.SIGKILL: "killed"}
            count[f"{role} {word.get(code, f'ended with {code}')}"] += 1
        elif time.monotonic() > ends:
            os.kill(child, signal.SIGKILL)
    time.sleep(0.001)


def is_well(count: Counter[str]) -> bool:
    """Say whether no read was wrong and nobody failed or hung."""
    bad = [word for word in count if "WRONG" in word or "FAILED" in word or "ended with" in word]
    may_be = ("killed killed", "corrupter killed")
    hung = [word for word in count if word.endswith(" killed") and word not in may_be]
    return not bad and not hung and count["worker hits"] > 0


def main() -> int:
    """Run from the command line; returns the exit status."""
    processes, seed = (int(word) for word in (*sys.argv[1:], *("1000", "1")[len(sys.argv) - 1 :]))
    with tempfile.TemporaryDirectory(prefix="hammer-") as name:
        Path(name).chmod(0o711)
        start = time.monotonic()
        count = hammer(processes, seed, Path(name) / "large")
        with small_disk(Path(name) / "small" / "cache", "300k") as is_small:
            if is_small:
                count += hammer(processes // 4, seed + 1, Path(name) / "small")
            else:
                sys.stdout.write("no small disk could be mounted: its quarter was left out\n")
    for word, number in sorted(count.items()):
        sys.stdout.write(f"{number:>8} {word}\n")
    wrong = sum(number for word, number in count.items() if "WRONG" in word)
    sys.stdout.write(
        f"{wrong} wrong reads, {processes} processes, {time.monotonic() - start:.0f} s\n"
    )
    return 0 if is_well(count) else 1


if __name__ == "__main__":
    sys.exit(main())
