import fc from "fast-check";
import { expect, test } from "vitest";
import { diffKeys, diffTexts, type Edit, rowKeys } from "../src/diff";
import { foldUnchanged, pairRows } from "../src/folding";
import type { RowOps } from "../src/stages";

const text = fc.array(fc.constantFrom("a", "b", "c", "d"), { maxLength: 40 });
const none = (lines: readonly string[]): RowOps => lines.map(() => undefined);

test("a diff holds both texts, each row once and in order", () => {
  fc.assert(
    fc.property(text, text, (before, after) => {
      const edits = diffKeys(before, after);
      const old = edits.flatMap((edit) => edit.before ?? []);
      const now = edits.flatMap((edit) => edit.after ?? []);
      expect(old).toEqual(before.map((_, i) => i));
      expect(now).toEqual(after.map((_, i) => i));
      for (const edit of edits) {
        const kind = edit.change;
        expect(edit.before === undefined).toBe(kind === "added");
        expect(edit.after === undefined).toBe(kind === "removed");
        if (kind === "same") expect(before[edit.before!]).toBe(after[edit.after!]);
      }
    }),
  );
});

test("a diff keeps as many rows as the longest common subsequence", () => {
  const longest = (a: readonly string[], b: readonly string[]): number => {
    let row = new Array<number>(b.length + 1).fill(0);
    for (const x of a) {
      const next = [0];
      for (const [j, y] of b.entries())
        next.push(x === y ? row[j]! + 1 : Math.max(row[j + 1]!, next[j]!));
      row = next;
    }
    return row[b.length]!;
  };
  fc.assert(
    fc.property(text, text, (before, after) => {
      const kept = diffKeys(before, after).filter(({ change }) => change === "same").length;
      expect(kept).toBe(longest(before, after));
    }),
  );
});

test("values that were only renumbered are the same rows", () => {
  const before = ["%0 = tile.dead : f32", "%1 = tile.load %p : f32", "%2 = tile.neg %1 : f32"];
  const after = ["%0 = tile.load %p : f32", "%1 = tile.neg %0 : f32"];
  const edits = diffTexts(before, [[7], [8], [9]], after, [[8], [9]]);
  expect(edits.map(({ change }) => change)).toEqual(["removed", "same", "same"]);
});

test("an operand that changed is a change, though the text reads the same", () => {
  const before = ["%0 = tile.a : f32", "%1 = tile.b : f32", "%2 = tile.neg %0 : f32"];
  const after = ["%0 = tile.b : f32", "%2 = tile.neg %0 : f32"];
  const edits = diffTexts(before, [[1], [2], [3]], after, [[2], [3]]);
  expect(edits.filter(({ change }) => change === "added").map(({ after: row }) => row)).toEqual([
    1,
  ]);
});

test("block arguments and layouts count by their meaning", () => {
  const keys = (lines: string[], ops: RowOps): string[] => rowKeys(lines, ops);
  const a = ["#L0 = linear<a>", "%0 = tile.for %lo {", "^(%k: index):", "tile.use %k : #L0"];
  const b = ["#L3 = linear<a>", "%9 = tile.for %lo {", "^(%i: index):", "tile.use %i : #L3"];
  const ops: RowOps = [undefined, [1], undefined, [2]];
  expect(keys(a, ops).at(-1)).toBe(keys(b, ops).at(-1));
  expect(keys(["#L0 = linear<b>", ...a.slice(1)], ops).at(-1)).not.toBe(keys(a, ops).at(-1));
});

test("a row of the same op at another place moved", () => {
  const [a, b, c] = ["tile.a", "tile.b", "tile.c"];
  const edits = diffTexts([a, b, c], [[1], [2], [3]], [b, c, a], [[2], [3], [1]]);
  expect(edits.map(({ change }) => change)).toEqual(["moved-from", "same", "same", "moved-to"]);
});

test("a bad pair does not freeze the page", () => {
  const before = Array.from({ length: 12_000 }, (_, i) => `a${i}`);
  const after = Array.from({ length: 12_000 }, (_, i) => `b${i}`);
  expect(diffTexts(before, none(before), after, none(after)).length).toBe(24_000);
});

test("folds hide only unchanged rows far from a change, and open one by one", () => {
  const edits: Edit[] = Array.from({ length: 30 }, (_, i) =>
    i === 15 ? { change: "added", after: i } : { change: "same", before: i, after: i },
  );
  const lines = foldUnchanged(edits, new Set());
  expect(lines[0]).toEqual({ fold: 12, first: 0 });
  expect(lines.at(-1)).toEqual({ fold: 11, first: 19 });
  expect(lines.length).toBe(2 + 7);
  expect(foldUnchanged(edits, new Set([0, 19])).length).toBe(30);
});

test("side by side, every row of the diff stands on its side", () => {
  fc.assert(
    fc.property(text, text, (before, after) => {
      const pairs = pairRows(diffKeys(before, after));
      const rows = (side: 0 | 1, which: "before" | "after"): (number | undefined)[] =>
        pairs.flatMap((pair) => {
          const line = pair[side];
          return line && !("fold" in line) ? [line[which]] : [];
        });
      expect(rows(0, "before")).toEqual(before.map((_, i) => i));
      expect(rows(1, "after")).toEqual(after.map((_, i) => i));
    }),
  );
});
