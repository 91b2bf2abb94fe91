// What a `%%kernel` cell tells while it is written, in a real JupyterLab: underlines before anything
// runs, hovers, completion, inspection, both ways between cell and panes, and a restarted kernel.
import assert from "node:assert/strict";
import path from "node:path";
import { axeViolations } from "./browser.mjs";

const KERNEL = [
  "%%kernel --args x,y,out,1000 --set BLOCK=256 --grid 4 --target cpu",
  "def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):",
  "    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)",
  "    mask = offs < n",
  "    x = tl.lod(x_ptr + offs, mask=mask)",
  "    y = tl.load(y_ptr + offs, mask=mask)",
  "    tl.store(out_ptr + offs, x + y, mask=mask)",
];
const PREPARE = [
  "import numpy as np",
  "%load_ext workbench",
  "x, y, out = (np.ones(1000, np.float32) for _ in range(3))",
];

/** A notebook with a cell that prepares, and one with a kernel that has an error. */
export function typingNotebook() {
  const code = (id, lines) => ({
    cell_type: "code",
    id,
    execution_count: null,
    metadata: {},
    outputs: [],
    source: lines.join("\n"),
  });
  const kernelspec = { name: "python3", display_name: "Python 3", language: "python" };
  const cells = [code("prepare", PREPARE), code("kernel", KERNEL)];
  return { cells, metadata: { kernelspec }, nbformat: 4, nbformat_minor: 5 };
}

const cell = (page, index) => page.locator(".jp-CodeCell").nth(index);
const underlined = (page) =>
  page.$$eval(".wb-typing-error", (all) => all.map((element) => element.textContent));

/** Put the cursor into the editor of a cell, behind the first `text` of it. */
async function goTo(page, index, text) {
  await page.evaluate(
    ([at, wanted]) => {
      const { content } = window.jupyterapp.shell.currentWidget;
      content.activeCellIndex = at;
      content.mode = "edit";
      const { editor } = content.widgets[at];
      editor.focus();
      const found = editor.model.sharedModel.getSource().indexOf(wanted) + wanted.length;
      editor.setCursorPosition(editor.getPositionAt(found));
    },
    [index, text],
  );
}

const run = async (page, index) => {
  await page.evaluate((at) => {
    window.jupyterapp.shell.currentWidget.content.activeCellIndex = at;
    return void window.jupyterapp.commands.execute("notebook:run-cell");
  }, index);
  await page.waitForFunction(
    (at) =>
      window.jupyterapp.shell.currentWidget.content.model.sharedModel.cells[at].execution_count !==
      null,
    index,
  );
};

/** Until the underlined texts are these. */
const underlines = (page, ...wanted) =>
  page.waitForFunction(
    (texts) =>
      JSON.stringify(
        [...document.querySelectorAll(".wb-typing-error")].map((element) => element.textContent),
      ) === texts,
    JSON.stringify(wanted),
    { timeout: 20_000 },
  );

/** Where the `text` of a line of the kernel cell stands on the screen. */
const placeOf = (page, line, text) =>
  page.evaluate(
    ([number, wanted]) => {
      const row = document.querySelectorAll(".jp-CodeCell")[1].querySelectorAll(".cm-line")[number];
      const walker = document.createTreeWalker(row, NodeFilter.SHOW_TEXT);
      for (let node = walker.nextNode(); node; node = walker.nextNode()) {
        const at = node.data.indexOf(wanted);
        if (at < 0) continue;
        const range = document.createRange();
        range.setStart(node, at);
        range.setEnd(node, at + wanted.length);
        const box = range.getBoundingClientRect();
        return { x: box.left + box.width / 2, y: box.top + box.height / 2 };
      }
      throw new Error(`line ${number} does not show ${wanted}`);
    },
    [line, text],
  );

/** Hover over the `text` of a line of the kernel cell, and return what the tooltip says. */
async function hoverOver(page, line, text) {
  const tooltip = page.locator(".wb-typing-tooltip");
  for (let patience = 1_000; patience < 40_000; patience *= 2) {
    await page.mouse.move(2, 2);
    await tooltip.waitFor({ state: "detached" });
    // A theme that has arrived moves lines; editors measure them when the window changes.
    await page.evaluate(() => window.dispatchEvent(new Event("resize")));
    const { x, y } = await placeOf(page, line, text);
    await page.mouse.move(x - 1, y);
    await page.mouse.move(x, y);
    const shown = tooltip.waitFor({ timeout: patience }).then(() => true, () => false);
    if (await shown) return tooltip.innerText();
  }
  throw new Error(`nothing is told of ${text}`);
}

/** The journey; `page` shows the notebook, its kernel idle. */
export async function checkTyping(page, out) {
  await goTo(page, 1, "tl.lod");
  await run(page, 0);
  await goTo(page, 1, "tl.lod");
  await underlines(page, "tl.lod"); // nothing of the cell has run
  assert.match(await hoverOver(page, 4, "lod"), /error K203: 'tl' has no function 'lod'[^]*tl\.load/);
  await page.screenshot({ path: path.join(out, "typing_error.png") });
  assert.match(await hoverOver(page, 3, "offs"), /^offs: int32 of shape \(256,\)/);
  assert.match(await hoverOver(page, 5, "load"), /^load\(pointer, mask=None[^]*Return what the pointers point at/);
  await page.screenshot({ path: path.join(out, "typing_hover.png") });
  await page.evaluate(() =>
    window.jupyterapp.commands.execute("apputils:change-theme", { theme: "JupyterLab Dark" }),
  );
  await page.waitForFunction(() => document.body.dataset.jpThemeLight === "false");
  assert.match(await hoverOver(page, 5, "y_ptr"), /^y_ptr: pointer<fp32>/);
  assert.deepEqual(await axeViolations(page, ".wb-typing-tooltip"), []);
  await hoverOver(page, 4, "lod");
  await page.screenshot({ path: path.join(out, "typing_dark.png") });

  // Mended by typing; the completer offers the language alone.
  await goTo(page, 1, "tl.lod");
  await page.keyboard.press("Backspace");
  await page.keyboard.press("Backspace");
  await page.keyboard.press("Tab");
  const first = page.locator(".jp-Completer-item").first();
  await first.waitFor();
  assert.match(await first.innerText(), /\bload\b/);
  await page.keyboard.press("Enter");
  await underlines(page);

  // Both ways between the cell and its panes.
  await run(page, 1);
  await page.locator('[data-ready="1"] > .wb').waitFor();
  await goTo(page, 1, "    y = ");
  const hot = '.wb-scroller:not([data-stage="source"]) [class*="wb-hover"]';
  await page.locator(hot).first().waitFor();
  await page.locator('.wb-scroller[data-stage="source"] [data-row="4"]').first().click();
  const pinned = page.locator(".cm-line.wb-typing-pin0");
  await pinned.waitFor();
  assert.match(await pinned.first().innerText(), /y = tl\.load/);
  await page.screenshot({ path: path.join(out, "typing_panes.png") });

  // A text above the kernel moves it; a change inside parts the cell from its panes.
  await goTo(page, 1, "--target cpu");
  await page.keyboard.press("Enter");
  await page.locator('.wb-scroller[data-stage="source"] [data-row="1"]').first().click();
  assert.match(await pinned.first().innerText(), /offs = tl\.program_id/);

  // What inspection says of a name of the kernel, in every front end.
  await goTo(page, 1, "mask = off");
  await page.keyboard.press("Shift+Tab");
  const tip = page.locator(".jp-Tooltip");
  await tip.waitFor();
  assert.match(await tip.innerText(), /offs: int32 of shape \(256,\)/);
  await page.keyboard.press("Escape");

  // Another kernel: nothing is known until the magics are there again, and nothing fails.
  await page.evaluate(() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart());
  await goTo(page, 1, "y = tl.load");
  await page.keyboard.type("x");
  await page.waitForFunction(
    () => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.status === "idle",
  );
  assert.deepEqual(await underlined(page), []);
  await run(page, 0);
  await underlines(page, "tl.loadx");
  assert.deepEqual(page.errors, []);
  await page.close();
}
