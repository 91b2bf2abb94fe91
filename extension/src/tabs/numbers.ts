// The numbers of two sides as a table: times, options, resources; what is equal in a sentence below.
import { button, make } from "../dom";
import { SHOWN } from "../limits";
import type { Selection } from "../selection";
import { milliseconds } from "../texts";
import type { Comparison, Contrast, Quantity, Share, Timing } from "../trace";

const MOST_SHARES = 6; // lines of one number; the rest after a click

/** The numbers of both sides, each with the lines that a difference comes from. */
export function numbersOf(
  { options = [], quantities = [], timings = [] }: Comparison,
  selection: Selection,
  pinLine: (share: Share, number: number, add: boolean) => void,
  signal: AbortSignal,
): HTMLElement {
  const value = (each: unknown): string =>
    each === null || each === undefined
      ? "–"
      : typeof each === "number"
        ? each.toLocaleString("en-US")
        : String(each);
  const buttons: { element: HTMLElement; share: Share; number: number }[] = [];
  const shareButton = (share: Share): HTMLElement => {
    const words = `${signed(share.amount)} ${share.words}`;
    if (!share.a && !share.b) return make("span", { class: "wb-share" }, words);
    const number = buttons.length;
    const element = make(
      "button",
      {
        type: "button",
        class: "wb-share",
        "aria-pressed": "false",
        title: "pin this line on both sides",
      },
      make("b", {}, signed(share.amount)),
      ` ${share.words}`,
    );
    element.addEventListener(
      "click",
      ({ ctrlKey, metaKey }) => pinLine(share, number, ctrlKey || metaKey),
      { signal },
    );
    buttons.push({ element, share, number });
    return element;
  };
  const lines = (each: Quantity): HTMLElement => {
    const shares = (each.shares ?? []).slice(0, SHOWN.shares);
    const cell = make("td", { class: "wb-shares" });
    if (shares.length === 0) {
      cell.append(make("span", { class: "wb-muted" }, each.of ?? ""));
      return cell;
    }
    cell.title = each.of ?? "";
    cell.append(...shares.slice(0, MOST_SHARES).map(shareButton));
    if (shares.length > MOST_SHARES) {
      const more = button(
        `${shares.length - MOST_SHARES} more`,
        { class: "wb-share wb-muted" },
        () => more.replaceWith(...shares.slice(MOST_SHARES).map(shareButton)),
        signal,
      );
      cell.append(more);
    }
    return cell;
  };
  const row = (title: string, unit: string, ...cells: (HTMLElement | null)[]): HTMLElement =>
    make(
      "tr",
      {},
      make("th", { scope: "row" }, title, unit !== "" && make("small", {}, ` ${unit}`)),
      ...cells,
    );
  const number = (text: string, tone = ""): HTMLElement =>
    make("td", { class: `wb-number-cell ${tone}`.trim() }, text);
  const timed = (each: Timing): HTMLElement =>
    row(
      `time, ${each.what}`,
      "",
      number(milliseconds(each.a[1])),
      number(milliseconds(each.b[1])),
      number(
        `${figures(each.speed)}×`,
        { faster: "wb-faster", slower: "wb-slower", same: "" }[each.verdict] ?? "",
      ),
      make("td", { class: "wb-shares" }, timeWords(each)),
    );
  const quantity = (each: Quantity): HTMLElement =>
    row(
      each.title,
      each.unit ?? "",
      number(value(each.a)),
      number(value(each.b)),
      number(difference(each), toneOf(each)),
      lines(each),
    );
  const option = (each: Contrast): HTMLElement =>
    row(each.name, "option", number(value(each.a)), number(value(each.b)), number(""), make("td"));
  const known = quantities.slice(0, SHOWN.quantities);
  const differ = known.filter(({ a, b }) => a !== b);
  const same = known.filter(({ a, b }) => a === b);
  const head = ["", "A", "B", "B − A", "from which lines"].map((text, i) =>
    make(
      "th",
      {
        scope: "col",
        class: ["", "wb-number-cell", "wb-number-cell", "wb-number-cell"][i] ?? "wb-shares",
      },
      text || make("span", { class: "wb-unseen" }, "number"),
    ),
  );
  const rows = [
    ...timings.slice(0, SHOWN.quantities).map(timed),
    ...options.slice(0, SHOWN.quantities).map(option),
    ...differ.map(quantity),
  ];
  const equal = same.map(({ title, a, unit }) => `${title} ${value(a)}${unit ? ` ${unit}` : ""}`);
  selection.subscribe(({ pins }) => {
    for (const { element, number: at } of buttons) {
      const slot = pins.findIndex(({ stage, from }) => stage === "line" && from === at);
      element.setAttribute("aria-pressed", String(slot >= 0));
      element.className = `wb-share${slot >= 0 ? ` wb-marked wb-pin${slot}` : ""}`;
    }
  }, signal);
  return make(
    "div",
    { class: "wb-compare-numbers", role: "region", tabindex: "0", "aria-label": "What differs" },
    rows.length > 0 &&
      make(
        "table",
        { class: "wb-table" },
        make("thead", {}, make("tr", {}, ...head)),
        make("tbody", {}, ...rows),
      ),
    equal.length > 0 && make("p", { class: "wb-muted" }, `The same: ${equal.join(", ")}.`),
  );
}

function signed(amount: number): string {
  return `${amount > 0 ? "+" : "−"}${Math.abs(amount).toLocaleString("en-US")}`;
}

function figures(amount: number): string {
  return String(Number(amount.toPrecision(3)));
}

function difference({ a, b }: Quantity): string {
  return typeof a === "number" && typeof b === "number" && a !== b ? signed(b - a) : "";
}

function toneOf({ a, b, better }: Quantity): string {
  if (typeof a !== "number" || typeof b !== "number" || better === "neither") return "";
  return b < a === (better === "less") ? "wb-faster" : "wb-slower";
}

function timeWords({ low, high, verdict }: Timing): string {
  const said = { faster: "B is faster", slower: "B is slower", same: "the same within noise" };
  const noise = low === high ? "" : ` (${figures(low)} to ${figures(high)} with noise)`;
  return `${said[verdict] ?? ""}${noise}`;
}
