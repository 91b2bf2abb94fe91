"""Statements of source text whose order in memory matters, and what authors say of their indices.

As in `order.py` and `hints.py`: windows of the output that are stored to and loaded from in any
region, loops of products over them, programs that hand each other tiles; promises, clamps, rows
whose length is a multiple of 8, pointers that a `while` carries.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tests.fuzz.sources import ROOM, SIZE, Scope, Term
from tests.fuzz.words import WordWriter

#: Elements at the end of the first program's part of each output that all programs share.
SHARED = 512


@dataclass(frozen=True, slots=True)
class Window:
    """A name that points to so many elements of a sort, which this program alone touches."""

    name: str
    kind: str
    count: int


class AccessWriter(WordWriter):
    """A WordWriter with windows, flags and hints."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.windows: list[Window] = []
        self.shared = {"floats": ROOM - SHARED, "integers": ROOM - SHARED}
        theme = ([], [], [self.word_step], [self.access], [self.access], [self.hint])[seed % 6]
        self.themes = theme or [self.word_step, self.access, self.hint]

    def text(self) -> str:
        # Windows are made at the top, so that every region knows them.
        for kind in "ff" if self.number(0, 1) else "fi":
            self.window(kind)
        return super().text()

    def statement(self) -> None:
        if self.number(0, 1):
            self.pick(self.themes)()
        else:
            super().statement()

    def last_stores(self) -> None:
        super().last_stores()
        self.store_words()

    def place(self, shape: tuple[int, ...]) -> str | None:
        return super().place(shape) if self.stored + prod(shape) <= ROOM - SHARED else None

    def access(self) -> None:
        """One more access whose order matters."""
        kinds = [self.window_store, self.window_store, self.window_load, self.window_load]
        if len(self.scopes) < 3:
            kinds += [self.region_of_stores]
        if len(self.scopes) == 1:
            kinds += [self.staged, self.staged, self.handshake, self.locked, self.last_program]
        self.pick(kinds)()

    # -- windows --------------------------------------------------------------------------
    def window(self, kind: str) -> None:
        count = self.pick([64, 256, 1024])
        place = self.place((count,))
        if place is None:
            return
        name = self.name()
        start = place.partition(" + tl.arange")[0]
        self.line(f"{name} = {'floats' if kind == 'f' else 'integers'} + {start}")
        self.windows.append(Window(name, kind, count))

    def window_and_shape(self) -> tuple[Window, tuple[int, ...]]:
        window = self.pick(self.windows)
        shapes = [s for s in self.shapes if 2 * prod(s) <= window.count]
        return window, self.pick(shapes or [()])

    def window_place(self, window: Window, shape: tuple[int, ...]) -> str:
        """Return a place for each element, no two the same, from a computed one on."""
        count, stride = prod(shape), self.pick([1, 1, 2])
        span = (count - 1) * stride
        start = self.pick([str(self.number(0, window.count - 1 - span)), ""])
        if not start:
            start = f"tl.abs({self.term('i', (), 1).text}) % {window.count - span}"
        if not shape:
            return start
        line = f"tl.reshape(tl.arange(0, {count}), {shape})"
        line = f"({span} - {line} * {stride})" if self.number(0, 2) == 0 else f"{line} * {stride}"
        return f"{start} + {line}"

    def mask(self, shape: tuple[int, ...]) -> str:
        return f", mask={self.term('b', shape, 1).text}" if self.number(0, 2) == 0 else ""

    def window_store(self, window: Window | None = None, shape: tuple[int, ...] = ()) -> None:
        if window is None:
            window, shape = self.window_and_shape()
        value = self.settled(self.term(window.kind, shape, 2), 4)
        where = self.window_place(window, shape)
        self.line(f"tl.store({window.name} + {where}, {value.text}{self.mask(shape)})")

    def window_load(self, window: Window | None = None, shape: tuple[int, ...] = ()) -> Term:
        if window is None:
            window, shape = self.window_and_shape()
        where = self.window_place(window, shape)
        mask = self.mask(shape)
        rest = f"{mask}, other=1" if mask else ""
        text = f"tl.load({window.name} + {where}{rest})"
        if window.kind == "i":
            return self.remember(Term(f"{text}.to(tl.int32)", "i", shape, 4))
        return self.remember(Term(text, "f", shape, 4, 1))

    def region_of_stores(self) -> None:
        """An `if` or a loop around stores to a window that is loaded before and after."""
        window, shape = self.window_and_shape()
        if self.number(0, 1):
            self.window_load(window, shape)
        which = self.number(0, 2)
        counter = self.name()
        if which == 0:
            self.line(f"if {self.condition()}:")
        elif which == 1:
            self.line(f"for {counter} in range({self.pick(['n', self.number(1, 4)])}):")
        else:
            self.line(f"{counter} = 0")
            self.line(f"while {counter} < {self.number(1, 4)}:")
        self.scopes.append(Scope())
        if which:
            self.scopes[-1].terms.append(Term(f"({counter} + n * 0)", "i", (), 9))
        if self.number(0, 1):
            self.window_load(window, shape)
        self.window_store(window, shape)
        if which == 2:
            self.line(f"{counter} += 1")
        self.scopes.pop()
        self.window_load(window, shape)

    def staged(self) -> None:
        """Products of tiles that a loop loads from a window and stores to it again."""
        rows, columns = self.shape2
        inner, rounds = self.pick([8, 16]), self.pick([2, 3, 4])
        step = self.pick([0, 4, 8, 16])
        fitting = [w for w in self.windows if w.kind == "f"
                   and w.count > max(rows, columns) * inner + rounds * step]  # fmt: skip
        if not fitting:
            return
        one, other = self.pick(fitting), self.pick(fitting)
        for window in (one, other):
            self.window_store(window, (self.shape2[1],))
        total, sums, k, a, b = (self.name() for _ in range(5))
        self.line(f"{total} = tl.zeros({self.shape2}, tl.float32)")
        self.line(f"{sums} = tl.zeros(({rows},), tl.float32)")
        stages = self.pick(["", ", num_stages=1", ", num_stages=2", ", num_stages=4"])
        self.line(
            f"for {k} in tl.range(0, {self.pick([rounds, f'tl.minimum(n, {rounds})'])}{stages}):"
        )
        self.scopes.append(Scope())
        self.scopes[-1].terms.append(Term(k, "i", (), rounds))
        early = self.number(0, 1)
        if early:
            self.region_of_stores()
        for name, window, shape in ((a, one, (rows, inner)), (b, other, (inner, columns))):
            lines = (f"tl.arange(0, {shape[0]})[:, None]", f"tl.arange(0, {shape[1]})[None, :]")
            where = f"{k} * {step} + {lines[0]} * {shape[1]} + {lines[1]}"
            self.line(f"{name} = tl.load({window.name} + {where})")
        half = self.pick(["", ".to(tl.float16)"])
        chosen = self.pick(["ieee", "tf32"])
        precision = "" if half else f', input_precision="{chosen}"'
        self.line(f"{total} = tl.dot({a}{half}, {b}{half}, {total}{precision})")
        if self.number(0, 1):
            self.line(f"{sums} += tl.sum({a}, axis=1)")
        if not early:
            self.region_of_stores()
        self.scopes.pop()
        most = 16.0 * inner * rounds
        self.scopes[-1].terms.append(Term(total, "f", self.shape2, most, 2))
        self.scopes[-1].terms.append(Term(sums, "f", (rows,), 4.0 * inner * rounds, 1))

    # -- between programs -------------------------------------------------------------------
    def common(self, output: str, count: int) -> str | None:
        """Return a pointer to elements that all programs may touch."""
        start = self.shared[output]
        if start + count > ROOM:
            return None
        self.shared[output] = start + count
        return f"{output} + {start}"

    def message(self) -> tuple[str, str, tuple[int, ...], str] | None:
        """Return (pointer to share, kind, shape, offsets) of a tile."""
        kind = self.pick("fi")
        shape = self.pick([s for s in self.shapes if prod(s) <= 64])
        base = self.common("floats" if kind == "f" else "integers", prod(shape))
        if base is None:
            return None
        line = f" + tl.reshape(tl.arange(0, {prod(shape)}), {shape})" if shape else ""
        return base, kind, shape, line

    def handshake(self) -> None:
        """The first program stores a tile and says so; the other one waits, and loads it."""
        flag, found = self.common("integers", 1), self.message()
        if flag is None or found is None:
            return
        base, kind, shape, line = found
        value = self.settled(self.term(kind, shape, 2), 4)
        name = self.name()
        self.line(
            f"{name} = {value.text} + tl.zeros({shape}, tl.{'float32' if kind == 'f' else 'int32'})"
        )
        self.line("if tl.program_id(0) == 0:")
        self.line(f"    tl.store({base}{line}, {name})")
        raised = self.pick(['tl.atomic_xchg({}, 1)', 'tl.atomic_add({}, 1, sem="release")',
                            'tl.atomic_xchg({}, 1, sem="release")'])  # fmt: skip
        self.line(f"    {raised.format(flag)}")
        self.line("else:")
        polled = self.pick(['tl.atomic_add({}, 0, sem="acquire")', "tl.atomic_cas({}, 0, 0)",
                            "tl.atomic_add({}, 0)", "tl.load({})"])  # fmt: skip
        self.line(f"    while {polled.format(flag)} == 0:")
        self.line("        pass")
        if polled == "tl.load({})":
            self.line(f'    tl.atomic_add({flag}, 0, sem="acquire")')
        narrow = ".to(tl.int32)" if kind == "i" else ""
        self.line(f"    {name} = tl.load({base}{line}){narrow}")
        self.scopes[-1].terms.append(Term(name, kind, shape, 4, 1))

    def locked(self) -> None:
        """Take a lock, add to a tile that all programs add to, give it back."""
        lock, found = self.common("integers", 1), self.message()
        if lock is None or found is None:
            return
        base, kind, shape, line = found
        value = self.remember(self.settled(self.term(kind, shape, 2), 4))
        taken = self.pick(['sem="acquire"', 'sem="acq_rel"'])
        self.line(f"while tl.atomic_cas({lock}, 0, 1, {taken}) != 0:")
        self.line("    pass")
        there = self.name()
        self.line(f"{there} = {base}{line}")
        self.line(f"tl.store({there}, tl.load({there}) + {value.text})")
        given_back = self.pick(["", ', sem="release"'])
        self.line(f"tl.atomic_xchg({lock}, 0{given_back})")

    def last_program(self) -> None:
        """Each program stores a tile; the one that counts last adds them up."""
        count = self.common("integers", 1)
        found = self.message()
        if count is None or found is None:
            return
        _, kind, shape, line = found
        output, size = "floats" if kind == "f" else "integers", prod(shape)
        base = self.common(output, 3 * size)
        if base is None:
            return
        value = self.remember(self.settled(self.term(kind, shape, 2), 4))
        self.line(f"tl.store({base} + tl.program_id(0) * {size}{line}, {value.text})")
        self.line(f"if tl.atomic_add({count}, 1) == tl.num_programs(0) - 1:")
        parts = f"tl.load({base}{line}) + tl.load({base} + {size}{line})"
        self.line(f"    tl.store({base} + {2 * size}{line}, {parts})")

    # -- hints ------------------------------------------------------------------------------
    def hint(self) -> None:
        """One more load whose indices are hinted at or clamped, or a pointer that moves."""
        kinds = [self.promised, self.clamped, self.eights, self.assumed]
        if len(self.scopes) < 3:
            kinds += [self.walking, self.walking]
        self.pick(kinds)()

    def promised(self) -> None:
        extent, step = self.shape2[1], self.pick([2, 4, 8, 16])
        start = self.pick([f"n * {step}", str(step * self.number(0, 5)),
                           f"tl.multiple_of(n * {step}, {step})"])  # fmt: skip
        line = f"({start} + tl.arange(0, {extent}))"
        which = self.number(0, 3)
        if which == 0:
            line = f"tl.max_contiguous({line}, {extent})"
        elif which == 1:
            line = f"tl.max_contiguous(tl.multiple_of({line}, {step}), {extent})"
        elif which == 2:
            line = f"tl.max_constancy(tl.arange(0, {extent}) // {step}, {step}) * {step}"
        base, kind = self.pick([("f", "f"), ("g", "i")])
        place = self.name()
        self.line(f"{place} = {line}")
        inside = self.pick([f" % {SIZE}", ""]) if which != 1 else ""
        mask = "" if inside else f", mask={place} < {SIZE}, other=0"
        if kind == "f":
            self.remember(Term(f"tl.load({base} + {place}{inside}{mask})", "f", (extent,), 8, 1))
        else:
            self.remember(Term(f"tl.load({base} + {place}{inside}{mask})", "i", (extent,), 8))

    def assumed(self) -> None:
        self.line(f"tl.assume({self.pick(['n >= 0', 'n < 9', 'n * 8 % 8 == 0', 'm > -100'])})")
        extent = self.shape2[1]
        place = f"n * 8 + tl.arange(0, {extent})"
        self.remember(Term(f"tl.load(f + {place})", "f", (extent,), 8, 1))

    def clamped(self) -> None:
        """A box whose rows and columns are brought inside before they are used."""
        rows, columns = self.shape2
        high, wide = self.pick([3, 7, 16]), self.pick([8, 12, 16])
        lines = []
        for extent, limit in ((rows, high), (columns, wide)):
            name = self.name()
            start = self.pick(["n", "n * 8", "0", "tl.program_id(0) * 16"])
            self.line(f"{name} = {start} + tl.arange(0, {extent})")
            form = self.pick(["{0} % {1}", "tl.minimum({0}, {1} - 1)",
                              "tl.where({0} < {1}, {0}, 0)"])  # fmt: skip
            self.line(f"{name} = {form.format(name, limit)}")
            lines.append(name)
        text = f"tl.load(f + {lines[0]}[:, None] * {wide} + {lines[1]}[None, :])"
        self.remember(Term(text, "f", self.shape2, 8, 1))

    def eights(self) -> None:
        """Rows whose length is a multiple of 8 and perhaps of nothing more."""
        rows, columns = self.shape2
        length, place = self.name(), self.name()
        self.line(f"{length} = {self.pick(['n * 8', 'tl.multiple_of(n * 8, 8)', '24', '40'])}")
        row, column = f"tl.arange(0, {rows})[:, None]", f"tl.arange(0, {columns})[None, :]"
        self.line(f"{place} = {row} * {length} + {column}")
        mask = f"mask=({column} < {length}) & ({place} < {SIZE}), other=0"
        self.remember(Term(f"tl.load(f + {place}, {mask})", "f", self.shape2, 8, 1))

    def walking(self) -> None:
        """A `while` or a `for` that moves pointers."""
        extent, by = self.shape2[1], self.pick([1, 4, 8, 16])
        pointers, counter = self.name(), self.name()
        start = self.settled(self.term("f", (extent,), 1), 8)
        total = self.name()
        self.line(f"{total} = {start.text} + tl.zeros(({extent},), tl.float32)")
        self.line(f"{pointers} = f + tl.arange(0, {extent})")
        rounds = self.pick(["n", "n - 1", "3"])
        if self.number(0, 2):
            self.line(f"{counter} = 0")
            self.line(f"while {counter} < {rounds}:")
            self.line(f"    {counter} += 1")
        else:
            self.line(f"for {counter} in range({rounds}):")
        self.line(f"    {total} += tl.load({pointers})")
        self.line(f"    {pointers} += {by}")
        self.scopes[-1].terms.append(Term(total, "f", (extent,), 80, 1))
        self.remember(Term(f"tl.load({pointers})", "f", (extent,), 8, 1))


def kernel_text(seed: int) -> str:
    """Return the source of a seed's kernel, with the functions that it calls."""
    return AccessWriter(seed).text()


__all__ = ["AccessWriter", "kernel_text"]
