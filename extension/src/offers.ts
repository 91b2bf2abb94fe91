// What is offered to paste into a cell: identifiers, numbers and plain words, or nothing. A trace may
// come from anywhere, and option lines evaluate expressions (workbench/trace/offers.py is the same).

const NAME = /^[\p{L}_][\p{L}\p{N}_]*$/u;

/** `--set NAME=VALUE` for a name and a plain value, null for anything else. */
export function setting(name: string, value: unknown): string | null {
  if (!NAME.test(name)) return null;
  if (value === null) return `--set ${name}=None`;
  if (typeof value === "boolean") return `--set ${name}=${value ? "True" : "False"}`;
  if (typeof value === "number") return Number.isFinite(value) ? `--set ${name}=${value}` : null;
  if (typeof value !== "string" || !/^[A-Za-z0-9_.-]+$/.test(value)) return null;
  return `--set "${name}='${value}'"`;
}

/** A configuration as options to paste, null where a part of it cannot be offered. */
export function settings(config: Readonly<Record<string, unknown>>): string | null {
  const found = Object.entries(config).map(([name, value]) => setting(name, value));
  return found.includes(null) ? null : found.join(" ");
}

/** How a comment starts in the text of a stage that can be edited. */
const COMMENTS: Readonly<Record<string, string>> = { tile: "//", gpu: "//", llvm: ";", ptx: "//" };

/** The cell in which a stage is edited, null where it cannot be offered. A viewer does not know who
 * made its trace, so the text always says where it is from. */
export function overrideCell(
  kernel: Readonly<{ name: string; target: string; file: string }>,
  stage: string,
  lines: readonly string[],
): string | null {
  const mark = COMMENTS[stage];
  if (mark === undefined || !lines.some((line) => line.trim() !== "")) return null;
  if (!NAME.test(kernel.name) || !NAME.test(kernel.target)) return null;
  const from = kernel.file.replaceAll(/[^\w./:[\]-]+/g, " ").slice(0, 200);
  const head = `%%override ${kernel.name}@${kernel.target} ${stage}`;
  return `${head}\n${mark} from a viewer's trace of ${from}\n${lines.join("\n").trimEnd()}\n`;
}
