// A program that was run, step by step: where a slider stops, and what is said of a step.
import { count } from "./texts";
import type { Executed, Walk } from "./trace";

/** The steps at which it stops: where one of the lines begins, or all but plumbing.
 *
 * A line begins with its first op that is no plumbing, once each time that it is come to. */
export function placesOf(steps: readonly Executed[], lines: ReadonlySet<number>): number[] {
  if (lines.size === 0) return steps.flatMap(({ plumbing }, i) => (plumbing ? [] : [i]));
  const telling = new Set(steps.filter(({ plumbing }) => !plumbing).map(({ line }) => line));
  const found: number[] = [];
  let line: number | null | undefined;
  let first = -1;
  steps.forEach((step, i) => {
    if (step.plumbing && telling.has(step.line)) return;
    if (step.line === line && step.op !== first) return;
    [line, first] = [step.line, step.op];
    if (typeof line === "number" && lines.has(line)) found.push(i);
  });
  return found;
}

/** What a step's result is called: its own name where the source has one, else the op. */
export function nameOf({ names = [], text }: Executed): string {
  const own = names.find((name) => !/^\d+$/.test(name));
  if (own !== undefined) return own;
  return /\b[a-z]+\.(\w+)/.exec(text)?.[1] ?? "op";
}

/** "step 14 · line 8 · round 1 · part = 8  20 … 27 · reads x, elements 20 to 27: 8 of 8 are on". */
export function sentenceOf(walk: Walk, at: number): string {
  const step = (walk.steps ?? [])[at];
  if (!step) return "";
  const parts = [`step ${at + (walk.first ?? 0)}`];
  if (typeof step.line === "number") parts.push(`line ${step.line}`);
  if (step.round) parts.push(`round ${step.round}`);
  const name = nameOf(step);
  const value = (step.value ?? "").replace(/^([\d×]+) {2}/, "[$1] "); // the shape of a tile
  if (value === "" || /^[a-z]+\.[a-z_]+$/.test(value))
    parts.push(name); // it gives nothing
  else parts.push(value.startsWith("the ") ? `${name}: ${value}` : `${name} = ${value}`);
  if (step.accessed) parts.push(step.accessed);
  return parts.join(" · ");
}

/** "total, program (2) of 4: 37 steps". */
export function headOf({ kernel, program, grid, steps = [] }: Walk): string {
  const place = program.slice(0, Math.max(1, grid.length)).join(", ");
  const programs = grid.reduce((product, size) => product * size, 1);
  return `${kernel}, program (${place}) of ${programs.toLocaleString("en-US")}: ${count(steps.length, "step")}`;
}
