// The header: which kernel, for which target, what it takes, how long it took, whether it is right.
import { button, make } from "./dom";
import { ranFor } from "./stages";
import { bytes, milliseconds, STAGE_TITLES, STALE } from "./texts";
import type { Trace } from "./trace";

export interface HeaderActions {
  chooseTrace(index: number): void;
  go(to: { tab: string; stage?: string }): void;
  showKeys(): void;
  save(): void;
}

/** One fact of the header; `to` is the place where it comes from. */
export interface Fact {
  label: string;
  value: string;
  title: string;
  tone?: "good" | "bad" | "quiet";
  to?: { tab: string; stage?: string };
}

/** What each of several traces is called beside the others: only what differs. */
export function traceLabels(traces: readonly Trace[]): string[] {
  const differs = (pick: (trace: Trace) => string): boolean => new Set(traces.map(pick)).size > 1;
  const [names, specs] = [
    differs(({ kernel }) => kernel.name),
    differs(({ kernel }) => kernel.spec ?? ""),
  ];
  const targets = differs(({ kernel }) => kernel.target);
  return traces.map(({ kernel }, i) => {
    const parts = [
      names ? kernel.name : "",
      targets ? kernel.target : "",
      specs && !targets ? (kernel.spec ?? "") : "",
    ].filter(Boolean);
    return parts.join(" · ") || `run ${i + 1}`;
  });
}

/** Return the facts of a trace; what nobody measured is "unknown", never a guess. */
export function factsOf(trace: Trace, all: readonly Trace[] = [trace]): Fact[] {
  const { resources } = trace;
  const ran = ranFor(trace, all);
  const { runs } = ran;
  const on = ran === trace ? "" : `${ran.kernel.target} `; // whose time and verdict these are
  const gpu = trace.stages.some(({ id }) => id === "ptx");
  const facts: Fact[] = [];
  const sass = { tab: "stages", stage: "sass" };
  const add = (
    label: string,
    value: string | null | undefined,
    title: string,
    more: Partial<Fact> = {},
  ): void => {
    if (typeof value === "string") facts.push({ label, value, title, ...more });
    else if (gpu) facts.push({ label, value: "unknown", title, tone: "quiet" });
  };
  const known = <T>(value: T | null | undefined, show: (value: T) => string): string | null =>
    value === null || value === undefined ? null : show(value);
  add("regs", known(resources.registers, String), "registers per thread", { to: sass });
  const stored = resources.spill_store_bytes;
  add("spills", known(stored, bytes), "bytes of registers spilled to memory", {
    to: sass,
    ...((stored ?? 0) > 0 ? { tone: "bad" as const } : {}),
  });
  const shared = known(resources.shared_bytes, (fixed) =>
    bytes(fixed + (resources.dynamic_shared_bytes ?? 0)),
  );
  if (gpu)
    add("shared", shared, "shared memory per program", { to: { tab: "stages", stage: "gpu" } });
  const occupancy = known(resources.occupancy, ({ warps, max, limit }) => {
    return `${Math.round((100 * warps) / max)} %${limit ? ` (${limit})` : ""}`;
  });
  add(
    "occupancy",
    occupancy,
    "resident warps of the most that fit on one multiprocessor; in brackets what limits them",
  );
  const launched = runs.launches?.findLast(({ milliseconds: time }) => typeof time === "number");
  if (typeof launched?.milliseconds === "number") {
    facts.push({
      label: `${on}time`,
      value: milliseconds(launched.milliseconds),
      title: `one launch on ${launched.device}`,
      to: { tab: "performance" },
    });
  }
  const checks = runs.checks ?? [];
  if (checks.length > 0) {
    const bad = checks.filter(({ ok }) => !ok).length;
    facts.push({
      label: `${on}check`,
      value: bad === 0 ? "✓ ok" : "✗ failed",
      title: checks
        .map(({ ref, ok }) => `${ok ? "agrees with" : "differs from"} ${ref}`)
        .join("; "),
      tone: bad === 0 ? "good" : "bad",
      to: { tab: "performance" },
    });
  }
  return facts;
}

/** Milliseconds of compilation by stage, in the order of the stages. */
export function compileTimes(trace: Trace): { name: string; milliseconds: number }[] {
  const timed = trace.stages.flatMap(({ id, milliseconds: time }) =>
    typeof time === "number" ? [{ name: STAGE_TITLES[id] ?? id, milliseconds: time }] : [],
  );
  if (timed.length > 0) return timed;
  const pipes = new Map<string, number>();
  for (const { pipe, milliseconds: time } of trace.passes) {
    pipes.set(pipe, (pipes.get(pipe) ?? 0) + time);
  }
  return [...pipes].map(([pipe, time]) => ({ name: `${pipe} passes`, milliseconds: time }));
}

function badgesOf(trace: Trace, trimmed: readonly string[]): { text: string; title: string }[] {
  const badges: { text: string; title: string }[] = [];
  if (trace.kernel.cached) {
    badges.push({
      text: "cached",
      title: "the compilation came from the cache; times are those of the first",
    });
  }
  if (trace.runs.launches?.some(({ guarded }) => guarded)) {
    badges.push({
      text: "guarded",
      title: "every access of the launch was checked; the panes show the code without checks",
    });
  }
  if (trace.kernel.overridden) {
    badges.push({
      text: `overridden: ${trace.kernel.overridden}`,
      title: "this stage was edited by hand",
    });
  }
  if (trimmed.length > 0) {
    badges.push({ text: "trimmed", title: `left out to save space: ${trimmed.join(", ")}` });
  }
  for (const { what, why } of trace.runs.skipped ?? []) {
    if (what === "launch") badges.push({ text: `not launched: ${why}`, title: why });
  }
  return badges;
}

/** Return the header of `traces[shown]`; `sides` names the traces of a comparison. */
export function makeHeader(
  traces: readonly Trace[],
  shown: number,
  trimmed: readonly string[],
  actions: HeaderActions,
  signal: AbortSignal,
  sides?: readonly string[],
): HTMLElement {
  const trace = traces[shown] as Trace;
  const { kernel } = trace;
  const facts = factsOf(trace, traces).map(({ label, value, title, tone, to }) => {
    const attributes = { class: "wb-fact", title, "data-tone": tone ?? "", "data-fact": label };
    const content = make("span", {}, `${label} `, make("b", {}, value));
    return to
      ? button(
          content,
          { ...attributes, "aria-label": `${label} ${value}: ${title}` },
          () => actions.go(to),
          signal,
        )
      : make("span", attributes, content);
  });
  const times = compileTimes(trace);
  const total = times.reduce((sum, { milliseconds: time }) => sum + time, 0);
  const compile = button(
    make(
      "span",
      {},
      "compiled in ",
      make("b", {}, milliseconds(total)),
      ...times.map(({ name, milliseconds: time }) =>
        make("span", { class: "wb-part" }, ` ${name} `, make("b", {}, milliseconds(time))),
      ),
    ),
    { class: "wb-compile", title: "time of each stage; opens the passes" },
    () => actions.go({ tab: "passes" }),
    signal,
  );
  return make(
    "header",
    { class: "wb-header" },
    make(
      "div",
      { class: "wb-line-one" },
      make("b", { class: "wb-name" }, kernel.name),
      traces.length === 1 && make("span", { class: "wb-target" }, kernel.target),
      traces.length > 1 && targetSelector(traces, shown, actions, signal, sides),
      kernel.spec ? make("span", { class: "wb-spec" }, kernel.spec) : null,
      make(
        "span",
        { class: "wb-badge wb-stale", title: STALE, role: "status", hidden: "" },
        "stale",
      ),
      ...badgesOf(trace, trimmed).map(({ text, title }) =>
        make("span", { class: "wb-badge", title }, text),
      ),
      make("span", { class: "wb-grow" }),
      button(
        "save",
        { class: "wb-quiet", title: "save this trace as a .wbt file" },
        actions.save,
        signal,
      ),
      button(
        "?",
        { class: "wb-quiet", title: "keys", "aria-label": "Show the keys" },
        actions.showKeys,
        signal,
      ),
    ),
    make("div", { class: "wb-facts" }, ...facts, times.length > 0 ? compile : null),
  );
}

const MOST_BUTTONS = 4;

function targetSelector(
  traces: readonly Trace[],
  shown: number,
  actions: HeaderActions,
  signal: AbortSignal,
  sides?: readonly string[],
): HTMLElement {
  const labels = sides ? sides.map((_, i) => "AB"[i] ?? "") : traceLabels(traces);
  if (traces.length > MOST_BUTTONS) {
    const select = make(
      "select",
      { "aria-label": "Target" },
      ...labels.map((label, i) => make("option", { value: String(i) }, label)),
    );
    select.value = String(shown);
    select.addEventListener("change", () => actions.chooseTrace(Number(select.value)), { signal });
    return select;
  }
  return make(
    "div",
    { class: "wb-targets", role: "group", "aria-label": sides ? "Side" : "Target" },
    ...labels.map((label, i) =>
      button(
        label,
        { "aria-pressed": String(i === shown), title: sides?.[i] ?? whatRan(traces[i] as Trace) },
        () => actions.chooseTrace(i),
        signal,
      ),
    ),
  );
}

function whatRan({ runs }: Trace): string {
  const launches = runs.launches?.length ?? 0;
  return launches > 0 ? "compiled and launched" : "compiled only";
}
