"""Matrix products by multiply-adds: gpu.shared_dot, whose operands lie in shared memory.

Each thread computes its elements of the result from rows of A and columns of B; lanes that share a
row read the same word. Long products run in a loop over k, whose body takes some of k at a time:

    k0 = phi [0, entry], [k0 + step, body]
    A[m, k0 .. k0+step), B[k0 .. k0+step, n): vectors where both lie side by side in memory
    sums += ...
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence, Set

from workbench.ir import BF16, F16, F32, F64, Scalar, Value, element_of, shape_of
from workbench.layouts import LinearLayout
from workbench.targets.simt.casts import cast
from workbench.targets.simt.lowering import Lowering, element_scalar, llvm_type
from workbench.targets.simt.ops import SharedDot
from workbench.targets.simt.rules import SAME, Layouts, Setting
from workbench.targets.simt.shared import Addresses, buffer_layout, load_vector, packing_of
from workbench.targets.simt.table import SIMT

#: Multiply-adds of a thread that are written one after the other: enough to hide the loads of the
#: next k, few enough that the code generator takes milliseconds (its time grows faster than this).
STRAIGHT = 512

Place = tuple[int, ...]


@SIMT.layouts(SharedDot)
def shared_dot_layouts(op: SharedDot, on: Setting) -> Layouts:
    return Layouts(work=op.result, operands=(None, None, SAME))


@SIMT.lower(SharedDot)
def lower_shared_dot(low: Lowering, op: SharedDot) -> None:
    """Add products of rows and columns, all of k at once or in a loop."""
    emit, product = low.emit, _Product(low, op)
    sums = product.start()
    inner = shape_of(op.a.type)[-1]
    step = _step(inner, len(product.live))
    if step == inner:
        low.set_registers(op.result, product.end(product.add(sums, range(inner), "0", 0)))
        return
    type = llvm_type(product.wide)
    body, end, entry = emit.fresh("product"), emit.fresh("after"), emit.block
    with emit.loop():
        emit.jump(body)
        emit.label(body)
        k0 = emit.effect(f"phi i32 [ 0, %{entry} ], [ ?, ? ]")
        carried = [s and emit.effect(f"phi {type} [ {s}, %{entry} ], [ ?, ? ]") for s in sums]
        bits = (1 << (inner - 1).bit_length()) - step
        after = product.add(carried, range(step), k0, bits)
        following = emit.add("i32", k0, str(step), "nuw nsw ")
        latch = emit.block
        rows = {k0: f"phi i32 [ 0, %{entry} ], [ {following}, %{latch} ]"}
        for first, name, new in zip(sums, carried, after, strict=True):
            if name is not None:
                rows[name] = f"phi {type} [ {first}, %{entry} ], [ {new}, %{latch} ]"
        emit.patch_all(rows)
        emit.branch(emit.pure(f"icmp slt i32 {following}, {inner}"), body, end)
    emit.label(end)
    last = [s and emit.phi(type, [(s, latch)]) for s in after]
    low.set_registers(op.result, product.end(last))


def _step(inner: int, elements: int) -> int:
    """Return how much of k one round takes: all of it, or a power of two that divides it."""
    if inner * elements <= STRAIGHT:
        return inner
    step = 1
    while inner % (2 * step) == 0 and 2 * step * elements <= STRAIGHT:
        step *= 2
    return step


class _Product:
    """What one product multiplies and adds."""

    def __init__(self, low: Lowering, op: SharedDot) -> None:
        element = element_of(op.accumulator.type)
        assert isinstance(element, Scalar)
        self.low, self.op, self.element = low, op, element
        self.wide = F32 if element in (F16, BF16) else element
        layout = low.layout(op.accumulator)
        self.live = low.live(op.accumulator)
        self.places = [layout.unflatten(flat) for flat in layout.table("register")]
        rank = layout.rank
        self.rows = _Operand(low, op.a, layout, rank - 1)
        self.columns = _Operand(low, op.b, layout, rank - 2)

    def start(self) -> list[str | None]:
        """Return what the sums start from, as they are held while products are added."""
        return self._cast(self.low.registers(self.op.accumulator), self.element, self.wide)

    def end(self, sums: Sequence[str | None]) -> list[str | None]:
        """Return the result's registers: 16-bit sums are rounded here, once."""
        return self._cast(sums, self.wide, self.element)

    def _cast(self, sums: Sequence[str | None], have: Scalar, want: Scalar) -> list[str | None]:
        return [s and cast(self.low, s, have, want, self.op) for s in sums]

    def add(self, sums: Sequence[str | None], inner: range, k0: str, bits: int) -> list[str | None]:
        """Return the sums with the products of k0 + k added for each k of `inner`.

        `bits` are those that k0 may have; no k of `inner` has one of them.
        """
        total = list(sums)
        places = [self.places[r] for r in self.live]
        rows = self.rows.reader({(*p[:-1], k) for p in places for k in inner}, k0, bits)
        columns = self.columns.reader(
            {(*p[:-2], k, p[-1]) for p in places for k in inner}, k0, bits
        )
        for k in inner:
            for r, place in zip(self.live, places, strict=True):
                values = rows((*place[:-1], k)), columns((*place[:-2], k, place[-1]))
                total[r] = self._multiply_add(values, total[r])
        return total

    def _multiply_add(self, values: tuple[str, str], total: str | None) -> str:
        emit, wide = self.low.emit, self.wide
        assert total is not None
        kinds = self.rows.element, self.columns.element
        a, b = (
            cast(self.low, value, kind, wide, self.op)
            for value, kind in zip(values, kinds, strict=True)
        )
        type = llvm_type(wide)
        if not wide.is_float:
            return emit.add(type, emit.mul(type, a, b), total)
        size = "f64" if wide == F64 else "f32"
        arguments = f"{type} {a}, {type} {b}, {type} {total}"
        return emit.call(type, f"llvm.fma.{size}", arguments, f"{type}, {type}, {type}")


class _Operand:
    """An operand that lies in a shared buffer."""

    def __init__(self, low: Lowering, value: Value, result: LinearLayout, k_axis: int) -> None:
        self.low = low
        self.base = low.scalar(value)
        self.element = element_scalar(value)
        self.shared, self.packing = buffer_layout(value), packing_of(value)
        self.inverse = self.shared.invert()
        self.k_axis = k_axis
        # A thread's own part of the coordinates, k left out, as bytes in the buffer.
        self.lane, self.warp = (
            [self._offset(self._with_k(result.unflatten(c), 0)) for c in columns]
            for columns in (result.flat("lane"), result.flat("warp"))
        )

    def _with_k(self, place: Place, k: int) -> Place:
        return tuple(k if axis == self.k_axis else c for axis, c in enumerate(place))

    def _offset(self, place: Place) -> int:
        """Return where in the buffer an element lies, in bytes."""
        flat, total, bit = self.shared.flatten(place), 0, 0
        while flat:
            if flat & 1:
                total ^= self.inverse[bit]
            flat >>= 1
            bit += 1
        return total * self.element.itemsize

    def reader(self, places: Collection[Place], k0: str, bits: int) -> Callable[[Place], str]:
        """Return what reads the element at a place, to which each thread and k0 add their part.

        Places that lie side by side are read together, at the first use of one of them.
        """
        low, size = self.low, self.element.itemsize
        addresses = Addresses(low, self.base, self.lane, self.warp, self.packing)
        nowhere = tuple(0 for _ in range(self.shared.rank))
        columns = [
            self._offset(self._with_k(nowhere, bits & 1 << bit)) for bit in range(bits.bit_length())
        ]
        if bits:
            addresses = addresses.moved(low.xor_of_bits(k0, columns, bits), columns)
        wanted = {place: self._offset(place) for place in places}
        width = _width(set(wanted.values()), addresses.image, size, low.chip.widest_bytes)
        loaded: dict[int, list[str]] = {}

        def read(place: Place) -> str:
            start, item = wanted[place] & -width, (wanted[place] & width - 1) // size
            if start not in loaded:
                type = llvm_type(self.element)
                loaded[start] = load_vector(low, addresses(start), width // size, type, size)
            return loaded[start][item]

        return read


def _width(offsets: Set[int], image: int, size: int, widest: int) -> int:
    """Return the bytes of the widest vectors that hold wanted elements only.

    `image` are the bits that differ between threads and rounds: none may lie inside a vector.
    """
    width = size
    while (
        width < widest
        and not image & (2 * width - 1)
        and all(o & -2 * width | i in offsets for o in offsets for i in range(0, 2 * width, size))
    ):
        width *= 2
    return width
