// Two traces beside each other: their ops under common numbers, and which rows face each other.
// Which ops and rows are each other's is said in the comparison; nothing of that is found out here.
import type { Edit } from "./diff";
import { invertLinks, type Links } from "./links";
import { type OpTable, type StageView, viewOps, viewStages } from "./stages";
import type { Comparison, FacingRun, Trace } from "./trace";

/** What ops of B that A does not have are numbered from. */
const FROM_B = 2 ** 40;

export type SideName = "a" | "b";

export interface ComparedSide {
  name: SideName;
  label: string;
  trace: Trace;
  stages: StageView[]; // with ops under common numbers
  links: Links;
  /** The common number of an op of this side. */
  common(op: number): number;
  /** The op of this side that has a common number, undefined if it has none. */
  own(op: number): number | undefined;
  /** Ops, under common numbers, that came from a line: also through a call there. */
  opsOfLine(source: number, line: number): number[];
}

export interface Compared {
  a: ComparedSide;
  b: ComparedSide;
}

export function compareTraces(a: Trace, b: Trace, comparison: Comparison): Compared {
  const ofB = new Map<number, number>(); // op of B -> common number
  const toB = new Map<number, number>();
  for (const [mine, theirs] of comparison.ops ?? []) {
    ofB.set(theirs, mine);
    toB.set(mine, theirs);
  }
  const commonB = (op: number): number => ofB.get(op) ?? FROM_B + op;
  const ownA = (op: number): number | undefined => (op < FROM_B ? op : undefined);
  const ownB = (op: number): number | undefined => (op < FROM_B ? toB.get(op) : op - FROM_B);
  const [tableA, tableB] = [viewOps(a), viewOps(b)];
  const both = (pick: (table: OpTable, op: number) => readonly number[]) => (op: number) => {
    const [mine, theirs] = [ownA(op), ownB(op)];
    return [
      ...(mine === undefined ? [] : pick(tableA, mine)),
      ...(theirs === undefined ? [] : pick(tableB, theirs).map(commonB)),
    ];
  };
  const joint: OpTable = {
    row: () => undefined,
    name: (op) => tableA.name(ownA(op) ?? -1) || tableB.name(ownB(op) ?? -1),
    place: () => undefined,
    parents: both((table, op) => table.parents(op)),
    children: both((table, op) => table.children(op)),
  };
  const side = (
    name: SideName,
    trace: Trace,
    common: (op: number) => number,
    own: (op: number) => number | undefined,
  ): ComparedSide => {
    const stages = viewStages(trace).map((stage) => {
      const known = new Map<readonly number[], readonly number[]>(); // runs share their ops
      const opsOfRow = stage.opsOfRow.map((ops) => {
        if (ops === undefined) return undefined;
        const found = known.get(ops) ?? ops.map(common);
        known.set(ops, found);
        return found;
      });
      return { ...stage, opsOfRow };
    });
    return {
      name,
      label: comparison.labels[name === "a" ? 0 : 1],
      trace,
      stages,
      links: invertLinks(stages, joint),
      common,
      own,
      opsOfLine: (source, line) => opsOfLine(trace, source, line).map(common),
    };
  };
  return { a: side("a", a, (op) => op, ownA), b: side("b", b, commonB, ownB) };
}

function opsOfLine({ ops }: Trace, source: number, line: number): number[] {
  return (ops.id ?? []).filter((_, row) => {
    const place = ops.loc?.[row];
    if (place && place[0] === source && place[1] === line) return true;
    return ops.calls?.[row]?.some(([file, at]) => file === source && at === line) ?? false;
  });
}

/** Runs of facing rows as edits; rows that a side does not have (a trimmed stage) are left out. */
export function editsOf(
  runs: readonly FacingRun[],
  a: Pick<StageView, "lines">,
  b: Pick<StageView, "lines">,
): Edit[] {
  const edits: Edit[] = [];
  const most = a.lines.length + b.lines.length;
  for (const [change, first, firstB, count] of runs) {
    for (let n = 0; n < count && edits.length <= most; n++) {
      const [before, after] = [first + n, firstB + n];
      const [hasA, hasB] = [a.lines[before] !== undefined, b.lines[after] !== undefined];
      if (change === "same" || change === "changed") {
        if (!hasA && !hasB) break;
        if (hasA && hasB) edits.push({ change, before, after });
        else edits.push(hasA ? { change: "removed", before } : { change: "added", after });
      } else if (change === "removed" || change === "moved-from") {
        if (!hasA) break;
        edits.push({ change, before });
      } else {
        if (!hasB) break;
        edits.push({ change, after });
      }
    }
  }
  return edits;
}

/** How many rows of each kind there are. */
export function tally(edits: readonly Edit[]): Record<Edit["change"], number> {
  const found = { same: 0, changed: 0, removed: 0, added: 0, "moved-from": 0, "moved-to": 0 };
  for (const { change } of edits) found[change] += 1;
  return found;
}

/** Rows that differ, a moved one once. */
export function differing(edits: readonly Edit[]): number {
  const { changed, removed, added, "moved-to": moved } = tally(edits);
  return changed + removed + added + moved;
}

/** "12 changed · 3 only in A · 2 moved", or that nothing differs. */
export function tallyWords(edits: readonly Edit[]): string {
  const counts = tally(edits);
  const words = [
    [counts.changed, "changed"],
    [counts.removed, "only in A"],
    [counts.added, "only in B"],
    [counts["moved-to"], "moved"],
  ] as const;
  const said = words.flatMap(([amount, word]) =>
    amount > 0 ? [`${amount.toLocaleString("en-US")} ${word}`] : [],
  );
  return said.length > 0 ? said.join(" · ") : "A and B are the same here";
}
