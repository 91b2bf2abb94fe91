import { beforeEach, expect, test } from "vitest";
import { bundleOf } from "../src/envelope";
import { holders } from "../src/layout";
import type { Executed, Layout, Route, Walk } from "../src/trace";
import { mount } from "../src/viewer";
import { nameOf, placesOf, sentenceOf } from "../src/walk";
import { addTrace } from "./fixture";

let host: HTMLElement;
beforeEach(() => {
  host = document.createElement("div");
  document.body.replaceChildren(host);
});
const at = <T extends HTMLElement = HTMLElement>(selector: string): T =>
  host.querySelector<T>(selector) as T;
const slide = (to: number): void => {
  const range = at<HTMLInputElement>(".wb-range");
  range.value = String(to);
  range.dispatchEvent(new Event("input"));
};
const said = (): string | null => at(".wb-range").getAttribute("aria-valuetext");

const step = (op: number, line: number | null, changes: Partial<Executed> = {}): Executed => ({
  op,
  line,
  text: `%v${op} = tile.add`,
  names: [`v${op}`],
  value: String(op),
  ...changes,
});
/** A loop of two rounds over lines 5 and 6, with an address made on line 5. */
const STEPS: Executed[] = [
  step(1, 3),
  step(9, 5, { plumbing: true }),
  step(4, 5),
  step(5, 6),
  step(9, 5, { plumbing: true, round: 1 }),
  step(4, 5, {
    round: 1,
    accessed: "reads x, elements 3 to 5",
    tile: { shape: [3], numbers: [["1", "2", "nan"]], picture: ["am!"], low: "1", high: "2" },
  }),
  step(5, 6, { round: 1 }),
  step(6, 7, { names: [], text: "tile.store %a, %b", value: "tile.store" }),
];
const walk = (changes: Partial<Walk> = {}): Walk => ({
  kernel: "add",
  program: [1, 0, 0],
  grid: [3],
  steps: STEPS,
  watched: "v4[0]",
  seen: [{ step: 5, what: "%v4", value: "2", line: 5 }],
  ...changes,
});
const showWalk = (changes: Partial<Walk> = {}) =>
  mount(host, bundleOf({ traces: [addTrace()], step: walk(changes) }));

test("it stops at all ops but plumbing, or where one of its lines begins", () => {
  expect(placesOf(STEPS, new Set())).toEqual([0, 2, 3, 5, 6, 7]);
  expect(placesOf(STEPS, new Set([5]))).toEqual([2, 5]);
  expect(placesOf(STEPS, new Set([5, 7]))).toEqual([2, 5, 7]);
  expect(placesOf(STEPS, new Set([99]))).toEqual([]);
  // A line of one op that is executed again begins again.
  expect(placesOf([step(4, 5), step(4, 5)], new Set([5]))).toEqual([0, 1]);
});

test("a step is told in a sentence", () => {
  expect(sentenceOf(walk(), 5)).toBe(
    "step 5 · line 5 · round 1 · v4 = 4 · reads x, elements 3 to 5",
  );
  expect(sentenceOf(walk({ first: 100 }), 7)).toBe("step 107 · line 7 · store");
  expect(sentenceOf(walk(), 99)).toBe("");
  expect(nameOf(step(1, 1, { names: ["7"] }))).toBe("add");
});

test("a program is walked through by a slider that says each step", () => {
  showWalk();
  expect(at('[role=tab][aria-selected="true"]').dataset.tab).toBe("step");
  expect(at(".wb-question").textContent).toBe("add, program (1) of 3: 8 steps");
  expect(said()).toBe("step 0 · line 3 · v1 = 1");
  expect(at<HTMLInputElement>(".wb-range").max).toBe("5");
  slide(3);
  expect(said()).toBe(sentenceOf(walk(), 5));
  expect(at(".wb-sentence").textContent).toBe(said());
  expect(at(".wb-now").textContent).toContain("v4");
  expect(at(".wb-tile caption").textContent).toBe("v4, 3");
  expect(at(".wb-tile figcaption").textContent).toContain("orange: not finite");
  expect(at('.wb-scroller[data-stage="source"] .wb-pin0').textContent).toContain("tl.load(y_ptr");
  at('.wb-slider button[title="one step on"]').click();
  expect(said()).toContain("step 6");
  at(".wb-seen button").click();
  expect(said()).toContain("step 5");
});

test("lines to stop at are added and taken away where the program stands", () => {
  showWalk();
  slide(2); // line 6
  at(".wb-bar .wb-toggle").click();
  expect(at(".wb-place-of").textContent).toBe("1 of 2");
  expect(said()).toContain("line 6");
  expect(at(".wb-chips").textContent).toContain("stops at line 6 only");
  at(".wb-chips button").click();
  expect(at(".wb-place-of").textContent).toBe("3 of 6");
  showWalk({ lines: [99] });
  expect(said()).toBe("There is no step.");
});

test("a line of the source goes to its next step", async () => {
  showWalk();
  at('.wb-scroller[data-stage="source"] [data-row="3"]').click(); // line 5 of the cell
  await Promise.resolve();
  expect(said()).toContain("step 2 · line 5");
});

const LAYOUT: Layout = {
  op: 4,
  value: "%x",
  shape: [2, 4],
  element: "f32",
  kind: "register",
  bases: { register: [[0, 1]], lane: [[0, 2]], warp: [[1, 0]] },
};
const route: Route = {
  question: "line 5: x = tl.load(x_ptr + offs, mask=mask)",
  stops: [
    { where: "front end", sentence: "it became tile.load", stage: "source", ops: [4] },
    {
      where: "layout",
      sentence: "%x is spread over 2 registers",
      stage: "tile",
      ops: [4],
      layout: LAYOUT,
    },
    { where: "shared memory", sentence: "12 bytes hold it", stage: "tile", ops: [4], buffer: 0 },
    { where: "sass", sentence: "rows 1-2", stage: "sass", rows: [0, 1], ops: [13, 14] },
    { where: "gone", sentence: "it was not needed" },
  ],
};

test("a way is walked through stop by stop, and row by row of the code", () => {
  const trace = addTrace({
    shared: [{ name: "x", op: 4, offset: 0, bytes: 12, from: 4, to: 5 }],
  });
  trace.stages = trace.stages.map((stage) =>
    stage.id === "ptx" ? { ...stage, id: "sass" } : stage,
  );
  mount(host, bundleOf({ traces: [trace], follow: route }));
  expect(at('[role=tab][aria-selected="true"]').dataset.tab).toBe("follow");
  expect([...host.querySelectorAll(".wb-stop")].map((stop) => stop.textContent)).toEqual([
    "front end",
    "layout",
    "shared memory",
    "sass",
    "sass row 1",
    "sass row 2",
    "gone",
  ]);
  expect(said()).toBe("front end: it became tile.load");
  expect(at(".wb-follow-view .wb-pin0").textContent).toContain("y = tl.load");
  slide(1);
  expect(at(".wb-follow-view svg").getAttribute("aria-label")).toContain("%x: 2 × 4 of f32");
  expect(at(".wb-stop[aria-current]").textContent).toBe("layout");
  slide(2);
  expect(at(".wb-buffer.wb-chosen").textContent).toBe("x");
  slide(5);
  expect(said()).toBe("sass row 2: ld.global.f32 %f2, [%rd2];");
  expect([...host.querySelectorAll(".wb-follow-view .wb-pin0")].length).toBe(1);
  slide(6);
  expect(at(".wb-follow-view").textContent).toContain("no text of this step");
});

test("who holds an element is found by adding basis vectors", () => {
  const found = holders(LAYOUT);
  expect(found.size).toBe(8);
  expect(found.get("1,3")).toEqual({ register: 1, lane: 1, warp: 1 });
  const huge = Array.from({ length: 40 }, () => [1, 1]);
  expect(holders({ ...LAYOUT, bases: { lane: huge } }).size).toBe(0);
});

test("a way without end is cut", () => {
  const stops = Array.from({ length: 5_000 }, (_, i) => ({ where: `${i}`, sentence: "on" }));
  mount(host, bundleOf({ traces: [addTrace()], follow: { question: "why", stops } }));
  expect(host.querySelectorAll(".wb-stop").length).toBe(2_000);
});

test("what is no way and no walk leaves the other tabs alone", () => {
  const wrong = { follow: { stops: 3 }, step: { steps: "x" } } as unknown as object;
  mount(host, bundleOf({ traces: [addTrace()], ...wrong }));
  expect(at('[role=tab][aria-selected="true"]').dataset.tab).toBe("stages");
  const broken = { kernel: "k", steps: [3, null] } as unknown as Walk;
  mount(host, bundleOf({ traces: [addTrace()], step: broken }));
  expect(at(".wb-fault").textContent).toContain("the other tabs work");
});
