// What a selection is, in words: for tooltips and the status line.
import type { Links } from "./links";
import type { Choice } from "./selection";
import { type OpTable, placeName, type StageView } from "./stages";
import { count, NOTHING_PINNED, STAGE_TITLES } from "./texts";
import type { StageId, Trace } from "./trace";

const MOST_NAMED = 6;

/** The ops of a row, a line each: name, id and place. */
export function describeOps(chosen: ReadonlySet<number>, ops: OpTable, trace: Trace): string {
  const lines = [...chosen].slice(0, MOST_NAMED).map((op) => {
    const place = placeName(trace, ops.place(op));
    return `${ops.name(op) || "op"} (op ${op})${place ? ` from ${place}` : ""}`;
  });
  if (chosen.size > MOST_NAMED) lines.push(`and ${chosen.size - MOST_NAMED} more`);
  return lines.join("\n");
}

/** "Pinned line 19: 3 ops → 14 PTX rows, 22 SASS rows", or what the last action said. */
export function describeChoice(
  choice: Choice,
  stages: readonly StageView[],
  links: Links,
  trace: Trace,
  ops: OpTable,
): string {
  if (choice.note !== "") return choice.note;
  const pin = choice.pins.at(-1);
  if (!pin) return NOTHING_PINNED;
  const stage = stages.find(({ id }) => id === pin.stage);
  const first = stage?.firstLine ?? 1;
  const rows =
    pin.from === pin.to ? `${pin.from + first}` : `${pin.from + first}–${pin.to + first}`;
  const where = stage ? `${stage.title} ${pin.from === pin.to ? "line" : "lines"} ${rows}` : "op";
  const lines = [
    ...new Set(
      [...pin.ops].map((op) => placeName(trace, ops.place(op))).filter((place) => place !== ""),
    ),
  ];
  const origin =
    stage?.id !== "source" && lines.length > 0 ? ` from ${lines.slice(0, 3).join(", ")}` : "";
  const family = links.family(pin.ops);
  const counts = stages
    .filter(({ id }) => id !== pin.stage)
    .map(({ id }) => ({ id, rows: links.rowsOf(id, family).size }))
    .filter(({ rows: hits }) => hits > 0)
    .map(({ id, rows: hits }) => count(hits, `${STAGE_TITLES[id as StageId] ?? id} row`));
  const more = choice.pins.length > 1 ? ` · ${choice.pins.length} pins` : "";
  const linked = counts.length > 0 ? ` → ${counts.join(", ")}` : "";
  return `Pinned ${where}${origin}: ${count(pin.ops.size, "op")}${linked}${more}`;
}
