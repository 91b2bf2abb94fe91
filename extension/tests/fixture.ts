// Small traces for the unit tests: a real shape with few rows.
import type { Stage, Trace } from "../src/trace";

const SOURCE = [
  "def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):",
  "    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)",
  "    mask = offs < n",
  "    x = tl.load(x_ptr + offs, mask=mask)",
  "    y = tl.load(y_ptr + offs, mask=mask)",
  "    tl.store(out_ptr + offs, x + y, mask=mask)",
].join("\n");

const TILE = [
  "kernel @add(%x_ptr: ptr<f32>) {",
  "  %offs = tile.arange : tile<3xi32>",
  "  %mask = tile.less %offs, %n : tile<3xi1>",
  "  %x = tile.load %x_ptr mask %mask : tile<3xf32>",
  "  %y = tile.load %y_ptr mask %mask : tile<3xf32>",
  "  %0 = tile.add %x, %y : tile<3xf32>",
  "  tile.store %out_ptr, %0 mask %mask",
  "}",
].join("\n");

const PTX = [
  "ld.global.f32 %f1, [%rd1];",
  "ld.global.f32 %f2, [%rd2];",
  "add.f32 %f3, %f1, %f2;",
].join("\n");

/** The classic: 7 elements in blocks of 3, on the CPU; 5-7 are the loads and the sum. */
export function addTrace(changes: Partial<Trace> = {}): Trace {
  const strings = [SOURCE, TILE, PTX, "tile.load", "tile.add"];
  const stages: Stage[] = [
    {
      id: "source",
      text: 0,
      lang: "python",
      rows: [
        [1, 1, [1]],
        [2, 1, [2]],
        [3, 1, [3]],
        [4, 1, [4]],
        [5, 1, [5, 6]],
      ],
    },
    {
      id: "tile",
      text: 1,
      lang: "ir",
      rows: [
        [1, 1, [1]],
        [2, 1, [2]],
        [3, 1, [3]],
        [4, 1, [4]],
        [5, 1, [5]],
        [6, 1, [6]],
      ],
    },
    {
      id: "ptx",
      text: 2,
      lang: "ptx",
      rows: [
        [0, 1, [13]],
        [1, 1, [14]],
        [2, 1, [15]],
      ],
      milliseconds: 2.5,
    },
  ];
  return {
    version: 1,
    id: "sha256:0",
    made: { workbench: "0.1.0" },
    kernel: { name: "add", entry: "add", file: "In[3]", line0: 2, target: "sm_90a" },
    strings,
    sources: [{ file: "In[3]", line0: 2, text: 0 }],
    stages,
    ops: {
      id: [1, 2, 3, 4, 5, 6, 13, 14, 15],
      name: [3, 3, 3, 3, 4, 4, 3, 3, 4],
      loc: [2, 3, 4, 5, 6, 6, 5, 6, 7].map((line) => [0, line + 1, 5, line + 1, 9]),
      parents: [[], [], [], [], [], [], [3], [4], [5]],
      born: [-1, -1, -1, -1, -1, -1, 0, 0, 0],
      calls: [[], [], [], [], [], [], [], [], []],
    },
    passes: [],
    resources: {},
    runs: {},
    ...changes,
  };
}

/** What the interpreter records for it: three programs, the last one with two masked lanes. */
export const ADD_ACCESS: NonNullable<Trace["access"]> = [
  {
    op: 6,
    direction: "store",
    addr: Array.from({ length: 9 }, (_, i) => [Math.floor(i / 3), i % 3, "out_ptr", i, i < 7]),
  },
];
