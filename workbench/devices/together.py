"""Threads that run programs which wait for each other (flags, semaphores, barriers of a grid).

A pool (`pool.py`) has as many threads as there are cores, and a thread ends one program before it
takes the next: a program that waits for one that nobody has begun would wait for ever. A GPU holds
hundreds of programs at the same time. So here programs are taken one by one, in their order, and a
thread whose program waits long (`waited`, once per round of its loop) yields, and has another
thread started as long as there are programs that nobody has begun, up to `MOST_TOGETHER` at once.
A launch in which nobody waits long has the pool's number of threads.

Code finds its launch's crew, whose first word is the address of `waited`, by the word `CREW_AT`
bytes from its arguments. It is to be stopped like every launch (`stops.py`).
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

from workbench.devices import stops
from workbench.devices.linking import Linked, link
from workbench.devices.pool import own_scratch, pool
from workbench.interrupts import MadeOnce

#: Where the address of a launch's crew stands, in bytes from its arguments.
CREW_AT = stops.BLOCK_AT - 8
#: Programs of a launch that are under way at the same time: about as many as a large GPU holds.
MOST_TOGETHER = 1024
#: Rounds of waiting, of all programs together, after which another thread is started. One takes
#: half a microsecond on an idle machine. On a busy one whoever yields waits for other processes,
#: milliseconds each: a microsecond counts as a round, up to so many.
_PATIENCE = 128
_MOST_OF_ONE = _PATIENCE // 4
#: The clock that is never set.
_MONOTONIC = {"darwin": 6}.get(sys.platform, 1)

_TEXT = r"""
; waited, function, arguments, bytes of scratch, programs, next program, threads beside the caller's
; that are at work, the most of these, rounds of waiting, block
%crew = type { ptr, ptr, ptr, i64, i64, i64, i64, i64, i64, ptr }
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i32 @sched_yield()
declare i32 @usleep(i32)
declare i32 @clock_gettime(i32, ptr)
declare i64 @llvm.umin.i64(i64, i64)
declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)

define internal void @work(ptr %c, ptr %scratch) {
entry:
  %fn_at = getelementptr %crew, ptr %c, i64 0, i32 1
  %fn = load ptr, ptr %fn_at
  %args_at = getelementptr %crew, ptr %c, i64 0, i32 2
  %args = load ptr, ptr %args_at
  %total_at = getelementptr %crew, ptr %c, i64 0, i32 4
  %total = load i64, ptr %total_at
  %next_at = getelementptr %crew, ptr %c, i64 0, i32 5
  %block_at = getelementptr %crew, ptr %c, i64 0, i32 9
  %block = load ptr, ptr %block_at
  br label %again
again:
  %stop = load atomic i64, ptr %block monotonic, align 8
  %bit = and i64 %stop, 1
  %stopped = icmp ne i64 %bit, 0
  br i1 %stopped, label %out, label %take
take:
  %first = atomicrmw add ptr %next_at, i64 1 monotonic
  %none = icmp sge i64 %first, %total
  br i1 %none, label %out, label %run
run:
  %end = add i64 %first, 1
  call void %fn(ptr %args, ptr %scratch, i64 %first, i64 %end)
  br label %again
out:
  ret void
}

define internal ptr @helper(ptr %c) {
entry:
  %size_at = getelementptr %crew, ptr %c, i64 0, i32 3
  %size = load i64, ptr %size_at
  %scratch = call ptr @aligned_alloc(i64 4096, i64 %size)
  %none = icmp eq ptr %scratch, null
  br i1 %none, label %out, label %go
go:
  call void @work(ptr %c, ptr %scratch)
  call void @free(ptr %scratch)
  br label %out
out:
  %active_at = getelementptr %crew, ptr %c, i64 0, i32 6
  %old = atomicrmw sub ptr %active_at, i64 1 seq_cst
  ret ptr null
}

; Start one thread more, if there may be one.
define internal void @start(ptr %c) {
entry:
  %tid = alloca i64
  %active_at = getelementptr %crew, ptr %c, i64 0, i32 6
  %most_at = getelementptr %crew, ptr %c, i64 0, i32 7
  %most = load i64, ptr %most_at
  %active = load atomic i64, ptr %active_at seq_cst, align 8
  %full = icmp sge i64 %active, %most
  br i1 %full, label %out, label %try
try:
  %more = add i64 %active, 1
  %x = cmpxchg ptr %active_at, i64 %active, i64 %more seq_cst seq_cst
  %mine = extractvalue { i64, i1 } %x, 1
  br i1 %mine, label %create, label %out
create:
  %r = call i32 @pthread_create(ptr %tid, ptr null, ptr @helper, ptr %c)
  %made = icmp eq i32 %r, 0
  br i1 %made, label %detach, label %failed
detach:
  %t = load i64, ptr %tid
  %d = call i32 @pthread_detach(i64 %t)
  br label %out
failed:
  %old = atomicrmw sub ptr %active_at, i64 1 seq_cst
  br label %out
out:
  ret void
}

define internal i64 @now() {
  %t = alloca [2 x i64]
  %r = call i32 @clock_gettime(i32 MONOTONIC, ptr %t)
  %ns_at = getelementptr i64, ptr %t, i64 1
  %s = load i64, ptr %t
  %ns = load i64, ptr %ns_at
  %whole = mul i64 %s, 1000000000
  %sum = add i64 %whole, %ns
  ret i64 %sum
}

define void @waited(ptr %c) {
entry:
  %from = call i64 @now()
  %y = call i32 @sched_yield()
  %to = call i64 @now()
  %took = sub i64 %to, %from
  %micro = lshr i64 %took, 10
  %most_of_one = call i64 @llvm.umin.i64(i64 %micro, i64 OF_ONE)
  %counts = add i64 %most_of_one, 1
  %rounds_at = getelementptr %crew, ptr %c, i64 0, i32 8
  %rounds = atomicrmw add ptr %rounds_at, i64 %counts monotonic
  %long = icmp sge i64 %rounds, PATIENCE
  br i1 %long, label %look, label %out
look:
  %next_at = getelementptr %crew, ptr %c, i64 0, i32 5
  %next = load atomic i64, ptr %next_at monotonic, align 8
  %total_at = getelementptr %crew, ptr %c, i64 0, i32 4
  %total = load i64, ptr %total_at
  %left = icmp slt i64 %next, %total
  br i1 %left, label %start, label %out
start:
  store atomic i64 0, ptr %rounds_at monotonic, align 8
  call void @start(ptr %c)
  br label %out
out:
  ret void
}

define i32 @together(ptr %fn, ptr %args, ptr %scratch, i64 %size, i64 %total, i64 %extra) {
entry:
  %c = alloca %crew, align 64
  store %crew zeroinitializer, ptr %c
  store ptr @waited, ptr %c
  %fn_at = getelementptr %crew, ptr %c, i64 0, i32 1
  store ptr %fn, ptr %fn_at
  %args_at = getelementptr %crew, ptr %c, i64 0, i32 2
  store ptr %args, ptr %args_at
  %size_at = getelementptr %crew, ptr %c, i64 0, i32 3
  store i64 %size, ptr %size_at
  %total_at = getelementptr %crew, ptr %c, i64 0, i32 4
  store i64 %total, ptr %total_at
  %active_at = getelementptr %crew, ptr %c, i64 0, i32 6
  %most_at = getelementptr %crew, ptr %c, i64 0, i32 7
  store i64 MOST, ptr %most_at
  %crew_at = getelementptr i8, ptr %args, i64 CREW_AT
  store ptr %c, ptr %crew_at
  %block = call ptr TAKE(ptr %args)
  %block_at = getelementptr %crew, ptr %c, i64 0, i32 9
  store ptr %block, ptr %block_at
  br label %more
more:
  %n = phi i64 [ 0, %entry ], [ %n1, %one ]
  %enough = icmp sge i64 %n, %extra
  br i1 %enough, label %go, label %one
one:
  call void @start(ptr %c)
  %n1 = add i64 %n, 1
  br label %more
go:
  call void @work(ptr %c, ptr %scratch)
  br label %drain
drain:
  %active = load atomic i64, ptr %active_at seq_cst, align 8
  %over = icmp eq i64 %active, 0
  br i1 %over, label %done, label %wait
wait:
  %s = call i32 @usleep(i32 20)
  %stop = load atomic i64, ptr %block monotonic, align 8
  %look = icmp ne i64 %stop, 0
  br i1 %look, label %asked, label %drain
asked:
  %poll_at = getelementptr i64, ptr %block, i64 1
  %poll = load ptr, ptr %poll_at
  %said = call i32 %poll(ptr %block)
  br label %drain
done:
  %status = call i32 LEAVE(ptr %block)
  ret i32 %status
}
"""

_TOGETHER = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * 3
)


def run_together(function: int, arguments: Any, scratch: int, total: int) -> None:
    """Run programs 0 to total - 1, which may wait for each other; see `Pool.run`."""
    size = max(1, -(-scratch // 4096)) * 4096
    extra = min(pool().threads, total) - 1
    status = _code()[1](function, arguments, own_scratch(size), size, total, extra)
    if status == stops.RAISED:
        stops.raise_pending()


@MadeOnce
def _code() -> tuple[Linked, Any]:
    from workbench.targets.llvm.toolchain import baseline, object_code

    text = _TEXT.replace("PATIENCE", str(_PATIENCE)).replace("MOST", str(MOST_TOGETHER - 1))
    text = text.replace("OF_ONE", str(_MOST_OF_ONE)).replace("MONOTONIC", str(_MONOTONIC))
    text = text.replace("CREW_AT", str(CREW_AT))
    for word, name in (("TAKE", "take"), ("LEAVE", "leave")):
        text = text.replace(f"{word}(", f"inttoptr (i64 {stops.address(name)} to ptr)(")
    linked = link(object_code(text, baseline()), "together")
    return linked, _TOGETHER(linked.addresses["together"])


__all__ = ["CREW_AT", "MOST_TOGETHER", "run_together"]
