"""What a kernel function takes from outside itself: other device functions, and plain values.

Both belong to the identity of a compilation. Names are read from the code object, so nothing is
parsed, and no code of the user's runs: values are looked at from outside (`looking.py`).

    m.C.B       of a module, a class, an object of a user's class counts what is looked up on it,
    f(q)        and of one that goes somewhere itself all that any function reached mentions:
                attributes that are read, and texts that may name one (`getattr(q, "n", 1)`)
    [q], {…}    what is in it, whatever it is
    an array    its bytes
    a function  its text, its defaults, and what its names mean in turn
    other       all its attributes, for code of libraries is not read

What is *not* there counts as well: a name that falls to a built-in function, a member that is
inherited, an attribute asked for with a default. Where code looks at all attributes (`vars`,
`asdict`, `getattr` with a computed name), all of them count. That costs at most a recompile.

Of the environment count the variables that texts of code name, or texts that it reads, and all
where code that reads it makes names or goes through it (`environment.py`); of an object of an
installed package's class also what stands under a mentioned name in its dicts, where that class has
a `__getattr__` or `__getitem__`.

Not followed: other special methods of classes from installed packages; names in texts to format;
the order that `move_to_end` gives; attributes put on kernels; `__class__`, `__bases__`, `__code__`
and `__dict__` given another value, and defaults given to a function that had none; what a function
imports itself or gets by C code from elsewhere (files, clocks, the environment of another process);
what is inside objects of C code that show nothing of it, locks, loggers, files and weak references;
arrays of over 64 MiB in all when they change in place, and on a GPU what changes without torch;
what is behind the first 20,000 things.

Arrays are compared with a copy: each compiled kernel keeps one of those it reads, and so does each
that was compiled before one changed.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from typing import Any

from workbench.source.kernels import KernelSource
from workbench.source.looking import (
    dict_of,
    is_a,
    is_constexpr,
    is_enum,
    is_plain,
    is_tensor,
    is_users_type,
    kind_of,
    members_of,
    name_of_type,
    plain_text,
    source_of,
)
from workbench.source.lookups import member_of
from workbench.source.walking import Captures as Captures
from workbench.source.walking import Walk
from workbench.source.watched import ABSENT


def captures(source: KernelSource) -> Captures:
    """Return what a kernel reaches, in an order that depends on the program text alone."""
    walk = Walk()
    walk.visit(source)
    return walk.finish()


def captures_of_value(value: Any) -> Captures:
    """Return what a compile-time value reaches; whoever gets it may look at all of it."""
    walk = Walk(everything=True)
    walk.take(value)
    return walk.finish()


def describe_value(value: Any) -> str:
    """Return a text that is the same for equal compile-time values, also in another process."""
    if is_plain(value):
        return plain_text(value)
    if is_a(value, tuple) and all(map(is_plain, members_of(value))):
        items = ", ".join(map(plain_text, members_of(value)))
        return f"{name_of_type(kind_of(value))}({items})"
    if is_enum(value):
        held = dict_of(value) or {}
        name = f"{name_of_type(kind_of(value))}.{held.get('_name_')}"
        if is_plain(held.get("_value_")):
            return f"{name}={plain_text(held['_value_'])}"
    return f"{name_of_type(kind_of(value))} {_text_of(captures_of(value))}"


def _text_of(found: Captures) -> str:
    parts = [source.text for source in found.sources]
    parts += [f"{where} {value}" for where, value in found.values]
    return sha256("\n".join(parts).encode(errors="surrogatepass")).hexdigest()


def reaching(value: Any) -> Iterator[Any]:
    """Yield what a compile-time value is or holds that may come to mean something else."""
    left = [value]
    while left:
        one = left.pop()
        if is_plain(one):
            continue
        if is_constexpr(one):
            left.append(one.value)
        elif (
            is_a(one, partial, types.FunctionType, types.MethodType)
            or is_users_type(one)
            or source_of(one) is not None
        ):
            yield one
        elif is_users_type(kind_of(one)):
            if not is_tensor(one) and member_of(kind_of(one), "data_ptr") is ABSENT:
                yield one
        elif is_a(one, tuple):
            left += reversed(tuple(members_of(one)))


def captures_of(value: Any) -> Captures:
    """Return what a device function, or what else `reaching` yields, reaches."""
    source = source_of(value)
    if source is not None:
        return captures(source)
    if type(value) is types.FunctionType:
        walk = Walk()
        walk.take(value)
        return walk.finish()
    return captures_of_value(value)
