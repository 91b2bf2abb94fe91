import { beforeEach, expect, test } from "vitest";
import { compareTraces, differing, editsOf, tallyWords } from "../src/compare";
import { bundleOf } from "../src/envelope";
import type { Comparison, FacingRun, Trace } from "../src/trace";
import { mount, type Viewer } from "../src/viewer";
import { addTrace } from "./fixture";

const SHIFT = 100; // ops of B have other ids

/** The same kernel once more: other op ids, an add that became a mul, and one row more in PTX. */
function otherTrace(): Trace {
  const trace = addTrace();
  const shifted = (ops: readonly number[]): number[] => ops.map((op) => op + SHIFT);
  trace.strings = [...trace.strings];
  trace.strings[2] =
    "ld.global.f32 %f9, [%rd1];\nld.global.f32 %f8, [%rd2];\nmul.f32 %f3, %f9, %f8;\nadd.f32 %f3, %f3, %f9;";
  trace.stages = trace.stages.map((stage) => ({
    ...stage,
    rows: [
      ...(stage.rows ?? []).map(([first, count, ops]) => [first, count, shifted(ops)]),
      ...(stage.id === "ptx" ? [[3, 1, [15 + SHIFT]]] : []),
    ] as [number, number, number[]][],
  }));
  trace.ops = {
    ...trace.ops,
    id: shifted(trace.ops.id ?? []),
    parents: (trace.ops.parents ?? []).map(shifted),
  };
  return trace;
}

const comparison = (changes: Partial<Comparison> = {}): Comparison => ({
  labels: ["add w4", "add w8"],
  said: "registers 18 to 59",
  options: [{ name: "num_warps", a: 4, b: 8 }],
  quantities: [
    {
      name: "registers",
      title: "registers",
      unit: "a thread",
      a: 18,
      b: 59,
      better: "less",
      of: "registers are live where most are",
      shares: [
        { amount: 43, words: "line 6", a: [0, 6], b: [0, 6] },
        { amount: -2, words: "no line" },
      ],
    },
    { name: "stack", title: "stack", unit: "bytes", a: 0, b: 0 },
  ],
  timings: [
    {
      what: "n = 64",
      a: [1, 1, 1.1],
      b: [0.4, 0.5, 0.5],
      speed: 2,
      low: 2,
      high: 2.75,
      verdict: "faster",
    },
  ],
  ops: (addTrace().ops.id ?? []).map((op) => [op, op + SHIFT]),
  stages: [
    { id: "source", rows: [["same", 0, 0, 6]] },
    {
      id: "ptx",
      rows: [
        ["same", 0, 0, 2],
        ["changed", 2, 2, 1],
        ["added", -1, 3, 1],
      ],
    },
  ],
  ...changes,
});

let host: HTMLElement;
beforeEach(() => {
  host = document.createElement("div");
  document.body.replaceChildren(host);
});
const show = (changes: Partial<Comparison> = {}): Viewer =>
  mount(host, bundleOf({ traces: [addTrace(), otherTrace()], compare: comparison(changes) }));
const at = <T extends HTMLElement = HTMLElement>(selector: string): T =>
  host.querySelector<T>(selector) as T;
const status = (): string => at(".wb-status").textContent ?? "";
const press = (key: string): void => {
  at(".wb-compare-rows .wb-scroller").dispatchEvent(
    new KeyboardEvent("keydown", { key, bubbles: true }),
  );
};
const pinned = (side: 1 | 2): string[] =>
  [...host.querySelectorAll(`.wb-pair > .wb-row:nth-child(${side})`)].flatMap((row) =>
    row.classList.contains("wb-pin0") ? [row.querySelector(".wb-half")?.textContent ?? ""] : [],
  );

test("ops of both sides have common numbers, and links go through them", () => {
  const { a, b } = compareTraces(addTrace(), otherTrace(), comparison({ ops: [[4, 4 + SHIFT]] }));
  expect(b.common(4 + SHIFT)).toBe(4);
  expect(b.own(4)).toBe(4 + SHIFT);
  const loose = b.common(5 + SHIFT); // A has no such op
  expect(a.own(loose)).toBeUndefined();
  expect(b.own(loose)).toBe(5 + SHIFT);
  expect([...b.links.rowsOf("tile", b.links.family(new Set([4])))]).toEqual([[4, "same"]]);
  expect(a.opsOfLine(0, 6)).toContain(13);
  expect(b.opsOfLine(0, 6)).toContain(b.common(13 + SHIFT));
});

test("rows that a side does not have are left out, however many are promised", () => {
  const lines = { lines: ["a", "b"] };
  const wild: FacingRun[] = [
    ["same", 0, 0, 1e15],
    ["added", -1, 1, 1e15],
    ["removed", -7, -1, 5],
    ["moved-to", 0, 99, 3],
  ];
  expect(editsOf(wild, lines, { lines: ["a", "b", "c"] })).toEqual([
    { change: "same", before: 0, after: 0 },
    { change: "same", before: 1, after: 1 },
    { change: "added", after: 2 },
    { change: "added", after: 1 },
    { change: "added", after: 2 },
  ]);
  expect(editsOf([["changed", 0, 0, 2]], lines, { lines: ["a"] })[1]).toEqual({
    change: "removed",
    before: 1,
  });
});

test("what differs is counted, a moved row once", () => {
  const edits = editsOf(
    [
      ["moved-from", 0, 1, 1],
      ["changed", 1, 0, 1],
      ["moved-to", 0, 1, 1],
    ],
    { lines: ["a", "b"] },
    { lines: ["b", "a"] },
  );
  expect(differing(edits)).toBe(2);
  expect(tallyWords(edits)).toBe("1 changed · 1 moved");
  expect(tallyWords([])).toBe("A and B are the same here");
});

test("a comparison opens on its tab, with the numbers and the stage that differs", () => {
  show();
  expect(at('[role=tab][aria-selected="true"]').dataset.tab).toBe("compare");
  const rows = [...host.querySelectorAll(".wb-compare-numbers tbody tr")].map((row) =>
    [...row.children].map((cell) => cell.textContent),
  );
  expect(rows).toEqual([
    ["time, n = 64", "1 ms", "0.5 ms", "2×", "B is faster (2 to 2.75 with noise)"],
    ["num_warps option", "4", "8", "", ""],
    ["registers a thread", "18", "59", "+41", "+43 line 6−2 no line"],
  ]);
  expect(at(".wb-compare-numbers p").textContent).toBe("The same: stack 0 bytes.");
  expect(at('.wb-toggle[aria-pressed="true"]').textContent).toBe("PTX2");
  expect(at(".wb-said").textContent).toBe("registers 18 to 59");
  expect([...host.querySelectorAll(".wb-targets button")].map((b) => b.textContent)).toEqual([
    "A",
    "B",
  ]);
});

test("a line is pinned on both sides, and in the other tabs", () => {
  show();
  at("button.wb-share").click();
  expect(pinned(1)).toEqual(["ld.global.f32 %f1, [%rd1];"]);
  expect(pinned(2)).toEqual(["ld.global.f32 %f9, [%rd1];"]);
  expect(at("button.wb-share").getAttribute("aria-pressed")).toBe("true");
  expect(status()).toMatch(/^Pinned on both sides: 2 ops → A .*2 PTX rows · B .*2 PTX rows$/);
  at('[role=tab][data-tab="stages"]').click();
  expect(host.querySelectorAll(".wb-pane .wb-pin0").length).toBeGreaterThan(1);
  at('[role=tab][data-tab="compare"]').click();
  at("button.wb-share").click();
  expect(pinned(1)).toEqual([]);
});

test("a row is pinned by the keyboard, and n and p go to differences", () => {
  show();
  expect(at(".wb-pair.wb-current").dataset.pair).toBe("2"); // the first difference
  at(".wb-compare-rows .wb-scroller").focus();
  press("n");
  expect(at(".wb-pair.wb-current").dataset.pair).toBe("3");
  press("p");
  press("Enter");
  expect(pinned(2)).toEqual(["mul.f32 %f3, %f9, %f8;", "add.f32 %f3, %f3, %f9;"]);
  expect(at('[aria-selected="true"].wb-pair')).not.toBeNull();
  press("Escape");
  expect(pinned(2)).toEqual([]);
});

test("rows that are the same are folded until they are asked for", () => {
  const lines = Array.from({ length: 40 }, (_, i) => `row ${i}`);
  const traces = [addTrace(), otherTrace()];
  for (const trace of traces) trace.strings[2] = lines.join("\n");
  const rows: FacingRun[] = [
    ["changed", 0, 0, 1],
    ["same", 1, 1, 39],
  ];
  mount(host, bundleOf({ traces, compare: comparison({ stages: [{ id: "ptx", rows }] }) }));
  expect(at(".wb-fold").textContent).toContain("36 rows the same");
  at(".wb-fold").click();
  expect(host.querySelector(".wb-fold")).toBeNull();
  const only = at<HTMLInputElement>('.wb-check input[type="checkbox"]');
  only.click();
  expect(host.querySelector(".wb-fold")).toBeNull();
});

test("what is found is counted over both sides", () => {
  show();
  const box = at<HTMLInputElement>(".wb-filter");
  box.value = "MUL";
  box.dispatchEvent(new Event("input"));
  expect(at(".wb-found-count").textContent).toBe("1 row");
  expect(host.querySelectorAll(".wb-found-pair").length).toBe(1);
});

test("without a comparison there is no such tab, and a broken one leaves the others", () => {
  mount(host, bundleOf({ traces: [addTrace(), otherTrace()] }));
  expect(host.querySelector('[data-tab="compare"]')).toBeNull();
  const broken = { labels: ["a", "b"], stages: [{ id: "ptx", rows: 7 }] } as unknown as Comparison;
  mount(host, bundleOf({ traces: [addTrace(), otherTrace()], compare: broken }));
  expect(at(".wb-fault").textContent).toContain("the other tabs work");
  at('[role=tab][data-tab="stages"]').click();
  expect(host.querySelector(".wb-pane")).not.toBeNull();
});
