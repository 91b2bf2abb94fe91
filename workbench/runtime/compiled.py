"""A compiled kernel: what `compile` returns, and what a launch runs."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from workbench.interrupts import renewed_lock
from workbench.launch.abi import LaunchData, Parameter
from workbench.launch.facts import Signature, to_specialization
from workbench.runtime import cache
from workbench.runtime.bound import BoundLaunch
from workbench.runtime.retaining import KEPT
from workbench.source import CompileError, KernelError, KernelSource, ToolError

if TYPE_CHECKING:
    from workbench.compiler import Begun, Compiled
    from workbench.ir import Module
    from workbench.source.captures import Captures
    from workbench.trace import LazyTrace, StageId, Trace

STAGES = ("source", "ast", "tile", "gpu", "llvm", "ptx", "sass", "asm")

#: About what a compilation and its trace hold, for a kernel and for each op it ever had.
_BYTES, _BYTES_PER_OP = 50_000, 4_000

#: Triton's names of our stages.
ALIASES = {"ttir": "tile", "ttgir": "gpu", "llir": "llvm"}


_NOT_LOOKED: Any = object()


class _Metadata(SimpleNamespace):
    """Launch numbers; `shared` is looked for when it is read, for which a GPU's code is made."""

    __slots__ = ("_find_shared",)  # no number: neither shown nor compared

    def __init__(self, *, find_shared: Callable[[], int], **numbers: Any) -> None:
        super().__init__(**numbers)
        self._find_shared = find_shared

    @property
    def shared(self) -> int:
        """The bytes of shared memory of a program."""
        return self._find_shared()


class NotCountedError(ToolError, AttributeError):
    """A number that ptxas would count: who asks by `getattr(kernel, "n_regs", None)` gets None."""

    code = "K410"


def _counted(kernel: CompiledKernel, what: str) -> int:
    """Return a number of a GPU's code that ptxas counts; raises NotCountedError without it."""
    found: int | None = getattr(kernel.launch, what)
    if found is None:
        raise NotCountedError(
            f"{kernel.name} runs on the CPU, which has no registers, and nobody counted those of "
            f"its code for {kernel.target}: ptxas is missing",
            hint="pip install nvidia-cuda-nvcc, or take a number of programs that needs none",
        )
    return found


class CompiledKernel:
    """One kernel compiled for one specialisation and target.

    Attributes:
        name: the kernel's name.
        target: "cpu", "interpreter" or a chip such as "sm_90a".
        hash: the key of the compilation.
        from_cache: whether the code came from the disk; stages are then made when asked for.
    """

    def __init__(
        self,
        source: KernelSource,
        signature: Signature,
        target: str,
        key: str,
        *,
        compiled: Compiled | None = None,
        launch: LaunchData | None = None,
        code: bytes | None = None,
        index_program: Any = None,
        find_twin: Callable[[CompiledKernel], CompiledKernel] | None = None,
        find_checked: Callable[..., CompiledKernel] | None = None,
        find_plain: Callable[[CompiledKernel], CompiledKernel | None] | None = None,
        find_shown: Callable[[CompiledKernel], CompiledKernel] | None = None,
        outputs: tuple[str, ...] | None = None,
        begun: Begun | None = None,
    ) -> None:
        self.source = source
        self.signature = signature
        self.target = target
        self.hash = key
        self.from_cache = compiled is None and begun is None
        self.tools: tuple[Any, ...] = ()
        self.loaded: dict[Any, Any] = {}
        """What the loaders made of the code, by device."""
        #: Whether it is made when somebody asks for it, from `_begun` or from the source; then its
        #: outputs are known, and its index program is not.
        self.deferred = outputs is not None
        self._outputs = outputs
        self._begun = begun
        self._index_program = index_program
        self._compiled = compiled
        self._launch = launch
        self._code = code
        self._find_twin = find_twin
        self._find_checked = find_checked
        self._find_plain = find_plain
        self._find_shown = find_shown
        self._trace: LazyTrace | None = None
        self._hulls: Any = _NOT_LOOKED
        self._lock = renewed_lock()
        #: What the source meant when it was compiled; None: not known.
        self.captured: Captures | None = None
        if compiled is not None:
            self._hold(compiled)
        elif begun is not None:
            KEPT.hold(self, _BYTES + _BYTES_PER_OP * begun.module.next_id)

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self.source.name

    # -- what a launch needs --------------------------------------------------------------
    @property
    def index_program(self) -> Any:
        """What 32-bit indices need of a launch (`analysis/ranges.py`), None: there is one code."""
        if self.deferred:
            _ = self.compiled
        return self._index_program

    @index_program.setter
    def index_program(self, found: Any) -> None:
        self._index_program = found

    @property
    def has_twin(self) -> bool:
        """Whether launches choose between code with 32-bit indices and code with exact ones."""
        return self.deferred or self._index_program is not None

    def complete(self, compiled: Compiled) -> None:
        """Take what was deferred; two who bring it bring the same."""
        self._index_program = compiled.lowered.index_program
        self._compiled = compiled
        self.deferred, self._begun = False, None
        self._hold(compiled)

    @property
    def launch(self) -> LaunchData:
        """The numbers of a launch; a fresh compilation is assembled for them."""
        if self._launch is None:
            with self._lock:
                if self._launch is None:
                    self._assemble()
        assert self._launch is not None
        return self._launch

    @property
    def code(self) -> bytes:
        """The bytes that the loader takes (empty for the interpreter)."""
        found = self._code
        if found is None:
            with self._lock:
                if self._launch is None:
                    self._assemble()
                found = self._code or self._code_again()
        return found

    def _code_again(self) -> bytes:
        """Return the code after it was let go: from the disk, or made again."""
        entry = None if self.target == "interpreter" else cache.load(self.hash)
        code = self.compiled.binary.data if entry is None else entry.files["code"]
        self._code = code
        return code

    def _assemble(self) -> None:
        from workbench.analysis.memory import parameter_roles

        compiled = self.compiled
        try:
            binary, built = compiled.binary, compiled.built
        except KernelError as error:
            error.trace = error.trace or compiled.trace
            raise
        resources = binary.resources
        spills = None
        if resources.spill_store_bytes is not None:
            spills = resources.spill_store_bytes + (resources.spill_load_bytes or 0)
        self._code = binary.data
        self._launch = LaunchData(
            symbol=built.symbol,
            kind=binary.kind,
            parameters=tuple(self.signature.runtime()),
            num_warps=built.num_warps,
            num_stages=built.num_stages,
            threads=built.threads,
            shared_bytes=built.shared_bytes,
            dynamic_shared_bytes=built.dynamic_shared_bytes,
            registers=resources.registers,
            spill_bytes=spills,
            narrow_index=compiled.lowered.spec.options.narrow_index,
            outputs=tuple(
                name for name, role in parameter_roles(compiled.module).items() if "out" in role
            ),
            made=tuple(Parameter(**made) for made in built.extra.get("made", ())),
            extra={n: value for n, value in built.extra.items() if n not in ("tools", "made")},
        )
        self.tools = tuple(built.extra.get("tools", ()))
        self.store([list(tool) for tool in self.tools])

    def store(self, tools: list[list[Any]]) -> None:
        """Write the kernel to the disk, with (path, size, time) of the programs that made it."""
        if self.target == "interpreter":
            return
        data = {"launch": asdict(self.launch), "tools": tools}
        if self._index_program is not None:
            data["index"] = self._index_program.to_data()
        if self._hulls is not _NOT_LOOKED:
            data["hulls"] = None if self._hulls is None else self._hulls.to_data()
        cache.store(self.hash, cache.Entry(data, {"code": self.code}))

    @property
    def hulls(self) -> Any:
        """Where its accesses may lie in a launch (`analysis/hulls.py`), None: nobody knows."""
        if self._hulls is _NOT_LOOKED:
            from workbench.analysis.hulls import find_hulls

            with self._lock:
                if self._hulls is _NOT_LOOKED:
                    self._hulls = find_hulls(self.module)
                    if self._launch is not None:
                        self.store([list(tool) for tool in self.tools])
        return self._hulls

    @hulls.setter
    def hulls(self, found: Any) -> None:
        self._hulls = found

    @property
    def has_no_hulls(self) -> bool:
        """Whether it is known already that nobody knows them."""
        return self._hulls is None

    def twin(self) -> CompiledKernel:
        """Return the same kernel with exact instead of 32-bit indices."""
        assert self._find_twin is not None
        return self._find_twin(self)

    def without_maps(self) -> CompiledKernel | None:
        """Return the same kernel compiled without tensor maps, None for an edited stage."""
        return None if self._find_plain is None else self._find_plain(self)

    def checked(self, captured: Captures | None = None, fits: Any = None) -> CompiledKernel:
        """Return the same kernel with checks; `fits` chooses its indices' width for a launch."""
        assert self._find_checked is not None
        return self._find_checked(self, captured, fits)

    # -- what people look at --------------------------------------------------------------
    @property
    def metadata(self) -> SimpleNamespace:
        """Launch numbers under Triton's names: shared, num_warps, num_stages, threads, ….

        Of a kernel for the CPU `shared` is that of the code for a GPU (see `n_regs`).
        """
        from workbench.runtime.gpu_target import target_of

        compiled = self._compiled  # another thread may let it go
        built = compiled.built if compiled is not None else self.launch
        numbers: dict[str, Any] = {
            "name": built.symbol,
            "num_warps": built.num_warps,
            "num_stages": built.num_stages,
            "num_ctas": 1,
            "cluster_dims": (self.launch.cluster, 1, 1),
            "threads": built.threads,
            "target": target_of(self.target),
            "hash": self.hash,
        }
        if self.target != "cpu":
            return SimpleNamespace(shared=built.shared_bytes, **numbers)
        return _Metadata(find_shared=lambda: self._on_gpu().launch.shared_bytes, **numbers)

    @property
    def kernel(self) -> bytes:
        """The binary, as Triton calls it."""
        return self.code

    @property
    def src(self) -> KernelSource:
        """The function that was compiled."""
        return self.source

    @property
    def n_max_threads(self) -> int:
        """The most threads that a program of this kernel may have."""
        return 1024 if self.target.startswith("sm_") else 1

    def _init_handles(self) -> None:
        """Assemble now; Triton's tutorials call this before they read registers and memory."""
        _ = self.launch

    def result(self) -> CompiledKernel:
        """Return the kernel itself: compilations are complete when they return."""
        return self

    @property
    def can_be_checked(self) -> bool:
        """Whether there is code for it that checks accesses: an edited text has no such twin."""
        override = self.signature.override
        return override is None or override.stage == "tile"

    @property
    def n_regs(self) -> int | None:
        """Registers of a thread; None where no tool could say.

        A kernel for the CPU has none. It gives the number of the code that the panes show, for the
        chip whose sizes the CPU's driver names, so that what computes an occupancy of it runs.
        Raises NotCountedError (K410), which is an AttributeError too, where that code could not be
        assembled.
        """
        found = self._on_gpu()
        return found.launch.registers if found is self else _counted(found, "registers")

    @property
    def n_spills(self) -> int | None:
        """Bytes of registers spilled to memory; of the same code as `n_regs`."""
        found = self._on_gpu()
        return found.launch.spill_bytes if found is self else _counted(found, "spill_bytes")

    def _on_gpu(self) -> CompiledKernel:
        """Return the kernel, or that of the chip to look at for one of the CPU as it is written."""
        written = self.target == "cpu" and self.signature.override is None
        return self if self._find_shown is None or not written else self._find_shown(self)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The pointer parameters that the kernel stores through."""
        if self._outputs is not None:
            return self._outputs
        if self._launch is None:
            from workbench.analysis.memory import parameter_roles

            return tuple(n for n, role in parameter_roles(self.module).items() if "out" in role)
        return self._launch.outputs

    @property
    def asm(self) -> Mapping[str, Any]:
        """Texts by stage (ast tile gpu llvm ptx sass asm), made when looked up; cubin is bytes."""
        return _Artefacts(self)

    @property
    def stages(self) -> Mapping[str, str]:
        """The texts of `asm` without the binary, for every stage that this target has."""
        return {name: self.asm[name] for name in self.asm if name != "cubin"}

    @property
    def compiled(self) -> Compiled:
        """The whole compilation; compiles again if the code came from the disk."""
        found = self._compiled
        if found is None:
            with self._lock:
                found = self._compiled
                if found is None:
                    found = self._compile_again()
                    self.complete(found) if self.deferred else self._hold(found)
                    self._compiled = found
            return found
        KEPT.use(self)
        return found

    def _hold(self, compiled: Compiled) -> None:
        """Count what a compilation and its trace take, as measured over kernels of all sizes."""
        last = compiled.built.gpu or compiled.lowered.module
        KEPT.hold(self, _BYTES + _BYTES_PER_OP * last.next_id)

    def release(self) -> bool:
        """Let go what can be made again: stages, the trace as printed, code that was loaded.

        False where somebody is at it: nothing is let go then.
        """
        if not self._lock.acquire(blocking=False):
            return False
        try:
            if self._trace is not None and not self._trace.release(self._find_trace):
                return False
            self._begun = None
            if self._compiled is not None:
                self.from_cache = True
                self._compiled = None
                if self._launch is not None:
                    self._code = None
                self.source.__dict__.pop("tree", None)
        finally:
            self._lock.release()
        return True

    def _compile_again(self) -> Compiled:
        """Make again what was let go, or was never here as the code came from the disk."""
        from workbench.compiler import compile_kernel

        begun = self._begun
        if begun is None and self.captured is not None and not self.captured.unchanged():
            raise CompileError(
                f"the stages of {self.name} are not in memory any more, and what it captured has "
                "changed, so that they cannot be made again",
                hint="run its cell again",
                code="K407",
            )
        spec = to_specialization(self.signature)
        # Of one that was deferred, the width was chosen with that of the code that runs.
        fits = partial(_as_chosen, spec.options.narrow_index) if self.deferred else None
        return compile_kernel(self.source, spec, self.target, fits, begun)

    @property
    def begun(self) -> Begun | None:
        """What the front end made of it, if it did in this process."""
        compiled = self._compiled
        return self._begun if compiled is None else compiled.begun

    @property
    def module(self) -> Module:
        """The tile IR as the front end made it: what the interpreter runs."""
        begun = self._begun
        return self.compiled.module if begun is None else begun.module

    @property
    def trace(self) -> Trace:
        """The trace of the compilation with all runs recorded so far; printed at the first use."""
        KEPT.use(self)
        return self.lazy_trace.trace

    @property
    def lazy_trace(self) -> LazyTrace:
        """The trace to record runs in, without printing it."""
        if self._trace is None:
            from workbench.trace import LazyTrace

            with self._lock:
                if self._trace is None:
                    self._trace = LazyTrace(self._find_trace)
        return self._trace

    def _find_trace(self) -> Trace:
        from workbench.trace import TraceError, pack, unpack

        place = self._place_id()
        if self._compiled is None:
            packed = cache.load_trace(self.hash, place)
            if packed is not None:
                try:
                    (trace,) = unpack(packed)
                    return replace(trace, kernel=replace(trace.kernel, cached=True))
                except (TraceError, ValueError):
                    pass  # a damaged trace is made again
        trace = self.compiled.trace.trace
        cache.store_trace(self.hash, place, pack([trace]))
        return trace

    def _place_id(self) -> str:
        """Say where the texts stand: the same code at another line has another trace."""
        from workbench.source.captures import captures

        places = [f"{s.file}:{s.first_line}:{s.indent}" for s in captures(self.source).sources]
        return sha256("\n".join(places).encode()).hexdigest()[:16]

    def save(self, path: str | Path, *, force: bool = False) -> Path:
        """Write what the suffix names: .html .wbt .json .ptx .ll .cubin .c .py …; returns the path.

        The viewer writes all of them. It stands above the runtime, which meets it, and what writes
        Python files, only here and by name.
        """
        exports = importlib.import_module("workbench.bench.exports")
        write = importlib.import_module("workbench.viewer").save
        return write([self.trace], path, force=force, made=exports.made_of([self]))

    def _display_(self) -> Any:
        """Return what marimo shows: the viewer, met by name as in `save`."""
        return importlib.import_module("workbench.viewer.display").in_marimo([self.trace])

    def __getitem__(self, grid: Any) -> Any:
        """Return a callable that launches this very compilation with run-time arguments."""
        return BoundLaunch(self, grid)

    def __reduce__(self) -> tuple[Any, ...]:
        # By name: it makes kernels of what it reads.
        return importlib.import_module("workbench.runtime.pickling").reduce_compiled(self)

    def __repr__(self) -> str:
        return f"<compiled kernel {self.name} for {self.target}>"


def _as_chosen(narrow: bool, program: Any) -> bool:
    return narrow and program is not None


class _Artefacts(Mapping[str, Any]):
    """The stages of one compilation by name."""

    def __init__(self, kernel: CompiledKernel) -> None:
        self._kernel = kernel

    def __getitem__(self, name: str) -> Any:
        stage = ALIASES.get(name, name)
        if stage == "cubin":
            return self._cubin()
        text = self._text(stage)
        if text is None and name == "ttgir":
            text = self._text("tile")  # the nearest: this target gives tiles no layouts
        if text is None:
            raise KeyError(
                f"no stage {name!r} for {self._kernel.target}; there are {', '.join(self)}"
            )
        return text

    def _text(self, stage: str) -> str | None:
        kernel = self._kernel
        if kernel._compiled is not None:
            produce = kernel.compiled.built.texts.get(cast("StageId", stage))
            if produce is not None and not kernel.lazy_trace.printed:
                return produce().text
        found = kernel.trace.stage(stage)
        return None if found is None else kernel.trace.text(stage)

    def _cubin(self) -> bytes:
        kind = self._kernel.launch.kind
        if kind == "cubin":
            return self._kernel.code
        if kind == "ptx":
            raise ToolError(
                "the PTX was not assembled: no ptxas was found",
                hint="pip install nvidia-cuda-nvcc",
            )
        raise KeyError(f"no stage 'cubin' for {self._kernel.target}; there are {', '.join(self)}")

    def __iter__(self) -> Iterator[str]:
        kernel = self._kernel
        compiled = kernel._compiled
        if compiled is not None:
            built = compiled.built
            names = {"source", "ast", "tile", *built.texts}
            names |= {"gpu"} if built.gpu is not None else set()
        else:
            names = {stage.id for stage in kernel.trace.stages}
        yield from (stage for stage in STAGES if stage in names)
        if kernel.target.startswith("sm_") and kernel.launch.kind == "cubin":
            yield "cubin"

    def __contains__(self, name: object) -> bool:
        # Where tiles have no layouts, "ttgir" is the tile IR as well.
        return name == "ttgir" or ALIASES.get(str(name), name) in set(self)

    def __len__(self) -> int:
        return sum(1 for _ in self)
