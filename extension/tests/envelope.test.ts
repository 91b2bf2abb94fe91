// @vitest-environment node
import { expect, test } from "vitest";
import {
  bundleOf,
  isBesideNotebook,
  openEnvelope,
  openFile,
  unpack,
  urlOfPath,
} from "../src/envelope";
import { readAtMost, unzipAtMost } from "../src/limits";
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

test("a trace file is read back; what is none is an error of one sentence", async () => {
  const bundle = await openFile(base64(await packed({ traces: [addTrace()], show: ["tile"] })));
  expect(bundle.traces).toEqual([addTrace()]);
  const whole = await packed({ traces: [addTrace()] });
  const bad = [
    "bm8gdHJhY2U=",
    base64(whole.slice(0, 90)),
    "&&",
    base64(await packed({ traces: [] })),
  ];
  for (const text of bad) await expect(openFile(text)).rejects.toThrow(/holds no workbench trace/);
  await expect(openFile("\n")).rejects.toThrow(/is empty/);
});

test("a file beside the notebook must be the one that was saved", async () => {
  const bytes = await packed(addTrace());
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  const sha256 = Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("");
  const path = "n.traces/a.wbt";
  const open = (digest: string): Promise<unknown> =>
    openEnvelope({ v: 1, ref: { path, sha256: digest } }, async () => new Blob([bytes]).stream());
  expect(await open(sha256)).toEqual(bundleOf(addTrace()));
  await expect(open("0".repeat(64))).rejects.toThrow(/not the one/);
  await expect(openEnvelope({ v: 1, ref: { path } })).rejects.toThrow(/cannot be read here/);
  const unsigned = openEnvelope({ v: 1, ref: { path } }, async () => new Blob([bytes]).stream());
  await expect(unsigned).rejects.toThrow(/not the one/);
});

test.each([
  ["n.traces/a.wbt", true],
  ["a.wbt", true],
  ["../a.wbt", false],
  ["x/../../a.wbt", false],
  ["/etc/passwd", false],
  ["https://example.org/a.wbt", false],
  ["\\\\server\\a.wbt", false],
  ["", false],
  [["../a.wbt"], false],
])("the path %s is beside the notebook: %s", (path, beside) => {
  expect(isBesideNotebook(path)).toBe(beside);
});

test("a path that is decoded once more still does not climb", () => {
  expect(decodeURIComponent(urlOfPath("%2e%2e/a b.wbt"))).toBe("%2e%2e/a b.wbt");
  expect(urlOfPath("100%.traces/a?b#c.wbt")).toBe("100%25.traces/a%3Fb%23c.wbt");
});

test("a bomb is refused long before it is unpacked", async () => {
  const zeros = new Blob([new Uint8Array(10_000_000)]).stream();
  const bomb = new Response(zeros.pipeThrough(new CompressionStream("gzip")));
  const packed = new Uint8Array(await bomb.arrayBuffer());
  expect(packed.byteLength).toBeLessThan(20_000);
  await expect(unzipAtMost(packed, 1_000_000)).rejects.toThrow(/unpacked has more than 1 MB/);
  expect((await unzipAtMost(packed, 10_000_000)).length).toBe(10_000_000);
});

test("a file without end is refused", async () => {
  let pulled = 0;
  const endless = new ReadableStream<Uint8Array>({
    pull(controller) {
      pulled += 1;
      controller.enqueue(new Uint8Array(1_000));
    },
  });
  await expect(readAtMost(endless, 10_000)).rejects.toThrow(/trace file has more than/);
  expect(pulled).toBeLessThan(20);
});

const MANY = "\n".repeat(1_000_000);
const OPS = Array.from({ length: 1_000 }, (_, op) => op);

test.each<[string, unknown]>([
  ["traces", { traces: new Array(65).fill(addTrace()) }],
  ["stages", addTrace({ stages: new Array(65).fill(addTrace().stages[0]) })],
  ["rows", addTrace({ strings: [MANY + MANY + MANY] })],
  [
    "links",
    addTrace({
      strings: [MANY],
      stages: [{ id: "ptx", text: 0, lang: "ptx", rows: [[0, 1_000_000, OPS]] }],
    }),
  ],
])("a trace with too many %s is refused", (what, decoded) => {
  expect(() => bundleOf(decoded as ReturnType<typeof addTrace>)).toThrow(
    new RegExp(`more than .* ${what}`),
  );
});

test("gzip that ends early or is none is an error", async () => {
  const whole = new Uint8Array(await packed(addTrace()));
  await expect(unpack(whole.subarray(0, 50))).rejects.toThrow();
  await expect(unpack(new TextEncoder().encode("{}"))).rejects.toThrow();
  const inside = new Uint8Array(whole.length + 20);
  inside.set(whole, 10);
  expect(await unpack(new DataView(inside.buffer, 10, whole.length))).toEqual(bundleOf(addTrace()));
});
