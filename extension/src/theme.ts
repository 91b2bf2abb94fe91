// light-dark() follows color-scheme, and hosts rarely set it: decide by the background that is there.

/** True if a computed CSS colour is dark; transparent counts as light. */
export function isDark(colour: string): boolean {
  const [red = 255, green = 255, blue = 255] = (colour.match(/[\d.]+/g) ?? []).map(Number);
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue < 128;
}

/** Set the colour scheme of `root` by its real background, again after each change of theme. */
export function followTheme(root: HTMLElement, signal: AbortSignal): void {
  const decide = (): void => {
    root.style.colorScheme = ""; // else light-dark() in the background answers with our own choice
    root.style.colorScheme = isDark(getComputedStyle(root).backgroundColor) ? "dark" : "light";
  };
  decide();
  const observer = new MutationObserver(() => requestAnimationFrame(decide));
  observer.observe(document.body, {
    attributeFilter: ["data-jp-theme-name", "data-jp-theme-light", "class"],
  });
  const media = globalThis.matchMedia?.("(prefers-color-scheme: dark)");
  media?.addEventListener("change", decide, { signal });
  signal.addEventListener("abort", () => observer.disconnect());
}
