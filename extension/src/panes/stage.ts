// One stage as a pane: its rows, what is linked to the chosen ops, keyboard and pointer.
import { linkedRows } from "../counted";
import { button, make, uniqueId } from "../dom";
import { explainRow } from "../glossary";
import { type Family, type Links, NOBODY, type Relation } from "../links";
import type { Choice, Pin, Selection } from "../selection";
import type { StageView } from "../stages";
import { count, EMPTY_ROW, noLink } from "../texts";
import { appendTokens, type Token, tokenize } from "../tokens";
import { mountRows, ROW_HEIGHT } from "./rows";
import { drawRuler } from "./ruler";

const REST = 40; // ms the pointer rests before hover links
export const MOST_ROWS = 20_000; // shown at once; the rest after a click
export const HOVER_COLOUR = "#56B4E9";
export const PIN_COLOURS = ["#E69F00", "#009E73", "#CC79A7", "#0072B2"] as const;

/** What a pane needs beside its stage. */
export interface PaneServices {
  links: Links;
  selection: Selection;
  /** The tooltip of a row that came from these ops. */
  describe(ops: ReadonlySet<number>): string;
  /** Told when the user works in this pane. */
  onFocus(stage: string): void;
}

export interface StagePane {
  readonly stage: StageView;
  focus(): void;
  /** Mark the rows that contain `text` (case-insensitive) and return how many there are. */
  find(text: string): number;
  /** Go to the next row that was found. */
  findNext(step: 1 | -1): void;
  /** Go to a row, mark and reveal what is linked to it. */
  goTo(row: number): void;
  /** Bring a row into view and make it the current one. */
  show(row: number): void;
  /** The rows to copy: the pinned ones, else the current one. */
  rowsToCopy(): number[];
}

/** Fill `root` with `stage`; the pane lives until `signal` aborts. */
export function mountStage(
  root: HTMLElement,
  stage: StageView,
  services: PaneServices,
  signal: AbortSignal,
): StagePane {
  const { links, selection } = services;
  const total = stage.lines.length;
  const limited = total > MOST_ROWS;
  const prefix = uniqueId("pane");
  const last = (): number => rows - 1;
  let rows = limited ? MOST_ROWS : total;

  const title = make(
    "div",
    { class: "wb-title" },
    make("b", {}, stage.title),
    make("span", {}, titleFacts(stage)),
  );
  const body = make("div", { class: "wb-body" });
  root.append(title);
  if (stage.note !== "") {
    root.append(make("p", { class: "wb-note", "data-state": stage.state }, stage.note));
  }
  root.append(body);

  const tokens = new Map<number, Token[]>(); // tokenised on first sight
  let current = 0;
  let anchor = 0; // where a run of rows began
  let hovered: ReadonlyMap<number, Relation> = new Map();
  let pinned: ReadonlyMap<number, Relation>[] = [];
  let found: ReadonlySet<number> = new Set();

  const paint = (element: HTMLElement, row: number): void => {
    const classes = ["wb-row"];
    if (!stage.opsOfRow[row]) classes.push("wb-unattributed");
    const hover = hovered.get(row);
    if (hover) classes.push(hover === "same" ? "wb-hover" : "wb-hover-kin");
    pinned.forEach((hits, slot) => {
      const relation = hits.get(row);
      if (relation) classes.push(relation === "same" ? `wb-pin${slot}` : `wb-pin${slot}-kin`);
    });
    if (found.has(row)) classes.push("wb-found");
    if (row === current) classes.push("wb-current");
    const name = classes.join(" ");
    if (element.className === name) return;
    element.className = name;
    element.setAttribute("aria-selected", String(pinned.some((hits) => hits.get(row) === "same")));
  };
  const makeRow = (row: number): HTMLElement => {
    const element = make("div", {
      id: `${prefix}-${row}`,
      "data-row": String(row),
      role: "option",
      "aria-setsize": String(total),
      "aria-posinset": String(row + 1),
    });
    if ((stage.lines[row] ?? "").trim() === "") element.setAttribute("aria-label", EMPTY_ROW);
    const number = make("i", { "aria-hidden": "true" }, String(row + stage.firstLine));
    element.append(number);
    if (stage.side.size > 0) {
      element.append(make("small", { title: "live registers" }, stage.side.get(row) ?? ""));
    }
    let parts = tokens.get(row);
    if (!parts) {
      parts = tokenize(stage.lines[row] ?? "", stage.lang);
      tokens.set(row, parts);
    }
    appendTokens(element, parts);
    paint(element, row);
    return element;
  };
  const ruler = make("canvas", { class: "wb-ruler", "aria-hidden": "true" });
  const drawMarks = (): void => {
    const marks = pinned.map((hits, slot) => ({ colour: PIN_COLOURS[slot] ?? "", rows: hits }));
    drawRuler(ruler, list.height, rows, [...marks, { colour: HOVER_COLOUR, rows: hovered }]);
  };
  const columns = Math.min(2_000, Math.max(0, ...chunked(stage.lines)));
  const list = mountRows(
    body,
    { count: rows, columns, makeRow, onResize: () => drawMarks() },
    signal,
  );
  const { scroller } = list;
  scroller.tabIndex = 0; // one Tab stop per pane; the active row is named by aria-activedescendant
  scroller.dataset.stage = stage.id;
  scroller.setAttribute("role", total > 0 ? "listbox" : "group");
  scroller.setAttribute("aria-label", `${stage.title}, ${count(total, "row")}`);
  if (total > 0) scroller.setAttribute("aria-multiselectable", "true");
  body.append(ruler);
  if (limited) {
    const more = button(
      `show all ${count(total, "row")} (${stage.lines.join("\n").length.toLocaleString("en-US")} characters)`,
      { class: "wb-more" },
      () => {
        rows = total;
        list.resize(rows);
        more.remove();
      },
      signal,
    );
    root.append(more);
  }

  const paintAll = (): void => {
    for (const [row, element] of list.shown) paint(element, row);
  };
  const moveTo = (row: number): void => {
    const previous = current;
    current = Math.max(0, Math.min(last(), row));
    list.reveal(current);
    for (const changed of [previous, current]) {
      const element = list.shown.get(changed);
      if (element) paint(element, changed);
    }
    if (total > 0) scroller.setAttribute("aria-activedescendant", `${prefix}-${current}`);
  };
  const pinOf = (from: number, to: number): Pin => ({
    stage: stage.id,
    from: Math.min(from, to),
    to: Math.max(from, to),
    ops: links.opsAt(stage.id, from, to),
  });
  const pin = (row: number, add: boolean): void => {
    moveTo(row);
    anchor = row;
    const chosen = pinOf(row, row);
    const note = chosen.ops.size === 0 ? noLink(stage.id) : "";
    if (note !== "" && !add) selection.clear(stage.id, note);
    else selection.pin(chosen, add, note);
  };
  const extend = (row: number): void => {
    if (selection.choice.pins.at(-1)?.stage !== stage.id) anchor = current;
    moveTo(row);
    selection.extend(pinOf(anchor, current));
  };
  const rowUnder = (event: Event): number => {
    const element = (event.target as Element).closest<HTMLElement>("[data-row]");
    return element ? Number(element.dataset.row) : -1;
  };

  let timer: ReturnType<typeof setTimeout> | undefined;
  const listen = <K extends keyof HTMLElementEventMap>(
    type: K,
    handler: (event: HTMLElementEventMap[K]) => void,
  ): void => scroller.addEventListener(type, handler, { signal });
  listen("mouseover", (event) => {
    const row = rowUnder(event);
    clearTimeout(timer);
    if (row < 0) return;
    const element = list.shown.get(row);
    if (element && !element.title) {
      const ops = links.opsAt(stage.id, row);
      const does = explainRow(stage.id, stage.lines[row] ?? "");
      element.title = [ops.size > 0 ? services.describe(ops) : "", does].filter(Boolean).join("\n");
    }
    if (event.buttons !== 0) return; // text is being selected
    timer = setTimeout(() => selection.point(stage.id, links.opsAt(stage.id, row)), REST);
  });
  listen("mouseleave", () => {
    clearTimeout(timer);
    selection.point(stage.id, new Set());
  });
  signal.addEventListener("abort", () => clearTimeout(timer));
  let pressed = -1;
  listen("mousedown", (event) => {
    pressed = rowUnder(event);
    if (event.shiftKey) {
      event.preventDefault(); // the rows are extended, not a selection of text
      scroller.focus();
    }
  });
  listen("click", (event) => {
    const row = rowUnder(event);
    const [from, text] = [pressed, getSelection()];
    pressed = -1;
    if (row < 0) return; // a drag over several rows ends on what holds them
    if (event.shiftKey) extend(row);
    else if (
      from >= 0 &&
      (row !== from || (text && !text.isCollapsed && scroller.contains(text.anchorNode)))
    ) {
      return; // the mouse has selected text
    } else pin(row, event.ctrlKey || event.metaKey);
  });
  listen("focus", () => {
    services.onFocus(stage.id);
    if (list.shown.has(current)) {
      scroller.setAttribute("aria-activedescendant", `${prefix}-${current}`);
    }
  });
  listen("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(list.height / ROW_HEIGHT) - 1);
    const goal = {
      ArrowDown: current + 1,
      ArrowUp: current - 1,
      PageDown: current + page,
      PageUp: current - page,
      Home: 0,
      End: last(),
    }[event.key];
    if (goal !== undefined) {
      if (event.shiftKey) {
        extend(goal);
      } else {
        moveTo(goal);
        selection.point(stage.id, links.opsAt(stage.id, current), true);
      }
    } else if (event.shiftKey) {
      return; // Shift+Enter runs the cell
    } else if (event.key === "Enter" || event.key === " ") {
      pin(current, false);
    } else if (
      event.key === "Escape" &&
      (selection.choice.pins.length > 0 || selection.choice.note !== "")
    ) {
      selection.clear(stage.id);
    } else if (event.key === "Escape") {
      root.closest<HTMLElement>("[role=tabpanel]")?.focus();
    } else if (event.key === "[" || event.key === "]") {
      step(hitRows(), event.key === "]" ? 1 : -1);
    } else {
      return; // not ours; the viewer's root still keeps it from the notebook
    }
    event.preventDefault();
  });
  const hitRows = (): number[] =>
    [...new Set(pinned.flatMap((hits) => [...hits.keys()]))].sort((a, b) => a - b);
  const step = (hits: readonly number[], by: 1 | -1): void => {
    const next =
      by === 1
        ? (hits.find((row) => row > current) ?? hits[0])
        : (hits.findLast((row) => row < current) ?? hits.at(-1));
    if (next !== undefined) moveTo(next);
  };

  /** Scroll to the first hit, unless a hit is visible already. */
  const revealFirst = (hits: ReadonlyMap<number, Relation>): void => {
    let first = Number.POSITIVE_INFINITY;
    for (const relation of ["same", "kin"] as const) {
      if (first < rows) break; // rows of the op itself go before those of its kin
      for (const [row, kind] of hits) {
        if (kind !== relation) continue;
        if (list.inView(row)) return;
        first = Math.min(first, row);
      }
    }
    if (first < rows) list.reveal(first);
  };

  selection.subscribe((choice: Choice) => {
    const rowsOf = (family: Family): ReadonlyMap<number, Relation> =>
      links.rowsOf(stage.id, family);
    // A pin's colour stays clear while the pointer rests on what was pinned.
    const alreadyPinned = choice.pins.some(({ ops }) => sameOps(ops, choice.hover));
    hovered = rowsOf(alreadyPinned ? NOBODY : links.family(choice.hover));
    pinned = choice.pins.map(({ ops }) => rowsOf(links.family(ops)));
    if (choice.reveal && choice.origin !== stage.id) {
      revealFirst(choice.hover.size > 0 ? hovered : (pinned.at(-1) ?? hovered));
    }
    paintAll();
    drawMarks();
  }, signal);

  return {
    stage,
    focus: () => scroller.focus(),
    find(text) {
      const wanted = text.toLowerCase();
      const hits = stage.lines.flatMap((line, row) =>
        wanted !== "" && line.toLowerCase().includes(wanted) ? [row] : [],
      );
      found = new Set(hits);
      paintAll();
      if (hits[0] !== undefined && !hits.some((row) => list.inView(row))) list.reveal(hits[0]);
      return hits.length;
    },
    findNext: (by) => step([...found], by),
    goTo(row) {
      moveTo(row);
      pin(row, false);
    },
    show: moveTo,
    rowsToCopy() {
      const same = pinned.flatMap((hits) =>
        [...hits].filter(([, relation]) => relation === "same").map(([row]) => row),
      );
      return same.length > 0 ? [...new Set(same)].sort((a, b) => a - b) : [current];
    },
  };
}

function sameOps(a: ReadonlySet<number>, b: ReadonlySet<number>): boolean {
  return a.size === b.size && [...a].every((op) => b.has(op));
}

function titleFacts(stage: StageView): string {
  const total = stage.lines.length;
  if (total === 0) return stage.state === "ok" ? "empty" : stage.state;
  const [linked, all] = linkedRows(stage);
  const loose = all - linked;
  const unattributed = stage.id !== "source" && stage.id !== "ast" && loose > 0;
  return (
    count(total, "row") + (unattributed ? ` · ${loose.toLocaleString("en-US")} unattributed` : "")
  );
}

/** Line lengths in pieces: spreading a hundred thousand arguments into Math.max overflows the stack. */
function chunked(lines: readonly string[]): number[] {
  const longest: number[] = [];
  for (let at = 0; at < lines.length; at += 4_096) {
    longest.push(Math.max(...lines.slice(at, at + 4_096).map((line) => line.length)));
  }
  return longest;
}
