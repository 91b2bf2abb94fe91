// The Schedule tab: what each role of a pipelined loop does in a round, and how many rounds ahead.
// Rows are steps in program order, columns are stages; a click on a bar pins its ops everywhere.
import { button, make } from "../dom";
import { pinClasses } from "../links";
import { ringWords, roleWords, stagesOf, stageWords, stepWords } from "../schedule";
import { placeName } from "../stages";
import type { Pipeline, Step } from "../trace";
import type { Tab, TabServices } from "./tab";

const PHASES = { before: "before the loop", round: "", after: "after the loop" } as const;

export function mountSchedule(panel: HTMLElement, services: TabServices): Tab {
  const { trace, ops, signal, selection, links } = services;
  const bars: { bar: HTMLElement; made: ReadonlySet<number> }[] = [];

  const barOf = (step: Step): HTMLElement => {
    const made = new Set(step.ops ?? []);
    const number = bars.length;
    const bar = make(
      "button",
      { type: "button", "data-kind": step.kind, title: services.describe(made) },
      make("span", { class: "wb-bar-words" }, stepWords(step)),
    );
    const pin = (event: MouseEvent): void => {
      const at = { stage: "schedule", from: number, to: number, ops: made };
      selection.pin(at, event.ctrlKey || event.metaKey);
    };
    bar.addEventListener("click", pin, { signal });
    const point = (chosen: ReadonlySet<number>) => () => selection.point("schedule", chosen);
    bar.addEventListener("pointerenter", point(made), { signal });
    bar.addEventListener("pointerleave", point(new Set()), { signal });
    bars.push({ bar, made });
    return bar;
  };
  const lineOf = (step: Step): string => {
    const names = [...new Set((step.ops ?? []).map((op) => placeName(trace, ops.place(op))))];
    const known = names.filter(Boolean);
    return known.length > 1 ? `${known[0]} …` : (known[0] ?? "");
  };
  const chart = (pipeline: Pipeline, role: number): HTMLElement => {
    const stages = stagesOf(pipeline, role);
    const columns = stages.length > 0 ? stages : [0];
    const steps = (pipeline.steps ?? []).filter((step) => (step.role ?? 0) === role);
    const rowOf = (step: Step): HTMLElement => {
      const phase = step.phase ?? "round";
      const cells =
        phase === "round"
          ? columns.map((stage) => make("td", {}, stage === (step.stage ?? 0) && barOf(step)))
          : [make("td", { colspan: String(columns.length) }, barOf(step))];
      return make(
        "tr",
        { "data-phase": phase },
        make("th", { scope: "row" }, lineOf(step)),
        ...cells,
      );
    };
    const body = (["before", "round", "after"] as const).flatMap((phase) => {
      const rows = steps.filter((step) => (step.phase ?? "round") === phase).map(rowOf);
      if (rows.length === 0) return [];
      const span = { colspan: String(columns.length + 1), scope: "rowgroup" };
      const title = phase !== "round" && make("tr", {}, make("th", span, PHASES[phase]));
      return [make("tbody", {}, title, ...rows)];
    });
    return make(
      "table",
      { class: "wb-schedule" },
      make("caption", {}, roleWords(pipeline, role, trace.resources.registers)),
      make(
        "thead",
        {},
        make(
          "tr",
          {},
          make("th", { scope: "col" }, "line"),
          ...columns.map((stage) =>
            make("th", { scope: "col" }, stageWords(pipeline, role, stage)),
          ),
        ),
      ),
      ...body,
    );
  };
  const section = (pipeline: Pipeline): HTMLElement => {
    const show = (): void => services.go({ tab: "stages", op: pipeline.loop });
    const place = placeName(trace, ops.place(pipeline.loop)) || "show the loop";
    const roles = pipeline.roles.map((_, role) => role);
    const busy = roles.filter((role) =>
      (pipeline.steps ?? []).some((step) => (step.role ?? 0) === role),
    );
    return make(
      "section",
      {},
      make("h3", {}, "Loop ", button(place, { class: "wb-place" }, show, signal)),
      make("ul", {}, ...(pipeline.rings ?? []).map((ring) => make("li", {}, ringWords(ring)))),
      make("div", { class: "wb-roles" }, ...busy.map((role) => chart(pipeline, role))),
    );
  };
  const content = make(
    "div",
    { class: "wb-scroll", tabindex: "0", role: "region", "aria-label": "Schedules of loops" },
    make(
      "p",
      { class: "wb-muted" },
      "Steps of a round from top to bottom; a column says for which round. " +
        "A click marks what a step became in all stages.",
    ),
    ...(trace.pipelines ?? []).map(section),
  );
  panel.append(content);
  const markPins = (): void => {
    const pins = selection.choice.pins.map(({ ops: pinned }) => links.family(pinned));
    for (const { bar, made } of bars) {
      const marks = pinClasses(pins, made);
      bar.className = marks === "" ? "" : `wb-marked ${marks}`;
      bar.setAttribute("aria-pressed", String(marks !== ""));
    }
  };
  selection.subscribe(markPins, signal);
  markPins();
  return {};
}
