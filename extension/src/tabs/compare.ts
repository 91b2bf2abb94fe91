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
import { button, make } from "../dom";
import { SHOWN } from "../limits";
import { type ComparedStage, type FacingRows, mountFacing } from "../panes/facing";
import { createSelection } from "../selection";
import { count, NOTHING_PINNED, noLink, STAGE_TITLES } from "../texts";
import type { Comparison, FacingStage, Share } from "../trace";
import { numbersOf } from "./numbers";
import type { Tab, TabServices } from "./tab";

/** The stage that is shown first is the first of these that differs. */
const FIRST = ["source", "gpu", "sass", "asm", "ptx", "llvm", "tile"];

export function mountCompare(panel: HTMLElement, services: TabServices): Tab {
  const { compare: comparison, state, signal } = services;
  const [first, second] = services.traces;
  if (!comparison || !first || !second) return {};
  const compared = compareTraces(first, second, comparison);
  const stages = stagesOf(compared, comparison);
  const selection = createSelection();
  const shownSide = state.trace === 0 ? compared.a : compared.b;
  let mounted: FacingRows | undefined;
  let shown = new AbortController();
  signal.addEventListener("abort", () => shown.abort());

  /** Pin ops under common numbers here, and those of the side that is chosen in the other tabs. */
  const pin = (name: string, from: number, to: number, ops: Set<number>, add: boolean): void => {
    selection.pin({ stage: name, from, to, ops }, add);
    const own = new Set([...ops].flatMap((op) => shownSide.own(op) ?? []));
    const pinned = selection.choice.pins.length > 0;
    const nothing = ops.size === 0 && to >= from ? noLink(name) : NOTHING_PINNED;
    const note = pinned ? pinWords(ops, compared, stages) : nothing;
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
