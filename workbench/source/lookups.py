"""Finds what stands under a name on a module, a class or an object, and runs no code of theirs."""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any

from workbench.source.looking import (
    dict_of,
    has_own_lookup,
    inherits_plain,
    is_a,
    is_installed,
    is_tensor,
    is_users_type,
    items_of,
    kind_of,
    module_dict,
    mro_of,
    own_dict,
    slot,
    slots_of,
    source_of,
)
from workbench.source.watched import ABSENT


def content_of(cell: types.CellType) -> Any:
    """Return what a closure's cell holds, ABSENT while it is empty."""
    try:
        return cell.cell_contents
    except ValueError:
        return ABSENT


def slot_or_absent(member: Any, value: Any) -> Any:
    """Return what an object has in a slot, ABSENT where it has nothing."""
    try:
        return slot(member, value)
    except Exception:
        return ABSENT


def has_names(value: Any) -> bool:
    """Say whether names are looked up on a value one by one."""
    if is_a(value, types.ModuleType):
        return True
    if is_a(value, type):
        return is_users_type(value)
    kind = kind_of(value)
    if not is_users_type(kind) or is_tensor(value) or inherits_plain(value):
        return False
    return items_of(value) is None and not has_own_lookup(kind)


def spaces_of(thing: Any) -> list[Mapping[str, Any]]:
    """Return what a module, a class or an object has under names, by where they are looked for."""
    if is_a(thing, types.ModuleType):
        return [module_dict(thing)]
    if is_a(thing, type):
        kinds = (*mro_of(thing), *mro_of(kind_of(thing)))
        return [own_dict(one) for one in kinds if is_users_type(one)]
    found = {name: slot_or_absent(member, thing) for name, member in slots_of(thing).items()}
    held = {name: value for name, value in found.items() if value is not ABSENT}
    space = dict_of(thing) or {}
    return [space, *([held] if held else ()), *hidden_in(thing).values()]


def hidden_in(thing: Any) -> dict[str, dict[str, Any]]:
    """Return the dicts, by attribute, in which an object may keep what its class finds by code.

    That is for classes of installed packages, whose `__getattr__` is not read: `config.lr` may
    stand in `config._fields`.
    """
    kinds = mro_of(kind_of(thing))
    if not any(is_users_type(one) and _ASKED.intersection(own_dict(one)) and is_installed(one)
               for one in kinds):  # fmt: skip
        return {}
    space = dict_of(thing) or {}
    return {name: held for name, held in space.items() if type(held) is dict}


_ASKED = frozenset({"__getattr__", "__getattribute__", "__getitem__"})


def member_of(kind: type, name: str) -> Any:
    """Return what stands under a name in a class of a user's, or in what it inherits from."""
    spaces = (own_dict(one) for one in (*mro_of(kind), *mro_of(type(kind))) if is_users_type(one))
    return next((space[name] for space in spaces if name in space), ABSENT)


def is_special(name: Any) -> bool:
    """Say whether a name is one of Python's own, `__name__`."""
    return type(name) is str and name[:2] == "__" == name[-2:] and len(name) > 4


def is_bound(member: Any) -> bool:
    """Say whether a class's member gets the object on which it is looked up."""
    return type(member) is not staticmethod and any(
        "__get__" in own_dict(one) for one in mro_of(kind_of(member))
    )


def is_data(member: Any) -> bool:
    """Say whether a class's member counts before what an object has under its name."""
    kinds = mro_of(kind_of(member))
    return any("__set__" in own_dict(one) or "__delete__" in own_dict(one) for one in kinds)


def is_code(member: Any) -> bool:
    """Say whether a special member of a class is code of the user's, and not data about it."""
    kind = kind_of(member)
    return (
        is_a(member, types.FunctionType, staticmethod, classmethod, property)
        or source_of(member) is not None
        or (is_users_type(kind) and not inherits_plain(member) and items_of(member) is None)
    )
