// A real JupyterLab in headless Chromium: node tests/browser/lab.mjs OUT [NOTEBOOK]
//
// First a saved notebook with synthetic traces: shown by the extension without a kernel's help, keys
// that stay inside, axe. Then NOTEBOOK is run from top to bottom and its panes must link; the
// screenshot goes to SCREENSHOT, or into OUT. JUPYTER names the command. Waits on states, not time.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { axeViolations, collectErrors, launch, pinLatency } from "./browser.mjs";
import { checkTyping, typingNotebook } from "./typing.mjs";
import { envelope, makeAddTrace, makeToollessTrace, makeTrace } from "./synthetic.mjs";

const MIME = "application/vnd.workbench.trace+json";
const repository = fileURLToPath(new URL("../..", import.meta.url));
const [out, notebook] = [path.resolve(process.argv[2]), process.argv[3]];
mkdirSync(out, { recursive: true });
const root = mkdtempSync(path.join(tmpdir(), "workbench-lab-"));
const work = path.join(root, "work");
mkdirSync(work);
writeFileSync(path.join(work, "saved.ipynb"), JSON.stringify(savedNotebook()));
writeFileSync(path.join(work, "widget.ipynb"), JSON.stringify(widgetNotebook()));
writeFileSync(path.join(work, "asked.ipynb"), JSON.stringify(askedNotebook()));
writeFileSync(path.join(work, "typing.ipynb"), JSON.stringify(typingNotebook()));
writeFileSync(path.join(work, "trace.wbt"), Buffer.from(envelope([makeTrace()]).data, "base64"));
writeFileSync(path.join(work, "broken.wbt"), "no trace");
if (notebook) copyFileSync(notebook, path.join(work, path.basename(notebook)));

/** Outputs as `%%kernel` publishes them: the trace, and what any reader understands. */
function savedNotebook() {
  const cell = (source, ...traces) => ({
    cell_type: "code",
    id: `cell${traces[0].id.length}`,
    execution_count: 3,
    metadata: {},
    source: `%%kernel\n${source}`,
    outputs: [
      {
        output_type: "display_data",
        metadata: {},
        data: {
          [MIME]: envelope(traces),
          "text/html": "<p>static HTML</p>",
          "text/plain": "static text",
        },
      },
    ],
  });
  const kernelspec = { name: "python3", display_name: "Python 3", language: "python" };
  const add = makeAddTrace();
  const cells = [
    cell("def kernel(): ...", makeTrace()),
    cell(add.strings[add.sources[0].text], add, makeToollessTrace()),
  ];
  return { cells, metadata: { kernelspec }, nbformat: 4, nbformat_minor: 5 };
}

/** Two versions of a kernel, and what is asked of them: what differs, what became of it, step by step. */
function askedNotebook() {
  const code = (id, source) => ({ cell_type: "code", id, execution_count: null, metadata: {}, outputs: [], source });
  const kernel = (sum) =>
    [
      "%%kernel --args x,y,out,7 --grid 2 --set BLOCK=4 --target cpu",
      "def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):",
      "    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)",
      "    x = tl.load(x_ptr + offsets, mask=offsets < n)",
      "    y = tl.load(y_ptr + offsets, mask=offsets < n)",
      `    tl.store(out_ptr + offsets, ${sum}, mask=offsets < n)`,
    ].join("\n");
  const cells = [
    code("load", "%load_ext workbench\nimport torch\nx, y, out = torch.arange(7.0), torch.ones(7), torch.zeros(7)"),
    code("one", kernel("x + y")),
    code("two", kernel("x * y + x")),
    code("diff", "%diff add~1 add --labels sum,product"),
    code("follow", "%follow add 4"),
    code("step", "%step add 1"),
    code("whatif", "%whatif add --axis BLOCK=4,64 --axis warps=1,4 --target sm_80"),
  ];
  const kernelspec = { name: "python3", display_name: "Python 3", language: "python" };
  return { cells, metadata: { kernelspec }, nbformat: 4, nbformat_minor: 5 };
}

/** The anywidget host, as VS Code, Colab and marimo get it; the second cell keeps the kernel busy. */
function widgetNotebook() {
  const code = (id, ...lines) => ({
    cell_type: "code",
    id,
    execution_count: null,
    metadata: {},
    outputs: [],
    source: lines.join("\n"),
  });
  const kernelspec = { name: "python3", display_name: "Python 3", language: "python" };
  const cells = [
    code(
      "show",
      "import time",
      "from pathlib import Path",
      "from IPython.display import display",
      "from workbench.trace import unpack",
      "from workbench.viewer.widget import TraceWidget",
      "widget = TraceWidget(unpack(Path('trace.wbt').read_bytes()))",
      "display(widget)",
    ),
    code("busy", "while not Path('go').exists():", "    time.sleep(0.05)"),
    code("again", "display(TraceWidget(unpack(Path('trace.wbt').read_bytes())))"),
  ];
  return { cells, metadata: { kernelspec }, nbformat: 4, nbformat_minor: 5 };
}

/** The extension as it is built in this tree, ahead of an installed one. */
function extensionPath() {
  const scope = path.join(root, "jupyter", "labextensions", "@workbench");
  mkdirSync(scope, { recursive: true });
  symlinkSync(path.join(repository, "workbench", "labextension"), path.join(scope, "jupyterlab"));
  return path.join(root, "jupyter");
}

/** No question about news over the screenshots. */
function quietSettings() {
  const folder = path.join(root, "settings", "@jupyterlab", "apputils-extension");
  mkdirSync(folder, { recursive: true });
  const file = path.join(folder, "notification.jupyterlab-settings");
  writeFileSync(file, JSON.stringify({ fetchNews: "false", checkForUpdates: false }));
  return path.join(root, "settings");
}

const port = await new Promise((done) => {
  const probe = createServer().listen(0, "127.0.0.1", () => {
    const { port: free } = probe.address();
    probe.close(() => done(free));
  });
});
const base = `http://127.0.0.1:${port}`;
const options = [
  "lab",
  "--no-browser",
  "--ip=127.0.0.1",
  `--port=${port}`,
  `--ServerApp.root_dir=${work}`,
  "--IdentityProvider.token=", // no login: loopback and a throw-away server only
  "--LabApp.expose_app_in_browser=True", // gives tests window.jupyterapp
  "--JupyterNotebookApp.expose_app_in_browser=True",
];
if (process.getuid?.() === 0) options.push("--allow-root");
const server = spawn(process.env.JUPYTER || "jupyter", options, {
  stdio: ["ignore", "ignore", "pipe"],
  env: {
    ...process.env,
    JUPYTER_PATH: [extensionPath(), process.env.JUPYTER_PATH].filter(Boolean).join(path.delimiter),
    JUPYTER_CONFIG_DIR: path.join(root, "config"),
    JUPYTERLAB_SETTINGS_DIR: quietSettings(),
    JUPYTERLAB_WORKSPACES_DIR: path.join(root, "workspaces"),
    PYTHONPATH: [repository, process.env.PYTHONPATH].filter(Boolean).join(path.delimiter),
  },
});
let log = "";
server.stderr.on("data", (chunk) => {
  log += chunk;
});

/** The notebook is the current widget, its file is read, its session ready. The indicator's "idle"
 * is not enough: it can be there before sessionContext.isReady, and a run then has no effect. */
const idle = (page, name, timeout = 60_000) =>
  page.waitForFunction(
    (file) => {
      const panel = window.jupyterapp?.shell.currentWidget;
      return (
        panel?.context?.path === file &&
        panel.context.isReady &&
        panel.sessionContext.isReady &&
        panel.sessionContext.session?.kernel?.status === "idle"
      );
    },
    name,
    { timeout },
  );

const painted = (page, count, timeout = 60_000) =>
  page.waitForFunction(
    (n) => document.querySelectorAll('[data-ready="1"] > .wb').length >= n,
    count,
    { timeout },
  );

async function open(context, name) {
  const page = await context.newPage();
  page.errors = collectErrors(page);
  await page.goto(`${base}/lab/tree/${name}?reset`, { waitUntil: "domcontentloaded" });
  await idle(page, name);
  await page.evaluate(() => window.jupyterapp.commands.execute("application:toggle-left-area"));
  return page;
}

/** The page of journeys that follow each other: JupyterLab takes seconds of a processor to load. */
let shared;

/** A notebook on the page that the journey before has left, as who works in one JupyterLab opens it. */
async function openNext(context, name) {
  if (shared === undefined) {
    shared = await open(context, name);
    return shared;
  }
  await shared.evaluate((file) => void window.jupyterapp.commands.execute("docmanager:open", { path: file }), name);
  await idle(shared, name);
  return shared;
}

/** Close what is open in JupyterLab, unsaved as it is: the next journey sees nothing of it. */
async function leave(page) {
  await page.evaluate(() => {
    for (const widget of [...window.jupyterapp.shell.widgets("main")]) widget.dispose();
  });
  await page.waitForFunction(() => document.querySelector(".wb, .jp-Notebook-cell") === null);
}

/** Rows marked by pins in each pane of one viewer. */
const marked = (viewer) =>
  viewer
    .locator(".wb-pane")
    .evaluateAll((panes) => panes.map((pane) => pane.querySelectorAll('[class*="wb-pin"]').length));

/** Errors in outputs of the current notebook's cells that are not meant to fail. */
const cellErrors = () =>
  window.jupyterapp.shell.currentWidget.content.model.sharedModel.cells
    .filter((cell) => !(cell.getMetadata("tags") ?? []).includes("raises-exception"))
    .flatMap((cell) => cell.outputs ?? [])
    .flatMap(({ output_type, ename, evalue }) =>
      output_type === "error" ? [`${ename}: ${evalue}`] : [],
    );

/** Every code cell of the current notebook has run, or one has failed and the rest will not. */
async function executed(page, timeout) {
  const finished = await page.waitForFunction(
    `(() => {
      const { cells } = window.jupyterapp.shell.currentWidget.content.model.sharedModel;
      const code = cells.filter((cell) => cell.cell_type === "code" && cell.getSource().trim());
      const all = code.every((cell) => cell.execution_count !== null);
      return all || (${cellErrors})().length > 0;
    })()`,
    null,
    { timeout },
  );
  await finished.dispose();
  assert.deepEqual(await page.evaluate(cellErrors), [], "the notebook runs without an error");
}

/** The saved notebook: our renderer ahead of text/html, links, keys that stay inside, axe. */
async function checkSaved(context) {
  const page = await openNext(context, "saved.ipynb");
  await painted(page, 2);
  const times = await page.$$eval("[data-ready]", (all) => all.map((e) => Math.round(e.dataset.ms)));
  console.log("saved: trace -> painted ms", times, "pin", JSON.stringify(await pinLatency(page)));

  const viewer = page.locator(".wb").first();
  await viewer.locator('.wb-scroller [data-row="17"]').first().click();
  const rows = await marked(viewer);
  assert.ok(rows.length >= 2 && rows.every((count) => count > 0), `every pane links: ${rows}`);
  const cells = () => page.locator(".jp-Notebook-cell").count();
  const before = await cells();
  for (const key of ["b", "d", "d", "a", "ArrowDown", "x"]) await page.keyboard.press(key);
  assert.equal(await cells(), before, "command mode saw no key");
  assert.match(await page.evaluate(() => document.activeElement.className), /wb-scroller/);
  assert.deepEqual(await axeViolations(page), []);
  await checkStale(page);
  await page.screenshot({ path: path.join(out, "lab_saved.png") });

  await page.evaluate(() =>
    window.jupyterapp.commands.execute("apputils:change-theme", { theme: "JupyterLab Dark" }),
  );
  await page.waitForFunction(() => document.body.dataset.jpThemeLight === "false");
  await page.waitForFunction(() => document.querySelector(".wb").style.colorScheme === "dark");
  assert.deepEqual(await axeViolations(page), [], "dark theme");
  await page.screenshot({ path: path.join(out, "lab_saved_dark.png") });
  await page.evaluate(() =>
    window.jupyterapp.commands.execute("apputils:change-theme", { theme: "JupyterLab Light" }),
  );
  await page.waitForFunction(() => document.querySelector(".wb").style.colorScheme === "light");
  assert.deepEqual(page.errors, []);
  await leave(page);
}

/** A cell whose text is not that of the trace says so; with its text it does not. */
async function checkStale(page) {
  const badge = (shown) =>
    page.waitForFunction((wanted) => !document.querySelector(".wb-stale").hidden === wanted, shown);
  await badge(true);
  const [trace] = [makeTrace()];
  const write = (text) =>
    page.evaluate(
      (source) => window.jupyterapp.shell.currentWidget.content.model.sharedModel.cells[0].setSource(source),
      text,
    );
  await write(`%%kernel --grid 3\n${trace.strings[0]}`);
  await badge(false);
  await write("%%kernel\ndef kernel(): ...");
  await badge(true);
}

/** `%diff`, `%follow` and `%step` where they are asked: Compare and both sliders, keys that stay inside. */
async function checkAsked(context) {
  const page = await openNext(context, "asked.ipynb");
  await page.evaluate(() => void window.jupyterapp.commands.execute("notebook:run-all-cells"));
  await executed(page, 120_000);
  await painted(page, 5);
  const viewers = page.locator('[data-ready="1"] > .wb');
  const [compare, follow, step] = [2, 3, 4].map((n) => viewers.nth(n));
  const chosen = (viewer) => viewer.locator('[role=tab][aria-selected="true"]').getAttribute("data-tab");
  assert.deepEqual(await Promise.all([compare, follow, step].map(chosen)), ["compare", "follow", "step"]);
  const times = await page.$$eval("[data-ready]", (all) => all.map((e) => Math.round(e.dataset.ms)));
  console.log("asked: painted ms", times);

  await pinnedOnBothSides(compare);
  await page.screenshot({ path: path.join(out, "lab_compare.png") });

  const cells = () => page.locator(".jp-Notebook-cell").count();
  const before = await cells();
  for (const viewer of [follow, step]) {
    await viewer.scrollIntoViewIfNeeded();
    const slider = viewer.locator(".wb-range");
    await slider.focus();
    const said = new Set();
    for (const key of ["Home", "ArrowRight", "ArrowRight", "End", "ArrowLeft", "b", "a"]) {
      await page.keyboard.press(key);
      said.add(await slider.getAttribute("aria-valuetext"));
    }
    assert.ok(said.size >= 4, `each step says what happened: ${[...said]}`);
    assert.equal(await cells(), before, "command mode saw no key");
    await page.screenshot({ path: path.join(out, `lab_${await chosen(viewer)}.png`) });
  }
  assert.deepEqual(await axeViolations(page), []);
  await checkMap(page);
  const saved = await page.evaluate(async () => {
    await window.jupyterapp.commands.execute("docmanager:save");
    const { cells: all } = window.jupyterapp.shell.currentWidget.content.model.sharedModel;
    return all.map((cell) => JSON.stringify(cell.outputs ?? []).length);
  });
  assert.ok(saved.every((size) => size < 400_000), `saved outputs: ${saved}`);
  assert.deepEqual(page.errors, []);
  await leave(page);
}

/** Compare has the labels that were asked for, and a line of the source is pinned on both sides. */
async function pinnedOnBothSides(compare) {
  await compare.scrollIntoViewIfNeeded();
  assert.match(await compare.locator(".wb-compare-head dl").textContent(), /^Asum.*Bproduct/);
  await compare.locator('.wb-toggle[data-stage="asm"]').click();
  await compare.locator("button.wb-share").first().click();
  const pinned = (side) =>
    compare.locator(`.wb-compare-rows .wb-pair > .wb-row:nth-child(${side}).wb-pin0`).count();
  assert.ok((await pinned(1)) > 0 && (await pinned(2)) > 0, "a line is pinned on both sides");
}

/** A square of a map opens Compare below it: the kernel compiles that square and the best one. */
async function checkMap(page) {
  const map = page.locator(".wb-sweep").last();
  await map.scrollIntoViewIfNeeded();
  const square = map.locator(".wb-square:not(.wb-best)").first();
  await square.click();
  const detail = map.locator(".wb-sweep-detail");
  if ((await detail.locator("code").count()) === 0) {
    console.log(`asked: nothing was compiled for the map: ${await detail.textContent()}`);
    return;
  }
  await page.waitForSelector('.wb-sweep-below[data-ready="1"] .wb-compare-numbers', { timeout: 60_000 });
  const below = page.locator(".wb-sweep-below .wb");
  assert.match(await below.locator(".wb-compare-head dl").textContent(), /^Aadd sm_80.*Badd sm_80/);
  assert.deepEqual(await axeViolations(page, ".wb-sweep"), []);
  assert.deepEqual(await axeViolations(page, ".wb-sweep-below"), []);
  await map.evaluate((element) => element.scrollIntoView({ block: "start" }));
  await page.screenshot({ path: path.join(out, "lab_whatif.png") });
}

/** Notebook 7, where it is installed, shows the same outputs through the same extension. */
async function checkNotebook7(context) {
  const url = `${base}/notebooks/saved.ipynb`;
  const reply = await fetch(url);
  if (!reply.ok) {
    console.log(`Notebook 7 is not installed here (${reply.status})`);
    return;
  }
  const page = await context.newPage();
  page.errors = collectErrors(page);
  await page.goto(url, { waitUntil: "domcontentloaded" });
  await painted(page, 2);
  await page.locator('.wb-scroller [data-row="17"]').first().click();
  const rows = await marked(page.locator(".wb").first());
  assert.ok(rows.length >= 2 && rows.every((count) => count > 0), `every pane links: ${rows}`);
  await page.locator(".wb").nth(1).locator('.wb-scroller [data-row="3"]').first().click();
  await page.locator(".cm-line.wb-typing-pin0").first().waitFor(); // the cell that it was made of
  await page.screenshot({ path: path.join(out, "notebook7.png") });
  // Served beside JupyterLab, Notebook 7 reports faults of its own plugins: only ours count.
  const errors = page.errors.filter((error) => /workbench|\bwb\b/i.test(error));
  assert.deepEqual(errors, []);
  await page.close();
  await checkDiffInNotebook7(context);
}

/** `%diff` run in Notebook 7, saved there, and opened again as a page that no kernel stands behind. */
async function checkDiffInNotebook7(context) {
  const name = "diff7.ipynb";
  const asked = askedNotebook();
  asked.cells = asked.cells.filter(({ id }) => ["load", "one", "two", "diff"].includes(id));
  writeFileSync(path.join(work, name), JSON.stringify(asked));
  const page = await context.newPage();
  page.errors = collectErrors(page);
  const compare = page.locator('[data-ready="1"] > .wb').nth(2);
  await page.goto(`${base}/notebooks/${name}`, { waitUntil: "domcontentloaded" });
  await idle(page, name);
  await page.evaluate(() => void window.jupyterapp.commands.execute("notebook:run-all-cells"));
  await executed(page, 120_000);
  await painted(page, 3);
  await pinnedOnBothSides(compare);
  const cells = () => page.locator(".jp-Notebook-cell").count();
  const before = await cells();
  for (const key of ["b", "d", "d", "a", "x"]) await page.keyboard.press(key);
  assert.equal(await cells(), before, "command mode saw no key");
  assert.deepEqual(await axeViolations(page, ".wb"), []);
  await page.screenshot({ path: path.join(out, "notebook7_diff.png") });
  await page.evaluate(async () => {
    await window.jupyterapp.commands.execute("docmanager:save");
    await window.jupyterapp.shell.currentWidget.sessionContext.shutdown();
  });
  await page.reload({ waitUntil: "domcontentloaded" });
  await painted(page, 3);
  await pinnedOnBothSides(compare);
  assert.deepEqual(page.errors.filter((error) => /workbench|\bwb\b/i.test(error)), []);
  await page.close();
}

/** The widget paints while the kernel is busy, leaves no payload in its state, survives a reload. */
async function checkWidget(context) {
  const name = "widget.ipynb";
  const page = await open(context, name);
  const run = () =>
    page.evaluate(() => void window.jupyterapp.commands.execute("notebook:run-all-cells"));
  await run();
  await painted(page, 1);
  // The kernel's status is no witness: ipykernel answers widgets beside the running cell.
  const busy = await page.evaluate(() => {
    const { cells } = window.jupyterapp.shell.currentWidget.content.model.sharedModel;
    return cells[1].execution_count === null;
  });
  assert.ok(busy, "painted before the kernel was free");
  writeFileSync(path.join(work, "go"), "");
  await painted(page, 2); // the second widget finds the bundle on the page
  await executed(page, 60_000);
  await page.locator('.wb-scroller [data-row="17"]').first().click();
  const rows = await marked(page.locator(".wb").first());
  assert.ok(rows.length >= 2 && rows.every((count) => count > 0), `every pane links: ${rows}`);
  const saved = await page.evaluate(async () => {
    await window.jupyterapp.commands.execute("docmanager:save");
    return JSON.stringify(window.jupyterapp.shell.currentWidget.content.model.toJSON()).length;
  });
  console.log("widget: saved notebook", saved, "characters");
  assert.ok(saved < 100_000, "the lasting state carries no payload");
  await page.goto(`${base}/lab/tree/${name}`, { waitUntil: "domcontentloaded" });
  await painted(page, 2); // both traits are empty now: the loader asks the kernel
  assert.deepEqual(page.errors, []);
  await page.close();
}

/** In each target of a viewer, a load in the source marks rows in every open pane. */
async function checkLinks(viewer, name) {
  await viewer.scrollIntoViewIfNeeded();
  await viewer.locator('[role=tab][data-tab="stages"]').click(); // a failed check opens its problems
  const targets = viewer.locator(".wb-targets button");
  for (let i = 0; i < Math.max(1, await targets.count()); i++) {
    if ((await targets.count()) > 0) await targets.nth(i).click();
    const source = viewer.locator('.wb-scroller[data-stage="source"] [data-row]');
    await source.filter({ hasText: "tl.load" }).first().click();
    const rows = await marked(viewer);
    assert.ok(rows.length >= 2 && rows.every((count) => count > 0), `every pane links: ${rows}`);
    console.log(`${name}: ${await viewer.locator(".wb-status").textContent()}`);
  }
}

/** A notebook run from top to bottom: every kernel cell shows a viewer whose panes link. */
async function checkNotebook(context, file) {
  const name = path.basename(file);
  const page = await openNext(context, name);
  const kernels = await page.evaluate(
    () =>
      window.jupyterapp.shell.currentWidget.content.model.sharedModel.cells.filter((cell) =>
        cell.getSource().startsWith("%%kernel"),
      ).length,
  );
  assert.ok(kernels > 0, `${name} has %%kernel cells`);
  await page.evaluate(() => void window.jupyterapp.commands.execute("notebook:run-all-cells"));
  await executed(page, 300_000);
  await painted(page, kernels);
  const viewers = page.locator('[data-ready="1"] > .wb');
  for (let i = 0; i < (await viewers.count()); i++) await checkLinks(viewers.nth(i), name);
  const viewer = viewers.last();
  if ((await viewer.locator(".wb-targets").count()) > 0) {
    await viewer.locator(".wb-targets button").first().click();
    const source = viewer.locator('.wb-scroller[data-stage="source"] [data-row]');
    await source.filter({ hasText: "tl.load" }).first().click();
  }
  const screenshot = process.env.SCREENSHOT || path.join(out, "lab_notebook.png");
  await viewer.evaluate((element) => element.closest(".jp-Cell").scrollIntoView({ block: "start" }));
  await page.screenshot({ path: screenshot });
  for (const tab of ["performance", "passes", "problems"]) {
    await viewer.locator(`[role=tab][data-tab="${tab}"]`).click();
    await page.screenshot({ path: path.join(out, `lab_notebook_${tab}.png`) });
  }
  assert.deepEqual(await axeViolations(page), []);
  assert.deepEqual(page.errors, []);
  await leave(page);
}

/** A trace file opens in a tab of its own, from the file browser too; what is none says so. */
async function checkFile(context) {
  const page = await context.newPage();
  page.errors = collectErrors(page);
  await page.goto(`${base}/lab/tree/trace.wbt?reset`, { waitUntil: "domcontentloaded" });
  await painted(page, 1);
  const shown = await page.evaluate(() => window.jupyterapp.shell.currentWidget.context.path);
  assert.equal(shown, "trace.wbt");
  const viewer = page.locator('[data-ready="1"] > .wb');
  await viewer.locator('.wb-scroller [data-row="17"]').first().click();
  const rows = await marked(viewer);
  assert.ok(rows.length >= 2 && rows.every((count) => count > 0), `every pane links: ${rows}`);
  const reach = await viewer.evaluate((element) => {
    const tab = element.closest(".jp-MimeDocument").getBoundingClientRect();
    const own = element.getBoundingClientRect();
    return { tab: [tab.width, tab.height], own: [own.width, own.height] };
  });
  assert.ok(reach.own[0] > 0.9 * reach.tab[0], `the viewer takes its tab: ${JSON.stringify(reach)}`);
  assert.deepEqual(await axeViolations(page), []);
  await page.screenshot({ path: path.join(out, "lab_file.png") });
  await page.evaluate(() => window.jupyterapp.commands.execute("docmanager:open", { path: "broken.wbt" }));
  await page.waitForFunction(() =>
    document.querySelector(".jp-MimeDocument [role=alert]")?.textContent.includes("no workbench trace"),
  );
  await page.screenshot({ path: path.join(out, "lab_file_broken.png") });
  assert.deepEqual(page.errors, []);
  await page.close();
}

let browser;
try {
  const start = Date.now();
  while (!(await fetch(`${base}/api`).then((reply) => reply.ok, () => false))) {
    assert.ok(server.exitCode === null && Date.now() - start < 180_000, log);
    await new Promise((done) => setTimeout(done, 100));
  }
  browser = await launch();
  // One context, as in a user's browser; what each page costs is the same with one of its own.
  const context = await browser.newContext({ viewport: { width: 1600, height: 1100 } });
  context.setDefaultTimeout(90_000); // other tests run beside
  const journeys = {
    file: () => checkFile(context),
    notebook7: () => checkNotebook7(context),
    widget: () => checkWidget(context),
    // All of these on one page.
    saved: () => checkSaved(context),
    asked: () => checkAsked(context),
    notebook: async () => notebook && checkNotebook(context, notebook),
    typing: async () => checkTyping(await openNext(context, "typing.ipynb"), out), // leaves it dark
  };
  for (const [name, journey] of Object.entries(journeys)) {
    const wanted = process.env.JOURNEY ?? name; // JOURNEY=typing runs that alone
    if (wanted === name) await journey();
  }
} catch (error) {
  for (const page of browser?.contexts().flatMap((context) => context.pages()) ?? []) {
    await page.screenshot({ path: path.join(out, "lab_failed.png") });
    console.error(page.url(), page.errors);
  }
  throw error;
} finally {
  await browser?.close();
  server.kill("SIGTERM"); // stops its kernels too
  if (server.exitCode === null) await new Promise((done) => server.once("exit", done));
  rmSync(root, { recursive: true, force: true });
}
