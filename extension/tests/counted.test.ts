// Rows that count where links are counted are those of `coverage` in workbench/trace/links.py.
import { expect, test } from "vitest";
import { counts, linkedRows } from "../src/counted";
import type { StageView } from "../src/stages";

const SASS = [
  ".text.add:",
  "/*0000*/  LDC R1, c[0x0][0x28] ;",
  ".L_x_0:",
  "/*0010*/  @P0 BRA `(.L_x_1) ;",
  "/*0020*/  EXIT ;",
  ".L_x_1:",
  "/*0030*/  BRA `(.L_x_1);",
  "/*0040*/  NOP ;",
];

test("labels, padding and the branch behind the end count in no listing", () => {
  const counted = SASS.flatMap((_, row) => (counts("sass", SASS, row) ? [row] : []));
  expect(counted).toEqual([1, 3, 4]);
});

test("metadata of LLVM and lone braces do not count, all else of IR does", () => {
  const llvm = ["define void @add() {", "entry:", "  ret void, !dbg !4", "}", "!4 = !{}", "; a"];
  expect(llvm.map((_, row) => counts("llvm", llvm, row))).toEqual([
    true,
    false,
    true,
    false,
    false,
    false,
  ]);
  expect(counts("tile", ["#L0 = linear<4>"], 0)).toBe(true);
});

test("rows are linked of those that count", () => {
  const opsOfRow = SASS.map((_, row) => (row === 1 || row === 4 ? [7] : undefined));
  const stage = { id: "sass", lines: SASS, opsOfRow } as unknown as StageView;
  expect(linkedRows(stage)).toEqual([2, 3]);
});
