// What the instruction or op of a row does, for its tooltip: by the longest prefix that is known.
import { TABLE } from "./instructions";

/** The first word of a row, by stage. */
const WORDS: Readonly<Record<string, RegExp>> = {
  tile: /^\s*(?:%[^=]* = )?([a-z]+\.\w+)/,
  gpu: /^\s*(?:%[^=]* = )?([a-z]+\.\w+)/,
  ptx: /^\s*(?:\{\s*)?(?:@!?%?\w+\s+)?([a-z][a-z0-9_]*(?:[.:]+\w+)*)(?=[\s;]|$)/,
  sass: /^\s*\/\*[0-9a-f]{4,}\*\/\s*(?:\{\s*)?(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*(?:\.\w+)*)/,
};

let table: Map<string, string> | undefined;

/** "LDG d, [a]: Loads …" for a row of a stage, "" where nothing is known. */
export function explainRow(stage: string, row: string): string {
  const word = WORDS[stage]?.exec(row)?.[1];
  if (word === undefined) return "";
  const language = stage === "ptx" || stage === "sass" ? stage : "ir";
  const parts = language === "ir" ? [word] : word.split(/[.:]+/);
  for (let count = parts.length; count > 0; count -= 1) {
    const found = known().get(`${language} ${parts.slice(0, count).join(".")}`);
    if (found !== undefined) return found;
  }
  return "";
}

/** Read on first sight: most pages are never hovered over. */
function known(): Map<string, string> {
  if (table === undefined) {
    table = new Map();
    for (const line of TABLE.split("\n")) {
      const [language, name, operands, text] = line.split("|").map((part) => part.trim());
      if (language && name && text) {
        const head = operands ? `${name} ${operands}` : name;
        table.set(`${language} ${name}`, `${head}: ${text}`);
      }
    }
  }
  return table;
}
