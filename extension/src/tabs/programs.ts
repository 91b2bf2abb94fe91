// The Programs tab: which program touched which element of an array, through which element of its
// tile, as the interpreter recorded it. One row per program, one column per array element.
import { draw, make } from "../dom";
import { placeName } from "../stages";
import type { Access, MemoryAccess, Trace } from "../trace";
import type { Tab, TabServices } from "./tab";

const WIDEST = 64; // columns up to which untouched elements are drawn too
const CELL = 34;
const LEFT = 96;
const TOP = 40;

export function recordedAccesses(trace: Trace): MemoryAccess[] {
  return (trace.access ?? []).filter(({ addr }) => (addr ?? []).length > 0);
}

export interface ProgramGrid {
  array: string;
  size: number | undefined; // elements of the array, if a launch says so
  columns: number[]; // array elements, ascending
  programs: number[];
  at(program: number, element: number): Access | undefined;
}

/** Arrange the accesses of one op to one array. */
export function arrangePrograms(
  accesses: readonly Access[],
  array: string,
  trace: Trace,
): ProgramGrid {
  const own = accesses.filter(([, , name]) => name === array);
  const argument = (trace.runs.launches ?? [])
    .flatMap(({ args }) => args ?? [])
    .find(({ name }) => name === array);
  const size = argument?.shape?.reduce((product, extent) => product * extent, 1);
  const touched = [...new Set(own.map(([, , , element]) => element))].sort((a, b) => a - b);
  const [low, high] = [touched[0] ?? 0, Math.max(touched.at(-1) ?? 0, (size ?? 1) - 1)];
  const from = low < WIDEST ? Math.min(low, 0) : low;
  const full = high - from < WIDEST;
  const columns = full ? Array.from({ length: high - from + 1 }, (_, i) => from + i) : touched;
  const index = new Map(own.map((access) => [`${access[0]}/${access[3]}`, access]));
  return {
    array,
    size,
    columns,
    programs: [...new Set(own.map(([program]) => program))].sort((a, b) => a - b),
    at: (program, element) => index.get(`${program}/${element}`),
  };
}

export function mountPrograms(panel: HTMLElement, services: TabServices): Tab {
  const { trace, ops, signal } = services;
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
      "Each row is one program instance, each column one element of the array. A filled square says " +
        "which element of the program's tile read or wrote it; a hatched one was masked off, so " +
        "nothing was read or written there.",
    ),
  );
  for (const access of recordedAccesses(trace)) {
    const arrays = [...new Set((access.addr ?? []).map(([, , array]) => array))];
    for (const array of arrays) {
      const grid = arrangePrograms(access.addr ?? [], array, trace);
      const place = placeName(trace, ops.place(access.op));
      const verb = { load: "load from", store: "store to", atomic: "atomic on" }[access.direction];
      const open = make("button", { type: "button", class: "wb-place" }, place || "show the op");
      open.addEventListener("click", () => services.go({ tab: "stages", op: access.op }), {
        signal,
      });
      content.append(
        make(
          "section",
          {},
          make("h3", {}, `${verb} ${array} `, open),
          make(
            "div",
            { class: "wb-wide", role: "region", tabindex: "0", "aria-label": `${verb} ${array}` },
            drawGrid(grid, verb),
          ),
        ),
      );
    }
  }
  return {};
}

function drawGrid(grid: ProgramGrid, verb: string): SVGSVGElement {
  const { columns, programs, size, array } = grid;
  const [width, height] = [LEFT + columns.length * CELL + 8, TOP + programs.length * CELL + 8];
  const hatch = `wb-hatch-${array.replace(/\W/g, "_")}-${verb.slice(0, 4)}`;
  const svg = draw("svg", {
    viewBox: `0 0 ${width} ${height}`,
    width,
    height,
    class: "wb-programs",
    role: "img",
    "aria-label": describeGrid(grid, verb),
  });
  svg.append(
    draw(
      "defs",
      {},
      draw(
        "pattern",
        {
          id: hatch,
          width: 6,
          height: 6,
          patternUnits: "userSpaceOnUse",
          patternTransform: "rotate(45)",
        },
        draw("line", { x1: 0, x2: 0, y1: 0, y2: 6, class: "wb-hatch-line" }),
      ),
    ),
    draw("text", { x: LEFT - 10, y: TOP - 10, class: "wb-tick wb-end" }, array),
  );
  columns.forEach((element, column) => {
    const outside = size !== undefined && (element >= size || element < 0);
    const name = outside ? "wb-tick wb-middle wb-outside" : "wb-tick wb-middle";
    const x = LEFT + column * CELL + CELL / 2;
    svg.append(draw("text", { x, y: TOP - 10, class: name }, `[${element}]`));
  });
  programs.forEach((program, row) => {
    const y = TOP + row * CELL;
    svg.append(
      draw(
        "text",
        { x: LEFT - 10, y: y + CELL / 2 + 4, class: "wb-tick wb-end" },
        `program ${program}`,
      ),
    );
    columns.forEach((element, column) => {
      const x = LEFT + column * CELL;
      const box = { x: x + 2, y: y + 2, width: CELL - 4, height: CELL - 4, rx: 3 };
      const access = grid.at(program, element);
      const outside = size !== undefined && (element >= size || element < 0);
      svg.append(draw("rect", { ...box, class: outside ? "wb-cell wb-past" : "wb-cell" }));
      if (!access) return;
      const live = access[4];
      const fill: Record<string, string> = live
        ? { class: `wb-live wb-series${row % 5}` }
        : { fill: `url(#${hatch})`, class: "wb-masked" };
      svg.append(
        draw("rect", { ...box, ...fill }),
        draw(
          "text",
          {
            x: x + CELL / 2,
            y: y + CELL / 2 + 4,
            class: live ? "wb-lane wb-middle" : "wb-lane wb-off wb-middle",
          },
          String(access[1]),
        ),
      );
    });
  });
  return svg;
}

/** The picture in words, for who cannot see it. */
function describeGrid({ array, programs, columns, at, size }: ProgramGrid, verb: string): string {
  const parts = programs.map((program) => {
    const cells = columns.flatMap((element) => {
      const access = at(program, element);
      return access ? [access] : [];
    });
    const live = cells
      .filter((cell) => cell[4])
      .map(([, lane, , element]) => `${lane}→[${element}]`);
    const off = cells.length - live.length;
    return `program ${program}: ${live.join(", ") || "nothing"}${off > 0 ? `, ${off} masked off` : ""}`;
  });
  const of = size === undefined ? "" : ` of ${size} elements`;
  return `${verb} ${array}${of}. ${parts.join("; ")}.`;
}
