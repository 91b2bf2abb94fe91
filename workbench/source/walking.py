"""Follows what functions and values hold; `captures.py` says what counts."""

from __future__ import annotations

import os
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, cast

from workbench.source.digests import Arrays, unique_text
from workbench.source.environment import READING, is_environment, watch_environment
from workbench.source.kernels import KernelSource, kernel_source
from workbench.source.looking import (
    OURS,
    dict_of,
    form_of,
    inherits_plain,
    is_a,
    is_constexpr,
    is_enum,
    is_enum_class,
    is_installed,
    is_library_function,
    is_library_module,
    is_made,
    is_our_type,
    is_ours,
    is_plain,
    is_silent,
    is_tensor,
    is_users_type,
    items_of,
    kind_of,
    members_of,
    module_dict,
    mro_of,
    name_of_type,
    opaque_text,
    own_dict,
    plain_text,
    says_all,
    slots_of,
    source_of,
)
from workbench.source.lookups import (
    content_of,
    has_names,
    hidden_in,
    is_bound,
    is_code,
    is_data,
    is_special,
    member_of,
    slot_or_absent,
    spaces_of,
)
from workbench.source.mentioned import (
    CALLED,
    Chain,
    asks_by_name,
    code_text,
    computes_names,
    mentioned,
    names_in_text,
)
from workbench.source.watched import (
    ABSENT,
    Guard,
    Watched,
    holds,
)


@dataclass(slots=True)
class Captures:
    """All device functions that a kernel can reach (itself first) and the values they read.

    `values` holds (where, text) pairs that are equal where the values are; `guards` holds
    (namespace, name, object): as long as every name still means that very object, nothing changed.
    `read` holds the same of what functions look up by name outside themselves.
    """

    sources: list[KernelSource] = field(default_factory=list[KernelSource])
    values: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    guards: list[Guard] = field(default_factory=list[Guard])
    read: list[Guard] = field(default_factory=list[Guard])

    def unchanged(self) -> bool:
        """Say whether every captured name still means what it meant."""
        return all(map(holds, self.guards))


#: The most things that are looked at.
_MOST_PARTS = 20_000


@dataclass(slots=True)
class _Holder:
    """A module, a class or an object on which names are looked up.

    `names` are those that a function looks up on it by itself; where it is `open` it gets about,
    and all names that any function mentions count; where `all` is set, whatever it has.
    """

    where: str
    thing: Any
    names: set[str] = field(default_factory=set[str])
    done: set[str] = field(default_factory=set[str])
    open: bool = False
    all: bool = False


class Walk:
    """Writes down what one thing after the other reaches, each once.

    What a thing holds waits in a list: objects may be linked as deep as they like.
    """

    def __init__(self, *, everything: bool = False) -> None:
        self.found = Captures()
        self._watched = Watched()
        #: What has been looked at, by id: where it was met, and the thing itself, which stays.
        self._seen: dict[int, tuple[str, Any]] = {}
        #: What waits, the next one last, and what the thing at hand holds, in order.
        self._waiting: list[tuple[str, Any, bool]] = []
        self._held: list[tuple[str, Any, bool]] = []
        self._holders: dict[int, _Holder] = {}
        #: Those on which there are names to look up.
        self._fresh: list[_Holder] = []
        #: Names of attributes that any function mentions; whether some function looks at all.
        self._names: set[str] = set()
        self._everything = everything
        #: Texts in code: what may name a variable of the environment, which somebody reads or not.
        self._texts: set[str] = set()
        self._reads_environment = False
        #: Whether code that reads the environment may compute which variable.
        self._computes_variables = False
        self._visited: set[int] = set()
        self._arrays = Arrays(self._say, self._watched)

    def take(self, value: Any) -> None:
        """Begin with a value."""
        self._push("", value)

    def finish(self) -> Captures:
        """Return what all that was begun with reaches."""
        before: Any = None
        while True:
            while self._held or self._waiting:
                self._waiting += reversed(self._held)
                self._held.clear()
                self._take(*self._waiting.pop())
            known = len(self._names), self._everything
            if known != before:  # for all that was met until now
                before, self._fresh = known, list(self._holders.values())
            if not self._fresh:
                break
            fresh, self._fresh = self._fresh, []
            for holder in fresh:
                self._look_up(holder)
        for holder in self._holders.values():
            self._watch(holder)
        if self._reads_environment:
            computed = self._everything or self._computes_variables
            for name, text in watch_environment(self._texts, self._watched, everything=computed):
                self._say(f"environment {name}", text)
        if self._watched:
            self.found.guards.append(self._watched.guard)
        return self.found

    def _push(self, where: str, value: Any, goes: bool = True) -> None:
        """Have a value looked at; `goes`: it may get anywhere, and is not only called."""
        self._held.append((where, value, goes))

    def _say(self, where: str, text: str) -> None:
        self.found.values.append((where, text))

    # -- functions ------------------------------------------------------------------------
    def visit(self, source: KernelSource) -> None:
        """Write down a function's text, its defaults, and what its names mean."""
        function = cast("types.FunctionType", source.function)
        if id(function) in self._visited:
            return
        self._visited.add(id(function))
        self.found.sources.append(source)
        if hasattr(function, "__wrapped__"):  # what can be read is what it wraps
            self._say(source.name, code_text(function.__code__))
        self._visit_code(source.name, function, source.names, source)

    def _visit_code(
        self,
        where: str,
        function: types.FunctionType,
        scope: Mapping[str, Any],
        source: KernelSource | None,
    ) -> None:
        read = mentioned(function.__code__)
        outer, attributes = dict(read.outer), read.attributes | read.texts
        if source is not None and source.edited:
            names, more = names_in_text(source)
            outer, attributes = dict.fromkeys([*outer, *names], _ITSELF), attributes | more
        self._names |= attributes
        self._texts |= read.variables
        if read.makes_texts and not READING.isdisjoint(read.attributes | outer.keys()):
            self._computes_variables = True
        if attributes & _LOOKING or not _VARS.isdisjoint(outer) or computes_names(outer, source):
            self._everything = True
        named = function.__kwdefaults__
        defaults = (*(function.__defaults__ or ()), *sorted(named.items() if named else ()))
        if defaults:
            self._push(f"{where} defaults", defaults)
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        captured: dict[str, Any] = {}
        for name, chains in outer.items():
            if name in cells:
                value = content_of(cells[name])
                if value is ABSENT:  # nothing yet
                    continue
                captured[name] = value
                self._watched.cell(cells[name], value)
                self.found.read.append((captured, name, value))
            elif name in scope:
                value = scope[name]
                if not (is_a(value, types.ModuleType) and is_ours(value)):
                    self.found.guards.append((scope, name, value))
                    self.found.read.append((scope, name, value))
            else:
                self.found.guards.append((scope, name, ABSENT))
                continue
            self._use(f"{where}.{name}", value, chains)

    def _take_function(self, where: str, function: types.FunctionType, goes: bool) -> None:
        self._say(where, f"function {_name_of_function(function)}")
        space = function.__globals__.get("__name__", "")
        if type(space) is str and space.partition(".")[0] in OURS:
            return
        if is_library_function(function):
            # A decorator's, perhaps: what it holds is the user's.
            for name, cell in zip(
                function.__code__.co_freevars, function.__closure__ or (), strict=True
            ):
                self._push(f"{where}.{name}", content_of(cell))
            if function.__dict__:
                self._open(where, function, all=True)
            if space in _LOOKING_MODULES and where[-2:] != "__":
                self._everything = True
            return
        try:
            source = kernel_source(function)
        except Exception:  # a lambda, code without text
            source = None
        if source is not None:
            self.visit(source)
        else:
            self._say(where, code_text(function.__code__))
            self._visit_code(where, function, function.__globals__, None)
        before = function.__defaults__
        if before is not None:
            self._watched.check((id(function), id(before)), lambda: function.__defaults__ is before)
        if goes:
            self._open(where, function)

    # -- names that are looked up ---------------------------------------------------------
    def _use(self, where: str, value: Any, chains: Iterable[Chain]) -> None:
        """Look at what an outer name means, as it is used."""
        if is_a(value, types.ModuleType) and is_ours(value):
            return
        chains = sorted(chains)
        if () in chains or not (is_constexpr(value) or has_names(value)):
            self._push(where, value, any(chain != (CALLED,) for chain in chains))
            return
        for chain in chains:
            self._follow(where, value, chain)

    def _follow(self, where: str, holder: Any, chain: Chain) -> None:
        """Look at what `holder.a.b` means."""
        for place, name in enumerate(chain):
            if name == CALLED:
                self._push(where, holder, False)
                return
            if is_ours(holder):
                return
            if is_constexpr(holder):
                self._say(where, "constexpr")
                holder = holder.value
                if name == "value" and not has_names(holder):
                    continue
            if not has_names(holder):
                break
            found = self._find(where, holder, name)
            if found is None:
                return
            where, holder = f"{where}.{name}", found[0]
            if place + 1 < len(chain) and chain[place + 1] == CALLED:
                break
        self._push(where, holder, chain[-1] != CALLED)

    def _find(self, where: str, holder: Any, name: str) -> tuple[Any] | None:
        """Return what stands under a name, None where that is not for sure; and have it watched."""
        if is_a(holder, types.ModuleType):
            space = module_dict(holder)
            found = space.get(name, ABSENT)
            self.found.guards.append((space, name, found))
            if found is ABSENT and "__getattr__" in space:
                self._push(f"{where}.__getattr__", space["__getattr__"])
            return None if found is ABSENT else (found,)
        held = self._holder(where, holder)
        held.names.add(name)
        if is_a(holder, type):  # behind the first class that has it, `super()` may ask for it
            found = member_of(holder, name)
            if found is ABSENT:
                self._open(where, holder)
                return None
            if is_bound(found) and type(found) is not types.FunctionType:
                self._open(where, holder)  # a class method gets the class
            return (found,)
        held.done.add(name)
        kind = kind_of(holder)
        self._holder(f"{where}.__class__", kind).names.add(name)
        found, member = (dict_of(holder) or {}).get(name, ABSENT), member_of(kind, name)
        if type(member) is types.MemberDescriptorType:
            found = slot_or_absent(member, holder)
        elif member is not ABSENT and is_bound(member) and (found is ABSENT or is_data(member)):
            found = ABSENT
        elif found is ABSENT:
            found = member
        if found is ABSENT:  # what finds it, a method or `__getattr__`, gets the object
            held.done.discard(name)
            self._open(where, holder)
            return None
        return (found,)

    def _holder(self, where: str, thing: Any) -> _Holder:
        found = self._holders.get(id(thing))
        if found is None:
            found = self._holders[id(thing)] = _Holder(where, thing)
        self._fresh.append(found)
        return found

    def _open(self, where: str, thing: Any, *, all: bool = False) -> None:  # noqa: A002
        """Count all names that functions mention, or `all` that it has, of what gets about."""
        holder = self._holder(where, thing)
        holder.all = holder.all or all
        if holder.open:
            return
        holder.open = True
        if is_a(thing, type):
            self._open_class(where, thing)
        elif is_users_type(kind_of(thing)):
            self._push(f"{where}.__class__", kind_of(thing))

    def _open_class(self, where: str, kind: type) -> None:
        """Count the special methods of a class, which run where nobody calls them by name."""
        holder = self._holder(where, kind)
        for one in (*mro_of(kind), *mro_of(type(kind))):
            if not is_users_type(one) or is_installed(one):
                continue
            special = filter(is_special, own_dict(one))
            holder.names.update(name for name in special if is_code(own_dict(one)[name]))
        if any(is_our_type(one) for one in mro_of(kind)):
            holder.names |= _OF_AGGREGATES
        if is_enum_class(kind):
            self._push(f"{where}._member_map_", own_dict(kind).get("_member_map_"))

    def _look_up(self, holder: _Holder) -> None:
        """Look up the names on a holder that were not."""
        names = self._wanted(holder) - holder.done
        holder.done |= names
        for space in spaces_of(holder.thing):
            for name in sorted(names & space.keys() if len(space) > 8 else names):
                found = space.get(name, ABSENT)
                if found is not ABSENT and not (
                    is_a(found, types.ModuleType) and is_a(holder.thing, types.ModuleType)
                ):
                    self._push(f"{holder.where}.{name}", found, not is_a(holder.thing, type))

    def _wanted(self, holder: _Holder) -> set[str]:
        if not holder.open:
            return set(holder.names)
        names = holder.names | self._names
        if (holder.all or self._everything) and not is_a(holder.thing, types.ModuleType):
            names |= {
                name
                for space in spaces_of(holder.thing)
                for name in space
                if type(name) is str and not (is_a(holder.thing, type) and is_special(name))
            }
        return names

    def _watch(self, holder: _Holder) -> None:
        """Have a launch ask whether names still mean on a holder what they meant."""
        thing, names = holder.thing, self._wanted(holder)
        if is_a(thing, types.ModuleType):
            space = module_dict(thing)
            for name in sorted(names & space.keys()):
                if not is_a(space[name], types.ModuleType):
                    self._watched.entry(thing, space, name, space[name])
            return
        if is_a(thing, type):
            for kinds in (mro_of(thing), mro_of(kind_of(thing))):
                users = filter(is_users_type, kinds)
                self._watch_spaces([(one, own_dict(one)) for one in users], names)
            return
        self._watch_object(holder, names)

    def _watch_object(self, holder: _Holder, names: set[str]) -> None:
        thing = holder.thing
        space = dict_of(thing)
        if space is not None:
            self._watch_spaces([(thing, space)], names)
            for name, hidden in hidden_in(thing).items():
                self._watched.entry(thing, space, name, hidden)
                self._watch_spaces([(hidden, hidden)], names)
            if holder.all or self._everything:
                keys = frozenset(space)
                self._watched.check((id(space), keys), lambda: space.keys() == keys)
        for name, member in sorted(slots_of(thing).items()) if is_made(kind_of(thing)) else ():
            if name in names:
                before = slot_or_absent(member, thing)
                self._watched.check(
                    (id(thing), name, id(before)),
                    lambda member=member, before=before: slot_or_absent(member, thing) is before,
                )

    def _watch_spaces(self, spaces: Sequence[tuple[Any, Any]], names: set[str]) -> None:
        """Watch names of (owner, dict) pairs.

        Not only of the first that has one, for `super()` asks the next.
        """
        for owner, space in spaces:
            here = names & space.keys()
            for name in sorted(here):
                self._watched.entry(owner, space, name, space[name])
            self._watched.absent(owner, space, names - here)

    # -- values ---------------------------------------------------------------------------
    def _take(self, where: str, value: Any, goes: bool) -> None:
        """Write down what a value is, and have what it holds looked at."""
        self._note_texts(value)
        if is_plain(value):
            self._say(where, plain_text(value))
        elif is_a(value, types.ModuleType):
            self._reads_environment |= goes and is_environment(value)
            if goes and not is_ours(value) and not is_library_module(value):
                self._open(where, value)
        elif (before := self._seen.get(id(value))) is not None:
            self._say(where, f"as {before[0]}")
            if goes and type(value) is types.FunctionType and not is_library_function(value):
                self._open(before[0], value)
        elif len(self._seen) > _MOST_PARTS:
            self._say(where, unique_text())
        else:
            self._seen[id(value)] = where, value
            if is_environment(value):
                self._reads_environment = True
            else:
                self._everything = self._everything or asks_by_name(value)
                self._take_new(where, value, goes)

    def _note_texts(self, *values: Any) -> None:
        """Write down texts, which may name variables of the environment."""
        for value in values:
            if is_a(value, str):
                self._texts.add(str.__str__(value))
            elif type(value) is bytes:
                self._texts.add(os.fsdecode(value))

    def _take_new(self, where: str, value: Any, goes: bool) -> None:
        source = source_of(value)
        if source is not None:
            self._say(where, f"device function {source.name}")
            self.visit(source)
        elif is_a(value, type):
            self._say(where, name_of_type(value))
            if is_users_type(value):
                self._open(where, value)
        elif type(value) is types.FunctionType:
            self._take_function(where, value, goes)
        elif is_our_type(kind_of(value)):
            self._take_ours(where, value)
        else:
            self._take_object(where, value)

    def _take_ours(self, where: str, value: Any) -> None:
        """Look at an object of the compiler's own: what it wraps is the user's."""
        kind = kind_of(value)
        if is_constexpr(value):
            self._say(where, "constexpr")
            self._push(where, value.value)
        elif hasattr(kind, "__compile_time__") or hasattr(kind, "kernel_source"):
            self._say(where, name_of_type(kind))
            for name in ("instance", "function", "fn"):
                if name in (dict_of(value) or {}):
                    self._push(f"{where}.{name}", vars(value)[name])
        else:
            self._take_object(where, value)

    def _take_object(self, where: str, value: Any) -> None:
        kind = kind_of(value)
        name = name_of_type(kind)
        if is_enum(value):
            self._holder(where, value).names.update(_OF_ENUMS)
        if is_silent(kind):
            self._say(where, name)
        elif is_a(value, types.CodeType):
            self._say(where, code_text(value))
        elif is_a(value, types.BuiltinFunctionType) and is_a(value.__self__, types.ModuleType):
            self._say(where, f"{value.__module__}.{value.__qualname__}")
        elif self._take_contents(where, name, value):
            if not is_tensor(value) and (is_users_type(kind) or dict_of(value)):
                self._open(where, value, all=not is_users_type(kind))
        elif is_users_type(kind):
            self._say(where, name)
            self._open(where, value)
        else:
            self._everything = self._everything or name in _LOOKING_TYPES
            self._take_library(where, name, value)

    def _take_contents(self, where: str, name: str, value: Any) -> bool:
        """Write down what a number, a container or an array holds; whether it is one."""
        if inherits_plain(value):
            self._say(where, f"{name} {plain_text(value)}")
        elif (items := items_of(value)) is not None:
            if (form := form_of(value)) is not None:  # an array of objects
                self._say(where, " ".join(map(str, form)))
                self._watched.check((id(value), str(form)), lambda: form_of(value) == form)
            self._take_items(where, name, value, tuple(items))
        else:
            return self._arrays.take(where, name, value)
        return True

    def _take_library(self, where: str, name: str, value: Any) -> None:
        """Look at an object of a library's class, whose code is not read: all of it counts."""
        space, members = dict_of(value), slots_of(value)
        if says_all(kind_of(value)) or not (space or members):
            self._say(where, f"{name} {opaque_text(value)}")
            return
        self._say(where, name)
        self._open(where, value, all=True)
        for special in sorted(member for member in members if is_special(member)):
            self._push(f"{where}.{special}", slot_or_absent(members[special], value))

    def _take_items(self, where: str, name: str, value: Any, items: tuple[Any, ...]) -> None:
        self._note_texts(*items)
        if not is_a(value, tuple, frozenset):
            self._watched.contents(value, tuple(items), _items)
        if is_a(value, set, frozenset):
            items = tuple(sorted(items, key=_order))
        if all(map(is_plain, items)):
            text = ", ".join(map(plain_text, items))
            if len(text) > 256:
                text = sha256(text.encode(errors="surrogatepass")).hexdigest()
            self._say(where, f"{name} of {len(items)}: {text}")
            return
        if len(items) > _MOST_PARTS:
            self._say(where, unique_text())
            return
        self._say(where, f"{name} of {len(items)}")
        if not is_a(value, dict, types.MappingProxyType):
            for number, item in enumerate(items):
                self._push(f"{where}.{number}", item)
            return
        half = len(items) // 2
        for number, (key, item) in enumerate(zip(items[:half], items[half:], strict=True)):
            if is_plain(key):
                self._push(f"{where}.{plain_text(key)}", item)
            else:
                self._push(f"{where}.{number}", (key, item))


#: A use of an outer name by itself.
_ITSELF: frozenset[Chain] = frozenset({()})
#: What looks at all attributes: names of built-in functions, of attributes, and modules.
_VARS = frozenset({"vars", "dir"})
_LOOKING = frozenset(
    {"__dict__", "__slots__", "__getattribute__", "__reduce__", "__reduce_ex__", "__getstate__",
     "format_map", "attrgetter", "methodcaller"}
)  # fmt: skip
_LOOKING_MODULES = frozenset(
    {"dataclasses", "copy", "pickle", "inspect", "pprint", "reprlib", "copyreg"}
)
_LOOKING_TYPES = frozenset({"operator.attrgetter", "operator.methodcaller"})
#: What a member of an enumeration is told apart by.
_OF_ENUMS = frozenset({"_name_", "_value_"})
#: What the compiler reads of a class of values that are several at once.
_OF_AGGREGATES = frozenset({"__operators__", "__fill__", "__draft__", "__defaults__"})


def _name_of_function(function: types.FunctionType) -> str:
    return f"{function.__globals__.get('__name__', '')}.{function.__qualname__}"


def _items(value: Any) -> Iterator[Any]:
    return cast("Iterator[Any]", items_of(value))


def _order(value: Any) -> str:
    """Return what a set's members are put in order by: not their hashes."""
    if is_plain(value) or inherits_plain(value):
        return f"{name_of_type(kind_of(value))} {plain_text(value)}"
    if is_a(value, tuple):
        return f"tuple {', '.join(map(_order, members_of(value)))}"
    if is_a(value, type):
        return name_of_type(value)
    if type(value) is types.FunctionType:
        return _name_of_function(value)
    return name_of_type(kind_of(value))
