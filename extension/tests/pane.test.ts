import { expect, test, vi } from "vitest";
import { invertLinks } from "../src/links";
import { mountStage, type StagePane } from "../src/panes/stage";
import { createSelection, type Selection } from "../src/selection";
import type { OpTable, RowOps, StageView } from "../src/stages";

const UNRELATED: OpTable = {
  row: () => undefined,
  name: () => "",
  place: () => undefined,
  parents: () => [],
  children: () => [],
};

function view(id: string, opsOfRow: RowOps): StageView {
  const lines = opsOfRow.map((_, row) => `  %${row} = tile.add "<b>x</b>" // ${row}`);
  return {
    id,
    title: id,
    lang: "ir",
    lines,
    opsOfRow,
    state: "ok",
    note: "",
    firstLine: 1,
    side: new Map(),
  };
}

interface Mounted {
  roots: HTMLElement[];
  panes: StagePane[];
  selection: Selection;
}

function mountAll(...stages: StageView[]): Mounted {
  const selection = createSelection();
  const links = invertLinks(stages, UNRELATED);
  const { signal } = new AbortController();
  const roots = stages.map(() => document.createElement("div"));
  const services = { links, selection, describe: () => "", onFocus: () => undefined };
  const panes = stages.map((stage, i) => mountStage(roots[i]!, stage, services, signal));
  return { roots, panes, selection };
}

const cyclic = (rows: number): RowOps => Array.from({ length: rows }, (_, row) => [row % 7]);
const marked = (root: HTMLElement, name: string): string[] =>
  [...root.querySelectorAll<HTMLElement>(`.${name}`)].map((row) => row.dataset.row ?? "");
const row = (root: HTMLElement, at: number): HTMLElement =>
  root.querySelector<HTMLElement>(`[data-row="${at}"]`)!;
const scroller = (root: HTMLElement): HTMLElement =>
  root.querySelector<HTMLElement>(".wb-scroller")!;
const press = (root: HTMLElement, key: string, more: KeyboardEventInit = {}): void => {
  scroller(root).dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, ...more }));
};

test("a row without a link says whose row it is; Esc takes the sentence back", () => {
  const { roots, selection } = mountAll(view("source", [undefined, [1]]), view("ptx", [undefined]));
  row(roots[0]!, 0).click();
  expect(selection.choice.note).toBe("No op came from this line.");
  press(roots[0]!, "Escape");
  expect(selection.choice.note).toBe("");
  row(roots[1]!, 0).click();
  expect(selection.choice.note).toContain("the compiler made it up");
});

test("an empty row has a name, and a focused pane says which row it is at", () => {
  const empty = { ...view("a", [[1], undefined]), lines: ["x = 1", ""] };
  const { roots } = mountAll(empty);
  expect(row(roots[0]!, 1).getAttribute("aria-label")).toBe("empty line");
  expect(row(roots[0]!, 0).hasAttribute("aria-label")).toBe(false);
  scroller(roots[0]!).dispatchEvent(new FocusEvent("focus"));
  expect(scroller(roots[0]!).getAttribute("aria-activedescendant")).toBe(row(roots[0]!, 0).id);
});

test("only visible rows exist, and text is never parsed", () => {
  const { roots } = mountAll(view("a", cyclic(6_000)));
  expect(roots[0]!.querySelectorAll("[data-row]").length).toBeLessThan(60);
  expect(roots[0]!.querySelector("b > b, .wb-row b")).toBeNull();
  expect(row(roots[0]!, 3).textContent).toContain("<b>x</b>");
});

test("a click pins the linked rows of the other pane, and again clears", () => {
  const { roots, selection } = mountAll(view("a", cyclic(20)), view("b", [[0], [1], undefined]));
  row(roots[0]!, 8).click();
  expect(marked(roots[1]!, "wb-pin0")).toEqual(["1"]);
  row(roots[0]!, 8).click();
  expect(selection.choice.pins).toEqual([]);
  expect(marked(roots[1]!, "wb-pin0")).toEqual([]);
});

test("a row without a link clears the pin and says so", () => {
  const { roots, selection } = mountAll(view("a", cyclic(20)), view("b", [[0], [1], undefined]));
  row(roots[0]!, 8).click();
  row(roots[1]!, 2).click();
  expect(selection.choice.pins).toEqual([]);
  expect(selection.choice.note).toContain("No op came from this row");
});

test("Ctrl+click adds a pin of another colour", () => {
  const { roots } = mountAll(view("a", cyclic(20)), view("b", [[0], [1], [2]]));
  row(roots[0]!, 0).click();
  row(roots[0]!, 2).dispatchEvent(new MouseEvent("click", { bubbles: true, ctrlKey: true }));
  expect(marked(roots[1]!, "wb-pin0")).toEqual(["0"]);
  expect(marked(roots[1]!, "wb-pin1")).toEqual(["2"]);
});

test("Shift extends the pin to the union of ops", () => {
  const { roots } = mountAll(view("a", cyclic(20)), view("b", [[0], [1], [2], [3]]));
  row(roots[0]!, 0).click();
  row(roots[0]!, 2).dispatchEvent(new MouseEvent("click", { bubbles: true, shiftKey: true }));
  expect(marked(roots[1]!, "wb-pin0")).toEqual(["0", "1", "2"]);
});

test("arrows move and mark, Enter pins, brackets step through the hits, Escape clears", () => {
  const { roots, selection } = mountAll(view("a", cyclic(40)), view("b", cyclic(20)));
  const [a, b] = roots as [HTMLElement, HTMLElement];
  press(a, "ArrowDown");
  expect(marked(a, "wb-current")).toEqual(["1"]);
  expect(marked(b, "wb-hover")).toEqual(["1", "8", "15"]);
  press(a, "Enter");
  expect(marked(b, "wb-pin0")).toEqual(["1", "8", "15"]);
  press(b, "]");
  expect(marked(b, "wb-current")).toEqual(["1"]);
  press(b, "]");
  expect(marked(b, "wb-current")).toEqual(["8"]);
  press(b, "[");
  expect(marked(b, "wb-current")).toEqual(["1"]);
  press(a, "Escape");
  expect(selection.choice.pins).toEqual([]);
});

test("the active row is named for a screen reader", () => {
  const { roots } = mountAll(view("a", cyclic(40)));
  press(roots[0]!, "End");
  const name = scroller(roots[0]!).getAttribute("aria-activedescendant");
  const active = roots[0]!.querySelector(`#${name}`);
  expect(active?.getAttribute("aria-posinset")).toBe("40");
  expect(active?.getAttribute("aria-setsize")).toBe("40");
});

test("finding marks rows and counts them", () => {
  const { roots, panes } = mountAll(view("a", cyclic(30)));
  expect(panes[0]!.find("// 2")).toBe(11); // 2 and 20 to 29
  expect(marked(roots[0]!, "wb-found")).toContain("2");
  panes[0]!.findNext(1);
  expect(marked(roots[0]!, "wb-current")).toEqual(["2"]);
});

test("a huge stage shows its beginning until asked for all", () => {
  const { roots } = mountAll(view("a", cyclic(25_000)));
  press(roots[0]!, "End");
  expect(marked(roots[0]!, "wb-current")).toEqual(["19999"]);
  roots[0]!.querySelector<HTMLElement>(".wb-more")!.click();
  press(roots[0]!, "End");
  expect(marked(roots[0]!, "wb-current")).toEqual(["24999"]);
});

test("what a click reveals is there at once, the rows around it a little later", async () => {
  vi.useFakeTimers();
  try {
    const ops: RowOps = Array.from({ length: 20_000 }, (_, row) => [row === 9_000 ? 1 : 2]);
    const { roots } = mountAll(view("a", [[1]]), view("b", ops));
    const before = [...roots[1]!.querySelectorAll("[data-row]")].length;
    row(roots[0]!, 0).click();
    expect(marked(roots[1]!, "wb-pin0")).toEqual(["9000"]);
    expect(scroller(roots[1]!).scrollTop).toBe(0); // all panes change before one is laid out
    await Promise.resolve();
    expect(scroller(roots[1]!).scrollTop).toBe(Math.round(9_000 * 18 - 400 / 3));
    const seen = roots[1]!.querySelectorAll("[data-row]").length;
    expect(seen).toBeLessThanOrEqual(Math.ceil(400 / 18) + 2);
    vi.runAllTimers();
    const after = roots[1]!.querySelectorAll("[data-row]").length;
    expect(after).toBeGreaterThan(seen);
    expect(after).toBeLessThanOrEqual(before + 9);
  } finally {
    vi.useRealTimers();
  }
});
