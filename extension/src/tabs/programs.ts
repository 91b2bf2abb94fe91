// The Programs tab: which program touched which element of an array, through which element of its
// tile, as the interpreter recorded it. One row per program, one column per array element.
import { draw, make, uniqueId } from "../dom";
import { placeName } from "../stages";
import type { Access, MemoryAccess, Trace } from "../trace";
import type { Tab, TabServices } from "./tab";

const WIDEST = 64; // columns up to which untouched elements are drawn too
const CELL = 34;
const LEFT = 96;
const TOP = 40;
const RAIL_TITLE = 70; // px

export function recordedAccesses(trace: Trace): MemoryAccess[] {
  return (trace.access ?? []).filter(({ addr }) => (addr ?? []).length > 0);
}

export interface ProgramGrid {
  array: string;
  size: number | undefined; // elements of the array, if a launch says so
  columns: number[]; // array elements, ascending
  programs: number[];
  at(program: number, element: number): Access[];
  /** Elements of the tile that were masked off and point outside the array. */
  off(program: number): number[];
}

/** The arrays that an op read or wrote; where it did neither, those that it pointed into. */
export function arraysOf(accesses: readonly Access[]): string[] {
  const names = (list: readonly Access[]): string[] => [...new Set(list.map(([, , name]) => name))];
  const live = names(accesses.filter(([, , , , on]) => on));
  return live.length > 0 ? live : names(accesses);
}

/** Arrange the accesses of one op to one array. */
export function arrangePrograms(
  accesses: readonly Access[],
  array: string,
  trace: Trace,
): ProgramGrid {
  const own = accesses.filter(([, , name, element]) => name === array && element >= 0);
  // A lane that is off may point anywhere: outside every array, or into the next one in memory.
  const single = arraysOf(accesses).length === 1;
  const stray = accesses.filter(
    ([, , name, element, on]) => !on && (element < 0 || (single && name !== array)),
  );
  const argument = (trace.runs.launches ?? [])
    .flatMap(({ args }) => args ?? [])
    .find(({ name }) => name === array);
  const size = argument?.shape?.reduce((product, extent) => product * extent, 1);
  const touched = [...new Set(own.map(([, , , element]) => element))].sort((a, b) => a - b);
  const [low, high] = [touched[0] ?? 0, Math.max(touched.at(-1) ?? 0, (size ?? 1) - 1)];
  const from = low < WIDEST ? 0 : low;
  const columns =
    high - from < WIDEST ? Array.from({ length: high - from + 1 }, (_, i) => from + i) : touched;
  const programs = [...new Set([...own, ...(single ? stray : [])].map(([program]) => program))];
  return {
    array,
    size,
    columns,
    programs: programs.sort((a, b) => a - b),
    at: (program, element) =>
      own.filter((access) => access[0] === program && access[3] === element),
    off: (program) =>
      single ? stray.filter(([of]) => of === program).map(([, lane]) => lane) : [],
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
        "it touched nothing.",
    ),
  );
  const pictures = make("div", { class: "wb-pictures" });
  content.append(pictures);
  for (const access of recordedAccesses(trace)) {
    for (const array of arraysOf(access.addr ?? [])) {
      const grid = arrangePrograms(access.addr ?? [], array, trace);
      const place = placeName(trace, ops.place(access.op));
      const verb = { load: "load from", store: "store to", atomic: "atomic on" }[access.direction];
      const open = make("button", { type: "button", class: "wb-place" }, place || "show the op");
      open.addEventListener("click", () => services.go({ tab: "stages", op: access.op }), {
        signal,
      });
      pictures.append(
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
  const mostOff = Math.max(0, ...programs.map((program) => grid.off(program).length));
  const rail = LEFT + columns.length * CELL + CELL / 2; // where masked lanes outside the array stand
  const width = rail + Math.max(mostOff * CELL, mostOff > 0 ? RAIL_TITLE : 0) + 8;
  const height = TOP + programs.length * CELL + 8;
  const hatch = uniqueId("hatch");
  const svg = draw("svg", {
    viewBox: `0 0 ${width} ${height}`,
    width,
    height,
    class: "wb-programs",
    role: "img",
    "aria-label": describeGrid(grid, verb),
  });
  const stripes = { width: 6, height: 6, patternUnits: "userSpaceOnUse" };
  svg.append(
    draw(
      "defs",
      {},
      draw(
        "pattern",
        { id: hatch, ...stripes, patternTransform: "rotate(45)" },
        draw("line", { x1: 0, x2: 0, y1: 0, y2: 6, class: "wb-hatch-line" }),
      ),
    ),
    draw("text", { x: LEFT - 10, y: TOP - 10, class: "wb-tick wb-end" }, array),
  );
  const past = (element: number): boolean => size !== undefined && element >= size;
  const box = (x: number, y: number, classes: string, fill: Record<string, string> = {}): void => {
    const shape = { x: x + 2, y: y + 2, width: CELL - 4, height: CELL - 4, rx: 3 };
    svg.append(draw("rect", { ...shape, class: classes, ...fill }));
  };
  const lane = (x: number, y: number, text: string, classes: string): void => {
    svg.append(draw("text", { x: x + CELL / 2, y: y + CELL / 2 + 4, class: classes }, text));
  };
  const masked = (x: number, y: number, text: string): void => {
    box(x, y, "wb-masked", { fill: `url(#${hatch})` });
    lane(x, y, text, "wb-lane wb-off wb-middle");
  };
  columns.forEach((element, column) => {
    const x = LEFT + column * CELL + CELL / 2;
    const name = `wb-tick wb-middle${past(element) ? " wb-outside" : ""}`;
    svg.append(draw("text", { x, y: TOP - 10, class: name }, `[${element}]`));
  });
  if (mostOff > 0) {
    svg.append(draw("text", { x: rail, y: TOP - 10, class: "wb-tick wb-outside" }, "masked off"));
  }
  programs.forEach((program, row) => {
    const y = TOP + row * CELL;
    const name = { x: LEFT - 10, y: y + CELL / 2 + 4, class: "wb-tick wb-end" };
    svg.append(draw("text", name, `program ${program}`));
    columns.forEach((element, column) => {
      const x = LEFT + column * CELL;
      const accesses = grid.at(program, element);
      box(x, y, past(element) ? "wb-cell wb-past" : "wb-cell");
      const live = accesses.filter(([, , , , on]) => on);
      const lanes = (live.length > 0 ? live : accesses).map(([, of]) => of);
      const text = lanes.length > 1 ? `${lanes.length}×` : String(lanes[0]);
      if (live.length > 0) {
        box(x, y, `wb-live wb-series${row % 5}`);
        lane(x, y, text, "wb-lane wb-middle");
      } else if (accesses.length > 0) {
        masked(x, y, text);
      }
    });
    grid.off(program).forEach((of, i) => {
      masked(rail + i * CELL, y, String(of));
    });
  });
  return svg;
}

/** The picture in words, for who cannot see it. */
function describeGrid(
  { array, programs, columns, at, off, size }: ProgramGrid,
  verb: string,
): string {
  const parts = programs.map((program) => {
    const cells = columns.flatMap((element) => at(program, element));
    const live = cells
      .filter(([, , , , on]) => on)
      .map(([, lane, , element]) => `${lane}→[${element}]`);
    const masked = cells.length - live.length + off(program).length;
    const told = live.join(", ") || "nothing";
    return `program ${program}: ${told}${masked > 0 ? `, ${masked} masked off` : ""}`;
  });
  const of = size === undefined ? "" : ` of ${size} elements`;
  return `${verb} ${array}${of}. ${parts.join("; ")}.`;
}
