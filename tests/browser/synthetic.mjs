// A made-up trace of real sizes: those of a 29-line matmul, with 5,920 SASS rows (or more) standing for a
// large kernel and 62 passes of 25 distinct texts. Only lengths and link density count.
import { gzipSync } from "node:zlib";

const SOURCE = `@kernel
def matmul(a_ptr, b_ptr, c_ptr, M, N, K,
           stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
           BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """One program computes one BM x BN tile of c = a @ b; <&> must survive as text."""
    tiles_n = tl.cdiv(N, BN)
    pid = tl.program_id(0)
    row = pid // tiles_n
    column = pid % tiles_n
    rows = row * BM + tl.arange(0, BM)
    columns = column * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    a = a_ptr + rows[:, None] * stride_am + inner[None, :] * stride_ak
    b = b_ptr + inner[:, None] * stride_bk + columns[None, :] * stride_bn
    accumulator = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        left = K - k * BK
        x = tl.load(a, mask=inner[None, :] < left, other=0.0)
        y = tl.load(b, mask=inner[:, None] < left, other=0.0)
        accumulator = tl.dot(x, y, accumulator)
        a += BK * stride_ak
        b += BK * stride_bk
    result = accumulator.to(tl.float16)
    c = c_ptr + rows[:, None] * stride_cm + columns[None, :] * stride_cn
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c, result, mask=inside)`;

/** A small generator with the same numbers each time (mulberry32). */
function seeded(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

const random = seeded(1);
const below = (n) => Math.floor(random() * n);
const pick = (...list) => list[below(list.length)];

const SHAPES = [
  ["ast", "ast", 140, (i) => `${"  ".repeat(1 + (i % 5))}${pick("Call", "Name", "BinOp", "Assign")}(id='x${i}', lineno=${below(29)})`],
  ["tile", "ir", 99, (i) => `  %${i} = tile.${pick("add", "mul", "load", "dot", "splat")} %${Math.max(0, i - 1)}, %c${below(9)} : tile<${pick(64, 128)}x64xf16>`],
  ["gpu", "ir", 176, (i) => `  %${i} = gpu.${pick("async_copy", "load_shared", "dot", "barrier")} %${Math.max(0, i - 1)} {stage = ${below(3)}} : tile<128x64xf16, #L${below(4)}>`],
  ["llvm", "llvm", 1821, (i) => `  %${i} = ${pick("add nsw", "mul", "xor", "getelementptr")} i32 %${Math.max(0, i - 1)}, ${below(4096)}, !dbg !${below(90)}`],
  ["ptx", "ptx", 1444, (i) => `\t${pick("add.s32", "mul.wide.s32", "ld.shared.b32", "mma.sync.aligned.m16n8k16.row.col.f32.f16")} \t%r${i}, %r${below(900)}, ${below(4096)};`],
  ["sass", "sass", 5920, (i) => `        /*${(i * 16).toString(16).padStart(4, "0")}*/                   ${pick("HMMA.16816.F32", "LDSM.16.M88.4", "IMAD.WIDE", "LDGSTS.E.BYPASS.128")} R${below(255)}, R${below(255)}, 0x${below(4096).toString(16)} ;`],
];

/** Op i + 1 stands for source line i + 1; each stage has ops of its own, made from those. */
export function makeTrace({ sassRows = 5920 } = {}) {
  const strings = [];
  const index = new Map();
  const intern = (text) => {
    if (!index.has(text)) index.set(text, strings.push(text) - 1);
    return index.get(text);
  };
  const ops = { id: [], name: [], loc: [], parents: [], born: [], calls: [] };
  const addOp = (id, name, line, parents) => {
    ops.id.push(id);
    ops.name.push(intern(name));
    ops.loc.push([0, line, 5, line, 40]);
    ops.parents.push(parents);
    ops.born.push(parents.length > 0 ? 0 : -1);
    ops.calls.push([]);
  };
  for (let line = 6; line <= 26; line++) addOp(line, line === 20 ? "tile.dot" : "tile.load", line, []);
  for (let line = 6; line <= 26; line++) addOp(100 + line, "gpu.async_copy", line, [line]);
  const stages = [
    {
      id: "source", text: intern(SOURCE), lang: "python",
      rows: Array.from({ length: 21 }, (_, i) => [i + 5, 1, [i + 6]]),
    },
  ];
  for (const [id, lang, usual, line] of SHAPES) {
    const count = id === "sass" ? sassRows : usual;
    const rows = [];
    for (let row = 0; row < count; ) {
      const length = Math.min(1 + below(Math.max(2, count / 90)), count - row);
      // Ascending with some interleaving; one run in twenty is made up by the compiler.
      const op = Math.min(26, Math.max(6, 6 + Math.floor((row * 21) / count) + below(3) - 1));
      const lowered = id === "tile" || id === "ast" ? op : op + 100;
      if (random() > 0.05) rows.push([row, length, [lowered]]);
      row += length;
    }
    const text = Array.from({ length: count }, (_, i) => line(i)).join("\n");
    stages.push({ id, text: intern(text), lang, rows, milliseconds: 1 + below(300) / 10 });
  }
  const gpu = strings[stages.find(({ id }) => id === "gpu").text];
  const texts = [gpu.split("\n")];
  while (texts.length < 25) {
    const changed = [...texts.at(-1)];
    for (let i = 0; i < 6; i++) {
      const at = below(changed.length);
      changed.splice(at, below(2), `  %${at}.${texts.length} = gpu.convert_layout %${at} : #L1 -> #L2`);
    }
    texts.push(changed);
  }
  const ids = texts.map((text) => intern(text.join("\n")));
  const passes = Array.from({ length: 62 }, (_, i) => {
    const [before, after] = [ids[Math.floor((i * 24) / 62)], ids[Math.floor(((i + 1) * 24) / 62)]];
    const pipe = i < 30 ? "tile" : i < 55 ? "gpu" : "llvm";
    const own = before === after ? {} : { add: [1, 2, 3], del: [4] };
    return { name: `pass_${i}`, pipe, milliseconds: 0.1 + below(30) / 10, changed: before !== after, before, after, ...own };
  });
  const xs = [512, 1024, 2048, 4096, 8192];
  const series = (scale) => xs.map((n, i) => { const t = (2 * n ** 3) / (scale * (1 - 0.5 / (i + 1)) * 1e9); return [t * 0.98, t, t * 1.03, 40]; });
  const work = { flops: xs.map((n) => 2 * n ** 3), bytes: xs.map((n) => 6 * n * n) };
  const env = { device: "made-up device", clock: [1980, 1755], temp: [41, 57], driver: "580.1" };
  return {
    version: 1,
    id: "sha256:synthetic",
    made: { workbench: "0.1.0", llvm: "22.1" },
    kernel: { name: "matmul", entry: "matmul", file: "In[3]", line0: 1, target: "sm_90a", spec: "f16·128×128×64·w8", params: [], options: {} },
    strings,
    sources: [{ file: "In[3]", line0: 1, text: 0 }],
    stages,
    ops,
    passes,
    remarks: [
      { code: "R210", severity: "missed", text: "load stays at 32 bits: nothing is known of the alignment of stride_ak", op: 118, pass: 31 },
      { code: "R204", severity: "applied", text: "conversion removed: the source already has this layout", op: 120, pass: 33 },
      { code: "K701", severity: "note", text: "baseline 'triton' skipped: not installed" },
    ],
    resources: {
      registers: 168, shared_bytes: 98304, dynamic_shared_bytes: 0, spill_store_bytes: 0, spill_load_bytes: 0,
      occupancy: { warps: 8, max: 64, limit: "registers" },
      live: Array.from({ length: sassRows }, (_, row) => [row, 40 + Math.floor(120 * Math.sin((row / sassRows) * Math.PI))]),
    },
    runs: {
      launches: [{ t: 0, grid: [64, 64], device: "made-up device", milliseconds: 0.213, args: [{ name: "a_ptr", type: "*fp16", shape: [4096, 4096] }, { name: "M", type: "i32", value: 4096 }] }],
      checks: [
        { ok: true, ref: "a @ b", rtol: 0.01, atol: 0.064, wrong: 0, total: 16777216, max_abs: 0.0019, max_rel: 0.004 },
        { ok: false, ref: "leaky(a @ b)", rtol: 0.01, atol: 0.001, wrong: 192, total: 65536, max_abs: 3.21, max_rel: 1, first: [{ out: "c", index: [127, 64], got: 0, want: 3.21, program: 5, op: 26 }, { out: "c", index: [127, 65], got: "nan", want: 1.5 }] },
      ],
      benches: [
        { name: "ours", kind: "self", axis: "N", x: xs, milliseconds: series(690), ...work, ok: [true, true, true, false, true], unsteady: [false, true, false, false, false], env },
        { name: "cuBLAS", kind: "baseline", axis: "N", x: xs, milliseconds: series(730), ...work, env },
        { name: "torch", kind: "baseline", axis: "N", x: xs, milliseconds: series(610), ...work, env },
        { name: "triton", kind: "baseline", axis: "N", error: "not installed" },
      ],
      ceilings: [{ name: "peak", unit: "tflops", value: 989, source: "data sheet" }, { name: "matmul", unit: "tflops", value: 742, source: "measured" }],
      skipped: [],
    },
  };
}

/** The classic of 7 elements in blocks of 3, on the CPU, with what the interpreter recorded. */
export function makeAddTrace() {
  const source = [
    "def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):",
    "    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)",
    "    mask = offs < n",
    "    x = tl.load(x_ptr + offs, mask=mask)",
    "    y = tl.load(y_ptr + offs, mask=mask)",
    "    tl.store(out_ptr + offs, x + y, mask=mask)",
  ];
  const tile = [
    "kernel @add(%x_ptr: ptr<f32>, %y_ptr: ptr<f32>, %out_ptr: ptr<f32>, %n: i32) {",
    "  %offs = tile.arange {size = 3} : tile<3xi32>",
    "  %mask = tile.less %offs, %n : tile<3xi1>",
    "  %x = tile.load %x_ptr mask %mask : tile<3xf32>",
    "  %y = tile.load %y_ptr mask %mask : tile<3xf32>",
    "  tile.store %out_ptr, %0 mask %mask",
    "}",
  ];
  const asm = ["add:", "\tpushq\t%rbp", "\tvmovups\t(%rdi,%rax,4), %ymm0", "\tvaddps\t(%rsi,%rax,4), %ymm0, %ymm0", "\tvmovups\t%ymm0, (%rdx,%rax,4)", "\tretq"];
  const record = (op, direction, array) => ({
    op, direction,
    addr: Array.from({ length: 9 }, (_, i) => [Math.floor(i / 3), i % 3, array, i, i < 7]),
  });
  const array = (name) => ({ name, type: "*fp32", shape: [7] });
  return {
    version: 1,
    id: "sha256:add",
    made: { workbench: "0.1.0", llvm: "22.1" },
    kernel: { name: "add", entry: "add", file: "In[3]", line0: 2, target: "cpu", spec: "f32·BLOCK=3", cached: true },
    strings: [source.join("\n"), tile.join("\n"), asm.join("\n"), "tile.load"],
    sources: [{ file: "In[3]", line0: 2, text: 0 }],
    stages: [
      { id: "source", text: 0, lang: "python", rows: [[1, 1, [1]], [2, 1, [2]], [3, 1, [3]], [4, 1, [4]], [5, 1, [5]]] },
      { id: "tile", text: 1, lang: "ir", rows: [[1, 1, [1]], [2, 1, [2]], [3, 1, [3]], [4, 1, [4]], [5, 1, [5]]], milliseconds: 1.2 },
      { id: "asm", text: 2, lang: "asm", rows: [[2, 1, [3]], [3, 1, [4]], [4, 1, [5]]], milliseconds: 8.25 },
    ],
    ops: { id: [1, 2, 3, 4, 5], name: [3, 3, 3, 3, 3], loc: [3, 4, 5, 6, 7].map((line) => [0, line, 5, line, 20]), parents: [[], [], [], [], []], born: [-1, -1, -1, -1, -1], calls: [[], [], [], [], []] },
    passes: [],
    access: [record(3, "load", "x_ptr"), record(5, "store", "out_ptr")],
    resources: {},
    runs: {
      launches: [{ t: 0, grid: [3], device: "cpu", milliseconds: 0.012, args: ["x_ptr", "y_ptr", "out_ptr"].map(array) }],
      checks: [{ ok: true, ref: "x + y", rtol: 1e-5, atol: 1e-6, wrong: 0, total: 7, max_abs: 0, max_rel: 0 }],
    },
  };
}

/** The same kernel compiled for a GPU without the tools that make SASS. */
export function makeToollessTrace() {
  const trace = makeAddTrace();
  const ptx = [".version 8.8", ".target sm_90a", "ld.global.v4.b32 \t{%r1, %r2, %r3, %r4}, [%rd1];", "add.f32 \t%f3, %f1, %f2;", "st.global.v4.b32 \t[%rd3], {%r5, %r6, %r7, %r8};"];
  trace.kernel = { ...trace.kernel, target: "sm_90a", cached: false };
  trace.strings = [...trace.strings, ptx.join("\n"), ""];
  trace.stages = [
    ...trace.stages.slice(0, 2),
    { id: "ptx", text: 4, lang: "ptx", rows: [[2, 1, [3]], [3, 1, [4]], [4, 1, [5]]], milliseconds: 12 },
    { id: "sass", text: 5, lang: "sass", state: "missing", note: "SASS needs nvdisasm: pip install nvidia-cuda-nvdisasm" },
  ];
  trace.access = [];
  trace.runs = { skipped: [{ what: "launch", why: "no CUDA device" }] };
  trace.errors = [];
  return trace;
}

/** What the interpreter records of 40 programs with 5,000 elements, and of a tile of two dimensions. */
export function makeWideTrace() {
  const trace = makeAddTrace();
  const store = (op, addr) => ({ op, direction: "store", addr });
  const long = Array.from({ length: 200_000 }, (_, i) => [Math.floor(i / 5_000), i % 5_000, "out_ptr", i % 90_000, true]);
  const flat = Array.from({ length: 96 }, (_, i) => [Math.floor(i / 24), i % 24, "y_ptr", i, i % 24 < 22]);
  trace.access = [...trace.access, store(4, flat), store(5, long)];
  const array = (name, ...shape) => ({ name, type: "*fp32", shape });
  trace.runs = { launches: [{ t: 0, grid: [40], device: "cpu", args: [array("x_ptr", 7), array("y_ptr", 8, 12), array("out_ptr", 90_010)] }] };
  return trace;
}

/** The envelope that an output or a page carries. */
export function envelope(traces) {
  const json = JSON.stringify(traces.length === 1 ? traces[0] : { traces });
  return { v: 1, enc: "gzip+base64", data: gzipSync(json, { level: 9 }).toString("base64") };
}

/** One page with several viewers, as an exported page carries them. */
export function makePage(bundle, ...bundles) {
  const hosts = bundles.map((traces) => {
    const json = JSON.stringify(envelope(traces));
    return `<div class="host"><script type="application/vnd.workbench.trace+json">${json}</script><p>static text</p></div>`;
  });
  return `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>synthetic traces</title>
<style>:root { color-scheme: light dark } body { margin: 12px } .host { margin-bottom: 16px }</style></head>
<body><main>${hosts.join("\n")}</main><script type="module">${bundle}</script></body></html>`;
}
