// A trace made ready to show: each stage as lines with the ops that each line came from.
import { STAGE_TITLES } from "./texts";
import type { Place, RowMap, Stage, Trace } from "./trace";

export type RowOps = (readonly number[] | undefined)[]; // undefined: the compiler made the row up

export interface StageView {
  id: string;
  title: string;
  lang: string;
  lines: string[];
  opsOfRow: RowOps;
  state: NonNullable<Stage["state"]>;
  note: string;
  firstLine: number; // the number of row 0: the cell's line for the source, else 1
  side: Map<number, string>; // row -> text of the right margin (live registers)
}

export function viewStages(trace: Trace): StageView[] {
  return trace.stages.map((stage) => {
    const text = trace.strings[stage.text] ?? "";
    const rows = text === "" ? [] : text.split("\n");
    const lines = stage.lang === "sass" ? rows.map(narrow) : rows;
    return {
      id: stage.id,
      title: STAGE_TITLES[stage.id] ?? stage.id,
      lang: stage.lang,
      lines,
      opsOfRow: spreadRows(stage.rows ?? [], lines.length),
      state: stage.state ?? "ok",
      note: stage.note ?? "",
      firstLine: stage.id === "source" ? sourceOfEntry(trace).line0 : 1,
      side: new Map(
        stage.id === "sass"
          ? (trace.resources.live ?? []).map(([row, live]) => [row, String(live)])
          : [],
      ),
    };
  });
}

const INSTRUCTION = /^\s*(\/\*[\da-f]+\*\/)\s+(@!?U?P\w+)?\s*(.*)$/;

/** nvdisasm indents for wide terminals: address, predicate and instruction go into narrow columns. */
function narrow(line: string): string {
  const [, address, predicate = "", instruction] = INSTRUCTION.exec(line) ?? [];
  return address === undefined ? line : `${address} ${predicate.padEnd(5)} ${instruction}`;
}

/** Runs of rows -> ops of each row. */
export function spreadRows(runs: RowMap, rows: number): RowOps {
  const ops: RowOps = new Array(rows).fill(undefined);
  for (const [first, count, of] of runs) ops.fill(of, first, first + count);
  return ops;
}

/** The index in `trace.sources` of the kernel's own text, and the line number of its first row. */
export function sourceOfEntry(trace: Trace): { source: number; line0: number } {
  const source = trace.sources.findIndex(({ role }) => (role ?? "entry") === "entry");
  return { source, line0: trace.sources[source]?.line0 ?? trace.kernel.line0 ?? 1 };
}

/** "In[3]:19" for a place, "" for none. */
export function placeName(trace: Trace, place: Place | null | undefined): string {
  if (!place || place[0] < 0) return "";
  return `${trace.sources[place[0]]?.file ?? trace.kernel.file}:${place[1]}`;
}

/** What is known of one op, for tooltips and summaries. */
export interface OpTable {
  row(op: number): number | undefined;
  name(op: number): string;
  place(op: number): Place | undefined;
  parents(op: number): readonly number[];
  children(op: number): readonly number[];
}

export function viewOps(trace: Trace): OpTable {
  const { id = [], name = [], loc = [], parents = [] } = trace.ops;
  const rowOf = new Map(id.map((op, row) => [op, row]));
  const children = new Map<number, number[]>();
  id.forEach((op, row) => {
    for (const parent of parents[row] ?? []) {
      const known = children.get(parent);
      if (known) known.push(op);
      else children.set(parent, [op]);
    }
  });
  const at = <T>(column: readonly T[], op: number): T | undefined => column[rowOf.get(op) ?? -1];
  return {
    row: (op) => rowOf.get(op),
    name: (op) => trace.strings[at(name, op) ?? -1] ?? "",
    place: (op) => at(loc, op),
    parents: (op) => at(parents, op) ?? [],
    children: (op) => children.get(op) ?? [],
  };
}

/** True if the kernel of a trace was launched, checked or timed. */
export function hasRuns({ runs }: Trace): boolean {
  return [runs.launches, runs.checks, runs.benches].some((list) => (list ?? []).length > 0);
}

/** The trace whose runs speak for `trace`: itself, or the same kernel run on another target. */
export function ranFor(trace: Trace, all: readonly Trace[]): Trace {
  if (hasRuns(trace)) return trace;
  return all.find((other) => other.kernel.name === trace.kernel.name && hasRuns(other)) ?? trace;
}
