// The Problems tab: errors, remarks and what was not done, in one list; a click goes to the place.
import { button, make } from "../dom";
import { pinClasses } from "../links";
import { placeName, sourceOfEntry } from "../stages";
import { count } from "../texts";
import type { Diagnostic, Place, Remark, Severity, Trace } from "../trace";
import type { Tab, TabServices } from "./tab";

type Kind = Severity | "skipped";

export interface Problem {
  severity: Kind;
  code: string;
  text: string;
  help: string;
  notes: string[];
  pass: string;
  places: { place: Place | undefined; op: number | undefined }[];
}

const ORDER: readonly Kind[] = ["error", "warning", "skipped", "missed", "note", "applied"];
const GLYPHS: Record<Kind, string> = {
  error: "✗",
  warning: "▲",
  skipped: "–",
  missed: "○",
  note: "i",
  applied: "✓",
};

/** Return all problems, the worst first; what is said at several places is one of them. */
export function problemsOf(trace: Trace): Problem[] {
  const of = (found: Remark | Diagnostic): Problem => ({
    severity: found.severity,
    code: found.code,
    text: found.text,
    help: "help" in found ? (found.help ?? "") : "",
    notes: "notes" in found ? (found.notes ?? []).map(({ text }) => text) : [],
    pass: typeof found.pass === "number" ? (trace.passes[found.pass]?.name ?? "") : "",
    places: [{ place: found.span ?? placeOfOp(trace, found.op), op: found.op ?? undefined }],
  });
  const skipped = (trace.runs.skipped ?? []).map(
    ({ what, why }): Problem => ({
      severity: "skipped",
      code: "",
      text: `${what} not done: ${why}`,
      help: "",
      notes: [],
      pass: "",
      places: [],
    }),
  );
  const errors = [...(trace.errors ?? []), ...(trace.runs.errors ?? [])];
  const all = [...errors.map(of), ...skipped, ...(trace.remarks ?? []).map(of)];
  const merged = new Map<string, Problem>();
  for (const problem of all) {
    const { places, ...said } = problem;
    const known = merged.get(JSON.stringify(said));
    if (known) known.places.push(...places);
    else merged.set(JSON.stringify(said), problem);
  }
  return [...merged.values()].sort((a, b) => ORDER.indexOf(a.severity) - ORDER.indexOf(b.severity));
}

/** The source line of an error with a caret from start to end, as the terminal shows it. */
function excerpt(trace: Trace, { severity, places }: Problem): HTMLElement | null {
  const place = places[0]?.place;
  if ((severity !== "error" && severity !== "warning") || !place) return null;
  const [index, line, column, endLine, endColumn] = place;
  const source = trace.sources[index];
  const text = trace.strings[source?.text ?? -1]?.split("\n")[line - (source?.line0 ?? 1)];
  if (text === undefined) return null;
  const end = endLine === line ? endColumn : text.length + 1;
  const carets = " ".repeat(Math.max(0, column - 1)) + "^".repeat(Math.max(1, end - column));
  return make("pre", { class: "wb-excerpt" }, `${text}\n`, make("b", {}, carets));
}

function placeOfOp(trace: Trace, op: number | null | undefined): Place | undefined {
  if (op === null || op === undefined) return undefined;
  return trace.ops.loc?.[trace.ops.id?.indexOf(op) ?? -1];
}

export function mountProblems(panel: HTMLElement, services: TabServices): Tab {
  const { trace, state, signal, selection, links, ops: table } = services;
  const problems = problemsOf(trace);
  const entry = sourceOfEntry(trace);
  const hidden = new Set<Kind>();
  let wanted = (state.filter.get("problems") ?? "").toLowerCase();

  const bar = make("div", { class: "wb-bar", role: "toolbar", "aria-label": "Severities to show" });
  const list = make("ul", { class: "wb-problems" });
  const empty = make("p", { class: "wb-empty" }, "No errors, no remarks.");
  panel.append(bar, list, empty);

  const link = ({ place, op }: Problem["places"][number]): HTMLElement => {
    const name = placeName(trace, place);
    const inEntry = place !== undefined && place[0] === entry.source;
    if (!inEntry && op === undefined) return make("span", { class: "wb-muted" }, name);
    const to = inEntry ? { stage: "source", line: place[1] } : { op };
    const go = (): void => services.go({ tab: "stages", ...to });
    return button(name || "show", { class: "wb-place" }, go, signal);
  };
  /** The ops that a problem is about: those named, and those that stand at its lines. */
  const lines = new Map<string, number[]>();
  for (const op of trace.ops.id ?? []) {
    const place = table.place(op);
    if (place && place[0] >= 0) {
      const key = `${place[0]}:${place[1]}`;
      lines.set(key, [...(lines.get(key) ?? []), op]);
    }
  }
  const opsOf = ({ places }: Problem): number[] =>
    places.flatMap(({ place, op }) =>
      op !== undefined ? [op] : place ? (lines.get(`${place[0]}:${place[1]}`) ?? []) : [],
    );
  const makeRow = (problem: Problem): HTMLElement => {
    const shown = new Map(problem.places.map((at) => [placeName(trace, at.place), at]));
    return make(
      "li",
      { "data-severity": problem.severity },
      make("span", { class: "wb-glyph", title: problem.severity }, GLYPHS[problem.severity]),
      make("span", { class: "wb-severity" }, problem.severity),
      make("code", {}, problem.code),
      make(
        "div",
        { class: "wb-problem-text" },
        make("p", {}, problem.text),
        excerpt(trace, problem),
        ...problem.notes.map((note) => make("p", { class: "wb-muted" }, `note: ${note}`)),
        problem.help !== "" && make("p", { class: "wb-help" }, `help: ${problem.help}`),
      ),
      make("span", { class: "wb-muted" }, problem.pass),
      make("span", { class: "wb-places" }, ...[...shown.values()].map(link)),
    );
  };
  let shown: { ops: number[]; row: HTMLElement }[] = [];
  const markPins = (): void => {
    const pins = selection.choice.pins.map(({ ops }) => links.family(ops));
    for (const { ops, row } of shown) {
      const marks = pinClasses(pins, ops);
      row.className = marks === "" ? "" : `wb-marked ${marks}`;
    }
  };
  selection.subscribe(markPins, signal);
  const show = (): number => {
    const matching = problems.filter(
      ({ severity, code, text, pass }) =>
        !hidden.has(severity) && `${code} ${text} ${pass}`.toLowerCase().includes(wanted),
    );
    shown = matching.map((problem) => ({ ops: opsOf(problem), row: makeRow(problem) }));
    list.replaceChildren(...shown.map(({ row }) => row));
    markPins();
    empty.hidden = matching.length > 0;
    empty.textContent = problems.length === 0 ? "No errors, no remarks." : "Nothing matches.";
    return matching.length;
  };
  for (const severity of ORDER) {
    const amount = problems.filter((problem) => problem.severity === severity).length;
    if (amount === 0) continue;
    const toggle = button(
      `${GLYPHS[severity]} ${severity} ${amount}`,
      { class: "wb-toggle", "aria-pressed": "true" },
      () => {
        if (!hidden.delete(severity)) hidden.add(severity);
        toggle.setAttribute("aria-pressed", String(!hidden.has(severity)));
        show();
      },
      signal,
    );
    bar.append(toggle);
  }
  bar.hidden = bar.childElementCount < 2;
  show();
  return {
    filter(text) {
      wanted = text.toLowerCase();
      const found = show();
      return text === "" ? "" : count(found, "problem");
    },
  };
}
