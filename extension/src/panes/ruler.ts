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
    for (const [row, relation] of hits) {
      pen.globalAlpha = relation === "same" ? 1 : 0.45;
      pen.fillRect(0, (row / rows) * height, WIDTH, MARK);
    }
  }
}
