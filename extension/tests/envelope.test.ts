// @vitest-environment node
import { expect, test } from "vitest";
import { bundleOf, isBesideNotebook, openEnvelope } from "../src/envelope";
import { addTrace } from "./fixture";

async function packed(value: unknown): Promise<ArrayBuffer> {
  const stream = new Blob([JSON.stringify(value)])
    .stream()
    .pipeThrough(new CompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

function base64(bytes: ArrayBuffer): string {
  return btoa(String.fromCharCode(...new Uint8Array(bytes)));
}

test("several traces and what to show first", () => {
  const bundle = bundleOf({ traces: [addTrace(), addTrace()], show: ["ptx"] });
  expect(bundle.traces.length).toBe(2);
  expect(bundle.show).toEqual(["ptx"]);
  expect(bundleOf(addTrace()).traces.length).toBe(1);
});

test("a newer version is refused with a sentence", async () => {
  expect(() => bundleOf(addTrace({ version: 9 }))).toThrow(
    /version 9.*Update the workbench package/,
  );
  await expect(openEnvelope({ v: 9, enc: "gzip+base64", data: "" })).rejects.toThrow(/version 9/);
});

test("an output that holds only a summary says how to get more", async () => {
  await expect(openEnvelope({ v: 1 })).rejects.toThrow(/run the cell to see its stages/);
});

test("an unknown encoding is named", async () => {
  await expect(openEnvelope({ v: 1, enc: "zip", data: "" })).rejects.toThrow(/"zip"/);
});

test("an embedded trace is read back, with what was left out", async () => {
  const data = base64(await packed({ traces: [addTrace()], show: ["tile"] }));
  const summary = { trimmed: ["all pass texts"] };
  const bundle = await openEnvelope({ v: 1, enc: "gzip+base64", data, summary });
  expect(bundle.traces).toEqual([addTrace()]);
  expect(bundle.show).toEqual(["tile"]);
  expect(bundle.trimmed).toEqual(["all pass texts"]);
});

test("a file beside the notebook must be the one that was saved", async () => {
  const bytes = await packed(addTrace());
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  const sha256 = Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("");
  const path = "n.traces/a.wbt";
  const open = (digest: string): Promise<unknown> =>
    openEnvelope({ v: 1, ref: { path, sha256: digest } }, async () => bytes);
  expect(await open(sha256)).toEqual(bundleOf(addTrace()));
  await expect(open("0".repeat(64))).rejects.toThrow(/not the one/);
  await expect(openEnvelope({ v: 1, ref: { path } })).rejects.toThrow(/cannot be read here/);
});

test.each([
  ["n.traces/a.wbt", true],
  ["a.wbt", true],
  ["../a.wbt", false],
  ["x/../../a.wbt", false],
  ["/etc/passwd", false],
  ["https://example.org/a.wbt", false],
  ["\\\\server\\a.wbt", false],
])("the path %s is beside the notebook: %s", (path, beside) => {
  expect(isBesideNotebook(path)).toBe(beside);
});
