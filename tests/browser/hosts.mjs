// Colab's and VS Code's conditions, as far as they can be rebuilt: node tests/browser/hosts.mjs OUT
//
// | host    | what is imposed                                                                          |
// |---------|------------------------------------------------------------------------------------------|
// | colab   | a frame of another origin, sandboxed, for each cell; heights that must be announced;     |
// |         | a widget only where the output's metadata name its manager; html[theme=dark]             |
// | vscode  | one page for all outputs; theme by --vscode-* and the body's class; no Jupyter variables |
// | both    | no extension of ours, no request to anywhere but for anywidget itself                    |
//
// A real kernel stands behind the pages (bridge.py), anywidget's own module runs in them (widgets.mjs).
// The journey: compile, pin a line, tabs, a check, questions, Stop, and the saved notebook opened again
// without a kernel. It writes colab.ipynb and vscode.ipynb to OUT. HOST=colab runs one; KERNEL_PYTHON names the
// interpreter; LONG=1 looks at every tab there is in both themes. Waits on states, not time.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { axeViolations, collectErrors, launch } from "./browser.mjs";
import { manager } from "./widgets.mjs";

const WIDGET = "application/vnd.jupyter.widget-view+json";
const repository = fileURLToPath(new URL("../..", import.meta.url));
const out = path.resolve(process.argv[2]);
mkdirSync(out, { recursive: true });
const ANYWIDGET = "https://cdn.jsdelivr.net/npm/anywidget@0.11/dist/index.js";
const long = Boolean(process.env.LONG);
const anywidget = readFileSync(process.env.ANYWIDGET, "utf8");

/** A kernel, the models that it has opened, and the outputs of its cells. */
class Kernel {
  models = new Map(); // id -> {state, buffer_paths, buffers}, as they are now
  cells = [];
  asked = []; // what pages sent
  ended = false;
  #waiting;

  constructor(environment) {
    const python = process.env.PYTHON;
    this.#process = spawn(
      python,
      [path.join(repository, "tests/browser/bridge.py"), process.env.KERNEL_PYTHON || python],
      {
        stdio: ["pipe", "pipe", "ignore"],
        env: { ...process.env, VSCODE_PID: undefined, JPY_SESSION_NAME: undefined, ...environment },
      },
    );
    createInterface({ input: this.#process.stdout }).on("line", (line) => this.#receive(JSON.parse(line)));
    this.#process.once("exit", () => {
      this.ended = true;
      this.#waiting?.reject(new Error("the kernel ended"));
    });
  }
  #process;

  tell(message) {
    this.#process.stdin.write(`${JSON.stringify(message)}\n`);
  }

  /** Run a cell to its end; returns what is known of it, its outputs as a notebook has them. */
  async run(source) {
    this.cells.push({ source, outputs: [], shown: new Map() });
    const done = new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
    });
    this.tell({ execute: source });
    await done;
    await this.host.settled;
    return this.cells.at(-1);
  }

  send(id, data) {
    this.asked.push(data.content?.type);
    this.tell({ comm: { comm_id: id, data } });
  }

  #receive({ type, content, parent, buffers }) {
    const cell = this.cells.at(-1);
    if (type === "status" && content.execution_state === "idle" && parent === "execute_request") {
      this.#waiting.resolve();
    } else if (type === "comm_open" && content.target_name === "jupyter.widget") {
      this.models.set(content.comm_id, { buffer_paths: [], ...content.data, buffers });
    } else if (type === "comm_msg") {
      const { comm_id: id, data } = content;
      if (data.method === "update") this.#update(this.models.get(id), data, buffers);
      this.host.receive(id, data, buffers);
    } else if (["display_data", "execute_result", "stream", "error"].includes(type)) {
      const output = { output_type: type, ...content };
      const name = content.transient?.display_id;
      delete output.transient;
      if (name) cell.shown.set(name, cell.outputs.length);
      cell.outputs.push(output);
      this.host.show(this.cells.length - 1, cell.outputs.length - 1, output);
    } else if (type === "update_display_data") {
      const at = cell.shown.get(content.transient.display_id);
      Object.assign(cell.outputs[at], { data: content.data, metadata: content.metadata });
      this.host.show(this.cells.length - 1, at, cell.outputs[at]);
    }
  }

  #update(model, { state, buffer_paths: paths = [] }, buffers) {
    const kept = model.buffer_paths
      .map(([name], i) => [name, model.buffers[i]])
      .filter(([name]) => !(name in state) && !paths.some(([other]) => other === name));
    const all = [...kept, ...paths.map(([name], i) => [name, buffers[i]])];
    Object.assign(model, {
      state: { ...model.state, ...state },
      buffer_paths: all.map(([name]) => [name]),
      buffers: all.map(([, bytes]) => bytes),
    });
  }

  end() {
    this.#process.stdin.end();
  }
}

/** What is common to both: outputs in places, each with the richest of its forms that may be shown. */
class Host {
  settled = Promise.resolve(); // all that was to be shown is
  requests = [];

  constructor(browser, kernel, live) {
    Object.assign(this, { browser, kernel, live });
  }

  async open(theme, url) {
    this.theme = theme;
    this.page = await this.browser.newPage({ viewport: { width: 1400, height: 1000 } });
    this.page.setDefaultTimeout(40_000);
    this.errors = collectErrors(this.page);
    await this.page.exposeBinding("toKernel", (_source, id, data) => this.kernel.send(id, data));
    await this.page.route("**/*", (route) => {
      const asked = route.request().url();
      if (asked === ANYWIDGET) return route.fulfill({ contentType: "text/javascript", body: anywidget });
      const body = this.document(asked);
      if (body) return route.fulfill({ contentType: "text/html", body });
      this.requests.push(asked);
      return route.abort();
    });
    await this.page.goto(url);
  }

  /** The next thing to do, after what was to be shown before. */
  later(act) {
    this.settled = this.settled.then(act);
    this.settled.catch(() => undefined); // who awaits it is told
  }

  show(cell, at, output) {
    this.later(async () => {
      const frame = await this.frame(cell);
      const { data = {}, metadata = {} } = output;
      const model = this.kernel.models.get(data[WIDGET]?.model_id);
      const text = output.text ?? output.traceback?.join("\n") ?? data["text/plain"] ?? "";
      const widget = model && this.manages(metadata) ? { id: data[WIDGET].model_id, model } : undefined;
      const how = { live: this.live, plain: this.plain };
      await frame.evaluate(
        async ([place, widget, html, text, how]) => {
          let holder = document.getElementById(place);
          if (!holder) {
            holder = document.createElement("div");
            holder.id = place;
            (document.getElementById("container") ?? document.body).append(holder);
          }
          holder.replaceChildren();
          if (widget) await window.widgets.render(widget.id, widget.model, holder, how);
          else if (html) holder.innerHTML = html;
          else holder.textContent = text;
        },
        [`out-${cell}-${at}`, widget, data["text/html"], text, how],
      );
    });
  }

  receive(id, data, buffers) {
    this.later(async () => {
      for (const frame of this.page.frames()) {
        await frame.evaluate(
          ([id, data, buffers, plain]) => window.widgets?.receive(id, data, buffers, plain),
          [id, data, buffers, this.plain],
        );
      }
    });
  }

  async prepare(frame) {
    await frame.evaluate(manager);
    await frame.addScriptTag({ url: ANYWIDGET });
  }

  /** The viewer in the last output of a cell, painted. */
  async viewer(cell) {
    await this.settled;
    const frame = await this.frame(cell);
    const root = frame.locator(`[id^="out-${cell}-"] .wb`).last();
    await root.waitFor();
    await this.reveal(cell);
    await frame.waitForFunction(() => document.querySelector('[data-ready="1"]'));
    return root;
  }

  async texts() {
    const all = this.page.frames().map((frame) => frame.evaluate(() => document.body.innerText));
    return (await Promise.all(all)).join("\n");
  }
}

class Colab extends Host {
  plain = true;
  setup = readFileSync(new URL("colab.py", import.meta.url), "utf8");
  #frames = new Map();

  document(url) {
    if (url.startsWith("https://colab.research.google.com/")) {
      const colour = this.theme === "dark" ? "#383838" : "#ffffff";
      return `<!doctype html><title>Colab</title><body style="background:${colour};margin:0">`;
    }
    if (!/^https:\/\/\w+-0-colab\.googleusercontent\.com\/outputframe\.html$/.test(url)) return undefined;
    return `<!doctype html><html lang="en" theme="${this.theme}"><title>Output</title><style>
      body { margin: 0; font-family: Roboto, sans-serif } html[theme=dark] { color: #e3e3e3 }</style><body>`;
  }

  open(theme) {
    return super.open(theme, "https://colab.research.google.com/drive/notebook");
  }

  /** Frames out of sight paint nothing. */
  reveal(cell) {
    return this.page.evaluate((id) => document.getElementById(id).scrollIntoView(), `frame-${cell}`);
  }

  manages(metadata) {
    return Boolean(metadata[WIDGET]?.colab?.custom_widget_manager?.url);
  }

  async frame(cell) {
    if (this.#frames.has(cell)) return this.#frames.get(cell);
    const url = `https://cell${cell}-0-colab.googleusercontent.com/outputframe.html`;
    const sandbox = "allow-downloads allow-forms allow-pointer-lock allow-popups allow-same-origin allow-scripts";
    await this.page.evaluate(
      ([url, sandbox, cell]) => {
        const frame = document.createElement("iframe");
        Object.assign(frame, { id: `frame-${cell}`, title: `cell ${cell}`, src: url });
        frame.setAttribute("sandbox", sandbox);
        frame.style.cssText = "width:100%;height:40px;border:0;display:block";
        window.addEventListener("message", ({ source, data }) => {
          if (source === frame.contentWindow) frame.style.height = `${Math.min(1000, data.height)}px`;
        });
        document.body.append(frame);
        return new Promise((done) => frame.addEventListener("load", done));
      },
      [url, sandbox, cell],
    );
    const frame = this.page.frames().find((one) => one.url() === url);
    await frame.evaluate(() => {
      const resizeIframeToContent = () =>
        parent.postMessage({ height: document.body.getBoundingClientRect().height }, "*");
      window.google = { colab: { output: { resizeIframeToContent } } };
    });
    await this.prepare(frame);
    this.#frames.set(cell, frame);
    return frame;
  }

  async setTheme(theme) {
    for (const frame of this.#frames.values()) {
      await frame.evaluate((name) => document.documentElement.setAttribute("theme", name), theme);
    }
  }

  /** Nothing of a viewer is cut off by its frame. */
  async checkHeight(cell) {
    await this.page.waitForFunction(
      async (id) => {
        const frame = document.getElementById(id);
        return frame.clientHeight > 300;
      },
      `frame-${cell}`,
    );
    const frame = await this.frame(cell);
    await frame.waitForFunction(() => document.querySelector(".wb").getBoundingClientRect().bottom <= innerHeight + 1);
  }
}

class VSCode extends Host {
  plain = false;
  setup = "__vsc_ipynb_file__ = '/home/user/notebook.ipynb'";
  #prepared;

  document(url) {
    if (!url.startsWith("https://webview.vscode-cdn.net/")) return undefined;
    return `<!doctype html><html lang="en"><head><title>Notebook</title></head>
      <body><div id="container"></div></body></html>`;
  }

  async open(theme) {
    await super.open(theme, "https://webview.vscode-cdn.net/index.html");
    await this.setTheme(theme);
    this.#prepared = this.prepare(this.page.mainFrame());
    await this.#prepared;
  }

  manages() {
    return true;
  }

  async frame() {
    return this.page.mainFrame();
  }

  /** The colours of Default Dark Modern, Default Light Modern and Dark High Contrast. */
  setTheme(theme) {
    const [kind, background, text] = {
      dark: ["vscode-dark", "#1f1f1f", "#cccccc"],
      light: ["vscode-light", "#ffffff", "#3b3b3b"],
      contrast: ["vscode-high-contrast", "#000000", "#ffffff"],
    }[theme];
    return this.page.evaluate(
      ([kind, background, text]) => {
        document.documentElement.style.cssText = `--vscode-editor-background:${background};
          --vscode-editor-foreground:${text}; --vscode-font-family:system-ui,"Ubuntu",sans-serif;
          --vscode-editor-font-family:"Droid Sans Mono", monospace`;
        document.body.className = kind;
        document.body.dataset.vscodeThemeKind = kind;
        document.body.style.background = background;
      },
      [kind, background, text],
    );
  }

  async checkHeight() {}

  async reveal() {}
}

const load = ["%load_ext workbench", "import numpy as np", "x = np.arange(7, dtype=np.float32)", "y, out = x * 2, x * 0"];
const kernel = (sum) =>
  [
    "%%kernel add --args x,y,out,7 --grid 2 --set BLOCK=4 --target cpu",
    "def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):",
    "    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)",
    "    x = tl.load(x_ptr + offsets, mask=offsets < n)",
    "    y = tl.load(y_ptr + offsets, mask=offsets < n)",
    `    tl.store(out_ptr + offsets, ${sum}, mask=offsets < n)`,
  ].join("\n");

/** Its pipelined loop brings the tabs Schedule and Layouts. */
const product = `%%kernel product --sig "*f16:16 *f16:16 *f32:16 i32:16" --target sm_80 --set num_stages=3
def product(a, b, c, K):
    i, j = tl.arange(0, 64)[:, None], tl.arange(0, 64)[None, :]
    total = tl.zeros((64, 64), tl.float32)
    for k in range(0, K, 64):
        total = tl.dot(tl.load(a + i * K + k + j), tl.load(b + (k + i) * 64 + j), total)
    tl.store(c + i * 64 + j, total)`;

const pause = (time) => new Promise((next) => setTimeout(next, time));

const failed = ({ outputs }) =>
  outputs.filter(({ output_type }) => output_type === "error").map(({ ename, evalue }) => `${ename}: ${evalue}`);

/** A line of the source marks rows in every pane. */
async function pin(viewer) {
  await viewer.locator('[role=tab][data-tab="stages"]').click();
  await viewer.locator('.wb-scroller[data-stage="source"] [data-row]').filter({ hasText: "tl.load" }).first().click();
  const rows = await viewer
    .locator(".wb-pane")
    .evaluateAll((panes) => panes.map((pane) => pane.querySelectorAll('[class*="wb-pin"]').length));
  assert.ok(rows.length >= 2 && rows.every((count) => count > 0), `every pane links: ${rows}`);
}

/** Each tab paints, is accessible, and keeps what is painted in sight. */
async function walkTabs(host, cell, name, axe) {
  const viewer = await host.viewer(cell);
  const frame = await host.frame(cell);
  const tabs = viewer.locator("[role=tab]");
  for (let i = 0; i < (await tabs.count()); i++) {
    await tabs.nth(i).click();
    const tab = await tabs.nth(i).getAttribute("data-tab");
    assert.ok((await viewer.locator("[role=tabpanel]:not([hidden])").innerText()).length > 10, `${name} ${tab} is filled`);
    await host.checkHeight(cell);
    if (axe) assert.deepEqual(await axeViolations(frame, `[id^="out-${cell}-"] .wb`), [], `${name} ${tab}`);
  }
}

async function inTheme(host, cell, theme, scheme) {
  await host.reveal(cell);
  await host.setTheme(theme);
  const frame = await host.frame(cell);
  await frame.waitForFunction((wanted) => document.querySelector(".wb").style.colorScheme === wanted, scheme);
}

async function bothThemes(host, cell, name) {
  for (const theme of ["light", "dark"]) {
    await inTheme(host, cell, theme, theme);
    await walkTabs(host, cell, `${name} ${theme}`, true);
  }
}

async function journey(name, Place) {
  const kernel_ = new Kernel(name === "colab" ? { COLAB: "1" } : {});
  const host = new Place(browser, kernel_, true);
  kernel_.host = host;
  await host.open("dark");
  const run = async (source) => {
    const cell = await kernel_.run(source);
    assert.deepEqual(failed(cell), [], source);
    return kernel_.cells.length - 1;
  };
  try {
    await run(host.setup);
    await run(load.join("\n"));
    const first = await run(kernel("x + y"));
    const viewer = await host.viewer(first);
    await pin(viewer);
    await inTheme(host, first, "dark", "dark");
    await walkTabs(host, first, `${name} dark`, name === "colab" || long);
    await host.page.screenshot({ path: path.join(out, `${name}_dark.png`) });

    const check = await run('%check add --check "x + y"');
    await pin(await host.viewer(check));
    assert.match(await (await host.viewer(check)).locator(".wb-facts").innerText(), /check\s+✓ ok/);
    const second = await run(kernel("x * y + x"));
    await pin(await host.viewer(second));
    for (const [question, tab] of [["%diff add~1 add", "compare"], ["%follow add 4", "follow"], ["%step add 1", "step"]]) {
      const asked = await run(question);
      const selected = (await host.viewer(asked)).locator('[role=tab][aria-selected="true"]');
      assert.equal(await selected.getAttribute("data-tab"), tab, question);
      if (long) await bothThemes(host, asked, `${name} ${tab}`);
    }
    assert.deepEqual([...new Set(kernel_.asked)], ["ack"], "no page had to ask for what it was to bring");

    if (long) {
      for (const each of [product, kernel("x + y").replace("--target cpu", "--target interpreter")]) {
        await bothThemes(host, await run(each), name);
      }
    }
    await inTheme(host, second, "light", "light");
    await walkTabs(host, second, `${name} light`, name === "vscode" || long);
    await host.page.screenshot({ path: path.join(out, `${name}_light.png`) });
    if (name === "vscode") {
      await inTheme(host, second, "contrast", "dark");
      await walkTabs(host, second, `${name} contrast`, long);
    }
    await stop(host, kernel_);
    await host.viewer(kernel_.cells.length - 1);
    const lasting = () => [...kernel_.models.values()].map(({ buffers }) => buffers.join("").length);
    for (let i = 0; i < 200 && Math.max(...lasting()) > 30_000; i++) await pause(50);
    assert.ok(Math.max(...lasting()) < 30_000, `the lasting state carries no payload: ${lasting()}`);
    const said = (await host.texts()).match(/JupyterLab and Notebook 7 do this/g) ?? [];
    assert.equal(said.length, 1, "what cannot be here is said once");
    assert.deepEqual(host.errors, []);
    assert.deepEqual(host.requests, []);
    await host.page.close();
    await reopen(name, Place, kernel_, first);
  } finally {
    kernel_.end();
  }
  return kernel_.cells;
}

/** Stop during a search: what was found stays, in the cell, without a traceback. */
async function stop(host, kernel_) {
  const searching = kernel_.run("%tune add --tune BLOCK=4,8,16,32,64");
  const table = () => kernel_.cells.at(-1).outputs.map(({ data }) => data?.["text/plain"]).join("\n");
  while (!/^ +\d+ +\d.*[^]*Stop \(interrupt/m.test(table())) await pause(20);
  kernel_.tell({ interrupt: true });
  const cell = await searching;
  const texts = cell.outputs.map(({ data, traceback }) => data?.["text/plain"] ?? traceback?.join("\n")).join("\n");
  assert.ok(!/Traceback|File "/.test(texts), texts);
  assert.match(texts, /best: --set BLOCK=\d+/);
}

/** The saved notebook without its kernel: the summary is there, and why there is no more. */
async function reopen(name, Place, kernel_, cell) {
  const host = new Place(browser, kernel_, false);
  await host.open("light");
  kernel_.cells[cell].outputs.forEach((output, at) => {
    host.show(cell, at, output);
  });
  await host.settled;
  const frame = await host.frame(cell);
  await frame.waitForFunction(() => /kernel does not answer/.test(document.body.innerText));
  for (const fact of [/add · cpu/, /shared\s+code\s+compile/, /Tile IR · \d+ rows/, /Assembly · \d+ rows/, /tl\.load/]) {
    assert.match(await host.texts(), fact);
  }
  await host.page.screenshot({ path: path.join(out, `${name}_saved.png`) });
  assert.deepEqual(host.errors, []);
  await host.page.close();
}

const browser = await launch();
try {
  const walked = Object.entries({ colab: Colab, vscode: VSCode }).map(async ([name, Place]) => {
    if ((process.env.HOST ?? name) !== name) return;
    const start = Date.now();
    const cells = await journey(name, Place);
    console.log(`${name}: ${cells.length} cells in ${Date.now() - start} ms`);
    const code = cells.map(({ source, outputs }, i) => ({
      cell_type: "code", id: `cell${i}`, execution_count: i + 1, metadata: {}, source,
      outputs: outputs.map((output) =>
        ["stream", "error"].includes(output.output_type) ? output : { metadata: {}, ...output },
      ),
    }));
    const notebook = { cells: code, metadata: {}, nbformat: 4, nbformat_minor: 5 };
    writeFileSync(path.join(out, `${name}.ipynb`), JSON.stringify(notebook));
  });
  await Promise.all(walked);
} catch (error) {
  for (const page of browser.contexts().flatMap((context) => context.pages())) {
    await page.screenshot({ path: path.join(out, "hosts_failed.png") }).catch(() => undefined);
  }
  throw error;
} finally {
  await browser.close();
}
