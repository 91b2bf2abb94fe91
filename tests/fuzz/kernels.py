"""Random kernels as source text: the statements, see `sources.py`."""

from __future__ import annotations

from math import prod

from tests.fuzz.sources import HELD, ROOM, SIZE, Scope, SourceWriter, Term

#: Elements of a tile that is mapped: the oracle runs them one by one.
MAPPED = 128
PARAMETERS = "f, g, floats, integers, n, m"


class KernelWriter(SourceWriter):
    """Writes one kernel and the functions that it calls."""

    def text(self) -> str:
        """Return the source; the kernel is called `kernel`."""
        for _ in range(self.number(2, 4)):
            self.variable()
        for _ in range(self.number(2, 6)):
            self.statement()
        if self.number(0, 3) == 0:
            self.line(f"if {self.condition()}:")
            self.line("    return")
        self.last_stores()
        functions = "\n\n".join(self.helpers)
        body = "\n".join(self.lines)
        return f"{functions}\n\n\ndef kernel({PARAMETERS}):\n{body}\n".lstrip()

    def last_stores(self) -> None:
        """Store what the kernel came to."""
        for term in [*self.scopes[0].changing, *self.scopes[0].terms[-4:]]:
            self.store(term)

    # -- statements -----------------------------------------------------------------------
    def statement(self) -> None:
        kinds = [self.temporary, self.temporary, self.update, self.update, self.swap, self.block]
        kinds += [self.descriptor, self.call, self.mapped, self.joined, self.product]
        if len(self.scopes) < 4:
            kinds += [self.branch, self.branch, self.counted, self.counted, self.waiting]
        if len(self.scopes) == 1:
            kinds += [self.atomic, self.box_store]
        self.pick(kinds)()

    def body(self, most: int = 3) -> None:
        self.scopes.append(Scope())
        before = len(self.lines)
        for _ in range(self.number(1, most)):
            self.statement()
        if len(self.lines) == before or not self.scopes[0].changing:
            self.line("pass")

    def remember(self, term: Term, text: str | None = None) -> Term:
        name = self.name()
        self.line(f"{name} = {text or term.text}")
        held = Term(name, term.kind, term.shape, term.most, term.steps)
        self.scopes[-1].terms.append(held)
        return held

    def temporary(self) -> None:
        self.remember(self.term(self.pick("iifb"), self.pick(self.shapes), 3))

    def variable(self) -> None:
        """A variable that loops and branches change."""
        kind, shape = self.pick("if"), self.pick(self.shapes)
        start = self.settled(self.term(kind, shape, 1))
        name = self.name()
        self.line(f"{name} = {start.text}")
        self.scopes[0].changing.append(Term(name, kind, shape, HELD, 1 if kind == "f" else 0))

    def update(self) -> None:
        held = self.pick(self.scopes[0].changing)
        made = self.term(held.kind, held.shape, 2)
        if self.number(0, 2) == 0:
            sign = self.pick(["+", "-"])
            small = self.settled(made)
            self.line(f"{held.text} {sign}= {small.text}")
            made = Term(held.text, held.kind, held.shape, 2 * HELD, held.steps)
        self.line(f"{held.text} = {self.settled(made).text}")

    def swap(self) -> None:
        alike = self.scopes[0].changing
        a = self.pick(alike)
        b = self.pick([t for t in alike if (t.kind, t.shape) == (a.kind, a.shape)])
        self.line(f"{a.text}, {b.text} = {b.text}, {a.text}")

    def condition(self) -> str:
        a = self.term("b", (), 2).text
        if self.number(0, 2):
            return a
        return f"({a}) {self.pick(['and', 'or'])} not ({self.term('b', (), 1).text})"

    def branch(self) -> None:
        self.line(f"if {self.condition()}:")
        self.body()
        self.scopes.pop()
        for _ in range(self.number(0, 1)):
            # An elif's condition cannot write lines of its own before itself.
            self.line(f"elif n {self.pick(['<', '==', '>='])} {self.number(0, 8)}:")
            self.body(2)
            self.scopes.pop()
        if self.number(0, 1):
            self.line("else:")
            self.body()
            self.scopes.pop()

    def counted(self) -> None:
        """A loop that counts up or down, perhaps with an early end, perhaps unrolled."""
        counter = self.name()
        start, step = self.number(0, 2), self.pick([1, 1, 2, 3])
        bounds = f"{start}, {self.pick(['n', self.number(0, 6)])}, {step}"
        if self.number(0, 3) == 0:
            bounds = f"{self.pick(['n', self.number(0, 6)])}, {start - 2}, -{step}"
        unrolled = self.number(0, 4) == 0
        if unrolled:
            bounds = f"{self.number(0, 3)}"
        form = "tl.static_range" if unrolled else self.pick(["range", "tl.range"])
        stages = f", num_stages={self.number(1, 4)}" if form == "tl.range" else ""
        self.line(f"for {counter} in {form}({bounds}{stages}):")
        self.scopes.append(Scope())
        if not unrolled:
            self.scopes[-1].terms.append(Term(counter, "i", (), 9))
        self.rounds(ends=not unrolled)
        self.scopes.pop()

    def waiting(self) -> None:
        counter = self.name()
        self.line(f"{counter} = {self.number(0, 3)}")
        self.line(f"while {counter} < {self.pick(['n', self.number(0, 6)])}:")
        self.scopes.append(Scope())
        self.line(f"{counter} += {self.number(1, 3)}")
        # The counter may still be a number that Python knows.
        self.scopes[-1].terms.append(Term(f"({counter} + n * 0)", "i", (), 12))
        self.rounds(ends=True)
        self.scopes.pop()

    def rounds(self, ends: bool) -> None:
        for _ in range(self.number(1, 3)):
            self.statement()
            if ends and self.number(0, 4) == 0:
                self.line(f"if {self.condition()}:")
                self.line(f"    {self.pick(['break', 'continue'])}")
        if self.lines[-1].endswith(":"):  # no statement found a place, say
            self.line("pass")

    # -- functions ------------------------------------------------------------------------
    def call(self) -> None:
        """A device function that may return early; it has a default and gives two values."""
        name = f"helper{len(self.helpers)}"
        kind, shape = self.pick("if"), self.pick(self.shapes)
        a, b = (self.settled(self.term(kind, shape, 1)) for _ in range(2))
        number, early = self.number(0, 8), self.pick(["a + b", "b", "tl.maximum(a, b)"])
        lines = [f"def {name}(a, b, flag, by=2):"]
        kinds = self.number(0, 2)
        if kinds == 0:
            lines += [f"    if flag > {number}:", f"        return {early}, a"]
        elif kinds == 1:
            lines += [f"    if flag == {number}:", f"        a = {early}"]
            lines += ["    else:", "        b = a"]
        else:
            lines += [
                "    for k in range(flag):",
                f"        if k == {number}:",
                "            break",
            ]
            lines += ["        b = tl.minimum(a, b)"]
        self.helpers.append("\n".join([*lines, "    return a - b, b * by"]))
        flag = self.pick(["n", "m", "tl.program_id(0)"])
        flag = "n" if kinds == 2 else flag
        given = self.pick(["", ", 3", ", by=-1"])
        one, two = self.name(), self.name()
        self.line(f"{one}, {two} = {name}({a.text}, {b.text}, {flag}{given})")
        steps = 1 if kind == "f" else 0
        self.scopes[-1].terms.append(Term(one, kind, shape, 3 * HELD, steps))
        self.scopes[-1].terms.append(Term(two, kind, shape, 6 * HELD, steps))

    def mapped(self) -> None:
        """A device function that each element, or each pair of neighbours, takes its own way in."""
        name = f"helper{len(self.helpers)}"
        kind, shape = self.pick("if"), self.pick(self.shapes[2:])
        if prod(shape) > MAPPED:
            return
        a, b = (self.settled(self.term(kind, shape, 1)) for _ in range(2))
        number, by = self.number(0, 8), self.number(1, 3)
        pairs = shape[-1] % 2 == 0 and self.number(0, 2) == 0
        if pairs:
            lines = [f"def {name}(a, b, c, d):", "    if a > c:", "        return b, a"]
            lines += ["    return c + d, a - b"]
        else:
            lines = [f"def {name}(a, b):"]
            lines += self.pick(
                [
                    [f"    if a > {number}:", "        return b - a", "    return a + b"],
                    ["    c = a", f"    while c < {number}:", f"        c += {by}",
                     "    return c - b"],
                    ["    c = b", f"    for k in range({number}):", "        if c > a:",
                     f"            {self.pick(['break', 'continue'])}", f"        c += {by}",
                     "    return c * 2"],
                ]
            )  # fmt: skip
        self.helpers.append("\n".join(lines))
        pack = ", pack=2" if pairs else ""
        steps = 1 if kind == "f" else 0
        text = f"tl.map_elementwise({name}, {a.text}, {b.text}{pack})"
        if not pairs:
            self.remember(Term(text, kind, shape, 4 * HELD, steps))
            return
        found = self.name()
        self.line(f"({found},) = {text}")
        self.scopes[-1].terms.append(Term(found, kind, shape, 4 * HELD, steps))

    # -- tiles ----------------------------------------------------------------------------
    def joined(self) -> None:
        kind, shape = self.pick("if"), self.pick(self.shapes[2:])
        a, b = self.term(kind, shape, 2), self.term(kind, shape, 2)
        most, steps = max(a.most, b.most), max(a.steps, b.steps)
        both = self.remember(Term(f"tl.join({a.text}, {b.text})", kind, (*shape, 2), most, steps))
        if len(shape) == 2:
            order = self.random.sample(range(3), 3)
            whole = [both.shape[axis] for axis in order]
            text = f"tl.permute({both.text}, ({order[0]}, {order[1]}, {order[2]}))"
            turned = self.remember(Term(text, kind, tuple(whole), most, steps))
            flat = prod(whole)
            text = f"tl.reshape({turned.text}, ({flat},))"
            self.remember(Term(text, kind, (flat,), most, steps))
        else:
            one, two = self.name(), self.name()
            self.line(f"{one}, {two} = tl.split({both.text})")
            for name in (one, two):
                self.scopes[-1].terms.append(Term(name, kind, shape, most, steps))

    def product(self) -> None:
        rows, columns = self.shape2
        inner = self.pick([16, 16, 32])
        a = self.settled(self.term("f", (rows, inner), 1), 4)
        b = self.settled(self.term("f", (inner, columns), 1), 4)
        half = ".to(tl.float16)" if self.number(0, 1) else ""
        c = self.settled(self.term("f", (rows, columns), 1))
        options = ', input_precision="ieee"' if not half else ""
        text = f"tl.dot(({a.text}){half}, ({b.text}){half}, {c.text}{options})"
        self.remember(Term(text, "f", (rows, columns), HELD + 16 * inner, 2))

    # -- memory ---------------------------------------------------------------------------
    def box(self, maker: str) -> tuple[str, str, str, tuple[int, int]]:
        """Write a block pointer or a descriptor of `f` seen as a matrix; return what it is."""
        name, rows, columns = self.name(), self.pick([4, 8, 16]), self.pick([4, 8, 16])
        wide, high = self.pick([8, 12, 16]), self.pick([3, 7, 16])
        start = (self.pick([0, "n", "n - 3"]), self.pick([0, 2, "n", -1]))
        shape, block = f"({high}, {wide})", (rows, columns)
        if maker == "make_tensor_descriptor":
            strides = f"({wide}, 1)"
            self.line(f"{name} = tl.make_tensor_descriptor(f, {shape}, {strides}, {block})")
            return name, str(start[0]), str(start[1]), block
        strides = f"({self.pick([wide, 16])}, 1)"
        self.line(
            f"{name} = tl.make_block_ptr(f, {shape}, {strides}, ({start[0]}, {start[1]}), {block}, "
            "(1, 0))"
        )
        return name, str(start[0]), str(start[1]), block

    def block(self) -> None:
        """Load a box that leaves its array, also from where a loop moved it."""
        name, _, _, block = self.box("make_block_ptr")
        loaded = f'tl.load({name}, boundary_check=(0, 1), padding_option="zero")'
        total = self.remember(Term(loaded, "f", block, 16 * 6, 1))
        if self.number(0, 1):
            counter = self.name()
            self.line(f"for {counter} in range({self.pick(['n', 3])}):")
            by = (self.pick([0, 1, counter]), self.pick([4, -1, 0]))
            self.line(f"    {name} = tl.advance({name}, ({by[0]}, {by[1]}))")
            self.line(f"    {total.text} += {loaded}")

    def descriptor(self) -> None:
        name, row, column, block = self.box("make_tensor_descriptor")
        self.remember(Term(f"{name}.load([{row}, {column}])", "f", block, 8, 1))

    def box_store(self) -> None:
        """Store a tile as a box of which a part lies outside."""
        value = self.term("f", self.shape2, 2)
        rows, columns = self.shape2
        if self.stored + rows * columns > ROOM:
            return
        base = f"floats + tl.program_id(0) * {ROOM} + {self.stored}"
        inside = (self.number(1, rows), self.number(1, columns))
        name = self.name()
        self.line(
            f"{name} = tl.make_block_ptr({base}, {inside}, ({columns}, 1), (0, 0), {self.shape2}, "
            "(1, 0))"
        )
        self.line(f"tl.store({name}, {value.text}, boundary_check=(0, 1))")
        self.stored += rows * columns

    def place(self, shape: tuple[int, ...]) -> str | None:
        """Return an index of elements of the output that nothing else touches."""
        count = prod(shape)
        if self.stored + count > ROOM:
            return None
        start = f"tl.program_id(0) * {ROOM} + {self.stored}"
        self.stored += count
        if not shape:
            return start
        line = f"tl.arange(0, {count})"
        return f"{start} + " + (line if len(shape) == 1 else f"tl.reshape({line}, {shape})")

    def atomic(self) -> None:
        shape = self.pick(self.shapes)
        value, mask = self.term("i", shape, 2), self.term("b", shape, 2)
        place = self.place(shape)
        if place is None:
            return
        for _ in range(2):
            text = f"tl.atomic_add(integers + {place}, ({value.text}).to(tl.int64), {mask.text})"
            self.remember(Term(f"{text}.to(tl.int32)", "i", shape, value.most))

    def store(self, term: Term) -> None:
        place = self.place(term.shape)
        if place is None:
            return
        base = "floats" if term.kind == "f" else "integers"
        mask = f", mask={self.term('b', term.shape, 2).text}" if self.number(0, 3) == 0 else ""
        self.line(f"tl.store({base} + {place}, {term.text}{mask})")


__all__ = ["PARAMETERS", "SIZE", "KernelWriter"]
