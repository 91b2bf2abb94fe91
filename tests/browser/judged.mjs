// What axeViolations leaves out is what it has judged: node tests/browser/judged.mjs
import assert from "node:assert/strict";
import { axeViolations, launch } from "./browser.mjs";

const browser = await launch();
try {
  const page = await browser.newPage();
  await page.setContent(
    '<body style="background: #fff"><div class="wb" style="color: #000; background: #fff">' +
      '<p class="text">said</p><p class="hidden" hidden style="color: #eee">said</p><button>go</button></div>',
  );
  const found = async (change) => {
    await page.evaluate(change);
    return (await axeViolations(page)).map((one) => one.split(" ")[0]);
  };
  assert.deepEqual(await found(() => {}), []);
  const faint = '<p class="text" style="color: #ddd">faint</p>';
  assert.deepEqual(await found(`document.querySelector(".wb").insertAdjacentHTML("beforeend", '${faint}')`), ["color-contrast"]);
  assert.deepEqual(await found(() => document.querySelector(".wb").lastChild.remove()), []);
  assert.deepEqual(await found(() => document.querySelector(".hidden").toggleAttribute("hidden")), ["color-contrast"]);
  assert.deepEqual(await found(() => document.querySelector(".hidden").remove()), []);
  assert.deepEqual(await found(() => document.querySelector("button").replaceChildren()), ["button-name"]);
  await page.evaluate(() => document.querySelector("button").remove());
  const dark = () => document.querySelector(".wb").style.setProperty("background", "#111");
  assert.deepEqual(await found(dark), ["color-contrast"]);
} finally {
  await browser.close();
}
