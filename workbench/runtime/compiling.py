"""Finds or makes compiled kernels: memory, then disk, then the compiler."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from workbench.collecting import rarely_collected
from workbench.interrupts import renewed_lock
from workbench.launch.abi import LaunchData, Parameter
from workbench.launch.facts import Signature, to_specialization
from workbench.launch.options import check_options
from workbench.launch.signature import Words, read_signature
from workbench.runtime import cache
from workbench.runtime.compiled import CompiledKernel
from workbench.runtime.gpu_target import SHOWN_CHIP
from workbench.runtime.retaining import Latest
from workbench.source import (
    ArgumentError,
    CompileError,
    ConstexprError,
    KernelSource,
    KernelTypeError,
    LaunchError,
    OptionError,
    ShapeError,
    UnknownNameError,
    kernel_source,
    limit_of,
)
from workbench.source.captures import Captures, captures
from workbench.source.given import by_name, instance
from workbench.source.overrides import Override, overriding

if TYPE_CHECKING:
    from workbench.compiler import Begun

T = TypeVar("T")

#: Asked with an index program: do 32 bits hold every index of this launch?
Fits = Callable[[Any], bool]

_kernels: Latest[CompiledKernel] = Latest(limit_of("kernels"))
_lock = renewed_lock()
#: Who holds the lock, and for whom work is done: the front end runs compile-time functions on a
#: thread of its own, and those may compile kernels, too.
_holder: object | None = None
_for_whom: ContextVar[object | None] = ContextVar("for whom a kernel is compiled", default=None)


@contextmanager
def _alone() -> Iterator[None]:
    """Wait until nobody else finds or makes kernels, unless this is done for who does."""
    global _holder
    if _holder is not None and _for_whom.get() is _holder:
        yield
        return
    with _lock:
        mine, before = object(), _holder  # a finalizer or a handler of signals may compile, too
        token = _for_whom.set(mine)
        try:
            _holder = mine
            yield
        finally:
            _holder = before
            _for_whom.reset(token)


def compile(  # noqa: A001 - the public name
    fn: Any,
    signature: Words = None,
    constexprs: Mapping[str, Any] | None = None,
    target: str = "sm_90a",
    *,
    num_warps: int | None = None,
    num_stages: int | None = None,
    assume: Sequence[str] = (),
    cached: bool = True,
    override: Mapping[str, str] | None = None,
    **options: Any,
) -> CompiledKernel:
    """Compile a kernel without data and without a GPU.

    Args:
        fn: a jit object or a plain function.
        signature: a type per run-time parameter, as text ("*f32:16 *f32 i32") or a dict by name;
            `:16` states divisibility, `=7` a fixed value. What is not stated is not assumed.
        constexprs: values of constexpr parameters by name; defaults count.
        target: "cpu", "interpreter", or a chip from "sm_80" on.
        num_warps: warps of a program; None lets the compiler choose.
        num_stages: depth of pipelined loops; None lets the compiler choose.
        assume: facts about arguments such as "n % 16 == 0", "stride == 1", "0 <= n < 4096".
        cached: False compiles again, whatever the caches hold.
        override: the edited text of one stage, e.g. {"ptx": text}: what is made of the kernel goes
            on from there. A kernel of its own, kept apart from the unedited one.
        options: further compile options by name, as launches take them; the table in
            `workbench.source.compile_options`, or `%explain NAME`, says what each does.

    Raises:
        OptionError: a signature, option or target that cannot be read.
        CompileError: the kernel cannot be compiled; what exists of the trace is attached.
    """
    instance(target, str, "target is a text", 'one of "cpu", "interpreter", "sm_90a", …')
    source = source_of(fn)
    given = {"num_warps": num_warps, "num_stages": num_stages, **options}
    arguments = read_signature(source, signature, constexprs, assume)
    wanted = Signature(arguments, check_options(given, source), _one_stage(source, override))
    return obtain(source, wanted, target, cached=cached)


def _one_stage(source: KernelSource, override: Mapping[str, str] | None) -> Override | None:
    if override is None:
        return None
    given = by_name(override, "override is a dict", 'e.g. override={"ptx": text}')
    if len(given) != 1:
        raise OptionError(
            f"override takes the text of one stage, got {len(given)}", code="K150",
            hint="what comes after an edited stage is made of it; give the latest alone",
        )  # fmt: skip
    ((stage, text),) = given.items()
    instance(text, str, f"the text of {stage} is a str", "e.g. compiled.asm[stage], edited")
    return overriding(source.name, stage, text)


def overridden(kernel: CompiledKernel, override: Override) -> CompiledKernel:
    """Return what a compiled kernel becomes with the edited text of a stage.

    Raises CompileError with the text's row; the kernel stays what it is.
    """
    signature = replace(kernel.signature, override=override)
    return obtain(kernel.source, signature, kernel.target, captured=kernel.captured)


def source_of(fn: Any) -> KernelSource:
    """Return the kernel function behind a jit object, an autotuned kernel or a plain function."""
    if isinstance(fn, KernelSource):
        return fn
    found = getattr(fn, "kernel_source", None)
    _ = getattr(fn, "declared", None)  # raises for declarations that contradict each other
    return found if isinstance(found, KernelSource) else kernel_source(fn)


def obtain(
    source: KernelSource,
    signature: Signature,
    target: str,
    *,
    captured: Captures | None = None,
    fits: Fits | None = None,
    cached: bool = True,
    guarded: bool = False,
    begun: Begun | None = None,
) -> CompiledKernel:
    """Return a kernel for a signature and target, from memory, disk or the compiler.

    Where `fits` is given it decides, for the launch at hand, between the twins with 32-bit and
    with exact indices; both are ordinary entries of the cache. `guarded` says that the launch is:
    where only the checked code can run, that is made, and the kernel itself when it is looked at.
    `begun` is what the front end made of the same kernel before, with other options of its passes.
    """
    captured = captured or captures(source)
    parts = _all_parts(source, captured, target)
    with _alone():
        found = None
        if cached:
            if guarded and fits is not None:
                found = _find_guarded(source, signature, target, parts, fits)
            else:
                found = _find(source, signature, target, parts, fits)
        if found is None:
            found = _compile(source, signature, target, parts, fits, begun)
    if found.captured is None:
        found.captured = captured
    return found


def known(
    source: KernelSource, signature: Signature, target: str, captured: Captures, fits: Fits | None
) -> CompiledKernel | None:
    """Return a kernel from memory or disk, None where `obtain` would compile."""
    parts = _all_parts(source, captured, target)
    with _alone():
        if fits is None:
            return _look_up(source, signature, target, parts)
        for narrow in (True, False):
            found = _look_up(source, _with_width(signature, narrow), target, parts)
            if (
                found is not None
                and not found.deferred
                and found.index_program is not None
                and narrow == bool(fits(found.index_program))
            ):
                return found
    return None


def adopt(
    source: KernelSource,
    signature: Signature,
    target: str,
    captured: Captures,
    *,
    launch: LaunchData,
    code: bytes,
    index_program: Any,
    tools: Sequence[Any],
    chosen: bool,
) -> CompiledKernel:
    """Enter a kernel that another process compiled; `chosen`: it has picked the index width."""
    if chosen:
        signature = _with_width(signature, launch.narrow_index)
    key = cache.make_key(*_all_parts(source, captured, target), signature.text())
    kernel = _made(
        source, signature, target, key, launch=launch, code=code, index_program=index_program
    )
    kernel.store([list(tool) for tool in tools])
    with _alone():
        return _kernels.setdefault(key, kernel)


def _made(*args: Any, **given: Any) -> CompiledKernel:
    """Return a compiled kernel, which finds its twins here."""
    return CompiledKernel(
        *args,
        find_twin=lambda kernel: twin_of(kernel),
        find_checked=checked_twin,
        find_plain=without_maps,
        find_shown=for_shown_chip,
        **given,
    )


#: Makes a compiled kernel of what it was pickled as.
remade = _made


def twin_of(kernel: CompiledKernel) -> CompiledKernel:
    """Return a kernel's twin with exact instead of 32-bit indices."""
    override = kernel.signature.override
    if override is not None and override.stage != "tile":
        raise LaunchError(
            f"32 bits do not hold the indices of this launch, and the {override.stage} that was "
            f"edited for {kernel.name} has no more",
            hint="launch it over less, or edit what `compile` makes without arguments",
            code="K518",
        )
    return obtain(kernel.source, _with_width(kernel.signature, False), kernel.target)


def without_maps(kernel: CompiledKernel) -> CompiledKernel | None:
    """Return a kernel compiled without tensor maps; None where an edited stage has them."""
    override = kernel.signature.override
    if override is not None and override.stage != "tile":
        return None
    options = {**dict(kernel.signature.options), "tma": False}
    signature = replace(kernel.signature, options=tuple(sorted(options.items())))
    return obtain(kernel.source, signature, kernel.target)


def for_shown_chip(kernel: CompiledKernel) -> CompiledKernel:
    """Return the same kernel compiled for the chip that is looked at where there is none."""
    return obtain(kernel.source, kernel.signature, SHOWN_CHIP)


def checked_twin(
    kernel: CompiledKernel, captured: Captures | None = None, fits: Fits | None = None
) -> CompiledKernel:
    """Return the code of a kernel that checks every access.

    Its indices are as wide as the kernel's, or as a launch wants them: the checks need more of them
    than the kernel has left, so that its own index program is asked.
    """
    return obtain(
        kernel.source, _checked(kernel.signature), kernel.target, captured=captured, fits=fits,
        begun=kernel.begun,
    )  # fmt: skip


def forget() -> None:
    """Forget all kernels in memory; the disk keeps what it has."""
    _kernels.clear()


def _find(
    source: KernelSource, signature: Signature, target: str, parts: list[str], fits: Fits | None
) -> CompiledKernel | None:
    if fits is None:
        return _look_up(source, signature, target, parts)
    for narrow in (True, False):
        found = _look_up(source, _with_width(signature, narrow), target, parts)
        if found is not None and found.deferred:
            return _compile(source, signature, target, parts, fits, found.begun)
        if found is not None and found.index_program is None:
            # Nobody had a launch in mind who compiled it: what fits was not asked.
            return _compile(source, signature, target, parts, fits)
        if found is not None:
            wanted = bool(fits(found.index_program))
            if wanted == narrow:
                return found
            other = _with_width(signature, wanted)
            known = _look_up(source, other, target, parts)
            return known or _compile(source, other, target, parts, fits)
    return None


def _find_guarded(
    source: KernelSource, signature: Signature, target: str, parts: list[str], fits: Fits
) -> CompiledKernel | None:
    """Return a kernel for a guarded launch; None: it is to be found as any other.

    Where an access depends on data, launches are never known to be right beforehand, and only the
    checked code runs (`analysis/hulls.py`): that is made, and the rest deferred.
    """
    checked = _checked(signature)
    twins = [_with_width(signature, narrow) for narrow in (True, False)]
    known = [k for k in (_look_up(source, twin, target, parts) for twin in twins) if k is not None]
    if any(not kernel.deferred for kernel in known):
        return _find(source, signature, target, parts, fits)
    begun = next((kernel.begun for kernel in known if kernel.begun is not None), None)
    code = _find(source, checked, target, parts, fits)
    if not known and (code is None or not code.has_no_hulls):
        with rarely_collected():
            from workbench.analysis.hulls import find_hulls
            from workbench.compiler import begin_kernel

        begun = _caused(lambda: begin_kernel(source, to_specialization(signature), target))
        hulls = find_hulls(begun.module)
        if hulls is not None:
            kernel = _compile(source, signature, target, parts, fits, begun)
            kernel.hulls = hulls
            return kernel
    if code is None:
        try:
            code = _compile(source, checked, target, parts, fits, begun)
        except CompileError:  # it shows the checks, which nobody wrote
            _compile(source, signature, target, parts, fits, begun)
            raise
        code.hulls = None
    found = _with_width(signature, bool(dict(code.signature.options).get("narrow_index")))
    kernel = _look_up(source, found, target, parts)
    if kernel is None:
        key = cache.make_key(*parts, found.text())
        kernel = _made(source, found, target, key, outputs=code.outputs, begun=begun)
        kernel.hulls = None
        _kernels[key] = kernel
    return kernel


def _checked(signature: Signature) -> Signature:
    options = {name: value for name, value in signature.options if name != "guarded"}
    return replace(signature, options=tuple(sorted({**options, "guarded": True}.items())))


def _with_width(signature: Signature, narrow: bool) -> Signature:
    options = {name: value for name, value in signature.options if name != "narrow_index"}
    if narrow:
        options["narrow_index"] = True
    return replace(signature, options=tuple(sorted(options.items())))


def _look_up(
    source: KernelSource, signature: Signature, target: str, parts: list[str]
) -> CompiledKernel | None:
    key = cache.make_key(*parts, signature.text())
    found = _kernels.get(key)
    if found is None and target != "interpreter":
        found = _from_disk(source, signature, target, key)
        if found is not None:
            _kernels[key] = found
    elif found is not None and found.source is not source:
        found = _moved(found, source)
        _kernels[key] = found
    return found


def _moved(kernel: CompiledKernel, source: KernelSource) -> CompiledKernel:
    """Return the same code for the same text at another place: its trace shows that place."""
    old = kernel.source
    if (old.file, old.first_line, old.indent) == (source.file, source.first_line, source.indent):
        return kernel
    if kernel.deferred:
        moved = _made(source, kernel.signature, kernel.target, kernel.hash, outputs=kernel.outputs)
        moved.hulls = None
        return moved
    moved = _made(
        source,
        kernel.signature,
        kernel.target,
        kernel.hash,
        launch=kernel.launch,
        code=kernel.code,
        index_program=kernel.index_program,
    )
    moved.loaded = kernel.loaded
    return moved


def _from_disk(
    source: KernelSource, signature: Signature, target: str, key: str
) -> CompiledKernel | None:
    entry = cache.load(key)
    try:
        if entry is None or not _same_tools(entry.data["tools"]):
            return None
        launch, code = _launch_data(entry.data["launch"]), entry.files["code"]
        index = entry.data.get("index")
        program = None if index is None else _index_program(index)
        hulls = _hulls(entry.data.get("hulls"))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        cache.refuse(key, f"it is no kernel: {type(error).__name__} {error}")
        return None
    kernel = _made(source, signature, target, key, launch=launch, code=code, index_program=program)
    if "hulls" in entry.data:
        kernel.hulls = hulls
    return kernel


def _launch_data(stored: Mapping[str, Any]) -> LaunchData:
    lists = {
        "parameters": tuple((name, word) for name, word in stored["parameters"]),
        "outputs": tuple(stored["outputs"]),
        "made": tuple(_parameter(made) for made in stored["made"]),
    }
    return LaunchData(**{**stored, **lists})


def _hulls(stored: Mapping[str, Any] | None) -> Any:
    if stored is None:
        return None
    from workbench.analysis.hulls import from_data

    return from_data(stored)


def _index_program(stored: Mapping[str, Any]) -> Any:
    from workbench.analysis.ranges import from_data

    return from_data(stored)


def _parameter(stored: Mapping[str, Any]) -> Parameter:
    lists = {name: tuple(stored[name]) for name in ("inputs", "data")}
    return Parameter(**{**stored, **lists})


def _same_tools(tools: Sequence[Sequence[Any]]) -> bool:
    """Say whether the programs that made an entry are still what they were."""
    for path, size, time in tools:
        try:
            status = Path(path).stat()
        except OSError:
            return False
        if (status.st_size, status.st_mtime_ns) != (size, time):
            return False
    return True


def _compile(
    source: KernelSource,
    signature: Signature,
    target: str,
    parts: list[str],
    fits: Fits | None,
    begun: Begun | None = None,
) -> CompiledKernel:
    with rarely_collected():
        from workbench.compiler import compile_kernel

    compiled = _caused(
        lambda: compile_kernel(source, to_specialization(signature), target, fits, begun)
    )
    if fits is not None:
        signature = _with_width(signature, compiled.lowered.spec.options.narrow_index)
    key = cache.make_key(*parts, signature.text())
    program = compiled.lowered.index_program
    deferred = _kernels.get(key)
    if deferred is not None and deferred.deferred:
        deferred.complete(compiled)
        return deferred
    kernel = _made(source, signature, target, key, compiled=compiled, index_program=program)
    _kernels[key] = kernel
    return kernel


#: The exception that Python itself would raise for each kind of mistake, where there is one.
_PYTHON: dict[type[CompileError], type[Exception]] = {
    UnknownNameError: NameError,
    ArgumentError: TypeError,
    KernelTypeError: TypeError,
    ShapeError: ValueError,
    ConstexprError: ValueError,
}


def _caused(compile: Callable[[], T]) -> T:  # noqa: A002
    try:
        return compile()
    except CompileError as error:
        _give_cause(error)
        raise


def _give_cause(error: CompileError) -> None:
    """Give an error the cause that programs written for Triton look at."""
    kind = _PYTHON.get(type(error))
    if error.__cause__ is None and kind is not None:
        error.__cause__ = kind(error.message)


def _all_parts(source: KernelSource, captured: Captures, target: str) -> list[str]:
    """Return everything of a compile key but the signature."""
    parts = _key_parts(captured, target)
    if source.name != source.function.__name__:
        parts.append(f"named {source.name}")
    return parts


def _key_parts(captured: Captures, target: str) -> list[str]:
    parts = [target, host_text() if target == "cpu" else ""]
    parts += [source.text for source in captured.sources]
    parts += [f"{where} {value}" for where, value in captured.values]
    return parts


@lru_cache(1)
def host_text() -> str:
    """Return a text that differs between CPUs with different instructions."""
    try:
        with Path("/proc/cpuinfo").open() as file:
            lines = file.read(8192).split("\n\n")[0].splitlines()
        chosen = [line for line in lines if line.startswith(("flags", "Features", "model name"))]
    except OSError:
        chosen = []
    # It may ask another program; Python 3.11 holds a lock meanwhile, which a fork would inherit.
    named = [] if chosen else [platform.processor()]
    return "\n".join([platform.machine(), *named, *chosen])
