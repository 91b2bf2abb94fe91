import { beforeEach, expect, test, vi } from "vitest";
import { ASKED, type Asked, type Reply } from "../src/asked";
import { type AskedKernel, answerMaps } from "../src/lab/comparing";
import { mountSweep, shareOf } from "../src/sweep";
import type { Sweep } from "../src/trace";

const sweep = (changes: Partial<Sweep> = {}): Sweep => ({
  key: "k1",
  title: "add for sm_80",
  axes: ["BLOCK", "num_warps"],
  rows: ["64", "128"],
  columns: ["1", "4"],
  numbers: [
    { title: "predicted time", unit: "µs", less: true },
    { title: "occupancy", unit: "%", less: false },
  ],
  squares: [
    {
      values: "BLOCK=64 num_warps=1",
      words: ["4.8", "50"],
      numbers: [4.8, 50],
      compare: "%diff a b",
    },
    {
      values: "BLOCK=64 num_warps=4",
      words: ["2.4", "100"],
      numbers: [2.4, 100],
      compare: "%diff b a",
    },
    {
      values: "BLOCK=128 num_warps=1",
      words: ["✗", "✗"],
      numbers: [null, null],
      note: "does not fit",
    },
    {
      values: "BLOCK=128 num_warps=4",
      words: ["3.6", "100"],
      numbers: [3.6, 100],
      compare: "%diff c b",
    },
  ],
  best: 1,
  ...changes,
});

let host: HTMLElement;
let ended: AbortController;
beforeEach(() => {
  ended?.abort();
  ended = new AbortController();
  host = document.createElement("div");
  document.body.replaceChildren(host);
});
const show = (changes: Partial<Sweep> = {}): void => mountSweep(host, sweep(changes), ended.signal);
const squares = (): HTMLElement[] => [...host.querySelectorAll<HTMLElement>(".wb-square")];
const detail = (): string => host.querySelector(".wb-sweep-detail")!.textContent ?? "";

test("a map is a table of buttons that say what they stand for", () => {
  show();
  expect(squares().map((square) => square.textContent)).toEqual(["4.8", "2.4", "✗", "3.6"]);
  expect(squares()[1]!.getAttribute("aria-label")).toBe(
    "BLOCK=64 num_warps=4: predicted time 2.4 µs, the best",
  );
  host.querySelectorAll<HTMLElement>(".wb-toggle")[1]!.click();
  expect(squares()[0]!.textContent).toBe("50");
  expect(shareOf(sweep().squares, 0, 0)).toBe(1);
  expect(shareOf(sweep().squares, 0, 3)).toBeCloseTo(0.5);
  expect(shareOf(sweep().squares, 0, 2)).toBeUndefined();
});

test("a square asks with the map's key and its number, and nothing else", () => {
  show();
  const asked: Asked[] = [];
  const listen = (event: Event): void => {
    asked.push((event as CustomEvent<Asked>).detail);
    event.preventDefault();
  };
  document.addEventListener(ASKED, listen);
  squares()[3]!.click();
  document.removeEventListener(ASKED, listen);
  expect(asked.map(({ key, square }) => [key, square])).toEqual([["k1", 3]]);
  expect(squares()[3]!.getAttribute("aria-pressed")).toBe("true");
  expect(detail()).toContain("BLOCK=128 num_warps=4 predicted time 3.6 µs");
  expect(detail()).toContain("the kernel compiles both");
  asked[0]!.answered({ why: "run %whatif again" });
  expect(detail()).toContain("run %whatif again");
});

test("without a kernel there is the line to copy, for what failed the reason", () => {
  show();
  squares()[0]!.click();
  expect(detail()).toContain("%diff a b");
  expect(detail()).not.toContain("compiles");
  squares()[2]!.click();
  expect(detail()).toContain("does not fit");
  expect(host.querySelector(".wb-sweep-detail code")).toBeNull();
});

test("texts of a map are texts", () => {
  const payload = "<img src=x onerror=alert(1)>";
  show({
    title: payload,
    axes: [payload, payload],
    rows: [payload, payload],
    notes: [payload],
    squares: [
      {
        values: payload,
        words: [payload, payload],
        numbers: [1, 1],
        compare: payload,
        note: payload,
      },
    ],
  });
  squares()[0]!.click();
  expect(host.querySelector("img")).toBeNull();
  expect(host.textContent).toContain(payload);
});

test("a map without end is cut", () => {
  const endless = Array.from({ length: 20_000 }, (_, i) => String(i));
  show({ rows: endless, columns: endless });
  expect(host.querySelectorAll("td").length).toBeLessThanOrEqual(4_096);
});

/** A kernel whose comms are remembered. */
function fakeKernel() {
  const sent: Record<string, string | number>[] = [];
  const comm = {
    open: vi.fn(),
    send: (data: Record<string, string | number>) => void sent.push(data),
    onMsg: (_: { content: { data: unknown } }): unknown => undefined,
    onClose: (_: unknown): unknown => undefined,
  };
  const kernel: AskedKernel = { createComm: vi.fn(() => comm) };
  return { kernel, comm, sent };
}

test("questions go over one comm, answers to who asked", () => {
  const { kernel, comm, sent } = fakeKernel();
  const page = document.implementation.createHTMLDocument();
  answerMaps(page, () => kernel);
  const replies: Reply[] = [];
  const ask = (square: number): boolean =>
    page.body.dispatchEvent(
      new CustomEvent(ASKED, {
        bubbles: true,
        cancelable: true,
        detail: { key: "k1", square, answered: (reply: Reply) => replies.push(reply) },
      }),
    );
  expect(ask(3)).toBe(false); // somebody answers
  ask(1);
  expect(kernel.createComm).toHaveBeenCalledTimes(1);
  expect(sent).toEqual([
    { v: 1, id: 1, key: "k1", square: 3 },
    { v: 1, id: 2, key: "k1", square: 1 },
  ]);
  const answer = (data: unknown): unknown => comm.onMsg({ content: { data } });
  answer({ v: 1, id: 2, why: "no" });
  answer({ v: 7, id: 1, why: "of another version" });
  answer(null);
  expect(replies).toEqual([{ v: 1, id: 2, why: "no" }]);
  comm.onClose({});
  expect(replies[1]!.why).toContain("run %whatif again");
});

test("outside a notebook nobody answers", () => {
  const page = document.implementation.createHTMLDocument();
  answerMaps(page, () => undefined);
  const event = new CustomEvent(ASKED, {
    bubbles: true,
    cancelable: true,
    detail: { key: "k", square: 0, answered: () => undefined },
  });
  expect(page.body.dispatchEvent(event)).toBe(true);
});
