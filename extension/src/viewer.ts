// The viewer: header, tabs and status of one or several traces. mount() is what every host calls.
import { linkCell } from "./cell";
import { describeChoice, describeOps } from "./describe";
import { copyToClipboard, make, treeOf } from "./dom";
import type { ASKED, Bundle } from "./envelope";
import { makeHeader } from "./header";
import { makeKeyList } from "./keylist";
import { isTyping, keepKeys } from "./keys";
import { invertLinks } from "./links";
import { recordedAccesses } from "./programs";
import { type Choice, createSelection } from "./selection";
import { viewOps, viewStages } from "./stages";
import { isStale } from "./stale";
import css from "./style.css";
import { makeTabs, type TabEntry } from "./tabs/bar";
import { mountCompare } from "./tabs/compare";
import { mountFollow } from "./tabs/follow";
import { kindsOf, mountLayouts } from "./tabs/layouts";
import { mountPasses } from "./tabs/passes";
import { mountPerformance } from "./tabs/performance";
import { mountProblems, problemsOf } from "./tabs/problems";
import { mountPrograms } from "./tabs/programs";
import { mountSchedule } from "./tabs/schedule";
import { mountStages } from "./tabs/stages";
import { mountStep } from "./tabs/step";
import type { MountTab, Tab, TabServices, ViewerState } from "./tabs/tab";
import { count, NOTHING_PINNED, TAB_TITLES } from "./texts";
import { followTheme } from "./theme";
import type { Trace } from "./trace";

type TabId = keyof typeof TAB_TITLES;

export interface Viewer {
  /** Show newer traces of the same kernel; tab, panes and filters stay. */
  update(bundle: Bundle): void;
  /** The text of the notebook cell is this now: say so where it is not what was compiled. */
  cellText(text: string): void;
  end(): void;
}

export interface MountOptions {
  started?: number; // performance.now() when the host had the bytes
  limits?: string; // what this host cannot do, said below the panes
}

/** Show the traces of `bundle` in `host`. Sets data-ready and data-ms on it after two frames: tests wait on that. */
export function mount(
  host: HTMLElement,
  bundle: Bundle,
  { started = performance.now(), limits = "" }: MountOptions = {},
): Viewer {
  addStyle(host);
  const root = make("div", { class: "wb" });
  const whole = new AbortController();
  keepKeys(root, whole.signal);
  host.replaceChildren(root);
  followTheme(root, whole.signal);
  const state: ViewerState = {
    trace: 0,
    show: bundle.show,
    tab: askedOf(bundle) ?? "stages",
    open: new Map(),
    filter: new Map(),
    sideBySide: false,
    onlyChanging: true,
    pass: new Map(),
    compared: "",
    onlyDifferences: true,
    stop: 0,
    place: -1,
  };
  let inner = new AbortController();
  let current = bundle;
  let cell: string | undefined;
  const sayStale = (): void => {
    const badge = root.querySelector<HTMLElement>(".wb-stale");
    const trace = current.traces[state.trace];
    if (badge && trace) badge.hidden = cell === undefined || !isStale(cell, trace);
  };
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
    if (limits) root.append(make("p", { class: "wb-limits", role: "note" }, limits));
    sayStale();
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
    cellText(text) {
      cell = text;
      sayStale();
    },
    end() {
      inner.abort();
      whole.abort();
      root.remove();
    },
  };
}

/** Put the viewers' style sheet into the page that `host` is in, once. */
export function addStyle(host: HTMLElement): void {
  const tree = treeOf(host);
  if (tree.getElementById("wb-style")) return;
  (tree instanceof ShadowRoot ? tree : tree.head).append(make("style", { id: "wb-style" }, css));
}

/** What was asked of the traces, and is shown first. */
function askedOf(bundle: Bundle): (typeof ASKED)[number] | undefined {
  if (Array.isArray(bundle.compare?.labels) && bundle.traces.length === 2) return "compare";
  if (Array.isArray(bundle.follow?.stops)) return "follow";
  return Array.isArray(bundle.step?.steps) ? "step" : undefined;
}

/** The tabs of a trace: what was asked, Programs, Schedule and Layouts only where there is such a thing. */
function tabsOf(trace: Trace, asked: string | undefined): TabEntry[] {
  const changing = trace.passes.filter(({ changed }) => changed).length;
  const urgent = problemsOf(trace).filter(({ severity }) => severity !== "applied").length;
  const loops = trace.pipelines?.length ?? 0;
  const layouts = kindsOf(trace.layouts ?? []).length;
  const tab = (id: TabId, mount: MountTab, filtered: boolean, label = ""): TabEntry => ({
    id,
    title: TAB_TITLES[id],
    label,
    filtered,
    mount,
  });
  const passes = trace.passes.length > 0 ? `${changing}/${trace.passes.length}` : "";
  const tabs = [
    tab("compare", mountCompare, true),
    tab("follow", mountFollow, false),
    tab("step", mountStep, false),
    tab("stages", mountStages, true),
    tab("passes", mountPasses, true, passes),
    tab("schedule", mountSchedule, false, loops > 1 ? String(loops) : ""),
    tab("layouts", mountLayouts, false, layouts > 0 ? String(layouts) : ""),
    tab("programs", mountPrograms, false),
    tab("performance", mountPerformance, false),
    tab("problems", mountProblems, true, urgent > 0 ? String(urgent) : ""),
  ];
  const empty = {
    compare: asked !== "compare",
    follow: asked !== "follow",
    step: asked !== "step",
    programs: recordedAccesses(trace).length === 0,
    schedule: loops === 0,
    layouts: layouts === 0,
  };
  return tabs.filter(({ id }) => !(id in empty && empty[id as keyof typeof empty]));
}

function fill(
  root: HTMLElement,
  bundle: Bundle,
  state: ViewerState,
  chooseTrace: (index: number) => void,
  signal: AbortSignal,
): void {
  const { traces, trimmed } = bundle;
  const asked = askedOf(bundle);
  const compare = asked === "compare" ? bundle.compare : undefined;
  const trace = traces[state.trace] as Trace;
  const stages = viewStages(trace);
  const ops = viewOps(trace);
  const links = invertLinks(stages, ops);
  const selection = createSelection();
  const tabs = new Map<string, Tab>();
  linkCell(root, trace, links, selection, signal);

  const services: TabServices = {
    trace,
    traces,
    compare,
    follow: bundle.follow,
    step: bundle.step,
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
    { chooseTrace, go: services.go, showKeys: keys.toggle, save: () => void saveTraces(bundle) },
    signal,
    compare?.labels,
  );
  const status = make("div", { class: "wb-status", "aria-live": "polite" }, NOTHING_PINNED);
  selection.subscribe((choice) => {
    const sentence = describeChoice(choice, stages, links, trace, ops);
    if (status.textContent !== sentence) status.textContent = sentence;
  }, signal);
  const known = tabsOf(trace, asked);
  if (!known.some(({ id }) => id === state.tab)) state.tab = "stages";
  if (!asked && openProblems(trace)) state.tab = "problems";
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
      else if (event.key === "/" && known.some(({ id, filtered }) => id === state.tab && filtered))
        bar.focusFilter();
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

/** A failed run opens on its errors, and so does a failed compile without a stage beyond the source. */
function openProblems(trace: Trace): boolean {
  if ((trace.runs.errors ?? []).length > 0) return true;
  return (
    (trace.errors ?? []).length > 0 &&
    trace.stages.every(({ id }) => id === "source" || id === "ast")
  );
}

async function copyText(
  text: string,
  selection: { choice: Choice },
  status: HTMLElement,
): Promise<void> {
  const rows = text === "" ? 0 : text.split("\n").length;
  try {
    await copyToClipboard(text);
    status.textContent = `Copied ${count(rows, "row")}${selection.choice.pins.length > 0 ? " of the pin" : ""}.`;
  } catch {
    status.textContent = "The browser does not let this page write to the clipboard.";
  }
}

/** Offer the traces as a file: the same JSON, gzipped, that `workbench view` reads. */
async function saveTraces(bundle: Bundle): Promise<void> {
  const { traces } = bundle;
  const asked = askedOf(bundle);
  const whole = asked ? { traces, [asked]: bundle[asked] } : { traces };
  const json = JSON.stringify(traces.length === 1 && !asked ? traces[0] : whole);
  const packed = new Blob([json]).stream().pipeThrough(new CompressionStream("gzip"));
  const url = URL.createObjectURL(await new Response(packed).blob());
  const link = make("a", { href: url, download: `${traces[0]?.kernel.name ?? "kernel"}.wbt` });
  link.hidden = true;
  // VS Code saves what it sees clicked in its page, and reads the bytes after that.
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
