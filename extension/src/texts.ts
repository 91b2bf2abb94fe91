// Every sentence and label of the interface, in one place.
import type { AnyFloat, StageId } from "./trace";

export const STAGE_TITLES: Record<StageId, string> = {
  source: "Python",
  ast: "AST",
  tile: "Tile IR",
  gpu: "GPU IR",
  llvm: "LLVM IR",
  ptx: "PTX",
  sass: "SASS",
  asm: "Assembly",
};

export const TAB_TITLES = {
  compare: "Compare",
  follow: "Follow",
  step: "Step",
  stages: "Stages",
  passes: "Passes",
  schedule: "Schedule",
  layouts: "Layouts",
  programs: "Programs",
  performance: "Performance",
  problems: "Problems",
} as const;

export const KEYS: readonly (readonly [keys: string, action: string])[] = [
  ["← →", "on the tabs: switch tab"],
  ["↑ ↓ PgUp PgDn Home End", "move through the rows, marking what is linked"],
  ["Enter or Space", "pin the row; again to unpin"],
  ["Shift + ↑ ↓", "extend the pin to more rows"],
  ["Ctrl + click", "add a second pin (up to four)"],
  ["[ and ]", "previous and next hit in this pane"],
  ["Esc", "clear the pins, then leave the pane"],
  ["F6", "next pane"],
  ["1 – 8", "open or close a pane"],
  ["Alt + ← →", "narrow or widen the pane"],
  ["/", "filter or find in the current tab"],
  ["d", "passes: side by side or unified"],
  ["n p", "next and previous difference, or step of a slider"],
  ["c", "copy the pinned rows with their source lines"],
  ["?", "this list"],
];

export const NOTHING_PINNED =
  "Point at a row to see what is linked to it; click to pin. Press ? for the keys.";
export const STALE =
  "The cell was edited since: what is shown is of the text in the Python pane. Run the cell again.";
export const EMPTY_ROW = "empty line";

/** What to say of a row that no op came from: of the user's own text, or of what was made of it. */
export function noLink(stage: string): string {
  const own = stage === "source" || stage === "ast";
  return own ? "No op came from this line." : "No op came from this row: the compiler made it up.";
}

/** "1 row", "2 rows", "1,200 rows". */
export function count(amount: number, noun: string): string {
  return `${amount.toLocaleString("en-US")} ${noun}${amount === 1 ? "" : "s"}`;
}

/** Bytes as the header shows them: exact below 1 kB, else kB = 1024 bytes. */
export function bytes(amount: number): string {
  if (amount === 0) return "0";
  if (amount < 1024) return `${amount} B`;
  const kilobytes = amount / 1024;
  return `${Number.isInteger(kilobytes) ? kilobytes : kilobytes.toFixed(1)} kB`;
}

/** Milliseconds with three significant digits at most. */
export function milliseconds(amount: number): string {
  if (amount >= 100) return `${Math.round(amount).toLocaleString("en-US")} ms`;
  if (amount >= 0.1) return `${Number(amount.toPrecision(3))} ms`;
  return `${Number((amount * 1000).toPrecision(3))} µs`;
}

/** A number for a table: no more than four significant digits, exponents only where needed. */
export function figure(value: AnyFloat): string {
  const amount = typeof value === "number" ? value : Number(value.replace("inf", "Infinity"));
  if (!Number.isFinite(amount)) return Number.isNaN(amount) ? "nan" : amount > 0 ? "inf" : "-inf";
  if (amount === 0) return "0";
  const size = Math.abs(amount);
  if (size >= 1e6 || size < 1e-3) return amount.toExponential(2);
  return Number(amount.toPrecision(4)).toLocaleString("en-US", { maximumFractionDigits: 6 });
}

export const NOTHING_TO_SEE = "The trace holds no text of this step.";
export const EDIT = "Edit";
export const EDIT_COPIED = "Copied: paste it into a new cell";
export const REPORT = "copy report";
export const REPORT_COPIED = "copied";
export const COPY_REFUSED = "The browser does not let this page copy";
