"""The LLVM IR of native launchers; what it does is said in native.py."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from typing import Any

from workbench.devices.stops import INTERRUPTED, raise_pending
from workbench.interrupts import MadeOnce
from workbench.launch.abi import MOST_ALIGNMENT
from workbench.launch.assembly import assemble_address
from workbench.launch.conditions import INTERPRETER, llvm_interpreter, llvm_values
from workbench.launch.grids import MOST_NUMBERED
from workbench.launch.machine import Code
from workbench.launch.measures import Measure
from workbench.launch.native_plan import (
    ASSEMBLY,
    BLOCKS,
    CLUSTER,
    CONDITION,
    CONSTANT,
    HEAD,
    OUTCOME,
    TAKEN,
    Plan,
    Slot,
)
from workbench.source.watched import ABSENT, Watched

_ITEMS = tuple.__basicsize__ // 8  # words of a tuple before its items


@MadeOnce
def _interpreter() -> Code:
    """Return the code that runs conditions."""
    return Code(llvm_interpreter())


def interpreter_address() -> int:
    """Return where the function that runs conditions lies; made at its first use."""
    return _interpreter().address(INTERPRETER)


class Writer:
    """Writes the LLVM IR of one launcher."""

    def __init__(self, plan: Plan, table: int, slow: Callable[..., Any]) -> None:
        self.plan = plan
        self.table = f"inttoptr (i64 {table} to ptr)"
        self.slow = self._object(slow)
        self.lines: list[str] = []
        self.count = 0
        self.block = "entry"
        self.facts: dict[int, str] = {}
        self.words: list[str] = []
        self.measures: dict[str, list[tuple[Measure, int, int]]] = {}
        for slot, measure, word, bit in plan.measures:
            self.measures.setdefault(slot.name, []).append((measure, word, bit))

    # -- text -----------------------------------------------------------------------------
    def _do(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def _op(self, text: str) -> str:
        self.count += 1
        self._do(f"%v{self.count} = {text}")
        return f"%v{self.count}"

    def _label(self, name: str) -> None:
        self.lines.append(f"{name}:")
        self.block = name

    def _fresh(self, word: str) -> str:
        self.count += 1
        return f"{word}{self.count}"

    def _object(self, value: Any) -> str:
        self.plan.kept.append(value)
        return f"inttoptr (i64 {id(value)} to ptr)"

    def _api(self, name: str) -> str:
        address = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
        return f"inttoptr (i64 {address} to ptr)"

    def _item(self, kind: str, base: str, index: int | str) -> str:
        place = self._op(f"getelementptr i64, ptr {base}, i64 {index}")
        return self._op(f"load {kind}, ptr {place}")

    def _need(self, condition: str, otherwise: str = "slow") -> None:
        go = self._fresh("go")
        self._do(f"br i1 {condition}, label %{go}, label %{otherwise}")
        self._label(go)

    def _need_equal(self, kind: str, a: str, b: str, otherwise: str = "slow") -> None:
        self._need(self._op(f"icmp eq {kind} {a}, {b}"), otherwise)

    # -- objects --------------------------------------------------------------------------
    def _exact(self, value: str, kind: type, otherwise: str = "slow") -> None:
        self._need_equal("ptr", self._item("ptr", value, 1), self._object(kind), otherwise)

    def _no_error(self, value: str, otherwise: str = "error") -> None:
        """-1 may be a value: only then is it asked whether there was an error."""
        ask, fine = self._fresh("ask"), self._fresh("fine")
        bad = self._op(f"icmp eq i64 {value}, -1")
        self._do(f"br i1 {bad}, label %{ask}, label %{fine}")
        self._label(ask)
        found = self._op(f"call ptr {self._api('PyErr_Occurred')}()")
        none = self._op(f"icmp eq ptr {found}, null")
        self._do(f"br i1 {none}, label %{fine}, label %{otherwise}")
        self._label(fine)

    def _integer(self, value: str, otherwise: str = "slow", error: str = "error") -> str:
        self._exact(value, int, otherwise)
        number = self._op(f"call i64 {self._api('PyLong_AsLongLong')}(ptr {value})")
        self._no_error(number, error)
        return number

    def _owned(self, text: str) -> str:
        value = self._op(text)
        self._need(self._op(f"icmp ne ptr {value}, null"), "error")
        return value

    def _drop(self, value: str) -> None:
        self._do(f"call void {self._api('Py_DecRef')}(ptr {value})")

    def _identity(self, value: str, name: str) -> str:
        """Return an attribute as an address to compare."""
        get = self._api("PyObject_GetAttr")
        found = self._owned(f"call ptr {get}(ptr {value}, ptr {self._object(sys.intern(name))})")
        self._drop(found)
        return found

    def _method(self, place: int, name: str, convert: str) -> str:
        """Call a method without arguments of the object at a place; return its integer."""
        where = self._op(f"getelementptr ptr, ptr %args, i64 {place}")
        found = self._owned(self._calls(name, where))
        number = self._op(f"call i64 {self._api(convert)}(ptr {found})")
        self._drop(found)
        self._no_error(number)
        return number

    # -- the parts ------------------------------------------------------------------------
    def module(self) -> str:
        """Return the module's text."""
        plan = self.plan
        self._label("entry")
        room = plan.grid_places[-1] + 1
        for name in ("slots", "pointers"):
            self._do(f"%{name} = alloca [{room} x i64], align 16")
        self._do("%one = alloca ptr, align 8")
        self._do("%grid = alloca [3 x i64], align 16")
        self._check_shape()
        self._check_guards()
        self._read_slots()
        grid = self._read_grid()
        for axis, size in enumerate(grid):
            for held, number in (("%grid", axis), ("%slots", plan.grid_places[axis])):
                place = self._op(f"getelementptr i64, ptr {held}, i64 {number}")
                self._do(f"store i64 {size}, ptr {place}")
        stream = self._read_stream()
        entry = self._find_entry()
        self._launch(entry, grid, stream)
        self._endings()
        body = "\n".join(self.lines)
        head = "define ptr @call(ptr %self, ptr %args, i64 %nargs, ptr %kwnames)"
        return f"{head} {{\n{body}\n}}\n"

    def _check_shape(self) -> None:
        shape = self.plan.shape
        self._need_equal("i64", "%nargs", str(shape.positional))
        if not shape.keywords:
            self._need_equal("ptr", "%kwnames", "null")
            return
        self._need(self._op("icmp ne ptr %kwnames, null"))
        self._need_equal("i64", self._item("i64", "%kwnames", 2), str(len(shape.keywords)))
        for number, name in enumerate(shape.keywords):
            given = self._item("ptr", "%kwnames", _ITEMS + number)
            self._need_equal("ptr", given, self._object(sys.intern(name)))

    def _check_guards(self) -> None:
        get = self._api("PyDict_GetItem")
        for space, name, value in self.plan.guards:
            if isinstance(space, Watched):
                self._check_watched(space)
                continue
            key = sys.intern(name) if isinstance(name, str) else name
            words = f"ptr {self._object(space)}, ptr {self._object(key)}"
            found = self._op(f"call ptr {get}({words})")
            self._need_equal("ptr", found, "null" if value is ABSENT else self._object(value))

    def _check_watched(self, watched: Watched) -> None:
        call = self._api("PyObject_CallNoArgs")
        # A constant that never goes away: its address says what it is.
        said = self._owned(f"call ptr {call}(ptr {self._object(watched.unchanged)})")
        self._drop(said)
        self._need_equal("ptr", said, self._object(True))

    def _read_slots(self) -> None:
        number = 0
        for slot in (*self.plan.slots, *self.plan.options):
            value = self._item("ptr", "%args", slot.place)
            stored = self._read(slot, value)
            if slot.is_runtime:
                self._do(f"%slot{number} = add i64 {stored}, 0")
                place = self._op(f"getelementptr i64, ptr %slots, i64 {number}")
                self._do(f"store i64 {stored}, ptr {place}")
                number += 1
        self.words += self.facts.values()
        if self.plan.guarded:
            for slot in self.plan.arrays:
                number = self._read_storage(slot, number)

    def _read_storage(self, slot: Slot, number: int) -> int:
        """Write down where an array's storage starts and ends; return the next free slot."""
        where = self._op(f"getelementptr ptr, ptr %args, i64 {slot.place}")
        storage = self._owned(self._calls("untyped_storage", where))
        self._do(f"store ptr {storage}, ptr %one")
        words: list[str] = []
        for name in ("data_ptr", "nbytes"):
            found = self._owned(self._calls(name, "%one"))
            words.append(self._op(f"call i64 {self._api('PyLong_AsLongLong')}(ptr {found})"))
            self._drop(found)
        self._drop(storage)
        for word in words:
            self._no_error(word)
        for value in (words[0], self._op(f"add i64 {words[0]}, {words[1]}")):
            place = self._op(f"getelementptr i64, ptr %slots, i64 {number}")
            self._do(f"store i64 {value}, ptr {place}")
            number += 1
        return number

    def _calls(self, name: str, where: str) -> str:
        """Return a call of a method without arguments of the object at an address."""
        call = self._api("PyObject_VectorcallMethod")
        word = self._object(sys.intern(name))
        return f"call ptr {call}(ptr {word}, ptr {where}, i64 1, ptr null)"

    def _read(self, slot: Slot, value: str) -> str:
        match slot.kind:
            case "t":
                return self._read_array(slot, value)
            case "i":
                number = self._integer(value)
                self._measure(slot, number)
                return number
            case "b":
                true, false = self._object(True), self._object(False)
                is_true = self._op(f"icmp eq ptr {value}, {true}")
                is_false = self._op(f"icmp eq ptr {value}, {false}")
                self._need(self._op(f"or i1 {is_true}, {is_false}"))
                return self._op(f"zext i1 {is_true} to i64")
            case "f" | "d" | "v":
                self._exact(value, float)
                number = self._op(f"call double {self._api('PyFloat_AsDouble')}(ptr {value})")
                if slot.kind != "f":
                    bits = self._op(f"bitcast double {number} to i64")
                    self.words += [bits] if slot.kind == "v" else []
                    return bits
                short = self._op(f"fptrunc double {number} to float")
                return self._op(f"zext i32 {self._op(f'bitcast float {short} to i32')} to i64")
            case "n":
                number = self._integer(value)
                self.words.append(number)
                return number
            case _:
                self.words.append(self._op(f"ptrtoint ptr {value} to i64"))
                return value

    def _read_array(self, slot: Slot, value: str) -> str:
        dtype = self._identity(value, "dtype")
        self.words.append(self._op(f"ptrtoint ptr {dtype} to i64"))
        self.words.append(self._method(slot.place, "get_device", "PyLong_AsLongLong"))
        address = self._method(slot.place, "data_ptr", "PyLong_AsUnsignedLongLong")
        # 0: a tensor without memory, which torch traces with, or an empty one.
        self._need(self._op(f"icmp ne i64 {address}, 0"))
        self._measure(slot, address)
        return address

    def _measure(self, slot: Slot, number: str) -> None:
        for measure, word, bit in self.measures[slot.name]:
            (value,) = llvm_values(measure.program, self._op, [number])
            shifted = self._op(f"shl i64 {value}, {bit}")
            self.facts[word] = self._op(f"or i64 {self.facts.get(word, '0')}, {shifted}")

    def _read_grid(self) -> list[str]:
        """Read the grid: a tuple, or a function of a dict of all arguments that gives one.

        Errors of that function are left to the Python launcher, which calls it again.
        """
        given = self._item("ptr", "%args", 0)
        tuple_type = self._object(tuple)
        is_tuple = self._op(f"icmp eq ptr {self._item('ptr', given, 1)}, {tuple_type}")
        ask, have, before = self._fresh("ask"), self._fresh("have"), self.block
        self._do(f"br i1 {is_tuple}, label %{have}, label %{ask}")
        self._label(ask)
        made = self._call_grid(given)
        last = self.block
        self._do(f"br label %{have}")
        self._label(have)
        grid = self._op(f"phi ptr [ {given}, %{before} ], [ {made}, %{last} ]")
        owned = self._op(f"phi ptr [ null, %{before} ], [ {made}, %{last} ]")
        self._do("br label %sizes")
        self._label("sizes")
        length = self._item("i64", grid, 2)
        self._need(self._op(f"icmp uge i64 {length}, 1"), "no_grid")
        self._need(self._op(f"icmp ule i64 {length}, 3"), "no_grid")
        sizes = [self._size(grid, owned, length, axis) for axis in range(3)]
        release = self._api("Py_DecRef")  # does nothing for null
        self._do(f"call void {release}(ptr {owned})")
        self._do("br label %ready")
        self.lines += ["no_grid:", f"  call void {release}(ptr {owned})", "  br label %error"]
        self._label("ready")
        return sizes

    def _call_grid(self, function: str) -> str:
        meta = self._owned(f"call ptr {self._api('PyDict_New')}()")
        put = self._api("PyDict_SetItem")
        given = [(slot.name, self._item("ptr", "%args", slot.place)) for slot in self.plan.slots]
        given += [(name, self._object(value)) for name, value in self.plan.defaults]
        for name, value in given:
            word = self._object(sys.intern(name))
            self._op(f"call i32 {put}(ptr {meta}, ptr {word}, ptr {value})")
        made = self._call_one(function, meta)
        self._need(self._op(f"icmp ne ptr {made}, null"), "error")
        kind = self._op(f"icmp eq ptr {self._item('ptr', made, 1)}, {self._object(tuple)}")
        fine, other = self._fresh("fine"), self._fresh("other")
        self._do(f"br i1 {kind}, label %{fine}, label %{other}")
        self._label(other)
        self._drop(made)
        self._do("br label %slow")
        self._label(fine)
        return made

    def _call_one(self, function: str, argument: str) -> str:
        """Call a Python function with one argument, which is dropped."""
        self._do(f"store ptr {argument}, ptr %one")
        call = self._api("PyObject_Vectorcall")
        found = self._op(f"call ptr {call}(ptr {function}, ptr %one, i64 1, ptr null)")
        self._drop(argument)
        return found

    def _size(self, grid: str, owned: str, length: str, axis: int) -> str:
        """Return the grid's size along an axis, 1 where the tuple is shorter."""
        have, done, before = self._fresh("have"), self._fresh("done"), self.block
        if axis:
            there = self._op(f"icmp ugt i64 {length}, {axis}")
            self._do(f"br i1 {there}, label %{have}, label %{done}")
        else:
            self._do(f"br label %{have}")
        self._label(have)
        value = self._item("ptr", grid, _ITEMS + axis)
        number = self._integer(value, "no_grid", "no_grid")
        limit = 0x7FFFFFFF if axis == 0 else 65535
        low = self._op(f"icmp sge i64 {number}, 1")
        high = self._op(f"icmp sle i64 {number}, {limit}")
        self._need(self._op(f"and i1 {low}, {high}"), "no_grid")
        last = self.block
        self._do(f"br label %{done}")
        self._label(done)
        if not axis:
            return number
        return self._op(f"phi i64 [ 1, %{before} ], [ {number}, %{last} ]")

    def _read_stream(self) -> str:
        """Return torch's current stream of the first array's device."""
        if self.plan.stream is None:
            return "null"
        first = next(slot for slot in self.plan.slots if slot.kind == "t")
        device = self.words[self._device_word(first)]
        boxed = self._owned(f"call ptr {self._api('PyLong_FromLongLong')}(i64 {device})")
        found = self._call_one(self._object(self.plan.stream), boxed)
        self._need(self._op(f"icmp ne ptr {found}, null"), "error")
        number = self._op(f"call i64 {self._api('PyLong_AsUnsignedLongLong')}(ptr {found})")
        self._drop(found)
        self._no_error(number)
        return self._op(f"inttoptr i64 {number} to ptr")

    def _device_word(self, array: Slot) -> int:
        place = 0
        for slot in self.plan.slots:
            if slot is array:
                return place + 1
            place += 2 if slot.kind == "t" else 1 if slot.kind in CONSTANT else 0
        raise KeyError(array.name)

    def _find_entry(self) -> str:
        width, first_word = self.plan.width, HEAD + len(self.plan.runtime)
        before = self.block
        self._do("br label %next")
        self._label("next")
        self._do(f"%number = phi i64 [ 0, %{before} ], [ %following, %miss ]")
        count = self._op(f"load i64, ptr {self.table}")
        self._need(self._op(f"icmp slt i64 %number, {count}"))
        offset = self._op(f"add i64 {self._op(f'mul i64 %number, {width}')}, 1")
        entry = self._op(f"getelementptr i64, ptr {self.table}, i64 {offset}")
        same = "true"
        for number, word in enumerate(self.words):
            stored = self._item("i64", entry, first_word + number)
            equal = self._op(f"icmp eq i64 {stored}, {word}")
            same = self._op(f"and i1 {same}, {equal}")
        self._need(same, "miss")
        condition = self._item("ptr", entry, CONDITION)
        asked = self._op(f"icmp ne ptr {condition}, null")
        self._do(f"br i1 {asked}, label %ask_condition, label %entered")
        self._label("ask_condition")
        run = f"inttoptr (i64 {interpreter_address()} to ptr)"
        holds = self._op(f"call i64 {run}(ptr {condition}, ptr %slots, ptr %grid)")
        outcome = self._item("i64", entry, OUTCOME)
        self._do(
            f"br i1 {self._op(f'icmp eq i64 {holds}, {outcome}')}, label %entered, label %miss"
        )
        self._label("entered")
        return entry

    def _launch(self, entry: str, grid: Sequence[str], stream: str) -> None:
        code = self._item("ptr", entry, 0)
        threads, shared = (
            self._op(f"trunc i64 {self._item('i64', entry, n)} to i32") for n in (1, 2)
        )
        result = self._item("ptr", entry, 3)
        for number in range(len(self.plan.runtime)):
            place = self._item("i64", entry, HEAD + number)
            slot = self._op(f"getelementptr i64, ptr %slots, i64 {place}")
            where = self._op(f"getelementptr ptr, ptr %pointers, i64 {number}")
            self._do(f"store ptr {slot}, ptr {where}")
        self._assemble(entry)
        grid = self._blocks(entry, grid)
        # The result is held while the GIL is not: its entry may give way meanwhile.
        self._do(f"call void {self._api('Py_IncRef')}(ptr {result})")
        x, y, z = (self._op(f"trunc i64 {size} to i32") for size in grid)
        state = self._op(f"call ptr {self._api('PyEval_SaveThread')}()")
        status = self._op(
            f"call i32 inttoptr (i64 {self.plan.launch} to ptr)(ptr {code}, i32 {x}, i32 {y}, "
            f"i32 {z}, i32 {threads}, i32 1, i32 1, i32 {shared}, ptr {stream}, ptr %given, "
            f"ptr null)"
        )
        self._do(f"call void {self._api('PyEval_RestoreThread')}(ptr {state})")
        fine = self._op(f"icmp eq i32 {status}, 0")
        self._do(f"br i1 {fine}, label %done, label %not_done")
        self._label("done")
        self._do(f"ret ptr {result}")
        self._label("not_done")
        raised = self._op(f"icmp eq i32 {status}, {INTERRUPTED}")
        self._do(f"br i1 {raised}, label %raised, label %failed")
        self._label("raised")
        self._drop(result)
        raising = self._op(
            f"call ptr {self._api('PyObject_CallNoArgs')}(ptr {self._object(raise_pending)})"
        )
        self._do(f"ret ptr {raising}")
        self._label("failed")  # the Python launcher tries again, and words the error
        self._drop(result)
        self._do("br label %slow")

    def _blocks(self, entry: str, grid: Sequence[str]) -> list[str]:
        """Return the blocks to start: those of the grid, or as many as take all its programs."""
        most, before = self._item("i64", entry, BLOCKS), self.block
        several = self._op(f"icmp ne i64 {most}, 0")
        self._do(f"br i1 {several}, label %staying, label %starting")
        self._label("staying")
        x, y, z = grid
        total = self._op(f"mul i64 {self._op(f'mul i64 {x}, {y}')}, {z}")
        self._need(self._op(f"icmp ule i64 {total}, {MOST_NUMBERED}"))
        fewer = self._op(f"icmp ult i64 {total}, {most}")
        far_more = self._op(f"icmp ugt i64 {total}, {self._item('i64', entry, TAKEN)}")
        each = self._op(f"or i1 {fewer}, {far_more}")
        blocks = self._op(f"select i1 {each}, i64 {total}, i64 {most}")
        beside = self._op(f"sub i64 {self._item('i64', entry, CLUSTER)}, 1")
        blocks = self._op(f"add i64 {blocks}, {beside}")
        blocks = self._op(f"and i64 {blocks}, {self._op(f'xor i64 {beside}, -1')}")
        last = self.block
        self._do("br label %starting")
        self._label("starting")
        return [
            self._op(f"phi i64 [ {size}, %{before} ], [ {other}, %{last} ]")
            for size, other in zip(grid, (blocks, "1", "1"), strict=True)
        ]

    def _assemble(self, entry: str) -> None:
        """Give the code its parameters: pointers to slots, or to what is made of them."""
        assembly = self._item("ptr", entry, ASSEMBLY)
        before = self.block
        some = self._op(f"icmp ne ptr {assembly}, null")
        self._do(f"br i1 {some}, label %assembling, label %assembled")
        self._label("assembling")
        count, size = self._item("i64", assembly, 0), self._item("i64", assembly, 1)
        pointers = self._op(f"alloca ptr, i64 {count}, align 16")
        room = self._op(f"alloca i8, i64 {size}, align {MOST_ALIGNMENT}")
        status = self._op(
            f"call i32 inttoptr (i64 {assemble_address()} to ptr)(ptr {assembly}, ptr %slots, "
            f"ptr {pointers}, ptr {room})"
        )
        self._need(self._op(f"icmp eq i32 {status}, 0"))
        last = self.block
        self._do("br label %assembled")
        self._label("assembled")
        self._do(f"%given = phi ptr [ %pointers, %{before} ], [ {pointers}, %{last} ]")

    def _endings(self) -> None:
        self._label("miss")
        self._do("%following = add i64 %number, 1")
        self._do("br label %next")
        self._label("error")
        self._do(f"call void {self._api('PyErr_Clear')}()")
        self._do("br label %slow")
        self._label("slow")
        call = self._api("PyObject_Vectorcall")
        words = f"ptr {self.slow}, ptr %args, i64 %nargs, ptr %kwnames"
        self._do(f"ret ptr {self._op(f'call ptr {call}({words})')}")
