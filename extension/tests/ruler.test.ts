import { expect, test } from "vitest";
import type { Relation } from "../src/links";
import { runsOf } from "../src/panes/ruler";

test("twenty thousand marks are a few runs of pixels", () => {
  const hits: [number, Relation][] = Array.from({ length: 20_000 }, (_, row) => [row, "kin"]);
  expect(runsOf(hits, 400 / 20_000, 400)).toEqual([[false, 0, 400]]);
});

test("what carries the op itself is drawn where kin are, too, in whichever order they come", () => {
  const [kin, same]: [number, Relation][] = [
    [10, "kin"],
    [11, "same"],
  ];
  const drawn = [
    [false, 10, 11],
    [true, 11, 13],
  ];
  expect(runsOf([kin!, same!], 1, 100)).toEqual(drawn);
  expect(runsOf([same!, kin!], 1, 100)).toEqual(drawn);
});

test("a mark ends where the ruler does", () => {
  expect(runsOf([[99, "same"]], 1, 100)).toEqual([[true, 99, 100]]);
});
