// The prebuilt extension for JupyterLab 4.4+ and Notebook 7: renders the trace MIME type of saved and
// live outputs ahead of text/html and of the widget view, and trace files (.wbt) in tabs of their own.
// It needs no kernel.
import type { IRenderMime } from "@jupyterlab/rendermime-interfaces";
import type { Message } from "@lumino/messaging";
import { Widget } from "@lumino/widgets";
import { make } from "./dom";
import {
  type Bundle,
  type Envelope,
  type FetchFile,
  FILE_MIME,
  MIME,
  openEnvelope,
  openFile,
  urlOfPath,
} from "./envelope";
import { followCell } from "./stale";
import { mountSweep, SWEEP_MIME } from "./sweep";
import type { Sweep } from "./trace";
import { mount, type Viewer } from "./viewer";

const RANK = -20; // text/html has 50, the widget view 0: lower wins

class TraceRenderer extends Widget implements IRenderMime.IRenderer {
  readonly #fetchFile: FetchFile;
  #viewer: Viewer | undefined;
  #latest = 0;
  #following = new AbortController();

  constructor({ resolver }: IRenderMime.IRendererOptions) {
    super();
    this.addClass("wb-host");
    this.#fetchFile = async (path) => {
      if (!resolver)
        throw new Error(`The trace is in the file ${path}, which cannot be read here.`);
      const url = await resolver.getDownloadUrl(await resolver.resolveUrl(urlOfPath(path)));
      const reply = await fetch(url, { credentials: "same-origin" });
      if (!reply.ok || !reply.body) {
        throw new Error(`The trace file ${path} is missing; run the cell again to write it.`);
      }
      return reply.body;
    };
  }

  /** Called again when the output is updated in place: the viewer keeps what the user has open. */
  async renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    const started = performance.now();
    this.#latest += 1;
    const own = this.#latest;
    try {
      const bundle = await this.#open(model);
      if (own !== this.#latest) return; // a newer output came while this one was unpacked
      if (this.#viewer) this.#viewer.update(bundle);
      else this.#viewer = mount(this.node, bundle, { started });
      this.#follow();
    } catch (error) {
      this.#showStatic(model, error instanceof Error ? error.message : String(error));
    }
  }

  /** A trace file comes as the text of its bytes, an output's trace in an envelope. */
  #open(model: IRenderMime.IMimeModel): Promise<Bundle> {
    const file = model.data[FILE_MIME];
    if (typeof file === "string") {
      this.node.style.setProperty("--wb-panes-most", "max(440px, 100vh - 330px)"); // a whole tab
      return openFile(file);
    }
    return openEnvelope(model.data[MIME] as unknown as Envelope, this.#fetchFile);
  }

  protected override onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    this.#follow();
  }

  /** Know the cell's text from when there are both a viewer and a cell around it. */
  #follow(): void {
    this.#following.abort();
    this.#following = new AbortController();
    const tell = (text: string): void => this.#viewer?.cellText(text);
    if (this.#viewer && this.isAttached) followCell(this.node, tell, this.#following.signal);
  }

  override dispose(): void {
    this.#following.abort();
    this.#viewer?.end();
    super.dispose();
  }

  /** Without a readable trace the text form of the same output says what there is to say. */
  #showStatic(model: IRenderMime.IMimeModel, why: string): void {
    this.#viewer?.end();
    this.#viewer = undefined;
    const plain = model.data["text/plain"];
    const text = Array.isArray(plain) ? plain.join("") : typeof plain === "string" ? plain : "";
    this.node.replaceChildren(make("p", { role: "alert" }, why), make("pre", {}, text));
  }
}

/** A map of what other settings would give; a square of it asks the kernel for a comparison. */
class SweepRenderer extends Widget implements IRenderMime.IRenderer {
  #shown = new AbortController();

  constructor() {
    super();
    this.addClass("wb-host");
  }

  async renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    this.#shown.abort();
    this.#shown = new AbortController();
    mountSweep(this.node, model.data[SWEEP_MIME] as unknown as Sweep, this.#shown.signal);
  }

  override dispose(): void {
    this.#shown.abort();
    super.dispose();
  }
}

const sweeps: IRenderMime.IExtension = {
  id: "@workbench/jupyterlab:sweep-renderer",
  rank: RANK,
  dataType: "json",
  rendererFactory: {
    safe: true, // as below; what is asked of the kernel are numbers of squares
    mimeTypes: [SWEEP_MIME],
    defaultRank: RANK,
    createRenderer: () => new SweepRenderer(),
  },
};

const traces: IRenderMime.IExtension = {
  id: "@workbench/jupyterlab:trace-renderer",
  rank: RANK,
  dataType: "json",
  rendererFactory: {
    safe: true, // data only: text nodes, nothing evaluated, no request but a `ref` beside the notebook
    mimeTypes: [MIME],
    defaultRank: RANK,
    createRenderer: (options) => new TraceRenderer(options),
  },
};

const FILE_TYPE = "workbench-trace";

/** What `%save add add.wbt` wrote, opened from the file browser. */
const files: IRenderMime.IExtension = {
  id: "@workbench/jupyterlab:trace-files",
  rank: RANK,
  dataType: "string",
  rendererFactory: {
    safe: true, // as above
    mimeTypes: [FILE_MIME],
    defaultRank: RANK,
    createRenderer: (options) => new TraceRenderer(options),
  },
  fileTypes: [
    {
      name: FILE_TYPE,
      displayName: "Workbench trace",
      fileFormat: "base64",
      mimeTypes: [FILE_MIME],
      extensions: [".wbt"],
    },
  ],
  documentWidgetFactoryOptions: {
    name: "Workbench trace",
    modelName: "base64",
    primaryFileType: FILE_TYPE,
    fileTypes: [FILE_TYPE],
    defaultFor: [FILE_TYPE],
  },
};

export default [traces, sweeps, files];
