// light-dark() follows color-scheme, and hosts rarely set it: decide by the background that is there.
// A host that gives no colours to the viewer's own background (Colab, marimo, a plain page) is asked by
// the marks that it puts on its page, then by the backgrounds behind the viewer.

/** True if a computed CSS colour is dark; transparent counts as light. */
export function isDark(colour: string): boolean {
  const [red = 255, green = 255, blue = 255, alpha = 1] = (colour.match(/[\d.]+/g) ?? []).map(
    Number,
  );
  return alpha > 0 && 0.2126 * red + 0.7152 * green + 0.0722 * blue < 128;
}

/** The variables of style.css by which a host paints the viewer's background. */
const PAINTED = ["--jp-layout-color1", "--vscode-editor-background"];
const MARKS = ["theme", "data-theme", "data-color-mode"];

/** True or false where the page says by an attribute or a class that it is dark or light. */
function marked(page: Document): boolean | undefined {
  for (const element of [page.body, page.documentElement]) {
    const words = MARKS.map((name) => element.getAttribute(name) ?? "");
    if (words.includes("dark") || element.classList.contains("dark")) return true;
    if (words.includes("light") || element.classList.contains("light")) return false;
  }
  return undefined;
}

/** What an element is in, out of a part of the page that a host keeps apart, too. */
function above(element: Element): Element | null {
  const within = element.parentNode;
  return within instanceof ShadowRoot ? within.host : element.parentElement;
}

/** The nearest background behind an element that is not transparent. */
function behind(root: HTMLElement): string | undefined {
  for (let at = above(root); at; at = above(at)) {
    const colour = getComputedStyle(at).backgroundColor;
    if (colour !== "" && !/^transparent$|^rgba\(.*,\s*0\)$/.test(colour)) return colour;
  }
  return undefined;
}

/** Set the colour scheme of `root` by its real background, again after each change of theme.
 *
 * A theme changes in steps: attributes of the page, its style sheets, and their arrival, which can
 * be later than our first frame. Each of them is a reason to look again.
 */
export function followTheme(root: HTMLElement, signal: AbortSignal): void {
  const decide = (): void => {
    root.style.colorScheme = ""; // else light-dark() in the background answers with our own choice
    const own = getComputedStyle(root);
    const host = PAINTED.some((name) => own.getPropertyValue(name).trim() !== "");
    const dark = host ? undefined : marked(document);
    const colour = (host ? undefined : behind(root)) ?? own.backgroundColor;
    root.style.colorScheme = (dark ?? isDark(colour)) ? "dark" : "light";
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
  const attributes = ["data-jp-theme-name", "data-jp-theme-light", "class", "style", ...MARKS];
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
