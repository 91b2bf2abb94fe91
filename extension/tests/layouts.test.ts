import { beforeEach, expect, test } from "vitest";
import { bundleOf } from "../src/envelope";
import { bytesOf } from "../src/layout";
import type { Layout } from "../src/trace";
import { mount } from "../src/viewer";
import { addTrace } from "./fixture";

const TILE: Layout = {
  op: 3,
  value: "%x",
  name: "#L0",
  shape: [2, 4],
  element: "f16",
  kind: "register",
  bases: { register: [[0, 1]], lane: [[0, 2]], warp: [[1, 0]] },
  ops: [3, 4, 5, 6, 7],
  values: ["%x", "%y", "%z", "%u", "%v"],
};
const BUFFER: Layout = {
  op: 8,
  value: "%s",
  name: "#S1",
  shape: [4, 32],
  element: "f32",
  kind: "shared",
  bases: {
    offset: [
      [0, 1],
      [0, 2],
      [0, 4],
      [0, 8],
      [0, 16],
      [1, 1],
      [2, 2],
    ],
  }, // swizzled
  ops: [8],
  values: ["%s"],
};

let host: HTMLElement;
beforeEach(() => {
  host = document.createElement("div");
  document.body.replaceChildren(host);
});
const show = (...layouts: Layout[]): void => {
  mount(host, bundleOf({ traces: [addTrace({ layouts })] }));
  host.querySelector<HTMLElement>('[role=tab][data-tab="layouts"]')?.click();
};
const words = (selector: string): string[] =>
  [...host.querySelectorAll(selector)].map(({ textContent }) => textContent ?? "");

test("the Layouts tab is there only where a trace has some", () => {
  show();
  expect(words('[data-tab="layouts"]')).toEqual([]);
  show(TILE, BUFFER);
  expect(words('[data-tab="layouts"]')).toEqual(["Layouts2"]);
});

test("a layout stands once, with the values that have it; the first is drawn", () => {
  show(TILE, BUFFER);
  expect(words(".wb-layout-row")).toEqual([
    "#L0 2 × 4 f16: %x, %y, %z, %u and 1 more",
    "#S1 4 × 32 f32, shared memory: %s",
  ]);
  // Two rows of two threads, each of which holds two elements side by side: four boxes.
  expect(words(".wb-layout .wb-lane")).toEqual(["0", "1", "0", "1"]);
  expect(words(".wb-layout title")[3]).toContain(
    "row 1, from column 2: register 0, lane 1, warp 1",
  );
  expect(words(".wb-layout figcaption")[0]).toContain("colours are warps, numbers are lanes");
});

test("values of several types that lie alike are one row", () => {
  const masks = { ...TILE, element: "i1", value: "%m", ops: [9], values: ["%m"] };
  show({ ...TILE, ops: [3], values: ["%x"] }, masks);
  expect(words(".wb-layout-row")).toEqual(["#L0 2 × 4 f16, i1: %x, %m"]);
  expect(words('[data-tab="layouts"]')).toEqual(["Layouts1"]);
});

test("a buffer is drawn by bank, and choosing it pins the op that makes it", () => {
  show(TILE, BUFFER);
  const [tile, buffer] = [...host.querySelectorAll<HTMLElement>(".wb-layout-row")];
  buffer!.click();
  expect(buffer!.getAttribute("aria-current")).toBe("true");
  expect(tile!.getAttribute("aria-current")).toBe("false");
  expect(buffer!.className).toContain("wb-pin");
  const banks = words(".wb-layout .wb-lane").map(Number);
  expect(banks.slice(0, 4)).toEqual([0, 1, 2, 3]);
  expect(banks.slice(32, 36)).toEqual([1, 0, 3, 2]); // the second row is turned by one
  expect([0, 32, 64, 96].map((first) => new Set(banks.slice(first, first + 32)).size)).toEqual([
    32, 32, 32, 32,
  ]);
});

test("bytes of an element follow from its type's name", () => {
  expect(["f16", "bf16", "f32", "i8", "i1", "f8e4m3", "ptr<f32>", "i64"].map(bytesOf)).toEqual([
    2, 2, 4, 1, 1, 1, 8, 8,
  ]);
});

test("buffers of one layout whose elements have other bytes lie in other banks", () => {
  const half: Layout = { ...BUFFER, op: 9, element: "f16", ops: [9], values: ["%h"] };
  const alike: Layout = { ...BUFFER, op: 10, element: "i32", ops: [10], values: ["%i"] };
  show(BUFFER, half, alike);
  expect(words('[data-tab="layouts"]')).toEqual(["Layouts2"]);
  expect(words(".wb-layout-row").map((row) => row.split(": ")[1])).toEqual(["%s, %i", "%h"]);
});
