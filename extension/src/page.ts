// An exported page carries its traces in script elements and the bundle as an inline module:
//
//     <div><script type="application/vnd.workbench.trace+json">{"v": 1, ...}</script> static HTML </div>
//     <script type="module">this bundle</script>
//
// Each such element's parent becomes a viewer; without scripting its static HTML stays.

import { make } from "./dom";
import { type Envelope, MIME, openEnvelope } from "./envelope";
import { mount } from "./viewer";

/** Show every trace that the page carries. */
export function bootPage(page: Document): void {
  for (const holder of page.querySelectorAll<HTMLScriptElement>(`script[type="${MIME}"]`)) {
    const host = holder.parentElement;
    if (host) void bootHost(host, holder.textContent ?? "");
  }
}

async function bootHost(host: HTMLElement, text: string): Promise<void> {
  const started = performance.now();
  try {
    mount(host, await openEnvelope(JSON.parse(text) as Envelope), { started });
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    host.prepend(make("p", { role: "alert" }, message)); // above the static HTML
  }
}
