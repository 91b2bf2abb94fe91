// The throughput plot as SVG: points are medians, bars 20-80 % quantiles, y from zero.
import { draw, make, treeOf } from "./dom";
import type { Plot, Point, Series } from "./series";
import { figure, milliseconds } from "./texts";

const [WIDTH, HEIGHT] = [760, 320];
const BOX = { left: 64, right: 640, top: 16, bottom: 268 };
const MARKERS = ["circle", "square", "triangle", "diamond", "cross"] as const;
const DASHES = ["", "6 4", "2 3", "8 3 2 3", "12 4"];
const LABEL_GAP = 15;

/** Return the plot as a figure; the caption below it speaks of the point under the pointer. */
export function drawPlot(plot: Plot, title: string): HTMLElement {
  const ticks = ticksUpTo(topOf(plot));
  const top = ticks.at(-1) ?? 1;
  const y = (value: number): number => BOX.bottom - ((BOX.bottom - BOX.top) * value) / top;
  const x = scaleOf(plot);
  const sentence = describePlot(plot, title);
  const svg = draw("svg", {
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
    class: "wb-plot",
    role: "group",
    "aria-label": sentence,
  });
  for (const tick of ticks) {
    svg.append(
      draw("line", { x1: BOX.left, x2: BOX.right, y1: y(tick), y2: y(tick), class: "wb-grid" }),
      draw("text", { x: BOX.left - 8, y: y(tick) + 4, class: "wb-tick wb-end" }, figure(tick)),
    );
  }
  for (const at of thinned(plot.xs.length)) {
    const label = shortNumber(plot.xs[at] ?? "");
    svg.append(
      draw("line", { x1: x(at), x2: x(at), y1: BOX.bottom, y2: BOX.bottom + 4, class: "wb-axis" }),
      draw("text", { x: x(at), y: BOX.bottom + 18, class: "wb-tick wb-middle" }, label),
    );
  }
  svg.append(
    draw("line", { x1: BOX.left, x2: BOX.right, y1: BOX.bottom, y2: BOX.bottom, class: "wb-axis" }),
    draw(
      "text",
      { x: (BOX.left + BOX.right) / 2, y: HEIGHT - 12, class: "wb-axis-title wb-middle" },
      plot.axis || "size",
    ),
    draw(
      "text",
      {
        transform: `translate(14 ${(BOX.top + BOX.bottom) / 2}) rotate(-90)`,
        class: "wb-axis-title wb-middle",
      },
      plot.unit,
    ),
  );
  for (const { name, value } of plot.ceilings.filter((ceiling) => ceiling.value <= top)) {
    svg.append(
      draw("line", {
        x1: BOX.left,
        x2: BOX.right,
        y1: y(value),
        y2: y(value),
        class: "wb-ceiling",
      }),
      draw(
        "text",
        { x: BOX.left + 6, y: y(value) - 5, class: "wb-tick" },
        `${name} ${figure(value)}`,
      ),
    );
  }
  const caption = make("figcaption", {}, sentence);
  const slots = plot.series.map((series, slot) => ({ series, slot }));
  slots.sort((a, b) => Number(a.series.ours) - Number(b.series.ours)); // ours on top of the others
  const labels = slots.flatMap(({ series, slot }) =>
    drawSeries(svg, series, slot, plot, x, y, caption),
  );
  placeLabels(svg, labels);
  rove(svg);
  return make("figure", { class: "wb-figure" }, svg, caption);
}

interface Label {
  text: string;
  slot: number;
  x: number;
  y: number;
}

function drawSeries(
  svg: SVGSVGElement,
  series: Series,
  slot: number,
  plot: Plot,
  x: (at: number) => number,
  y: (value: number) => number,
  caption: HTMLElement,
): Label[] {
  const colour = `wb-series${slot % MARKERS.length}`;
  const group = draw("g", { class: `wb-series ${colour}` });
  const path = series.points
    .map(({ at, median }, i) => `${i === 0 ? "M" : "L"}${x(at).toFixed(1)} ${y(median).toFixed(1)}`)
    .join("");
  const dash = DASHES[slot % DASHES.length] ?? "";
  group.append(draw("path", { d: path, class: "wb-line", "stroke-dasharray": dash }));
  for (const point of series.points) {
    const [px, py] = [x(point.at), y(point.median)];
    const wrong = point.ok === false;
    const text =
      `${series.name}, ${plot.axis || "size"} ${point.x.toLocaleString("en-US")}: ` +
      `${figure(point.median)} ${plot.unit} (${milliseconds(point.milliseconds)})` +
      (wrong ? ", wrong result" : point.ok === null ? ", not checked" : "") +
      (point.unsteady ? ", unsteady" : "") +
      (point.timed ? `, ${point.timed}` : "");
    const mark = draw(
      "g",
      { class: "wb-point", tabindex: "-1", role: "img", "aria-label": text },
      draw("line", { x1: px, x2: px, y1: y(point.low), y2: y(point.high), class: "wb-bar-line" }),
      draw("circle", { cx: px, cy: py, r: 9, class: "wb-hit" }),
      wrong
        ? draw("text", { x: px, y: py + 5, class: "wb-wrong wb-middle" }, "✗")
        : marker(MARKERS[slot % MARKERS.length] ?? "circle", px, py, point.unsteady),
    );
    const tell = (): void => {
      caption.textContent = text;
    };
    mark.addEventListener("pointerenter", tell);
    mark.addEventListener("focus", tell);
    group.append(mark);
  }
  svg.append(group);
  const last = series.points.at(-1);
  return last ? [{ text: series.name, slot, x: x(last.at) + 12, y: y(last.median) + 4 }] : [];
}

function marker(kind: (typeof MARKERS)[number], x: number, y: number, hollow: boolean): SVGElement {
  const attributes = { class: hollow ? "wb-marker wb-hollow" : "wb-marker" };
  if (kind === "circle") return draw("circle", { ...attributes, cx: x, cy: y, r: 4.5 });
  const shape = {
    square: `M${x - 4} ${y - 4}h8v8h-8z`,
    triangle: `M${x} ${y - 5}l5 9h-10z`,
    diamond: `M${x} ${y - 6}l6 6l-6 6l-6 -6z`,
    cross: `M${x - 1.5} ${y - 5}h3v3.5h3.5v3h-3.5v3.5h-3v-3.5h-3.5v-3h3.5z`,
  }[kind];
  return draw("path", { ...attributes, d: shape });
}

/** Names at the line ends, moved apart where they would overlap. */
function placeLabels(svg: SVGSVGElement, labels: Label[]): void {
  labels.sort((a, b) => a.y - b.y);
  let lowest = Number.NEGATIVE_INFINITY;
  for (const label of labels) {
    lowest = Math.max(label.y, lowest + LABEL_GAP);
    const place = { x: Math.max(label.x, BOX.right - 60), y: lowest };
    const colour = `wb-label wb-series${label.slot % MARKERS.length}`;
    svg.append(draw("text", { ...place, class: colour }, label.text));
  }
}

/** One Tab stop for all points, arrows between them. */
function rove(svg: SVGSVGElement): void {
  const points = [...svg.querySelectorAll<SVGGElement>(".wb-point")];
  points[0]?.setAttribute("tabindex", "0");
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const at = points.indexOf(treeOf(svg).activeElement as unknown as SVGGElement);
    if (step === undefined || at < 0) return;
    event.preventDefault();
    const next = points[(at + step + points.length) % points.length];
    points[at]?.setAttribute("tabindex", "-1");
    next?.setAttribute("tabindex", "0");
    next?.focus();
  });
}

function topOf(plot: Plot): number {
  const measured = Math.max(
    1e-9,
    ...plot.series.flatMap(({ points }) => points.map(({ high }) => high)),
  );
  // A ceiling far above every point would press the curves flat; the table names it all the same.
  const near = plot.ceilings.map(({ value }) => value).filter((value) => value <= 2.5 * measured);
  return Math.max(measured, ...near) * 1.04;
}

/** Round steps from zero to at least `top`. */
export function ticksUpTo(top: number): number[] {
  const rough = top / 5;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((s) => s * power).find((s) => s >= rough) ?? rough;
  const steps = Math.ceil(top / step - 1e-9);
  return Array.from({ length: steps + 1 }, (_, i) => Number((i * step).toPrecision(12)));
}

/** Index on the axis -> px: log2 where ratios are constant, linear for other numbers. */
function scaleOf({ xs }: Plot): (at: number) => number {
  const inset = 16;
  const [from, to] = [BOX.left + inset, BOX.right - inset - 60];
  const numbers = xs.map((x) => (typeof x === "number" ? x : Number.NaN));
  const places =
    numbers.some(Number.isNaN) || hasConstantRatio(numbers) ? xs.map((_, i) => i) : numbers;
  const [low = 0, high = 1] = [Math.min(...places), Math.max(...places)];
  return (at) =>
    high === low
      ? (from + to) / 2
      : from + ((to - from) * ((places[at] ?? low) - low)) / (high - low);
}

export function hasConstantRatio(numbers: readonly number[]): boolean {
  if (numbers.length < 3 || (numbers[0] ?? 0) <= 0) return false;
  const ratio = (numbers[1] ?? 0) / (numbers[0] ?? 1);
  return numbers.every(
    (value, i) => i === 0 || Math.abs(value / (numbers[i - 1] ?? 1) / ratio - 1) < 0.02,
  );
}

/** Which axis positions get a label: all, or every second, third, ... so that they fit. */
function thinned(amount: number): number[] {
  const every = Math.max(1, Math.ceil(amount / 12));
  return Array.from({ length: amount }, (_, i) => i).filter((i) => i % every === 0);
}

/** 4096 -> "4k" (k = 1024), other numbers in full. */
export function shortNumber(x: number | string): string {
  if (typeof x === "string") return x;
  for (const [size, letter] of [
    [2 ** 30, "G"],
    [2 ** 20, "M"],
    [2 ** 10, "k"],
  ] as const) {
    if (x >= size && x % size === 0) return `${x / size}${letter}`;
  }
  return figure(x);
}

function describePlot(plot: Plot, title: string): string {
  const ours = plot.series.find((series) => series.ours);
  const right = ours?.points.filter(({ ok }) => ok !== false) ?? [];
  const better = (a: Point, b: Point): Point =>
    plot.metric === "ms" ? (a.median <= b.median ? a : b) : a.median >= b.median ? a : b;
  const best = right.length > 0 ? right.reduce(better) : undefined;
  const names = plot.series.map(({ name }) => name).join(", ");
  const peak = best
    ? ` Best of ${ours?.name}: ${figure(best.median)} ${plot.unit} at ${best.x.toLocaleString("en-US")}.`
    : "";
  return `${title}: ${plot.unit} over ${plot.axis || "size"} for ${names}.${peak}`;
}
