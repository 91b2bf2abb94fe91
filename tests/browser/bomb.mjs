// A page whose trace is a megabyte that unpacks to a gigabyte: node tests/browser/bomb.mjs PAGE
// It must say so and never hold the page for long. What is checked is the work done, not the clock.
import assert from "node:assert/strict";
import path from "node:path";
import { launch } from "./browser.mjs";

const browser = await launch();
try {
  const page = await browser.newPage();
  await page.addInitScript(() => {
    globalThis.turns = 0; // how often the page had its turn meanwhile
    globalThis.longest = 0;
    let last = performance.now();
    setInterval(() => {
      const now = performance.now();
      globalThis.turns += 1;
      globalThis.longest = Math.max(globalThis.longest, now - last);
      last = now;
    }, 1);
  });
  await page.goto(`file://${path.resolve(process.argv[2])}`);
  const alert = page.locator("[role=alert]");
  await alert.waitFor();
  assert.match(await alert.textContent(), /unpacked has more than 128 MB; it is not shown/);
  const { turns, longest } = await page.evaluate(() => ({
    turns: globalThis.turns,
    longest: globalThis.longest,
  }));
  console.log(JSON.stringify({ turns, longest: Math.round(longest) }));
  assert.ok(turns >= 10, `the page had ${turns} turns`);
} finally {
  await browser.close();
}
