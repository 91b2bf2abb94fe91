// A map of what other settings would give: a square for each choice of values. A click asks the kernel
// that made the map to compare the square with the best one; all that it is told are the map's key and
// the number of the square.
import { ASKED, type Asked, type Reply } from "./asked";
import { button, copyToClipboard, make, treeOf } from "./dom";
import { type Envelope, MIME, openEnvelope } from "./envelope";
import { keepKeys } from "./keys";
import { SHOWN } from "./limits";
import { COPY_REFUSED } from "./texts";
import { followTheme } from "./theme";
import type { Sweep, SweptSquare } from "./trace";
import { addStyle, mount, type Viewer } from "./viewer";

export const SWEEP_MIME = "application/vnd.workbench.sweep+json";
/** Show a map in `host` until `signal` aborts. */
export function mountSweep(host: HTMLElement, sweep: Sweep, signal: AbortSignal): void {
  addStyle(host);
  const root = make("div", { class: "wb wb-sweep" });
  keepKeys(root, signal);
  host.replaceChildren(root);
  followTheme(root, signal);
  let viewer: Viewer | undefined;
  signal.addEventListener("abort", () => viewer?.end());
  const squares = sweep.squares.slice(0, SHOWN.squares);
  const columns = sweep.columns.slice(0, SHOWN.squares);
  const rows = sweep.rows.slice(0, Math.ceil(SHOWN.squares / Math.max(1, columns.length)));
  let measure = 0;
  let chosen = -1;

  const map = make("div", { class: "wb-wide wb-sweep-map" });
  const detail = make("div", { class: "wb-sweep-detail", "aria-live": "polite" });
  const below = make("div", { class: "wb-sweep-below" });
  const toggles = sweep.numbers.slice(0, SHOWN.cells).map(({ title, unit }, i) =>
    button(
      title,
      { class: "wb-toggle", title: unit ?? "" },
      () => {
        measure = i;
        draw();
      },
      signal,
    ),
  );
  const cell = (square: SweptSquare | undefined, number: number): HTMLElement => {
    if (!square) return make("td");
    const word = square.words[measure] ?? "";
    const best = number === sweep.best;
    const { title = "", unit = "" } = sweep.numbers[measure] ?? {};
    const element = button(
      word,
      {
        class: best ? "wb-square wb-best" : "wb-square",
        "aria-pressed": String(number === chosen),
        "aria-label": `${square.values}: ${title} ${word} ${unit}${best ? ", the best" : ""}`,
        title: [square.values, square.note ?? ""].filter(Boolean).join("\n"),
      },
      () => choose(number),
      signal,
    );
    const share = shareOf(squares, measure, number);
    if (share !== undefined) {
      const heat = (sweep.numbers[measure]?.less ?? true) ? share : 1 - share;
      element.style.setProperty("--heat", `${Math.round(6 + 44 * heat)}%`);
    }
    return make("td", {}, element);
  };
  const draw = (): void => {
    toggles.forEach((toggle, i) => {
      toggle.setAttribute("aria-pressed", String(i === measure));
    });
    const [down, across] = sweep.axes;
    const width = sweep.columns.length;
    const focused = treeOf(host).activeElement?.classList.contains("wb-square");
    map.replaceChildren(
      make(
        "table",
        { class: "wb-squares" },
        make(
          "thead",
          {},
          make(
            "tr",
            {},
            make("th", { scope: "col" }, [down, across].filter(Boolean).join(" \\ ")),
            ...columns.map((column) => make("th", { scope: "col" }, column)),
          ),
        ),
        make(
          "tbody",
          {},
          ...rows.map((row, y) =>
            make(
              "tr",
              {},
              make("th", { scope: "row" }, row || across),
              ...columns.map((_, x) => cell(squares[y * width + x], y * width + x)),
            ),
          ),
        ),
      ),
    );
    if (focused) map.querySelector<HTMLElement>('[aria-pressed="true"]')?.focus();
  };
  const choose = (number: number): void => {
    chosen = number;
    draw();
    const square = squares[number];
    if (!square) return;
    const said = sweep.numbers.flatMap(({ title, unit }, i) =>
      square.words[i] ? [`${title} ${square.words[i]} ${unit ?? ""}`.trim()] : [],
    );
    const line = square.compare ?? "";
    detail.replaceChildren(
      make("b", {}, square.values),
      ` ${[...said, square.note ?? ""].filter(Boolean).join(" · ")} `,
    );
    if (line === "") return;
    const state = make("span", { class: "wb-muted" });
    const copy = button(
      "copy the line",
      { class: "wb-toggle", title: line },
      () =>
        void copyToClipboard(line).then(
          () => {
            state.textContent = "copied";
          },
          () => {
            state.textContent = COPY_REFUSED;
          },
        ),
      signal,
    );
    detail.append(make("code", {}, line), " ", copy, " ", state);
    ask(number, state);
  };
  const ask = (square: number, state: HTMLElement): void => {
    const event = new CustomEvent<Asked>(ASKED, {
      bubbles: true,
      cancelable: true,
      detail: {
        key: sweep.key,
        square,
        answered: (reply) => {
          if (square === chosen && !signal.aborted) void show(reply, state);
        },
      },
    });
    root.dispatchEvent(event);
    state.textContent = event.defaultPrevented ? "the kernel compiles both …" : "";
  };
  const show = async ({ why, output }: Reply, state: HTMLElement): Promise<void> => {
    const started = performance.now();
    try {
      if (typeof why === "string") throw new Error(why);
      const bundle = await openEnvelope(output?.[MIME] as Envelope);
      state.textContent = "";
      if (viewer) viewer.update(bundle);
      else viewer = mount(below, bundle, { started });
    } catch (error) {
      state.textContent = error instanceof Error ? error.message : String(error);
    }
  };
  root.append(
    make(
      "div",
      { class: "wb-bar" },
      make("b", {}, sweep.title),
      ...toggles,
      make("span", { class: "wb-coverage" }, "a square: compare it with the best"),
    ),
    map,
    detail,
    ...(sweep.notes ?? [])
      .slice(0, SHOWN.quantities)
      .map((note) => make("p", { class: "wb-muted wb-sweep-note" }, note)),
  );
  host.append(below);
  draw();
}

/** Where a square's number lies between the least (0) and the most (1) of the map. */
export function shareOf(
  squares: readonly SweptSquare[],
  measure: number,
  square: number,
): number | undefined {
  const number = squares[square]?.numbers[measure];
  if (typeof number !== "number") return undefined;
  const known = squares.flatMap(({ numbers }) => {
    const one = numbers[measure];
    return typeof one === "number" ? [one] : [];
  });
  const [least, most] = [Math.min(...known), Math.max(...known)];
  return most > least ? (number - least) / (most - least) : 0;
}
