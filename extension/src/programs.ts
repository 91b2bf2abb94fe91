// Who touched which element, as a table of spots that a canvas can draw a window of. Everything is
// indexed once; a spot is then a look-up, whatever the sizes of grid and array.
//
// | array      | rows                | columns          | a spot shows          |
// |------------|---------------------|------------------|-----------------------|
// | 1-D        | programs            | elements         | the lane of the tile  |
// | 2-D and up | its leading indices | its last index   | the program           |
import type { Access, LaunchArgument, MemoryAccess, Trace } from "./trace";

/** Up to so many elements are drawn whether touched or not; of a longer stretch only the touched. */
const MOST_COLUMNS = 100_000;
const MOST_TOLD = 12; // programs, and lanes of each, that the sentence names

export type Mark = "empty" | "past" | "live" | "masked" | "unwritten";

export interface Spot {
  mark: Mark;
  text: string;
  colour: number; // which of the series colours
  accesses: readonly Access[];
}

export interface Picture {
  array: string;
  op: number;
  verb: string; // "store to"
  rows: number;
  columns: number;
  rail: number; // columns at the end for lanes that are off and point outside the array
  rowName(row: number): string;
  columnName(column: number): string;
  isPast(column: number): boolean; // beyond the array's last element
  spot(row: number, column: number): Spot;
  /** The spot in a sentence; "" where there is none. */
  tell(row: number, column: number): string;
  unwritten: readonly number[]; // elements that no program wrote, by their place in memory
  facts: string[]; // what to say beside the picture
  sentence: string; // the picture in words, for who cannot see it
}

export function recordedAccesses(trace: Trace): MemoryAccess[] {
  return (trace.access ?? []).filter(({ addr }) => (addr ?? []).length > 0);
}

/** The arrays that an op read or wrote; where it did neither, those that it pointed into. */
export function arraysOf(accesses: readonly Access[]): string[] {
  const names = (list: readonly Access[]): string[] => [...new Set(list.map(([, , name]) => name))];
  const live = names(accesses.filter(([, , , , on]) => on));
  return live.length > 0 ? live : names(accesses);
}

/** All pictures of a trace, a function each: what nobody looks at is not arranged. */
export function picturesOf(trace: Trace): { access: MemoryAccess; make: () => Picture }[] {
  const written = writtenElements(trace);
  return recordedAccesses(trace).flatMap((access) =>
    arraysOf(access.addr ?? []).map((array) => ({
      access,
      make: () => arrange(access, array, trace, written.get(array)),
    })),
  );
}

/** Elements of each array that some program wrote; none for an array whose record is not whole. */
export function writtenElements(trace: Trace): Map<string, Set<number>> {
  const found = new Map<string, Set<number>>();
  const cut = new Set<string>();
  for (const { direction, addr = [], accesses } of recordedAccesses(trace)) {
    if (direction === "load") continue;
    for (const [, , array, element, on] of addr) {
      if (accesses) cut.add(array);
      const elements = found.get(array) ?? new Set();
      found.set(array, elements);
      if (on) elements.add(element);
    }
  }
  for (const array of cut) found.delete(array);
  return found;
}

interface Index {
  own: Access[];
  programs: number[];
  off: Map<number, number[]>; // program -> lanes that are off and point outside the array
}

function indexOf(accesses: readonly Access[], array: string): Index {
  const own = accesses.filter(([, , name, element]) => name === array && element >= 0);
  // A lane that is off may point anywhere: outside every array, or into the next one in memory.
  const single = arraysOf(accesses).length === 1;
  const off = new Map<number, number[]>();
  for (const [program, lane, name, element, on] of accesses) {
    if (!single || on || (element >= 0 && name === array)) continue;
    const lanes = off.get(program);
    if (lanes) lanes.push(lane);
    else off.set(program, [lane]);
  }
  const programs = [...new Set([...own.map(([program]) => program), ...off.keys()])];
  return { own, programs: programs.sort((a, b) => a - b), off };
}

/** Arrange the accesses of one op to one array. */
export function arrange(
  access: MemoryAccess,
  array: string,
  trace: Trace,
  written?: ReadonlySet<number>,
): Picture {
  const argument = (trace.runs.launches ?? [])
    .flatMap(({ args }) => args ?? [])
    .find(({ name }) => name === array);
  const index = indexOf(access.addr ?? [], array);
  const shape = argument?.shape ?? [];
  const deep = shape.filter((extent) => extent > 1).length > 1;
  const layout = deep
    ? byIndices(index, argument as LaunchArgument, written)
    : byPrograms(index, argument, written);
  const verb = { load: "load from", store: "store to", atomic: "atomic on" }[access.direction];
  const { length: missing } = layout.unwritten;
  const cut = access.accesses ?? 0;
  const facts = [
    cut > 0 ? `the first ${grouped((access.addr ?? []).length)} of ${grouped(cut)} accesses` : "",
    missing > 0
      ? `${grouped(missing)} of ${grouped(sizeOf(shape))} elements written by nobody`
      : "",
    deep && index.off.size > 0
      ? `${grouped([...index.off.values()].flat().length)} lanes off, outside the array`
      : "",
  ].filter(Boolean);
  return {
    array,
    op: access.op,
    verb,
    facts,
    ...layout,
    sentence: sentenceOf(index, `${verb} ${array}`, shape, facts),
  };
}

type Layout = Omit<Picture, "array" | "op" | "verb" | "facts" | "sentence">;

/** One row for each program, one column for each element. */
function byPrograms(
  { own, programs, off }: Index,
  argument: LaunchArgument | undefined,
  written: ReadonlySet<number> | undefined,
): Layout {
  const size = argument?.shape ? sizeOf(argument.shape) : undefined;
  const touched = [...new Set(own.map(([, , , element]) => element))].sort((a, b) => a - b);
  const last = Math.max(touched.at(-1) ?? 0, (size ?? 1) - 1);
  const whole = last < MOST_COLUMNS;
  const columns = whole ? last + 1 : Math.min(touched.length, MOST_COLUMNS);
  const element = (column: number): number => (whole ? column : (touched[column] ?? -1));
  const unwritten = unwrittenOf(written, size);
  const missing = new Set(unwritten);
  const rowOf = new Map(programs.map((program, row) => [program, row]));
  const columnOf = new Map(whole ? [] : touched.map((at, column) => [at, column]));
  const at = new Map<number, Access[]>();
  for (const access of own) {
    const column = whole ? access[3] : (columnOf.get(access[3]) ?? columns);
    if (column >= columns) continue;
    push(at, (rowOf.get(access[0]) ?? 0) * columns + column, access);
  }
  const rail = [...off.values()].reduce((most, { length }) => Math.max(most, length), 0);
  const isPast = (column: number): boolean => size !== undefined && element(column) >= size;
  const nobody = programs.length; // the row below the programs
  const spot = (row: number, column: number): Spot => {
    if (column >= columns) {
      const lane = off.get(programs[row] ?? -1)?.[column - columns];
      return spotOf("masked", lane === undefined ? "" : String(lane), row, []);
    }
    if (row === nobody) {
      return spotOf(missing.has(element(column)) ? "unwritten" : "empty", "", row, []);
    }
    const found = at.get(row * columns + column) ?? [];
    if (found.length === 0) return spotOf(isPast(column) ? "past" : "empty", "", row, found);
    const live = found.filter(([, , , , on]) => on);
    const lanes = (live.length > 0 ? live : found).map(([, lane]) => lane);
    const text = lanes.length > 1 ? `${lanes.length}×` : String(lanes[0]);
    return spotOf(live.length > 0 ? "live" : "masked", text, row, found);
  };
  return {
    rows: programs.length + (unwritten.length > 0 ? 1 : 0),
    columns,
    rail,
    rowName: (row) => (row === nobody ? "nobody" : `program ${programs[row]}`),
    columnName: (column) => (column < columns ? `[${element(column)}]` : ""),
    isPast,
    spot,
    unwritten,
    tell(row, column) {
      const { mark, text, accesses } = spot(row, column);
      if (column >= columns) {
        return text === ""
          ? ""
          : `program ${programs[row]}: lane ${text} is off, outside the array`;
      }
      const name = `[${element(column)}]`;
      if (mark === "unwritten") return `${name}: no program wrote it`;
      return told(accesses, name, row === nobody ? "" : `program ${programs[row]}`);
    },
  };
}

/** The array as it is indexed: its last index across, all others down. */
function byIndices(
  { own }: Index,
  argument: LaunchArgument,
  written: ReadonlySet<number> | undefined,
): Layout {
  const shape = argument.shape ?? [];
  const strides = argument.stride ?? rowMajor(shape);
  const columns = Math.min(shape.at(-1) ?? 1, MOST_COLUMNS);
  const rows = Math.min(sizeOf(shape.slice(0, -1)), MOST_COLUMNS);
  const leading = (row: number): number[] => {
    const indices: number[] = [];
    for (let axis = shape.length - 2; axis >= 0; axis--) {
      const extent = shape[axis] ?? 1;
      indices.unshift(row % extent);
      row = Math.floor(row / extent);
    }
    return indices;
  };
  const place = (row: number, column: number): number =>
    [...leading(row), column].reduce((sum, i, axis) => sum + i * (strides[axis] ?? 0), 0);
  const at = new Map<number, Access[]>();
  for (const access of own) push(at, access[3], access);
  const programs = [...new Set(own.map(([program]) => program))].sort((a, b) => a - b);
  const colours = new Map(programs.map((program, i) => [program, i]));
  const unwritten: number[] = [];
  if (written && rows * columns <= MOST_COLUMNS) {
    for (let row = 0; row < rows; row++) {
      for (let column = 0; column < columns; column++) {
        if (!written.has(place(row, column))) unwritten.push(place(row, column));
      }
    }
  }
  const spot = (row: number, column: number): Spot => {
    const element = place(row, column);
    const found = at.get(element) ?? [];
    const live = found.filter(([, , , , on]) => on);
    if (found.length === 0 || (live.length === 0 && written)) {
      const missing = written !== undefined && !written.has(element);
      if (missing || found.length === 0) {
        return spotOf(missing ? "unwritten" : "empty", "", 0, found);
      }
    }
    const own = [...new Set((live.length > 0 ? live : found).map(([program]) => program))];
    const text = own.length > 1 ? `${own.length}×` : String(own[0]);
    const colour = colours.get(own[0] ?? 0) ?? 0;
    return spotOf(live.length > 0 ? "live" : "masked", text, colour, found);
  };
  return {
    rows,
    columns,
    rail: 0,
    rowName: (row) => `[${[...leading(row), "·"].join(", ")}]`,
    columnName: String,
    isPast: () => false,
    spot,
    unwritten,
    tell(row, column) {
      const { mark, accesses } = spot(row, column);
      const name = `[${[...leading(row), column].join(", ")}]`;
      if (mark === "unwritten") return `${name}: no program wrote it`;
      return told(accesses, name, "");
    },
  };
}

function spotOf(mark: Mark, text: string, colour: number, accesses: readonly Access[]): Spot {
  return { mark, text, colour: colour % 5, accesses };
}

function told(accesses: readonly Access[], name: string, who: string): string {
  if (accesses.length === 0) return who === "" ? `${name}: not touched` : `${name}: not by ${who}`;
  const parts = accesses
    .slice(0, 4)
    .map(([program, lane, , , on]) => `program ${program} lane ${lane}${on ? "" : " (off)"}`);
  const more = accesses.length > 4 ? ` and ${accesses.length - 4} more` : "";
  return `${name}: ${parts.join(", ")}${more}`;
}

function push<K>(lists: Map<K, Access[]>, key: K, access: Access): void {
  const list = lists.get(key);
  if (list) list.push(access);
  else lists.set(key, [access]);
}

function unwrittenOf(written: ReadonlySet<number> | undefined, size: number | undefined): number[] {
  if (!written || size === undefined || size > MOST_COLUMNS) return [];
  return Array.from({ length: size }, (_, i) => i).filter((i) => !written.has(i));
}

function sizeOf(shape: readonly number[]): number {
  return shape.reduce((product, extent) => product * extent, 1);
}

function rowMajor(shape: readonly number[]): number[] {
  return shape.map((_, axis) => sizeOf(shape.slice(axis + 1)));
}

function grouped(amount: number): string {
  return amount.toLocaleString("en-US");
}

function sentenceOf(
  { own, programs, off }: Index,
  what: string,
  shape: readonly number[],
  facts: readonly string[],
): string {
  const of = new Map<number, Access[]>();
  for (const access of own) push(of, access[0], access);
  const parts = programs.slice(0, MOST_TOLD).map((program) => {
    const all = of.get(program) ?? [];
    const live = all.filter(([, , , , on]) => on);
    const named = live.slice(0, MOST_TOLD).map(([, lane, , element]) => `${lane}→[${element}]`);
    if (live.length > named.length) named.push(`${grouped(live.length - named.length)} more`);
    const masked = all.length - live.length + (off.get(program)?.length ?? 0);
    const lanes = named.join(", ") || "nothing";
    return `program ${program}: ${lanes}${masked > 0 ? `, ${grouped(masked)} masked off` : ""}`;
  });
  if (programs.length > parts.length) parts.push(`${programs.length - parts.length} programs more`);
  const size = shape.length === 0 ? "" : ` of ${grouped(sizeOf(shape))} elements`;
  const rest = facts.length > 0 ? ` ${facts.join("; ")}.` : "";
  return `${what}${size}. ${parts.join("; ")}.${rest}`;
}
