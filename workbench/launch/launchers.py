"""Launches: what runs a loaded kernel, and the generated code in front of it.

A *runner* is one loaded kernel on one device; calling it with the grid, the stream and the
run-time values starts it. Runners of a GPU are generated code that packs the values into a
prepared buffer and calls the driver.

A *launcher* is generated once per kernel and kind of arguments ("t" array, "i" integer, ...). It
reads addresses, dtypes and devices, tests the facts, looks up one table and calls the runner it
finds. Whatever it does not know goes to `slow`, which binds with care, compiles, words the errors
and adds an entry to the table. For a kernel `add(x_ptr, n, BLOCK)` it reads

    def launch(_grid, x_ptr=_d0, n=_d1, BLOCK=1024, *_extra, num_warps=_absent, ..., **_options):
        try:
            _p0 = x_ptr.data_ptr()
            _run = _table[x_ptr.dtype, x_ptr.get_device(), (_p0 & 15) == 0, n.__class__, ...]
        except Exception:
            _run = None
        if _run is None or ...:
            return _slow(_grid, ...)
        return _run(_grid[0], 1, 1, _stream(...), _p0, n)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from workbench.devices.streams import current_device, raw_stream
from workbench.launch.abi import Runner
from workbench.launch.conditions import Program, python_lines
from workbench.launch.descriptors import TensorDescriptor
from workbench.launch.exact_keys import exact_key
from workbench.launch.grids import Grid, resolve_grid
from workbench.launch.measures import measure_address, measure_integer, python_words
from workbench.source import KernelSource
from workbench.source.watched import ABSENT, Watched

# -- generated launchers ----------------------------------------------------------------------
#: What a launcher passes on for a parameter that a call leaves out.
NOT_GIVEN: Any = type("NotGiven", (), {"__repr__": lambda _: "<not given>"})()
#: Kinds of arguments that are part of the code.
CONSTANT = "czk"
#: Options that launchers take by name, whether or not a call gives them.
OPTIONS = ("num_warps", "num_stages")


def make_launcher(
    source: KernelSource,
    kinds: str,
    on_gpu: bool,
    table: dict[Any, Runner],
    slow: Callable[..., Any],
    guards: Sequence[tuple[Any, str, Any]],
    device: int = 0,
    *,
    options: Sequence[str] = OPTIONS,
    guarded: bool = False,
) -> Callable[..., Any]:
    """Return the launcher for one kind of arguments; see the top of this file.

    `options` are those that calls give by name. A guarded one hands on the arrays behind the
    values, for whoever asks for their storages.
    """
    text, names = launcher_text(
        source, kinds, on_gpu, guards, device, options=options, guarded=guarded
    )
    names |= {"_table": table, "_slow": slow, "_stream": raw_stream(), "_resolve": resolve_grid}
    names |= {"_flat": flattened, "_exact": exact_key, "_current": current_device}
    exec(compile(text, f"<launcher of {source.name}>", "exec"), names)
    return _worded(names["launch"], slow)


def _worded(launch: Callable[..., Any], slow: Callable[..., Any]) -> Callable[..., Any]:
    """Return a launcher that leaves calls to `slow` which Python itself refuses.

    They give an argument twice, by place and by name.
    """

    def called(grid: Any, /, *args: Any, **given: Any) -> Any:
        try:
            return launch(grid, *args, **given)
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise
        return slow(grid, {}, args, given)

    return called


def supports(source: KernelSource, kinds: str) -> bool:
    """Say whether calls of these kinds can be launched by generated code.

    Its own names begin with an underscore, so no parameter may.
    """
    names = [p.name for p in source.parameters]
    taken = not set(OPTIONS).isdisjoint(names)
    return "x" not in kinds and not taken and not any(name.startswith("_") for name in names)


def launcher_text(
    source: KernelSource,
    kinds: str,
    on_gpu: bool,
    guards: Sequence[tuple[Any, str, Any]],
    device: int = 0,
    *,
    options: Sequence[str] = OPTIONS,
    guarded: bool = False,
) -> tuple[str, dict[str, Any]]:
    """Return the launcher's text and the objects that it names."""
    names = [p.name for p in source.parameters]
    scope: dict[str, Any] = {"_absent": NOT_GIVEN}
    for number, parameter in enumerate(source.parameters):
        scope[f"_d{number}"] = NOT_GIVEN if parameter.required else parameter.default
    head = ", ".join(["_grid", *(f"{name}=_d{n}" for n, name in enumerate(names)), "*_extra"])
    tensors = [n for n, kind in enumerate(kinds) if kind == "t"]
    words = {"t": "_p{0}", "u": "*_v{0}"}
    values = [words.get(k, names[n]).format(n) for n, k in enumerate(kinds) if k not in CONSTANT]
    nested = [n for n, kind in enumerate(kinds) if kind == "u"]
    values += [names[n] for n in tensors if guarded]
    call = ", ".join(values)
    given = ", ".join(f"'{n}': {n}" for n in names)
    checks = ["_extra", "_options"]
    if tensors:  # a tensor without memory, which torch traces with, or an empty one
        checks.append(f"not ({' and '.join(f'_p{n}' for n in tensors)})")
    for number, (space, name, value) in enumerate(guards):
        scope[f"_s{number}"], scope[f"_g{number}"] = space, value
        if isinstance(space, Watched):
            checks.append(f"not _s{number}.unchanged()")
        elif value is ABSENT:
            checks.append(f"{name!r} in _s{number}")
        else:  # None may be a value, so that what is not there is something else
            other = f", _s{number}" if value is None else ""
            checks.append(f"_s{number}.get({name!r}{other}) is not _g{number}")
    where = "0"
    if on_gpu:
        where = f"_stream({names[tensors[0]]}.get_device())" if tensors else "_stream(_device)"
        scope["_device"] = device
    named = ", ".join(f"'{name}': {name}" for name in options)
    slow = f"return _slow(_grid, {{{given}}}, _extra, {{{named}, **_options}})"
    body = [
        f"def launch({head}, {', '.join(f'{n}=_absent' for n in options)}, **_options):",
        "    try:",
        *(f"        _p{n} = {names[n]}.data_ptr()" for n in tensors),
        *(f"        _k{n}, _v{n} = _flat({names[n]})" for n in nested),
        f"        _run = _table[{', '.join(_key_words(names, kinds, on_gpu, options))}]",
        "    except Exception:",
        "        _run = None",
        f"    if {' or '.join(['_run is None', *checks])}:",
        f"        {slow}",
        "    if _grid.__class__ is not tuple:",
        "        try:",
        f"            _grid = _grid({{{given}}}) if callable(_grid) else _resolve(_grid, None)",
        "        except (KeyError, TypeError):  # words what is wrong",
        f"            _grid = _resolve(_grid, lambda: {{{given}}})",
        "    if _grid.__class__ is tuple and len(_grid) == 1:",
        "        _x = _grid[0]",
        "        if _x.__class__ is int and _x > 0:",
        f"            return _run(_x, 1, 1, {where}, {call})",
        "    _x, _y, _z = _resolve(_grid, None)",
        "    if _x and _y and _z:",
        f"        return _run(_x, _y, _z, {where}, {call})",
        "    return None",
    ]
    return "\n".join(body) + "\n", scope


def _key_words(names: Sequence[str], kinds: str, on_gpu: bool, options: Sequence[str]) -> list[str]:
    """Return what identifies arguments' types and facts, and options: as `table_key` does."""
    key = ["_current()"] if on_gpu and "t" not in kinds else []
    for place, (name, kind) in enumerate(zip(names, kinds, strict=True)):
        match kind:
            case "t":
                key += [f"{name}.dtype", f"{name}.get_device()", *python_words("t", f"_p{place}")]
            case "i":
                key += [f"{name}.__class__", *python_words("i", name)]
            case "c":
                key += [name, f"{name}.__class__"]
            case "z":  # a zero has a sign, and a NaN is one
                key += [f"{name}.hex()", f"{name}.__class__"]
            case "k":
                key.append(f"_exact({name})")
            case "u":
                key.append(f"_k{place}")
            case _:
                key.append(f"{name}.__class__")
    return [*key, *(word for name in options for word in (name, f"{name}.__class__"))]


def table_key(
    source: KernelSource,
    kinds: str,
    values: Mapping[str, Any],
    given: Mapping[str, Any],
    on_gpu: bool,
    options: Sequence[str] = OPTIONS,
) -> Any:
    """Return the key that the launcher computes for a call.

    Where no array says for which GPU a call is, the current one is part of it.
    """
    key: list[Any] = [current_device()] if on_gpu and "t" not in kinds else []
    for parameter, kind in zip(source.parameters, kinds, strict=True):
        value = values[parameter.name]
        if kind == "t":
            key += [value.dtype, value.get_device(), *measure_address(value.data_ptr())]
        elif kind == "i":
            key += [value.__class__, *measure_integer(value)]
        elif kind == "c":
            key += [value, value.__class__]
        elif kind == "z":
            key += [value.hex(), value.__class__]
        elif kind == "k":
            key.append(exact_key(value))
        elif kind == "u":
            key.append(flattened(value)[0])
        else:
            key.append(value.__class__)
    for name in options:
        value = given.get(name, NOT_GIVEN)
        key += [value, value.__class__]
    return tuple(key)


def flattened(value: Any) -> tuple[tuple[Any, ...], list[Any]]:
    """Return (key, run-time values) of a tuple or descriptor, its members one after the other.

    Raises AttributeError for members that launchers do not know, or without memory.
    """
    key: list[Any] = [value.__class__]
    values: list[Any] = []
    _flatten(value, key, values)
    return tuple(key), values


def _flatten(value: Any, key: list[Any], values: list[Any]) -> None:
    if isinstance(value, TensorDescriptor):
        key += [*value.block_shape, value.padding]
        value = (value.base, tuple(value.shape), tuple(value.strides))
    for item in value:
        kind = item.__class__
        if kind is int:
            key += [int, *measure_integer(item)]
            values.append(item)
        elif kind is float or kind is bool:
            key.append(kind)
            values.append(item)
        elif isinstance(item, tuple | TensorDescriptor):
            key += [kind, len(item) if isinstance(item, tuple) else -1]
            _flatten(item, key, values)
        elif item is None or kind is str:
            key.append(item)
        elif not hasattr(item, "data_ptr"):
            if is_passed(item):
                raise AttributeError("a member that launchers do not know")
            key.append(exact_key(item))
        else:
            address = item.data_ptr()
            if not address:
                raise AttributeError("a tensor without memory")
            key += [item.dtype, item.get_device(), *measure_address(address)]
            values.append(address)


def is_passed(item: Any) -> bool:
    """Say whether launchers hand on a member of a tuple; all others are part of the kernel."""
    kind = item.__class__
    return not (
        item is None
        or kind in (str, type)
        or kind.__name__ == "constexpr"
        or hasattr(item, "kernel_source")
        or kind.__module__.startswith("workbench.language")
    )


def dropping(runner: Runner, kept: Sequence[int], count: int) -> Runner:
    """Return a runner that takes `count` values and passes on those at the places `kept`.

    The launcher passes every run-time argument; code that was specialised on one being 1 does not
    receive it.
    """
    if len(kept) == count:
        return runner
    words = [f"a{n}" for n in range(count)]
    given = "".join(f", {words[n]}" for n in kept)
    head = "".join(f", {word}" for word in words)
    return _made([f"def run(x, y, z, stream{head}):", f"    return inner(x, y, z, stream{given})"],
                 {"inner": runner})  # fmt: skip


def choosing(
    width: Program,
    kept: Sequence[int],
    count: int,
    runners: Mapping[bool, Runner],
    choose: Callable[[Grid, Sequence[Any]], Runner],
) -> Runner:
    """Return a runner that decides at each launch between codes with 32-bit and exact indices.

    Args:
        width: requires of the integers (by place among the `count` values) and the grid what
            the code with 32-bit indices (True) needs; else the other one (False) runs.
        kept: places of the values that the codes receive.
        count: how many values there are.
        runners: the codes that are known.
        choose: asked with the grid and the values that are kept for a code that is not; once.
    """
    words = [f"a{n}" for n in range(count)]
    given = "".join(f", {words[n]}" for n in kept)
    head = "".join(f", {word}" for word in words)
    text = [f"def run(x, y, z, stream{head}):"]
    text += python_lines(width, words, "    ", f"return exact(x, y, z, stream{given})")
    text += [f"    return narrow(x, y, z, stream{given})"]
    space: dict[str, Any] = {}

    def asking(name: str) -> Runner:
        def run(x: int, y: int, z: int, stream: Any, *values: Any) -> Any:
            space[name] = choose((x, y, z), values)
            return space[name](x, y, z, stream, *values)

        return run

    space |= {name: asking(name) for name in ("exact", "narrow")}
    space |= {"narrow" if fits else "exact": runner for fits, runner in runners.items()}
    return _made(text, space)


def _made(text: Sequence[str], space: dict[str, Any]) -> Runner:
    exec(compile("\n".join(text), "<launcher>", "exec"), space)
    return space["run"]
