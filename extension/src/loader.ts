// The front-end module (_esm) of the anywidget host: about 2 kB a widget instead of the whole viewer.
//
// | what            | where it lives                                                     |
// |-----------------|--------------------------------------------------------------------|
// | `bundle` trait  | bytes of viewer.js, in the first widget of a kernel, until `ack`   |
// | `trace` trait   | the gzipped trace, until `ack`; afterwards only in this closure    |
// | `static` trait  | gzipped HTML, shown until the traces are there, or for good        |
// | `summary` trait | text shown where there is no such HTML                             |
// | `limits` trait  | what a front end without our extension cannot do; one widget says it |
//
// Messages: page -> kernel {type: "ack"} (empty both traits now) and {type: "payload?"} (after a page
// reload both are empty); kernel -> page {type: "payload"} with the buffers [trace, bundle], and
// {type: "update"} with the buffer [trace] when a newer trace of the same cell is there.
import type { AnyModel } from "@anywidget/types";
import type { Viewer } from "./viewer";

type Bytes = DataView | null;

interface State {
  trace: Bytes;
  bundle: Bytes;
  summary: string;
  static: Bytes;
  limits: string;
}

const PATIENCE = 2_000; // ms: a kernel that is there and not busy answers in a tenth of it
const NO_ANSWER =
  "The kernel does not answer: it is busy, or this notebook was opened without one. Linked panes appear " +
  "as soon as it does. Without a kernel, run the cell again, or open the notebook in JupyterLab with workbench.";

/** The static form, with a sentence above that says why there is no more. */
async function showStatic(
  el: HTMLElement,
  model: AnyModel<State>,
  why: string,
  over?: AbortSignal,
): Promise<void> {
  const form = document.createElement("pre");
  form.textContent = model.get("summary");
  form.style.cssText = "white-space:pre-wrap;margin:0";
  const packed = filled(model.get("static"));
  const html = packed ? await unzip(packed) : "";
  if (over?.aborted) return;
  const said = Object.assign(document.createElement("p"), { textContent: why });
  said.setAttribute("role", "status");
  const whole = document.createElement("div");
  whole.innerHTML = html; // of this widget's own state, as is the code that runs here
  el.replaceChildren(said, html ? whole : form);
}

async function unzip(packed: DataView): Promise<string> {
  const bytes = new Blob([packed as unknown as BlobPart]);
  return new Response(bytes.stream().pipeThrough(new DecompressionStream("gzip"))).text();
}

interface Colab {
  colab?: { output?: { resizeIframeToContent?: () => void } };
}

/** Colab's frames keep a height until they are told of another one. */
function tellHeight(): void {
  (globalThis as { google?: Colab }).google?.colab?.output?.resizeIframeToContent?.();
}

type Bundle = typeof import("./bundle");

interface Shared {
  viewer?: Promise<Bundle>;
  arrived?: (bundle: Promise<Bundle>) => void;
  provided?: boolean;
}

/** One per page and version, however many widgets it shows. */
function sharedState(version: string): Shared {
  const pages = globalThis as { __workbench__?: Record<string, Shared> };
  pages.__workbench__ ??= {};
  pages.__workbench__[version] ??= {};
  const shared = pages.__workbench__[version];
  shared.viewer ??= new Promise<Bundle>((resolve) => {
    shared.arrived = resolve as (bundle: Promise<Bundle>) => void;
  });
  return shared;
}

const filled = (bytes: Bytes): Bytes => (bytes && bytes.byteLength > 0 ? bytes : null);

/** anywidget calls this once per model, so each model has its own closure. */
export default (): unknown => {
  let trace: Bytes = null;
  return {
    /** Runs once per view; returns the clean-up. */
    async render({ model, el }: { model: AnyModel<State & { version: string }>; el: HTMLElement }) {
      const started = performance.now();
      const heights = new ResizeObserver(tellHeight);
      heights.observe(el);
      const shared = sharedState(model.get("version"));
      const provide = (bundle: Bytes): void => {
        if (!bundle || shared.provided) return;
        shared.provided = true;
        const url = URL.createObjectURL(
          new Blob([bundle as unknown as BlobPart], { type: "text/javascript" }),
        );
        const loading: Promise<Bundle> = import(url);
        const over = (): void => URL.revokeObjectURL(url);
        loading.then(over, over);
        shared.arrived?.(loading);
      };
      trace ??= filled(model.get("trace"));
      provide(filled(model.get("bundle")));
      if (!trace || !shared.provided) {
        const waiting = new AbortController();
        void showStatic(el, model, "", waiting.signal);
        const silence = setTimeout(() => {
          void showStatic(el, model, NO_ANSWER, waiting.signal);
        }, PATIENCE);
        await new Promise<void>((resolve) => {
          const answer = (message: { type?: string }, buffers: DataView[]): void => {
            if (message?.type !== "payload") return;
            model.off("msg:custom", answer);
            trace ??= buffers[0] ?? null;
            provide(buffers[1] ?? null);
            resolve();
          };
          model.on("msg:custom", answer);
          model.send({ type: "payload?" });
          // Another widget of this page may bring the bundle first.
          const go = (): void => resolve();
          if (trace) void shared.viewer?.then(go, go);
        });
        clearTimeout(silence);
        waiting.abort();
      }
      let viewer: Viewer;
      let unpack: Bundle["unpack"];
      try {
        const bundle = await (shared.viewer as Promise<Bundle>);
        unpack = bundle.unpack;
        const found = await unpack(trace as unknown as DataView);
        viewer = bundle.mount(el, found, { started, limits: model.get("limits") });
      } catch (error) {
        const why = error instanceof Error ? error.message : String(error);
        await showStatic(el, model, `The viewer cannot be shown here: ${why}`);
        return () => heights.disconnect();
      }
      tellHeight(); // a frame out of sight observes nothing
      model.send({ type: "ack" });
      const update = async (message: { type?: string }, buffers: DataView[]): Promise<void> => {
        if (message?.type !== "update" || !buffers[0]) return;
        trace = buffers[0];
        viewer.update(await unpack(buffers[0]));
      };
      model.on("msg:custom", update);
      return () => {
        model.off("msg:custom", update);
        heights.disconnect();
        viewer.end();
      };
    },
  };
};
