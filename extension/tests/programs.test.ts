import { beforeEach, expect, test } from "vitest";
import { bundleOf } from "../src/envelope";
import { geometryOf, windowOf } from "../src/panes/map";
import { arrange, arraysOf, type Mark, type Picture, picturesOf } from "../src/programs";
import type { Access, Trace } from "../src/trace";
import { mount } from "../src/viewer";
import { ADD_ACCESS, addTrace } from "./fixture";

let host: HTMLElement;
beforeEach(() => {
  host = document.createElement("div");
  document.body.replaceChildren(host);
});

const launched = (name: string, shape: number[], stride?: number[]): Trace["runs"] => ({
  launches: [{ t: 0, grid: [3], device: "cpu", args: [{ name, type: "*fp32", shape, stride }] }],
});
const storing = (addr: Access[], accesses?: number): NonNullable<Trace["access"]> => [
  { op: 6, direction: "store", addr, accesses },
];
const pictureOf = (trace: Trace): Picture => picturesOf(trace)[0]!.make();
const marks = (picture: Picture, mark: Mark): string[] => {
  const found: string[] = [];
  for (let row = 0; row < picture.rows; row++) {
    for (let column = 0; column < picture.columns + picture.rail; column++) {
      const spot = picture.spot(row, column);
      if (spot.mark === mark) found.push(`${picture.rowName(row)}${picture.columnName(column)}`);
    }
  }
  return found;
};

test("the Programs tab is there only when the interpreter recorded accesses", () => {
  const open = (trace: Trace): (string | undefined)[] => {
    mount(host, bundleOf({ traces: [trace] }));
    return [...host.querySelectorAll<HTMLElement>("[role=tab]")].map(({ dataset }) => dataset.tab);
  };
  expect(open(addTrace())).not.toContain("programs");
  expect(open(addTrace({ access: ADD_ACCESS }))).toContain("programs");
});

test("7 elements in blocks of 3: who stores what, and what is masked", () => {
  const trace = addTrace({ access: ADD_ACCESS, runs: launched("out_ptr", [7]) });
  const picture = pictureOf(trace);
  expect([picture.rows, picture.columns, picture.rail]).toEqual([3, 9, 0]);
  expect(marks(picture, "live").length).toBe(7);
  expect(marks(picture, "masked")).toEqual(["program 2[7]", "program 2[8]"]);
  expect(picture.spot(2, 6)).toMatchObject({ mark: "live", text: "0" });
  expect(picture.spot(0, 3).mark).toBe("empty");
  expect(picture.spot(0, 7).mark).toBe("past");
  expect(picture.tell(2, 7)).toBe("[7]: program 2 lane 1 (off)");
  expect(picture.sentence).toContain("store to out_ptr of 7 elements. program 0: 0→[0], 1→[1]");
});

test("an element that no program wrote is marked, unless part of the record is missing", () => {
  const addr: Access[] = [0, 1, 3].map((i) => [i, 0, "out", i, true]);
  const runs = launched("out", [5]);
  const picture = pictureOf(addTrace({ access: storing(addr), runs }));
  expect(picture.unwritten).toEqual([2, 4]);
  expect(marks(picture, "unwritten")).toEqual(["nobody[2]", "nobody[4]"]);
  expect(picture.facts).toEqual(["2 of 5 elements written by nobody"]);
  const part = pictureOf(addTrace({ access: storing(addr, 90), runs }));
  expect(part.unwritten).toEqual([]);
  expect(part.facts).toEqual(["the first 3 of 90 accesses"]);
  const other = [...storing(addr), ...storing([[4, 0, "out", 2, true]])];
  expect(pictureOf(addTrace({ access: other, runs })).unwritten).toEqual([4]);
  const load = [{ ...storing(addr)[0]!, direction: "load" as const }];
  expect(pictureOf(addTrace({ access: load, runs })).unwritten).toEqual([]);
});

test("an array of two dimensions is drawn as it is indexed, whatever its strides", () => {
  const elements = [0, 1, 2, 3, 5];
  for (const [stride, at] of [
    [[3, 1], (i: number) => i],
    [[1, 2], (i: number) => (i % 3) * 2 + Math.floor(i / 3)],
  ] as const) {
    const addr = elements.map((i): Access => [Math.floor(i / 3), i % 3, "out", at(i), true]);
    const runs = launched("out", [2, 3], [...stride]);
    const picture = pictureOf(addTrace({ access: storing(addr), runs }));
    expect([picture.rows, picture.columns]).toEqual([2, 3]);
    expect([picture.rowName(1), picture.columnName(2)]).toEqual(["[1, ·]", "2"]);
    expect(marks(picture, "unwritten")).toEqual(["[1, ·]1"]);
    expect(picture.spot(1, 2)).toMatchObject({ mark: "live", text: "1", colour: 1 });
    expect(picture.tell(1, 1)).toBe("[1, 1]: no program wrote it");
  }
  const deep = pictureOf(
    addTrace({ access: storing([[0, 0, "out", 7, true]]), runs: launched("out", [2, 2, 3]) }),
  );
  expect(marks(deep, "live")).toEqual(["[1, 0, ·]1"]);
});

test("masked lanes that point outside the array stand beside it, wherever they point", () => {
  const accesses: Access[] = [
    [2, 0, "out_ptr", 6, true],
    [2, 1, "", -1, false], // outside every array
    [2, 2, "x_ptr", 0, false], // into the next array in memory
  ];
  const picture = arrange({ op: 6, direction: "load", addr: accesses }, "out_ptr", addTrace());
  expect(arraysOf(accesses)).toEqual(["out_ptr"]);
  expect([picture.columns, picture.rail]).toEqual([7, 2]);
  expect([7, 8].map((column) => picture.spot(0, column).text)).toEqual(["1", "2"]);
});

test("40 programs of 5,000 elements: few nodes, and only what is in view is drawn", () => {
  const addr = Array.from({ length: 200_000 }, (_, i): Access => {
    const program = Math.floor(i / 5_000);
    return [program, i % 5_000, "out", i, true];
  });
  const trace = addTrace({ access: storing(addr), runs: launched("out", [200_000]) });
  mount(host, bundleOf({ traces: [trace] }));
  const before = host.querySelectorAll("*").length;
  host.querySelector<HTMLElement>('[role=tab][data-tab="programs"]')!.click();
  expect(host.querySelectorAll("*").length - before).toBeLessThan(60);
  const picture = pictureOf(trace);
  const view = { x: 300_000, y: 400, width: 900, height: 420 };
  const { fromRow, toRow, fromColumn, toColumn } = windowOf(picture, geometryOf(picture), view);
  expect((toRow - fromRow) * (toColumn - fromColumn)).toBeLessThan(400);
  expect(picture.sentence.length).toBeLessThan(3_000);
});
