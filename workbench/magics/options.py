"""The one table of options: magics, command line, completion and documentation read it.

An `Option` is a row of the table; `Request` is what parsing a line by the table gives. What the
values mean is in `values.py`, the grammar (quotes, `{expr}`, `--flag=value`) in `grammar.py`.
Nothing here needs IPython.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from workbench.magics.values import (
    EMBED_MODES,
    METRICS,
    PANES,
    TARGETS,
    Axis,
    Baseline,
    Expression,
    Token,
    axis,
    baseline,
    expression,
    identifier,
    line_number,
    line_range,
    map_axis,
    one_of,
    pane_names,
    pattern,
    plain_text,
    seconds,
    setting,
    step_number,
    target_name,
    tolerance,
    tune_axis,
    two_labels,
    whole_number,
    word_list,
)
from workbench.source import Span
from workbench.source.compile_options import COMPILE_OPTIONS


@dataclass(frozen=True, slots=True)
class Request:
    """An option line, parsed: one field per row of the table."""

    names: tuple[str, ...] = ()
    args: Expression | None = None
    grid: Expression | None = None
    settings: tuple[tuple[str, Expression], ...] = ()
    sig: str | None = None
    target: str = "auto"
    make: Expression | None = None
    axes: tuple[Axis, ...] = ()
    cross_axes: bool = False
    check: Expression | Literal["interpreter"] | None = None
    rtol: float | None = None
    atol: float | None = None
    bench: bool = False
    baselines: tuple[Baseline, ...] = ()
    flops: Expression | None = None
    bytes: Expression | None = None
    metric: str = "auto"
    cold: bool = False
    warm: bool = False
    show: tuple[str, ...] | None = None
    bind: str | None = None
    embed: str = "auto"
    no_cache: bool = False
    no_run: bool = False
    guard: bool = False
    no_guard: bool = False
    report: str = "error"
    isolate: bool = False
    quiet: bool = False
    lines: tuple[int, int] | None = None
    line: int | None = None
    raw: bool = False
    loc: bool = False
    everything: bool = False
    tune: tuple[Axis, ...] = ()
    tune_for: float | None = None
    grep: str | None = None
    llvm_passes: bool = False
    by: str | None = None
    warp: int | None = None
    shared: bool = False
    control: bool = False
    clear: bool = False
    force: bool = False
    emit: tuple[str, ...] = ()
    output: str | None = None
    json: bool = False
    stage: str | None = None
    labels: tuple[str, str] | None = None
    assume: tuple[str, ...] = ()
    at: int | None = None
    breaks: tuple[int, ...] = ()
    watch: str | None = None
    grade: bool = False
    seed: int | None = None
    places: Mapping[str, Span | None] = field(default_factory=dict[str, Span | None])

    @property
    def name(self) -> str | None:
        """The first plain word, usually a kernel's name."""
        return self.names[0] if self.names else None

    def place(self, name: str) -> Span | None:
        """Return where the option that fills field `name` was written."""
        return self.places.get(name)


@dataclass(frozen=True, slots=True)
class Option:
    """A row of the table."""

    flag: str
    field: str
    meaning: str
    convert: Callable[[Token], Any] | None = None  # None: a flag without a value
    metavar: str = ""
    default: str = ""
    example: str = ""
    optional: bool = False  # the value may be left out
    repeated: bool = False
    short: str = ""
    commands: frozenset[str] = frozenset()


_CELL = frozenset({"kernel"})
#: The commands that launch a kernel.
RUNS = _RUN = frozenset({"kernel", "check", "bench", "tune", "roofline"})
#: Those that look at what was compiled: for a GPU, or by which passes.
_LAID_OUT = frozenset({"schedule", "layouts", "access", "passes"})
_BUILD = _RUN | _LAID_OUT | {"compile", "bisect", "whatif", "step"}
_MADE = _BUILD - {"whatif", "step"}
#: Edits of a stage give arguments, and compare what comes of them.
_EDIT = frozenset({"override"})
#: Those that bind a launch, whatever they do with it.
_BIND = _RUN | _EDIT | {"bisect", "whatif", "step"}
#: Those that check it, too.
_CHECKED = _BIND - {"whatif", "step"}
_PAGES = frozenset({"diff", "follow", "step"})
_STAGES = frozenset(f"{stage}" for stage in PANES if stage != "source")

#: command -> the most plain words (a kernel's name, a path) that it takes
WORDS: dict[str, int] = {
    "kernel": 1, "check": 1, "bench": 1, "tune": 1, "compile": 1, "passes": 2, "explain": 1,
    "kernels": 1, "save": 2, "override": 3, "layouts": 2, "access": 2, "workbench": 2,
    "doctor": 0, "view": 1, "bisect": 2, "diff": 2, "follow": 2, "whatif": 1,
    "roofline": 1, "schedule": 1, "step": 2, "puzzles": 1, "config": 1, "cache": 1, "version": 0,
    **dict.fromkeys(_STAGES, 1),
}  # fmt: skip

OPTIONS: tuple[Option, ...] = (
    Option(
        "--args", "args",
        "launch arguments: Python expressions in parameter order, constexprs left out",
        expression("--args"), "EXPRS", example="--args x,y,out,n", commands=_BIND,
    ),
    Option(
        "--grid", "grid",
        "number of program instances: int, tuple or callable; a callable gets the parameters it "
        "names, or one dict `meta`",
        expression("--grid"), "G", "that of @kernel(grid=...)", '--grid "cdiv(n, BLOCK)"',
        commands=_BIND,
    ),
    Option(
        "--set", "settings",
        f"a constexpr or a compile option ({' '.join(o.name for o in COMPILE_OPTIONS)}; "
        "%explain NAME says what one does; short: warps stages ctas)",
        setting, "K=V", "signature defaults; 4 warps, 3 stages",
        "--set BLOCK=128 --set warps=8", repeated=True, commands=_BUILD | _EDIT,
    ),
    Option(
        "--sig", "sig",
        "types without data: f16 or fp16, * for pointers, :16 divisible by 16, =v a fixed value",
        plain_text, "TEXT", "from --args", '--sig "*f16:16 *f16:16 *f32 i32:16"',
        commands=_BUILD - {"step"} | _EDIT,
    ),
    Option(
        "--assume", "assume",
        "a fact that holds at every launch, for --sig: a Python expression over parameter names",
        lambda token: (plain_text(token),), "FACT", example='--assume "n % 16 == 0"', repeated=True,
        commands=_BUILD | _EDIT,
    ),
    Option(
        "--target", "target",
        "auto (where the arguments lie; without a GPU: cpu, and sm_90a is compiled too), cpu, "
        "interpreter or a chip; of whatif a chip",
        target_name, "T", "auto", "--target sm_90a", commands=_BUILD - {"step"} | _EDIT,
    ),
    Option(
        "--make", "make",
        "callable f(**x) that returns the arguments as a dict by parameter name",
        expression("--make"), "EXPR", example="--make mk", commands=_BIND,
    ),
    Option(
        "--x", "axes",
        "sweep axis of --make: values, a:b:step or a:b:*factor, both ends included",
        axis, "N=SPEC", example="--x N=256:8192:*2", repeated=True, commands=_BIND,
    ),
    Option(
        "--x-grid", "cross_axes", "cross the axes of --x instead of zipping them", commands=_RUN,
    ),
    Option(
        "--check", "check",
        "reference expression over copies of the arguments from before the launch; without one: "
        "the interpreter; says, too, which elements of an output were right without being written",
        expression("--check"), "[EXPR]", "off", '--check "torch.matmul(a, b)"', optional=True,
        commands=_CHECKED,
    ),
    Option(
        "--rtol", "rtol", "relative tolerance", tolerance("--rtol"), "R",
        "by a model of what was rounded", "--rtol 1e-3", commands=_CHECKED,
    ),
    Option(
        "--atol", "atol", "absolute tolerance", tolerance("--atol"), "A",
        "by a model of what was rounded", "--atol 1e-4", commands=_CHECKED,
    ),
    Option("--bench", "bench", "time it", default="off", commands=_RUN),
    Option(
        "--baseline", "baselines",
        "time this beside it: torch (the --check expression), cublas, triton, self (the previous "
        "result), or [NAME=]EXPR",
        baseline, "[NAME=]EXPR", example='--baseline cuBLAS="torch.mm(a, b, out=c)"',
        repeated=True, commands=_RUN,
    ),
    Option(
        "--flops", "flops", "floating-point operations of one launch", expression("--flops"), "E",
        "counted from the ops and the grid", '--flops "2*M*N*K"', commands=_RUN,
    ),
    Option(
        "--bytes", "bytes", "bytes that one launch must move", expression("--bytes"), "E",
        "counted from the ops and the grid", '--bytes "3*4*n"', commands=_RUN,
    ),
    Option(
        "--metric", "metric", "what the plot shows",
        one_of("--metric", "metric", METRICS, "K120"), "M", "tflops with a dot, else gbps",
        "--metric gbps", commands=_RUN,
    ),
    Option(
        "--tune", "tune",
        "search along this axis, a constexpr or an option, and go on with the fastest; joins the "
        "configurations of @autotune",
        tune_axis, "A=V,…", example="--tune BM=64,128 --tune warps=4,8", repeated=True,
        commands=_RUN,
    ),
    Option(
        "--axis", "tune",
        "an axis of the map, a constexpr or an option, with its values; one or two of them",
        map_axis, "A=V,…", example="--axis BM=64,128 --axis warps=4,8", repeated=True,
        commands=frozenset({"whatif"}),
    ),
    Option(
        "--tune-for", "tune_for", "the most seconds that the search may take",
        seconds("--tune-for"), "S", "120", "--tune-for 30", commands=_RUN,
    ),
    Option("--cold", "cold", "flush the L2 cache between runs", default="on", commands=_RUN),
    Option("--warm", "warm", "keep the L2 cache between runs", default="off", commands=_RUN),
    Option(
        "--show", "show", "panes open at the start", pane_names, "LIST",
        "source,gpu,sass (cpu: source,tile,asm)", "--show source,ptx", commands=_CELL,
    ),
    Option(
        "--as", "bind", "bind the result to this name", identifier, "VAR", example="--as r",
        commands=_CELL | _EDIT,
    ),
    Option(
        "--embed", "embed", "how much of the trace the saved output holds",
        one_of("--embed", "embed mode", EMBED_MODES, "K128"), "M", "auto", "--embed summary",
        commands=_CELL,
    ),
    Option(
        "--guard", "guard",
        "run the launch in the interpreter first: an access outside of the arguments, a race or a "
        "wait without end is an error and nothing is launched; on the CPU the launch is checked, "
        "too",
        default="off; launches on the CPU are checked in IPython and with WORKBENCH_GUARD=1",
        commands=_RUN,
    ),
    Option(
        "--no-guard", "no_guard",
        "do not check what launches on the CPU access", default="on outside IPython",
        commands=_RUN,
    ),
    Option(
        "--report", "report",
        "what becomes of races and false promises that --guard and --check find",
        one_of("--report", "report", ("error", "remark"), "K134"), "R", "error",
        "--report remark", commands=_RUN,
    ),
    Option(
        "--isolate", "isolate",
        "launch in a child process: an illegal access ends that, not the notebook",
        default="off", commands=_RUN,
    ),
    Option("--no-cache", "no_cache", "compile again, whatever the cache holds", commands=_MADE),
    Option("--no-run", "no_run", "compile only", commands=_CELL | _EDIT),
    Option("-q", "quiet", "show nothing", commands=_CELL | _EDIT),
    Option(
        "--lines", "lines", "rows A to B only", line_range, "A:B", example="--lines 10:30",
        commands=_STAGES,
    ),
    Option(
        "--line", "line", "only what came from source line N", line_number("--line"), "N",
        example="--line 18", commands=_STAGES,
    ),
    Option(
        "--control", "control",
        "what each instruction tells the scheduler (wait, barriers, yield, stall), live registers, "
        "spills",
        commands=frozenset({"sass"}),
    ),
    Option("--raw", "raw", "the plain text, without source lines as comments", commands=_STAGES),
    Option("--loc", "loc", "each row's source place at its end", commands=_STAGES),
    Option(
        "--all", "everything", "also passes that changed nothing", commands=frozenset({"passes"}),
    ),
    Option(
        "--llvm-passes", "llvm_passes",
        "LLVM's own passes instead of ours: those that changed something, each with its diff",
        commands=frozenset({"passes"}),
    ),
    Option(
        "--grep", "grep", "only passes whose name matches", pattern("--grep"), "RE",
        example="--grep layout", commands=frozenset({"passes"}),
    ),
    Option(
        "--by", "by", "draw a tile by warp, lane, register, or a buffer by bank",
        one_of("--by", "place", ("warp", "lane", "register", "bank"), "K151"), "PLACE",
        "warp and lane; bank", "--by register", commands=frozenset({"layouts"}),
    ),
    Option(
        "--warp", "warp", "draw what one warp holds, by lane and register",
        whole_number, "N", "all warps", "--warp 3", commands=frozenset({"layouts"}),
    ),
    Option(
        "--shared", "shared", "who has which bytes of shared memory, from when to when",
        commands=frozenset({"layouts"}),
    ),
    Option("--clear", "clear", "forget all results", commands=frozenset({"kernels"})),
    Option(
        "--force", "force", "overwrite an existing file",
        commands=frozenset({"save", "compile", "check", "bench", "tune", "puzzles"}) | _PAGES,
    ),
    Option(
        "--emit", "emit", "what to write: stages, html, wbt or json", word_list, "LIST",
        "ptx or asm", "--emit ptx,sass", commands=frozenset({"compile"}),
    ),
    Option(
        "--output", "output", "file to write; its suffix decides", plain_text, "PATH",
        "standard output", "-o add.html", short="-o",
        commands=frozenset({"compile", "check", "bench", "tune", "view"}) | _PAGES,
    ),
    Option(
        "--stage", "stage", "the whole diff of this stage",
        one_of("--stage", "stage", PANES, "K122"), "S", example="--stage ptx",
        commands=frozenset({"diff"}),
    ),
    Option(
        "--labels", "labels", "what the two sides are called", two_labels, "A,B",
        "kernel, target and specialisation", "--labels before,after", commands=frozenset({"diff"}),
    ),
    Option(
        "--at", "at", "the step that is shown; negative numbers count from the end", step_number,
        "N", "the first", "--at 12", commands=frozenset({"step"}),
    ),
    Option(
        "--break", "breaks", "stop at this source line only",
        line_number("--break"), "LINE", example="--break 12", repeated=True,
        commands=frozenset({"step"}),
    ),
    Option(
        "--watch", "watch",
        "follow one element: of a value by its name, or of an array argument, in memory",
        plain_text, "NAME[I,J]", example='--watch "acc[0,3]"', commands=frozenset({"step"}),
    ),
    Option(
        "--grade", "grade",
        "run the notebooks below DIR and print as JSON who solved what: this runs the code of "
        "whoever wrote them, with your rights",
        commands=frozenset({"puzzles"}),
    ),
    Option(
        "--seed", "seed", "what the hidden sizes and inputs of --grade follow from", whole_number,
        "N", "drawn", "--seed 12", commands=frozenset({"puzzles"}),
    ),
    Option(
        "--json", "json", "print results as JSON: one object (on the command line errors, too)",
        commands=frozenset(WORDS),
    ),
)  # fmt: skip


def options_of(command: str) -> tuple[Option, ...]:
    """Return the rows of the table that a command takes."""
    return tuple(option for option in OPTIONS if command in option.commands)


def complete(command: str, text: str) -> list[str]:
    """Return what may follow `text`, the part of an option line before the cursor."""
    words = text.split(" ")
    last, previous = words[-1], words[-2] if len(words) > 1 else ""
    values = {"--target": TARGETS, "--metric": METRICS, "--embed": EMBED_MODES, "--show": PANES}
    values |= {"--baseline": ("torch", "cublas", "triton", "self")}
    flag, equals, typed = last.partition("=")
    if equals and flag in values:
        return [f"{flag}={value}" for value in values[flag] if value.startswith(typed)]
    if previous in values:
        return [value for value in values[previous] if value.startswith(last)]
    return [option.flag for option in options_of(command) if option.flag.startswith(last)]


def usage(command: str) -> str:
    """Return the options of a command as text, one row each."""
    rows = [
        (f"{option.flag} {option.metavar}".strip() + (" +" if option.repeated else ""), option)
        for option in options_of(command)
    ]
    width = max((len(left) for left, _ in rows), default=0)
    lines = []
    for left, option in rows:
        default = f" (default: {option.default})" if option.default else ""
        lines.append(f"  {left:<{width}}  {option.meaning}{default}")
    return "\n".join(lines)
