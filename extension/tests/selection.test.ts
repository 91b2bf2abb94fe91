import { expect, test } from "vitest";
import { createSelection, type Pin } from "../src/selection";

const pin = (row: number, ...ops: number[]): Pin => ({
  stage: "a",
  from: row,
  to: row,
  ops: new Set(ops),
});

test("a second click on the same rows clears the pin", () => {
  const selection = createSelection();
  selection.pin(pin(1, 4), false);
  expect(selection.choice.pins.length).toBe(1);
  selection.pin(pin(1, 4), false);
  expect(selection.choice.pins).toEqual([]);
});

test("Ctrl adds pins up to four, then the oldest goes", () => {
  const selection = createSelection();
  for (let row = 0; row < 5; row++) selection.pin(pin(row, row), true);
  expect(selection.choice.pins.map(({ from }) => from)).toEqual([1, 2, 3, 4]);
});

test("a plain click replaces all pins", () => {
  const selection = createSelection();
  selection.pin(pin(1, 4), false);
  selection.pin(pin(2, 5), true);
  selection.pin(pin(3, 6), false);
  expect(selection.choice.pins.map(({ from }) => from)).toEqual([3]);
});

test("pins outlive hovering, and hovering never asks to scroll", () => {
  const selection = createSelection();
  selection.pin(pin(1, 4), false);
  selection.point("b", new Set([9]));
  expect(selection.choice.reveal).toBe(false);
  expect(selection.choice.pins.length).toBe(1);
  selection.point("b", new Set());
  expect(selection.choice.hover.size).toBe(0);
  expect(selection.choice.pins.length).toBe(1);
});

test("a listener ends with its signal", () => {
  const selection = createSelection();
  const controller = new AbortController();
  let heard = 0;
  selection.subscribe(() => {
    heard += 1;
  }, controller.signal);
  selection.pin(pin(1, 4), false);
  controller.abort();
  selection.clear("a");
  expect(heard).toBe(1);
});
