// What is offered to paste into a cell: identifiers, numbers and plain words, or nothing. A trace may
// come from anywhere, and option lines evaluate expressions (workbench/trace/offers.py is the same).

/** `--set NAME=VALUE` for a name and a plain value, null for anything else. */
export function setting(name: string, value: unknown): string | null {
  if (!/^[\p{L}_][\p{L}\p{N}_]*$/u.test(name)) return null;
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
