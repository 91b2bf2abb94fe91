// The Follow tab: what became of a line, a value or a row. A slider goes through every pass, layout,
// buffer and stage, row by row of the machine's code, with one sentence a step.
import { button, make } from "../dom";
import { explainRow } from "../glossary";
import { layoutPicture } from "../layout";
import { SHOWN } from "../limits";
import { makeSlider } from "../panes/slider";
import { mountStage } from "../panes/stage";
import { bytes, NOTHING_TO_SEE, STAGE_TITLES } from "../texts";
import type { Stop, Trace } from "../trace";
import { fillDiff } from "./passes";
import type { Tab, TabServices } from "./tab";

/** Of so many rows of machine code each is a step; of more only all together. */
const MOST_ROWS = 64;
const CODE = ["sass", "asm"];

/** The steps of a way: its stops, those of the machine's code followed by their rows. */
export function stepsOf(
  stops: readonly Stop[],
  { stages, links }: Pick<TabServices, "stages" | "links">,
): Stop[] {
  return stops.slice(0, SHOWN.stops).flatMap((stop) => {
    const rows = stop.rows ?? [];
    const stage = stages.find(({ id }) => id === stop.stage);
    if (!stage || !CODE.includes(stage.id) || stop.where !== stage.id) return [stop];
    if (rows.length < 2 || rows.length > MOST_ROWS) return [stop];
    const single = rows.flatMap((row) => {
      const text = stage.lines[row];
      if (text === undefined) return [];
      const does = explainRow(stage.id, text);
      const sentence = `${text.trim()}${does === "" ? "" : ` (${does})`}`;
      const ops = [...links.opsAt(stage.id, row)];
      return [{ ...stop, where: `${stage.id} row ${row + 1}`, sentence, rows: [row], ops }];
    });
    return [stop, ...single];
  });
}

export function mountFollow(panel: HTMLElement, services: TabServices): Tab {
  const { follow, state, signal, selection } = services;
  const steps = stepsOf(follow?.stops ?? [], services);
  let shown = new AbortController();
  signal.addEventListener("abort", () => shown.abort());

  const view = make("div", { class: "wb-follow-view" });
  const marks = steps.map((step, i) =>
    button(
      step.where,
      { class: "wb-stop", "data-kind": kindOf(step), title: step.sentence },
      () => slider.go(i),
      signal,
    ),
  );
  const list = make(
    "ol",
    { class: "wb-list wb-stops", "aria-label": "Steps" },
    ...marks.map((mark) => make("li", {}, mark)),
  );
  const show = (at: number): void => {
    const step = steps[at];
    shown.abort();
    shown = new AbortController();
    state.stop = at;
    marks.forEach((mark, i) => {
      if (i === at) mark.setAttribute("aria-current", "step");
      else mark.removeAttribute("aria-current");
    });
    const mark = marks[at];
    if (!step || !mark) return;
    if (mark.offsetTop < list.scrollTop || mark.offsetTop + 24 > list.scrollTop + list.clientHeight)
      list.scrollTop = mark.offsetTop - list.clientHeight / 3;
    const ops = new Set(step.ops ?? []);
    const { pins } = selection.choice;
    if (ops.size === 0) selection.clear("follow");
    else if (!pins.some(({ stage, from }) => stage === "follow" && from === at)) {
      selection.pin({ stage: "follow", from: at, to: at, ops }, false);
    }
    view.replaceChildren();
    fillView(view, step, services, shown.signal);
  };
  const slider = makeSlider(
    {
      label: "Steps of the way",
      count: steps.length,
      at: state.stop,
      sentence: (at) => `${steps[at]?.where}: ${steps[at]?.sentence}`,
      moved: show,
    },
    signal,
  );
  panel.append(
    make("p", { class: "wb-question" }, follow?.question ?? ""),
    slider.element,
    make("div", { class: "wb-split wb-follow" }, list, view),
  );
  show(slider.at);

  return {
    key(event) {
      const by = { n: 1, p: -1 }[event.key];
      if (by === undefined) return false;
      slider.go(slider.at + by);
      return true;
    },
    copy: () => steps.map(({ where, sentence }) => `${where}: ${sentence}`).join("\n"),
  };
}

function kindOf({ pass, layout, buffer, stage }: Stop): string {
  if (typeof pass === "number") return "pass";
  if (layout) return "layout";
  if (typeof buffer === "number") return "buffer";
  return stage ?? "";
}

/** What there is to see of a step: the pass's diff, a picture, the rows of a stage. */
function fillView(view: HTMLElement, step: Stop, services: TabServices, signal: AbortSignal): void {
  const { trace, stages, links, selection, describe } = services;
  const pass = trace.passes[step.pass ?? -1];
  const { layout } = step;
  if (layout) view.append(layoutPicture(layout));
  if (typeof step.buffer === "number") view.append(bufferPicture(trace, step.buffer));
  if (pass?.changed) {
    const diff = make("div", { class: "wb-diff" });
    view.append(diff);
    fillDiff(diff, pass, services, signal);
    return;
  }
  const id = typeof step.pass === "number" ? (pass?.pipe ?? "") : (step.stage ?? "");
  const stage = stages.find((one) => one.id === id && one.lines.length > 0);
  if (!stage) {
    if (!layout) view.append(make("p", { class: "wb-empty" }, NOTHING_TO_SEE));
    return;
  }
  const pane = make("div", { class: "wb-pane" });
  view.append(pane);
  const mounted = mountStage(pane, stage, { links, selection, describe, onFocus() {} }, signal);
  selection.refresh();
  const linked = links.rowsOf(stage.id, { ops: new Set(step.ops ?? []), kin: new Set() });
  const row = Math.min(...(step.rows?.length ? step.rows : linked.keys()));
  if (Number.isFinite(row)) mounted.show(row);
}

/** The shared memory of a program with one buffer marked. */
function bufferPicture({ shared = [] }: Trace, chosen: number): HTMLElement {
  const end = Math.max(1, ...shared.map(({ offset, bytes: size }) => offset + size));
  const parts = shared.map(({ name, offset, bytes: size }, i) => {
    const part = make("span", {
      class: i === chosen ? "wb-buffer wb-chosen" : "wb-buffer",
      title: `${name}: ${bytes(size)} at ${offset.toLocaleString("en-US")}`,
    });
    part.style.left = `${(100 * offset) / end}%`;
    part.style.width = `${(100 * size) / end}%`;
    part.append(name);
    return part;
  });
  const own = shared[chosen];
  const words = own
    ? `${own.name}: ${bytes(own.bytes)} at ${own.offset.toLocaleString("en-US")} of ${bytes(end)}`
    : "";
  return make(
    "figure",
    { class: "wb-buffers" },
    make("div", { class: "wb-buffer-bar", role: "img", "aria-label": words }, ...parts),
    make("figcaption", {}, `${STAGE_TITLES.gpu} · shared memory · ${words}`),
  );
}
