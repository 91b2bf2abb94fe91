// Shared by the browser checks: Debian's Chromium through playwright-core, axe, latencies.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

// The packages belong to the extension; this folder has none of its own.
export const require = createRequire(new URL("../../extension/package.json", import.meta.url));
const { chromium } = require("playwright-core");
const AXE = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

/** Start Chromium. */
export async function launch() {
  const executablePath =
    process.env.CHROMIUM || execFileSync("which", ["chromium"], { encoding: "utf8" }).trim();
  const args = [
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
  ];
  const browser = await chromium.launch({ executablePath, headless: true, args });
  const newContext = browser.newContext.bind(browser);
  browser.newContext = async (options) => {
    const context = await newContext(options);
    context.on("page", lookNowAndThen);
    return context;
  };
  return browser;
}

/** What a page is waited for is asked 20 times a second; by itself Playwright has a frame drawn to ask. */
function lookNowAndThen(page) {
  const wait = page.waitForFunction.bind(page);
  page.waitForFunction = (asked, value, options) => wait(asked, value, { polling: 50, ...options });
}

/** Page errors and console errors, as they come. */
export function collectErrors(page) {
  const errors = [];
  page.on("pageerror", (error) => errors.push(`page: ${error.message}`));
  page.on("console", (message) => {
    if (message.type() === "error") errors.push(`console: ${message.text().slice(0, 200)}`);
  });
  return errors;
}

const RULES = ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa"];

/** Kinds of elements that were judged: what axe said of one, it says of all. */
const judged = new Set();

/**
 * What axe objects to. A pane has hundreds of elements of few kinds, so one of each kind is judged,
 * whichever page it is on. A kind is what rules look at: the element's name, classes, colours,
 * attributes and roles, whether it has text, and the kind of what it is in; of the outermost element,
 * the colours that theme and host give it and the page.
 * `colours`: contrast alone, where all else was judged in the other theme.
 */
export async function axeViolations(page, within = ".wb", { colours = false } = {}) {
  if (!(await page.evaluate(() => "axe" in globalThis))) await page.evaluate(AXE);
  const runOnly = colours ? { type: "rule", values: ["color-contrast"] } : RULES;
  const { wrong, fresh } = await page.evaluate(
    async ([selector, asked, before]) => {
      const seen = new Set(before);
      const fresh = [];
      const kindOf = (element, above) => {
        const { color, background, opacity } = element.style;
        const values = [...element.attributes].map(({ name, value }) => {
          if (name === "style") return [color, background, opacity].join(" ");
          return /^(class|role|type|tabindex|aria-(?!label|value|controls|described|active))/.test(name)
            ? `${name}=${value}`
            : name;
        });
        const text = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
        return `${above} > ${element.tagName} ${values.sort().join(" ")}${text ? " says" : ""}`;
      };
      /** Mark what is all of known kinds, as much at once as can be; say whether `element` is. */
      const known = (element, above) => {
        if (!element.checkVisibility({ visibilityProperty: true })) return true; // judged when it is seen
        const kind = kindOf(element, above);
        const old = seen.has(kind);
        if (!old) {
          seen.add(kind);
          fresh.push(kind);
        }
        const parts = [...element.children].map((child) => [child, known(child, kind)]);
        if (old && parts.every(([, part]) => part)) return true;
        for (const [child, part] of parts) child.toggleAttribute("data-judged", part);
        return false;
      };
      const coloured = (element) => {
        const { color, backgroundColor } = getComputedStyle(element);
        return `${color} on ${backgroundColor}`;
      };
      const surroundings = (root) => `${coloured(document.body)}, ${coloured(root)}`;
      const all = [...document.querySelectorAll(selector)];
      const roots = all.filter((root) => !known(root, surroundings(root)));
      if (roots.length === 0) return { wrong: [], fresh };
      const { violations } = await globalThis.axe.run(
        { include: roots, exclude: [["[data-judged]"]] },
        { runOnly: asked, resultTypes: ["violations"] },
      );
      for (const element of document.querySelectorAll("[data-judged]")) element.removeAttribute("data-judged");
      const wrong = violations.map(({ id, nodes }) => {
        const [first] = nodes;
        return `${id} x${nodes.length}: ${first.html.slice(0, 120)} ${first.failureSummary.slice(0, 200)}`;
      });
      return { wrong, fresh };
    },
    [within, runOnly, [...judged]],
  );
  for (const kind of fresh) judged.add(kind);
  return wrong;
}

/** Median and worst, in ms. */
const spread = (all) => {
  const sorted = [...all].sort((a, b) => a - b);
  return [sorted[sorted.length >> 1], sorted.at(-1)].map((ms) => Number(ms.toFixed(1)));
};

/** Click each visible linked row of the first pane: ms in script, and ms until the second frame. */
export async function pinLatency(page) {
  const { script, paint } = await page.evaluate(async () => {
    const frames = () =>
      new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    const rows = document
      .querySelector(".wb .wb-scroller")
      .querySelectorAll("[data-row]:not(.wb-unattributed)");
    const [script, paint] = [[], []];
    for (const row of rows) {
      const start = performance.now();
      row.click();
      script.push(performance.now() - start);
      await frames();
      paint.push(performance.now() - start);
    }
    return { script, paint };
  });
  return { clicks: script.length, script: spread(script), paint: spread(paint) };
}

/** Keys and scrolling in the longest pane: ms of script per key, ms per frame. */
export async function motionLatency(page) {
  const { keys, scrolls, rows } = await page.evaluate(async () => {
    const scrollers = [...document.querySelectorAll(".wb-panes .wb-scroller")];
    const scroller = scrollers.reduce((a, b) => (a.scrollHeight >= b.scrollHeight ? a : b));
    const frame = () => new Promise((done) => requestAnimationFrame(done));
    const [keys, scrolls] = [[], []];
    for (let i = 0; i < 60; i++) {
      const start = performance.now();
      const key = i % 3 ? "ArrowDown" : "PageDown";
      scroller.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
      keys.push(performance.now() - start);
      await frame();
    }
    for (let top = 0; top < 100_000; top += 3_000) {
      const start = performance.now();
      scroller.scrollTop = top;
      await frame();
      scrolls.push(performance.now() - start);
    }
    return { keys, scrolls, rows: document.querySelectorAll("[data-row]").length };
  });
  return { key: spread(keys), scroll: spread(scrolls), rows };
}
