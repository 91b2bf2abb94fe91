// Virtual rows: fixed heights, so a row's place is arithmetic and only visible rows exist in the DOM.
// An inner block as tall as all rows gives the scroll bar; a window inside it is moved by a transform.
import { make } from "../dom";

export const ROW_HEIGHT = 18; // px; must equal .wb-row's height in style.css
const MARGIN = 8; // rows kept above and below the visible ones
const MARGIN_AFTER = 150; // ms after which rows that were revealed get their margin
const UNSEEN_HEIGHT = 400; // px, before the first layout

/** Scroll offsets to be set once all panes have changed: each setting lays out what changed before. */
const waiting = new Map<HTMLElement, number>();

function scrollSoon(scroller: HTMLElement, top: number): void {
  if (waiting.size === 0) {
    queueMicrotask(() => {
      for (const [element, offset] of waiting) element.scrollTop = offset;
      waiting.clear();
    });
  }
  waiting.set(scroller, top);
}

export interface RowList {
  readonly scroller: HTMLElement;
  /** The elements that exist now, by row. */
  readonly shown: ReadonlyMap<number, HTMLElement>;
  readonly height: number;
  inView(row: number): boolean;
  /** Bring a row into view, at one third of the height, only if it is not visible already. */
  reveal(row: number): void;
  /** Throw the elements away and make them again. */
  redraw(): void;
  /** Change the number of rows. */
  resize(count: number): void;
}

export interface RowListOptions {
  count: number;
  columns: number; // characters of the longest row, so that marks reach past the visible width
  makeRow: (row: number) => HTMLElement;
  /** Rows of two halves: each shows its text through a window of its own, moved by --wb-shift. */
  halves?: boolean;
  onResize?: (height: number) => void;
}

/** Put a list of `count` rows into `root`; it lives until `signal` aborts. */
export function mountRows(
  root: HTMLElement,
  { count, columns, makeRow, onResize, halves = false }: RowListOptions,
  signal: AbortSignal,
): RowList {
  const scroller = make("div", { class: "wb-scroller" });
  const visible = make("div", { class: "wb-window", role: "presentation" });
  const spacer = make("div", { class: "wb-spacer", role: "presentation" }, visible);
  if (halves) {
    // As far as the longer half reaches beyond its window, so far the scroll bar moves both.
    spacer.style.width = `calc(100% + max(0px, ${columns + 14}ch - 50%))`;
    spacer.style.font = "12px / 18px var(--wb-mono)"; // of the rows, for ch
    visible.style.width = "100cqw";
    scroller.classList.add("wb-halves");
  } else {
    visible.style.minWidth = `max(100%, ${columns + 8}ch)`;
  }
  scroller.append(spacer);
  root.append(scroller);

  const shown = new Map<number, HTMLElement>();
  let [first, end, rows] = [-1, -1, count];
  // Kept here: reading either from the DOM after a class change forces a layout.
  let height = UNSEEN_HEIGHT;
  let top = 0;
  let left = 0; // of halves only: everything else scrolls by itself
  let later: ReturnType<typeof setTimeout> | undefined;
  spacer.style.height = `${rows * ROW_HEIGHT}px`;

  const place = (): void => {
    visible.style.transform = `translate(${left}px, ${Math.max(0, first) * ROW_HEIGHT}px)`;
    if (halves) visible.style.setProperty("--wb-shift", `${-left}px`);
  };
  const render = (margin = MARGIN): void => {
    const from = Math.max(0, Math.floor(top / ROW_HEIGHT) - margin);
    const to = Math.min(rows - 1, Math.ceil((top + height) / ROW_HEIGHT) + margin);
    if (from === first && to === end) return;
    [first, end] = [from, to];
    const kept: HTMLElement[] = [];
    for (let row = from; row <= to; row++) kept.push(shown.get(row) ?? makeRow(row));
    shown.clear();
    kept.forEach((element, i) => {
      shown.set(from + i, element);
    });
    place();
    visible.replaceChildren(...kept);
  };
  const list: RowList = {
    scroller,
    shown,
    get height() {
      return height;
    },
    inView: (row) => row * ROW_HEIGHT >= top && (row + 1) * ROW_HEIGHT <= top + height,
    reveal(row) {
      // Not scrollIntoView: that scrolls the notebook too.
      if (!list.inView(row)) {
        const most = Math.max(0, rows * ROW_HEIGHT - height);
        top = Math.min(most, Math.max(0, Math.round(row * ROW_HEIGHT - height / 3)));
        scrollSoon(scroller, top);
        render(0); // what is seen is there at once
        clearTimeout(later);
        later = setTimeout(render, MARGIN_AFTER);
      }
    },
    redraw() {
      shown.clear();
      [first, end] = [-1, -1];
      render();
    },
    resize(newCount) {
      rows = newCount;
      spacer.style.height = `${rows * ROW_HEIGHT}px`;
      list.redraw();
    },
  };
  const follow = (): void => {
    if (!halves && scroller.scrollTop === top) return; // it came from here
    top = scroller.scrollTop;
    if (halves && left !== scroller.scrollLeft) {
      left = scroller.scrollLeft;
      place();
    }
    render();
  };
  scroller.addEventListener("scroll", follow, { passive: true, signal });
  const observer = new ResizeObserver(() => {
    height = scroller.clientHeight || UNSEEN_HEIGHT;
    render();
    onResize?.(height);
  });
  observer.observe(scroller); // its first call comes after the first layout
  signal.addEventListener("abort", () => {
    observer.disconnect();
    clearTimeout(later);
  });
  render();
  return list;
}
