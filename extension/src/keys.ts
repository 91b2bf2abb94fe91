// With the focus in an output, JupyterLab's command mode still sees every key: `b` inserts a cell,
// `d d` deletes one. Its listener sits on an ancestor, in the bubbling phase. What works is stopping
// propagation at the viewer's root; the attribute data-lm-suppress-shortcuts helps only on the
// focused element itself (JupyterLab 4.6.6). Panes listen further in and so still get the key.

/** True for keys that must reach JupyterLab and the browser. */
export function belongsToHost(event: KeyboardEvent): boolean {
  return (
    event.ctrlKey ||
    event.metaKey ||
    event.altKey || // Ctrl+S, Ctrl+Enter, menus
    event.key === "Tab" ||
    (event.key === "Enter" && event.shiftKey) || // run the cell
    (/^F\d+$/.test(event.key) && event.key !== "F6") // F6 = next pane, ours
  );
}

/** Keep every other key inside `root`. */
export function keepKeys(root: HTMLElement, signal: AbortSignal): void {
  // Bubbling on purpose: capture would starve the panes.
  root.addEventListener(
    "keydown",
    (event) => {
      if (!belongsToHost(event)) event.stopPropagation();
    },
    { signal },
  );
}

/** True while the user is typing: single-letter keys are text then. */
export function isTyping(event: Event): boolean {
  const target = event.target as HTMLElement | null;
  return target?.tagName === "INPUT" || target?.tagName === "SELECT";
}
