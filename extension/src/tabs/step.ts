// The Step tab: one program of a launch, op by op, forwards and backwards: its line in the source, its
// value as a table and a picture, lines to stop at, and where a watched element got its values.
import { button, draw, make, table, uniqueId } from "../dom";
import { SHOWN } from "../limits";
import { mountRows, ROW_HEIGHT } from "../panes/rows";
import { makeSlider } from "../panes/slider";
import { mountStage } from "../panes/stage";
import { count } from "../texts";
import type { Executed, Tile, Walk } from "../trace";
import { headOf, nameOf, placesOf, sentenceOf } from "../walk";
import type { Tab, TabServices } from "./tab";

const LEVELS = "abcdefghijklm";
const [PALE, DARK] = [
  [0xee, 0xf6, 0xff],
  [0x0a, 0x30, 0x69],
] as const;
const NOT_FINITE = "#D55E00";
const MOST_SEEN = 200;
const VALUE_ROWS = 14; // of room above the list of steps
const [LOWEST, HIGHEST] = [300, "max(400px, var(--wb-panes-most, 440px) - 150px)"] as const;

export function mountStep(panel: HTMLElement, services: TabServices): Tab {
  const { step: asked, state, signal, selection, stages, links, describe } = services;
  const walk: Walk = asked ?? { kernel: "", program: [], grid: [] };
  const steps = walk.steps ?? [];
  const first = walk.first ?? 0;
  const lines = new Set(walk.lines ?? []);
  const prefix = uniqueId("step");
  let places = placesOf(steps, lines);
  /** The place nearest to a step, those behind it first. */
  const placeOf = (step: number): number => {
    const at = places.findIndex((place) => place >= step);
    return at < 0 ? places.length - 1 : at;
  };

  const value = make("div", {
    class: "wb-step-value",
    role: "region",
    tabindex: "0",
    "aria-label": "Value of the step",
  });
  const chips = make("span", { class: "wb-chips" });
  const stopHere = button("", { class: "wb-toggle" }, () => toggleLine(), signal);
  const source = make("div", { class: "wb-pane" });
  const listRoot = make("div", { class: "wb-body wb-steps" });
  const right = make("div", { class: "wb-step-right" }, value, listRoot);

  const show = (at: number): void => {
    const number = places[at] ?? -1;
    const step = steps[number];
    state.place = number;
    if (!step) return;
    fillValue(value, step, walk, number, (to) => slider.go(placeOf(to - first)), signal);
    list.redraw();
    list.reveal(at);
    list.scroller.setAttribute("aria-activedescendant", `${prefix}-${at}`);
    showStops(step);
    const { pins } = selection.choice;
    if (!pins.some(({ stage, from }) => stage === "step" && from === number)) {
      const ops = new Set([step.op]);
      selection.pin({ stage: "step", from: number, to: number, ops }, false, step.text);
    }
  };
  const slider = makeSlider(
    {
      label: "Steps of the program",
      count: places.length,
      at: placeOf(state.place < 0 ? (walk.at ?? 0) - first : state.place),
      sentence: (at) => sentenceOf(walk, places[at] ?? -1),
      moved: show,
    },
    signal,
  );
  const restop = (from: number): void => {
    places = placesOf(steps, lines);
    list.resize(places.length);
    // The stop that begins the line it stands on, else the next one.
    const begun = places.findLastIndex((place) => place <= from);
    const same = begun >= 0 && steps[places[begun] ?? -1]?.line === steps[from]?.line;
    slider.resize(places.length, same ? begun : placeOf(from));
  };
  const toggleLine = (): void => {
    const { line } = steps[places[slider.at] ?? -1] ?? {};
    if (typeof line !== "number") return;
    const from = places[slider.at] ?? 0;
    if (!lines.delete(line)) lines.add(line);
    restop(from);
  };
  const showStops = ({ line }: Executed): void => {
    stopHere.hidden = typeof line !== "number";
    stopHere.textContent =
      typeof line === "number" && lines.has(line)
        ? `no stop at line ${line}`
        : `stop at line ${line}`;
    const stops = [...lines].sort((a, b) => a - b);
    chips.replaceChildren(
      stops.length > 0 ? `stops at line ${stops.join(", ")} only ` : "stops at every op ",
    );
    if (stops.length > 0) {
      chips.append(
        button(
          "stop everywhere",
          { class: "wb-toggle" },
          () => {
            const from = places[slider.at] ?? 0;
            lines.clear();
            restop(from);
          },
          signal,
        ),
      );
    }
  };

  const makeRow = (at: number): HTMLElement => {
    const number = places[at] ?? -1;
    const step = steps[number];
    const current = at === slider.at;
    const row = make("div", {
      class: current ? "wb-row wb-step wb-now" : "wb-row wb-step",
      role: "option",
      id: `${prefix}-${at}`,
      "data-at": String(at),
      "aria-selected": String(current),
      "aria-setsize": String(places.length),
      "aria-posinset": String(at + 1),
    });
    if (!step) return row;
    row.append(
      make("i", {}, String(number + first)),
      make("span", { class: "wb-step-line" }, typeof step.line === "number" ? `${step.line}` : ""),
      make("span", { class: "wb-value-name" }, nameOf(step)),
      make("span", {}, step.value ?? ""),
    );
    return row;
  };
  const text = stages.find(({ id }) => id === "source");
  const panes = make("div", { class: "wb-panes" }, source, right);
  const longest = Math.max(text?.lines.length ?? 0, places.length + VALUE_ROWS);
  panes.style.height = `min(${HIGHEST}, ${Math.max(LOWEST, (longest + 3) * ROW_HEIGHT)}px)`;
  panel.append(
    make("p", { class: "wb-question" }, headOf(walk)),
    ...(walk.notes ?? [])
      .slice(0, SHOWN.quantities)
      .map((note) => make("p", { class: "wb-note" }, note)),
    slider.element,
    make("div", { class: "wb-bar" }, stopHere, chips),
    panes,
  );
  const list = mountRows(listRoot, { count: places.length, columns: 80, makeRow }, signal);
  const { scroller } = list;
  scroller.tabIndex = 0;
  scroller.setAttribute("role", places.length > 0 ? "listbox" : "group");
  scroller.setAttribute("aria-label", "Steps: number, line, name, value");
  scroller.addEventListener(
    "click",
    (event) => {
      const row = (event.target as Element).closest<HTMLElement>("[data-at]");
      if (row) slider.go(Number(row.dataset.at));
    },
    { signal },
  );
  scroller.addEventListener(
    "keydown",
    (event) => {
      const page = Math.max(1, Math.floor(list.height / ROW_HEIGHT) - 1);
      const goal = {
        ArrowDown: slider.at + 1,
        ArrowUp: slider.at - 1,
        PageDown: slider.at + page,
        PageUp: slider.at - page,
        Home: 0,
        End: places.length - 1,
      }[event.key];
      if (goal === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      slider.go(goal);
    },
    { signal },
  );
  if (text) mountStage(source, text, { links, selection, describe, onFocus() {} }, signal);
  // A line that is pinned in the source is gone to: its next step, or its first.
  selection.subscribe(({ origin, pins }) => {
    const pin = pins.at(-1);
    if (origin !== "source" || pin?.stage !== "source" || !text) return;
    const line = pin.from + text.firstLine;
    const at = places.findIndex((place, i) => i > slider.at && steps[place]?.line === line);
    const goal = at < 0 ? places.findIndex((place) => steps[place]?.line === line) : at;
    if (goal >= 0) queueMicrotask(() => slider.go(goal));
  }, signal);
  show(slider.at);
  return {
    key(event) {
      const by = { n: 1, p: -1 }[event.key];
      if (by === undefined) return false;
      slider.go(slider.at + by);
      return true;
    },
    copy: () => sentenceOf(walk, places[slider.at] ?? -1),
  };
}

function fillValue(
  root: HTMLElement,
  step: Executed,
  walk: Walk,
  number: number,
  go: (step: number) => void,
  signal: AbortSignal,
): void {
  const { tile } = step;
  const seen = (walk.seen ?? []).slice(0, MOST_SEEN);
  root.replaceChildren(
    make("code", { class: "wb-op" }, step.text),
    make(
      "div",
      { class: "wb-tile" },
      tile ? tablesOf(tile, nameOf(step)) : null,
      tile ? pictureOf(tile, nameOf(step)) : null,
    ),
  );
  if (!tile && step.value) root.append(make("p", { class: "wb-muted" }, step.value));
  if (walk.watched) {
    root.append(
      make("h3", {}, `${walk.watched} · ${count(walk.seen?.length ?? 0, "time")}`),
      make(
        "ul",
        { class: "wb-seen" },
        ...seen.map((one) =>
          make(
            "li",
            one.step === number + (walk.first ?? 0) ? { "aria-current": "step" } : {},
            button(
              `step ${one.step}${typeof one.line === "number" ? `, line ${one.line}` : ""}`,
              { class: "wb-place" },
              () => go(one.step),
              signal,
            ),
            ` ${one.what} = ${one.value}`,
          ),
        ),
      ),
    );
  }
}

function tablesOf({ numbers: all = [], shape }: Tile, name: string): HTMLElement | null {
  const numbers = all.slice(0, SHOWN.cells).map((row) => row.slice(0, SHOWN.cells));
  const columns = Math.max(0, ...numbers.map((row) => row.length));
  if (columns === 0) return null;
  if (shape.length === 0) return make("p", { class: "wb-scalar" }, numbers[0]?.[0] ?? "");
  const whole = shape.reduce((product, size) => product * size, 1);
  const shown = numbers.reduce((sum, row) => sum + row.length, 0);
  const size = shape.join(" × ");
  const caption = shown < whole ? `${name}, the first of ${size}` : `${name}, ${size}`;
  const head = [
    "",
    ...numbers
      .slice(0, 1)
      .flat()
      .map((_, i) => String(i)),
  ];
  return table(
    caption,
    head.map((text, i) => ({ text, number: i > 0 })),
    numbers.map((row, i) => [{ text: String(i) }, ...row.map((text) => ({ text, number: true }))]),
  );
}

/** The larger an element the darker; what is not finite is marked. */
function pictureOf(tile: Tile, name: string): HTMLElement | null {
  const { low, high, every } = tile;
  const picture = (tile.picture ?? [])
    .slice(0, SHOWN.cells)
    .map((row) => row.slice(0, SHOWN.cells));
  const wide = Math.max(0, ...picture.map((row) => row.length));
  if (wide < 2 && picture.length < 2) return null;
  const cell = wide > 32 || picture.length > 24 ? 6 : 10;
  const step = every ?? [1, 1];
  const sampled = Math.max(...step) > 1 ? `, every ${step.join(" × ")}` : "";
  const bad = picture.some((row) => row.includes("!")) ? "; orange: not finite" : "";
  const words = `${name} from ${low ?? ""} (pale) to ${high ?? ""} (dark)${sampled}${bad}`;
  const paths = new Map<string, string>();
  picture.forEach((row, y) => {
    for (let x = 0; x < row.length; x++) {
      const colour = colourOf(row[x] ?? "");
      const path = `M${x * cell} ${y * cell}h${cell}v${cell}h-${cell}z`;
      paths.set(colour, (paths.get(colour) ?? "") + path);
    }
  });
  const drawn = [...paths].map(([fill, d]) => draw("path", { fill, d }));
  const size = { width: wide * cell, height: picture.length * cell };
  return make(
    "figure",
    { class: "wb-tile-picture" },
    draw("svg", { role: "img", "aria-label": words, ...size }, ...drawn),
    make("figcaption", {}, words),
  );
}

function colourOf(letter: string): string {
  const level = LEVELS.indexOf(letter);
  if (level < 0) return NOT_FINITE;
  const share = level / (LEVELS.length - 1);
  const mixed = PALE.map((pale, i) => Math.round(pale + ((DARK[i] ?? 0) - pale) * share));
  return `#${mixed.map((part) => part.toString(16).padStart(2, "0")).join("")}`;
}
