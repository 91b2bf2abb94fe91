"""Looks at values without running any code of theirs: what they are, hold, and are called.

An object may answer `isinstance`, `getattr` or `repr` as it likes, or not at all. So its own type
is asked, the dicts of that type's classes, and the slots that these have.
"""

from __future__ import annotations

import enum
import struct
import sys
import types
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, cast

from workbench.source.budgets import exact_text
from workbench.source.kernels import KernelSource

#: Packages that are part of what compiles: their files' times are in keys.
OURS = ("workbench", "triton")
_NEVER_CHANGES = sys.stdlib_module_names - {"__main__"}
#: What no value depends on, though it holds much: it counts by its class.
_SILENT = {
    "_thread", "threading", "weakref", "_weakrefset", "logging", "io", "_io", "warnings", "queue",
    "asyncio", "_asyncio", "concurrent", "multiprocessing", "socket", "_socket", "contextvars",
    "_contextvars", "tempfile", "subprocess",
}  # fmt: skip
#: The flag of types that are made while a program runs.
_HEAP = 1 << 9

_MEMBER = types.MemberDescriptorType
_of_types: Any = vars(type)
_type_dict = _of_types["__dict__"].__get__
_type_mro = _of_types["__mro__"].__get__
_type_name = _of_types["__qualname__"].__get__
_type_flags = _of_types["__flags__"].__get__
_module_dict = vars(types.ModuleType)["__dict__"].__get__


#: Returns a value's own type, whatever the value says that its class is.
kind_of = cast("Callable[[Any], type[Any]]", type)


def is_a(value: Any, *kinds: type) -> bool:
    """Say whether a value's own type is one of these or inherits from one."""
    return issubclass(kind_of(value), kinds)


def own_dict(kind: type) -> types.MappingProxyType[str, Any]:
    """Return what stands in a class itself."""
    return _type_dict(kind)


def mro_of(kind: type) -> tuple[type, ...]:
    """Return a class and those that it inherits from."""
    return _type_mro(kind)


def module_dict(module: types.ModuleType) -> dict[str, Any]:
    """Return a module's names."""
    return _module_dict(module)


def module_of(kind: type) -> str:
    """Return the name of the module that a class says it is from."""
    if not is_made(kind):
        return kind.__module__
    found = own_dict(kind).get("__module__", "")
    return found if type(found) is str else ""


def name_of_type(kind: type) -> str:
    """Return a class's name with its module's."""
    return f"{module_of(kind)}.{_type_name(kind)}"


def is_our_type(kind: type) -> bool:
    """Say whether a class is part of what compiles."""
    return module_of(kind).partition(".")[0] in OURS


def is_users_type(kind: Any) -> bool:
    """Say whether this is a class made by a `class` statement, of nobody who never changes it."""
    if not is_a(kind, type) or not is_made(kind):
        return False
    top = module_of(kind).partition(".")[0]
    return top not in OURS and top not in _NEVER_CHANGES


def is_made(kind: type) -> bool:
    """Say whether a class was made while the program runs, as no class of plain C code is."""
    return bool(_type_flags(kind) & _HEAP)


def is_silent(kind: type) -> bool:
    """Say whether no value depends on what objects of a class hold: locks, loggers, files."""
    running = kind is types.GeneratorType or kind is types.CoroutineType or kind is types.FrameType
    return running or module_of(kind).partition(".")[0] in _SILENT


def is_ours(value: Any) -> bool:
    """Say whether a module, or a class, is part of what compiles."""
    if is_a(value, types.ModuleType):
        return module_name(value).partition(".")[0] in OURS
    return is_a(value, type) and is_our_type(value)


def module_name(module: types.ModuleType) -> str:
    """Return the name that a module says it has."""
    found = module_dict(module).get("__name__", "")
    return found if type(found) is str else ""


def is_library_module(module: types.ModuleType) -> bool:
    """Say whether a module belongs to the standard library."""
    return module_name(module).partition(".")[0] in _NEVER_CHANGES


def is_library_function(function: types.FunctionType) -> bool:
    """Say whether a function's code stands in the standard library."""
    name = function.__globals__.get("__name__", "")
    return type(name) is str and name.partition(".")[0] in _NEVER_CHANGES


def is_installed(kind: type) -> bool:
    """Say whether a class comes from an installed package."""
    name = module_of(kind)  # a notebook's or a test's own is run by what is installed
    module = sys.modules.get(name) if name != "__main__" else None
    file = module_dict(module).get("__file__") if type(module) is types.ModuleType else None
    return type(file) is str and ("site-packages" in file or "dist-packages" in file)


def has_own_lookup(kind: type) -> bool:
    """Say whether a user's class decides itself what its objects' attributes are."""
    users = (one for one in mro_of(kind) if is_users_type(one))
    return any("__getattribute__" in own_dict(one) for one in users)


# -- what values hold ---------------------------------------------------------------------
def dict_of(value: Any) -> dict[str, Any] | None:
    """Return the dict of an object's attributes, None where it has none."""
    for one in mro_of(kind_of(value)):
        member = own_dict(one).get("__dict__")
        if type(member) is types.GetSetDescriptorType or type(member) is _MEMBER:
            try:
                found = cast("Any", member).__get__(value)
            except (AttributeError, TypeError):
                return None
            return cast("dict[str, Any]", found) if type(found) is dict else None
    return None


def slots_of(value: Any) -> dict[str, Any]:
    """Return descriptors of what an object's classes keep outside dicts, by name."""
    found: dict[str, Any] = {}
    for one in mro_of(kind_of(value)):
        for name, member in own_dict(one).items():
            if type(member) is types.MemberDescriptorType and name[:2] != "__":
                found.setdefault(name, member)
    for kind, names in _MEMBERS:
        if type(value) is kind:
            found.update((name, own_dict(kind)[name]) for name in names)
    return found


#: Of what is not made by a `class` statement, the members that say what it is.
_MEMBERS: tuple[tuple[type, tuple[str, ...]], ...] = (
    (staticmethod, ("__func__",)), (classmethod, ("__func__",)),
    (types.MethodType, ("__func__", "__self__")), (types.BuiltinMethodType, ("__self__",)),
)  # fmt: skip


def slot(member: Any, value: Any) -> Any:
    """Return what a slot holds; raises AttributeError where it is empty."""
    return member.__get__(value, kind_of(value))


def items_of(value: Any) -> Iterator[Any] | None:
    """Return an iterator over what a container holds, whatever its class makes of iterating.

    Of dicts the keys, then the values. None for what is no container.
    """
    for kind, items in _ITEMS:
        if issubclass(kind_of(value), kind):
            return items(value)
    numpy = cast("Any", sys.modules.get("numpy"))
    if numpy is not None and is_a(value, numpy.ndarray):
        kind = numpy.ndarray
        return iter(kind.flat.__get__(value)) if kind.dtype.__get__(value).hasobject else None
    return None


def members_of(value: tuple[Any, ...]) -> Iterator[Any]:
    """Return what a tuple holds, whatever its class makes of iterating."""
    return tuple[Any, ...].__iter__(value)


def _items_of_dict(value: Any) -> Iterator[Any]:
    yield from dict[Any, Any].keys(value)
    yield from dict[Any, Any].values(value)


def _items_of_view(value: Any) -> Iterator[Any]:
    yield from types.MappingProxyType[Any, Any].keys(value)
    yield from types.MappingProxyType[Any, Any].values(value)


_ITEMS: tuple[tuple[Any, Callable[[Any], Iterator[Any]]], ...] = (
    (list, list[Any].__iter__), (tuple, members_of), (dict, _items_of_dict),
    (set, set[Any].__iter__), (frozenset, frozenset[Any].__iter__), (deque, deque[Any].__iter__),
    (types.MappingProxyType, _items_of_view),
)  # fmt: skip


def buffer_of(value: Any) -> memoryview | None:
    """Return the bytes of an array, None for what has none; a view keeps its array from growing."""
    if is_tensor(value):
        torch = cast("Any", sys.modules["torch"])
        value = torch.Tensor.as_subclass(value, torch.Tensor)
        if value.device.type != "cpu" or value.layout is not torch.strided:
            return None
        value = value.detach().contiguous().reshape(-1).view(torch.uint8).numpy()
    elif is_a(value, str, bytes) or _has_own_buffer(kind_of(value)):
        return None
    numpy = cast("Any", sys.modules.get("numpy"))
    if numpy is not None and is_a(value, numpy.ndarray):
        kind = numpy.ndarray
        if not _is_told(kind.dtype.__get__(value)):
            return memoryview(kind.tobytes(value))
    return memoryview(value)


def _is_told(dtype: Any) -> bool:
    """Say whether numpy shows the bytes of such an array, and not only copies of them."""
    dtype = dtype.base
    if dtype.names is not None:
        return all(_is_told(dtype.fields[name][0]) for name in dtype.names)
    return dtype.kind not in "mM"


def form_of(value: Any) -> tuple[Any, ...] | None:
    """Return the kind of an array's elements, its shape and its strides, None for no such array.

    Of NumPy's also what says nothing of the numbers, but can be asked for: whether it may be
    written to, and the metadata of its dtype, which equal ones may differ in.
    """
    numpy = cast("Any", sys.modules.get("numpy"))
    if numpy is not None and is_a(value, numpy.ndarray):
        kind = numpy.ndarray
        dtype, shape = kind.dtype.__get__(value), kind.shape.__get__(value)
        said = kind.flags.__get__(value).writeable, str(dtype.metadata)
        return dtype, shape, kind.strides.__get__(value), *said
    if numpy is not None and is_a(value, numpy.generic):
        return numpy.generic.dtype.__get__(value), (), ()
    if is_tensor(value):
        torch = cast("Any", sys.modules["torch"])
        value = torch.Tensor.as_subclass(value, torch.Tensor)
        if value.layout is torch.strided:
            return value.dtype, tuple(value.shape), value.stride()
        return value.dtype, tuple(value.shape), value.layout
    return None


def is_tensor(value: Any) -> bool:
    """Say whether this is torch's array."""
    torch = cast("Any", sys.modules.get("torch"))
    return torch is not None and hasattr(torch, "Tensor") and is_a(value, torch.Tensor)


def is_frozen(value: Any) -> bool:
    """Say whether nobody may write to an array, nor to what it is a view of."""
    numpy = cast("Any", sys.modules.get("numpy"))
    while numpy is not None and is_a(value, numpy.ndarray):
        if numpy.ndarray.flags.__get__(value).writeable:
            return False
        value = numpy.ndarray.base.__get__(value)
    return value is None or type(value) is bytes


def _has_own_buffer(kind: type) -> bool:
    return any("__buffer__" in own_dict(one) for one in mro_of(kind) if is_users_type(one))


# -- texts --------------------------------------------------------------------------------
#: By id: a class may compare, and hash, as its own class likes.
_PLAIN = frozenset(
    map(id, (type(None), bool, int, float, complex, str, bytes, type(...), type(NotImplemented),
             range))
)  # fmt: skip
_NUMBERS = (bool, int, float, complex, str, bytes)


def is_plain(value: Any) -> bool:
    """Say whether a value's text says everything of it."""
    return id(kind_of(value)) in _PLAIN


def plain_text(value: Any) -> str:
    """Return the text of a plain value, or of one that inherits from a plain class."""
    if is_a(value, int) and int.bit_length(value) > 4096:
        return exact_text(int.__index__(value))
    if is_a(value, float) and float.__ne__(value, value):
        return nan_text(value)
    kind: Any = next((one for one in _NUMBERS if issubclass(kind_of(value), one)), kind_of(value))
    return kind.__repr__(value)


def nan_text(value: float) -> str:
    """Return the text of a NaN, which says its sign and what else it holds.

    >>> nan_text(float("nan"))
    'nan 7ff8000000000000'
    """
    return f"nan {struct.pack('>d', value).hex()}"


def inherits_plain(value: Any) -> bool:
    """Say whether a value is a number or text of a class that inherits from a plain one."""
    return is_a(value, int, float, complex, str, bytes)


def opaque_text(value: Any) -> str:
    """Return what a library's own code says of a value; nothing where that has an address."""
    kind: Any = kind_of(value)
    if not _has_own_text(kind):
        return ""
    try:
        text = kind.__repr__(value)
    except Exception:  # whatever its own code does
        return ""
    return "" if type(text) is not str or "0x" in text else text


def _has_own_text(kind: type) -> bool:
    """Say whether a class has a text that is no user's code and more than an address."""
    for one in mro_of(kind):
        if "__repr__" in own_dict(one):
            return one is not object and not is_users_type(one)
    return False


def says_all(kind: type) -> bool:
    """Say whether the text of objects of a library's class says everything of them."""
    return module_of(kind).partition(".")[0] in _BY_TEXT


#: Modules of values that keep more than they say, so as to be quick.
_BY_TEXT = {
    "pathlib", "fractions", "decimal", "_decimal", "datetime", "uuid", "ipaddress", "re",
    "zoneinfo",
}  # fmt: skip


# -- kernels ------------------------------------------------------------------------------
def source_of(value: Any) -> KernelSource | None:
    """Return the text of a device function, or of one that runs at compile time, as data."""
    kind = kind_of(value)
    if not any(is_our_type(one) for one in mro_of(kind)):
        return None
    compile_time = getattr(kind, "__compile_time__", False)
    try:
        found = getattr(value, "text_source" if compile_time else "kernel_source", None)
    except Exception:  # a kernel that cannot be read
        return None
    return found if is_a(found, KernelSource) else None


def is_constexpr(value: Any) -> bool:
    """Say whether this is the wrapper of a compile-time value: ours, or an installed Triton's."""
    kind = kind_of(value)
    return is_our_type(kind) and _type_name(kind) == "constexpr"


def is_enum(value: Any) -> bool:
    """Say whether this is a member of an enumeration."""
    return is_a(value, enum.Enum)


def is_enum_class(value: Any) -> bool:
    """Say whether this is an enumeration."""
    return is_a(value, enum.EnumMeta)
