// A slider over steps of which each has a sentence: the browser's own range input, so that arrows, Home,
// End and the page keys work as everywhere, with buttons beside it.
import { button, make, treeOf, uniqueId } from "../dom";

export interface Slider {
  readonly element: HTMLElement;
  readonly at: number;
  /** Go to a step, clipped to those there are; `quiet` tells nobody. */
  go(step: number, quiet?: boolean): void;
  /** The steps are others now. */
  resize(count: number, step: number): void;
}

export interface SliderOptions {
  label: string;
  count: number;
  at: number;
  /** What is said of a step: beside the slider, and by a screen reader for its value. */
  sentence(step: number): string;
  moved(step: number): void;
}

export function makeSlider(
  { label, count: most, at: start, sentence, moved }: SliderOptions,
  signal: AbortSignal,
): Slider {
  let count = most;
  let at = 0;
  const id = uniqueId("sentence");
  const input = make("input", {
    type: "range",
    class: "wb-range",
    min: "0",
    step: "1",
    "aria-label": label,
    "aria-describedby": id,
  });
  const place = make("span", { class: "wb-muted wb-place-of" });
  const words = make("p", { class: "wb-sentence", id });
  const go = (step: number, quiet = false): void => {
    at = Math.max(0, Math.min(count - 1, Math.trunc(step) || 0));
    input.max = String(Math.max(0, count - 1));
    input.value = String(at);
    const said = count > 0 ? sentence(at) : "There is no step.";
    input.setAttribute("aria-valuetext", said);
    place.textContent = count > 0 ? `${at + 1} of ${count.toLocaleString("en-US")}` : "0 of 0";
    // The slider says its value by itself; moved by anything else, the sentence has to.
    words.setAttribute("aria-live", treeOf(input).activeElement === input ? "off" : "polite");
    words.textContent = said;
    back.disabled = at === 0;
    on.disabled = at >= count - 1;
    if (!quiet && count > 0) moved(at);
  };
  const arrow = (text: string, name: string, by: number): HTMLButtonElement =>
    button(
      text,
      { class: "wb-toggle", "aria-label": name, title: name },
      () => go(at + by),
      signal,
    );
  const back = arrow("‹", "one step back", -1);
  const on = arrow("›", "one step on", 1);
  input.addEventListener("input", () => go(Number(input.value)), { signal });
  go(start, true);
  return {
    element: make(
      "div",
      { class: "wb-slider" },
      make("div", { class: "wb-slider-line" }, back, input, on, place),
      words,
    ),
    get at() {
      return at;
    },
    go,
    resize(newCount, step) {
      count = newCount;
      go(step);
    },
  };
}
