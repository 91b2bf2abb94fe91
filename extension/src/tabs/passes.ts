// The Passes tab: every pass with its time and what it changed, and its text before and after.

import { diffTexts, type Edit } from "../diff";
import { button, make, treeOf } from "../dom";
import { foldUnchanged, type Line, pairRows, SIGNS } from "../folding";
import { pinClasses } from "../links";
import { mountRows } from "../panes/rows";
import { placeName, type RowOps, sourceOfEntry, spreadRows } from "../stages";
import { count, milliseconds } from "../texts";
import { appendTokens, tokenize } from "../tokens";
import type { AppliedRule, Pass, RowMap, Trace } from "../trace";
import type { Tab, TabServices } from "./tab";

const LANGUAGES: Record<string, string> = { tile: "ir", gpu: "ir", llvm: "llvm" };

/** The row map of a text: of the pass itself, or of any pass or stage that shows the same text. */
export function rowsOfText(trace: Trace, text: number): RowMap | undefined {
  for (const pass of trace.passes) {
    if (pass.after === text && pass.rows) return pass.rows;
    if (pass.before === text && pass.before_rows) return pass.before_rows;
  }
  return trace.stages.find((stage) => stage.text === text)?.rows;
}

export function mountPasses(panel: HTMLElement, services: TabServices): Tab {
  const { trace, state, signal, selection, links } = services;
  const target = trace.kernel.target;
  const opsOf = trace.passes.map(
    ({ add = [], del = [], map = [] }) => new Set([...add, ...del, ...map.flat(2)]),
  );
  let wanted = (state.filter.get("passes") ?? "").toLowerCase();
  let shown = new AbortController();
  signal.addEventListener("abort", () => shown.abort());

  const changing = trace.passes.filter(({ changed }) => changed).length;
  const only = make("input", { type: "checkbox" });
  only.checked = state.onlyChanging;
  const mode = button("", { class: "wb-toggle wb-mode" }, () => toggleMode(), signal);
  const bar = make(
    "div",
    { class: "wb-bar" },
    make("label", { class: "wb-check" }, only, "only changing passes"),
    make(
      "span",
      { class: "wb-muted" },
      `${changing} of ${trace.passes.length} changed something · ` +
        milliseconds(trace.passes.reduce((sum, pass) => sum + pass.milliseconds, 0)),
    ),
    make("span", { class: "wb-grow" }),
    mode,
  );
  const list = make("div", {
    class: "wb-list",
    role: "listbox",
    tabindex: "0",
    "aria-label": "Passes",
  });
  const diff = make("div", { class: "wb-diff" });
  panel.append(bar, make("div", { class: "wb-split" }, list, diff));

  const visible = (): number[] =>
    trace.passes.flatMap((pass, i) =>
      (pass.changed || !state.onlyChanging) &&
      `${pass.pipe} ${pass.name}`.toLowerCase().includes(wanted)
        ? [i]
        : [],
    );
  let chosen = state.pass.get(target) ?? trace.passes.findIndex(({ changed }) => changed);

  const showList = (): number => {
    const found = visible();
    let pipe = "";
    const rows = found.flatMap((i) => {
      const pass = trace.passes[i] as Pass;
      const heading =
        pass.pipe === pipe
          ? []
          : [make("div", { class: "wb-pipe", role: "presentation" }, `${pass.pipe} pipeline`)];
      pipe = pass.pipe;
      return [...heading, passRow(pass, i, i === chosen)];
    });
    list.replaceChildren(...rows);
    list.setAttribute("role", found.length > 0 ? "listbox" : "group");
    list.removeAttribute("aria-activedescendant");
    if (found.includes(chosen)) list.setAttribute("aria-activedescendant", rowId(chosen));
    if (found.length === 0) {
      list.append(
        make(
          "p",
          { class: "wb-empty" },
          trace.passes.length ? "Nothing matches." : "No passes recorded.",
        ),
      );
    }
    markPins();
    return found.length;
  };
  const prefix = panel.id;
  const rowId = (i: number): string => `${prefix}-pass${i}`;
  const passRow = (pass: Pass, i: number, current: boolean): HTMLElement => {
    const changes = [
      pass.add?.length ? `+${pass.add.length}` : "",
      pass.del?.length ? `−${pass.del.length}` : "",
      pass.map?.length ? `~${pass.map.length}` : "",
    ].filter(Boolean);
    return make(
      "div",
      {
        class: "wb-pass",
        role: "option",
        id: rowId(i),
        "data-pass": String(i),
        "aria-selected": String(current),
        "data-changed": String(pass.changed),
      },
      make("span", { class: "wb-pass-name" }, pass.name),
      make("span", { class: "wb-changes" }, changes.join(" ")),
      make("span", { class: "wb-pass-time" }, milliseconds(pass.milliseconds)),
    );
  };
  const choose = (i: number): void => {
    chosen = i;
    state.pass.set(target, i);
    for (const row of list.querySelectorAll(".wb-pass")) {
      row.setAttribute("aria-selected", String(row.id === rowId(i)));
    }
    list.setAttribute("aria-activedescendant", rowId(i));
    const row = treeOf(list).getElementById(rowId(i));
    if (
      row &&
      (row.offsetTop < list.scrollTop ||
        row.offsetTop + row.offsetHeight > list.scrollTop + list.clientHeight)
    ) {
      list.scrollTop = row.offsetTop - list.clientHeight / 3;
    }
    showDiff();
  };
  const showDiff = (): void => {
    shown.abort();
    shown = new AbortController();
    mode.textContent = state.sideBySide ? "side by side" : "unified";
    mode.title = "d switches between side by side and unified";
    mode.setAttribute("aria-label", `Diff: ${mode.textContent}; switch`);
    diff.replaceChildren();
    const pass = trace.passes[chosen];
    if (pass) fillDiff(diff, pass, services, shown.signal);
  };
  const toggleMode = (): void => {
    state.sideBySide = !state.sideBySide;
    showDiff();
  };

  /** Passes that made, dropped or replaced a pinned op. */
  const markPins = (): void => {
    const pins = selection.choice.pins.map(({ ops }) => links.family(ops));
    for (const row of list.querySelectorAll<HTMLElement>("[data-pass]")) {
      const marks = pinClasses(pins, opsOf[Number(row.dataset.pass)] ?? []);
      row.className = marks === "" ? "wb-pass" : `wb-pass wb-marked ${marks}`;
    }
  };
  selection.subscribe(markPins, signal);

  only.addEventListener(
    "change",
    () => {
      state.onlyChanging = only.checked;
      showList();
    },
    { signal },
  );
  list.addEventListener(
    "click",
    (event) => {
      const row = (event.target as Element).closest<HTMLElement>("[data-pass]");
      if (row) choose(Number(row.dataset.pass));
    },
    { signal },
  );
  list.addEventListener(
    "keydown",
    (event) => {
      const found = visible();
      const at = found.indexOf(chosen);
      const goal = {
        ArrowDown: at + 1,
        ArrowUp: at - 1,
        Home: 0,
        End: found.length - 1,
        PageDown: at + 10,
        PageUp: at - 10,
      }[event.key];
      if (goal === undefined || event.ctrlKey || event.altKey || found.length === 0) return;
      event.preventDefault();
      choose(found[Math.max(0, Math.min(found.length - 1, goal))] ?? 0);
    },
    { signal },
  );
  showList();
  showDiff();
  return {
    filter(text) {
      wanted = text.toLowerCase();
      const found = showList();
      return text === "" ? "" : `${found} of ${trace.passes.length} passes`;
    },
    key(event) {
      if (event.key === "F6") {
        (treeOf(list).activeElement === list
          ? diff.querySelector<HTMLElement>(".wb-scroller")
          : list
        )?.focus();
        return true;
      }
      if (event.key !== "d") return false;
      toggleMode();
      return true;
    },
  };
}

interface DiffSide {
  lines: string[];
  ops: RowOps;
}

/** Fill `root` with what a pass changed, pins marked. */
export function fillDiff(
  root: HTMLElement,
  pass: Pass,
  services: TabServices,
  signal: AbortSignal,
): void {
  const { trace, state, selection, links } = services;
  const { before, after } = pass;
  let pins = selection.choice.pins.map(({ ops }) => links.family(ops));
  // Without a row map of both texts only the rows' texts can be compared.
  const maps = [before, after].map((text) =>
    typeof text === "number" ? rowsOfText(trace, text) : undefined,
  );
  const linked = maps.every((rows) => rows !== undefined);
  const [old, now] = [before, after].map((text, i) => {
    const lines = typeof text === "number" ? (trace.strings[text] ?? "").split("\n") : [];
    return { lines, ops: spreadRows(linked ? (maps[i] ?? []) : [], lines.length) };
  }) as [DiffSide, DiffSide];
  const dropped = typeof before !== "number" || typeof after !== "number";
  const edits = dropped ? [] : diffTexts(old.lines, old.ops, now.lines, now.ops);
  const amount = (change: Edit["change"]): number =>
    edits.filter((edit) => edit.change === change).length;
  const summary = dropped
    ? "The texts of this pass were dropped to save space; its op changes are in the list."
    : before === after || edits.every(({ change }) => change === "same")
      ? "This pass changed nothing."
      : [
          `+${amount("added")} rows`,
          `−${amount("removed")} rows`,
          amount("moved-to") > 0 ? `${amount("moved-to")} moved` : "",
        ]
          .filter(Boolean)
          .join(" · ");
  const stats = Object.entries(pass.stats ?? {}).map(([name, value]) => `${value} ${name}`);
  root.append(
    make(
      "div",
      { class: "wb-title" },
      make("b", {}, pass.name),
      make("span", {}, [summary, ...stats].join(" · ")),
    ),
  );
  const rules = appliedRules(pass, services, signal);
  if (rules) root.append(rules);
  if (dropped) return;

  const body = make("div", { class: "wb-body" });
  root.append(body);
  const lang = LANGUAGES[pass.pipe] ?? "ir";
  const unfolded = new Set<number>();
  const allSame = edits.every(({ change }) => change === "same");
  let lines: Line[] = [];
  let pairs: ReturnType<typeof pairRows> = [];
  const arrange = (): void => {
    lines = allSame ? [...edits] : foldUnchanged(edits, unfolded);
    pairs = state.sideBySide ? pairRows(lines) : [];
  };
  arrange();

  const half = (line: Line | undefined, which: "before" | "after" | "unified"): HTMLElement => {
    const element = make("div", { class: "wb-row wb-diff-row" });
    if (!line) {
      element.classList.add("wb-gap");
      return element;
    }
    if ("fold" in line) {
      const label = `⋯ ${line.fold.toLocaleString("en-US")} unchanged rows`;
      element.classList.add("wb-fold");
      element.append(make("button", { type: "button", "data-fold": String(line.first) }, label));
      return element;
    }
    const { change } = line;
    const fromBefore =
      which === "before" ||
      (which === "unified" && (change === "removed" || change === "moved-from"));
    const row = (fromBefore ? line.before : line.after) ?? 0;
    const text = (fromBefore ? old : now).lines[row] ?? "";
    element.classList.add(`wb-${change}`);
    const ops = (fromBefore ? old : now).ops[row] ?? [];
    const marks = pinClasses(pins, ops);
    if (marks !== "") element.classList.add(...marks.split(" "));
    if (ops.length > 0) element.dataset.ops = ops.join(" ");
    element.append(
      make("i", {}, String(row + 1)),
      make("b", { "aria-label": change, role: "img" }, SIGNS[change]),
    );
    const words = which === "unified" ? element : make("span", { class: "wb-shifted" });
    appendTokens(words, tokenize(text, lang));
    if (words !== element) element.append(make("span", { class: "wb-half" }, words));
    return element;
  };
  const makeRow = (i: number): HTMLElement => {
    if (!state.sideBySide) return half(lines[i], "unified");
    const [left, right] = pairs[i] ?? [];
    if (left && "fold" in left) return half(left, "unified");
    return make("div", { class: "wb-pair" }, half(left, "before"), half(right, "after"));
  };
  const total = (): number => (state.sideBySide ? pairs.length : lines.length);
  const longest = Math.max(
    40,
    ...[...old.lines, ...now.lines].slice(0, 20_000).map((l) => l.length),
  );
  const list = mountRows(
    body,
    { count: total(), columns: Math.min(longest, 2_000), makeRow, halves: state.sideBySide },
    signal,
  );
  list.scroller.tabIndex = 0; // scrollable, so reachable by keyboard
  list.scroller.setAttribute("role", "region");
  list.scroller.setAttribute("aria-label", `What ${pass.name} changed`);
  list.scroller.addEventListener(
    "click",
    (event) => {
      const fold = (event.target as Element).closest<HTMLElement>("[data-fold]");
      const chosen = (event.target as Element).closest<HTMLElement>("[data-ops]")?.dataset.ops;
      if (chosen && getSelection()?.isCollapsed !== false) {
        const ops = chosen.split(" ").map(Number);
        const [from = 0] = ops;
        const add = (event as MouseEvent).ctrlKey || (event as MouseEvent).metaKey;
        selection.pin({ stage: "", from, to: ops.at(-1) ?? from, ops: new Set(ops) }, add);
      }
      if (!fold) return;
      unfolded.add(Number(fold.dataset.fold));
      arrange();
      list.resize(total());
    },
    { signal },
  );
  selection.subscribe(({ pins: chosen }) => {
    pins = chosen.map(({ ops }) => links.family(ops));
    list.redraw();
  }, signal);
  const isPinned = (line: Line | undefined): boolean => {
    if (!line || "fold" in line || pins.length === 0) return false;
    const made = [old.ops[line.before ?? -1] ?? [], now.ops[line.after ?? -1] ?? []].flat();
    return pinClasses(pins, made) !== "";
  };
  const firstOf = (holds: (line: Line | undefined) => boolean): number =>
    state.sideBySide
      ? pairs.findIndex(([l, r]) => holds(l) || holds(r))
      : lines.findIndex((line) => holds(line));
  // What is pinned is what the user asks about.
  const change =
    [
      firstOf((line) => isChange(line) && isPinned(line)),
      firstOf(isPinned),
      firstOf(isChange),
    ].find((row) => row >= 0) ?? -1;
  if (change > 0) list.reveal(change);
}

/** The rewrite rules that a pass applied, each with the source lines that it was applied at. */
function appliedRules(
  pass: Pass,
  { trace, ops: table, go }: TabServices,
  signal: AbortSignal,
): HTMLElement | null {
  const rules = pass.rules ?? [];
  if (rules.length === 0) return null;
  const times = rules.reduce((sum, { ops }) => sum + ops.length, 0);
  const entry = sourceOfEntry(trace);
  const place = (op: number): HTMLElement | null => {
    const at = table.place(op);
    const name = placeName(trace, at);
    if (name === "") return null;
    const inEntry = at !== undefined && at[0] === entry.source;
    const to = inEntry ? { stage: "source", line: at[1] } : { op };
    return button(name, { class: "wb-place" }, () => go({ tab: "stages", ...to }), signal);
  };
  const row = ({ name, identity, ops }: AppliedRule): HTMLElement => {
    const places = ops.map(place).filter((found) => found !== null);
    const shown = new Map(places.map((found) => [found.textContent, found]));
    return make(
      "li",
      {},
      make("b", {}, name),
      make("code", {}, identity),
      make("span", { class: "wb-muted" }, `${ops.length} ×`),
      make("span", { class: "wb-places" }, ...shown.values()),
    );
  };
  return make(
    "details",
    { class: "wb-rules" },
    make("summary", {}, `${count(rules.length, "rule")} applied ${count(times, "time")}`),
    make("ul", {}, ...rules.map(row)),
  );
}

function isChange(line: Line | undefined): boolean {
  return line !== undefined && !("fold" in line) && line.change !== "same";
}
