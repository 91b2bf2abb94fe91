// Which rows of a stage count where links are counted: those that something computes, as `coverage`
// of trace/links.py has it. Labels, directives, metadata and what pads code behind its end do not.

import type { StageView } from "./stages";

const MACHINE = new Set(["llvm", "ptx", "sass", "asm"]);
const BESIDE = /^(\/\/|[#;.!]|attributes\b|declare\b|target\b|source_filename\b|[\w$.]+:( |$))/;
const ADDRESS = /^\s*\/\*\w+\*\//;
const PADDING = /^(nop|int3)/i;
const JUMP = /^BRA `\((.+)\)/;
const LETTER = /[\p{L}\p{N}]/u;

/** Say whether a row of a stage counts. */
export function counts(stage: string, lines: readonly string[], row: number): boolean {
  const whole = lines[row] ?? "";
  if (!LETTER.test(whole)) return false;
  if (!MACHINE.has(stage)) return true;
  const line = whole.replace(ADDRESS, "").trim();
  if (line === "" || BESIDE.test(line) || PADDING.test(line)) return false;
  const jump = JUMP.exec(line);
  return !(jump && lines[row - 1]?.trim() === `${jump[1]}:`);
}

const known = new WeakMap<object, [linked: number, all: number]>();

/** How many rows of a stage have ops, and how many count; counted once, panes come and go. */
export function linkedRows(stage: StageView): [linked: number, all: number] {
  let found = known.get(stage);
  if (!found) {
    const rows = stage.lines.flatMap((_, row) => (counts(stage.id, stage.lines, row) ? [row] : []));
    found = [rows.filter((row) => stage.opsOfRow[row] !== undefined).length, rows.length];
    known.set(stage, found);
  }
  return found;
}
