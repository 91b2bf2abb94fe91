// The overview ruler beside a pane: where in the whole text the hits are.
import type { Relation } from "../links";

export interface RulerMarks {
  colour: string;
  rows: Iterable<readonly [row: number, relation: Relation]>;
}

const WIDTH = 10;
const MARK = 2; // px

/** Draw marks into the ruler; hits far apart stay visible however long the text is. */
export function drawRuler(
  ruler: HTMLCanvasElement,
  height: number,
  rows: number,
  marks: readonly RulerMarks[],
): void {
  const pen = ruler.getContext("2d");
  if (!pen || rows === 0) return;
  if (ruler.width !== WIDTH || ruler.height !== height) {
    [ruler.width, ruler.height] = [WIDTH, height]; // costly: a new canvas each time
  }
  pen.clearRect(0, 0, WIDTH, height);
  for (const { colour, rows: hits } of marks) {
    pen.fillStyle = colour;
    for (const [strong, from, to] of runsOf(hits, height / rows, height)) {
      pen.globalAlpha = strong ? 1 : 0.45;
      pen.fillRect(0, from, WIDTH, to - from);
    }
  }
}

/**
 * Pixels of a ruler that are alike, from the top: a thousand rows are a few runs.
 * A mark covers MARK pixels from where its row is; where several meet, "same" is drawn.
 */
export function runsOf(
  hits: Iterable<readonly [row: number, relation: Relation]>,
  scale: number,
  height: number,
): [strong: boolean, from: number, to: number][] {
  const pixels = new Uint8Array(Math.max(0, Math.ceil(height))); // 0 nothing, 1 kin, 2 same
  for (const [row, relation] of hits) {
    const from = Math.floor(row * scale);
    const kind = relation === "same" ? 2 : 1;
    for (let y = from; y < from + MARK; y++) if ((pixels[y] ?? kind) < kind) pixels[y] = kind;
  }
  const runs: [boolean, number, number][] = [];
  pixels.forEach((kind, y) => {
    if (kind === 0) return;
    const last = runs.at(-1);
    if (last && last[2] === y && last[0] === (kind === 2)) last[2] = y + 1;
    else runs.push([kind === 2, y, y + 1]);
  });
  return runs;
}
