// Benchmarks made ready for drawing: rates of the median time, in one unit, on one axis.
import type { Bench, Ceiling } from "./trace";

export type Metric = "tflops" | "gbps" | "ms" | "percent";

/** One measured point, in the plot's unit. */
export interface Point {
  x: number | string;
  at: number; // index on the shared axis
  low: number;
  median: number;
  high: number;
  milliseconds: number;
  ok: boolean | null;
  unsteady: boolean;
  timed: "cold" | "hot" | "host" | null;
}

export interface Series {
  name: string;
  ours: boolean;
  points: Point[];
}

export interface Plot {
  metric: Metric;
  unit: string;
  axis: string;
  xs: (number | string)[];
  series: Series[];
  ceilings: { name: string; value: number }[];
}

const SECOND: Record<Metric, [title: string, perMillisecond: number][]> = {
  // flops / ms = 1e3 flops/s; 1 GB = 1e9 bytes
  tflops: [
    ["TFLOP/s", 1e-9],
    ["GFLOP/s", 1e-6],
  ],
  gbps: [
    ["GB/s", 1e-6],
    ["MB/s", 1e-3],
  ],
  ms: [
    ["ms", 1],
    ["µs", 1e3],
  ],
  percent: [["% of roofline", 1]],
};

/** The latest own series and the latest of each baseline over the same sizes. */
export function latestBenches(benches: readonly Bench[]): Bench[] {
  const own = benches.findLast(({ kind, error }) => kind === "self" && !error);
  if (!own) return [];
  const sizes = JSON.stringify(own.x ?? []);
  const others = benches.filter(
    ({ kind, error, x }) => kind === "baseline" && (error || JSON.stringify(x ?? []) === sizes),
  );
  return [own, ...new Map(others.map((bench) => [bench.name, bench])).values()];
}

/** Arrange series for drawing; `dots` says that the kernel multiplies matrices. */
export function arrangePlot(
  benches: readonly Bench[],
  ceilings: readonly Ceiling[],
  dots = false,
): Plot {
  const measured = benches.filter(({ x }) => (x ?? []).length > 0);
  const ours = measured.find(({ kind }) => kind === "self") ?? measured[0];
  const metric = metricOf(ours, dots);
  const xs = [...new Set(measured.flatMap(({ x }) => x ?? []))];
  if (xs.every((x) => typeof x === "number")) xs.sort((a, b) => Number(a) - Number(b));
  const raw = measured.map((bench) => seriesOf(bench, ours, metric, xs, ceilings));
  const largest = Math.max(0, ...raw.flatMap(({ points }) => points.map(({ median }) => median)));
  const units = SECOND[metric];
  // The smaller unit where even the largest value is below one of the larger.
  const chosen = units.find(([, factor]) => largest * factor >= 1) ?? units[units.length - 1];
  const [unit, factor] = chosen ?? ["", 1];
  const scaled = raw.map(({ name, ours, points }) => ({
    name,
    ours,
    points: points.map((point) => ({
      ...point,
      low: point.low * factor,
      median: point.median * factor,
      high: point.high * factor,
    })),
  }));
  const toUnit = factor / (units[0]?.[1] ?? 1); // ceilings are in the larger unit
  return {
    metric,
    unit,
    axis: ours?.axis ?? "",
    xs,
    series: scaled,
    ceilings: ceilings
      .filter((ceiling) => ceiling.unit === metric)
      .map(({ name, value, source }) => ({ name: `${name} (${source})`, value: value * toUnit })),
  };
}

function metricOf(bench: Bench | undefined, dots: boolean): Metric {
  const has = (column: (number | null)[] | undefined): boolean =>
    (column ?? []).some((amount) => (amount ?? 0) > 0);
  if (bench?.metric) return bench.metric;
  if (dots && has(bench?.flops)) return "tflops";
  return has(bench?.bytes) ? "gbps" : "ms";
}

/** The work of one launch in the metric's base unit: operations, bytes, or ms at the roofline. */
function workOf(
  metric: Metric,
  flops: number | null | undefined,
  bytes: number | null | undefined,
  ceilings: readonly Ceiling[],
): number | null | undefined {
  if (metric === "ms") return 1;
  if (metric === "tflops") return flops;
  if (metric === "gbps") return bytes;
  const least = (unit: Ceiling["unit"]): number =>
    Math.min(...ceilings.filter((c) => c.unit === unit).map(({ value }) => value));
  const bounds = [((flops ?? 0) / least("tflops")) * 1e-9, ((bytes ?? 0) / least("gbps")) * 1e-6];
  const bound = Math.max(...bounds);
  return bound > 0 ? 100 * bound : null;
}

function seriesOf(
  bench: Bench,
  ours: Bench | undefined,
  metric: Metric,
  xs: readonly (number | string)[],
  ceilings: readonly Ceiling[],
): Series {
  const points = (bench.x ?? []).flatMap((x, i): Point[] => {
    const [q20, q50, q80] = bench.milliseconds?.[i] ?? [];
    if (q20 === undefined || q50 === undefined || q80 === undefined || q50 <= 0) return [];
    const own = (ours?.x ?? []).indexOf(x); // a baseline does the same work
    const flops = bench.flops?.[i] ?? ours?.flops?.[own];
    const work = workOf(metric, flops, bench.bytes?.[i] ?? ours?.bytes?.[own], ceilings);
    if (work === null || work === undefined) return [];
    const rate = (time: number): number => (metric === "ms" ? time : work / time);
    const [low, high] = metric === "ms" ? [q20, q80] : [rate(q80), rate(q20)];
    return [
      {
        x,
        at: xs.indexOf(x),
        low,
        median: rate(q50),
        high,
        milliseconds: q50,
        ok: bench.ok?.[i] ?? null,
        unsteady: bench.unsteady?.[i] ?? false,
        timed: bench.timed?.[i] ?? null,
      },
    ];
  });
  return { name: bench.name, ours: bench.kind === "self", points };
}
