// The front-end module (_esm) of the anywidget host: about 1 kB a widget instead of the whole viewer.
//
// | what            | where it lives                                                     |
// |-----------------|--------------------------------------------------------------------|
// | `bundle` trait  | bytes of viewer.js, in the first widget of a kernel, until `ack`   |
// | `trace` trait   | the gzipped trace, until `ack`; afterwards only in this closure    |
// | `summary` trait | text shown until the traces are there                              |
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
      const shared = sharedState(model.get("version"));
      const provide = (bundle: Bytes): void => {
        if (!bundle || shared.provided) return;
        shared.provided = true;
        const url = URL.createObjectURL(
          new Blob([bundle as unknown as BlobPart], { type: "text/javascript" }),
        );
        shared.arrived?.(import(url));
      };
      trace ??= filled(model.get("trace"));
      provide(filled(model.get("bundle")));
      if (!trace || !shared.provided) {
        el.textContent = model.get("summary");
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
          if (trace) void shared.viewer?.then(() => resolve());
        });
      }
      const { mount, unpack } = await (shared.viewer as Promise<Bundle>);
      const viewer: Viewer = mount(el, await unpack(trace as unknown as DataView), { started });
      model.send({ type: "ack" });
      const update = async (message: { type?: string }, buffers: DataView[]): Promise<void> => {
        if (message?.type !== "update" || !buffers[0]) return;
        trace = buffers[0];
        viewer.update(await unpack(buffers[0]));
      };
      model.on("msg:custom", update);
      return () => {
        model.off("msg:custom", update);
        viewer.end();
      };
    },
  };
};
