// A picture of spots on a canvas: only what is in view is drawn, so its cost does not grow with the
// picture. Row and column names stay in place while the rest scrolls beneath them.
import { make } from "../dom";
import type { Mark, Picture } from "../programs";

export const CELL = 34; // px
const HEAD = 30; // px, the column names
const HIGHEST = 430; // px
const UNSEEN = { width: 640, height: 420 }; // before the first layout
const LETTER = 7; // px
const RAIL_GAP = CELL / 2;
const HATCH = 6; // px between stripes

/** The part of a picture that is in view. */
export interface Window {
  fromRow: number;
  toRow: number; // exclusive
  fromColumn: number;
  toColumn: number;
}

export interface Geometry {
  left: number; // px that the row names take
  cell: number; // px, the width of a column
  width: number;
  height: number;
}

export function geometryOf(picture: Picture): Geometry {
  const { rows, columns, rail } = picture;
  const longest = (names: string[]): number => Math.max(0, ...names.map(({ length }) => length));
  const left = LETTER * longest([picture.rowName(0), picture.rowName(rows - 1)]) + 18;
  const cell = Math.max(CELL, LETTER * longest([picture.columnName(columns - 1)]) + 8);
  const beyond = rail > 0 ? RAIL_GAP + Math.max(rail * cell, 80) : 0;
  return { left, cell, width: left + columns * cell + beyond + 8, height: HEAD + rows * CELL + 8 };
}

/** The rows and columns that a view of `width` × `height` px shows when scrolled to (x, y). */
export function windowOf(
  { rows, columns, rail }: Picture,
  { left, cell }: Geometry,
  view: { x: number; y: number; width: number; height: number },
): Window {
  const from = (at: number, size: number): number => Math.max(0, Math.floor(at / size));
  const to = (at: number, size: number, most: number): number =>
    Math.min(most, Math.max(0, Math.ceil(at / size)));
  return {
    fromRow: from(view.y, CELL),
    toRow: to(view.y + view.height - HEAD, CELL, rows),
    fromColumn: from(view.x, cell),
    toColumn: to(view.x + view.width - left, cell, columns + rail),
  };
}

export interface Map2D {
  element: HTMLElement;
  /** Draw again: another theme. */
  redraw(): void;
}

/** Make the picture's element; `choose` is told of Enter and clicks on what was touched. */
export function mountMap(picture: Picture, choose: () => void, signal: AbortSignal): Map2D {
  const geometry = geometryOf(picture);
  const { left, cell } = geometry;
  const { rows, columns, rail } = picture;
  const canvas = make("canvas", { class: "wb-map-canvas", role: "img" });
  canvas.setAttribute("aria-label", picture.sentence);
  const spacer = make("div", { class: "wb-map-spacer", role: "presentation" }, canvas);
  spacer.style.width = `${geometry.width}px`;
  spacer.style.height = `${geometry.height}px`;
  const scroller = make(
    "div",
    {
      class: "wb-map",
      role: "region",
      tabindex: "0",
      "aria-label": `${picture.verb} ${picture.array}`,
    },
    spacer,
  );
  scroller.style.height = `${Math.min(geometry.height + 12, HIGHEST)}px`;
  scroller.style.width = `${geometry.width + 12}px`;
  const words = make("p", { class: "wb-map-words wb-muted", "aria-live": "polite" }, " ");
  const probes = makeProbes();
  const element = make("div", { class: "wb-map-box" }, scroller, words, probes.element);
  let [currentRow, currentColumn] = [-1, -1];
  let visible = typeof IntersectionObserver === "undefined";
  let waiting = false;

  const paint = (): void => {
    waiting = false;
    if (!visible || signal.aborted) return;
    const view = {
      x: scroller.scrollLeft,
      y: scroller.scrollTop,
      width: Math.min(scroller.clientWidth || UNSEEN.width, geometry.width),
      height: Math.min(scroller.clientHeight || UNSEEN.height, geometry.height),
    };
    const ratio = globalThis.devicePixelRatio || 1;
    canvas.width = Math.ceil(view.width * ratio);
    canvas.height = Math.ceil(view.height * ratio);
    canvas.style.width = `${view.width}px`;
    canvas.style.height = `${view.height}px`;
    const pen = canvas.getContext("2d");
    if (!pen) return;
    pen.scale(ratio, ratio);
    const shown = windowOf(picture, geometry, view);
    canvas.dataset.spots = String(
      (shown.toRow - shown.fromRow) * (shown.toColumn - shown.fromColumn),
    );
    drawWindow(pen, picture, geometry, view, shown, probes.colours(), [currentRow, currentColumn]);
  };
  const soon = (): void => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(paint);
  };
  const tell = (row: number, column: number): void => {
    const inside = row >= 0 && row < rows && column >= 0 && column < columns + rail;
    words.textContent = (inside && picture.tell(row, column)) || " ";
  };
  const under = (event: MouseEvent): [number, number] => {
    const box = scroller.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left - left, event.clientY - box.top - HEAD];
    if (x < 0 || y < 0) return [-1, -1];
    const at = x + scroller.scrollLeft;
    const shifted = at >= columns * cell ? at - RAIL_GAP : at;
    return [Math.floor((y + scroller.scrollTop) / CELL), Math.floor(shifted / cell)];
  };
  const listen = <K extends keyof HTMLElementEventMap>(
    type: K,
    handler: (event: HTMLElementEventMap[K]) => void,
  ): void => scroller.addEventListener(type, handler, { signal });
  listen("scroll", soon);
  listen("mousemove", (event) => tell(...under(event)));
  listen("mouseleave", () => tell(currentRow, currentColumn));
  listen("click", (event) => {
    const [row, column] = under(event);
    if (row < 0 || column < 0 || row >= rows || column >= columns + rail) return;
    moveTo(row, column);
    if (picture.spot(row, column).accesses.length > 0) choose();
  });
  const moveTo = (row: number, column: number): void => {
    currentRow = Math.max(0, Math.min(rows - 1, row));
    currentColumn = Math.max(0, Math.min(columns + rail - 1, column));
    const [top, at] = [currentRow * CELL, currentColumn * cell];
    const [high, wide] = [scroller.clientHeight - HEAD - CELL, scroller.clientWidth - left - cell];
    if (top < scroller.scrollTop) scroller.scrollTop = top;
    else if (top > scroller.scrollTop + high) scroller.scrollTop = top - Math.max(0, high);
    if (at < scroller.scrollLeft) scroller.scrollLeft = at;
    else if (at > scroller.scrollLeft + wide) scroller.scrollLeft = at - Math.max(0, wide);
    tell(currentRow, currentColumn);
    soon();
  };
  listen("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    const step = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] }[
      event.key
    ];
    if (step)
      moveTo(Math.max(0, currentRow) + (step[0] ?? 0), Math.max(0, currentColumn) + (step[1] ?? 0));
    else if (event.key === "Home") moveTo(Math.max(0, currentRow), 0);
    else if (event.key === "End") moveTo(Math.max(0, currentRow), columns + rail - 1);
    else if (event.key === "Enter" || event.key === " ") choose();
    else return;
    event.preventDefault();
  });
  const resized = new ResizeObserver(soon);
  resized.observe(scroller);
  const seen =
    typeof IntersectionObserver === "undefined"
      ? undefined
      : new IntersectionObserver(([entry]) => {
          visible = entry?.isIntersecting ?? true;
          if (visible) soon();
          else canvas.width = canvas.height = 0; // its pixels go back
        });
  seen?.observe(scroller);
  signal.addEventListener("abort", () => {
    resized.disconnect();
    seen?.disconnect();
  });
  const redraw = (): void => {
    probes.forget();
    soon();
  };
  return { element, redraw };
}

interface Colours {
  text: string;
  muted: string;
  border: string;
  raised: string;
  bad: string;
  background: string;
  accent: string;
  font: string;
  series: string[];
}

/** Elements whose computed colours are those of the theme: light-dark() cannot be read otherwise. */
function makeProbes(): { element: HTMLElement; colours(): Colours; forget(): void } {
  const names = ["fg", "muted", "border", "raised", "bad", "bg", "accent"];
  const probe = (className: string): HTMLElement => make("i", { class: className });
  const plain = names.map((name) => probe(`wb-probe-${name}`));
  const series = [0, 1, 2, 3, 4].map((i) => probe(`wb-probe-series wb-series${i}`));
  const element = make("span", { "aria-hidden": "true", class: "wb-probes" }, ...plain, ...series);
  let known: Colours | undefined;
  return {
    element,
    forget: () => {
      known = undefined;
    },
    colours() {
      if (known) return known;
      const colour = (of: HTMLElement): string => getComputedStyle(of).color;
      const [text, muted, border, raised, bad, background, accent] = plain.map(colour) as [
        string,
        string,
        string,
        string,
        string,
        string,
        string,
      ];
      const font = getComputedStyle(element).fontFamily;
      known = {
        text,
        muted,
        border,
        raised,
        bad,
        background,
        accent,
        font,
        series: series.map(colour),
      };
      return known;
    },
  };
}

function drawWindow(
  pen: CanvasRenderingContext2D,
  picture: Picture,
  { left, cell }: Geometry,
  view: { x: number; y: number; width: number; height: number },
  shown: Window,
  colours: Colours,
  [currentRow, currentColumn]: [number, number],
): void {
  const xOf = (column: number): number =>
    left + column * cell - view.x + (column >= picture.columns ? RAIL_GAP : 0);
  const yOf = (row: number): number => HEAD + row * CELL - view.y;
  const write = (text: string, x: number, y: number, colour: string, most: number): void => {
    pen.fillStyle = colour;
    pen.fillText(text, x, y, most);
  };
  pen.fillStyle = colours.background;
  pen.fillRect(0, 0, view.width, view.height);
  pen.textBaseline = "middle";
  pen.textAlign = "center";
  pen.save();
  pen.beginPath();
  pen.rect(left, HEAD, view.width, view.height);
  pen.clip();
  for (let row = shown.fromRow; row < shown.toRow; row++) {
    for (let column = shown.fromColumn; column < shown.toColumn; column++) {
      const { mark, text, colour } = picture.spot(row, column);
      const inRail = column >= picture.columns;
      if (inRail && text === "") continue;
      const [x, y] = [xOf(column) + 2, yOf(row) + 2];
      drawSpot(pen, mark, x, y, cell - 4, CELL - 4, colours, colours.series[colour] ?? "");
      pen.font = `600 12px ${colours.font}`;
      const ink = mark === "live" ? colours.background : colours.text;
      if (text !== "") {
        if (mark === "masked") {
          pen.fillStyle = colours.background;
          const wide = Math.min(cell - 8, pen.measureText(text).width + 6);
          pen.fillRect(x + (cell - 4 - wide) / 2, y + CELL / 2 - 10, wide, 16);
        }
        write(text, x + cell / 2 - 2, y + CELL / 2 - 1, ink, cell - 6);
      }
      if (row === currentRow && column === currentColumn) {
        pen.strokeStyle = colours.accent;
        pen.lineWidth = 2;
        pen.setLineDash([]);
        pen.strokeRect(x - 1, y - 1, cell - 2, CELL - 2);
      }
    }
  }
  pen.restore();
  pen.save();
  pen.beginPath();
  pen.rect(left, 0, view.width, HEAD);
  pen.clip();
  for (
    let column = shown.fromColumn;
    column < Math.min(shown.toColumn, picture.columns);
    column++
  ) {
    pen.font = `${picture.isPast(column) ? "italic " : ""}11.5px ${colours.font}`;
    write(
      picture.columnName(column),
      xOf(column) + cell / 2,
      HEAD / 2 + 2,
      colours.muted,
      cell - 2,
    );
  }
  if (picture.rail > 0) {
    pen.textAlign = "left";
    pen.font = `italic 11.5px ${colours.font}`;
    write("masked off", xOf(picture.columns), HEAD / 2 + 2, colours.muted, 80);
  }
  pen.restore();
  pen.save();
  pen.beginPath();
  pen.rect(0, HEAD, left, view.height);
  pen.clip();
  pen.textAlign = "right";
  pen.font = `11.5px ${colours.font}`;
  for (let row = shown.fromRow; row < shown.toRow; row++) {
    write(picture.rowName(row), left - 9, yOf(row) + CELL / 2, colours.muted, left - 10);
  }
  pen.restore();
  pen.textAlign = "right";
  pen.font = `11.5px ${colours.font}`;
  write(picture.array, left - 9, HEAD / 2 + 2, colours.muted, left - 10);
}

function drawSpot(
  pen: CanvasRenderingContext2D,
  mark: Mark,
  x: number,
  y: number,
  width: number,
  height: number,
  colours: Colours,
  series: string,
): void {
  pen.setLineDash(mark === "past" || mark === "masked" ? [3, 3] : []);
  pen.lineWidth = 1;
  pen.beginPath();
  pen.roundRect(x, y, width, height, 3);
  if (mark === "live") {
    pen.fillStyle = series;
    pen.fill();
    return;
  }
  if (mark === "empty") {
    pen.fillStyle = colours.raised;
    pen.fill();
  }
  pen.strokeStyle =
    mark === "unwritten" ? colours.bad : mark === "masked" ? colours.muted : colours.border;
  pen.stroke();
  if (mark === "masked") {
    pen.save();
    pen.clip();
    pen.setLineDash([]);
    pen.globalAlpha = 0.55;
    pen.beginPath();
    for (let at = -height; at < width; at += HATCH) {
      pen.moveTo(x + at, y + height);
      pen.lineTo(x + at + height, y);
    }
    pen.stroke();
    pen.restore();
  } else if (mark === "unwritten") {
    const [middle, centre, arm] = [x + width / 2, y + height / 2, 6];
    pen.lineWidth = 2;
    pen.beginPath();
    pen.moveTo(middle - arm, centre - arm);
    pen.lineTo(middle + arm, centre + arm);
    pen.moveTo(middle + arm, centre - arm);
    pen.lineTo(middle - arm, centre + arm);
    pen.stroke();
  }
}
