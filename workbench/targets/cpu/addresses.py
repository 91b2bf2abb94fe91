"""From affine forms to addresses: what is the same for all lanes, and how the lanes differ.

The form of a pointer tile is evaluated with the scalar coordinates of a point; what is left is
the lanes' own part: side by side in memory, all the same, side by side but for a wrap at a
modulus, or anything (a vector of addresses).
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from workbench.analysis.forms import Atom, Form
from workbench.ir import Pointer, Scalar, Value, element_of
from workbench.ops.memory import pointee_of
from workbench.targets.cpu.arithmetic import Arithmetic
from workbench.targets.cpu.chunks import Chunk, Coordinate, Point, register_type, uniform
from workbench.targets.cpu.functions import apply_function
from workbench.targets.cpu.writer import Writer


class Address(NamedTuple):
    """Where the lanes of an access lie, in bytes.

    uniform, contiguous: `text` is the first address (i64). scattered: `text` is a vector of i64.
    wrapped: contiguous while `inside` (i1) holds; else, while `twice` holds, the lanes from `left`
    (i64) on lie `back` bytes before where they would; else each lane is for itself.
    """

    kind: Literal["uniform", "contiguous", "wrapped", "scattered"]
    text: str
    inside: str = ""
    twice: str = ""
    left: str = ""
    back: str = ""


def address_of(w: Writer, pointers: Value, point: Point) -> Address:
    """Return where a pointer value points at a point."""
    form = w.affine.form(pointers)
    if form is None:
        return _opaque(w, pointers, point)
    size = pointee_of(pointers.type).itemsize
    moving = [d for d in form.axes if point[d].kind != "uniform"]
    if not moving:
        return Address("uniform", _evaluate(w, form, point, size))
    if len(moving) == 1 and point[moving[0]].kind == "lanes":
        found = _straight(w, form, point, moving[0], size)
        if found is not None:
            return found
    return Address("scattered", _evaluate_lanes(w, form, point, size))


def _opaque(w: Writer, pointers: Value, point: Point) -> Address:
    """Return the address in a tile without a form: rows that were loaded, for example.

    Where the lanes count up within a row the first one's address, a number, is enough.
    """
    moving = [d for d, coordinate in enumerate(point) if coordinate.kind != "uniform"]
    if len(moving) == 1 and point[moving[0]].kind == "lanes" and w.counts_up(pointers, moving[0]):
        first = tuple(uniform(c.text) if d in moving else c for d, c in enumerate(point))
        return Address("contiguous", w.chunk(pointers, first).text)
    chunk = w.chunk(pointers, point)
    return Address("scattered" if chunk.lanes else "uniform", chunk.text)


def _straight(w: Writer, form: Form, point: Point, axis: int, size: int) -> Address | None:
    still: dict[tuple[Atom, ...], int] = {}
    stride: dict[tuple[Atom, ...], int] = {}
    wraps: list[tuple[Atom, Form]] = []
    for monomial, coefficient in form.terms.items():
        own = [atom for atom in monomial if axis in atom.axes]
        rest = tuple(atom for atom in monomial if axis not in atom.axes)
        if not own:
            still[monomial] = coefficient
        elif len(own) == 1 and own[0].kind == "x":
            stride[rest] = stride.get(rest, 0) + coefficient
        elif len(own) == 1 and own[0].kind == "rem":
            wraps.append((own[0], Form({rest: coefficient})))
        else:
            return None
    step = Form(stride)
    here = {**still, **{(*m, _coordinate(w, axis)): c for m, c in stride.items()}}
    if wraps:
        if len(wraps) > 1 or step.constant != 0 or wraps[0][1].constant != 1:
            return None
        return _wrapped(w, Form(still), wraps[0][0], point, axis, size)
    if step.constant == 1:
        return Address("contiguous", _evaluate(w, Form(here), point, size))
    if step.axes:
        return None
    base = _evaluate(w, Form(here), point, size)
    a = w.arithmetic(w.lanes)
    each = _evaluate(w, step, point, size)
    offsets = a.binary("mul", "i64", a.iota("i64"), a.spread(each, "i64"))
    return Address("scattered", a.binary("add", "i64", a.spread(base, "i64"), offsets))


def _wrapped(
    w: Writer, still: Form, atom: Atom, point: Point, axis: int, size: int
) -> Address | None:
    """A term `inner % modulus` whose inner part counts up by one from lane to lane."""
    inner, modulus = atom.key
    if axis in modulus.axes:
        return None
    own = [(m, c) for m, c in inner.terms.items() if any(axis in a.axes for a in m)]
    if len(own) != 1 or own[0][1] != 1 or len(own[0][0]) != 1 or own[0][0][0].kind != "x":
        return None
    emit = w.emit
    a = w.arithmetic(0)
    start, length = evaluate(w, inner, point), evaluate(w, modulus, point)
    rest = apply_function(a, "rem", _INDEX, [start, length])
    last = emit.add("i64", rest, str(w.lanes))
    fits = emit.pure(f"icmp sle i64 {last}, {length}")
    positive = emit.pure(f"icmp sge i64 {start}, 0")
    inside = emit.bitwise("and", "i1", fits, positive)
    base = emit.add("i64", _evaluate(w, still, point, size), emit.mul("i64", rest, str(size)))
    short = emit.pure(f"icmp sge i64 {length}, {w.lanes}")
    twice = emit.bitwise("and", "i1", short, positive)
    left = emit.sub("i64", length, rest)
    return Address("wrapped", base, inside, twice, left, emit.mul("i64", length, str(size)))


def form_chunk(w: Writer, value: Value, point: Point) -> Chunk:
    """Return a point of an integer or pointer tile from its affine form."""
    form = w.affine.form(value)
    if form is None:
        raise AssertionError(f"{value!r} was neither kept nor has it a closed form")
    element = element_of(value.type)
    size = element.pointee.itemsize if isinstance(element, Pointer) else 1
    if all(point[d].kind == "uniform" for d in form.axes):
        text, lanes = _evaluate(w, form, point, size), 0
    else:
        text, lanes = _evaluate_lanes(w, form, point, size), w.lanes
    return Chunk(w.arithmetic(lanes).cast("trunc", text, "i64", register_type(element)), lanes)


def evaluate(w: Writer, form: Form, point: Point) -> str:
    """Return the i64 value of a form at the first lane of a point."""
    return _Evaluation(w, point, 0).form(form)


def _evaluate(w: Writer, form: Form, point: Point, size: int) -> str:
    return _Evaluation(w, point, 0).bytes(form, size)


def _evaluate_lanes(w: Writer, form: Form, point: Point, size: int) -> str:
    evaluation = _Evaluation(w, point, w.lanes)
    moving = {d for d in form.axes if point[d].kind != "uniform"}
    fixed = {m: c for m, c in form.terms.items() if not any(moving & a.axes for a in m)}
    varying = {m: c for m, c in form.terms.items() if m not in fixed}
    a = w.arithmetic(w.lanes)
    base = a.spread(_evaluate(w, Form(fixed), point, size), "i64")
    return a.binary("add", "i64", base, evaluation.bytes(Form(varying), size))


def _coordinate(w: Writer, axis: int) -> Atom:
    return next(iter(w.affine.coordinate(axis).atoms()))


_INDEX = Scalar("index", "index", 64)


class _Evaluation:
    """Writes the arithmetic of a form, for the first lane (lanes 0) or for all of them."""

    def __init__(self, w: Writer, point: Point, lanes: int) -> None:
        self.w = w
        self.point = point
        self.a: Arithmetic = w.arithmetic(lanes)

    def bytes(self, form: Form, size: int) -> str:
        """Return form * size, where a pointer argument counts in bytes already."""
        bases: dict[tuple[Atom, ...], int] = {}
        rest: dict[tuple[Atom, ...], int] = {}
        for monomial, coefficient in form.terms.items():
            pointer = len(monomial) == 1 and self._is_pointer(monomial[0]) and coefficient == 1
            (bases if pointer else rest)[monomial] = coefficient
        total = self.form(Form(rest).scaled(size))
        for monomial in bases:
            total = self.a.binary("add", "i64", self.atom(monomial[0]), total)
        return total

    def _is_pointer(self, atom: Atom) -> bool:
        if atom.kind == "arg":
            return any(
                p.name == atom.key and isinstance(p.value.type, Pointer)
                for p in self.w.module.parameters
            )
        return atom.kind == "value" and isinstance(element_of(atom.key.type), Pointer)

    def form(self, form: Form) -> str:
        a = self.a
        total: str | None = None
        constant = 0
        for monomial, coefficient in form.terms.items():
            if not monomial:
                constant = coefficient
                continue
            product: str | None = None
            for atom in monomial:
                text = self.atom(atom)
                product = text if product is None else a.binary("mul", "i64", product, text)
            assert product is not None
            if coefficient != 1:
                product = a.binary("mul", "i64", product, a.integer(coefficient, "i64"))
            total = product if total is None else a.binary("add", "i64", total, product)
        if total is None:
            return a.integer(constant, "i64")
        return a.binary("add", "i64", total, a.integer(constant, "i64")) if constant else total

    def atom(self, atom: Atom) -> str:
        w, a = self.w, self.a
        if atom.kind == "x":
            axis: int = atom.key
            return self._coordinate(self.point[axis])
        if atom.kind == "arg":
            value = next(p.value for p in w.module.parameters if p.name == atom.key)
            return a.spread(self._scalar(value), "i64")
        if atom.kind == "value":
            return a.spread(self._scalar(atom.key), "i64")
        if atom.kind in ("pid", "programs"):
            number: int = atom.key
            return a.spread((w.pids if atom.kind == "pid" else w.grid)[number], "i64")
        if atom.kind in ("trip", "trips"):
            rounds = w.trips if atom.kind == "trip" else w.counts
            return a.spread(rounds[atom.key], "i64")
        parts = [self.form(part) for part in atom.key]
        return apply_function(a, atom.kind, _INDEX, parts)

    def _coordinate(self, coordinate: Coordinate) -> str:
        a = self.a
        if not a.lanes or coordinate.kind == "uniform":
            return a.spread(coordinate.text, "i64")
        if coordinate.kind == "vector":
            return a.cast("sext", coordinate.text, "i32", "i64")
        return a.binary("add", "i64", a.spread(coordinate.text, "i64"), a.iota("i64"))

    def _scalar(self, value: Value) -> str:
        element = element_of(value.type)
        type = register_type(element)
        text = self.w.scalar(value)
        if type == "i64":
            return text
        signed = isinstance(element, Scalar) and element.is_signed
        return (self.w.emit.sext if signed else self.w.emit.zext)(text, type, "i64")
