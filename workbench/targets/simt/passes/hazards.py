"""Which accesses to global memory different warps of a program could make in the wrong order.

Two accesses need a barrier between them if one writes, both may touch one byte, and not both are
made by one thread or warp for each byte:

- a tile that no two warps hold copies of is accessed by the same warps, element by element, where
  layout and addresses agree, and no two elements have one address (rows apart by a number that only
  the launch knows may overlap themselves);
- a scalar is written by thread 0; what is read of it is read by all, but where nobody else needs it
  (it only goes into what thread 0 writes), what the others read does not matter;
- addresses that differ by a number, or that are ranges which do not meet, are apart.

Addresses are compared as affine forms. Names in a form that change from round to round mean
something else in the round before. What is pending from there is compared by what stays the same
while the loop runs, and by the round's number, which is smaller by one at least: what moves on by a
tile's width or more in each round meets nothing of the rounds before.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from workbench.analysis.affine import Affine, tile_forms
from workbench.analysis.distinct import ends_of, is_one_to_one, moving_part, without_steps
from workbench.analysis.forms import Atom, Form, Monomial
from workbench.analysis.memory import Memory
from workbench.ir import Effect, Module, Op, Pointer, Value, element_of, layout_of, shape_of, walk
from workbench.ops import pointee_of
from workbench.targets.simt.corners import is_known

#: Names that mean one thing throughout a program.
_FIXED = frozenset(("arg", "pid", "programs", "x"))


@dataclass(frozen=True, slots=True)
class Access:
    """One access of an op to global memory; `earlier`: in rounds of these loops before this one."""

    op: Op
    effect: Effect
    earlier: tuple[Op, ...] = ()


@dataclass(frozen=True, slots=True)
class Doubt:
    """Two accesses that meet only if two arguments lie less than `bytes` apart.

    With `but_equal` they do not meet either if the arguments start at one address.
    """

    one: Value
    two: Value
    bytes: int
    but_equal: bool


@dataclass(frozen=True, slots=True)
class Overlap:
    """Two accesses through tiles of pointers that meet only if the bytes between their ends do."""

    first: Access
    second: Access


class Hazards:
    """Compares the accesses of a module of GPU IR."""

    def __init__(self, module: Module, used: AbstractSet[Value]) -> None:
        self._module = module
        self._used = used
        self._memory = Memory(module)
        self._parameters = {p.name: p.value for p in module.parameters}
        self._affine: Affine | None = None
        self._users: dict[Value, list[Op]] | None = None
        self._private: dict[Value, bool] = {}
        #: By loop: what its rounds make, what it carries aside.
        self._inside: dict[Op, AbstractSet[Value]] = {}

    def roots(self, effect: Effect) -> list[str]:
        """Return the names of the arguments behind an access."""
        return sorted(self._memory.roots(effect))

    def is_settled(self, access: Access) -> bool:
        """Say whether no program writes the arguments that an access touches."""
        return self._memory.is_settled(access.effect)

    def meet(self, first: Access, second: Access) -> bool:
        """Say whether different warps may touch a byte with the two, one of them writing."""
        one, two = first.effect, second.effect
        if not (one.writes or two.writes) or not self._memory.may_meet(one, two):
            return False
        if self._commute(first.op, second.op):
            return False
        if one.through is None or two.through is None or one.later or two.later:
            return True
        if self._by_first_thread(first) and self._by_first_thread(second):
            return False
        earlier = (*first.earlier, *second.earlier)
        a, b = self._form(one.through, earlier), self._form(two.through, earlier)
        if a is not None and b is not None:
            return not (
                self._same_warps(one, two, a, b) or self._are_apart(one.through, two.through, a, b)
            )
        return not self._have_moved_on(first, second)

    def doubt(self, first: Access, second: Access) -> Doubt | None:
        """Return what decides whether two accesses that may meet do; None if more than that.

        They go through different arguments, by the same offsets from where these begin.
        """
        one, two = first.effect, second.effect
        if one.through is None or two.through is None or one.later or two.later:
            return None
        earlier = (*first.earlier, *second.earlier)
        a, b = self._form(one.through, earlier), self._form(two.through, earlier)
        here, there = (self._memory.roots(effect) for effect in (one, two))
        if a is None or b is None or here == there or len(here) != 1 or len(there) != 1:
            return None
        starts = [self._parameters.get(name) for name in (*here, *there)]
        same_shape = shape_of(one.through.type) == shape_of(two.through.type)
        same_element = element_of(one.through.type) == element_of(two.through.type)
        if starts[0] is None or starts[1] is None or not same_shape or not same_element:
            return None
        p, q = (self._form(value) for value in starts if value is not None)
        reach = _reach(a, one.through)
        if p is None or q is None or reach is None or a - p != b - q:
            return None
        size = (reach[1] - reach[0] + 1) * pointee_of(one.through.type).itemsize
        alike = self._same_layout(one, two) and is_one_to_one(a, shape_of(one.through.type))
        return Doubt(starts[0], starts[1], size, but_equal=alike)

    def overlap(self, first: Access, second: Access) -> Overlap | None:
        """Return what decides whether two accesses through different arguments meet, if ends do.

        Each goes straight along its axes, so that its ends are where the tile's corners are, and
        these can be computed from numbers. None where it is not so.
        """
        one, two = first.effect, second.effect
        here, there = (self._memory.roots(effect) for effect in (one, two))
        if first.earlier or second.earlier or here == there or len(here) != 1 or len(there) != 1:
            return None
        for effect in (one, two):
            pointers = effect.through
            if (
                pointers is None
                or effect.later
                or not isinstance(element_of(pointers.type), Pointer)
            ):
                return None
            form = self._form(pointers)
            if form is None or not is_known(pointers, ()) or not all(map(_is_straight, form.terms)):
                return None
        return Overlap(first, second)

    def are_arguments_apart(self, first: Access, second: Access) -> bool:
        """Say whether two accesses through tiles of pointers meet only if two arguments overlap."""
        effects = first.effect, second.effect
        here, there = (self._memory.roots(effect) for effect in effects)
        single = len(here) == len(there) == 1 and here != there
        return single and all(
            effect.through is not None
            and not effect.later
            and isinstance(element_of(effect.through.type), Pointer)
            for effect in effects
        )

    def _commute(self, first: Op, second: Op) -> bool:
        """Say whether nobody could tell which of two updates came first."""
        results = (*first.results, *second.results)
        return first.commutes(second) and self._used.isdisjoint(results)

    @property
    def facts(self) -> Affine:
        """The forms of the module, found when somebody asks."""
        if self._affine is None:
            self._affine = tile_forms(self._module)
        return self._affine

    def _form(self, pointers: Value, earlier: tuple[Op, ...] = ()) -> Form | None:
        form = self.facts.form(pointers)
        if form is None or (earlier and not all(map(_stays_fixed, form.atoms()))):
            return None
        return form

    @staticmethod
    def _same_warps(one: Effect, two: Effect, a: Form, b: Form) -> bool:
        """Say whether each element of both is touched by one warp, the same in both."""
        if a != b or not Hazards._same_layout(one, two):
            return False
        assert one.through is not None
        return is_one_to_one(a, shape_of(one.through.type))

    @staticmethod
    def _same_layout(one: Effect, two: Effect) -> bool:
        """Say whether two tiles are held alike, by one warp each element."""
        assert one.through is not None
        assert two.through is not None
        layout = layout_of(one.through.type)
        if layout is None or layout != layout_of(two.through.type):
            return False
        return not layout.owners().get("warp")

    def _are_apart(self, one: Value, two: Value, a: Form, b: Form) -> bool:
        """Say whether no element of one access is one of the other's.

        Either they lie a known number of elements apart, farther than both reach, or so does what
        is left of them when all is taken away that counts in steps of some size: no such step leads
        from one to the other. `48 * (i // 3) + i % 3 + 3 * c` differs for each c by 1 to 47.
        """
        if element_of(one.type) != element_of(two.type):
            return False
        sizes = {abs(c) for form in (a, b) for m, c in form.terms.items() if m and abs(c) > 1}
        return any(self._are_apart_in_steps(one, two, a, b, size) for size in (0, *sizes))

    def _are_apart_in_steps(self, one: Value, two: Value, a: Form, b: Form, size: int) -> bool:
        """Say so of what is left without steps of a size; 0: of all."""
        mine, theirs = (without_steps(form, size) for form in (a, b))
        distance = (mine - moving_part(mine) - theirs + moving_part(theirs)).constant
        here, there = _reach(mine, one), _reach(theirs, two)
        if distance is None or here is None or there is None:
            return False
        low, high = distance + here[0] - there[1], distance + here[1] - there[0]
        if size:
            return -(-low // size) * size > high  # the next step up from the lower end
        return low > 0 or high < 0

    def _have_moved_on(self, first: Access, second: Access) -> bool:
        """Say whether the second access lies behind, or in front of, the first in rounds before.

        Both go on by one number of elements in each round, and by nothing else that changes while
        the loop runs.
        """
        one, two = first.effect.through, second.effect.through
        if len(first.earlier) != 1 or second.earlier or one is None or two is None:
            return False
        (loop,) = first.earlier
        a, b = self._form(one), self._form(two)
        if a is None or b is None or element_of(one.type) != element_of(two.type):
            return False
        step = _step(a, loop)
        if not step or step != _step(b, loop) or not self._stay(a, loop) or not self._stay(b, loop):
            return False
        distance = (b - moving_part(b) - a + moving_part(a)).constant
        before, now = _reach(a, one), _reach(b, two)
        if distance is None or before is None or now is None:
            return False
        # After one round; after more of them it is farther.
        nearest = distance + step
        return nearest + now[0] > before[1] if step > 0 else nearest + now[1] < before[0]

    def _stay(self, form: Form, loop: Op) -> bool:
        """Say whether all that a form names means one thing while a loop runs, its rounds aside."""
        if loop not in self._inside:
            ops = [op for region in loop.regions for op in walk(region)]
            regions = [region for op in ops for region in op.regions]
            made = {value for op in ops for value in op.results}
            self._inside[loop] = made.union(*(region.arguments for region in regions))
        values = self._inside[loop]
        for atom in form.atoms():
            named = atom.kind in ("trip", "trips", "value")
            if atom.kind in _FIXED or (named and atom.key not in values):
                continue
            if not atom.parts or not all(self._stay(part, loop) for part in atom.parts):
                return False
        return True

    # -- thread 0 -------------------------------------------------------------------------
    def _by_first_thread(self, access: Access) -> bool:
        """Say whether thread 0 makes an access, or nobody minds what the others read."""
        effect = access.effect
        if effect.through is None or shape_of(effect.through.type):
            return False
        if effect.writes or effect.order != "plain":
            return True
        return all(map(self._is_private, access.op.results))

    def _is_private(self, value: Value) -> bool:
        """Say whether only thread 0 needs a value: all it leads to are scalars that are written."""
        known = self._private.get(value)
        if known is None:
            self._private[value] = False  # round a loop: somebody may need it
            known = all(map(self._keeps_private, self._users_of(value)))
            self._private[value] = known
        return known

    def _keeps_private(self, user: Op) -> bool:
        if user.ends_block or user.regions:
            return False
        if user.pure:
            scalars = all(not shape_of(result.type) for result in user.results)
            return scalars and all(map(self._is_private, user.results))
        effects = user.own_effects()
        return not user.results and all(
            e.space == "global" and e.writes and e.through is not None
            and not shape_of(e.through.type)
            for e in effects
        )  # fmt: skip

    def _users_of(self, value: Value) -> list[Op]:
        if self._users is None:
            self._users = {}
            for op in self._module.walk():
                for operand in op.operands:
                    self._users.setdefault(operand, []).append(op)
        return self._users.get(value, [])


def _is_straight(monomial: Monomial) -> bool:
    """Say whether what is added up goes straight along each axis, or not at all."""
    moving = [atom for atom in monomial if atom.axes]
    return len(moving) < 2 and all(atom.kind == "x" for atom in moving)


def _step(form: Form, loop: Op) -> int:
    """Return by how many elements a form goes on in each round of a loop; 0 if that is no number.

    Nothing else of it may depend on the round.
    """
    steps = {m: c for m, c in form.terms.items() if any(_names(atom, loop) for atom in m)}
    alone = [c for m, c in steps.items() if len(m) == 1 and m[0].kind == "trip"]
    return alone[0] if len(steps) == len(alone) == 1 else 0


def _names(atom: Atom, loop: Op) -> bool:
    """Say whether an atom is the number of a loop's round, or made of it."""
    if atom.kind in ("trip", "value"):
        return any(atom.key in region.arguments for region in loop.regions)
    return any(_names(inner, loop) for part in atom.parts for inner in part.atoms())


def _reach(form: Form, pointers: Value) -> tuple[int, int] | None:
    """Return how far below and above its fixed part a tile's addresses go, in elements."""
    low = high = 0
    for monomial, coefficient in moving_part(form).terms.items():
        ends = ends_of(monomial[0], shape_of(pointers.type)) if len(monomial) == 1 else None
        if ends is None:
            return None
        far = [coefficient * end for end in ends]
        low, high = low + min(far), high + max(far)
    return low, high


def _stays_fixed(atom: Atom) -> bool:
    """Say whether an atom means one thing throughout a program, or is made of such."""
    if atom.kind in _FIXED:
        return True
    return bool(atom.parts) and all(_stays_fixed(a) for part in atom.parts for a in part.atoms())


def words_of(first: Access, second: Access) -> str:
    """Say why the second access must not overtake the first."""
    did = "written" if first.effect.writes else "read"
    does = "writes" if second.effect.writes else "reads"
    return f"it {does} memory that other warps may not have {did} yet"
