"""Host code: loads object files and runs grids on a pool of threads, all in compiled code.

The pool is one caller and its workers. Each thread drains its own share of the program ids, which
its caches know from the launch before, and then takes from the others'. A worker that has nothing
to do spins for half a millisecond and then sleeps on a futex; the caller never waits for one that
has not begun. A launch that finds the pool busy (another Python thread's), and one of a single
program, runs on its own thread alone. Nothing here holds the interpreter lock: a launch is one
foreign call. Threads do not survive a fork, so a child builds its own pool.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from workbench.runtime.binding import PACK_ERRORS, fitted
from workbench.runtime.launching import slots
from workbench.source import LaunchError

if TYPE_CHECKING:
    from workbench.runtime.compiled import CompiledKernel

#: Programs are handed out in chunks so that each thread takes about this many.
CHUNKS_PER_THREAD = 8

_POOL = r"""
%line = type { i64, [120 x i8] }
@generation = internal global %line zeroinitializer, align 128
@open = internal global %line zeroinitializer, align 128
@active = internal global %line zeroinitializer, align 128
@next = internal global [256 x %line] zeroinitializer, align 128
@ids = internal global i64 0
@sleepers = internal global %line zeroinitializer, align 128
@busy = internal global %line zeroinitializer, align 128
@job = internal global [6 x i64] zeroinitializer, align 64
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
  store ptr %fn, ptr @job
  store ptr %args, ptr getelementptr (i64, ptr @job, i64 1)
  store i64 %total, ptr getelementptr (i64, ptr @job, i64 2)
  store i64 %chunk, ptr getelementptr (i64, ptr @job, i64 3)
  store ptr %scratch, ptr getelementptr (i64, ptr @job, i64 4)
  store i64 %size, ptr getelementptr (i64, ptr @job, i64 5)
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
  %k = phi i64 [ 0, %go ], [ %k1, %wait ], [ 0, %yield ]
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
  br label %drain
done:
  store atomic i64 0, ptr @busy release, align 8
  ret i32 1
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

_PROGRAMS = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
_LAUNCH = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64,
    ctypes.c_int64, ctypes.c_int64,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Linked:
    """Code in memory: addresses by symbol; the code lives as long as this object."""

    addresses: dict[str, int]
    owner: Any


def link(image: bytes, *symbols: str) -> Linked:
    """Put an object file into memory and return where its symbols are."""
    import llvmlite.binding as llvm  # pyright: ignore[reportMissingImports]

    with _LOCK:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
            cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), jit=True
        )
        jit = llvm.create_lljit_compiler(machine)
        library = llvm.JITLibraryBuilder().add_object_img(image).add_current_process()
        for symbol in symbols:
            library.export_symbol(symbol)
        tracker = library.link(jit, f"kernel{next(_NUMBERS)}")
        return Linked({symbol: tracker[symbol] for symbol in symbols}, (jit, tracker, machine))


_LOCK = threading.Lock()
_NUMBERS = iter(range(1 << 62))


class Pool:
    """The caller and `extra` threads; see the top of this file."""

    def __init__(self, extra: int) -> None:
        self.threads = 1
        self._scratch = Scratch()
        self._lock = threading.Lock()
        self._linked: Linked | None = None
        if extra > 0 and (text := _pool_text()) is not None:
            from workbench.targets.llvm.toolchain import Machine, host, object_code

            triple, processor, features = host()
            image = object_code(text, Machine(triple, processor, features, 2, True))
            self._linked = link(image, "launch", "start", "workers", "spin")
            addresses = self._linked.addresses
            self._launch = _LAUNCH(addresses["launch"])
            start = ctypes.CFUNCTYPE(None)(addresses["start"])
            for _ in range(extra):
                start()
            self.threads += extra

    def run(
        self, function: int, direct: Callable[..., None], arguments: Any, scratch: int, total: int
    ) -> None:
        """Run programs 0 to total - 1; `scratch` is what one thread needs."""
        if total > 1 and self._linked is not None:
            size = -(-scratch // 4096) * 4096
            with self._lock:
                memory = self._scratch.at_least(size * self.threads)
            chunk = max(1, total // (self.threads * CHUNKS_PER_THREAD))
            if self._launch(function, arguments, memory, size, total, chunk):
                return
        direct(arguments, own_scratch(scratch), 0, total)


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
    return text.replace("FUTEX", futex)


def thread_count() -> int:
    """Return how many threads a launch uses: WORKBENCH_NUM_THREADS, else the cores we may use."""
    wanted = os.environ.get("WORKBENCH_NUM_THREADS", "")
    if wanted.isdigit() and int(wanted) > 0:
        return min(int(wanted), 256)
    return min(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1, 256)


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
    global _pool, _POOL_LOCK
    _pool, _POOL_LOCK = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)
_POOL_LOCK = threading.Lock()


def set_num_threads(count: int) -> None:
    """Let launches on the CPU use `count` threads from now on (1: the caller's alone)."""
    global _pool, _wanted
    if count < 1:
        raise ValueError(f"count is {count}; a launch needs at least one thread")
    with _POOL_LOCK:
        _wanted = count
        if _pool is None or _pool.threads != count:
            # Idle workers of the old pool sleep for good: they cannot be ended from outside.
            _pool = Pool(count - 1)


def load(kernel: CompiledKernel) -> Callable[..., CompiledKernel]:
    """Return the runner of a kernel: `run(x, y, z, stream, *values)`."""
    launch = kernel.launch
    runner = make_runner(
        kernel.code, launch.symbol, int(launch.extra["scratch_bytes"]), slots(kernel).format,
        prints=bool(launch.extra.get("prints")), asserts=launch.extra.get("asserts"),
    )  # fmt: skip

    def run(x: int, y: int, z: int, stream: Any, *values: Any) -> CompiledKernel:
        number = runner(x, y, z, *values)
        if number is not None:
            raise _failed(kernel, number)
        return kernel

    return run


def _failed(kernel: CompiledKernel, number: int) -> LaunchError:
    """Return the error for an assertion, found by its op's number in the tile IR."""
    from workbench.ops import DeviceAssert

    op = next((op for op in kernel.module.walk() if op.id == number), None)
    words = f": {op.message}" if isinstance(op, DeviceAssert) and op.message else ""
    return AssertionFailedError(
        f"assertion failed in {kernel.name}{words}",
        op.span if op is not None else None,
        hint="kernel.interpret[grid](...) says in which program and at which element",
    )


class AssertionFailedError(LaunchError, RuntimeError):
    """A `device_assert` that does not hold (a RuntimeError, as devices give)."""

    code = "K510"


def make_runner(
    image: bytes,
    symbol: str,
    scratch_bytes: int,
    form: str,
    *,
    prints: bool = False,
    asserts: str | None = None,
) -> Callable[..., int | None]:
    """Return `run(x, y, z, *values)` of an object file; `form` packs the values (struct).

    It returns the number of an assertion that failed; `asserts` is the variable that holds it.
    """
    linked = link(image, symbol, *([asserts] if asserts else []))
    failure = ctypes.c_int64.from_address(linked.addresses[asserts]) if asserts else None
    function = linked.addresses[symbol]
    direct = _PROGRAMS(function)
    pack_into = struct.Struct(form + "qqq").pack_into
    size = struct.calcsize(form + "qqq")
    free: list[tuple[Any, int]] = []  # argument buffers that no launch is using

    def run(x: int, y: int, z: int, *values: Any) -> int | None:
        try:
            arguments = free.pop()
        except IndexError:
            buffer = ctypes.create_string_buffer(size)
            arguments = (buffer, ctypes.addressof(buffer))
        try:
            pack_into(arguments[0], 0, *values, x, y, z)
        except PACK_ERRORS:
            pack_into(arguments[0], 0, *fitted(form, values), x, y, z)
        total = x * y * z
        if total > 1:
            (_pool or pool()).run(function, direct, arguments[1], scratch_bytes, total)
        else:
            direct(arguments[1], own_scratch(scratch_bytes), 0, total)
        free.append(arguments)
        if prints:
            sys.stdout.flush()
            _libc().fflush(None)
        if failure is not None and failure.value:
            number, failure.value = failure.value - 1, 0
            return number
        return None

    run.linked = linked  # type: ignore[attr-defined]  # the code lives as long as its runner
    return run


@lru_cache(1)
def _libc() -> Any:
    return ctypes.CDLL(None)
