"""Launches: what runs a loaded kernel, and the generated code in front of it.

A *runner* is one loaded kernel on one device; calling it with the grid, the stream and the
run-time values starts it. Runners of a GPU are generated code that packs the values into a
prepared buffer and calls the driver.

A *launcher* is generated once per kernel and kind of arguments ("t" array, "i" integer, ...). It
reads addresses, dtypes and devices, tests the facts, looks up one table and calls the runner it
finds. Whatever it does not know goes to `slow`, which binds with care, compiles, words the errors
and adds an entry to the table. For a kernel `add(x_ptr, n, BLOCK)` it reads

    def launch(_grid, x_ptr=_d0, n=_d1, BLOCK=1024, *_extra, num_warps=None, ..., **_options):
        try:
            _p0 = x_ptr.data_ptr()
            _run = _table[x_ptr.dtype, x_ptr.get_device(), n.__class__, ..., BLOCK, _p0 & 15, ...]
        except Exception:
            return _slow(_grid, ...)
        ...
        return _run(_grid[0], 1, 1, _stream(...), _p0, n)
"""

from __future__ import annotations

import struct
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from workbench.runtime import arrays, hooks
from workbench.runtime.binding import Call, format_of
from workbench.runtime.compiled import CompiledKernel
from workbench.runtime.descriptors import TensorDescriptor
from workbench.runtime.grids import Grid, check_limits, resolve_grid
from workbench.source import KernelSource, LaunchError

#: run(grid x, y, z, stream, *values) -> the compiled kernel
Runner = Callable[..., CompiledKernel]


def load(kernel: CompiledKernel, device: int) -> Runner:
    """Return the runner of a kernel on a device (HOST for the CPU and the interpreter)."""
    runner = kernel.loaded.get(device)
    if runner is None:
        if kernel.target == "interpreter":
            runner = _interpreter_runner(kernel)
        elif kernel.target == "cpu":
            from workbench.runtime import cpu

            runner = cpu.load(kernel)
        else:
            from workbench.runtime import cuda

            runner = cuda.load(kernel, device)
        kernel.loaded[device] = runner
    return runner


def _interpreter_runner(kernel: CompiledKernel) -> Runner:
    def run(x: int, y: int, z: int, stream: Any, *values: Any) -> CompiledKernel:
        from workbench.runtime.interpreted import interpret

        interpret(kernel, (x, y, z), values)
        return kernel

    return run


def slots(kernel: CompiledKernel) -> struct.Struct:
    """Return the packer of a kernel's run-time arguments, eight bytes each."""
    return struct.Struct("<" + "".join(format_of(word) for _, word in kernel.launch.parameters))


def run_grid(
    runner: Runner, kernel: CompiledKernel, grid: Grid, stream: Any, values: Sequence[Any]
) -> CompiledKernel:
    """Start a runner over a checked grid; an empty grid runs nothing."""
    check_limits(grid, kernel.name, gpu=kernel.target.startswith("sm_"))
    if 0 in grid:
        return kernel
    return runner(*grid, stream, *values)


class BoundLaunch:
    """`compiled[grid]`: launches one compilation with run-time arguments, no specialisation."""

    def __init__(self, kernel: CompiledKernel, grid: Any) -> None:
        self._kernel = kernel
        self._grid = grid

    def __call__(self, *args: Any) -> CompiledKernel:
        """Run the kernel; `args` are all parameters, or the run-time ones only."""
        from workbench.runtime.binding import Policy, choose_target, classify

        kernel = self._kernel
        if hooks.watchers and hooks.is_suppressed():
            return kernel
        values = self._values(args)
        call = Call(values, {}, {"target": kernel.target})
        policies = [Policy(known.type, False) for _, known in kernel.signature.arguments]
        classify(kernel.source, policies, call)
        runtime = self._runtime(call)
        _, device = choose_target(kernel.source, call)
        grid = resolve_grid(self._grid, lambda: values)
        kernel = self._wide_enough(call, grid)
        return run_grid(load(kernel, device), kernel, grid, current_stream(device), runtime)

    def _wide_enough(self, call: Call, grid: Grid) -> CompiledKernel:
        """Return the kernel, or its twin with exact indices where 32 bits do not hold them."""
        from workbench.runtime.compiling import fits_launch, twin_of

        kernel = self._kernel
        program = kernel.index_program
        if not kernel.launch.narrow_index or program is None:
            return kernel
        if fits_launch(program, integers=call.integers, grid=grid):
            return kernel
        return twin_of(kernel)

    def _values(self, args: Sequence[Any]) -> dict[str, Any]:
        source, known = self._kernel.source, self._kernel.signature.arguments
        names = [p.name for p in source.parameters]
        free = [name for name, fact in known if not fact.is_constant]
        if len(args) == len(names):
            values = dict(zip(names, args, strict=True))
            return {n: fact.value if fact.is_constant else values[n] for n, fact in known}
        if len(args) != len(free):
            raise LaunchError(
                f"{source.name} was compiled to take {len(free)} arguments, got {len(args)}",
                hint=f"pass {', '.join(free)}",
            )
        given = dict(zip(free, args, strict=True))
        return {n: fact.value if fact.is_constant else given[n] for n, fact in known}

    def _runtime(self, call: Call) -> list[Any]:
        kernel = self._kernel
        for name, known in kernel.signature.arguments:
            value = call.values[name]
            if known.is_constant or known.divisible == 1 or isinstance(value, tuple):
                continue
            number = next((a.address for n, a in call.arrays if n == name), value)
            if isinstance(number, int) and number % known.divisible:
                raise LaunchError(
                    f"{name} = {number} is not a multiple of {known.divisible}, for which this "
                    f"code was compiled",
                    hint="compile without that fact, or launch the jit object",
                )
        return call.objects if kernel.target == "interpreter" else call.runtime


def bound_launch(kernel: CompiledKernel, grid: Any) -> BoundLaunch:
    """Return what `compiled[grid]` gives."""
    return BoundLaunch(kernel, grid)


def current_device() -> int:
    """Return torch's current CUDA device, the first one without torch."""
    torch = sys.modules.get("torch")
    return torch.cuda.current_device() if torch is not None else 0


def current_stream(device: int) -> int:
    """Return torch's current stream of a device as a number (0: the default stream)."""
    if device == arrays.HOST:
        return 0
    raw = raw_stream()
    return raw(device) if raw is not None else 0


def raw_stream() -> Callable[[int], int] | None:
    """Return torch's function for the current stream, None without a CUDA build of torch."""
    torch = sys.modules.get("torch")
    return getattr(getattr(torch, "_C", None), "_cuda_getCurrentRawStream", None)


# -- generated launchers ----------------------------------------------------------------------
#: What a launcher passes on for a parameter that a call leaves out.
NOT_GIVEN: Any = type("NotGiven", (), {"__repr__": lambda _: "<not given>"})()


def make_launcher(
    source: KernelSource,
    kinds: str,
    on_gpu: bool,
    table: dict[Any, Runner],
    slow: Callable[..., Any],
    guards: Sequence[tuple[Any, str, Any]],
    device: int = 0,
) -> Callable[..., Any]:
    """Return the launcher for one kind of arguments; see the top of this file."""
    text, names = launcher_text(source, kinds, on_gpu, guards, device)
    names |= {"_table": table, "_slow": slow, "_stream": raw_stream(), "_resolve": resolve_grid}
    names["_flat"] = flattened
    exec(compile(text, f"<launcher of {source.name}>", "exec"), names)
    return names["launch"]


def supports(source: KernelSource, kinds: str) -> bool:
    """Say whether calls of these kinds can be launched by generated code.

    Its own names begin with an underscore, so no parameter may.
    """
    names = [p.name for p in source.parameters]
    taken = "num_warps" in names or "num_stages" in names
    return "x" not in kinds and not taken and not any(name.startswith("_") for name in names)


def launcher_text(
    source: KernelSource,
    kinds: str,
    on_gpu: bool,
    guards: Sequence[tuple[Any, str, Any]],
    device: int = 0,
) -> tuple[str, dict[str, Any]]:
    """Return the launcher's text and the objects that it names."""
    names = [p.name for p in source.parameters]
    scope: dict[str, Any] = {}
    for number, parameter in enumerate(source.parameters):
        scope[f"_d{number}"] = NOT_GIVEN if parameter.required else parameter.default
    head = ", ".join(["_grid", *(f"{name}=_d{n}" for n, name in enumerate(names)), "*_extra"])
    tensors = [n for n, kind in enumerate(kinds) if kind == "t"]
    words = {"t": "_p{0}", "u": "*_v{0}"}
    values = [words.get(k, names[n]).format(n) for n, k in enumerate(kinds) if k != "c"]
    nested = [n for n, kind in enumerate(kinds) if kind == "u"]
    call = ", ".join(values)
    given = ", ".join(f"'{n}': {n}" for n in names)
    checks = ["_extra", "_options"]
    if tensors:  # a tensor without memory, which torch traces with, or an empty one
        checks.append(f"not ({' and '.join(f'_p{n}' for n in tensors)})")
    for number, (space, name, value) in enumerate(guards):
        scope[f"_s{number}"], scope[f"_g{number}"] = space, value
        checks.append(f"_s{number}.get({name!r}) is not _g{number}")
    where = "0"
    if on_gpu:
        where = f"_stream({names[tensors[0]]}.get_device())" if tensors else "_stream(_device)"
        scope["_device"] = device
    slow = f"return _slow(_grid, {{{given}}}, _extra, num_warps, num_stages, _options)"
    body = [
        f"def launch({head}, num_warps=None, num_stages=None, **_options):",
        "    try:",
        *(f"        _p{n} = {names[n]}.data_ptr()" for n in tensors),
        *(f"        _k{n}, _v{n} = _flat({names[n]})" for n in nested),
        f"        _run = _table[{', '.join(_key_words(names, kinds, tensors))}]",
        "    except Exception:",
        f"        {slow}",
        f"    if {' or '.join(checks)}:",
        f"        {slow}",
        "    if _grid.__class__ is not tuple:",
        f"        _grid = _grid({{{given}}}) if callable(_grid) else _resolve(_grid, None)",
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


def _key_words(names: Sequence[str], kinds: str, tensors: Sequence[int]) -> list[str]:
    """Return what identifies the arguments' types and facts: must agree with `table_key`."""
    key: list[str] = []
    for place, (name, kind) in enumerate(zip(names, kinds, strict=True)):
        match kind:
            case "t":
                key += [f"{name}.dtype", f"{name}.get_device()"]
            case "i":
                # 2: equal to 1; else whether 16 divides it, 4 more if it needs more than 32 bits
                key += [
                    f"{name}.__class__",
                    f"2 if {name} == 1 else not {name} & 15 "
                    f"if -0x80000000 <= {name} <= 0x7fffffff else 4 + (not {name} & 15)",
                ]
            case "c":
                key += [name, f"{name}.__class__"]
            case "u":
                key.append(f"_k{place}")
            case _:
                key.append(f"{name}.__class__")
    if tensors:
        together = " | ".join(f"_p{n}" for n in tensors)
        each = ", ".join(f"not _p{n} & 15" for n in tensors)
        key.append(f"({together}) & 15 and ({each},)")
    return [*key, "num_warps", "num_stages"]


def table_key(
    source: KernelSource, kinds: str, values: Mapping[str, Any], options: Mapping[str, Any]
) -> Any:
    """Return the key that the launcher computes for a call."""
    key: list[Any] = []
    addresses: list[int] = []
    for parameter, kind in zip(source.parameters, kinds, strict=True):
        value = values[parameter.name]
        if kind == "t":
            addresses.append(value.data_ptr())
            key += [value.dtype, value.get_device()]
        elif kind == "i":
            fits = -0x80000000 <= value <= 0x7FFFFFFF
            divisible = not value & 15
            key += [value.__class__, 2 if value == 1 else divisible if fits else 4 + divisible]
        elif kind == "c":
            key += [value, value.__class__]
        elif kind == "u":
            key.append(flattened(value)[0])
        else:
            key.append(value.__class__)
    if addresses:
        joined = 0
        for address in addresses:
            joined |= address
        key.append(joined & 15 and tuple(not address & 15 for address in addresses))
    return (*key, options.get("num_warps"), options.get("num_stages"))


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
            fits = -0x80000000 <= item <= 0x7FFFFFFF
            key += [int, 2 if item == 1 else (not item & 15) if fits else 4 + (not item & 15)]
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
            key += [kind, item.value if kind.__name__ == "constexpr" else item]
        else:
            address = item.data_ptr()
            if not address:
                raise AttributeError("a tensor without memory")
            key += [item.dtype, item.get_device(), not address & 15]
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
    text = (
        f"def run(x, y, z, stream, {', '.join(words)}):\n"
        f"    return inner(x, y, z, stream, {', '.join(words[n] for n in kept)})\n"
    )
    names: dict[str, Any] = {"inner": runner}
    exec(compile(text, "<launcher>", "exec"), names)
    return names["run"]


class Twins:
    """A runner that chooses between the codes with 32-bit and exact indices, launch by launch.

    The choice depends on the actual integers and the grid; it is remembered for each, and `choose`
    is asked for what is new.
    """

    MOST = 4096

    def __init__(self, integers: Sequence[int], choose: Callable[..., Runner]) -> None:
        self._integers = tuple(integers)
        self._choose = choose
        self._known: dict[tuple[int, ...], Runner] = {}
        self._lock = threading.Lock()

    def remember(self, grid: Grid, values: Sequence[Any], runner: Runner) -> None:
        """Enter a choice that was made elsewhere."""
        with self._lock:
            if len(self._known) >= self.MOST:
                self._known.clear()
            self._known[(*grid, *(values[n] for n in self._integers))] = runner

    def __call__(self, x: int, y: int, z: int, stream: Any, *values: Any) -> CompiledKernel:
        """Run the twin that is right for this grid and these values."""
        key = (x, y, z, *(values[n] for n in self._integers))
        runner = self._known.get(key)
        if runner is None:
            runner = self._choose((x, y, z), values)
            self.remember((x, y, z), values, runner)
        return runner(x, y, z, stream, *values)
