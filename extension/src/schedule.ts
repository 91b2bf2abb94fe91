// The schedule of a pipelined loop in words: roles, how far ahead each step is, rings of buffers.
import { count } from "./texts";
import type { Pipeline, Ring, Step } from "./trace";

/** "a: 4 slots × 16,384 bytes, barriers full and empty" */
export function ringWords({ value, slots, bytes, full, empty }: Ring): string {
  const told = [typeof full === "number" && "full", typeof empty === "number" && "empty"];
  const names = told.filter(Boolean).join(" and ");
  const size = bytes.toLocaleString("en-US");
  return `${value}: ${slots} slots × ${size} bytes, ${names === "" ? "no barriers in memory" : `barriers ${names}`}`;
}

/** "consumers: 8 warps, 240 registers a thread"; `all` are the registers that every thread has. */
export function roleWords(pipeline: Pipeline, role: number, all?: number | null): string {
  const warps = pipeline.warps?.[role];
  const registers = pipeline.registers?.[role] ?? all;
  const words = [
    typeof warps === "number" ? count(warps, "warp") : "",
    typeof registers === "number" ? `${registers} registers a thread` : "",
  ].filter(Boolean);
  const name = pipeline.roles[role] ?? "";
  return words.length > 0 ? `${name}: ${words.join(", ")}` : name;
}

/** In which round a stage is: "this round", "2 rounds ahead", "a round late". */
export function stageWords(pipeline: Pipeline, role: number, stage: number): string {
  if (stage === 0) return "this round";
  const rounds = Math.abs(stage) === 1 ? "a round" : `${Math.abs(stage)} rounds`;
  if (stage > 0) return `${rounds} late`;
  // One that waits for slots alone runs ahead as far as there are some.
  const alone = pipeline.roles.length > 1 && pipeline.roles[role] === "producer";
  return alone ? `up to ${rounds} ahead` : `${rounds} ahead`;
}

/** The stages of a role's rounds, the one that is furthest ahead first. */
export function stagesOf(pipeline: Pipeline, role: number): number[] {
  const steps = (pipeline.steps ?? []).filter(
    (step) => (step.role ?? 0) === role && (step.phase ?? "round") === "round",
  );
  return [...new Set(steps.map(({ stage }) => stage ?? 0))].sort((a, b) => a - b);
}

export function stepWords({ text, in_flight: going }: Step): string {
  return going ? `${text} · ${count(going, "product")} under way` : text;
}
