import fc from "fast-check";
import { expect, test } from "vitest";
import { invertLinks, type Links } from "../src/links";
import type { OpTable, RowOps, StageView } from "../src/stages";
import { viewOps, viewStages } from "../src/stages";
import { addTrace } from "./fixture";

function stage(id: string, opsOfRow: RowOps): StageView {
  const lines = opsOfRow.map((_, row) => `row ${row}`);
  return {
    id,
    title: id,
    lang: "ir",
    lines,
    opsOfRow,
    state: "ok",
    note: "",
    firstLine: 1,
    side: new Map(),
  };
}

const UNRELATED: OpTable = {
  row: () => undefined,
  name: () => "",
  place: () => undefined,
  parents: () => [],
  children: () => [],
};

const rows = fc.array(
  fc.option(fc.array(fc.nat(5), { minLength: 1, maxLength: 3 }), { nil: undefined }),
  { minLength: 1, maxLength: 30 },
);

function linked(links: Links, from: string, row: number, to: string): number[] {
  return [...links.rowsOf(to, links.family(links.opsAt(from, row))).keys()].sort((a, b) => a - b);
}

test("a row links to itself and to exactly the rows that share an op", () => {
  fc.assert(
    fc.property(rows, rows, (a, b) => {
      const links = invertLinks([stage("a", a), stage("b", b)], UNRELATED);
      a.forEach((chosen, row) => {
        const want = b.flatMap((other, at) =>
          other?.some((op) => chosen?.includes(op)) ? [at] : [],
        );
        expect(linked(links, "a", row, "b")).toEqual(want);
        expect(linked(links, "a", row, "a").includes(row)).toBe(chosen !== undefined);
      });
    }),
  );
});

test("links are symmetric", () => {
  fc.assert(
    fc.property(rows, rows, (a, b) => {
      const links = invertLinks([stage("a", a), stage("b", b)], UNRELATED);
      a.forEach((_, row) => {
        for (const other of linked(links, "a", row, "b")) {
          expect(linked(links, "b", other, "a")).toContain(row);
        }
      });
    }),
  );
});

test("rows of an op's parents and children are kin, its own rows are the same", () => {
  const trace = addTrace();
  const links = invertLinks(viewStages(trace), viewOps(trace));
  const load = links.family(links.opsAt("source", 3));
  expect([...links.rowsOf("tile", load)]).toEqual([[3, "same"]]);
  expect([...links.rowsOf("ptx", load)]).toEqual([[0, "kin"]]);
  const add = links.family(links.opsAt("ptx", 2));
  expect([...links.rowsOf("tile", add)]).toEqual([[5, "kin"]]);
});

test("two ops made from one parent are not each other's kin", () => {
  const trace = addTrace();
  trace.ops.parents = [[], [], [], [], [], [], [3], [3], [5]];
  const links = invertLinks(viewStages(trace), viewOps(trace));
  expect([...links.rowsOf("ptx", links.family(new Set([13]))).keys()]).toEqual([0]);
});

test("several rows ask for the union of their ops", () => {
  const trace = addTrace();
  const links = invertLinks(viewStages(trace), viewOps(trace));
  expect([...links.opsAt("source", 4, 3)].sort()).toEqual([3, 4]);
});

test("a source row has the cell's line number, and SASS stands in narrow columns", () => {
  const trace = addTrace();
  trace.strings[2] = [
    ".text.add:",
    "        /*0000*/                   LDC R1, c[0x0][0x28] ;",
    "        /*0010*/              @!P0 EXIT ;",
  ].join("\n");
  trace.stages[2] = { id: "sass", text: 2, lang: "sass" };
  const [source, , sass] = viewStages(trace);
  expect(source?.firstLine).toBe(2);
  expect(sass?.lines).toEqual([
    ".text.add:",
    "/*0000*/       LDC R1, c[0x0][0x28] ;",
    "/*0010*/ @!P0  EXIT ;",
  ]);
});

test("the rows of what is chosen are looked up once for all who ask", () => {
  const links = invertLinks([stage("a", [[1], [2], [1]])], UNRELATED);
  const family = links.family(new Set([1]));
  expect(links.rowsOf("a", family)).toBe(links.rowsOf("a", family));
});
