"""From a kernel's source to code: the one file that knows all stages.

    source text -> AST -> tile IR -> (target) GPU IR -> LLVM IR -> PTX -> SASS, or host assembly

`lower` gives tile IR, `compile_kernel` goes all the way. Both leave a Trace that prints nothing
until somebody reads it. Nothing here launches, caches or touches a device; `runtime` does.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, cast

from workbench.analysis.memory import parameter_roles
from workbench.collecting import rarely_collected
from workbench.frontend import lower_kernel
from workbench.frontend.specialization import Argument, Specialization, type_of
from workbench.interrupts import imported
from workbench.ir import Module, Pointer
from workbench.passes.check_accesses import check_accesses
from workbench.passes.listing import ast_stage, shown_source, source_stage
from workbench.passes.manager import FRONT_END, Recorder, Remark, Remarks, begin
from workbench.passes.pipeline import tile_passes
from workbench.passes.tracing import (
    Places,
    add_ops,
    add_passes,
    add_remarks,
    diagnostic,
    render_module,
)
from workbench.source import CompileError, KernelError, KernelSource, OptionError, Span, deep, shown
from workbench.source.captures import captures
from workbench.source.errors import callers
from workbench.source.files import shown_file
from workbench.source.overrides import Override
from workbench.targets.built import Binary, Built
from workbench.targets.llvm import generator
from workbench.targets.stages import Step, check_stage, go, read_module
from workbench.trace import (
    Kernel,
    LazyTrace,
    Made,
    Parameter,
    Rendered,
    Resources,
    StageId,
    TraceBuilder,
)

CHIPS = (
    *("sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_103"),
    *("sm_103a", "sm_110", "sm_110a", "sm_120", "sm_120a", "sm_121", "sm_121a"),
)
TARGETS = ("cpu", "interpreter", *CHIPS)

#: The language of each stage's text, for highlighting.
LANGUAGES = {
    "source": "python", "ast": "ast", "tile": "ir", "gpu": "ir",
    "llvm": "llvm", "ptx": "ptx", "sass": "sass", "asm": "asm",
}  # fmt: skip

#: Asked with the index program of a module: do 32 bits hold every index of this launch?
Fits = Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class Begun:
    """What the front end made of a specialisation, its remarks, and the milliseconds it took."""

    module: Module
    remarks: tuple[Remark, ...]
    milliseconds: float


@dataclass(slots=True)
class Lowered:
    """Tile IR of one specialisation.

    `first` is what the front end made, or an edited text in its place, `module` what the
    target-independent passes made of it; `index_program` evaluates the index arithmetic of a
    launch (None: not known to fit).
    """

    source: KernelSource
    spec: Specialization
    first: Module
    module: Module
    recorder: Recorder
    index_program: Any = None


@dataclass(slots=True)
class Compiled:
    """One kernel compiled for one target, as plain data."""

    target: str
    lowered: Lowered
    built: Built
    trace: LazyTrace
    milliseconds: float
    _binary: Binary | None = field(default=None, repr=False)

    @property
    def binary(self) -> Binary:
        """The loadable code; made at the first use."""
        if self._binary is None:
            begin("asm" if self.target == "cpu" else "sass")
            start = time.perf_counter()
            self._binary = self.built.assemble()
            took = (time.perf_counter() - start) * 1e3
            self.lowered.recorder.times.setdefault("assemble", took)
        return self._binary

    @property
    def module(self) -> Module:
        """The tile IR as the front end made it: what the interpreter runs."""
        return self.lowered.first

    @property
    def begun(self) -> Begun:
        """What another compilation of the same source and arguments can begin with."""
        recorder = self.lowered.recorder
        return Begun(self.module, recorder.front_end(), recorder.times.get("tile", 0.0))


def family_of(target: str) -> str:
    """Return the room that builds a target; raises OptionError K114 for an unknown one."""
    if target in ("cpu", "interpreter"):
        return target
    if target in CHIPS:
        return "nvidia"
    raise OptionError(
        f"unknown target {target}; known: cpu, interpreter, sm_80 … sm_121a", code="K114"
    )


@deep
def lower(source: KernelSource, spec: Specialization, fits: Fits | None = None) -> Lowered:
    """Return the tile IR of a kernel; raises KernelError with the partial trace attached.

    Where `fits` is given, it decides from the index program whether indices become 32 bits wide
    (`Options.narrow_index`); without it the specialisation's own option holds.
    """
    return _Compilation(source, spec, "").lower(fits)


@deep
def begin_kernel(source: KernelSource, spec: Specialization, target: str) -> Begun:
    """Return what the front end makes of a kernel; raises KernelError as `compile_kernel` does."""
    with rarely_collected():
        return _Compilation(source, spec, target).begin()


@deep
def compile_kernel(
    source: KernelSource,
    spec: Specialization,
    target: str,
    fits: Fits | None = None,
    begun: Begun | None = None,
) -> Compiled:
    """Compile a kernel for a target; raises KernelError with the partial trace attached.

    `begun` is what the front end has made of the same source and arguments already.
    """
    with rarely_collected():
        return _Compilation(source, spec, target, begun).compile(fits)


class _Compilation:
    """One compilation in progress, and what it has to tell."""

    def __init__(
        self, source: KernelSource, spec: Specialization, target: str, begun: Begun | None = None
    ) -> None:
        self.source = source
        self.spec = spec
        self.target = target
        self.recorder = Recorder()
        self.begun = begun
        self.first: Module | None = None
        #: What an edited text of the tile IR says.
        self.edited: Module | None = None
        self.module: Module | None = None
        self.index_program: Any = None
        self.built: Built | None = None
        self.result: Compiled | None = None

    def begin(self) -> Begun:
        try:
            module = self._front_end()
        except KernelError as error:
            error.trace = self.trace(error)
            raise
        return Begun(module, self.recorder.front_end(), self.recorder.times["tile"])

    def lower(self, fits: Fits | None) -> Lowered:
        try:
            return self._lower(fits)
        except KernelError as error:
            error.trace = self.trace(error)
            raise

    def compile(self, fits: Fits | None) -> Compiled:
        family = family_of(self.target)
        start = time.perf_counter()
        if family != "interpreter":
            generator.prepare()
        override = self.spec.override
        try:
            pipeline = imported(f"workbench.targets.{family}.pipeline")
            if override is not None:
                stages = ("tile", *(step.stage for step in pipeline.STEPS))
                check_stage(override, self.target, stages)
            lowered = self._lower(fits)
            module = lowered.first if family == "interpreter" else lowered.module
            began = time.perf_counter()
            built: Built = pipeline.build(module, self.target, self.recorder, override)
            self.built = built
            self.recorder.times["build"] = (time.perf_counter() - began) * 1e3
        except KernelError as error:
            error.trace = self.trace(error)
            raise
        except (KeyError, AssertionError, IndexError, TypeError, ValueError, RuntimeError) as error:
            if override is None:
                raise
            raise _beyond(override, error) from error
        took = (time.perf_counter() - start) * 1e3
        self.result = Compiled(self.target, lowered, built, self.trace(None), took)
        return self.result

    def _lower(self, fits: Fits | None) -> Lowered:
        times = self.recorder.times
        module = self.first = self._front_end()
        start = time.perf_counter()
        step = Step("tile", self._tile, self._read_tile)
        self.module = go((step,), module, self.spec.override)
        times["tile passes"] = (time.perf_counter() - start) * 1e3
        if fits is not None:
            self._choose_width(fits)
        elif self.spec.override is not None and self.spec.options.narrow_index:
            self._find_index_program()
        first = self.edited or self.first
        return Lowered(
            self.source, self.spec, first, self.module, self.recorder, self.index_program
        )

    def _front_end(self) -> Module:
        """Return what the front end makes of the source, or has made of it already."""
        recorder, begun, options = self.recorder, self.begun, self.spec.options
        if begun is not None:
            recorder.remarks.items.extend(begun.remarks)
            recorder.times["tile"] = begun.milliseconds
            width = {"narrow_index": options.narrow_index}
            return replace(begun.module, attributes={**begun.module.attributes, **width})
        recorder.remarks.pass_name = FRONT_END
        begin("source")
        start = time.perf_counter()
        spec = replace(self.spec, options=replace(options, target=self.target))
        module = lower_kernel(self.source, spec, recorder.remarks)
        recorder.times["tile"] = (time.perf_counter() - start) * 1e3
        return module

    def _tile(self, module: Module) -> Module:
        """Do what every target wants; checks go before accesses before anything moves."""
        if self.spec.options.guarded:
            module = self.recorder.run("check-accesses", check_accesses, module, "tile")
            module = replace(module, attributes={**module.attributes, "guarded": True})
        return tile_passes(module, self.recorder)

    def _read_tile(self, made: Module, override: Override) -> Module:
        """Take edited tile IR as it is written; only checked code is worked on again."""

        def read(made: Module, remarks: Remarks) -> Module:
            del remarks
            return read_module(override, made)

        module = self.edited = self.recorder.run("override", read, made, "tile")
        return self._tile(module) if self.spec.options.guarded else module

    def _choose_width(self, fits: Fits) -> None:
        """Set `narrow_index` for the launch that asks; the tile IR is the same for both.

        The passes regroup index arithmetic, so what must fit is what they have left.
        """
        assert self.first is not None
        assert self.module is not None
        self._find_index_program()
        narrow = bool(fits(self.index_program))
        if narrow != self.spec.options.narrow_index:
            self.spec = replace(self.spec, options=replace(self.spec.options, narrow_index=narrow))
        attributes = {**self.first.attributes, "narrow_index": narrow}
        self.first = replace(self.first, attributes=attributes)
        self.module = replace(
            self.module, attributes={**self.module.attributes, "narrow_index": narrow}
        )

    def _find_index_program(self) -> None:
        from workbench.analysis.ranges import index_program

        assert self.module is not None
        self.index_program = index_program(self.module)

    # -- the trace ------------------------------------------------------------------------
    def trace(self, error: KernelError | None) -> LazyTrace:
        """Return the trace of what exists so far; nothing is printed yet."""
        # A cell whose kernel fails gives the names that it bound their former values back, and
        # helper functions are found by name: what an error may point into is looked up now.
        texts = self._source_texts() if error is not None else None
        return LazyTrace(deep(lambda: self._build_trace(error, texts).finish().trace))

    def _source_texts(self) -> list[tuple[str, str, int, str]]:
        """Return (file, text, first line, role) of the kernel and of the helpers that it calls."""
        file, text, line0 = shown_source(self.source)
        last = line0 + text.count("\n")
        helpers = [
            (helper.file, helper.text, helper.first_line, "device")
            for helper in captures(self.source).sources[1:]
            if not (helper.file == file and line0 <= helper.first_line <= last)
        ]
        return [(file, text, line0, "entry"), *helpers]

    def _build_trace(
        self, error: KernelError | None, texts: list[tuple[str, str, int, str]] | None
    ) -> TraceBuilder:
        texts = self._source_texts() if texts is None else texts
        override = self.spec.override
        if override is not None and override.stage in ("tile", "gpu"):  # places of its ops
            texts = [*texts, (override.file, override.text, override.line, "library")]
        file, text, line0, _ = texts[0]
        builder = TraceBuilder(kernel=self._kernel(file), made=made())
        places = Places(builder)
        spans = self._spans()
        for source in _used(texts, spans, error):
            places.add(*source)
        resources = self._resources() if self.built is not None else Resources()
        times = self._stage_times()
        builder.add_stage("source", source_stage(file, text, line0, spans), "python")
        builder.add_stage("ast", lambda: ast_stage(self.source, spans), "ast")
        self._add_module(builder, "tile", self.module or self.first, times.get("tile"))
        if self.built is not None:
            self._add_module(builder, "gpu", self.built.gpu, times.get("gpu"))
            for stage, produce in self.built.texts.items():
                took = times.get(stage)
                produce = _naming(produce, {span.file for _, span in spans} | {file})
                builder.add_stage(stage, produce, LANGUAGES[stage], milliseconds=_rounded(took))
            builder.set(resources=resources, **self.built.fields)
        add_passes(builder, self.recorder)
        add_ops(builder, places, self.first, self.recorder)
        add_remarks(builder, places, self.recorder)
        if error is not None:
            until: StageId = "tile" if self.module or self.first else "ast"
            for one in (error, *error.others):
                builder.add_error(diagnostic(one, places, until))
        return builder

    def _stage_times(self) -> dict[str, float]:
        """Return what each stage took: tile and GPU IR with their passes, code with its tool."""
        times = dict(self.recorder.times)
        for record in self.recorder.passes:
            times[record.pipe] = times.get(record.pipe, 0.0) + record.milliseconds
        if "assemble" in times:
            times["asm" if self.target == "cpu" else "sass"] = times["assemble"]
        return times

    def _add_module(
        self, builder: TraceBuilder, stage: StageId, module: Module | None, took: float | None
    ) -> None:
        if module is not None:
            text = builder.lazy_text(module, lambda: render_module(module))
            builder.add_stage(stage, text, LANGUAGES[stage], milliseconds=_rounded(took))

    def _resources(self) -> Resources:
        assert self.built is not None
        try:
            known = self.result.binary.resources if self.result else Resources()
        except KernelError:  # who needs the code is told; the stages before it are shown
            known = Resources()
        shared = known.shared_bytes
        return replace(known, shared_bytes=self.built.shared_bytes if shared is None else shared)

    def _spans(self) -> list[tuple[int, Span]]:
        """Return the place of every op that ever existed, by id."""
        modules = [record.after for record in self.recorder.passes if record.changed]
        if self.first is not None:
            modules.insert(0, self.first)
        found: dict[int, Span] = {}
        for module in modules:
            for op in module.walk():
                if op.span is not None:
                    found.setdefault(op.id, op.span)
        return sorted(found.items())

    def _kernel(self, file: str) -> Kernel:
        return Kernel(
            name=self.source.name,
            entry=self.built.symbol if self.built else self.source.name,
            file=shown_file(file),
            line0=self.source.first_line,
            params=self._parameters(),
            options=self._options(),
            target=self.target or "tile",
            spec=self._spec_words(),
            overridden=None
            if self.spec.override is None
            else cast("Any", self.spec.override.stage),
        )

    def _options(self) -> dict[str, Any]:
        options: dict[str, Any] = {}
        for item in fields(self.spec.options):
            value = getattr(self.spec.options, item.name)
            if item.name == "asked":
                options |= dict(value)
            elif value != item.default or item.name in ("num_warps", "num_stages"):
                options[item.name] = value
        if self.built is not None:
            options["num_warps"] = self.built.num_warps
            options["num_stages"] = self.built.num_stages
        return options

    def _parameters(self) -> tuple[Parameter, ...]:
        roles = parameter_roles(self.first) if self.first is not None else {}
        found: list[Parameter] = []
        for name, argument in self.spec.arguments:
            if argument.is_constant:
                value = argument.value
                plain = isinstance(value, bool | float) or (
                    isinstance(value, int) and value.bit_length() <= 256
                )
                text = value if plain else value if isinstance(value, str) else shown(value)
                found.append(Parameter(name=name, type="constexpr", role="constexpr", value=text))
            elif argument.items is not None:
                found.append(Parameter(name=name, type="tuple", role="scalar"))
            else:
                role = roles.get(name, "in" if argument.is_pointer else "scalar")
                align = argument.divisible if argument.divisible != 1 else None
                kind = str(type_of(argument.type or ""))
                found.append(Parameter(name=name, type=kind, role=role, align=align))
        return tuple(found)

    def _spec_words(self) -> str:
        words: list[str] = []
        for name, argument in self.spec.arguments:
            kind = None if argument.type is None else type_of(argument.type)
            if isinstance(kind, Pointer):
                words += [] if str(kind.pointee) in words else [str(kind.pointee)]
            elif argument.is_constant and not _is_unit(argument):
                value = argument.value
                words.append(f"{name}={value if isinstance(value, str) else shown(value)}")
        warps = self.built.num_warps if self.built else self.spec.options.num_warps
        if warps and self.target not in ("cpu", "interpreter"):
            words.append(f"w{warps}")
        return "·".join(words)


def _beyond(override: Override, error: Exception) -> CompileError:
    """Return the error for a text that is valid, and that the stages after it do not take."""
    return CompileError(
        f"the stages after {override.stage} do not take this text: {type(error).__name__} {error}",
        override.span(1), code="K292", hint="make smaller edits, one at a time",
    )  # fmt: skip


def _is_unit(argument: Argument) -> bool:
    return argument.value is None or argument.value == 1


def _rounded(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else round(milliseconds, 3)


def _used(
    texts: list[tuple[str, str, int, str]],
    spans: Sequence[tuple[int, Span]],
    error: KernelError | None,
) -> list[tuple[str, str, int, str]]:
    """Return the kernel's text and those of the helpers that an op or the error points into."""
    places = [span for _, span in spans]
    for one in () if error is None else (error, *error.others):
        places += [note.span for note in (*callers(one), *one.notes) if note.span is not None]
        places += [] if one.span is None else [one.span]
    lines = {(at.file, at.line) for span in places for at in (span, *span.calls)}
    helpers = [
        text for text in texts[1:]
        if any((text[0], text[2] + row) in lines for row in range(text[1].count("\n") + 1))
    ]  # fmt: skip
    return [texts[0], *helpers]


def _naming(produce: Callable[[], Rendered], files: set[str]) -> Callable[[], Rendered]:
    """Have debug information call files as readers do: a trace tells no folders."""
    named = {file: shown_file(file) for file in files}
    changed = {file: name for file, name in named.items() if file != name}
    if not changed:
        return produce

    def rename() -> Rendered:
        found = produce()
        text = found.text
        for file, name in changed.items():
            text = text.replace(f'"{file}"', f'"{name}"')
        return replace(found, text=text)

    return rename


def made() -> Made:
    """Return the versions of what makes a trace."""
    python = ".".join(map(str, sys.version_info[:3]))
    llvm = generator.llvmlite_version() or package_version("llvmlite")
    return Made(workbench=sys.modules["workbench"].__version__, llvm=llvm, python=python)


def package_version(name: str) -> str:
    """Return the version of an installed package, "0" for one that is not installed.

    This package may be run from its tree, and knows its version all the same.
    """
    from importlib import metadata  # with what reads mail: 40 ms

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return getattr(sys.modules.get(name), "__version__", "0")
