// The Layouts tab: where the elements of tiles lie, by warp and lane, in shared memory by bank.
// A layout stands once, with the values that have it; choosing one draws it and pins their ops.
import { button, make } from "../dom";
import { bytesOf, layoutPicture } from "../layout";
import { pinClasses } from "../links";
import { count } from "../texts";
import type { Layout } from "../trace";
import type { Tab, TabServices } from "./tab";

const NAMED = 4;

/** Values of all types of elements that lie alike; in shared memory of one size, which says the banks. */
interface Kind {
  drawn: Layout;
  elements: string[];
  values: string[];
  ops: ReadonlySet<number>;
}

export function kindsOf(layouts: readonly Layout[]): Kind[] {
  const found = new Map<string, Layout[]>();
  layouts.forEach((layout, i) => {
    const bytes = layout.kind === "shared" ? bytesOf(layout.element) : "";
    const key = layout.name ? `${layout.name} ${bytes}` : String(i);
    found.set(key, [...(found.get(key) ?? []), layout]);
  });
  return [...found.values()].map((alike) => ({
    drawn: alike[0] as Layout,
    elements: [...new Set(alike.map(({ element }) => element))],
    values: alike.flatMap(({ value, values = [value] }) => values),
    ops: new Set(alike.flatMap(({ op, ops = [op] }) => ops)),
  }));
}

export function mountLayouts(panel: HTMLElement, services: TabServices): Tab {
  const { trace, signal, selection, links, describe } = services;
  const kinds = kindsOf(trace.layouts ?? []);
  const view = make("div", { class: "wb-layout-view" });
  let drawn = 0;

  const draw = (number: number): void => {
    const kind = kinds[number];
    if (!kind) return;
    drawn = number;
    view.replaceChildren(layoutPicture(kind.drawn), ...valuesOf(kind));
    rows.forEach(({ row }, i) => {
      row.setAttribute("aria-current", String(i === drawn));
    });
  };
  const rows = kinds.map((kind, number) => {
    const made = kind.ops;
    const choose = (): void => {
      draw(number);
      selection.pin({ stage: "layouts", from: number, to: number, ops: made }, false);
    };
    const row = button(wordsOf(kind), { class: "wb-layout-row" }, choose, signal);
    row.title = describe(made);
    const point = (chosen: ReadonlySet<number>) => () => selection.point("layouts", chosen);
    row.addEventListener("pointerenter", point(made), { signal });
    row.addEventListener("pointerleave", point(new Set()), { signal });
    return { row, made };
  });
  panel.append(
    make(
      "div",
      { class: "wb-scroll", tabindex: "0", role: "region", "aria-label": "Layouts" },
      make(
        "p",
        { class: "wb-muted" },
        "Layouts of the GPU IR that is lowered, in program order. Choosing one draws it and marks " +
          "the values that lie so in all stages.",
      ),
      make(
        "div",
        { class: "wb-layouts" },
        make("ul", {}, ...rows.map(({ row }) => make("li", {}, row))),
        view,
      ),
    ),
  );
  const markPins = (): void => {
    const pins = selection.choice.pins.map(({ ops }) => links.family(ops));
    for (const { row, made } of rows) {
      const marks = pinClasses(pins, made);
      row.className = marks === "" ? "wb-layout-row" : `wb-layout-row wb-marked ${marks}`;
    }
  };
  selection.subscribe(markPins, signal);
  markPins();
  draw(0);
  return { copy: () => kinds.map(wordsOf).join("\n") };
}

/** "#L3 128 × 64 f16, i1: %a, %b and 5 more" */
function wordsOf({ drawn, elements, values }: Kind): string {
  const rest = values.length > NAMED ? ` and ${values.length - NAMED} more` : "";
  const where = drawn.kind === "shared" ? ", shared memory" : "";
  const named = values.slice(0, NAMED).join(", ");
  const what = `${drawn.shape.join(" × ")} ${elements.join(", ")}${where}`;
  return `${drawn.name ?? ""} ${what}: ${named}${rest}`.trim();
}

function valuesOf({ values }: Kind): HTMLElement[] {
  if (values.length <= NAMED) return [];
  return [
    make(
      "details",
      {},
      make("summary", {}, count(values.length, "value")),
      make("p", { class: "wb-mono" }, values.join(" ")),
    ),
  ];
}
