// The Compare tab: two traces, what differs in numbers and from which lines, and a stage of both with
// rows of one op facing each other. A line or a row that is pinned is pinned on both sides.
import {
  type Compared,
  type ComparedSide,
  compareTraces,
  differing,
  editsOf,
  tallyWords,
} from "../compare";
import type { Edit } from "../diff";
import { button, make, uniqueId } from "../dom";
import { SHOWN } from "../limits";
import { type Family, pinClasses } from "../links";
import { mountRows, ROW_HEIGHT, type RowList } from "../panes/rows";
import { drawRuler } from "../panes/ruler";
import { PIN_COLOURS } from "../panes/stage";
import { createSelection } from "../selection";
import type { StageView } from "../stages";
import { count, milliseconds, NOTHING_PINNED, STAGE_TITLES } from "../texts";
import { appendTokens, tokenize } from "../tokens";
import type { Comparison, Contrast, FacingStage, Quantity, Share, Timing } from "../trace";
import { foldUnchanged, type Line, pairRows, SIGNS } from "./passes";
import type { Tab, TabServices } from "./tab";

const REST = 40; // ms the pointer rests before hover links
const DIFFERENCE = "#D55E00";
const MOST_SHARES = 6; // lines of one number; the rest after a click
const LOWEST = 120; // px; few differences leave no empty room
const HIGHEST = "max(400px, var(--wb-panes-most, 440px) - 240px)"; // the numbers stand above
/** The stage that is shown first is the first of these that differs. */
const FIRST = ["source", "gpu", "sass", "asm", "ptx", "llvm", "tile"];
const WORDS: Record<Edit["change"], string> = {
  same: "same",
  changed: "changed",
  removed: "only in A",
  added: "only in B",
  "moved-from": "moved",
  "moved-to": "moved",
};

type Pair = readonly [left: Line | undefined, right: Line | undefined];

interface ComparedStage {
  id: string;
  title: string;
  a: StageView;
  b: StageView;
  edits: Edit[];
  differs: number;
}

export function mountCompare(panel: HTMLElement, services: TabServices): Tab {
  const { compare: comparison, state, signal } = services;
  const [first, second] = services.traces;
  if (!comparison || !first || !second) return {};
  const compared = compareTraces(first, second, comparison);
  const stages = stagesOf(compared, comparison);
  const selection = createSelection();
  const shownSide = state.trace === 0 ? compared.a : compared.b;
  let mounted: Rows | undefined;
  let shown = new AbortController();
  signal.addEventListener("abort", () => shown.abort());

  /** Pin ops under common numbers here, and those of the side that is chosen in the other tabs. */
  const pin = (name: string, from: number, to: number, ops: Set<number>, add: boolean): void => {
    selection.pin({ stage: name, from, to, ops }, add);
    const own = new Set([...ops].flatMap((op) => shownSide.own(op) ?? []));
    const pinned = selection.choice.pins.length > 0;
    const note = pinned ? pinWords(ops, compared, stages) : NOTHING_PINNED;
    if (pinned && own.size > 0) {
      services.selection.pin({ stage: `compare ${name}`, from, to, ops: own }, add, note);
    } else services.selection.clear("compare", note);
  };
  const pinLine = (share: Share, number: number, add: boolean): void => {
    const ops = new Set([
      ...(share.a ? compared.a.opsOfLine(...share.a) : []),
      ...(share.b ? compared.b.opsOfLine(...share.b) : []),
    ]);
    pin("line", number, number, ops, add);
    mounted?.revealPin();
  };

  const head = make(
    "div",
    { class: "wb-compare-head" },
    make(
      "dl",
      {},
      ...[compared.a, compared.b].flatMap(({ name, label }) => [
        make("dt", {}, name.toUpperCase()),
        make("dd", {}, label),
      ]),
    ),
    comparison.said ? make("p", { class: "wb-said" }, comparison.said) : null,
    ...(comparison.notes ?? [])
      .slice(0, SHOWN.quantities)
      .map((note) => make("p", { class: "wb-muted" }, note)),
  );
  const numbers = numbersOf(comparison, selection, pinLine, signal);
  const only = make("input", { type: "checkbox" });
  only.checked = state.onlyDifferences;
  const words = make("span", { class: "wb-coverage" });
  const toggles = stages.map((stage) =>
    button(
      make(
        "span",
        {},
        stage.title,
        make("span", { class: "wb-count" }, stage.differs.toLocaleString("en-US")),
      ),
      { class: "wb-toggle", "data-stage": stage.id, title: tallyWords(stage.edits) },
      () => choose(stage.id),
      signal,
    ),
  );
  const bar = make(
    "div",
    { class: "wb-bar", role: "toolbar", "aria-label": "Stage to compare" },
    ...toggles,
    make("label", { class: "wb-check" }, only, "only differences"),
    words,
  );
  const titles = make(
    "div",
    { class: "wb-compare-titles" },
    ...[compared.a, compared.b].map(({ name, label }) =>
      make("div", {}, make("b", {}, name.toUpperCase()), " ", label),
    ),
  );
  const body = make("div", { class: "wb-body wb-compare-rows" });
  panel.append(head, numbers, bar, titles, body);

  const choose = (id: string): void => {
    state.compared = id;
    show();
  };
  const show = (): void => {
    const stage =
      stages.find(({ id }) => id === state.compared) ??
      FIRST.map((id) => stages.find((one) => one.id === id && one.differs > 0)).find(Boolean) ??
      stages[0];
    shown.abort();
    shown = new AbortController();
    mounted = undefined;
    body.replaceChildren();
    stages.forEach((other, i) => {
      toggles[i]?.setAttribute("aria-pressed", String(other === stage));
    });
    words.textContent = stage ? tallyWords(stage.edits) : "";
    if (!stage) {
      body.append(make("p", { class: "wb-empty" }, "No stage is on both sides."));
      return;
    }
    mounted = mountFacing(body, stage, compared, {
      selection,
      onlyDifferences: state.onlyDifferences,
      pin,
      signal: shown.signal,
    });
  };
  only.addEventListener(
    "change",
    () => {
      state.onlyDifferences = only.checked;
      show();
    },
    { signal },
  );
  // What is pinned in the other tabs is pinned here, too.
  for (const { stage, from, to, ops } of services.selection.choice.pins) {
    selection.pin({ stage, from, to, ops: new Set([...ops].map(shownSide.common)) }, true);
  }
  show();
  return {
    filter(text) {
      const hits = mounted?.find(text) ?? 0;
      return text === "" ? "" : count(hits, "row");
    },
    next: (step) => mounted?.next("found", step),
    key(event) {
      const step = { n: 1, p: -1 }[event.key] as 1 | -1 | undefined;
      if (step) mounted?.next("differs", step);
      return step !== undefined;
    },
    copy: () => mounted?.copy() ?? "",
  };
}

function stagesOf({ a, b }: Compared, comparison: Comparison): ComparedStage[] {
  return (comparison.stages ?? []).flatMap(({ id, rows = [] }: FacingStage) => {
    const [own, other] = [a, b].map(({ stages }) => stages.find((stage) => stage.id === id));
    if (!own || !other) return [];
    const edits = editsOf(rows, own, other);
    const title = STAGE_TITLES[id] ?? id;
    return [{ id, title, a: own, b: other, edits, differs: differing(edits) }];
  });
}

/** "3 ops → A 14 PTX rows, 22 SASS rows · B 9 PTX rows". */
function pinWords(ops: ReadonlySet<number>, { a, b }: Compared, stages: ComparedStage[]): string {
  const of = ({ name, links }: ComparedSide): string => {
    const family = links.family(ops);
    const rows = stages.flatMap(({ id, title }) => {
      const hits = links.rowsOf(id, family).size;
      return hits > 0 ? [count(hits, `${title} row`)] : [];
    });
    return `${name.toUpperCase()} ${rows.join(", ") || "nothing"}`;
  };
  return `Pinned on both sides: ${count(ops.size, "op")} → ${of(a)} · ${of(b)}`;
}

// -- numbers ---------------------------------------------------------------------------------------

function numbersOf(
  { options = [], quantities = [], timings = [] }: Comparison,
  selection: ReturnType<typeof createSelection>,
  pinLine: (share: Share, number: number, add: boolean) => void,
  signal: AbortSignal,
): HTMLElement {
  const value = (each: unknown): string =>
    each === null || each === undefined
      ? "–"
      : typeof each === "number"
        ? each.toLocaleString("en-US")
        : String(each);
  const buttons: { element: HTMLElement; share: Share; number: number }[] = [];
  const shareButton = (share: Share): HTMLElement => {
    const words = `${signed(share.amount)} ${share.words}`;
    if (!share.a && !share.b) return make("span", { class: "wb-share" }, words);
    const number = buttons.length;
    const element = make(
      "button",
      {
        type: "button",
        class: "wb-share",
        "aria-pressed": "false",
        title: "pin this line on both sides",
      },
      make("b", {}, signed(share.amount)),
      ` ${share.words}`,
    );
    element.addEventListener(
      "click",
      ({ ctrlKey, metaKey }) => pinLine(share, number, ctrlKey || metaKey),
      { signal },
    );
    buttons.push({ element, share, number });
    return element;
  };
  const lines = (each: Quantity): HTMLElement => {
    const shares = (each.shares ?? []).slice(0, SHOWN.shares);
    const cell = make("td", { class: "wb-shares" });
    if (shares.length === 0) {
      cell.append(make("span", { class: "wb-muted" }, each.of ?? ""));
      return cell;
    }
    cell.title = each.of ?? "";
    cell.append(...shares.slice(0, MOST_SHARES).map(shareButton));
    if (shares.length > MOST_SHARES) {
      const more = button(
        `${shares.length - MOST_SHARES} more`,
        { class: "wb-share wb-muted" },
        () => more.replaceWith(...shares.slice(MOST_SHARES).map(shareButton)),
        signal,
      );
      cell.append(more);
    }
    return cell;
  };
  const row = (title: string, unit: string, ...cells: (HTMLElement | null)[]): HTMLElement =>
    make(
      "tr",
      {},
      make("th", { scope: "row" }, title, unit !== "" && make("small", {}, ` ${unit}`)),
      ...cells,
    );
  const number = (text: string, tone = ""): HTMLElement =>
    make("td", { class: `wb-number-cell ${tone}`.trim() }, text);
  const timed = (each: Timing): HTMLElement =>
    row(
      `time, ${each.what}`,
      "",
      number(milliseconds(each.a[1])),
      number(milliseconds(each.b[1])),
      number(
        `${figures(each.speed)}×`,
        { faster: "wb-faster", slower: "wb-slower", same: "" }[each.verdict] ?? "",
      ),
      make("td", { class: "wb-shares" }, timeWords(each)),
    );
  const quantity = (each: Quantity): HTMLElement =>
    row(
      each.title,
      each.unit ?? "",
      number(value(each.a)),
      number(value(each.b)),
      number(difference(each), toneOf(each)),
      lines(each),
    );
  const option = (each: Contrast): HTMLElement =>
    row(each.name, "option", number(value(each.a)), number(value(each.b)), number(""), make("td"));
  const known = quantities.slice(0, SHOWN.quantities);
  const differ = known.filter(({ a, b }) => a !== b);
  const same = known.filter(({ a, b }) => a === b);
  const head = ["", "A", "B", "B − A", "from which lines"].map((text, i) =>
    make(
      "th",
      {
        scope: "col",
        class: ["", "wb-number-cell", "wb-number-cell", "wb-number-cell"][i] ?? "wb-shares",
      },
      text || make("span", { class: "wb-unseen" }, "number"),
    ),
  );
  const rows = [
    ...timings.slice(0, SHOWN.quantities).map(timed),
    ...options.slice(0, SHOWN.quantities).map(option),
    ...differ.map(quantity),
  ];
  const equal = same.map(({ title, a, unit }) => `${title} ${value(a)}${unit ? ` ${unit}` : ""}`);
  selection.subscribe(({ pins }) => {
    for (const { element, number: at } of buttons) {
      const slot = pins.findIndex(({ stage, from }) => stage === "line" && from === at);
      element.setAttribute("aria-pressed", String(slot >= 0));
      element.className = `wb-share${slot >= 0 ? ` wb-marked wb-pin${slot}` : ""}`;
    }
  }, signal);
  return make(
    "div",
    { class: "wb-compare-numbers", role: "region", tabindex: "0", "aria-label": "What differs" },
    rows.length > 0 &&
      make(
        "table",
        { class: "wb-table" },
        make("thead", {}, make("tr", {}, ...head)),
        make("tbody", {}, ...rows),
      ),
    equal.length > 0 && make("p", { class: "wb-muted" }, `The same: ${equal.join(", ")}.`),
  );
}

function signed(amount: number): string {
  return `${amount > 0 ? "+" : "−"}${Math.abs(amount).toLocaleString("en-US")}`;
}

function figures(amount: number): string {
  return String(Number(amount.toPrecision(3)));
}

function difference({ a, b }: Quantity): string {
  return typeof a === "number" && typeof b === "number" && a !== b ? signed(b - a) : "";
}

function toneOf({ a, b, better }: Quantity): string {
  if (typeof a !== "number" || typeof b !== "number" || better === "neither") return "";
  return b < a === (better === "less") ? "wb-faster" : "wb-slower";
}

function timeWords({ low, high, verdict }: Timing): string {
  const said = { faster: "B is faster", slower: "B is slower", same: "the same within noise" };
  const noise = low === high ? "" : ` (${figures(low)} to ${figures(high)} with noise)`;
  return `${said[verdict] ?? ""}${noise}`;
}

// -- rows ------------------------------------------------------------------------------------------

interface Rows {
  find(text: string): number;
  next(what: "found" | "differs" | "pinned", step: 1 | -1): void;
  revealPin(): void;
  copy(): string;
}

interface FacingServices {
  selection: ReturnType<typeof createSelection>;
  onlyDifferences: boolean;
  pin(name: string, from: number, to: number, ops: Set<number>, add: boolean): void;
  signal: AbortSignal;
}

/** A stage of both sides; a listbox of pairs of rows, of which each pins what both came from. */
function mountFacing(
  root: HTMLElement,
  stage: ComparedStage,
  { a, b }: Compared,
  { selection, onlyDifferences, pin, signal }: FacingServices,
): Rows {
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
        pin(stage.id, 0, 0, new Set(), false);
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
