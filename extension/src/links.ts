// Linking: invert "row -> ops" once per stage into "op -> rows". A selection is then a set of ops,
// and its rows in every stage are look-ups: 5,920 rows cost microseconds, not a scan.
//
// | relation | meaning                                                        | drawn   |
// |----------|----------------------------------------------------------------|---------|
// | same     | the row carries a chosen op                                    | full    |
// | kin      | it carries an op made from a chosen one, or one that it was made from | hatched |
//
// Kin are followed through the whole op table, upwards and downwards but never up and down again:
// two ops fused from one parent are not each other's kin.
import type { OpTable, StageView } from "./stages";

export type Relation = "same" | "kin";

/** Ops as a selection asks for them: the chosen ones and their kin. */
export interface Family {
  ops: ReadonlySet<number>;
  kin: ReadonlySet<number>;
}

export interface Links {
  /** Ops that rows `from`..`to` (inclusive, either order) of a stage came from. */
  opsAt(stage: string, from: number, to?: number): Set<number>;
  family(ops: ReadonlySet<number>): Family;
  /** Rows of a stage that carry an op of the family, in no order; "same" wins over "kin". */
  rowsOf(stage: string, family: Family): ReadonlyMap<number, Relation>;
}

export const NOBODY: Family = { ops: new Set(), kin: new Set() };

/** The class of a thing made of `ops` under pins: "wb-pin0", "wb-pin0-kin", or both of several; "" for none. */
export function pinClasses(pins: readonly Family[], ops: Iterable<number>): string {
  const own = [...ops];
  return pins
    .flatMap(({ ops: chosen, kin }, slot) => {
      if (own.some((op) => chosen.has(op))) return [`wb-pin${slot}`];
      return own.some((op) => kin.has(op)) ? [`wb-pin${slot}-kin`] : [];
    })
    .join(" ");
}

export function invertLinks(stages: readonly StageView[], table: OpTable): Links {
  const byId = new Map(stages.map((stage) => [stage.id, stage]));
  const inverted = new Map(stages.map((stage) => [stage.id, rowsOfOps(stage)]));
  const families = new WeakMap<ReadonlySet<number>, Family>();
  const found = new WeakMap<Family, Map<string, Map<number, Relation>>>(); // pane, status and cell ask for the same
  return {
    opsAt(id, from, to = from) {
      const rows = byId.get(id)?.opsOfRow ?? [];
      const met = new Set<number>();
      for (let row = Math.min(from, to); row <= Math.max(from, to); row++) {
        for (const op of rows[row] ?? []) met.add(op);
      }
      return met;
    },
    family(ops) {
      const known = families.get(ops);
      if (known) return known;
      const kin = new Set([...reach(ops, table.parents), ...reach(ops, table.children)]);
      for (const op of ops) kin.delete(op);
      const family = { ops, kin };
      families.set(ops, family);
      return family;
    },
    rowsOf(id, family) {
      const known = found.get(family) ?? new Map<string, Map<number, Relation>>();
      found.set(family, known);
      const before = known.get(id);
      if (before) return before;
      const { ops, kin } = family;
      const rowsOfOp = inverted.get(id);
      const rows = new Map<number, Relation>();
      known.set(id, rows);
      for (const op of kin) for (const row of rowsOfOp?.get(op) ?? []) rows.set(row, "kin");
      for (const op of ops) for (const row of rowsOfOp?.get(op) ?? []) rows.set(row, "same");
      return rows;
    },
  };
}

function rowsOfOps(stage: StageView): Map<number, number[]> {
  const rowsOfOp = new Map<number, number[]>();
  stage.opsOfRow.forEach((ops, row) => {
    for (const op of ops ?? []) {
      const rows = rowsOfOp.get(op);
      if (rows) rows.push(row);
      else rowsOfOp.set(op, [row]);
    }
  });
  return rowsOfOp;
}

function reach(from: Iterable<number>, next: (op: number) => readonly number[]): Set<number> {
  const found = new Set<number>();
  const open = [...from];
  for (let op = open.pop(); op !== undefined; op = open.pop()) {
    for (const other of next(op)) {
      if (!found.has(other)) {
        found.add(other);
        open.push(other);
      }
    }
  }
  return found;
}
