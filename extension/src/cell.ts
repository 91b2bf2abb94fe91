// Between a viewer and the editor of its cell: events of the page, so that neither knows the other's code.
// What stands where is found by the kernel's text in the cell: lines above it may come and go.
import type { Links } from "./links";
import type { Choice, Selection } from "./selection";
import { sourceOfEntry } from "./stages";
import type { Trace } from "./trace";

/** From a viewer's root, bubbling: what is chosen in its panes. */
export const CHOSEN = "workbench-chosen";
/** To a viewer's root: where the cursor of the cell's editor is. */
export const POINTED = "workbench-pointed";
const CELL = "cell"; // the origin of what the editor asked for

export interface Chosen {
  text: string; // of the kernel; rows count from its first line
  hover: number[];
  pins: number[][]; // of each pin, in the order of their colours
}

export interface Pointed {
  text: string; // of the cell
  line: number | null; // from 0; null: nowhere
}

const plain = (text: string): string[] =>
  text
    .replace(/\s+$/, "")
    .split("\n")
    .map((line) => line.trimEnd());

/** The line of a cell (from 0) at which a kernel's text begins; -1 if it no longer stands there. */
export function startOf(cell: string, kernel: string): number {
  const [whole, part] = [plain(cell), plain(kernel)];
  if (part.length === 1 && part[0] === "") return -1;
  for (let start = 0; start + part.length <= whole.length; start++) {
    if (part.every((line, row) => whole[start + row] === line)) return start;
  }
  return -1;
}

/** Tell the page what is chosen in a viewer, and mark what its cell's cursor stands on. */
export function linkCell(
  root: HTMLElement,
  trace: Trace,
  links: Links,
  selection: Selection,
  signal: AbortSignal,
): void {
  const { source } = sourceOfEntry(trace);
  const text = trace.strings[trace.sources[source]?.text ?? -1];
  if (text === undefined) return;
  const rows = (ops: ReadonlySet<number>): number[] =>
    ops.size === 0
      ? []
      : [...links.rowsOf("source", links.family(ops)).keys()].sort((a, b) => a - b);
  const tell = ({ hover, pins, origin }: Choice): void => {
    const detail: Chosen = {
      text,
      hover: origin === CELL ? [] : rows(hover), // the editor shows its own cursor
      pins: pins.map(({ ops }) => rows(ops)),
    };
    root.dispatchEvent(new CustomEvent(CHOSEN, { bubbles: true, detail }));
  };
  selection.subscribe(tell, signal);
  signal.addEventListener("abort", () => {
    root.dispatchEvent(
      new CustomEvent(CHOSEN, { bubbles: true, detail: { text, hover: [], pins: [] } }),
    );
  });
  root.addEventListener(
    POINTED,
    (event) => {
      const { text: cell, line } = (event as CustomEvent<Pointed>).detail;
      const start = line === null ? -1 : startOf(cell, text);
      const row = line === null || start < 0 ? -1 : line - start;
      selection.point(CELL, row < 0 ? new Set() : links.opsAt("source", row), row >= 0);
    },
    { signal },
  );
}
