import { beforeEach, expect, test } from "vitest";
import { bundleOf } from "../src/envelope";
import { ringWords, roleWords } from "../src/schedule";
import type { Pipeline, Trace } from "../src/trace";
import { mount } from "../src/viewer";
import { addTrace } from "./fixture";

/** Two roles: the producer's copies run ahead, a product is started a round late. */
const PIPELINE: Pipeline = {
  loop: 1,
  roles: ["producer", "consumers"],
  stages: 4,
  warps: [4, 8],
  registers: [24, null],
  rings: [{ value: "k", op: 2, slots: 4, bytes: 16384, full: 3, empty: 4 }],
  steps: [
    { text: "copy k[slot]", kind: "copy", role: 0, stage: -4, ops: [3], rings: [0] },
    { text: "s = q @ k[slot]", kind: "product", role: 1, stage: 0, ops: [4], in_flight: 1 },
    { text: "o = p @ v[slot]", kind: "product", role: 1, stage: 1, ops: [5], in_flight: 2 },
    { text: "store o", kind: "store", phase: "after", role: 1, ops: [6] },
  ],
};

let host: HTMLElement;
beforeEach(() => {
  host = document.createElement("div");
  document.body.replaceChildren(host);
});
const show = (trace: Trace): void => {
  mount(host, bundleOf({ traces: [trace] }));
  host.querySelector<HTMLElement>('[role=tab][data-tab="schedule"]')?.click();
};
const words = (selector: string): string[] =>
  [...host.querySelectorAll(selector)].map(({ textContent }) => textContent ?? "");

test("the Schedule tab is there only where a loop is pipelined", () => {
  show(addTrace());
  expect(words('[data-tab="schedule"]')).toEqual([]);
  show(addTrace({ pipelines: [PIPELINE] }));
  expect(words('[data-tab="schedule"]')).toEqual(["Schedule"]);
});

test("roles are tables of steps by stages", () => {
  show(addTrace({ pipelines: [PIPELINE], resources: { registers: 168 } }));
  expect(words(".wb-schedule caption")).toEqual([
    "producer: 4 warps, 24 registers a thread",
    "consumers: 8 warps, 168 registers a thread",
  ]);
  expect(words(".wb-schedule thead th")).toEqual([
    "line",
    "up to 4 rounds ahead",
    "line",
    "this round",
    "a round late",
  ]);
  const late = [...host.querySelectorAll(".wb-schedule tbody tr")].find((row) =>
    row.textContent?.includes("p @ v"),
  );
  expect([...late!.querySelectorAll("td")].map(({ textContent }) => textContent)).toEqual([
    "",
    "o = p @ v[slot] · 2 products under way",
  ]);
  expect(words('[data-phase="after"] button')).toEqual(["store o"]);
  expect(ringWords(PIPELINE.rings![0]!)).toBe("k: 4 slots × 16,384 bytes, barriers full and empty");
  expect(ringWords({ value: "k", op: 2, slots: 3, bytes: 8 })).toContain("no barriers in memory");
  expect(roleWords({ loop: 1, roles: ["all warps"], stages: 3 }, 0)).toBe("all warps");
});

test("a click on a bar marks its op in every stage", () => {
  show(addTrace({ pipelines: [PIPELINE] }));
  const bar = host.querySelector<HTMLElement>('.wb-schedule [data-kind="copy"]')!;
  bar.click();
  expect(bar.getAttribute("aria-pressed")).toBe("true");
  expect(host.querySelector(".wb-status")!.textContent).toBe(
    "Pinned op from In[3]:5: 1 op → 1 Python row, 1 Tile IR row, 1 PTX row",
  );
  host.querySelector<HTMLElement>('[role=tab][data-tab="stages"]')!.click();
  const row = host.querySelector('.wb-scroller[data-stage="tile"] [data-row="3"]')!;
  expect(row.className).toContain("wb-pin0");
});
