// Plain DOM helpers. Every text goes in as a text node: traces hold user strings and are never HTML.

export type Child = Node | string | null | undefined | false;

/** Return a new element; a null or false child is left out. */
export function make<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Record<string, string> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  for (const child of children) if (child) element.append(child);
  return element;
}

/** The page that an element is in, or the part of it that a host keeps apart (marimo does). */
export function treeOf(element: Node): Document | ShadowRoot {
  const top = element.getRootNode();
  return top instanceof ShadowRoot ? top : document;
}

const SVG = "http://www.w3.org/2000/svg";

/** Return a new SVG element. */
export function draw<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Record<string, string | number> = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) {
    element.setAttribute(name, String(value));
  }
  for (const child of children) if (child) element.append(child);
  return element;
}

/** Return a button that calls `action`. */
export function button(
  label: Child,
  attributes: Record<string, string>,
  action: () => void,
  signal: AbortSignal,
): HTMLButtonElement {
  const element = make("button", { type: "button", ...attributes }, label);
  element.addEventListener("click", action, { signal });
  return element;
}

let made = 0;

/** Return an id that no other viewer of the page uses. */
export function uniqueId(prefix: string): string {
  made += 1;
  return `wb-${prefix}-${made}`;
}

export interface Cell {
  text: string;
  number?: boolean;
  className?: string;
}

/** Return a table; the first column of each row is its header. */
export function table(caption: string, head: Cell[], rows: Cell[][]): HTMLTableElement {
  const cell = (
    tag: "th" | "td",
    scope: string,
    { text, number, className }: Cell,
  ): HTMLElement => {
    const classes = [number ? "wb-number-cell" : "", className ?? ""].filter(Boolean).join(" ");
    const attributes: Record<string, string> = scope === "" ? {} : { scope };
    if (classes !== "") attributes.class = classes;
    return make(tag, attributes, text);
  };
  return make(
    "table",
    { class: "wb-table" },
    make("caption", {}, caption),
    make("thead", {}, make("tr", {}, ...head.map((title) => cell("th", "col", title)))),
    make(
      "tbody",
      {},
      ...rows.map((row) =>
        make(
          "tr",
          {},
          ...row.map((entry, i) => (i === 0 ? cell("th", "row", entry) : cell("td", "", entry))),
        ),
      ),
    ),
  );
}

/** Put a text on the clipboard; rejects where the browser refuses or, over plain http, has none. */
export async function copyToClipboard(text: string): Promise<void> {
  await navigator.clipboard.writeText(text);
}
