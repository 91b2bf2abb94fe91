import { expect, test } from "vitest";
import { drawPlot, hasConstantRatio, shortNumber, ticksUpTo } from "../src/plot";
import { arrangePlot, latestBenches } from "../src/series";
import type { Bench } from "../src/trace";

const bench = (changes: Partial<Bench>): Bench => ({
  name: "ours",
  kind: "self",
  axis: "n",
  x: [1024, 2048],
  milliseconds: [
    [0.9, 1, 1.1, 20],
    [1.9, 2, 2.1, 20],
  ],
  ...changes,
});

test("GB/s from bytes, its quantiles turned round: the shortest time is the highest rate", () => {
  const plot = arrangePlot([bench({ bytes: [1e9, 4e9] })], []);
  expect(plot.unit).toBe("GB/s");
  const [first, second] = plot.series[0]!.points;
  expect(first!.median).toBeCloseTo(1000);
  expect(second!.median).toBeCloseTo(2000);
  expect(first!.low).toBeLessThan(first!.median);
  expect(first!.high).toBeGreaterThan(first!.median);
});

test("small rates get the smaller unit, and ceilings follow", () => {
  const ceilings = [{ name: "peak", unit: "tflops", value: 0.5, source: "measured" }] as const;
  const plot = arrangePlot([bench({ flops: [1e8, 4e8] })], [...ceilings], true);
  expect(plot.unit).toBe("GFLOP/s");
  expect(plot.series[0]!.points[0]!.median).toBeCloseTo(100);
  expect(plot.ceilings[0]!.value).toBeCloseTo(500);
});

test("a baseline without its own count of work does ours", () => {
  const torch = bench({ name: "torch", kind: "baseline" });
  const plot = arrangePlot([bench({ bytes: [1e9, 4e9] }), torch], []);
  expect(plot.series[1]!.points[0]!.median).toBeCloseTo(1000);
});

test("without a matrix product the rate is of memory, as asked it is anything", () => {
  const both = bench({ flops: [1e8, 4e8], bytes: [1e9, 4e9] });
  expect(arrangePlot([both], []).unit).toBe("GB/s");
  expect(arrangePlot([both], [], true).unit).toBe("GFLOP/s");
  expect(arrangePlot([bench({ metric: "ms" })], []).unit).toBe("ms");
  const ceilings = [{ name: "copy", unit: "gbps", value: 2000, source: "measured" }] as const;
  const plot = arrangePlot([bench({ metric: "percent", bytes: [1e9, 4e9] })], [...ceilings]);
  expect(plot.series[0]!.points.map(({ median }) => median)).toEqual([50, 100]);
});

test("only the latest run is drawn, with the baselines over the same sizes", () => {
  const torch = bench({ name: "torch", kind: "baseline" });
  const elsewhere = bench({ name: "self", kind: "baseline", x: [1] });
  const missing = bench({ name: "triton", kind: "baseline", x: [], error: "not installed" });
  const found = latestBenches([bench({ x: [1] }), torch, elsewhere, missing, bench({}), torch]);
  expect(found.map(({ name }) => name)).toEqual(["ours", "torch", "triton"]);
  expect(found[0]!.x).toEqual([1024, 2048]);
});

test("a wrong result is drawn in its place and is never the best", () => {
  const plot = arrangePlot([bench({ bytes: [1e9, 4e9], ok: [true, false] })], []);
  const figure = drawPlot(plot, "add");
  expect(figure.querySelector(".wb-wrong")?.textContent).toBe("✗");
  expect(figure.querySelector("figcaption")?.textContent).toContain(
    "Best of ours: 1,000 GB/s at 1,024",
  );
});

test("every point can be reached with the arrow keys", () => {
  const figure = drawPlot(arrangePlot([bench({ bytes: [1e9, 4e9] })], []), "add");
  document.body.replaceChildren(figure);
  const points = [...figure.querySelectorAll<SVGGElement>(".wb-point")];
  expect(points.map((point) => point.getAttribute("tabindex"))).toEqual(["0", "-1"]);
  points[0]!.focus();
  points[0]!.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
  expect(points.map((point) => point.getAttribute("tabindex"))).toEqual(["-1", "0"]);
});

test("ticks are round and reach the top", () => {
  expect(ticksUpTo(742)).toEqual([0, 200, 400, 600, 800]);
  expect(ticksUpTo(0.9).at(-1)).toBeGreaterThanOrEqual(0.9);
});

test("powers of two are short, and a constant ratio is recognised", () => {
  expect([512, 4096, 2 ** 20, 1000, "a"].map(shortNumber)).toEqual([
    "512",
    "4k",
    "1M",
    "1,000",
    "a",
  ]);
  expect(hasConstantRatio([256, 512, 1024])).toBe(true);
  expect(hasConstantRatio([256, 512, 768])).toBe(false);
});
