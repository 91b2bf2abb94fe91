"""Threads that run grids, all in compiled code.

The pool is one caller and its workers. Each thread drains its own share of the program ids, which
its caches know from the launch before, and then takes from the others'. A worker that has nothing
to do spins for half a millisecond and then sleeps on a futex; the caller never waits for one that
has not begun. A launch that finds the pool busy (another Python thread's), and one of a single
program, runs on its own thread alone. Nothing here holds the interpreter lock: a launch is one
foreign call. Threads do not survive a fork, so a child builds its own pool.

Programs that may wait for each other are started by `together.py`.

Launchers in native code call `start`, which takes what `cuLaunchKernel` takes. It reads the pool
from a *cell* that Python fills; where the cell is empty or its memory too small it starts nothing,
and the launch comes back to Python.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import threading
from collections.abc import Sequence
from typing import Any

from workbench.devices import stops
from workbench.devices.linking import Linked, link
from workbench.interrupts import MadeOnce, renewed_lock
from workbench.source.given import from_environment

#: Programs are handed out in chunks so that each thread takes about this many.
CHUNKS_PER_THREAD = 8
#: Threads that a pool may have.
MOST_THREADS = 256

_POOL = r"""
%line = type { i64, [120 x i8] }
@generation = internal global %line zeroinitializer, align 128
@open = internal global %line zeroinitializer, align 128
@active = internal global %line zeroinitializer, align 128
@next = internal global [MOST_THREADS x %line] zeroinitializer, align 128
@ids = internal global i64 0
@sleepers = internal global %line zeroinitializer, align 128
@busy = internal global %line zeroinitializer, align 128
@job = internal global [7 x i64] zeroinitializer, align 64
@spin = global i64 20000
@workers = global i64 0
declare i64 @syscall(i64, ...)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @sched_yield()
declare i64 @llvm.smin.i64(i64, i64)
PAUSE_DECLARATION

define internal void @claim(i64 %me) {
entry:
  %fn = load ptr, ptr @job
  %args = load ptr, ptr getelementptr (i64, ptr @job, i64 1)
  %total = load i64, ptr getelementptr (i64, ptr @job, i64 2)
  %chunk = load i64, ptr getelementptr (i64, ptr @job, i64 3)
  %base = load ptr, ptr getelementptr (i64, ptr @job, i64 4)
  %size = load i64, ptr getelementptr (i64, ptr @job, i64 5)
  %block = load ptr, ptr getelementptr (i64, ptr @job, i64 6)
  %skip = mul i64 %me, %size
  %scratch = getelementptr i8, ptr %base, i64 %skip
  %w = load i64, ptr @workers
  %all = add i64 %w, 1
  br label %share
share:
  %r = phi i64 [ 0, %entry ], [ %r1, %over ]
  %m = add i64 %me, %r
  %v = urem i64 %m, %all
  %v1 = add i64 %v, 1
  %p = mul i64 %total, %v
  %q = mul i64 %total, %v1
  %lo = udiv i64 %p, %all
  %hi = udiv i64 %q, %all
  %counter = getelementptr %line, ptr @next, i64 %v
  br label %again
again:
  %stop = load atomic i64, ptr %block monotonic, align 8
  %bit = and i64 %stop, 1
  %stopped = icmp ne i64 %bit, 0
  br i1 %stopped, label %out, label %take
take:
  %c = atomicrmw add ptr %counter, i64 %chunk monotonic
  %first = add i64 %lo, %c
  %none = icmp sge i64 %first, %hi
  br i1 %none, label %over, label %run
run:
  %past = add i64 %first, %chunk
  %end = call i64 @llvm.smin.i64(i64 %past, i64 %hi)
  call void %fn(ptr %args, ptr %scratch, i64 %first, i64 %end)
  br label %again
over:
  %r1 = add i64 %r, 1
  %more = icmp slt i64 %r1, %all
  br i1 %more, label %share, label %out
out:
  ret void
}

define ptr @worker(ptr %unused) {
entry:
  %id0 = atomicrmw add ptr @ids, i64 1 monotonic
  %me = add i64 %id0, 1
  br label %idle
idle:
  %seen = phi i32 [ 0, %entry ], [ %now, %leave ]
  br label %look
look:
  %i = phi i64 [ 0, %idle ], [ %i1, %rest ]
  %g = load atomic i32, ptr @generation acquire, align 4
  %new = icmp ne i32 %g, %seen
  br i1 %new, label %enter, label %rest
rest:
  PAUSE
  %i1 = add i64 %i, 1
  %limit = load i64, ptr @spin
  %tired = icmp sge i64 %i1, %limit
  br i1 %tired, label %sleep, label %look
sleep:
  %s0 = atomicrmw add ptr @sleepers, i64 1 seq_cst
  %s1 = call i64 (i64, ...) @syscall(i64 FUTEX, ptr @generation, i32 128, i32 %seen, ptr null)
  %s2 = atomicrmw sub ptr @sleepers, i64 1 seq_cst
  %g1 = load atomic i32, ptr @generation acquire, align 4
  %same = icmp eq i32 %g1, %seen
  br i1 %same, label %sleep, label %enter
enter:
  %now = phi i32 [ %g, %look ], [ %g1, %sleep ]
  %a0 = atomicrmw add ptr @active, i64 1 seq_cst
  %o = load atomic i32, ptr @open seq_cst, align 4
  %is = icmp ne i32 %o, 0
  br i1 %is, label %work, label %leave
work:
  call void @claim(i64 %me)
  br label %leave
leave:
  %a1 = atomicrmw sub ptr @active, i64 1 seq_cst
  br label %idle
}

define i32 @launch(ptr %fn, ptr %args, ptr %scratch, i64 %size, i64 %total, i64 %chunk) {
entry:
  %w = load i64, ptr @workers
  %none = icmp eq i64 %w, 0
  br i1 %none, label %no, label %try
try:
  %x = cmpxchg ptr @busy, i64 0, i64 1 seq_cst seq_cst
  %mine = extractvalue { i64, i1 } %x, 1
  br i1 %mine, label %post, label %no
no:
  ret i32 0
post:
  %block = call ptr TAKE(ptr %args)
  store ptr %fn, ptr @job
  store ptr %args, ptr getelementptr (i64, ptr @job, i64 1)
  store i64 %total, ptr getelementptr (i64, ptr @job, i64 2)
  store i64 %chunk, ptr getelementptr (i64, ptr @job, i64 3)
  store ptr %scratch, ptr getelementptr (i64, ptr @job, i64 4)
  store i64 %size, ptr getelementptr (i64, ptr @job, i64 5)
  store ptr %block, ptr getelementptr (i64, ptr @job, i64 6)
  br label %reset
reset:
  %n = phi i64 [ 0, %post ], [ %n1, %reset ]
  %counter = getelementptr %line, ptr @next, i64 %n
  store atomic i64 0, ptr %counter monotonic, align 8
  %n1 = add i64 %n, 1
  %less = icmp sle i64 %n1, %w
  br i1 %less, label %reset, label %ready
ready:
  store atomic i32 1, ptr @open seq_cst, align 4
  %g = atomicrmw add ptr @generation, i32 1 seq_cst
  %s = load atomic i64, ptr @sleepers seq_cst, align 8
  %any = icmp ne i64 %s, 0
  br i1 %any, label %wake, label %go
wake:
  %wk = call i64 (i64, ...) @syscall(i64 FUTEX, ptr @generation, i32 129, i32 2147483647)
  br label %go
go:
  call void @claim(i64 0)
  store atomic i32 0, ptr @open seq_cst, align 4
  br label %drain
drain:
  %k = phi i64 [ 0, %go ], [ %k1, %wait ], [ 0, %rested ], [ 0, %asked ]
  %a = load atomic i64, ptr @active seq_cst, align 8
  %z = icmp eq i64 %a, 0
  br i1 %z, label %done, label %wait
wait:
  PAUSE
  %k1 = add i64 %k, 1
  %long = icmp sgt i64 %k1, 4096
  br i1 %long, label %yield, label %drain
yield:
  %y = call i32 @sched_yield()
  br label %rested
rested:
  %stop = load atomic i64, ptr %block monotonic, align 8
  %look = icmp ne i64 %stop, 0
  br i1 %look, label %asked, label %drain
asked:
  %poll_at = getelementptr i64, ptr %block, i64 1
  %poll = load ptr, ptr %poll_at
  %said = call i32 %poll(ptr %block)
  br label %drain
done:
  store atomic i64 0, ptr @busy release, align 8
  %status = call i32 LEAVE(ptr %block)
  ret i32 %status
}

define void @start() {
  %tid = alloca i64
  %r = call i32 @pthread_create(ptr %tid, ptr null, ptr @worker, ptr null)
  %n = atomicrmw add ptr @workers, i64 1 seq_cst
  ret void
}
"""

#: (architecture of the triple, pause instruction, its declaration, number of the futex call)
_MACHINES = {
    "x86_64": (
        "call void @llvm.x86.sse2.pause()", "declare void @llvm.x86.sse2.pause()", "202",
    ),
    "aarch64": (
        "call void @llvm.aarch64.hint(i32 1)", "declare void @llvm.aarch64.hint(i32)", "98",
    ),
}  # fmt: skip

_LAUNCH = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64,
    ctypes.c_int64, ctypes.c_int64,
)  # fmt: skip


#: Scratch memory up to this many bytes is taken from the stack of a thread that runs alone.
STACK_BYTES = 1 << 16

#: `start`: the code is (function, bytes of scratch, bytes of arguments, how many), then the offset
#: and the words of eight bytes of each argument. The cell holds the address of (launch, memory of
#: the threads, bytes of it, threads), or 0.
_START = r"""
define i32 @start(ptr %code, i32 %x, i32 %y, i32 %z, i32 %t0, i32 %t1, i32 %t2, i32 %shared,
                  ptr %stream, ptr %pointers, ptr %extra) {
entry:
  %function = load ptr, ptr %code
  %scratch_at = getelementptr i64, ptr %code, i64 1
  %scratch = load i64, ptr %scratch_at
  %bytes_at = getelementptr i64, ptr %code, i64 2
  %bytes = load i64, ptr %bytes_at
  %count_at = getelementptr i64, ptr %code, i64 3
  %count = load i64, ptr %count_at
  %places = getelementptr i64, ptr %code, i64 4
  %room = add i64 %bytes, 152
  %memory0 = alloca i8, i64 %room, align 128
  %args = getelementptr i8, ptr %memory0, i64 128
  br label %each
each:
  %n = phi i64 [ 0, %entry ], [ %n1, %copied ]
  %more = icmp slt i64 %n, %count
  br i1 %more, label %one, label %grid
one:
  %two = mul i64 %n, 2
  %offset_at = getelementptr i64, ptr %places, i64 %two
  %offset = load i64, ptr %offset_at
  %words_at = getelementptr i64, ptr %offset_at, i64 1
  %words = load i64, ptr %words_at
  %source_at = getelementptr ptr, ptr %pointers, i64 %n
  %source = load ptr, ptr %source_at
  %target = getelementptr i8, ptr %args, i64 %offset
  br label %word
word:
  %w = phi i64 [ 0, %one ], [ %w1, %word ]
  %from = getelementptr i64, ptr %source, i64 %w
  %value = load i64, ptr %from
  %to = getelementptr i64, ptr %target, i64 %w
  store i64 %value, ptr %to
  %w1 = add i64 %w, 1
  %again = icmp slt i64 %w1, %words
  br i1 %again, label %word, label %copied
copied:
  %n1 = add i64 %n, 1
  br label %each
grid:
  %end = getelementptr i8, ptr %args, i64 %bytes
  %x64 = zext i32 %x to i64
  %y64 = zext i32 %y to i64
  %z64 = zext i32 %z to i64
  store i64 %x64, ptr %end
  %y_at = getelementptr i64, ptr %end, i64 1
  store i64 %y64, ptr %y_at
  %z_at = getelementptr i64, ptr %end, i64 2
  store i64 %z64, ptr %z_at
  %xy = mul i64 %x64, %y64
  %total = mul i64 %xy, %z64
  %single = icmp sle i64 %total, 1
  br i1 %single, label %alone, label %ask
ask:
  %pool = load atomic ptr, ptr CELL acquire, align 8
  %none = icmp eq ptr %pool, null
  br i1 %none, label %no, label %have
have:
  %launch = load ptr, ptr %pool
  %without = icmp eq ptr %launch, null
  br i1 %without, label %alone, label %many
many:
  %memory_at = getelementptr i64, ptr %pool, i64 1
  %memory = load ptr, ptr %memory_at
  %held_at = getelementptr i64, ptr %pool, i64 2
  %held = load i64, ptr %held_at
  %threads_at = getelementptr i64, ptr %pool, i64 3
  %threads = load i64, ptr %threads_at
  %up = add i64 %scratch, 4095
  %size = and i64 %up, -4096
  %needed = mul i64 %size, %threads
  %enough = icmp sle i64 %needed, %held
  br i1 %enough, label %post, label %no
post:
  %chunks = mul i64 %threads, CHUNKS
  %share = udiv i64 %total, %chunks
  %chunk = call i64 @llvm.smax.i64(i64 %share, i64 1)
  %done = call i32 %launch(ptr %function, ptr %args, ptr %memory, i64 %size, i64 %total, i64 %chunk)
  %ran = icmp ne i32 %done, 0
  br i1 %ran, label %over, label %alone
alone:
  %small = icmp sle i64 %scratch, STACK
  br i1 %small, label %own, label %no
own:
  %mine = alloca i8, i64 %scratch, align 64
  %own_done = call i32 ALONE(ptr %function, ptr %args, ptr %mine, i64 %total)
  br label %over
over:
  %status = phi i32 [ %done, %post ], [ %own_done, %own ]
  %wrong = icmp eq i32 %status, RAISED
  %result = select i1 %wrong, i32 INTERRUPTED, i32 0
  ret i32 %result
no:
  ret i32 1
}
declare i64 @llvm.smax.i64(i64, i64)
"""


class Pool:
    """The caller and `extra` threads; see the top of this file."""

    def __init__(self, extra: int) -> None:
        self.threads = 1
        self._scratch = Scratch()
        self._lock = renewed_lock()  # reentrant: a finalizer may launch while one is held
        self._linked: Linked | None = None
        self._shown = -1
        self._records: list[Any] = _RECORDS
        self._alone = stops.run_alone()
        if extra > 0 and (text := _pool_text()) is not None:
            from workbench.targets.llvm.toolchain import baseline, object_code

            image = object_code(text, baseline())
            self._linked = link(image, "launch", "start", "workers", "spin")
            addresses = self._linked.addresses
            self._launch = _LAUNCH(addresses["launch"])
            start = ctypes.CFUNCTYPE(None)(addresses["start"])
            for _ in range(extra):
                start()
            self.threads += extra

    def run(self, function: int, arguments: Any, scratch: int, total: int) -> None:
        """Run programs 0 to total - 1; `scratch` is what one thread needs.

        Raises what a handler of a signal raises meanwhile; then some programs have not run.
        """
        status = 0
        if total > 1 and self._linked is not None:
            size = -(-scratch // 4096) * 4096
            with self._lock:
                memory = self._scratch.at_least(size * self.threads)
                if self._scratch.size != self._shown:
                    self._show()
            chunk = max(1, total // (self.threads * CHUNKS_PER_THREAD))
            status = self._launch(function, arguments, memory, size, total, chunk)
        elif total > 1 and self._shown < 0:
            self._show()
        if not status:
            status = self._alone(function, arguments, own_scratch(scratch), total)
        if status == stops.RAISED:
            stops.raise_pending()

    def _show(self) -> None:
        """Let `start` know of this pool; what it reads is never changed, only replaced."""
        self._shown = self._scratch.size
        launch = self._linked.addresses["launch"] if self._linked is not None else 0
        known = (launch, self._scratch.address, self._scratch.size, self.threads)
        self._records.append((ctypes.c_int64 * 4)(*known))
        if _pool is self:
            _CELL.value = ctypes.addressof(self._records[-1])


class Scratch:
    """Memory that only grows, aligned to pages; what it was before stays valid."""

    def __init__(self) -> None:
        self._kept: list[mmap.mmap] = []
        self.size = 0
        self.address = 0

    def at_least(self, size: int) -> int:
        """Return the address of that many bytes."""
        if size > self.size:
            wanted = max(1 << 20, 1 << (size - 1).bit_length())
            memory = _private(wanted)
            self._kept.append(memory)
            self.address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
            self.size = wanted
        return self.address


def _private(size: int) -> mmap.mmap:
    """Return fresh memory that a fork copies instead of sharing."""
    if hasattr(mmap, "MAP_PRIVATE"):
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return mmap.mmap(-1, size)


_OWN = threading.local()


def own_scratch(size: int) -> int:
    """Return scratch memory of the calling Python thread."""
    scratch: Scratch | None = getattr(_OWN, "scratch", None)
    if scratch is None:
        scratch = _OWN.scratch = Scratch()
    return scratch.at_least(size)


def _pool_text() -> str | None:
    from workbench.targets.llvm.toolchain import host

    if not sys.platform.startswith("linux"):  # sleeping is by futex
        return None
    found = _MACHINES.get(host()[0].split("-")[0])
    if found is None:
        return None
    pause, declaration, futex = found
    text = _POOL.replace("PAUSE_DECLARATION", declaration).replace("PAUSE", pause)
    text = text.replace("MOST_THREADS", str(MOST_THREADS))
    for word, name in (("TAKE", "take"), ("LEAVE", "leave")):
        text = text.replace(f"{word}(", f"inttoptr (i64 {stops.address(name)} to ptr)(")
    return text.replace("FUTEX", futex)


def thread_count() -> int:
    """Return how many threads a launch uses: WORKBENCH_NUM_THREADS, else the cores we may use."""
    wanted = from_environment("WORKBENCH_NUM_THREADS", 1)
    if wanted is not None:
        return min(wanted, MOST_THREADS)
    there = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    return min(there, MOST_THREADS)


#: What `start` has been shown, for good: a launch may still be reading it.
_RECORDS: list[Any] = []

_pool: Pool | None = None
_wanted: int | None = None


def pool() -> Pool:
    """Return the pool of this process; a child of a fork gets its own."""
    global _pool
    with _POOL_LOCK:
        if _pool is None:
            _pool = Pool((_wanted or thread_count()) - 1)
        return _pool


def _forget_pool() -> None:
    global _pool
    _CELL.value = 0
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)
_POOL_LOCK = renewed_lock()


def set_num_threads(count: int) -> None:
    """Let launches on the CPU use `count` threads from now on (1: the caller's alone)."""
    global _pool, _wanted
    if not 1 <= count <= MOST_THREADS:
        raise ValueError(f"count is {count}; a launch takes 1 to {MOST_THREADS} threads")
    with _POOL_LOCK:
        _wanted = count
        if _pool is None or _pool.threads != count:
            # Idle workers of the old pool sleep for good: they cannot be ended from outside.
            _CELL.value = 0
            _pool = Pool(count - 1)


#: Holds the address of what `start` knows of the pool; emptied where a child of a fork begins.
_CELL = ctypes.c_int64(0)


@MadeOnce
def start_address() -> int:
    """Return where `start` lies in memory; made at its first use."""
    from workbench.targets.llvm.toolchain import baseline, object_code

    text = _START.replace("CELL", f"inttoptr (i64 {ctypes.addressof(_CELL)} to ptr)")
    text = text.replace("ALONE(", f"inttoptr (i64 {stops.address('alone')} to ptr)(")
    text = text.replace("CHUNKS", str(CHUNKS_PER_THREAD)).replace("STACK", str(STACK_BYTES))
    text = text.replace("RAISED", str(stops.RAISED))
    text = text.replace("INTERRUPTED", str(stops.INTERRUPTED))
    linked = link(object_code(text, baseline()), "start")
    _KEPT.append(linked)
    return linked.addresses["start"]


_KEPT: list[Any] = []


class Startable:
    """A function as launchers in native code start it."""

    threads = 1
    shared_bytes = 0
    most_blocks = most_taken = 0
    cluster = 1

    def __init__(
        self,
        function: int,
        scratch_bytes: int,
        places: Sequence[tuple[int, int]],
        made: Sequence[Any] = (),
    ) -> None:
        """Take the places (offset, bytes) of the arguments; both are multiples of 8.

        `made` says how launchers make them, where they are not values one by one.
        """
        self.made = made
        end = max((offset + size for offset, size in places), default=0)
        words = [function, scratch_bytes, end, len(places)]
        words += [word for offset, size in places for word in (offset, size // 8)]
        self._words = (ctypes.c_int64 * len(words))(*words)
        self.handle = ctypes.addressof(self._words)

    @property
    def launch(self) -> int:
        """The address of the function that starts it."""
        return start_address()
