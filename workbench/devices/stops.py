"""What lets a launch on the CPU be stopped: its block, who looks at it, and who asks Python.

Each launch has a block of 128 bytes while it runs. Its address stands in the word before the
launch's arguments (`BLOCK_AT`), where code finds it.

| word | meaning |
|---|---|
| 0 `stop` | 0: go on; bit 0: programs end where they are; bit 1: who launched shall ask Python |
| 1 `poll` | address of `i32 poll(ptr block)`, which asks; 0: go on |
| 2, 3, 4 | the thread that launched; whether the block is in use; whether Python raised something |
| 5 to 15 | free |

Code looks at `stop` before each program and once per round of loops that may be long, and calls
`poll` where it is not 0. A thread of the system, the *ticker*, sets bit 1 of all blocks in use
twenty times a second, and sleeps when there have been none for a second. `poll` does nothing but on
Python's main thread, where it takes the interpreter lock and lets Python handle its signals; what a
handler raises (KeyboardInterrupt) is kept, sets bit 0, and is raised where the launch returns.

A child of a fork has no ticker: it makes its own at its first launch.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from workbench.devices.linking import link
from workbench.interrupts import MadeOnce

#: Where the address of a launch's block stands, in bytes from its arguments.
BLOCK_AT = -8
#: Bytes that memory for arguments has before them; keeps their alignment.
PREFIX_BYTES = 128
#: What `start` of pool.py answers where Python has raised something.
INTERRUPTED = 0x7FFF0001
#: What `leave` and those that call it answer then; else 1.
RAISED = 2
#: How often who ends launches after some time looks at them.
_LOOK_SECONDS = 0.1
#: Launches that can be stopped at the same time; others run to their end.
_BLOCKS = 64

_TEXT = r"""
%block = type { i64, i64, i64, i64, i64, [88 x i8] }
@blocks = global [COUNT x %block] zeroinitializer, align 128
@blind = internal global %block { i64 0, i64 ptrtoint (ptr @poll to i64), i64 0, i64 1, i64 0,
                                  [88 x i8] zeroinitializer }, align 128
@asleep = global i32 2, align 128 ; 0: the ticker is awake, 1: it sleeps, 2: there is none
@main = global i64 0
@raised = global [3 x ptr] zeroinitializer
declare i64 @pthread_self()
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @usleep(i32)
declare i64 @syscall(i64, ...)

define i32 @poll(ptr %b) {
entry:
  %s = load atomic i64, ptr %b monotonic, align 8
  %ends = and i64 %s, 1
  %ended = icmp ne i64 %ends, 0
  br i1 %ended, label %yes, label %asked
asked:
  %look = and i64 %s, 2
  %none = icmp eq i64 %look, 0
  br i1 %none, label %no, label %whose
whose:
  %owner_at = getelementptr i64, ptr %b, i64 2
  %owner = load i64, ptr %owner_at
  %me = call i64 @pthread_self()
  %mine = icmp eq i64 %owner, %me
  br i1 %mine, label %clear, label %no
clear:
  %old = atomicrmw and ptr %b, i64 -3 monotonic
  %main = load i64, ptr @main
  %is_main = icmp eq i64 %main, %me
  br i1 %is_main, label %ask, label %no
ask:
  %state = call i32 ENSURE()
  %answer = call i32 CHECK()
  %fine = icmp eq i32 %answer, 0
  br i1 %fine, label %go_on, label %stop
go_on:
  call void RELEASE(i32 %state)
  %now = load atomic i64, ptr %b monotonic, align 8
  %now_ends = and i64 %now, 1
  %over = icmp ne i64 %now_ends, 0
  br i1 %over, label %yes, label %no
stop:
  call void FETCH(ptr @raised, ptr getelementptr (ptr, ptr @raised, i64 1),
                  ptr getelementptr (ptr, ptr @raised, i64 2))
  call void RELEASE(i32 %state)
  %raised_at = getelementptr i64, ptr %b, i64 4
  store i64 1, ptr %raised_at
  %was = atomicrmw or ptr %b, i64 1 monotonic
  br label %yes
yes:
  ret i32 1
no:
  ret i32 0
}

define ptr @take(ptr %args) {
entry:
  br label %next
next:
  %n = phi i64 [ 0, %entry ], [ %n1, %used ]
  %b = getelementptr %block, ptr @blocks, i64 %n
  %used_at = getelementptr i64, ptr %b, i64 3
  %x = cmpxchg ptr %used_at, i64 0, i64 1 seq_cst monotonic
  %got = extractvalue { i64, i1 } %x, 1
  br i1 %got, label %mine, label %used
used:
  %n1 = add i64 %n, 1
  %more = icmp slt i64 %n1, COUNT
  br i1 %more, label %next, label %without
mine:
  store atomic i64 0, ptr %b monotonic, align 8
  %poll_at = getelementptr i64, ptr %b, i64 1
  store ptr @poll, ptr %poll_at
  %me = call i64 @pthread_self()
  %owner_at = getelementptr i64, ptr %b, i64 2
  store i64 %me, ptr %owner_at
  %raised_at = getelementptr i64, ptr %b, i64 4
  store i64 0, ptr %raised_at
  %sleeps = load atomic i32, ptr @asleep seq_cst, align 4
  %any = icmp ne i32 %sleeps, 0
  br i1 %any, label %wake, label %done
wake:
  %state = atomicrmw xchg ptr @asleep, i32 0 seq_cst
  switch i32 %state, label %done [ i32 1, label %ring i32 2, label %make ]
ring:
  WAKE
  br label %done
make:
  %tid = alloca i64
  %made = call i32 @pthread_create(ptr %tid, ptr null, ptr @ticker, ptr null)
  br label %done
without:
  br label %done
done:
  %found = phi ptr [ %b, %mine ], [ %b, %wake ], [ %b, %ring ], [ %b, %make ], [ @blind, %without ]
  %at = getelementptr i8, ptr %args, i64 BLOCK_AT
  store ptr %found, ptr %at
  ret ptr %found
}

define i32 @leave(ptr %b) {
  %raised_at = getelementptr i64, ptr %b, i64 4
  %raised = load i64, ptr %raised_at
  %used_at = getelementptr i64, ptr %b, i64 3
  store atomic i64 0, ptr %used_at release, align 8
  %any = icmp ne i64 %raised, 0
  %status = select i1 %any, i32 RAISED, i32 1
  ret i32 %status
}

define i32 @alone(ptr %function, ptr %args, ptr %scratch, i64 %total) {
  %b = call ptr @take(ptr %args)
  call void %function(ptr %args, ptr %scratch, i64 0, i64 %total)
  %status = call i32 @leave(ptr %b)
  ret i32 %status
}

define ptr @ticker(ptr %unused) {
entry:
  br label %awake
awake:
  br label %tick
tick:
  %idle = phi i32 [ 0, %awake ], [ %idle1, %over ]
  %slept = call i32 @usleep(i32 50000)
  br label %each
each:
  %n = phi i64 [ 0, %tick ], [ %n1, %counted ]
  %some = phi i32 [ 0, %tick ], [ %some1, %counted ]
  %b = getelementptr %block, ptr @blocks, i64 %n
  %used_at = getelementptr i64, ptr %b, i64 3
  %used = load atomic i64, ptr %used_at seq_cst, align 8
  %is = icmp ne i64 %used, 0
  br i1 %is, label %set, label %counted
set:
  %old = atomicrmw or ptr %b, i64 2 monotonic
  br label %counted
counted:
  %some1 = phi i32 [ %some, %each ], [ 1, %set ]
  %n1 = add i64 %n, 1
  %more = icmp slt i64 %n1, COUNT
  br i1 %more, label %each, label %over
over:
  %busy = icmp ne i32 %some1, 0
  %up = add i32 %idle, 1
  %idle1 = select i1 %busy, i32 0, i32 %up
  %tired = icmp sge i32 %idle1, 20
  br i1 %tired, label %sleep, label %tick
sleep:
  SLEEP
  br label %awake
}
"""
#: Sleeping on a futex, by architecture of the triple: the number of the call.
_FUTEX = {"x86_64": 202, "aarch64": 98}
_WAKE = "%wk = call i64 (i64, ...) @syscall(i64 FUTEX, ptr @asleep, i32 129, i32 1)"
_SLEEP = """store atomic i32 1, ptr @asleep seq_cst, align 4
  br label %recheck
recheck:
  %rn = phi i64 [ 0, %sleep ], [ %rn1, %unused_block ]
  %rb = getelementptr %block, ptr @blocks, i64 %rn
  %rused_at = getelementptr i64, ptr %rb, i64 3
  %rused = load atomic i64, ptr %rused_at seq_cst, align 8
  %ris = icmp ne i64 %rused, 0
  br i1 %ris, label %stay, label %unused_block
stay:
  store atomic i32 0, ptr @asleep seq_cst, align 4
  br label %awake
unused_block:
  %rn1 = add i64 %rn, 1
  %rmore = icmp slt i64 %rn1, COUNT
  br i1 %rmore, label %recheck, label %lie
lie:
  %s1 = call i64 (i64, ...) @syscall(i64 FUTEX, ptr @asleep, i32 128, i32 1, ptr null)
  %still = load atomic i32, ptr @asleep seq_cst, align 4
  %asleep_still = icmp ne i32 %still, 0
  br i1 %asleep_still, label %lie, label %woken
woken:"""


class _Stops:
    """The code of this file in memory."""

    def __init__(self) -> None:
        from workbench.targets.llvm.toolchain import baseline, object_code

        machine = baseline()
        self.linked = link(
            object_code(_text(machine.triple), machine),
            *("blocks", "asleep", "main", "raised", "take", "leave", "alone"),
        )
        found = self.addresses = self.linked.addresses
        self._main = ctypes.c_int64.from_address(found["main"])
        self.raised = (ctypes.c_void_p * 3).from_address(found["raised"])
        self.words = (ctypes.c_int64 * (16 * _BLOCKS)).from_address(found["blocks"])
        self._asleep = ctypes.c_int32.from_address(found["asleep"])
        run = ctypes.CFUNCTYPE(
            ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64
        )
        self.alone = run(found["alone"])
        self.begin()

    def begin(self) -> None:
        """Begin in a process where no launch is running and no ticker."""
        ctypes.memset(self.addresses["blocks"], 0, ctypes.sizeof(self.words))
        self._main.value = threading.main_thread().ident or 0
        self._asleep.value = 2


def _text(triple: str) -> str:
    futex = _FUTEX.get(triple.split("-")[0]) if sys.platform.startswith("linux") else None
    text = _TEXT.replace("WAKE", _WAKE if futex else "").replace("SLEEP", _SLEEP if futex else "")
    if futex is None:  # the ticker never sleeps: nobody could wake it
        text = text.replace("i32 20\n", "i32 2147483647\n")
    api = {
        "ENSURE": "PyGILState_Ensure",
        "RELEASE": "PyGILState_Release",
        "CHECK": "PyErr_CheckSignals",
        "FETCH": "PyErr_Fetch",
    }
    for word, name in api.items():
        address = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
        text = text.replace(f"{word}(", f"inttoptr (i64 {address} to ptr)(")
    text = text.replace("COUNT", str(_BLOCKS)).replace("BLOCK_AT", str(BLOCK_AT))
    text = text.replace("RAISED", str(RAISED))
    return text.replace("FUTEX", str(futex))


@MadeOnce
def _stops() -> _Stops:
    return _Stops()


def address(name: str) -> int:
    """Return where `take`, `leave`, `alone`, `raised` or `blocks` lies in memory."""
    return _stops().addresses[name]


def run_alone() -> Callable[[int, Any, int, int], int]:
    """Return `run(function, arguments, scratch, programs)`: 1 at the end, 2 if Python raised."""
    return _stops().alone


@contextmanager
def ended_after(seconds: float) -> Generator[Callable[[], bool]]:
    """Have a launch of this thread end where it is after so many seconds; compiling counts not.

    Yields what says whether that was; who launched asks, and throws away what there is.
    """
    words, me, over, left = _stops().words, threading.get_ident(), threading.Event(), [seconds]
    returned = threading.Event()

    def look() -> None:
        while not returned.wait(_LOOK_SECONDS):
            mine = [n for n in range(0, 16 * _BLOCKS, 16) if words[n + 3] and words[n + 2] == me]
            left[0] -= _LOOK_SECONDS * bool(mine)
            if left[0] <= 0:
                over.set()
                for at in mine:
                    words[at] |= 1

    threading.Thread(target=look, daemon=True).start()
    try:
        yield over.is_set
    finally:
        returned.set()


def raise_pending() -> None:
    """Raise what a signal handler raised during a launch; only after one that answered so."""
    raised = _stops().raised
    kind, value, traceback = raised
    ctypes.memset(raised, 0, 24)
    restore = ctypes.pythonapi.PyErr_Restore
    restore.argtypes, restore.restype = [ctypes.c_void_p] * 3, None
    restore(kind, value, traceback)


def _begin_again() -> None:
    if _stops.is_made:
        _stops().begin()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_again)
