// What a cell output, a widget or a page carries: an envelope around one or several gzipped traces.
import { readAtMost, requireShowable, unzipAtMost } from "./limits";
import { type Comparison, type Route, TRACE_VERSION, type Trace, type Walk } from "./trace";

export const MIME = "application/vnd.workbench.trace+json";

/** What JupyterLab calls the content of a `.wbt` file: gzip, which it reads as base64. */
export const FILE_MIME = "application/vnd.workbench.trace+gzip";

export interface Envelope {
  v: number;
  id?: string;
  state?: string;
  summary?: { text?: string; trimmed?: string[] };
  enc?: string;
  data?: string;
  ref?: { path: string; sha256?: string; bytes?: number };
}

/** What a viewer shows: the traces of one kernel, the one to show first in front. */
export interface Bundle {
  traces: Trace[];
  show: string[]; // ids of the panes open at first; empty leaves it to the viewer
  trimmed: string[]; // what was left out to save space
  compare?: Comparison; // of its two traces
  follow?: Route;
  step?: Walk;
}

/** The keys of what was asked of traces. */
export const ASKED = ["compare", "follow", "step"] as const;

/** Fetches the bytes of a `ref`; only a host that knows where the notebook lies has one. */
export type FetchFile = (path: string) => Promise<ReadableStream<Uint8Array>>;

/** Return the traces in an envelope; the message of a failure is for the user. */
export async function openEnvelope(envelope: Envelope, fetchFile?: FetchFile): Promise<Bundle> {
  if (typeof envelope?.v !== "number") throw new Error("This output holds no workbench trace.");
  requireVersion(envelope.v);
  const bundle = await unpack(await bytesOf(envelope, fetchFile));
  const trimmed = envelope.ref === undefined ? (envelope.summary?.trimmed ?? []) : [];
  return { ...bundle, trimmed };
}

/** Return the traces in a file, whose bytes are given as base64; any text but that is an error. */
export async function openFile(base64: string): Promise<Bundle> {
  if (base64.trim() === "") throw new Error("The file is empty; it holds no workbench trace.");
  try {
    return await unpack(bytesOfBase64(base64));
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new Error(`The file holds no workbench trace, or is cut off: ${why}`);
  }
}

async function bytesOf(
  envelope: Envelope,
  fetchFile: FetchFile | undefined,
): Promise<Uint8Array<ArrayBuffer>> {
  if (envelope.data !== undefined) {
    if (envelope.enc !== "gzip+base64") {
      throw new Error(`The trace is encoded as "${envelope.enc}"; expected "gzip+base64".`);
    }
    return bytesOfBase64(envelope.data);
  }
  if (envelope.ref === undefined) {
    throw new Error("Only the summary of this trace was saved; run the cell to see its stages.");
  }
  const { path, sha256 } = envelope.ref;
  if (!isBesideNotebook(path)) {
    throw new Error(`The trace file ${path} lies outside the notebook's folder; it is not read.`);
  }
  if (!fetchFile) throw new Error(`The trace is in the file ${path}, which cannot be read here.`);
  // Behind the path may be a link to anything: what is not the saved file is never shown.
  const packed = await readAtMost(await fetchFile(path));
  if ((await digest(packed)) !== sha256) {
    throw new Error(`The trace file ${path} is not the one this output was saved with.`);
  }
  return packed;
}

type Decoded =
  | Trace
  | ({ traces: Trace[]; show?: string[] } & Pick<Bundle, (typeof ASKED)[number]>);

/** gzip bytes -> traces. */
export async function unpack(packed: ArrayBuffer | ArrayBufferView): Promise<Bundle> {
  // A Bytes trait arrives as a DataView into a larger buffer: only its own bytes count.
  const bytes = ArrayBuffer.isView(packed)
    ? new Uint8Array(packed.buffer as ArrayBuffer, packed.byteOffset, packed.byteLength)
    : new Uint8Array(packed);
  return bundleOf(JSON.parse(await unzipAtMost(bytes)) as Decoded);
}

/** Return the traces of decoded JSON, all of a version that this viewer reads. */
export function bundleOf(decoded: Decoded): Bundle {
  const bundle = "traces" in decoded ? decoded : { traces: [decoded] };
  if (bundle.traces.length === 0) throw new Error("This output holds no workbench trace.");
  for (const trace of bundle.traces) requireVersion(trace.version);
  requireShowable(bundle.traces);
  return { show: [], ...bundle, trimmed: [] };
}

function requireVersion(version: number): void {
  if (!(version >= TRACE_VERSION - 1 && version <= TRACE_VERSION)) {
    throw new Error(
      `This trace has version ${version}; this viewer reads up to ${TRACE_VERSION}. ` +
        "Update the workbench package to see it.",
    );
  }
}

function bytesOfBase64(text: string): Uint8Array<ArrayBuffer> {
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i);
  return bytes;
}

/** True for a relative path that never climbs; a trace is data from strangers. */
export function isBesideNotebook(path: unknown): path is string {
  if (typeof path !== "string" || path === "") return false;
  if (/^[a-z][a-z0-9+.-]*:/i.test(path) || /^[\\/]/.test(path) || path.includes("\\")) return false;
  return path.split("/").every((part) => part !== "..");
}

/** A path as a URL: JupyterLab decodes what it is given, so that %2e%2e must not become "..". */
export function urlOfPath(path: string): string {
  return path.split("/").map(encodeURIComponent).join("/");
}

async function digest(packed: Uint8Array<ArrayBuffer>): Promise<string> {
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", packed));
  return Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
