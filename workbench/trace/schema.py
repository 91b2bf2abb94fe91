r"""The Trace: one JSON record of a specialisation's compilation and runs, as frozen dataclasses.

Field names are the JSON keys; a trailing underscore only avoids a Python keyword (`from_` is
"from"). A field that is None is left out of the JSON, all others are always there; readers ignore
keys that they do not know and fill missing ones from the defaults, so a new key disturbs nobody.
`VERSION` rises only when a key goes or changes its meaning (`codec.UPGRADES` converts older forms).

Numbers that nobody measured are None (absent), never a guess. NaN and infinities, which JSON does
not have, are the strings "nan", "inf" and "-inf".

Conventions used below:

| word  | meaning |
|-------|---------|
| text  | index into `Trace.strings`, where every distinct text stands once |
| row   | line of a text, from 0: `text.split("\n")`; texts carry no final newline |
| op    | op id, a positive integer, the same in every stage and pass |
| place | (source, line, column, end line, end column): source is an index into `Trace.sources`, |
|       | lines and columns count from 1 in that source's file, the end column is exclusive; |
|       | source -1 = no place |
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeAlias

VERSION = 1

StageId: TypeAlias = Literal["source", "ast", "tile", "gpu", "llvm", "ptx", "sass", "asm"]
StageState: TypeAlias = Literal["ok", "partial", "pending", "missing"]
Pipe: TypeAlias = Literal["tile", "gpu", "llvm"]
Role: TypeAlias = Literal["in", "out", "inout", "scalar", "constexpr"]
StepKind: TypeAlias = Literal[
    "copy", "wait", "product", "read", "arrive", "meet", "load", "compute", "store"
]
Severity: TypeAlias = Literal["error", "warning", "note", "missed", "applied"]

AnyFloat: TypeAlias = Annotated[float, "may be NaN or infinite"]
Scalar: TypeAlias = bool | int | float | str | None
Number: TypeAlias = int | float
RowRun: TypeAlias = tuple[int, int, tuple[int, ...]]  # first row, count, ops of each of these rows
RowMap: TypeAlias = tuple[RowRun, ...]  # ascending, disjoint; a row in no run belongs to nobody
Place: TypeAlias = tuple[int, int, int, int, int]
Vectors: TypeAlias = tuple[tuple[int, ...], ...]  # one coordinate per bit of an input dimension
# program (linear: x + y * grid_x + z * grid_x * grid_y), element of the op's tile (row-major),
# array parameter, element of that array, live (False: masked off)
Access: TypeAlias = tuple[int, int, str, int, bool]
Quantiles: TypeAlias = tuple[float, float, float, int]  # 20 %, 50 %, 80 %, number of runs

ALWAYS: dict[str, Any] = {"always": True}  # readers may count on the key although it has a default

STAGE_IDS: tuple[StageId, ...] = ("source", "ast", "tile", "gpu", "llvm", "ptx", "sass", "asm")


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What made the trace: tool versions, and when (seconds since 1970; not part of the id)."""

    workbench: str
    llvm: str | None = None
    ptxas: str | None = None
    nvdisasm: str | None = None
    python: str | None = None
    time: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter of the kernel; `align` in bytes (or divisor of a scalar) where it is known."""

    name: str
    type: str
    role: Role
    align: int | None = None
    value: Scalar = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """Which kernel was specialised, and how.

    `file` is the path relative to the notebook, or the cell as "In[3]"; `spec` names the
    specialisation in a few words ("f16·BLOCK=128·w8"); `overridden` is the stage that a user's
    edit replaced; `cached` says that the compilation came from the cache (not part of the id).
    """

    name: str
    entry: str
    file: str
    line0: int = 1
    params: tuple[Parameter, ...] = ()
    options: dict[str, Scalar] = field(default_factory=dict[str, Scalar])
    target: str
    spec: str = ""
    overridden: StageId | None = None
    cached: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One source text: the cell or file of the kernel, or of a function that it calls.

    `line0` is the line number in `file` of the text's first line.
    """

    file: str
    line0: int = 1
    text: int
    role: Literal["entry", "device", "library"] = "entry"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One text that the compiler produced, and the ops its rows come from.

    `rows` holds runs (first row, count, op ids); a row in no run was made up by the compiler and
    belongs to nobody. A stage that is not "ok" says why in `note`, and what would bring it.
    """

    id: StageId
    text: int
    lang: str
    rows: RowMap = ()
    state: StageState = "ok"
    note: str | None = None
    milliseconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ops:
    """The op table as columns of equal length, ascending in `id`.

    `parents` are the ops it was made from; `born` is the index in `Trace.passes` of the pass that
    made it, -1 for the front end; `calls` is the chain of call sites (source, line), outermost
    first, through which an inlined helper was reached. An op with a region has its header as
    place, not the whole region.
    """

    id: tuple[int, ...] = ()
    name: tuple[int, ...] = ()  # texts: mnemonics
    loc: tuple[Place, ...] = ()
    parents: tuple[tuple[int, ...], ...] = ()
    born: tuple[int, ...] = ()
    calls: tuple[tuple[tuple[int, int], ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedRule:
    """A rewrite rule that a pass applied: what it uses ("x + 0 = x"), and at which ops."""

    name: str
    identity: str
    ops: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One compiler pass: its time, its texts before and after, and what it did to ops.

    `rows` maps the rows of `after`, `before_rows` those of `before`; either is left out where
    another pass or stage with the same text has it (`links.rows_of_text` finds it). `before` and
    `after` are None where the texts were dropped to save space; the op changes stay.
    """

    name: str
    pipe: Pipe
    milliseconds: float
    changed: bool
    before: int | None = None
    after: int | None = None
    rows: RowMap | None = None
    before_rows: RowMap | None = None
    add: tuple[int, ...] = ()
    del_: tuple[int, ...] = ()
    map: tuple[tuple[int, tuple[int, ...]], ...] = ()  # old op -> the ops that replace it
    rules: tuple[AppliedRule, ...] = ()
    stats: dict[str, Number] = field(default_factory=dict[str, Number])


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A layout as an F2-linear map: for each input dimension its basis vectors.

    `ops` give `values` that lie so and have the same elements, `op` gives `value`, one of them.
    """

    op: int
    value: str
    shape: tuple[int, ...]
    element: str
    kind: Literal["register", "shared"]
    bases: dict[str, Vectors] = field(default_factory=dict[str, Vectors])
    name: str | None = None  # the alias in the GPU IR, such as "#L2"
    ops: tuple[int, ...] = ()
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedBuffer:
    """One allocation in shared memory, live from op `from` to op `to`."""

    name: str
    op: int
    offset: int
    bytes: int
    from_: int
    to: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ring:
    """Slots of shared memory through which tiles come into a loop, round by round.

    `bytes` of one slot; `op` made it; `full` and `empty` made the barriers that say that a slot
    has been filled and read, None where other waits do.
    """

    value: str
    op: int
    slots: int
    bytes: int
    full: int | None = None
    empty: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What a role does in a round of a pipelined loop, or before or after the loop.

    `stage` counts rounds: 0 works on the round at hand, -2 on the one two rounds later (it is
    ahead), 1 on the last one (it is late). `rings` are indices into `Pipeline.rings`, `in_flight`
    says how many products are under way once a product has been started.
    """

    text: str
    kind: StepKind
    phase: Literal["before", "round", "after"] = "round"
    role: int = 0
    stage: int = 0
    ops: tuple[int, ...] = ()
    rings: tuple[int, ...] = ()
    in_flight: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """A pipelined loop; `ops` holds (op, index into `roles`, stage), `steps` in program order.

    `stages` is how many slots its deepest ring has; `warps` of each role; `registers` that a
    thread of the role is given, None where all threads of the block have as many.
    """

    loop: int
    roles: tuple[str, ...]
    stages: int
    ops: tuple[tuple[int, int, int], ...] = ()
    warps: tuple[int, ...] = ()
    registers: tuple[int | None, ...] = ()
    rings: tuple[Ring, ...] = ()
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryAccess:
    """How one load, store or atomic reaches memory.

    `vec` is elements per lane and access, `bytes` the width of that access, `sectors` of 32 bytes
    per warp against `ideal`, `banks` the conflict degree in shared memory (1 = none), `masked` the
    share of lanes that are off. `addr` are accesses that the interpreter recorded (small grids);
    `accesses` says how many there were where `addr` holds only the first of them.
    """

    op: int
    direction: Literal["load", "store", "atomic"]
    space: Literal["global", "shared"] = "global"
    vec: int | None = None
    bytes: int | None = None
    sectors: int | None = None
    ideal: int | None = None
    banks: int | None = None
    masked: float | None = None
    addr: tuple[Access, ...] = ()
    accesses: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """What a pass did or could not do, and why, on one op."""

    code: str
    severity: Severity
    text: str
    pass_: int | None = None
    op: int | None = None
    span: Place | None = None
    args: dict[str, Scalar] = field(default_factory=dict[str, Scalar])


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagnosticNote:
    """A further remark of a diagnostic, with its own place."""

    text: str
    span: Place | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One error: a remark with notes, help, and the last stage that exists in spite of it."""

    code: str
    severity: Severity
    text: str
    pass_: int | None = None
    op: int | None = None
    span: Place | None = None
    args: dict[str, Scalar] = field(default_factory=dict[str, Scalar])
    notes: tuple[DiagnosticNote, ...] = ()
    help: str | None = None
    trace_until: StageId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupancy:
    """Resident warps of `max` on one multiprocessor, and what limits them ("registers")."""

    warps: int
    max: int
    limit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What one program takes; `live` is (row of the sass stage, live registers)."""

    registers: int | None = None
    shared_bytes: int | None = None
    dynamic_shared_bytes: int | None = None
    spill_store_bytes: int | None = None
    spill_load_bytes: int | None = None
    stack_bytes: int | None = None
    barriers: int | None = None
    code_bytes: int | None = None
    occupancy: Occupancy | None = None
    live: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchArgument:
    """One argument of a launch: shape and stride of an array, or the value of a scalar."""

    name: str
    type: str
    shape: tuple[int, ...] | None = None
    stride: tuple[int, ...] | None = None
    value: Scalar = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One launch; `t` in seconds since 1970; `guarded`: its accesses were checked."""

    t: float
    grid: tuple[int, ...]
    args: tuple[LaunchArgument, ...] = ()
    device: str
    milliseconds: float | None = None
    guarded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """One wrong element: which program (linear) and op stored it, None if nobody did."""

    out: str
    index: tuple[int, ...]
    got: AnyFloat
    want: AnyFloat
    program: int | None = None
    op: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One comparison with a reference; `nan` counts NaNs that the reference does not have.

    `reference` says how it was computed: "float64", "as written" or "interpreter". `usual` is the
    error that a right kernel may have at its worst element; `rtol` and `atol` are the user's, if
    they replace the model of errors. `shift` is a mean error that rounding does not explain, as
    it is or, if `shift_relative`, as a share of the magnitude.
    """

    ok: bool
    ref: str
    wrong: int
    total: int
    max_abs: AnyFloat
    max_rel: AnyFloat
    nan: int = 0
    first: tuple[Mismatch, ...] = ()
    reference: str = "as written"
    usual: AnyFloat | None = None
    rtol: float | None = None
    atol: float | None = None
    shift: AnyFloat | None = None
    shift_relative: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Where a benchmark ran; clock in MHz, temperature in degrees Celsius, at start and end.

    `others` is the share of the processor that other programs took meanwhile, 0 to 1.
    """

    device: str
    clock: tuple[float, ...] = ()
    temp: tuple[float, ...] = ()
    driver: str | None = None
    others: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """One measured series; every column is as long as `x`.

    `flops` and `bytes` are the work of one launch. `ok` is None where a point was not checked.
    `timed` says what the caches held (cold: flushed before each run; hot: as the run before left
    them), or `host` where the host's own time may be in the time of a GPU.
    `error` says why a baseline has no numbers ("not installed"); then the columns are empty.
    `guarded`: each point ran once with its accesses checked before it was timed without that.
    """

    name: str
    kind: Literal["self", "baseline"]
    axis: str = ""
    x: tuple[Number | str, ...] = ()
    milliseconds: tuple[Quantiles, ...] = ()
    flops: tuple[float | None, ...] = ()
    bytes: tuple[float | None, ...] = ()
    ok: tuple[bool | None, ...] = ()
    unsteady: tuple[bool, ...] = ()
    timed: tuple[Literal["cold", "hot", "host"], ...] = ()
    metric: Literal["tflops", "gbps", "ms", "percent"] | None = None
    env: Environment | None = None
    error: str | None = None
    guarded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """A limit of the device that plots draw: in TFLOP/s or GB/s (1 GB = 1e9 bytes)."""

    name: str
    unit: Literal["tflops", "gbps"]
    value: float
    source: Literal["data sheet", "measured"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneRow:
    """One tried configuration, and why it was rejected or wrong; `timed` as in `Bench`."""

    config: dict[str, Scalar]
    milliseconds: float | None = None
    timed: Literal["cold", "hot", "host"] | None = None
    state: Literal["ok", "rejected", "wrong"]
    why: str | None = None
    registers: int | None = None
    spills: int | None = None
    shared_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tune:
    """One search over configurations; `best` is an index into `rows`; `guarded` as in Bench."""

    axes: tuple[str, ...]
    rows: tuple[TuneRow, ...] = ()
    best: int | None = None
    guarded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """What was not done, and why: ("launch", "no CUDA device")."""

    what: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """What happened after compilation; no part of it enters the trace's id.

    `errors` are those of launches, checks and benchmarks; `Trace.errors` are the compiler's.
    """

    launches: tuple[Launch, ...] = ()
    checks: tuple[Check, ...] = ()
    benches: tuple[Bench, ...] = ()
    tunes: tuple[Tune, ...] = ()
    ceilings: tuple[Ceiling, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    errors: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """One specialisation's compilation and runs (see the top of this file for the conventions).

    `id` is the sha256 over everything but id, runs and times: the same input gives the same id.
    """

    version: int = field(default=VERSION, metadata=ALWAYS)
    id: str = field(default="", metadata=ALWAYS)
    made: Made
    kernel: Kernel
    strings: tuple[str, ...] = field(default=(), metadata=ALWAYS)
    sources: tuple[Source, ...] = field(default=(), metadata=ALWAYS)
    stages: tuple[Stage, ...] = field(default=(), metadata=ALWAYS)
    ops: Ops = field(default_factory=Ops, metadata=ALWAYS)
    passes: tuple[Pass, ...] = field(default=(), metadata=ALWAYS)
    layouts: tuple[Layout, ...] = ()
    shared: tuple[SharedBuffer, ...] = ()
    pipelines: tuple[Pipeline, ...] = ()
    access: tuple[MemoryAccess, ...] = ()
    remarks: tuple[Remark, ...] = ()
    resources: Resources = field(default_factory=Resources, metadata=ALWAYS)
    runs: Runs = field(default_factory=Runs, metadata=ALWAYS)
    errors: tuple[Diagnostic, ...] = ()

    def stage(self, name: str) -> Stage | None:
        """Return the stage of that id, or None."""
        return next((stage for stage in self.stages if stage.id == name), None)

    def text(self, name: str) -> str:
        """Return the text of a stage, empty if the trace does not have it."""
        stage = self.stage(name)
        return self.strings[stage.text] if stage is not None else ""
