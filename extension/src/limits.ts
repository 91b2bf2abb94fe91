// What a trace may cost before it is shown: a cell of a stranger's notebook must not hold the page.
//
// | limit          | why                                                                        |
// |----------------|----------------------------------------------------------------------------|
// | packed bytes   | a `ref` may lead to a file without end                                     |
// | unpacked bytes | gzip makes a thousand bytes of one; the packer keeps below (trace/packing.py) |
// | traces, stages | each one is walked as a whole                                              |
// | rows           | one element and one look-up each                                           |
// | links          | a run of rows times its ops, however short it is written                   |
// | stops, squares | each one is an element; of more the first are shown                        |
import type { Trace } from "./trace";

export const PACKED_BYTES = 128_000_000;
export const UNPACKED_BYTES = 128_000_000;
const TRACES = 64;
const STAGES = 64;
const ROWS = 2_000_000;
const LINKS = 10_000_000;
/** Elements that are made at once of what a list holds: a stranger's list may be endless. */
export const SHOWN = { stops: 2_000, squares: 4_096, quantities: 200, shares: 500, cells: 128 };
/** So much is unzipped at once, to at most some 16 MB. */
const PIECE = 16_384;
/** After so many unpacked bytes the page has its turn. */
const TURN = 8_000_000;

/** Return the bytes of a stream, refused as soon as there are too many. */
export async function readAtMost(
  stream: ReadableStream<Uint8Array>,
  most = PACKED_BYTES,
): Promise<Uint8Array<ArrayBuffer>> {
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const part of chunks(stream)) {
    size += part.byteLength;
    if (size > most) throw tooLarge("The trace file", most);
    parts.push(part);
  }
  const whole = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.byteLength;
  }
  return whole;
}

/** Return the text in gzip bytes, refused as soon as there is too much. */
export async function unzipAtMost(
  packed: Uint8Array<ArrayBuffer>,
  most = UNPACKED_BYTES,
): Promise<string> {
  let at = 0;
  const pieces = new ReadableStream<BufferSource>({
    pull(controller) {
      if (at >= packed.byteLength) controller.close();
      else controller.enqueue(packed.subarray(at, at + PIECE));
      at += PIECE;
    },
  });
  const decoder = new TextDecoder();
  const texts: string[] = [];
  let size = 0;
  for await (const part of chunks(pieces.pipeThrough(new DecompressionStream("gzip")))) {
    size += part.byteLength;
    if (size > most) throw tooLarge("The trace unpacked", most);
    if (Math.floor(size / TURN) > Math.floor((size - part.byteLength) / TURN)) {
      await new Promise((turn) => setTimeout(turn));
    }
    texts.push(decoder.decode(part, { stream: true }));
  }
  return texts.join("") + decoder.decode();
}

/** Yield the parts of a stream; leaving the loop ends the stream. */
async function* chunks(stream: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
  const reader = stream.getReader();
  try {
    for (let { done, value } = await reader.read(); !done; { done, value } = await reader.read()) {
      if (value) yield value;
    }
  } finally {
    void reader.cancel().catch(() => {});
  }
}

function tooLarge(what: string, most: number): Error {
  return new Error(`${what} has more than ${most / 1e6} MB; it is not shown.`);
}

/** Throw for traces that would hold the page: see the table above. */
export function requireShowable(traces: readonly Trace[]): void {
  require(traces.length, TRACES, "traces");
  let rows = 0;
  let links = 0;
  for (const trace of traces) {
    require(trace.stages.length, STAGES, "stages");
    for (const stage of trace.stages) {
      const lines = countLines(trace.strings[stage.text] ?? "", ROWS - rows);
      rows += lines;
      require(rows, ROWS, "rows");
      for (const [, count, of] of stage.rows ?? []) links += Math.min(count, lines) * of.length;
      require(links, LINKS, "links between rows and ops");
    }
  }
}

function require(found: number, most: number, what: string): void {
  if (!(found <= most)) {
    throw new Error(
      `This trace has more than ${most.toLocaleString("en-US")} ${what}; it is not shown.`,
    );
  }
}

/** Count lines, until there are more than `most`. */
function countLines(text: string, most: number): number {
  let lines = text === "" ? 0 : 1;
  for (let at = text.indexOf("\n"); at >= 0 && lines <= most; at = text.indexOf("\n", at + 1)) {
    lines++;
  }
  return lines;
}
