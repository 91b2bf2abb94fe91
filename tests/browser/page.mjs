// One-file pages, offline, in both themes: node tests/browser/page.mjs OUT
// It checks synthetic traces of large sizes, and each exported page named after OUT. SHOTS=1 keeps
// pictures in OUT: taking them costs as much as all that is asserted.
import assert from "node:assert/strict";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { axeViolations, collectErrors, launch, motionLatency, pinLatency } from "./browser.mjs";
import { makeAddTrace, makePage, makeToollessTrace, makeTrace, makeWideTrace } from "./synthetic.mjs";

const out = path.resolve(process.argv[2]);
mkdirSync(out, { recursive: true });
const bundle = readFileSync(new URL("../../workbench/viewer/static/viewer.js", import.meta.url), "utf8");
writeFileSync(path.join(out, "large.html"), makePage(bundle, [makeTrace({ sassRows: 20_000 })]));
writeFileSync(path.join(out, "two.html"), makePage(bundle, [makeAddTrace(), makeToollessTrace()]));
writeFileSync(path.join(out, "wide.html"), makePage(bundle, [makeWideTrace()]));

/** Tabs that only pages of an answer have, in front. */
const ANSWERS = new Set(["compare", "follow", "step"]);

const shot = async (page, name) => {
  if (process.env.SHOTS) await page.screenshot({ path: path.join(out, `${name}.png`) });
};

/** axe on the page as it stands: all of it in the light, and what another theme changes in the dark. */
async function judge(page, what) {
  assert.deepEqual(await axeViolations(page, ".wb", { colours: page.dark }), [], what);
}

/** Open a page with every request but its own file refused. */
async function open(browser, file, colorScheme) {
  const page = await browser.newPage({
    viewport: { width: 1300, height: 720 },
    colorScheme,
    reducedMotion: "reduce",
  });
  page.dark = colorScheme === "dark";
  page.errors = collectErrors(page);
  page.requests = [];
  await page.addInitScript(() => {
    globalThis.injected = 0; // what a hostile text would do
    globalThis.alert = () => {
      globalThis.injected += 1;
    };
  });
  await page.route("**/*", (route) => {
    if (/^(file|blob|data):/.test(route.request().url())) return route.continue();
    page.requests.push(route.request().url());
    return route.abort();
  });
  await page.goto(`file://${file}`);
  await page.waitForSelector('[data-ready="1"]');
  return page;
}

/** Every tab paints. Pages of an answer have those of any trace behind their own: that one is judged. */
async function checkTabs(page, name) {
  const tabs = await page.locator("[role=tab]").evaluateAll((all) => all.map((tab) => tab.dataset.tab));
  const judged = ANSWERS.has(tabs[0]) ? tabs.slice(0, 1) : tabs;
  for (const tab of tabs) {
    await page.click(`[role=tab][data-tab="${tab}"]`);
    await page.waitForSelector(`[role=tab][data-tab="${tab}"][aria-selected="true"]`);
    if (judged.includes(tab)) await judge(page, `${name} ${tab}`);
    await shot(page, `${name}_${tab}`);
  }
  return tabs;
}

async function closeClean(page) {
  assert.deepEqual(page.requests, []);
  assert.equal(await page.evaluate(() => globalThis.injected), 0, "no text ran");
  assert.deepEqual(page.errors, []);
  await page.close();
}

async function checkLarge(browser, colorScheme) {
  const page = await open(browser, path.join(out, "large.html"), colorScheme);
  const painted = await page.evaluate(() => Number(document.querySelector("[data-ready]").dataset.ms));
  await checkSelecting(page);
  await page.click('.wb-scroller [data-row="17"]'); // x = tl.load(...): axe then judges pinned rows too
  const marked = await page
    .locator(".wb-pane")
    .evaluateAll((panes) => panes.map((pane) => pane.querySelectorAll(".wb-pin0, .wb-pin0-kin").length));
  assert.equal(marked.length, 3);
  assert.ok(marked.every((rows) => rows > 0), `every pane shows a marked row: ${marked}`);
  assert.match(await page.textContent(".wb-status"), /^Pinned Python line 18: 1 op → .*SASS rows/);
  await page.keyboard.down("Control");
  await page.click('.wb-scroller [data-row="19"]');
  await page.keyboard.up("Control");
  assert.equal(await page.locator(".wb-pane").first().locator(".wb-pin1").count(), 1);
  const tabs = await checkTabs(page, `large_${colorScheme}`);
  assert.deepEqual(tabs, ["stages", "passes", "performance", "problems"]);

  await page.click('[role=tab][data-tab="passes"]');
  await page.keyboard.press("d");
  await shot(page, `large_${colorScheme}_side`);
  await checkHalves(page);
  await judge(page, `${colorScheme} side by side`);
  await page.keyboard.press("?");
  await judge(page, `${colorScheme} key list`);
  await shot(page, `large_${colorScheme}_keys`);
  await page.keyboard.press("Escape");

  await page.click('[role=tab][data-tab="stages"]');
  console.log(colorScheme, JSON.stringify({ painted: Math.round(painted) }));
  if (!page.dark) {
    // How fast it is, no theme changes.
    const metrics = await countLayouts(page);
    const pin = await pinLatency(page);
    const layouts = (await metrics()) / pin.clicks;
    const motion = await motionLatency(page);
    console.log(JSON.stringify({ pin, layouts, motion }));
    assert.ok(pin.clicks > 10);
    // What made a click slow: a layout for each pane that scrolls, gradients over rows without a mark.
    assert.ok(layouts <= 2, `${layouts} layouts a click`);
    const drawn = await page
      .locator(".wb-row:not([class*=wb-pin], [class*=wb-hover])")
      .first()
      .evaluate((row) => getComputedStyle(row).backgroundImage);
    assert.match(drawn, /^none(, none)*$/);
    assert.ok(motion.rows < 300, `${motion.rows} rows exist; only visible ones may`);
  }
  await closeClean(page);
}

/** Start counting the page's layouts; returns what says how many there were. */
async function countLayouts(page) {
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable");
  const count = async () => {
    const { metrics } = await session.send("Performance.getMetrics");
    return metrics.find(({ name }) => name === "LayoutCount").value;
  };
  const before = await count();
  return async () => (await count()) - before;
}

/** Side by side, both halves can be seen, and the scroll bar moves the texts of both. */
async function checkHalves(page) {
  const look = () =>
    page.evaluate(() => {
      const frame = document.querySelector(".wb-diff").getBoundingClientRect();
      const halves = [...document.querySelectorAll(".wb-pair")].flatMap((pair) => [...pair.children]);
      const boxes = halves.map((half) => half.getBoundingClientRect());
      const texts = halves.map((half) => half.querySelector(".wb-shifted")?.getBoundingClientRect().left);
      const inside = boxes.every(({ left, right }) => left >= frame.left - 1 && right <= frame.right + 1);
      return { count: boxes.length, inside, narrow: boxes.some(({ width }) => width < 100), texts };
    });
  const before = await look();
  assert.ok(before.count > 0 && before.inside && !before.narrow, JSON.stringify(before));
  const scroller = page.locator(".wb-halves");
  await page.setViewportSize({ width: 800, height: 720 });
  await scroller.evaluate((one) => one.scrollTo(60, one.scrollTop));
  await page.waitForFunction(() => document.querySelector(".wb-halves .wb-window").style.getPropertyValue("--wb-shift") === "-60px");
  const after = await look();
  assert.ok(after.inside, "the halves stay where they are");
  await page.setViewportSize({ width: 1300, height: 720 });
}

/** The mouse selects text, without the numbers of the rows, and pins nothing by it. */
async function checkSelecting(page) {
  const row = page.locator('.wb-scroller[data-stage="source"] [data-row="18"]');
  const box = await row.boundingBox();
  await page.mouse.move(box.x + 90, box.y + 9);
  await page.mouse.down();
  await page.mouse.move(box.x + 250, box.y + 27, { steps: 4 });
  await page.mouse.up();
  const text = await page.evaluate(() => getSelection().toString());
  assert.ok(text.length > 20 && !/^\s*\d+\s*$/m.test(text), `selected: ${JSON.stringify(text)}`);
  assert.match(await page.textContent(".wb-status"), /Point at a row/);
  await page.evaluate(() => getSelection().removeAllRanges());
}

/** Two traces in one viewer: the run on the CPU, and what a GPU would run. */
async function checkTwo(browser, colorScheme) {
  const page = await open(browser, path.join(out, "two.html"), colorScheme);
  const tabs = await checkTabs(page, `two_${colorScheme}`);
  assert.deepEqual(tabs, ["stages", "passes", "programs", "performance", "problems"]);
  await page.click('[role=tab][data-tab="stages"]');
  await page.click('.wb-targets button:text("sm_90a")');
  await page.click('.wb-toggle[data-stage="sass"]');
  assert.match(await page.textContent(".wb-note"), /pip install nvidia-cuda-nvdisasm/);
  assert.match(await page.textContent(".wb-badge:not([hidden])"), /not launched: no CUDA device/);
  await judge(page, `${colorScheme} missing tool`);
  await shot(page, `two_${colorScheme}_missing`);
  await closeClean(page);
}

/** Pictures of any size: a bounded number of elements in the page, and of spots on each canvas. */
async function checkPrograms(browser, colorScheme) {
  const page = await open(browser, path.join(out, "wide.html"), colorScheme);
  await page.click('[role=tab][data-tab="programs"]');
  const drawn = () => page.$$eval("canvas[data-spots]", (all) => all.map((c) => Number(c.dataset.spots)));
  await page.waitForFunction(() => document.querySelectorAll("canvas[data-spots]").length > 0);
  const last = page.locator(".wb-map").last();
  await last.scrollIntoViewIfNeeded();
  await page.waitForFunction(() => [...document.querySelectorAll(".wb-map canvas")].at(-1).dataset.spots);
  await last.evaluate((map) => map.scrollTo(1_000_000, 600));
  await last.focus();
  for (const key of ["ArrowRight", "ArrowDown"]) await page.keyboard.press(key);
  await page.waitForFunction(() => /program 1/.test([...document.querySelectorAll(".wb-map-words")].at(-1).textContent));
  const spots = await drawn();
  assert.ok(spots.every((count) => count > 0 && count < 800), `spots drawn: ${spots}`);
  const nodes = await page.locator(".wb-panel:not([hidden]) *").count();
  assert.ok(nodes < 200, `${nodes} elements`);
  await judge(page, `${colorScheme} programs`);
  await shot(page, `wide_${colorScheme}_scrolled`);
  await page.locator(".wb-scroll").evaluate((tab) => tab.scrollTo(0, 0));
  await shot(page, `wide_${colorScheme}_programs`);
  console.log(colorScheme, "programs", JSON.stringify({ nodes, spots }));
  await closeClean(page);
}

/** Two sides: a line of the numbers and a row pin on both, by mouse and by keyboard. */
async function checkCompared(page, name) {
  await page.click('[role=tab][data-tab="compare"]');
  await page.click('.wb-toggle[data-stage="ptx"]');
  const pinned = (side) => page.locator(`.wb-compare-rows .wb-pair > .wb-row:nth-child(${side}).wb-pin0`).count();
  await page.locator(".wb-compare-rows .wb-scroller").focus();
  await page.keyboard.press("n");
  await page.keyboard.press("Enter");
  assert.ok((await pinned(1)) > 0 && (await pinned(2)) > 0, `${name}: a row is pinned on both sides`);
  assert.match(await page.textContent(".wb-status"), /^Pinned on both sides: .* → A .* · B /);
  await judge(page, `${name} compared`);
  await shot(page, `${name}_compared`);
  await page.keyboard.press("Escape");
  assert.equal(await pinned(2), 0);
  await page.click(".wb-check input");
  assert.equal(await page.locator(".wb-compare-rows .wb-fold").count(), 0, "every row is shown");
}

/** Every step of a slider by the keyboard: each says its sentence, shows something and is accessible. */
async function checkSlider(page, name, tab) {
  await page.click(`[role=tab][data-tab="${tab}"]`);
  const slider = page.locator(".wb-range");
  await slider.focus();
  await page.keyboard.press("Home");
  const last = Number(await slider.getAttribute("max"));
  assert.ok(last > 2, `${name}: ${last + 1} steps`);
  const said = new Set();
  for (let step = 0; step <= last; step++) {
    if (step > 0) await page.keyboard.press("ArrowRight");
    assert.equal(await slider.inputValue(), String(step));
    const sentence = await slider.getAttribute("aria-valuetext");
    assert.equal(await page.textContent(".wb-sentence"), sentence);
    assert.ok(sentence.length > 5, sentence);
    said.add(sentence);
    if (step % 3 === 0 || step === last) {
      await judge(page, `${name} step ${step}`);
      await shot(page, `${name}_${tab}${step}`);
    }
  }
  assert.ok(said.size > 2, "steps say different things");
  assert.ok(await page.locator('.wb-slider button[title="one step on"]').isDisabled());
  await page.keyboard.press("ArrowLeft");
  assert.equal(await slider.inputValue(), String(last - 1));
}

/** A page that `%save` or `make demo` wrote: it paints, offline, and links. */
async function checkExported(browser, file, colorScheme) {
  const page = await open(browser, path.resolve(file), colorScheme);
  const name = `${path.basename(file, ".html")}_${colorScheme}`;
  const tabs = await checkTabs(page, name);
  if (tabs[0] === "compare") await checkCompared(page, name);
  if (tabs[0] === "follow" || tabs[0] === "step") await checkSlider(page, name, tabs[0]);
  await page.click('[role=tab][data-tab="stages"]');
  const linked = page.locator('.wb-scroller[data-stage="source"] [data-row]:not(.wb-unattributed)');
  await linked.last().click();
  assert.ok((await page.locator(".wb-pane").last().locator('[class*="wb-pin"]').count()) > 0, `${file} links`);
  await shot(page, `${name}_pinned`);
  await closeClean(page);
}

const browser = await launch();
try {
  for (const colorScheme of ["light", "dark"]) {
    await checkLarge(browser, colorScheme);
    await checkTwo(browser, colorScheme);
    await checkPrograms(browser, colorScheme);
    for (const file of process.argv.slice(3)) {
      // What a planted text does, and whether it can be read, no theme changes.
      if (colorScheme === "light" || !/hostile/.test(file)) await checkExported(browser, file, colorScheme);
    }
  }
} finally {
  await browser.close();
}
