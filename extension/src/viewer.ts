// The viewer: header, tabs and status of one or several traces. mount() is what every host calls.
import { button, make, uniqueId } from "./dom";
import type { Bundle } from "./envelope";
import { makeHeader } from "./header";
import { isTyping, keepKeys } from "./keys";
import { invertLinks, type Links } from "./links";
import { type Choice, createSelection } from "./selection";
import { type OpTable, placeName, type StageView, viewOps, viewStages } from "./stages";
import css from "./style.css";
import { mountPasses } from "./tabs/passes";
import { mountPerformance } from "./tabs/performance";
import { mountProblems, problemsOf } from "./tabs/problems";
import { mountPrograms, recordedAccesses } from "./tabs/programs";
import { mountStages } from "./tabs/stages";
import type { MountTab, Tab, TabServices, ViewerState } from "./tabs/tab";
import { count, KEYS, NOTHING_PINNED, STAGE_TITLES, TAB_TITLES } from "./texts";
import { followTheme } from "./theme";
import type { StageId, Trace } from "./trace";

type TabId = keyof typeof TAB_TITLES;

export interface Viewer {
  /** Show newer traces of the same kernel; tab, panes and filters stay. */
  update(bundle: Bundle): void;
  end(): void;
}

export interface MountOptions {
  started?: number; // performance.now() when the host had the bytes
}

/** Show the traces of `bundle` in `host`. Sets data-ready and data-ms on it after two frames: tests wait on that. */
export function mount(
  host: HTMLElement,
  bundle: Bundle,
  { started = performance.now() }: MountOptions = {},
): Viewer {
  addStyle();
  const root = make("div", { class: "wb" });
  const whole = new AbortController();
  keepKeys(root, whole.signal);
  host.replaceChildren(root);
  followTheme(root, whole.signal);
  const state: ViewerState = {
    trace: 0,
    show: bundle.show,
    tab: "stages",
    open: new Map(),
    filter: new Map(),
    sideBySide: false,
    onlyChanging: true,
    pass: new Map(),
  };
  let inner = new AbortController();
  let current = bundle;
  const paint = (): void => {
    inner.abort();
    inner = new AbortController();
    state.trace = Math.min(state.trace, current.traces.length - 1);
    const choose = (index: number): void => {
      state.trace = index;
      paint();
      root.querySelector<HTMLElement>('.wb-targets [aria-pressed="true"]')?.focus();
    };
    fill(root, current, state, choose, inner.signal);
  };
  paint();
  requestAnimationFrame(() =>
    requestAnimationFrame(() => {
      host.dataset.ms = String(performance.now() - started);
      host.dataset.ready = "1";
    }),
  );
  return {
    update(newer) {
      current = newer;
      paint();
    },
    end() {
      inner.abort();
      whole.abort();
      root.remove();
    },
  };
}

function addStyle(): void {
  if (document.getElementById("wb-style")) return;
  document.head.append(make("style", { id: "wb-style" }, css));
}

const TABS: Record<TabId, MountTab> = {
  stages: mountStages,
  passes: mountPasses,
  programs: mountPrograms,
  performance: mountPerformance,
  problems: mountProblems,
};
const FILTERED: ReadonlySet<string> = new Set(["stages", "passes", "problems"]);

/** The tabs of a trace: Programs only where the interpreter recorded accesses. */
function tabsOf(trace: Trace): { id: TabId; label: string }[] {
  const changing = trace.passes.filter(({ changed }) => changed).length;
  const urgent = problemsOf(trace).filter(({ severity }) => severity !== "applied").length;
  const labels: Record<TabId, string> = {
    stages: "",
    passes: trace.passes.length > 0 ? `${changing}/${trace.passes.length}` : "",
    programs: "",
    performance: "",
    problems: urgent > 0 ? String(urgent) : "",
  };
  return (Object.keys(TABS) as TabId[])
    .filter((id) => id !== "programs" || recordedAccesses(trace).length > 0)
    .map((id) => ({ id, label: labels[id] }));
}

function fill(
  root: HTMLElement,
  { traces, trimmed }: Bundle,
  state: ViewerState,
  chooseTrace: (index: number) => void,
  signal: AbortSignal,
): void {
  const trace = traces[state.trace] as Trace;
  const stages = viewStages(trace);
  const ops = viewOps(trace);
  const links = invertLinks(stages, ops);
  const selection = createSelection();
  const tabs = new Map<string, Tab>();

  const services: TabServices = {
    trace,
    stages,
    ops,
    links,
    selection,
    state,
    describe: (chosen) => describeOps(chosen, ops, trace),
    go({ tab, ...to }) {
      bar.select(tab);
      tabs.get(tab)?.show?.(to);
    },
    signal,
  };
  const keys = makeKeyList(signal);
  const header = makeHeader(
    traces,
    state.trace,
    trimmed,
    { chooseTrace, go: services.go, showKeys: keys.toggle, save: () => void saveTraces(traces) },
    signal,
  );
  const status = make("div", { class: "wb-status", "aria-live": "polite" }, NOTHING_PINNED);
  selection.subscribe((choice) => {
    const sentence = describeChoice(choice, stages, links, trace, ops);
    if (status.textContent !== sentence) status.textContent = sentence;
  }, signal);
  const known = tabsOf(trace);
  if (!known.some(({ id }) => id === state.tab)) state.tab = "stages";
  if (openProblems(trace)) state.tab = "problems";
  const bar = makeTabs(known, services, tabs);
  root.replaceChildren(header, bar.element, ...bar.panels, status, keys.element);
  bar.select(state.tab);

  root.addEventListener(
    "keydown",
    (event) => {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "Escape" && keys.hide()) return;
      if (isTyping(event)) return;
      const tab = tabs.get(state.tab);
      if (event.key === "?") keys.toggle();
      else if (event.key === "/" && FILTERED.has(state.tab)) bar.focusFilter();
      else if (event.key === "c" && tab?.copy) void copyText(tab.copy(), selection, status);
      else if (!tab?.key?.(event)) return;
      event.preventDefault();
    },
    { signal },
  );
  root.addEventListener(
    "copy",
    (event) => {
      const text = tabs.get(state.tab)?.copy?.();
      if (isTyping(event) || !text || !getSelection()?.isCollapsed) return;
      event.clipboardData?.setData("text/plain", text);
      event.preventDefault();
    },
    { signal },
  );
}

/** A failed compile opens on its errors, unless a stage beyond the source can be read beside them. */
function openProblems(trace: Trace): boolean {
  return (
    (trace.errors ?? []).length > 0 &&
    trace.stages.every(({ id }) => id === "source" || id === "ast")
  );
}

interface TabBar {
  element: HTMLElement;
  panels: HTMLElement[];
  select(id: string): void;
  focusFilter(): void;
}

/** ARIA tabs with automatic activation; a tab's content is made when first shown, then only hidden. */
function makeTabs(
  known: { id: TabId; label: string }[],
  services: TabServices,
  tabs: Map<string, Tab>,
): TabBar {
  const { state, signal } = services;
  const entries = known.map(({ id, label }) => {
    const panelId = uniqueId("panel");
    const tab = make(
      "button",
      {
        type: "button",
        role: "tab",
        id: `${panelId}-tab`,
        "aria-controls": panelId,
        "data-tab": id,
      },
      TAB_TITLES[id],
      label !== "" && make("span", { class: "wb-count" }, label),
    );
    const panel = make("div", {
      role: "tabpanel",
      id: panelId,
      class: "wb-panel",
      tabindex: "-1",
      "aria-labelledby": tab.id,
    });
    return { id, tab, panel };
  });
  const list = make(
    "div",
    { role: "tablist", "aria-label": "Kernel views" },
    ...entries.map(({ tab }) => tab),
  );
  const box = make("input", {
    type: "search",
    class: "wb-filter",
    "aria-label": "Find in this tab",
    placeholder: "find  /",
    spellcheck: "false",
  });
  const found = make("span", { class: "wb-muted wb-found-count", "aria-live": "polite" });
  const select = (id: string): void => {
    for (const entry of entries) {
      const chosen = entry.id === id;
      entry.tab.setAttribute("aria-selected", String(chosen));
      entry.tab.tabIndex = chosen ? 0 : -1;
      entry.panel.hidden = !chosen;
      if (chosen && !tabs.has(id)) tabs.set(id, mountSafely(TABS[entry.id], entry.panel, services));
    }
    state.tab = id;
    box.hidden = found.hidden = !FILTERED.has(id);
    box.value = state.filter.get(id) ?? "";
    found.textContent = box.value === "" ? "" : (tabs.get(id)?.filter?.(box.value) ?? "");
  };
  for (const { id, tab } of entries) tab.addEventListener("click", () => select(id), { signal });
  list.addEventListener(
    "keydown",
    (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step || event.altKey) return;
      event.preventDefault();
      const at = entries.findIndex(({ id }) => id === state.tab);
      const next = entries[(at + step + entries.length) % entries.length];
      if (!next) return;
      select(next.id);
      next.tab.focus();
    },
    { signal },
  );
  box.addEventListener(
    "input",
    () => {
      state.filter.set(state.tab, box.value);
      found.textContent = tabs.get(state.tab)?.filter?.(box.value) ?? "";
    },
    { signal },
  );
  box.addEventListener(
    "keydown",
    (event) => {
      if (event.key === "Enter") tabs.get(state.tab)?.next?.(event.shiftKey ? -1 : 1);
      else if (event.key === "Escape" && box.value !== "") {
        box.value = "";
        box.dispatchEvent(new Event("input"));
      } else return;
      event.preventDefault();
      event.stopPropagation(); // also from the notebook: Shift+Enter would run the cell
    },
    { signal },
  );
  return {
    element: make(
      "div",
      { class: "wb-tabs" },
      list,
      make("span", { class: "wb-grow" }),
      found,
      box,
    ),
    panels: entries.map(({ panel }) => panel),
    select,
    focusFilter: () => box.focus(),
  };
}

/** Mount a tab; a fault in it leaves the other tabs usable and can be reported. */
function mountSafely(mountTab: MountTab, panel: HTMLElement, services: TabServices): Tab {
  try {
    return mountTab(panel, services);
  } catch (error) {
    const report =
      error instanceof Error ? `${error.message}\n${error.stack ?? ""}` : String(error);
    console.error(error);
    panel.replaceChildren(
      make(
        "div",
        { class: "wb-fault", role: "alert" },
        make(
          "p",
          {},
          "This tab could not be shown. That is a fault of the viewer; the other tabs work.",
        ),
        make("pre", {}, report),
        button(
          "copy report",
          { class: "wb-toggle" },
          () => void navigator.clipboard?.writeText(report),
          services.signal,
        ),
      ),
    );
    return {};
  }
}

const MOST_NAMED = 6;

function describeOps(chosen: ReadonlySet<number>, ops: OpTable, trace: Trace): string {
  const lines = [...chosen].slice(0, MOST_NAMED).map((op) => {
    const place = placeName(trace, ops.place(op));
    return `${ops.name(op) || "op"} (op ${op})${place ? ` from ${place}` : ""}`;
  });
  if (chosen.size > MOST_NAMED) lines.push(`and ${chosen.size - MOST_NAMED} more`);
  return lines.join("\n");
}

/** "Pinned line 19: 3 ops → 14 PTX rows, 22 SASS rows", or what the last action said. */
export function describeChoice(
  choice: Choice,
  stages: readonly StageView[],
  links: Links,
  trace: Trace,
  ops: OpTable,
): string {
  if (choice.note !== "") return choice.note;
  const pin = choice.pins.at(-1);
  if (!pin) return NOTHING_PINNED;
  const stage = stages.find(({ id }) => id === pin.stage);
  const first = stage?.firstLine ?? 1;
  const rows =
    pin.from === pin.to ? `${pin.from + first}` : `${pin.from + first}–${pin.to + first}`;
  const where = stage ? `${stage.title} ${pin.from === pin.to ? "line" : "lines"} ${rows}` : "op";
  const lines = [
    ...new Set(
      [...pin.ops].map((op) => placeName(trace, ops.place(op))).filter((place) => place !== ""),
    ),
  ];
  const origin =
    stage?.id !== "source" && lines.length > 0 ? ` from ${lines.slice(0, 3).join(", ")}` : "";
  const family = links.family(pin.ops);
  const counts = stages
    .filter(({ id }) => id !== pin.stage)
    .map(({ id }) => ({ id, rows: links.rowsOf(id, family).size }))
    .filter(({ rows: hits }) => hits > 0)
    .map(({ id, rows: hits }) => count(hits, `${STAGE_TITLES[id as StageId] ?? id} row`));
  const more = choice.pins.length > 1 ? ` · ${choice.pins.length} pins` : "";
  const linked = counts.length > 0 ? ` → ${counts.join(", ")}` : "";
  return `Pinned ${where}${origin}: ${count(pin.ops.size, "op")}${linked}${more}`;
}

interface KeyList {
  element: HTMLElement;
  toggle(): void;
  /** True if the list was open. */
  hide(): boolean;
}

function makeKeyList(signal: AbortSignal): KeyList {
  const id = uniqueId("keys");
  let opener: Element | null = null;
  const hide = (): boolean => {
    if (element.hidden) return false;
    element.hidden = true;
    if (opener instanceof HTMLElement) opener.focus();
    return true;
  };
  const close = button("close", { class: "wb-toggle" }, hide, signal);
  const element = make(
    "section",
    { class: "wb-keys", role: "dialog", "aria-labelledby": id },
    make("h3", { id }, "Keys"),
    make(
      "dl",
      {},
      ...KEYS.flatMap(([keys, action]) => [make("dt", {}, keys), make("dd", {}, action)]),
    ),
    close,
  );
  element.hidden = true;
  return {
    element,
    hide,
    toggle() {
      if (hide()) return;
      opener = document.activeElement;
      element.hidden = false;
      close.focus();
    },
  };
}

async function copyText(
  text: string,
  selection: { choice: Choice },
  status: HTMLElement,
): Promise<void> {
  const rows = text === "" ? 0 : text.split("\n").length;
  try {
    await navigator.clipboard.writeText(text);
    status.textContent = `Copied ${count(rows, "row")}${selection.choice.pins.length > 0 ? " of the pin" : ""}.`;
  } catch {
    status.textContent = "The browser does not let this page write to the clipboard.";
  }
}

/** Offer the traces as a file: the same JSON, gzipped, that `workbench view` reads. */
async function saveTraces(traces: readonly Trace[]): Promise<void> {
  const json = JSON.stringify(traces.length === 1 ? traces[0] : { traces });
  const packed = new Blob([json]).stream().pipeThrough(new CompressionStream("gzip"));
  const url = URL.createObjectURL(await new Response(packed).blob());
  make("a", { href: url, download: `${traces[0]?.kernel.name ?? "kernel"}.wbt` }).click();
  URL.revokeObjectURL(url);
}
