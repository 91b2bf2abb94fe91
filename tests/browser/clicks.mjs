// What a click costs beside 20,000 rows: node tests/browser/clicks.mjs [ROWS]
// Milliseconds until the second frame, and processor time by Chromium's tracing, which a busy machine
// changes less. Nothing is asserted: page.mjs counts what made it slow.
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { launch, pinLatency } from "./browser.mjs";
import { makePage, makeTrace } from "./synthetic.mjs";

const rows = Number(process.argv[2] ?? 20_000);
const bundle = readFileSync(new URL("../../workbench/viewer/static/viewer.js", import.meta.url), "utf8");
const file = path.join(mkdtempSync(path.join(tmpdir(), "clicks-")), "page.html");
writeFileSync(file, makePage(bundle, [makeTrace({ sassRows: rows })]));

/** Processor time of events by name, in ms. */
async function traced(page, work) {
  const session = await page.context().newCDPSession(page);
  const events = [];
  session.on("Tracing.dataCollected", ({ value }) => events.push(...value));
  await session.send("Tracing.start", { categories: "devtools.timeline,cc,blink,toplevel" });
  const result = await work();
  const over = new Promise((done) => session.once("Tracing.tracingComplete", done));
  await session.send("Tracing.end");
  await over;
  const spent = (name) =>
    events.reduce((sum, event) => sum + (event.ph === "X" && event.name === name ? event.tdur ?? 0 : 0), 0) / 1000;
  return { result, spent };
}

const browser = await launch();
for (let round = 0; round < 3; round++) {
  const page = await browser.newPage({ viewport: { width: 1300, height: 720 } });
  await page.goto(`file://${file}`);
  await page.waitForSelector('[data-ready="1"]');
  const timed = await pinLatency(page);
  const { result, spent } = await traced(page, () => pinLatency(page));
  const each = (name) => Number((spent(name) / result.clicks).toFixed(1));
  const processor = { main: each("ProxyMain::BeginMainFrame"), script: each("EventDispatch"), raster: each("RasterTask") };
  console.log(JSON.stringify({ rows, ...timed, processor }));
  await page.close();
}
await browser.close();
