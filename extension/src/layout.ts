// A layout as a picture: which warp and lane hold each element of a tile, or in which bank of shared
// memory it lies. The layout is a linear map over bits; an element's place is found by adding (xor)
// the basis vectors of each place.
import { draw, make } from "./dom";
import type { Layout } from "./trace";

const MOST = 32; // rows and columns that are drawn
const CELL = 12;
const COLOURS = [
  "#cfe8ff",
  "#ffe3b3",
  "#c9efd9",
  "#f6d5e6",
  "#fff7b0",
  "#e0d8f5",
  "#ffd6c9",
  "#dfe7ea",
];
const MOST_PLACES = 1 << 17;

/** Of shared memory: so many banks of four bytes lie side by side; four share a colour. */
const [BANKS, BANK_BYTES, BANKS_OF_A_COLOUR] = [32, 4, 4];

/** Bytes of an element: what its type's name ends in, "f16", "i64", "f8e4m3"; of i1 one. */
export function bytesOf(element: string): number {
  if (element.startsWith("ptr")) return 8;
  const bits = Number(/^\D+(\d+)/.exec(element)?.[1] ?? 32);
  return Math.max(1, bits / 8);
}

/** What stands in a cell, and the number that its colour goes by. */
function marked(layout: Layout, holder: Record<string, number>): { label: string; colour: number } {
  if (layout.kind === "register")
    return { label: String(holder.lane ?? 0), colour: holder.warp ?? 0 };
  const word = Math.floor(((holder.offset ?? 0) * bytesOf(layout.element)) / BANK_BYTES);
  const bank = word % BANKS;
  return { label: String(bank), colour: Math.floor(bank / BANKS_OF_A_COLOUR) };
}

/** The first holder of each element: for a tile of two axes, "warp 1 lane 5 register 2". */
export function holders({ bases = {}, shape }: Layout): Map<string, Record<string, number>> {
  const dims = Object.entries(bases);
  const bits = dims.flatMap(([name, vectors]) =>
    vectors.map((vector, bit) => ({ name, vector, bit })),
  );
  const found = new Map<string, Record<string, number>>();
  const count = 2 ** bits.length;
  if (!(count <= MOST_PLACES)) return found;
  for (let place = 0; place < count; place++) {
    const at = shape.map(() => 0);
    const holder: Record<string, number> = Object.fromEntries(dims.map(([name]) => [name, 0]));
    bits.forEach(({ name, vector, bit }, i) => {
      if (!(place & (1 << i))) return;
      vector.forEach((value, axis) => {
        at[axis] = (at[axis] ?? 0) ^ value;
      });
      holder[name] = (holder[name] ?? 0) | (1 << bit);
    });
    if (at.slice(-2).some((index) => index >= MOST)) continue; // not drawn
    const key = at.join();
    if (!found.has(key)) found.set(key, holder);
  }
  return found;
}

export function layoutPicture(layout: Layout): HTMLElement {
  const { shape, value, element, kind } = layout;
  const words = `${value}: ${shape.join(" × ")} of ${element}`;
  const rows = shape.length > 1 ? (shape.at(-2) ?? 1) : 1;
  const columns = shape.at(-1) ?? 1;
  const [high, wide] = [Math.min(MOST, rows), Math.min(MOST, columns)];
  const found = holders(layout);
  const lead = shape.slice(0, -2).map(() => 0);
  const picture = draw("svg", {
    role: "img",
    "aria-label": `${kind === "register" ? "Which warp holds" : "In which bank lies"} each element of ${words}`,
    width: wide * CELL + 1,
    height: high * CELL + 1,
  });
  const holderAt = (row: number, column: number): Record<string, number> | undefined =>
    found.get((shape.length > 1 ? [...lead, row, column] : [column]).join());
  const thread = (holder: Record<string, number> | undefined): string => {
    if (!holder) return "";
    const { label, colour } = marked(layout, holder);
    return `${colour} ${label}`;
  };
  for (let row = 0; row < high; row++) {
    for (let column = 0; column < wide; ) {
      const holder = holderAt(row, column);
      let end = column + 1; // elements side by side of one thread are one box
      while (end < wide && thread(holderAt(row, end)) === thread(holder)) end++;
      if (holder) picture.append(box(layout, holder, row, column, end));
      column = end;
    }
  }
  const dims = Object.entries(layout.bases ?? {}).map(
    ([name, vectors]) =>
      `${name}: ${vectors.map((vector) => `(${vector.join(", ")})`).join(" ") || "–"}`,
  );
  const cut = high < rows || wide < columns ? `; the first ${high} × ${wide} are drawn` : "";
  return make(
    "figure",
    { class: "wb-layout", role: "region", tabindex: "0", "aria-label": words },
    found.size > 0 && make("div", { class: "wb-wide" }, picture),
    make(
      "figcaption",
      {},
      `${words}${found.size > 0 ? `; ${kind === "register" ? "colours are warps, numbers are lanes" : "numbers are banks"}${cut}` : ""}`,
      make("ul", {}, ...dims.map((dim) => make("li", {}, dim))),
    ),
  );
}

function box(
  layout: Layout,
  holder: Record<string, number>,
  row: number,
  column: number,
  end: number,
): SVGElement {
  const { label: number, colour } = marked(layout, holder);
  const said = Object.entries(holder).map(([name, index]) => `${name} ${index}`);
  const width = (end - column) * CELL;
  const area = {
    x: column * CELL + 0.5,
    y: row * CELL + 0.5,
    width,
    height: CELL,
    fill: COLOURS[colour % COLOURS.length] ?? "",
    stroke: "#8c959f",
    "stroke-width": 0.4,
  };
  const label = { x: column * CELL + width / 2 + 0.5, y: row * CELL + 9, class: "wb-lane" };
  return draw(
    "g",
    {},
    draw("title", {}, `row ${row}, from column ${column}: ${said.join(", ")}`),
    draw("rect", area),
    draw("text", label, number),
  );
}
