"""Values, ops and blocks: the nodes of the IR, all immutable (a kernel of them: module.py).

An op is a class whose annotated fields declare what it has, in the order in which it is built
and printed:

    class Load(Op, mnemonic="tile.load"):
        pointers: Value                      # an operand
        mask: Value | None = None            # an optional operand
        cache: str = attribute(default="")   # an attribute (keyword only)

Field types: `Value`, `Value | None` and `tuple[Value, ...]` are operands, `Block` is a region,
anything else is an attribute. Building an op runs `verify`, then `infer`, whose types become the
results. An op and its values never change afterwards: passes make new ones (see rebuild.py).
"""

from __future__ import annotations

import sys
from collections.abc import Container, Iterable, Sequence
from dataclasses import InitVar, dataclass
from math import prod
from types import SimpleNamespace
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    Self,
    dataclass_transform,
    get_type_hints,
)

from workbench.ir.effects import ANYTHING, Effects
from workbench.ir.types import Type, shape_of
from workbench.layouts import LinearLayout
from workbench.source import Span

if TYPE_CHECKING:
    from workbench.ir.frame import Array, Frame


class Value:
    """What an op computes or a block receives; compared by identity.

    `op` is the op that computes it, None for a block argument or a kernel parameter;
    `hint` is the name it prints under.
    """

    __slots__ = ("hint", "index", "op", "type")

    def __init__(self, type: Type, hint: str = "", op: Op | None = None, index: int = 0) -> None:
        self.type = type
        self.hint = hint
        self.op = op
        self.index = index

    def __repr__(self) -> str:
        return f"%{self.hint or '?'}: {self.type}"


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """A list of ops with arguments; its last op says what it gives back (yield, return)."""

    arguments: tuple[Value, ...] = ()
    ops: tuple[Op, ...] = ()

    @property
    def terminator(self) -> Op:
        """The last op."""
        return self.ops[-1]

    @property
    def yields(self) -> tuple[Value, ...]:
        """Operands of the last op."""
        return self.ops[-1].operands


_MISSING: Any = object()
MNEMONICS: dict[str, type[Op]] = {}


@dataclass(frozen=True, slots=True)
class _Keyword:
    """What `attribute` leaves in the class body until the class is made."""

    default: Any


def attribute(*, default: Any = _MISSING, kw_only: Literal[True] = True, init: bool = True) -> Any:
    """Declare a keyword-only field of an op, with its default if it may be left out.

    `kw_only` and `init` (whether the constructor takes it) are read by type checkers.
    """
    return _Keyword(default)


Layouts = tuple[LinearLayout | None, ...]
#: Where an element of a tile is, () for a number.
Place = tuple[int, ...]
Role = Literal["operand", "optional", "operands", "region", "attribute"]


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """One declared field of an op class."""

    name: str
    role: Role
    default: Any
    keyword: bool

    @property
    def required(self) -> bool:
        """Whether building the op needs it."""
        return self.default is _MISSING


def _own_hints(cls: type) -> dict[str, Any]:
    """Return what the fields that a class adds are declared as; its bases were read already."""
    declared = {
        name: hint
        for name, hint in cls.__annotations__.items()
        if not str(hint).removeprefix("typing.").startswith("ClassVar")
    }
    own = SimpleNamespace(__annotations__=declared)
    return get_type_hints(own, vars(sys.modules[cls.__module__]), dict(vars(cls)))


def _role(hint: Any) -> Role:
    if hint is Value:
        return "operand"
    if hint == (Value | None):
        return "optional"
    if hint == tuple[Value, ...]:
        return "operands"
    return "region" if hint is Block else "attribute"


@dataclass_transform(field_specifiers=(attribute,), frozen_default=True, eq_default=False)
class _Declared:
    """Tells type checkers that annotated fields make the constructor; `Op` does it."""


class Broken(NamedTuple):
    """What the author said and does not hold: a "promise", an "assumption" or an "assertion".

    A "grouping" is what who combines elements promises of the function that does it.
    """

    kind: Literal["promise", "assumption", "assertion", "grouping"]
    message: str
    notes: tuple[str, ...] = ()


class Product(NamedTuple):
    """What an op reads whose only result is sums + a @ b, over their last two axes.

    With factors parts of a @ b are multiplied by them first.
    """

    a: Value
    b: Value
    sums: Value
    factors: Value | None = None


class Op(_Declared):
    """One operation; see the top of this file. `id` is 0 until a builder inserts it.

    `span` is the user's text it stands for, `origins` the ids of the ops it was made from.
    """

    mnemonic: ClassVar[str] = ""
    #: Mnemonics of a family that is one class (elementwise functions); empty for most ops.
    family: ClassVar[dict[str, dict[str, Any]]] = {}
    #: Whether it stands last in a block and says what the block gives back.
    ends_block: ClassVar[bool] = False
    #: Whether its regions may run again and again.
    repeats: ClassVar[bool] = False
    #: Whether its regions run at the same time, each on warps of its own.
    side_by_side: ClassVar[bool] = False
    #: Whether what it gives differs between the programs of a launch, whatever its operands.
    of_program: ClassVar[bool] = False
    #: Whether each round of its regions is another program of the launch.
    per_program: ClassVar[bool] = False
    #: Whether it begins what takes time elsewhere and waits for nothing: the sooner, the better.
    begins: ClassVar[bool] = False
    #: Whether floats among its results are values that it was given or read, never rounded ones.
    exact: ClassVar[bool] = False
    #: Whether an element of its result is computed from that element of each operand.
    pointwise: ClassVar[bool] = False
    #: Whether an element of its result is one of its only operand's, all of which are there.
    moves: ClassVar[bool] = False
    #: Whether its result is its only operand, held by other threads.
    converts: ClassVar[bool] = False
    #: Whether it pairs elements of two tiles on an axis of their own, or takes such pairs apart.
    pairs: ClassVar[bool] = False
    #: What `own_effects` gives where a class does not override it.
    _effects: ClassVar[Effects] = ANYTHING
    #: What the class declares, in order.
    fields: ClassVar[tuple[FieldSpec, ...]] = ()
    #: The names of the fields that hold its blocks.
    region_names: ClassVar[tuple[str, ...]] = ()
    operand_roles: ClassVar[dict[str, Role]] = {}

    id: int = attribute(default=0, init=False)
    span: Span | None = attribute(default=None)
    origins: tuple[int, ...] = attribute(default=())
    results: tuple[Value, ...] = attribute(default=(), init=False)
    #: All values it reads, in the order of its fields.
    operands: tuple[Value, ...] = attribute(default=(), init=False)
    #: The blocks it holds, in the order of its fields.
    regions: tuple[Block, ...] = attribute(default=(), init=False)
    #: Layouts that the results have in GPU IR, one per result; None leaves what `infer` gives.
    layouts: Layouts | None = attribute(default=None)
    #: The name that the results print under.
    hint: InitVar[str] = attribute(default="")

    def __init_subclass__(
        cls,
        mnemonic: str = "",
        effects: Effects | None = None,
        ends_block: bool = False,
        repeats: bool = False,
        exact: bool = False,
        pointwise: bool = False,
        moves: bool = False,
        converts: bool = False,
        pairs: bool = False,
        side_by_side: bool = False,
        of_program: bool = False,
        per_program: bool = False,
        begins: bool = False,
        **rest: Any,
    ) -> None:
        super().__init_subclass__(**rest)
        cls.mnemonic = mnemonic
        cls.ends_block = ends_block
        cls.repeats = repeats
        cls.exact = exact or moves
        cls.pointwise = pointwise
        cls.moves = moves
        cls.converts = converts
        cls.pairs = pairs
        cls.side_by_side = side_by_side
        cls.of_program = of_program
        cls.per_program = per_program
        cls.begins = begins
        if effects is not None:
            cls._effects = effects
        specs: list[FieldSpec] = []
        for name, hint in _own_hints(cls).items():
            default = cls.__dict__.get(name, _MISSING)
            keyword = isinstance(default, _Keyword)
            specs.append(
                FieldSpec(name, _role(hint), default.default if keyword else default, keyword)
            )
            if name in cls.__dict__:
                delattr(cls, name)
        cls.fields = tuple(specs)
        reading = ("operand", "optional", "operands")
        cls.operand_roles = {spec.name: spec.role for spec in specs if spec.role in reading}
        cls.region_names = tuple(spec.name for spec in specs if spec.role == "region")
        # As an assignment, type checkers would take it for the one constructor of all ops.
        type.__setattr__(cls, "__init__", _make_init(cls.fields))
        for name in [mnemonic, *cls.family]:
            if name in MNEMONICS:
                raise TypeError(f"two ops are called {name}")
            if name:
                MNEMONICS[name] = cls

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable; build a new op")

    # -- what each op defines -------------------------------------------------------------
    def at_peer(self, peer: int) -> Self | None:
        """Return the op as the program would run whose number differs from this one's in bits.

        None where nobody knows what that gives.
        """
        del peer
        return None if self.of_program else self

    def infer(self) -> Type | tuple[Type, ...] | None:
        """Return the type of the result, of the results, or None."""
        return None

    def verify(self) -> None:
        """Raise KernelError if operands or attributes do not fit together."""

    def interpret(self, frame: Frame) -> Array | tuple[Array, ...] | None:
        """Return the results' values; `frame[value]` is the array that a value holds now."""
        raise TypeError(f"{self.name} has no meaning of its own")

    def own_effects(self) -> Effects:
        """Return what this op does besides computing its results, its regions left aside."""
        return self._effects

    def flows(self) -> tuple[tuple[Value, Value], ...]:
        """Return (given, received) pairs of values that control flow hands on unchanged.

        A loop's start value is received by the argument of its body, and so on.
        """
        return ()

    def decided_by(self) -> tuple[Value, ...]:
        """Return the values that say which of its regions run and how often; () for most ops."""
        return ()

    def handed_on(self) -> tuple[tuple[Value, ...], ...]:
        """Return, for each result that control flow hands on, the arguments that hold it inside."""
        return ()

    def keeping(self, places: Sequence[int]) -> Op:
        """Return control flow that hands on the values of these results only.

        Nothing may use the others, nor the arguments that hold them.
        """
        raise TypeError(f"{self.name} hands nothing on")

    def multiplies(self) -> Product | None:
        """Return what a matrix product reads; None for all other ops."""
        return None

    def hinted(self, name: str) -> Any:
        """Return what the author asked of a loop by a name in `tl.range`; None for most ops."""
        return None

    def roundings(self) -> int:
        """Return how often a float result is rounded on its way through: the length of a sum.

        0 means that results are exactly what was given or read. Control flow gives 0; what its
        regions round is theirs.
        """
        return 0 if self.exact else 1

    @property
    def divisor(self) -> Value | None:
        """What integers are divided by, where the result is a quotient or a remainder of these."""
        return None

    def awaited(self) -> tuple[Value, int] | None:
        """Return the sums that this op waits for, and how many products may then be under way."""
        return None

    def buffer_moved(self) -> Value | None:
        """Return the buffer from or to which this op moves a tile as it is; None if it does not."""
        return None

    def in_layout(self, layout: LinearLayout) -> Self:
        """Return a copy whose only result has a layout; id, span, origins and name are kept."""
        return self.changed(layouts=(layout,))

    def reads_beyond(self, buffer: Value) -> bool:
        """Whether it may read bytes of a padded buffer that hold no element of its tile."""
        return True

    @property
    def registers_beside(self) -> int:
        """Registers of a thread that an op fills beside what it reads and gives."""
        return 0

    def commutes(self, other: Op) -> bool:
        """Whether memory is the same in the end whichever of the two comes first."""
        return False

    def broken(self, frame: Frame) -> Iterable[Broken]:
        """Say what of what the author claims, if the op claims anything, does not hold here."""
        return ()

    def place_before(self, place: Place) -> Place:
        """Return where an element of the result of an op that `moves` is in its operand."""
        return place

    @property
    def exchanges_axes(self) -> bool:
        """Whether the result is the transpose of a tile of two axes, and nothing else is done."""
        shape = shape_of(self.results[0].type) if self.moves and len(self.results) == 1 else ()
        if len(shape) != 2 or shape_of(self.operands[0].type) != shape[::-1]:
            return False
        corners = ((0, 0), (0, shape[1] - 1), (shape[0] - 1, 0))
        return all(self.place_before(place) == place[::-1] for place in corners)

    def element_from(self, place: Place) -> tuple[tuple[Value, Place], ...] | None:
        """Return the elements of operands that alone decide the result's element at a place.

        None if there is more to it (a sum, memory) or nothing is known.
        """
        if self.pointwise:
            return tuple((v, place if shape_of(v.type) else ()) for v in self.operands)
        return ((self.operands[0], self.place_before(place)),) if self.moves else None

    def element(self, place: Place, given: Sequence[Value]) -> Op | Value:
        """Return the result's element at a place as a number, or an op that computes it.

        `given`: the elements that `element_from` names, as numbers.
        """
        return self.duplicate(given) if self.pointwise else given[0]

    def holds_with(self) -> tuple[Value, ...] | None:
        """Return i1 values: the result holds everywhere exactly if all of them do.

        None if only the result itself says.
        """
        return self.operands if self.moves else None

    def where_on(self, masks: Container[Value]) -> Op | Value:
        """Return what the op comes down to where these masks hold everywhere; itself at least."""
        return self

    # -- what all ops have ----------------------------------------------------------------
    @property
    def name(self) -> str:
        """The mnemonic this op prints under."""
        return self.mnemonic

    @property
    def result(self) -> Value:
        """The only result."""
        (value,) = self.results
        return value

    def effects(self) -> Effects:
        """Return what this op and the ops in its regions do besides computing results."""
        known = self.__dict__.get("_all_effects")
        if known is None:
            found = dict.fromkeys(self.own_effects())
            for region in self.regions:
                for op in region.ops:
                    found.update(dict.fromkeys(op.effects()))
            known = self.__dict__["_all_effects"] = tuple(found)
        return known

    @property
    def pure(self) -> bool:
        """Whether its results are all it gives: it may be dropped, merged, moved out of loops."""
        return not self.effects()

    @property
    def removable(self) -> bool:
        """Whether nobody misses it if nobody uses its results."""
        effects = self.effects()
        return not effects or all(effect.removable for effect in effects)

    @property
    def by_elements(self) -> bool:
        """Whether its results are made element by element of its operands, moved or not."""
        return self.moves or self.pointwise or self.pairs

    @property
    def spreads(self) -> bool:
        """Whether it `moves` elements to a larger tile, which has some of them several times."""
        return self.moves and prod(shape_of(self.result.type)) > prod(
            shape_of(self.operands[0].type)
        )

    @property
    def meets(self) -> bool:
        """Whether all threads of a block meet at it, whatever it is given."""
        return not self.operands and any(effect.is_meeting for effect in self.own_effects())

    @property
    def names_block(self) -> bool:
        """Whether it asks the hardware which block it is in, instead of which program this is."""
        return False

    @property
    def writes_memory(self) -> bool:
        """Whether it writes global memory itself, its regions left aside."""
        return any(e.writes and e.space == "global" for e in self.own_effects())

    @property
    def attributes(self) -> dict[str, Any]:
        """What it holds besides operands and regions, by name."""
        return {s.name: self.__dict__[s.name] for s in self.fields if s.role == "attribute"}

    def changed(self, **fields: Any) -> Self:
        """Return a copy with other fields; id, span, origins and result names are kept."""
        old = self.__dict__
        if self._reads_alike(fields):
            return self._reading(fields)
        values = {s.name: old[s.name] for s in self.fields}
        layouts = fields.pop("layouts", old["layouts"])
        values.update(fields)
        new = type(self)(**values, span=old["span"], origins=old["origins"], layouts=layouts)
        new.__dict__["id"] = old["id"]
        for mine, other in zip(new.results, self.results, strict=False):
            mine.hint = other.hint
        return new

    def _reads_alike(self, fields: dict[str, Any]) -> bool:
        """Say whether fields are operands of the types that this op reads.

        Then nothing is to be verified, and results have the types that they have.
        """
        old, roles = self.__dict__, self.operand_roles
        for name, new in fields.items():
            role, before = roles.get(name), old.get(name)
            if role is None or new is None or before is None:
                return False
            news, olds = (new, before) if role == "operands" else ((new,), (before,))
            if len(news) != len(olds) or not all(map(_alike, news, olds)):
                return False
        return True

    def _reading(self, fields: dict[str, Any]) -> Self:
        """Return a copy that reads other operands of the same types."""
        old, new = self.__dict__, object.__new__(type(self))
        d = new.__dict__
        operands: list[Value] = []
        for spec in self.fields:
            name, role = spec.name, spec.role
            held = d[name] = fields[name] if name in fields else old[name]
            if role == "operands":
                operands.extend(held)
            elif role == "operand" or (role == "optional" and held is not None):
                operands.append(held)
        d["operands"], d["regions"] = tuple(operands), old["regions"]
        for name in ("id", "span", "origins", "layouts"):
            d[name] = old[name]
        d["results"] = tuple(Value(r.type, r.hint, new, r.index) for r in old["results"])
        return new

    def noted(self, **fields: Any) -> Self:
        """Return a copy with other fields and this op's own results, so users need no change.

        For attributes on which results do not depend, and regions that yield what the old ones did.
        """
        new = self.changed(**fields)
        new.__dict__["results"] = self.results
        return new

    def with_operands(self, operands: Sequence[Value], **fields: Any) -> Self:
        """Return the op reading other values, one for each of its operands; see `changed`."""
        return self.changed(**self._as_fields(operands), **fields)

    def duplicate(self, operands: Sequence[Value], **fields: Any) -> Self:
        """Return a second op like this one: a builder gives it an id, its origin is this op."""
        new = self.with_operands(operands, **fields)
        new.__dict__["id"], new.__dict__["origins"] = 0, (self.id,)
        return new

    def _as_fields(self, operands: Sequence[Value]) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        start = 0
        for spec in self.fields:
            held = self.__dict__[spec.name]
            if spec.role == "operands":
                fields[spec.name] = tuple(operands[start : start + len(held)])
                start += len(held)
            elif spec.role == "operand" or (spec.role == "optional" and held is not None):
                fields[spec.name] = operands[start]
                start += 1
        if start != len(operands):
            raise ValueError(f"{self.name} has {start} operands, not {len(operands)}")
        return fields

    def __repr__(self) -> str:
        return f"<{self.name} #{self.id}>"


def _alike(a: Value, b: Value) -> bool:
    return a is b or a.type is b.type or a.type == b.type


def _make_init(specs: tuple[FieldSpec, ...]) -> Any:
    """Write the constructor out: fields straight into __dict__, then verify and infer.

    Passes ask each op for its operands and regions again and again: they stand there, too.
    """
    positional = [s for s in specs if not s.keyword]
    keyword = [s for s in specs if s.keyword]
    defaults = {f"_d_{s.name}": s.default for s in specs if not s.required}
    words = [s.name if s.required else f"{s.name}=_d_{s.name}" for s in positional]
    words += ["*"]
    words += [s.name if s.required else f"{s.name}=_d_{s.name}" for s in keyword]
    words += ["span=None", "origins=()", "hint=''", "layouts=None"]
    body = "".join(f"    d[{s.name!r}] = {s.name}\n" for s in specs)
    taken = {"operand": "{},", "operands": "*{},", "optional": "*(() if {0} is None else ({0},)),"}
    read = "".join(taken[s.role].format(s.name) for s in specs if s.role in taken)
    held = "".join(f"{s.name}," for s in specs if s.role == "region")
    body += f"    d['operands'] = ({read})\n    d['regions'] = ({held})\n"
    text = f"def __init__(self, {', '.join(words)}):\n    d = self.__dict__\n{body}"
    text += "    _finish(self, d, span, origins, hint, layouts)\n"
    scope: dict[str, Any] = {**defaults, "_finish": _finish}
    exec(text, scope)
    return scope["__init__"]


def _finish(
    op: Op,
    d: dict[str, Any],
    span: Span | None,
    origins: tuple[int, ...],
    hint: str,
    layouts: Layouts | None,
) -> None:
    d["id"], d["span"], d["origins"], d["layouts"] = 0, span, origins, layouts
    op.verify()
    types = op.infer()
    if layouts is not None:
        types = _laid_out(types, layouts)
    if types is None:
        d["results"] = ()
    elif isinstance(types, tuple):
        d["results"] = tuple(Value(t, hint, op, i) for i, t in enumerate(types))
    else:
        d["results"] = (Value(types, hint, op, 0),)


def _laid_out(
    types: Type | tuple[Type, ...] | None, layouts: Layouts
) -> Type | tuple[Type, ...] | None:
    if isinstance(types, tuple):
        return tuple(held.with_layout(layout) for held, layout in zip(types, layouts, strict=False))
    return types if types is None else types.with_layout(layouts[0])
