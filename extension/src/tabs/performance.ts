// The Performance tab: throughput against the baselines, checks, launches.
import { type Cell, make, table } from "../dom";
import { settings } from "../offers";
import { drawPlot } from "../plot";
import { arrangePlot, latestBenches, type Plot, type Point } from "../series";
import { hasRuns, placeName, ranFor } from "../stages";
import { count, figure, milliseconds } from "../texts";
import type { Bench, Check, Trace, Tune } from "../trace";
import type { Tab, TabServices } from "./tab";

/** Times are in doubt when other programs take more than this share of the processor. */
const BUSY = 0.15;

export function mountPerformance(panel: HTMLElement, services: TabServices): Tab {
  const { trace: shown, traces } = services;
  const trace = ranFor(shown, traces);
  const { launches = [], checks = [], benches = [], ceilings = [] } = trace.runs;
  const content = make("div", {
    class: "wb-scroll",
    tabindex: "0",
    role: "region",
    "aria-label": "Runs",
  });
  panel.append(content);
  const why = (shown.runs.skipped ?? []).map((skipped) => `${skipped.what}: ${skipped.why}`);
  const reasons = why.length > 0 ? ` (${why.join("; ")})` : "";
  if (!hasRuns(trace)) {
    const sentence = `Not launched, checked or timed${reasons}.`;
    content.append(make("p", { class: "wb-empty" }, sentence));
    return {};
  }
  if (trace !== shown) {
    const sentence = `Not run on ${shown.kernel.target}${reasons}. These runs are on ${trace.kernel.target}:`;
    content.append(make("p", { class: "wb-muted" }, sentence));
  }
  const latest = latestBenches(benches);
  const dots = (trace.ops.name ?? []).some((name) => trace.strings[name]?.includes("dot"));
  const plot = arrangePlot(latest, ceilings, dots);
  if (plot.series.some(({ points }) => points.length > 0)) {
    const figure = drawPlot(plot, trace.kernel.name);
    content.append(section("Throughput", figure, benchTable(plot), environment(latest)));
  }
  for (const { name, error } of latest) {
    if (error) content.append(make("p", { class: "wb-muted" }, `${name}: ${error}`));
  }
  const tune = trace.runs.tunes?.at(-1);
  if (tune) content.append(section("Tuning", ...tuneTable(tune)));
  if (checks.length > 0)
    content.append(section("Checks", ...checks.map((check) => showCheck(check, trace))));
  if (launches.length > 0) content.append(section("Launches", launchTable(trace)));
  return {};
}

function section(title: string, ...children: (Node | null)[]): HTMLElement {
  return make("section", {}, make("h3", {}, title), ...children);
}

function benchTable(plot: Plot): HTMLElement {
  const ours = plot.series.find((series) => series.ours);
  const throughput = plot.metric !== "ms";
  const head: Cell[] = [{ text: plot.axis || "size" }];
  for (const { name, ours: own } of plot.series) {
    head.push({ text: `${name} time`, number: true });
    if (throughput) head.push({ text: `${name} ${plot.unit}`, number: true });
    if (!own && ours) head.push({ text: `${name} / ${ours.name}`, number: true });
  }
  const rows = plot.xs.map((x, at): Cell[] => {
    const own = ours?.points.find((point) => point.at === at);
    const cells: Cell[] = [{ text: x.toLocaleString("en-US") }];
    for (const series of plot.series) {
      const point = series.points.find((candidate) => candidate.at === at);
      const wrong = point?.ok === false ? " ✗" : "";
      cells.push({
        text: point
          ? `${milliseconds(point.milliseconds)}${point.unsteady ? " ±" : ""}${wrong}${host(point)}`
          : "–",
        number: true,
      });
      if (throughput) cells.push({ text: point ? figure(point.median) : "–", number: true });
      if (!series.ours && ours) {
        const compared = point && own && own.ok !== false && !host(point) && !host(own);
        const ratio = compared ? point.milliseconds / own.milliseconds : null;
        cells.push({
          text: ratio === null ? "–" : ratio.toFixed(2),
          number: true,
          className: ratio === null ? "" : ratio >= 1 ? "wb-faster" : "wb-slower",
        });
      }
    }
    return cells;
  });
  const compares = ours !== undefined && plot.series.length > 1;
  const ratios = compares ? ` A ratio above 1 means that ${ours.name} is faster.` : "";
  const note = `Medians; ± marks unsteady times, ✗ wrong results.${ratios}${timedNote(plot)}`;
  return scrollable("Measured times", table(note, head, rows));
}

/** Marks a time that may hold the host's own. */
function host(point: Point): string {
  return point.timed === "host" ? " host" : "";
}

const TIMED = {
  cold: "Cold: each run finds its inputs in memory, the L2 cache was flushed.",
  hot: "Hot: each run finds the caches as the run before left them.",
  host: "Host: could not be captured, so the host's time may be in it; not compared.",
} as const;

/** Says how the times of a plot were taken. */
function timedNote(plot: Plot): string {
  const found = new Set(plot.series.flatMap(({ points }) => points.map(({ timed }) => timed)));
  return (Object.keys(TIMED) as (keyof typeof TIMED)[])
    .filter((timed) => found.has(timed))
    .map((timed) => ` ${TIMED[timed]}`)
    .join("");
}

/** What a search tried, the fastest first, and the line that chooses the winner again. */
function tuneTable(tune: Tune): HTMLElement[] {
  const rows = tune.rows ?? [];
  const best = typeof tune.best === "number" ? rows[tune.best] : undefined;
  const names = [...new Set(rows.flatMap(({ config }) => Object.keys(config)))];
  const last = Number.POSITIVE_INFINITY;
  const ordered = [...rows].sort(
    (a, b) => (a.milliseconds ?? last) - (b.milliseconds ?? last) || 0,
  );
  const numbers = (
    [
      ["regs", "registers"],
      ["spills", "spills"],
      ["shared", "shared_bytes"],
    ] as const
  ).filter(([, key]) => rows.some((row) => typeof row[key] === "number"));
  const head: Cell[] = [
    ...names.map((text) => ({ text, number: true })),
    { text: "time", number: true },
    ...numbers.map(([text]) => ({ text, number: true })),
    { text: "state" },
  ];
  const cells = ordered.map((row): Cell[] => {
    const state = row === best ? "best" : row.state;
    return [
      ...names.map((name) => ({ text: String(row.config[name] ?? ""), number: true })),
      {
        text: typeof row.milliseconds === "number" ? milliseconds(row.milliseconds) : "–",
        number: true,
      },
      ...numbers.map(([, key]) => ({
        text: row[key]?.toLocaleString("en-US") ?? "–",
        number: true,
      })),
      {
        text: row.why ? `${state}: ${row.why}` : state,
        className: row === best ? "wb-faster" : row.state === "ok" ? "" : "wb-slower",
      },
    ];
  });
  const options = best ? settings(best.config) : null;
  const chosen = options ? [make("p", {}, "Chosen: ", make("code", {}, options))] : [];
  return [
    ...chosen,
    scrollable("Configurations", table("What was tried, the fastest first", head, cells)),
  ];
}

/** A table in a box that scrolls sideways where it must, reachable by keyboard. */
function scrollable(name: string, content: HTMLElement): HTMLElement {
  return make(
    "div",
    { class: "wb-wide", role: "region", tabindex: "0", "aria-label": name },
    content,
  );
}

function environment(benches: readonly Bench[]): HTMLElement | null {
  const env = benches.find((bench) => bench.env)?.env;
  if (!env) return null;
  const range = (values: number[] | undefined, unit: string): string =>
    values && values.length > 0
      ? [...new Set(values)].map((v) => Math.round(v)).join("–") + unit
      : "";
  const facts = [env.device, range(env.clock, " MHz"), range(env.temp, " °C"), env.driver ?? ""];
  const line = make("p", { class: "wb-muted" }, facts.filter(Boolean).join(" · "));
  if ((env.others ?? 0) < BUSY) return line;
  const share = Math.round(100 * (env.others ?? 0));
  const doubt = `▲ Other programs took ${share} % of the processor while this was timed: times of a busy machine mislead.`;
  return make("div", {}, make("p", { class: "wb-warning" }, doubt), line);
}

/** What errors were compared with: what a right kernel has, or what the user allowed. */
function allowedWords(check: Check): string {
  const words = [
    typeof check.usual === "number" ? `usual ${figure(check.usual)}` : "",
    typeof check.atol === "number" || typeof check.rtol === "number"
      ? `allowed ${figure(check.atol ?? 0)} + ${figure(check.rtol ?? 0)} × |expected|`
      : "",
    check.reference === "as written" ? "reference as written, not in float64" : "",
  ];
  return words.filter(Boolean).join(", ");
}

function showCheck(check: Check, trace: Trace): HTMLElement {
  const total = check.total.toLocaleString("en-US");
  const verdict = check.ok
    ? `✓ ${total} of ${total} elements agree with ${check.ref}`
    : `✗ ${check.wrong.toLocaleString("en-US")} of ${total} elements differ from ${check.ref}`;
  const facts = [
    `largest error ${figure(check.max_abs)} absolute, ${figure(check.max_rel)} relative`,
    allowedWords(check),
    typeof check.shift === "number"
      ? `on average ${check.shift_relative ? `${(1 + check.shift).toPrecision(6)} times the reference` : `${figure(check.shift)} off`}`
      : "",
    (check.nan ?? 0) > 0 ? count(check.nan ?? 0, "unexpected NaN") : "",
  ];
  const first = check.first ?? [];
  const places = (op: number | null | undefined): string =>
    typeof op === "number"
      ? placeName(trace, trace.ops.loc?.[trace.ops.id?.indexOf(op) ?? -1])
      : "";
  return make(
    "div",
    { class: "wb-check-result", "data-ok": String(check.ok) },
    make("p", { class: "wb-verdict" }, verdict),
    make("p", { class: "wb-muted" }, facts.filter(Boolean).join(" · ")),
    first.length > 0 &&
      scrollable(
        "First wrong elements",
        table(
          "The first wrong elements",
          [
            { text: "element" },
            { text: "got", number: true },
            { text: "expected", number: true },
            { text: "program", number: true },
            { text: "stored at" },
          ],
          first.map(({ out, index, got, want, program, op }) => [
            { text: `${out}[${index.join(", ")}]` },
            { text: figure(got), number: true },
            { text: figure(want), number: true },
            { text: typeof program === "number" ? String(program) : "nobody", number: true },
            { text: places(op) || "–" },
          ]),
        ),
      ),
  );
}

function launchTable({ runs }: Trace): HTMLElement {
  const rows = (runs.launches ?? []).map(
    ({ device, grid, args = [], milliseconds: time }): Cell[] => [
      { text: device },
      { text: grid.join(" × ") },
      {
        text: args
          .map(({ name, shape, value }) =>
            shape ? `${name}[${shape.join(", ")}]` : `${name}=${value}`,
          )
          .join("  "),
      },
      { text: typeof time === "number" ? milliseconds(time) : "not timed", number: true },
    ],
  );
  const head = [
    { text: "device" },
    { text: "grid" },
    { text: "arguments" },
    { text: "time", number: true },
  ];
  return scrollable("Launches", table("Launches of this kernel, in order", head, rows));
}
