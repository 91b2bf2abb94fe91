// The diff of two IR texts, aligned by what the rows mean.
//
// Printed value names count upwards, so removing one op renames everything after it. Each row is
// therefore compared by a key in which every value name is replaced by the op that defines it:
// rows are the same exactly if they came from the same op and use the same ops' results.
//
// Myers' O(ND) over the keys, common head and tail cut off first. Past MOST_EDITS or MOST_ROWS it
// gives up minimality (everything removed, then everything added): no pair may freeze the page.
// A removed and an added row with one key are then one moved row.
import type { RowOps } from "./stages";
import type { Facing } from "./trace";

export type Change = Facing; // "changed": two rows of one op; a diff of one text with itself has none

/** A row of the diff: its change, and its place in either text. */
export interface Edit {
  change: Change;
  before?: number;
  after?: number;
}

const MOST_ROWS = 20_000;
const MOST_EDITS = 1_500;

/** Compare two texts whose rows carry ops; rows without ops are compared by their text. */
export function diffTexts(
  before: readonly string[],
  beforeOps: RowOps,
  after: readonly string[],
  afterOps: RowOps,
): Edit[] {
  const [beforeKeys, afterKeys] = [rowKeys(before, beforeOps), rowKeys(after, afterOps)];
  const edits = diffKeys(beforeKeys, afterKeys);
  markMoves(
    edits,
    (row) => (beforeOps[row] ? beforeKeys[row] : undefined),
    (row) => afterKeys[row],
  );
  return edits;
}

const NAME = /[%#][\w.$]+/g;

/** One key per row: its text with each value and layout name replaced by what defines it. */
export function rowKeys(lines: readonly string[], ops: RowOps): string[] {
  const meaning = new Map<string, string>();
  let owner = "";
  return lines.map((line, row) => {
    const of = ops[row]?.join("+") ?? "";
    if (of !== "") owner = of;
    const text = line.trim();
    const equals = text.indexOf(" = ");
    if (text.startsWith("#") && equals > 0) {
      meaning.set(text.slice(0, equals), `#${text.slice(equals + 3)}`); // a layout is its bases
    } else if (text.startsWith("^(")) {
      nameResults(meaning, text, `%argument of ${owner}`);
    } else if (of !== "" && equals > 0 && text.startsWith("%")) {
      nameResults(meaning, text.slice(0, equals), `%result of ${of}`);
    }
    return `${of}|${text.replace(NAME, (name) => meaning.get(name) ?? name)}`;
  });
}

function nameResults(meaning: Map<string, string>, text: string, base: string): void {
  const names = text.match(/%[\w.$]+/g) ?? [];
  names.forEach((name, i) => {
    meaning.set(name, `${base}.${i}`);
  });
}

/** Myers' shortest edit script over two lists of keys. */
export function diffKeys(before: readonly string[], after: readonly string[]): Edit[] {
  let head = 0;
  const shorter = Math.min(before.length, after.length);
  while (head < shorter && before[head] === after[head]) head++;
  let tail = 0;
  while (tail < shorter - head && before.at(-1 - tail) === after.at(-1 - tail)) tail++;
  const edits: Edit[] = [];
  const same = (rows: number, i: number, j: number): void => {
    for (let k = 0; k < rows; k++) edits.push({ change: "same", before: i + k, after: j + k });
  };
  same(head, 0, 0);
  const middle = myers(
    before.slice(head, before.length - tail),
    after.slice(head, after.length - tail),
  );
  for (const edit of middle) {
    const shifted: Edit = { change: edit.change };
    if (edit.before !== undefined) shifted.before = edit.before + head;
    if (edit.after !== undefined) shifted.after = edit.after + head;
    edits.push(shifted);
  }
  same(tail, before.length - tail, after.length - tail);
  return edits;
}

function myers(a: readonly string[], b: readonly string[]): Edit[] {
  const [n, m] = [a.length, b.length];
  const removed = (before: number): Edit => ({ change: "removed", before });
  const added = (after: number): Edit => ({ change: "added", after });
  const wholesale = (): Edit[] => [...a.map((_, i) => removed(i)), ...b.map((_, j) => added(j))];
  if (n === 0 || m === 0 || n + m > MOST_ROWS) return wholesale();
  const zero = n + m; // index of diagonal 0
  const reach = new Int32Array(2 * zero + 2);
  const history: Int32Array[] = [];
  const at = (v: Int32Array, k: number): number => v[zero + k] ?? 0;
  const goesDown = (v: Int32Array, k: number, d: number): boolean =>
    k === -d || (k !== d && at(v, k - 1) < at(v, k + 1));
  search: for (let d = 0; ; d++) {
    if (d > MOST_EDITS) return wholesale();
    history.push(reach.slice());
    for (let k = -d; k <= d; k += 2) {
      let x = goesDown(reach, k, d) ? at(reach, k + 1) : at(reach, k - 1) + 1;
      while (x < n && x - k < m && a[x] === b[x - k]) x++;
      reach[zero + k] = x;
      if (x >= n && x - k >= m) break search;
    }
  }
  const edits: Edit[] = [];
  let [x, y] = [n, m];
  for (let d = history.length - 1; d >= 0; d--) {
    const v = history[d] as Int32Array;
    const k = x - y;
    const from = goesDown(v, k, d) ? k + 1 : k - 1;
    const [px, py] = [at(v, from), at(v, from) - from];
    while (x > px && y > py && x > 0 && y > 0) {
      edits.push({ change: "same", before: --x, after: --y });
    }
    if (d > 0) edits.push(x === px ? added(--y) : removed(--x));
  }
  return edits.reverse();
}

type KeyOf = (row: number) => string | undefined;

/** Turn pairs of a removed and an added row with one key into moved rows, first to first. */
function markMoves(edits: Edit[], beforeKey: KeyOf, afterKey: KeyOf): void {
  const removed = new Map<string, Edit[]>();
  for (const edit of edits) {
    const key = edit.change === "removed" ? beforeKey(edit.before ?? -1) : undefined;
    if (key === undefined) continue;
    const known = removed.get(key);
    if (known) known.push(edit);
    else removed.set(key, [edit]);
  }
  for (const edit of edits) {
    if (edit.change !== "added") continue;
    const origin = removed.get(afterKey(edit.after ?? -1) ?? "")?.shift();
    if (!origin) continue;
    origin.change = "moved-from";
    edit.change = "moved-to";
  }
}
