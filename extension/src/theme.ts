// light-dark() follows color-scheme, and hosts rarely set it: decide by the background that is there.

/** True if a computed CSS colour is dark; transparent counts as light. */
export function isDark(colour: string): boolean {
  const [red = 255, green = 255, blue = 255, alpha = 1] = (colour.match(/[\d.]+/g) ?? []).map(
    Number,
  );
  return alpha > 0 && 0.2126 * red + 0.7152 * green + 0.0722 * blue < 128;
}

/** Set the colour scheme of `root` by its real background, again after each change of theme.
 *
 * A theme changes in steps: attributes of the page, its style sheets, and their arrival, which can
 * be later than our first frame. Each of them is a reason to look again.
 */
export function followTheme(root: HTMLElement, signal: AbortSignal): void {
  const decide = (): void => {
    root.style.colorScheme = ""; // else light-dark() in the background answers with our own choice
    root.style.colorScheme = isDark(getComputedStyle(root).backgroundColor) ? "dark" : "light";
  };
  let waiting = false;
  const soon = (): void => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      if (!signal.aborted) decide();
    });
  };
  decide();
  const observer = new MutationObserver(soon);
  const attributes = ["data-jp-theme-name", "data-jp-theme-light", "data-theme", "class", "style"];
  for (const element of [document.documentElement, document.body]) {
    observer.observe(element, { attributeFilter: attributes });
  }
  observer.observe(document.head, { childList: true });
  // The load of a style sheet does not bubble, so it is caught on its way down.
  document.addEventListener("load", soon, { signal, capture: true });
  globalThis.matchMedia?.("(prefers-color-scheme: dark)")?.addEventListener("change", soon, {
    signal,
  });
  signal.addEventListener("abort", () => observer.disconnect());
}
