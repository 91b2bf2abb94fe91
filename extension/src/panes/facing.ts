// A stage of two traces, rows of one op facing each other; each pair of rows pins what both came from.
import type { Compared } from "../compare";
import type { Edit } from "../diff";
import { make, uniqueId } from "../dom";
import { foldUnchanged, type Line, pairRows, SIGNS } from "../folding";
import { type Family, pinClasses } from "../links";
import type { Selection } from "../selection";
import type { StageView } from "../stages";
import { count } from "../texts";
import { appendTokens, tokenize } from "../tokens";
import { mountRows, ROW_HEIGHT, type RowList } from "./rows";
import { drawRuler } from "./ruler";
import { PIN_COLOURS } from "./stage";

const REST = 40; // ms the pointer rests before hover links
const DIFFERENCE = "#D55E00";
const LOWEST = 120; // px; few differences leave no empty room
const HIGHEST = "max(400px, var(--wb-panes-most, 440px) - 240px)"; // the numbers stand above
const WORDS: Record<Edit["change"], string> = {
  same: "same",
  changed: "changed",
  removed: "only in A",
  added: "only in B",
  "moved-from": "moved",
  "moved-to": "moved",
};

type Pair = readonly [left: Line | undefined, right: Line | undefined];

export interface ComparedStage {
  id: string;
  title: string;
  a: StageView;
  b: StageView;
  edits: Edit[];
  differs: number;
}

export interface FacingRows {
  find(text: string): number;
  next(what: "found" | "differs" | "pinned", step: 1 | -1): void;
  revealPin(): void;
  copy(): string;
}

export interface FacingServices {
  selection: Selection;
  onlyDifferences: boolean;
  pin(name: string, from: number, to: number, ops: Set<number>, add: boolean): void;
  signal: AbortSignal;
}

/** A stage of both sides; a listbox of pairs of rows, of which each pins what both came from. */
export function mountFacing(
  root: HTMLElement,
  stage: ComparedStage,
  { a, b }: Compared,
  { selection, onlyDifferences, pin, signal }: FacingServices,
): FacingRows {
  const unfolded = new Set<number>();
  const prefix = uniqueId("facing");
  let pairs: Pair[] = [];
  let current = 0;
  let found: ReadonlySet<number> = new Set();
  let wanted = "";
  let pins: Family[] = [];
  let hover: Family[] = [];
  const arrange = (): void => {
    const folds = onlyDifferences && stage.differs > 0;
    pairs = pairRows(folds ? foldUnchanged(stage.edits, unfolded) : stage.edits);
    const wanted = (pairs.length + 1) * ROW_HEIGHT;
    root.style.height = `min(${HIGHEST}, ${Math.max(LOWEST, wanted)}px)`;
  };
  arrange();

  const textOf = (line: Line | undefined, side: "a" | "b"): string => {
    if (!line || "fold" in line) return "";
    return stage[side].lines[(side === "a" ? line.before : line.after) ?? -1] ?? "";
  };
  const opsOf = ([left, right]: Pair): Set<number> => {
    const ops = new Set<number>();
    if (left && !("fold" in left)) {
      for (const op of stage.a.opsOfRow[left.before ?? -1] ?? []) ops.add(op);
    }
    if (right && !("fold" in right)) {
      for (const op of stage.b.opsOfRow[right.after ?? -1] ?? []) ops.add(op);
    }
    return ops;
  };
  const differs = ([left, right]: Pair): boolean =>
    [left, right].some((line) => line && !("fold" in line) && line.change !== "same");
  const half = (line: Line | undefined, side: "a" | "b"): HTMLElement => {
    const element = make("div", { class: "wb-row wb-diff-row", role: "presentation" });
    const row = line && !("fold" in line) ? (side === "a" ? line.before : line.after) : undefined;
    if (!line || "fold" in line || row === undefined) {
      element.classList.add("wb-gap");
      return element;
    }
    element.classList.add(`wb-${line.change}`);
    const ops = stage[side].opsOfRow[row] ?? [];
    const marks = [pinClasses(pins, ops), pinClasses(hover, ops).replaceAll("pin0", "hover")];
    element.classList.add(...marks.join(" ").split(" ").filter(Boolean));
    const words = make("span", { class: "wb-shifted" });
    appendTokens(words, tokenize(stage[side].lines[row] ?? "", stage[side].lang));
    element.append(
      make("i", { "aria-hidden": "true" }, String(row + stage[side].firstLine)),
      make("b", { "aria-label": WORDS[line.change], role: "img" }, SIGNS[line.change]),
      make("span", { class: "wb-half" }, words),
    );
    return element;
  };
  const makeRow = (i: number): HTMLElement => {
    const pair = pairs[i] ?? [undefined, undefined];
    const [left, right] = pair;
    const element = make("div", {
      id: `${prefix}-${i}`,
      "data-pair": String(i),
      role: "option",
      "aria-setsize": String(pairs.length),
      "aria-posinset": String(i + 1),
      "aria-selected": String(pinClasses(pins, opsOf(pair)).split(" ").some(isWhole)),
    });
    if (left && "fold" in left) {
      element.className = "wb-row wb-fold";
      element.append(
        make("span", {}, `⋯ ${count(left.fold, "row")} the same; Enter or a click shows them`),
      );
    } else {
      element.className = "wb-pair";
      element.append(half(left, "a"), half(right, "b"));
      if (textOf(left, "a").trim() === "" && textOf(right, "b").trim() === "") {
        element.setAttribute("aria-label", "empty line");
      }
    }
    if (i === current) element.classList.add("wb-current");
    if (found.has(i)) element.classList.add("wb-found-pair");
    return element;
  };
  const ruler = make("canvas", { class: "wb-ruler", "aria-hidden": "true" });
  const drawMarks = (): void => {
    const rowsWhere = (holds: (pair: Pair) => boolean): [number, "same"][] =>
      pairs.flatMap((pair, i) => (holds(pair) ? [[i, "same"] as [number, "same"]] : []));
    const marked = pins.map((family, slot) => ({
      colour: PIN_COLOURS[slot] ?? "",
      rows: rowsWhere((pair) => [...opsOf(pair)].some((op) => family.ops.has(op))),
    }));
    drawRuler(ruler, list.height, pairs.length, [
      { colour: DIFFERENCE, rows: rowsWhere(differs) },
      ...marked,
    ]);
  };
  const lengths = [...stage.a.lines, ...stage.b.lines].slice(0, 40_000).map((l) => l.length);
  const columns = Math.min(
    2_000,
    lengths.reduce((most, length) => Math.max(most, length), 40),
  );
  const list: RowList = mountRows(
    root,
    { count: pairs.length, columns, makeRow, halves: true, onResize: () => drawMarks() },
    signal,
  );
  root.append(ruler);
  const { scroller } = list;
  scroller.tabIndex = 0;
  scroller.setAttribute("role", pairs.length > 0 ? "listbox" : "group");
  scroller.setAttribute("aria-label", `${stage.title} of A and B, ${count(pairs.length, "row")}`);
  if (pairs.length > 0) scroller.setAttribute("aria-multiselectable", "true");

  const moveTo = (row: number): void => {
    list.shown.get(current)?.classList.remove("wb-current");
    current = Math.max(0, Math.min(pairs.length - 1, row));
    list.reveal(current);
    list.shown.get(current)?.classList.add("wb-current");
    if (pairs.length > 0) scroller.setAttribute("aria-activedescendant", `${prefix}-${current}`);
  };
  const unfold = (row: number): boolean => {
    const [left] = pairs[row] ?? [];
    if (!left || !("fold" in left)) return false;
    unfolded.add(left.first);
    arrange();
    list.resize(pairs.length);
    if (wanted !== "") find(wanted);
    moveTo(row);
    drawMarks();
    return true;
  };
  const choose = (row: number, add: boolean): void => {
    moveTo(row);
    if (unfold(row)) return;
    const pair = pairs[row];
    if (pair) pin(stage.id, row, row, opsOf(pair), add);
  };
  const rowUnder = (event: Event): number => {
    const element = (event.target as Element).closest<HTMLElement>("[data-pair]");
    return element ? Number(element.dataset.pair) : -1;
  };
  const next = (what: "found" | "differs" | "pinned", step: 1 | -1): void => {
    const holds = (i: number): boolean => {
      const pair = pairs[i] as Pair;
      if (what === "found") return found.has(i);
      if (what === "differs") return differs(pair);
      return pinClasses(pins, opsOf(pair)) !== "";
    };
    for (let n = 1; n <= pairs.length; n++) {
      const row = (((current + n * step) % pairs.length) + pairs.length) % pairs.length;
      if (!holds(row)) continue;
      moveTo(row);
      return;
    }
  };
  const find = (text: string): number => {
    wanted = text;
    const lower = text.toLowerCase();
    const hits = pairs.flatMap(([left, right], i) =>
      lower !== "" &&
      (textOf(left, "a").toLowerCase().includes(lower) ||
        textOf(right, "b").toLowerCase().includes(lower))
        ? [i]
        : [],
    );
    found = new Set(hits);
    list.redraw();
    if (hits[0] !== undefined && !hits.some((row) => list.inView(row))) list.reveal(hits[0]);
    return hits.length;
  };

  let timer: ReturnType<typeof setTimeout> | undefined;
  signal.addEventListener("abort", () => clearTimeout(timer));
  scroller.addEventListener(
    "mouseover",
    (event) => {
      clearTimeout(timer);
      const pair = pairs[rowUnder(event)];
      if (!pair || event.buttons !== 0) return;
      timer = setTimeout(() => selection.point(stage.id, opsOf(pair)), REST);
    },
    { signal },
  );
  scroller.addEventListener(
    "mouseleave",
    () => {
      clearTimeout(timer);
      selection.point(stage.id, new Set());
    },
    { signal },
  );
  scroller.addEventListener(
    "click",
    (event) => {
      const row = rowUnder(event);
      if (row >= 0 && getSelection()?.isCollapsed !== false) {
        choose(row, event.ctrlKey || event.metaKey);
      }
    },
    { signal },
  );
  scroller.addEventListener(
    "keydown",
    (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
      const page = Math.max(1, Math.floor(list.height / ROW_HEIGHT) - 1);
      const goal = {
        ArrowDown: current + 1,
        ArrowUp: current - 1,
        PageDown: current + page,
        PageUp: current - page,
        Home: 0,
        End: pairs.length - 1,
      }[event.key];
      if (goal !== undefined) moveTo(goal);
      else if (event.key === "Enter" || event.key === " ") choose(current, false);
      else if (event.key === "[" || event.key === "]") next("pinned", event.key === "]" ? 1 : -1);
      else if (event.key === "Escape" && selection.choice.pins.length > 0) {
        pin(stage.id, 0, -1, new Set(), false); // no row at all
      } else return;
      event.preventDefault();
      event.stopPropagation();
    },
    { signal },
  );
  scroller.addEventListener(
    "focus",
    () => {
      if (list.shown.has(current)) {
        scroller.setAttribute("aria-activedescendant", `${prefix}-${current}`);
      }
    },
    { signal },
  );
  const take = (): void => {
    const { choice } = selection;
    const families = (ops: ReadonlySet<number>): Family => {
      const [one, other] = [a.links.family(ops), b.links.family(ops)];
      return { ops, kin: new Set([...one.kin, ...other.kin]) };
    };
    pins = choice.pins.map(({ ops }) => families(ops));
    hover = choice.hover.size > 0 ? [families(choice.hover)] : [];
  };
  selection.subscribe(() => {
    take();
    list.redraw();
    drawMarks();
  }, signal);
  take();
  list.redraw();
  const start = pairs.findIndex(differs);
  if (start > 0) moveTo(start);
  return {
    find,
    next,
    revealPin() {
      const isHit = (i: number): boolean => pinClasses(pins, opsOf(pairs[i] as Pair)) !== "";
      if ([...list.shown.keys()].some((i) => isHit(i) && list.inView(i))) return;
      const hit = pairs.findIndex((_, i) => isHit(i));
      if (hit >= 0) moveTo(hit);
    },
    copy() {
      const [left, right] = pairs[current] ?? [];
      return [left && `A  ${textOf(left, "a")}`, right && `B  ${textOf(right, "b")}`]
        .filter(Boolean)
        .join("\n");
    },
  };
}

function isWhole(name: string): boolean {
  return /^wb-pin\d$/.test(name);
}
