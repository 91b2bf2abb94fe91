// What goes over the comm `workbench.typing` (workbench/magics/while_typing/hooks.py has the other end).

export const TARGET = "workbench.typing";
export const VERSION = 1;

/** [line, column, end line, end column]: from 1, columns in characters, the end exclusive. */
export type Place = [number, number, number, number];

export interface Problem {
  place: Place;
  severity: "error" | "warning";
  code: string;
  text: string;
  help: string;
}

export interface Look {
  problems: Problem[];
  seen: [...Place, number][]; // and the index of the text
  texts: string[];
  partial: boolean;
}

export interface Question {
  [key: string]: string | number;
  v: number;
  id: number;
  text: string;
}

/** The look of an answer to question `id`; undefined for any other message, null for no look. */
export function lookOf(data: unknown, id: number): Look | null | undefined {
  const answer = data as { v?: number; id?: number; look?: Look | null } | null;
  if (answer?.v !== VERSION || answer.id !== id) return undefined;
  return answer.look ?? null;
}

export interface Text {
  readonly lines: number;
  readonly length: number;
  line(number: number): { from: number; to: number; text: string };
}

/** Offsets of a place in a text, at least one letter wide; undefined where it has no such place. */
export function rangeOf(text: Text, place: Place): { from: number; to: number } | undefined {
  const [line, column, endLine, endColumn] = place;
  const from = offsetOf(text, line, column);
  const to = offsetOf(text, endLine, endColumn);
  if (from === undefined || to === undefined || to < from) return undefined;
  if (to > from) return { from, to };
  if (to < text.line(line).to) return { from, to: to + 1 };
  return from > text.line(line).from ? { from: from - 1, to } : undefined;
}

function offsetOf(text: Text, number: number, column: number): number | undefined {
  if (number < 1 || number > text.lines || column < 1) return undefined;
  const line = text.line(number);
  // Python counts characters, the editor UTF-16 units: they differ beyond the basic plane.
  const units = /[\ud800-\udbff]/.test(line.text)
    ? [...line.text].slice(0, column - 1).join("").length
    : column - 1;
  return Math.min(line.from + units, line.to);
}

/** True for a cell that we know anything of. */
export function isKernelCell(start: string): boolean {
  return /^\s*%%kernel(?=\s|$)/.test(start);
}
