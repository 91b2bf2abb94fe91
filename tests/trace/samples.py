"""Synthetic traces of realistic size and density, the same in every run.

`add_trace` is the classic of 7 elements in blocks of 3 with a failed check, a benchmark and
recorded accesses; `matmul_trace` has the sizes of a real matmul (99 tile, 176 GPU, 1,821 LLVM,
1,444 PTX rows, 62 passes with 25 distinct texts; 5,920 SASS rows stand for a large kernel). The
texts are made up; sizes, links and hostile strings (quotes, tags, ampersands) are what counts.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache

from workbench.trace import (
    Bench,
    Ceiling,
    Check,
    Diagnostic,
    DiagnosticNote,
    Environment,
    Kernel,
    Launch,
    LaunchArgument,
    Layout,
    LazyTrace,
    Made,
    MemoryAccess,
    Mismatch,
    Occupancy,
    OpChanges,
    Parameter,
    Pipeline,
    Rendered,
    Resources,
    Ring,
    SharedBuffer,
    Skipped,
    Step,
    Trace,
    TraceBuilder,
)

MADE = Made(
    workbench="0.1.0", llvm="22.1.0", ptxas="13.0.88", nvdisasm="13.0.85", python="3.11", time=1.0
)

ADD = '''def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """x + y; <script>alert("&")</script> must stay text."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = offsets < n
    x = tl.load(x_ptr + offsets, mask=live)
    y = tl.load(y_ptr + offsets, mask=live)
    tl.store(out_ptr + offsets, x + y, mask=live)'''

ADD_OPS = (  # id, mnemonic, line, first and last column, parents
    (1, "tile.program_id", 3, 15, 31, ()),
    (2, "tile.iota", 3, 42, 61, ()),
    (3, "tile.add", 3, 15, 61, ()),
    (4, "tile.compare", 4, 12, 23, ()),
    (5, "tile.load", 5, 9, 44, ()),
    (6, "tile.load", 6, 9, 44, ()),
    (7, "tile.add", 7, 33, 38, ()),
    (8, "tile.store", 7, 5, 50, ()),
    (9, "gpu.load", 5, 9, 44, (5,)),
)
ADD_PTX = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry add(.param .u64 .ptr .global x_ptr)
{
\tmov.u32 \t%r1, %ctaid.x;
\tmad.lo.s32 \t%r2, %r1, 3, %tid.x;
\tsetp.lt.s32 \t%p1, %r2, %r3;
\t@%p1 ld.global.b32 \t%f1, [%rd1];
\t@%p1 ld.global.b32 \t%f2, [%rd2];
\tadd.f32 \t%f3, %f1, %f2;
\t@%p1 st.global.b32 \t[%rd3], %f3;
\tret;
}"""
ADD_SASS = """        /*0000*/                   S2R R0, SR_CTAID.X ;   /* 0x0000000000007919 */
        /*0010*/                   IMAD R0, R0, 0x3, R3 ;   /* 0x0000000300007824 */
        /*0020*/              @!P0 LDG.E R2, [R4.64] ;   /* 0x0000000404028981 */
        /*0030*/              @!P0 LDG.E R5, [R6.64] ;   /* 0x0000000406058981 */
        /*0040*/                   FADD R2, R2, R5 ;   /* 0x0000000502027221 */
        /*0050*/              @!P0 STG.E [R8.64], R2 ;   /* 0x0000000208008986 */
        /*0060*/                   EXIT ;   /* 0x000000000000794d */"""


def add_builder(target: str = "sm_90a") -> TraceBuilder:
    """The builder of the add kernel's trace; stages and passes are lazy."""
    kernel = Kernel(
        name="add",
        entry="add",
        file="In[3]",
        line0=2,
        params=(
            Parameter(name="x_ptr", type="*f32", role="in", align=16),
            Parameter(name="y_ptr", type="*f32", role="in", align=16),
            Parameter(name="out_ptr", type="*f32", role="out", align=16),
            Parameter(name="n", type="i32", role="scalar"),
            Parameter(name="BLOCK", type="constexpr", role="constexpr", value=3),
        ),
        options={"num_warps": 4, "num_stages": 3, "maxnreg": None},
        target=target,
        spec="f32·BLOCK=3",
    )
    build = TraceBuilder(kernel=kernel, made=MADE)
    source = build.add_source("In[3]", ADD, 2)
    lines = ADD.split("\n")
    of_line = [[op for op, _, line, *_ in ADD_OPS if line == row + 1] for row in range(len(lines))]
    build.add_stage("source", ADD, "python", of_line)
    build.add_stage("ast", "Module(\n  body=[\n    FunctionDef(name='add')])", "ast")
    tile = Rendered(
        "kernel @add {\n" + "\n".join(f"  %{op} = {name}" for op, name, *_ in ADD_OPS[:8]) + "\n}",
        [(), *[(op,) for op, *_ in ADD_OPS[:8]], ()],
    )
    gpu = Rendered(
        tile.text.replace("%5 = tile.load", "%9 = gpu.load"),
        [(9,) if 5 in ops else ops for ops in tile.rows],
    )
    first = build.lazy_text(tile, lambda: tile)
    second = build.lazy_text(gpu, lambda: gpu)
    build.add_stage("tile", first, "ir", milliseconds=3.0)
    build.add_pass("cse", "tile", 0.4, changed=False, before=first, after=first)
    lower = build.add_pass(
        "assign-layouts",
        "gpu",
        1.2,
        changed=True,
        before=first,
        after=second,
        changes=lambda: OpChanges(add=[9], remove=[5], map={5: [9]}, stats={"conversions": 0}),
    )
    for op, name, line, begin, end, parents in ADD_OPS:
        place = (source, line + 1, begin, line + 1, end)
        build.add_op(op, name, place, parents=parents, born=lower if op == 9 else -1)
    if target == "cpu":
        build.add_stage("asm", "add:\n\tvaddps\t%ymm0, %ymm1, %ymm0\n\tretq", "x86", [(), (7,)])
        build.set(resources=Resources())
        return build
    build.add_stage("gpu", second, "ir")
    build.add_stage("llvm", "define ptx_kernel void @add() {\n  ret void\n}", "llvm")
    ptx = [(), (), (), (), (), (1,), (3,), (4,), (9,), (6,), (7,), (8,)]
    build.add_stage("ptx", ADD_PTX, "ptx", ptx, milliseconds=20.0)
    build.add_stage("sass", ADD_SASS, "sass", [(1,), (3,), (9,), (6,), (7,), (8,)])
    build.set(
        resources=Resources(
            registers=18,
            shared_bytes=0,
            spill_store_bytes=0,
            spill_load_bytes=0,
            code_bytes=256,
            occupancy=Occupancy(warps=64, max=64, limit="threads"),
            live=((0, 3), (1, 4), (2, 6)),
        ),
        access=(
            MemoryAccess(
                op=9, direction="load", vec=1, bytes=4, sectors=1, ideal=1, addr=recorded()
            ),
        ),
    )
    build.add_remark("K310", "missed", "not vectorised: BLOCK is 3", op=9, pass_=lower, width=1)
    return build


def recorded() -> tuple[tuple[int, int, str, int, bool], ...]:
    """What the interpreter records for 7 elements in blocks of 3."""
    return tuple((p, i, "x_ptr", p * 3 + i, p * 3 + i < 7) for p in range(3) for i in range(3))


def add_lazy(target: str = "sm_90a") -> LazyTrace:
    """The add trace with a launch, a failed check and a benchmark recorded."""
    lazy = add_builder(target).finish()
    if target != "cpu":
        lazy.record(Skipped(what="launch", why="no CUDA device"))
        return lazy
    first = Mismatch(out="out_ptr", index=(3,), got=0.0, want=float("nan"), program=1, op=8)
    sizes = tuple(2**k for k in range(12, 17))
    lazy.record(
        Launch(
            t=2.0,
            grid=(3,),
            device="cpu",
            milliseconds=0.2,
            args=(LaunchArgument(name="n", type="i32", value=7),),
        ),
        Check(
            ok=False,
            ref="x + <y>",
            rtol=1e-5,
            atol=1e-6,
            wrong=4,
            total=7,
            max_abs=float("inf"),
            max_rel=0.5,
            nan=1,
            first=(first,),
        ),
        bench("add", "self", sizes, 1.0),
        bench("torch", "baseline", sizes, 1.1),
        Bench(name="triton", kind="baseline", error="not installed"),
        Ceiling(name="copy", unit="gbps", value=20.0, source="measured"),
    )
    return lazy


def add_trace(target: str = "sm_90a") -> Trace:
    """The finished add trace."""
    return add_lazy(target).trace


def bench(name: str, kind: str, sizes: tuple[int, ...], slow: float) -> Bench:
    """A series whose throughput grows with the size; the third point is wrong, the last unsteady."""
    times = [slow * (2e-3 + size * 1e-6) for size in sizes]
    last = len(sizes) - 1
    return Bench(
        name=name,
        kind=kind,
        axis="N",
        x=sizes,
        milliseconds=tuple((0.95 * t, t, 1.2 * t, 20) for t in times),
        flops=tuple(float(size) for size in sizes),
        bytes=tuple(12.0 * size for size in sizes),
        ok=tuple(None if kind == "baseline" else i != 2 for i in range(len(sizes))),
        unsteady=tuple(i == last for i in range(len(sizes))),
        timed=("cold",) * len(sizes),
        metric="gbps",
        env=Environment(device="CPU", clock=(3000.0,)),
    )


def failed_trace() -> Trace:
    """A compilation that stopped at the tile IR."""
    build = add_builder()
    build.add_stage("gpu", "", "ir", state="missing", note="not reached: see Problems")
    for gone in ("llvm", "ptx", "sass"):
        build.add_stage(gone, "", gone, state="missing", note="not reached: see Problems")
    build.add_error(
        Diagnostic(
            code="K302",
            severity="error",
            text="dot needs matching inner sizes: <a> is (128, 64), b is (32, 128)",
            span=(0, 6, 9, 6, 44),
            notes=(DiagnosticNote(text="a has shape (BM, BK)", span=(0, 5, 5, 5, 9)),),
            help="use the same BK for both tiles",
            trace_until="tile",
        )
    )
    return build.finish().trace


# ruff: noqa: E501
Line = Callable[[random.Random, int], str]
SHAPES: dict[str, tuple[str, int, Line]] = {
    "tile": ("ir", 99, lambda r, i: f"  %{i} = tile.{r.choice(('add', 'load', 'dot'))} %{i - 1} : tile<128x64xf16>"),
    "gpu": ("ir", 176, lambda r, i: f"  %{i} = gpu.{r.choice(('async_copy', 'dot'))} %{i - 1}[%{r.randrange(99)}] : tile<128x64xf16, #mma.a>"),
    "llvm": ("llvm", 1821, lambda r, i: f"  %{i} = {r.choice(('add nsw', 'mul', 'xor'))} i32 %{i - 1}, {r.randrange(4096)}, !dbg !{i}"),
    "ptx": ("ptx", 1444, lambda r, i: f"\t{r.choice(('add.s32', 'mul.wide.s32', 'ld.shared.b32'))} \t%r{i}, %r{r.randrange(900)}, {r.randrange(4096)};"),
    "sass": ("sass", 5920, lambda r, i: f"        /*{i * 16:04x}*/                   {r.choice(('HMMA.16816.F32', 'LDSM.16.M88.4'))} R{r.randrange(255)}, 0x{r.randrange(4096):x} ;"),
}  # fmt: skip


@cache
def matmul_trace(sass_rows: int = 5920, noise: int = 0) -> Trace:
    """A large trace; `noise` adds that many characters nobody can compress, to pass the limits."""
    r = random.Random(0)
    kernel = Kernel(name="matmul", entry="matmul", file="In[4]", target="sm_90a", spec="f16·w8")
    build = TraceBuilder(kernel=kernel, made=MADE)
    lines = ["def matmul(a, b, c):", *(f"    x{i} = tl.dot(x, y)  # <&>" for i in range(28))]
    source = build.add_source("In[4]", "\n".join(lines))
    build.add_stage("source", "\n".join(lines), "python", [(), *[(i,) for i in range(1, 29)]])
    build.add_stage("ast", "\n".join(f"Expr({r.random()})" for _ in range(400)), "ast")
    for op in range(1, 29):
        build.add_op(op, "tile.dot", (source, op + 1, 5, op + 1, 27), parents=[op - 1][: op - 1])
    for name, (lang, count, line) in SHAPES.items():
        count = sass_rows if name == "sass" else count
        rows = [
            (min(28, 1 + row * 28 // count),) if r.random() > 0.05 else () for row in range(count)
        ]
        build.add_stage(name, "\n".join(line(r, i) for i in range(count)), lang, rows)
    texts = [[SHAPES["gpu"][2](r, i) for i in range(176)]]
    while len(texts) < 25:
        changed = list(texts[-1])
        for _ in range(6):
            at = r.randrange(len(changed))
            changed[at : at + r.randrange(2)] = [f"  %{at}.{len(texts)} = gpu.convert %{at}"]
        texts.append(changed)
    rendered = [Rendered("\n".join(t), [(1 + i % 28,) for i in range(len(t))]) for t in texts]
    lazies = [build.lazy_text(text, lambda text=text: text) for text in rendered]
    for i in range(62):
        before, after = i * 24 // 62, (i + 1) * 24 // 62
        build.add_pass(
            f"pass-{i}",
            "gpu",
            0.1,
            changed=before != after,
            before=lazies[before],
            after=lazies[after],
        )
    for i in range(noise // 8_000):
        text = "\n".join(f"{r.getrandbits(256):064x}" for _ in range(125))
        build.add_pass(f"llvm-{i}", "llvm", 0.1, changed=True, before=text, after=text + "\n;")
    build.set(
        resources=Resources(registers=168, shared_bytes=98304, spill_store_bytes=0),
        layouts=(
            Layout(
                op=3,
                value="%3",
                shape=(128, 64),
                element="f16",
                kind="register",
                name="#mma.a",
                bases={"register": ((0, 1),), "lane": ((0, 2), (8, 0))},
                ops=(3,),
                values=("%3",),
            ),
        ),
        shared=(SharedBuffer(name="sA", op=3, offset=0, bytes=16384, from_=3, to=9),),
        pipelines=(
            Pipeline(
                loop=2,
                roles=("producer", "consumers"),
                stages=3,
                ops=((3, 0, -3), (4, 1, 0)),
                warps=(1, 8),
                registers=(24, 240),
                rings=(Ring(value="a", op=3, slots=3, bytes=16384, full=3, empty=3),),
                steps=(
                    Step(text="copy a[slot]", kind="copy", stage=-3, ops=(3,), rings=(0,)),
                    Step(text="acc = a[slot] @ b", kind="product", role=1, ops=(4,), in_flight=1),
                    Step(text="store c", kind="store", phase="after", role=1, ops=(5,)),
                ),
            ),
        ),
    )
    return build.finish().trace
