// Whether a cell still holds the text that a trace was made of. Nothing is run again by itself: what
// the panes show stays true of the text that they show, and says that the cell has gone on.
import { sourceOfEntry } from "./stages";
import type { Trace } from "./trace";

const REST = 200; // ms without a change before the texts are compared

/** True if the kernel's text no longer stands in the cell; only traces of a cell can be stale. */
export function isStale(cell: string, trace: Trace): boolean {
  const { source } = sourceOfEntry(trace);
  const entry = trace.sources[source];
  if (!entry || !/^(In|cell)\[/.test(entry.file)) return false;
  // Another cell may show the result of this one: %bench, or the result by its name.
  const defines = /^\s*%%kernel\b/.test(cell) || cell.includes(`def ${trace.kernel.name}(`);
  if (!defines) return false;
  const plain = (text: string): string =>
    text
      .split("\n")
      .map((line) => line.trimEnd())
      .join("\n")
      .trim();
  return !plain(cell).includes(plain(trace.strings[entry.text] ?? ""));
}

/** Tell `changed` of the text of the code cell around `node` now and after each edit, until `signal`. */
export function followCell(
  node: Element,
  changed: (text: string) => void,
  signal: AbortSignal,
): void {
  const content = node.closest(".jp-CodeCell")?.querySelector(".jp-InputArea .cm-content");
  if (!content) return;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const look = (): void => {
    const text = textOf(content);
    if (text !== undefined) changed(text);
  };
  const observer = new MutationObserver(() => {
    clearTimeout(timer);
    timer = setTimeout(look, REST);
  });
  observer.observe(content, { childList: true, characterData: true, subtree: true });
  signal.addEventListener("abort", () => {
    clearTimeout(timer);
    observer.disconnect();
  });
  look();
}

/** The whole text of a CodeMirror editor; undefined where only its visible lines can be had. */
function textOf(content: Element): string | undefined {
  const inner = content as Element & {
    cmTile?: { view?: EditorView }; // since @codemirror/view 6.39
    cmView?: { view?: EditorView; rootView?: { view?: EditorView } };
  };
  const view = inner.cmTile?.view ?? inner.cmView?.rootView?.view ?? inner.cmView?.view;
  return view?.state?.doc?.toString();
}

interface EditorView {
  state?: { doc?: { toString(): string } };
}
