// The Programs tab: which program touched which element of an array, through which element of its
// tile, as the interpreter recorded it.
import { button, make } from "../dom";
import { pinClasses } from "../links";
import { mountMap } from "../panes/map";
import { picturesOf } from "../programs";
import { placeName } from "../stages";
import { count } from "../texts";
import type { Tab, TabServices } from "./tab";

const MOST_PICTURES = 32; // at once; the rest after a click

export function mountPrograms(panel: HTMLElement, services: TabServices): Tab {
  const { trace, ops, signal, selection, links } = services;
  const content = make("div", {
    class: "wb-scroll",
    tabindex: "0",
    role: "region",
    "aria-label": "Programs and elements",
  });
  panel.append(content);
  content.append(
    make(
      "p",
      { class: "wb-muted" },
      "A filled square is an element that a program read or wrote: with one row per program it names " +
        "the element of the program's tile, in an array of several dimensions the program. Hatched: " +
        "masked off, so nothing was touched. ✗: no program wrote it.",
    ),
  );
  const pictures = make("div", { class: "wb-pictures" });
  content.append(pictures);
  const redraws: (() => void)[] = [];
  const found = picturesOf(trace);
  const add = (from: number, to: number): void => {
    for (const { access, make: arrange } of found.slice(from, to)) {
      const picture = arrange();
      const show = (): void => services.go({ tab: "stages", op: access.op });
      const place = placeName(trace, ops.place(access.op)) || "show the op";
      const map = mountMap(picture, show, signal);
      redraws.push(map.redraw);
      pictures.append(
        make(
          "section",
          { "data-op": String(access.op) },
          make(
            "h3",
            {},
            `${picture.verb} ${picture.array} `,
            button(place, { class: "wb-place" }, show, signal),
            picture.facts.length > 0 &&
              make("span", { class: "wb-map-facts" }, picture.facts.join(" · ")),
          ),
          map.element,
        ),
      );
    }
  };
  const markPins = (): void => {
    const pins = selection.choice.pins.map(({ ops: pinned }) => links.family(pinned));
    for (const section of pictures.querySelectorAll<HTMLElement>("[data-op]")) {
      const marks = pinClasses(pins, [Number(section.dataset.op)]);
      section.className = marks === "" ? "" : `wb-marked ${marks}`;
    }
  };
  add(0, MOST_PICTURES);
  selection.subscribe(markPins, signal);
  markPins();
  if (found.length > MOST_PICTURES) {
    const more = button(
      `show ${count(found.length - MOST_PICTURES, "more picture")}`,
      { class: "wb-more" },
      () => {
        more.remove();
        add(MOST_PICTURES, found.length);
        markPins();
      },
      signal,
    );
    content.append(more);
  }
  const root = panel.closest<HTMLElement>(".wb") ?? panel;
  const themed = new MutationObserver(() => {
    for (const redraw of redraws) redraw();
  });
  themed.observe(root, { attributeFilter: ["style"] }); // theme.ts writes the colour scheme there
  signal.addEventListener("abort", () => themed.disconnect());
  return {};
}
