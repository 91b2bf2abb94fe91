// What readers without any script see (GitHub, nbconvert, an untrusted notebook): node static.mjs OUT PAGE…
// Scripting is off and nothing may be fetched; what is folded opens, pictures load, columns agree.
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import path from "node:path";
import { launch } from "./browser.mjs";

const [out, ...files] = process.argv.slice(2).map((name) => path.resolve(name));
mkdirSync(out, { recursive: true });
const browser = await launch();
try {
  for (const file of files) {
    const context = await browser.newContext({ javaScriptEnabled: false, viewport: { width: 1000, height: 900 } });
    const page = await context.newPage();
    const requests = [];
    await page.route(/^https?:/, (route) => {
      requests.push(route.request().url());
      return route.abort();
    });
    await page.goto(`file://${file}`);
    const folded = page.locator("details:not([open]) > summary");
    while ((await folded.count()) > 0) await folded.first().click();
    const seen = await page.evaluate(() => ({
      folded: document.querySelectorAll("details:not([open])").length,
      unfolded: document.querySelectorAll("details[open]").length,
      pictures: [...document.images].map((image) => image.naturalWidth),
      scripts: document.scripts.length,
      fonts: [...new Set([...document.querySelectorAll("pre")].map((pre) => getComputedStyle(pre).whiteSpace))],
      text: document.body.innerText,
    }));
    assert.equal(seen.folded, 0, "what is folded opens");
    assert.ok(seen.unfolded > 3 && seen.pictures.length > 0 && seen.pictures.every((width) => width > 100), JSON.stringify(seen));
    assert.deepEqual(seen.fonts, ["pre"], "columns stay");
    assert.deepEqual(requests, []);
    assert.equal(seen.scripts, 0);
    for (const fact of [/Python · /, /Tile IR · /, /SASS · |Assembly · /, /Passes · /, /check ok/, /(GB|FLOP)\/s/]) {
      assert.match(seen.text, fact, path.basename(file));
    }
    await page.screenshot({ path: path.join(out, `${path.basename(file, ".html")}.png`) });
    await context.close();
  }
} finally {
  await browser.close();
}
