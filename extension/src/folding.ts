// A diff as it is shown: unchanged rows far from a change folded away, both sides beside each other.
import type { Edit } from "./diff";

const CONTEXT = 3; // unchanged rows kept around a change

/** One line of the diff as shown: an edit, or a fold that hides unchanged rows. */
export type Line = Edit | { fold: number; first: number };

/** Cut unchanged rows farther than CONTEXT from any change; `unfolded` stay, by their first edit. */
export function foldUnchanged(edits: readonly Edit[], unfolded: ReadonlySet<number>): Line[] {
  const near = new Uint8Array(edits.length);
  edits.forEach(({ change }, i) => {
    if (change !== "same") near.fill(1, Math.max(0, i - CONTEXT), i + CONTEXT + 1);
  });
  const lines: Line[] = [];
  for (let i = 0; i < edits.length; ) {
    let end = i;
    while (end < edits.length && near[end] === 0) end++;
    if (end - i > 1 && !unfolded.has(i)) lines.push({ fold: end - i, first: i });
    else lines.push(...edits.slice(i, end));
    i = end;
    while (i < edits.length && near[i] === 1) {
      lines.push(edits[i] as Edit);
      i++;
    }
  }
  return lines;
}

const isFacing = ({ change }: Edit): boolean => change === "same" || change === "changed";

/** Set removed rows beside added ones for the side-by-side view. */
export function pairRows(
  lines: readonly Line[],
): [left: Line | undefined, right: Line | undefined][] {
  const pairs: [Line | undefined, Line | undefined][] = [];
  for (let i = 0; i < lines.length; ) {
    const line = lines[i] as Line;
    if ("fold" in line || isFacing(line)) {
      pairs.push([line, line]);
      i++;
      continue;
    }
    const left: Line[] = [];
    const right: Line[] = [];
    for (; i < lines.length; i++) {
      const next = lines[i] as Line;
      if ("fold" in next || isFacing(next)) break;
      (next.change === "removed" || next.change === "moved-from" ? left : right).push(next);
    }
    for (let k = 0; k < Math.max(left.length, right.length); k++) pairs.push([left[k], right[k]]);
  }
  return pairs;
}

/** What stands before a row of each kind. */
export const SIGNS = {
  same: " ",
  changed: "~",
  removed: "−",
  added: "+",
  "moved-from": "↥",
  "moved-to": "↧",
} as const;
