import { EditorState } from "@codemirror/state";
import { EditorView } from "@codemirror/view";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { CHOSEN, type Chosen, POINTED, startOf } from "../src/cell";
import { bundleOf } from "../src/envelope";
import { type Asker, type Comm, type Kernel, makeAsker } from "../src/lab/asking";
import { followers, following } from "../src/lab/following";
import { knowledge, knownAt, marks, setLook } from "../src/lab/marks";
import { isKernelCell, type Look, lookOf, type Place, rangeOf } from "../src/lab/protocol";
import { mount } from "../src/viewer";
import { addTrace } from "./fixture";

const LOOK: Look = {
  problems: [
    { place: [2, 5, 2, 11], severity: "error", code: "K203", text: "no tl.lod", help: "tl.load" },
  ],
  seen: [
    [2, 1, 2, 2, 0],
    [2, 5, 2, 17, 1],
  ],
  texts: ["x: fp32 of shape (4,)", "fp32 of shape (4,)"],
  partial: false,
};
const TEXT = "%%kernel\nx = tl.lod(p + 1)\ny = x";

beforeEach(() => {
  vi.useFakeTimers();
  document.body.replaceChildren();
});
afterEach(() => {
  vi.useRealTimers();
});

const textOf = (text: string) => EditorState.create({ doc: text }).doc;
const cut = (text: string, place: Place) => {
  const range = rangeOf(textOf(text), place);
  return range && text.slice(range.from, range.to);
};

test("places in lines and characters become offsets, and cover a letter at least", () => {
  expect(cut(TEXT, [2, 5, 2, 11])).toBe("tl.lod");
  expect(cut("a\n'🙂' + bad", [2, 7, 2, 10])).toBe("bad");
  expect(cut("ab\ncd", [1, 2, 2, 2])).toBe("b\nc");
  expect(cut("ab\ncd", [1, 3, 1, 4])).toBe("b"); // behind the last letter
  expect(cut("ab", [1, 1, 1, 1])).toBe("a");
  expect(cut("ab\n", [2, 1, 2, 2])).toBeUndefined(); // an empty line has no letter
  expect(cut("ab", [3, 1, 3, 2])).toBeUndefined();
});

test("only an answer to the question that is open counts", () => {
  expect(lookOf({ v: 1, id: 4, look: LOOK }, 4)).toBe(LOOK);
  expect(lookOf({ v: 1, id: 4, look: null }, 4)).toBeNull();
  for (const other of [{ v: 1, id: 3, look: LOOK }, { v: 2, id: 4, look: LOOK }, null, {}]) {
    expect(lookOf(other, 4)).toBeUndefined();
  }
  expect(isKernelCell("\n %%kernel --x")).toBe(true);
  expect(isKernelCell("%%kernels")).toBe(false);
});

// -- one kernel ----------------------------------------------------------------------------------
interface Stand extends Kernel {
  status: string;
  comms: (Comm & { sent: { id: number; text: string }[] })[];
  become(status: string): void;
  execute(): void;
  reply(look: Look | null, id?: number): void;
}

/** A kernel's connection as JupyterLab has it, with its replies in the test's hands. */
function kernelStand(): Stand {
  const statusSlots: ((sender: unknown, status: string) => void)[] = [];
  const messageSlots: ((sender: unknown, message: { header: { msg_type: string } }) => void)[] = [];
  const kernel: Stand = {
    status: "idle",
    comms: [],
    statusChanged: { connect: (slot) => statusSlots.push(slot) },
    iopubMessage: { connect: (slot) => messageSlots.push(slot) },
    createComm() {
      const sent: { id: number; text: string }[] = [];
      const comm = {
        sent,
        open: () => undefined,
        send: (data: { v: number; id: number; text: string }) => {
          sent.push(data);
          return { done: Promise.resolve() };
        },
        onMsg: () => undefined,
        onClose: () => undefined,
      };
      kernel.comms.push(comm);
      return comm;
    },
    become(status) {
      kernel.status = status;
      for (const slot of statusSlots) slot(kernel, status);
    },
    execute() {
      kernel.become("busy");
      for (const slot of messageSlots) slot(kernel, { header: { msg_type: "execute_input" } });
    },
    reply(look, id = kernel.comms.at(-1)?.sent.at(-1)?.id ?? 0) {
      kernel.comms.at(-1)?.onMsg({ content: { data: { v: 1, id, look } } });
    },
  };
  return kernel;
}

const asked = (kernel: Stand) => kernel.comms.flatMap(({ sent }) => sent.map(({ text }) => text));

test("one question at a time, and of each editor its latest text alone", () => {
  const kernel = kernelStand();
  const asker = makeAsker(kernel, () => undefined);
  const [one, two] = [{}, {}];
  const answers: string[] = [];
  const ask = (who: object, text: string) => asker.ask(who, text, () => answers.push(text));
  for (const text of ["a", "b", "c"]) ask(one, text);
  ask(two, "d");
  expect(asked(kernel)).toEqual(["a"]);
  kernel.reply(LOOK, 99);
  expect(answers).toEqual([]);
  kernel.reply(LOOK);
  kernel.reply(LOOK);
  kernel.reply(LOOK);
  expect(asked(kernel)).toEqual(["a", "c", "d"]);
  expect(answers).toEqual(["a", "c", "d"]);
  expect(kernel.comms).toHaveLength(1);
});

test("a busy kernel is asked when it is idle again, and who is gone gets no answer", () => {
  const kernel = kernelStand();
  const asker = makeAsker(kernel, () => undefined);
  kernel.become("busy");
  const answered = vi.fn();
  const [one, two] = [{}, {}];
  asker.ask(one, "a", answered);
  asker.ask(two, "b", answered);
  asker.forget(one);
  expect(asked(kernel)).toEqual([]);
  kernel.become("idle");
  expect(asked(kernel)).toEqual(["b"]);
  asker.forget(two);
  kernel.reply(LOOK);
  expect(answered).not.toHaveBeenCalled();
});

test("a kernel without workbench is left alone until it has executed something", () => {
  const kernel = kernelStand();
  const executed = vi.fn();
  const asker = makeAsker(kernel, executed);
  asker.ask({}, "a", () => undefined);
  kernel.comms[0]?.onClose({});
  kernel.become("busy");
  kernel.become("idle");
  asker.ask({}, "b", () => undefined);
  expect(kernel.comms).toHaveLength(1);
  expect(executed).not.toHaveBeenCalled();
  kernel.execute();
  kernel.become("idle");
  expect(executed).toHaveBeenCalledOnce();
  expect(asked(kernel)).toEqual(["a", "b"]);
});

test("a restart loses the open question and nothing else", () => {
  const kernel = kernelStand();
  const asker = makeAsker(kernel, () => undefined);
  const answered = vi.fn();
  asker.ask({}, "a", answered);
  kernel.become("restarting");
  kernel.reply(LOOK); // of the old kernel
  kernel.become("idle");
  asker.ask({}, "b", answered);
  expect(kernel.comms).toHaveLength(1);
  kernel.execute();
  kernel.become("idle");
  kernel.reply(null);
  expect(answered.mock.calls).toEqual([[null]]);
});

test("a question that is never answered keeps no other from being asked", async () => {
  const kernel = kernelStand();
  const asker = makeAsker(kernel, () => undefined);
  const answered = vi.fn();
  asker.ask({}, "a", answered);
  asker.ask({}, "b", answered);
  await vi.advanceTimersByTimeAsync(1000);
  expect(asked(kernel)).toEqual(["a", "b"]);
  kernel.reply(LOOK, 1);
  expect(answered).not.toHaveBeenCalled();
});

// -- one editor ----------------------------------------------------------------------------------
/** A cell with an editor, followed, and the questions that it asks. */
function editorOf(text: string) {
  const questions: { text: string; answered: (look: Look | null) => void }[] = [];
  const asker: Asker = {
    ask: (_, text, answered) => questions.push({ text, answered }),
    forget: () => undefined,
  };
  const cell = document.createElement("div");
  cell.className = "jp-CodeCell";
  document.body.append(cell);
  const view = new EditorView({
    doc: text,
    extensions: [marks, following(() => asker)],
    parent: cell,
  });
  return { cell, view, questions };
}

const underlined = (view: EditorView) =>
  [...view.dom.querySelectorAll(".wb-typing-error")].map(({ textContent }) => textContent);
const type = (view: EditorView, at: number, insert: string) =>
  view.dispatch({ changes: { from: at, insert } });

test("typing asks once it rests, and marks move with the text until it is looked at again", () => {
  const { view, questions } = editorOf(TEXT);
  for (const letter of "abc") type(view, TEXT.length, letter);
  expect(questions).toEqual([]);
  vi.advanceTimersByTime(299);
  expect(questions).toEqual([]);
  vi.advanceTimersByTime(1);
  expect(questions.map(({ text }) => text)).toEqual([`${TEXT}cba`]);
  questions[0]?.answered(LOOK);
  expect(underlined(view)).toEqual(["tl.lod"]);
  type(view, 9, "   ");
  expect(underlined(view)).toEqual(["tl.lod"]);
  type(view, view.state.doc.toString().indexOf("lod") + 1, "a");
  expect(underlined(view)).toEqual([]); // it is not what was looked at
  view.destroy();
  expect(followers.size).toBe(0);
});

test("an answer about another text is not shown, and another kind of cell is not asked about", () => {
  const { view, questions } = editorOf(TEXT);
  type(view, TEXT.length, "!");
  vi.advanceTimersByTime(300);
  type(view, TEXT.length, "?");
  questions[0]?.answered(LOOK);
  expect(underlined(view)).toEqual([]);
  vi.advanceTimersByTime(300);
  questions[1]?.answered(LOOK);
  expect(underlined(view)).toEqual(["tl.lod"]);
  view.dispatch({ changes: { from: 0, to: 2 } });
  vi.advanceTimersByTime(300);
  expect(questions).toHaveLength(2);
  expect(underlined(view)).toEqual([]);
  view.destroy();
});

test("what executed may change is asked again where somebody sees it", () => {
  const { view, questions } = editorOf(TEXT);
  for (const follower of followers) follower.refresh();
  vi.advanceTimersByTime(300);
  expect(questions).toHaveLength(0);
  type(view, 0, "\n");
  vi.advanceTimersByTime(300);
  questions[0]?.answered(LOOK);
  for (const follower of followers) follower.refresh();
  vi.advanceTimersByTime(0);
  expect(questions).toHaveLength(2);
  view.destroy();
});

test("a place has its problems and what its innermost expression holds", () => {
  const { view } = editorOf(TEXT);
  view.dispatch({ effects: setLook.of(LOOK) });
  const at = (text: string) => {
    const { problems, held } = knownAt(view.state.field(knowledge), TEXT.indexOf(text));
    return [problems.map(({ problem }) => problem.code), held?.text];
  };
  expect(at("x = tl")).toEqual([[], "x: fp32 of shape (4,)"]);
  expect(at("lod")).toEqual([["K203"], "fp32 of shape (4,)"]);
  expect(at("p + 1")).toEqual([[], "fp32 of shape (4,)"]);
  expect(at("%%")).toEqual([[], undefined]);
  view.destroy();
});

// -- the cell and its panes ----------------------------------------------------------------------
test("a kernel's text is found in its cell wherever it stands, or not at all", () => {
  const kernel = "def add(x):\n    return x\n";
  expect(startOf(`%%kernel\n${kernel}`, kernel)).toBe(1);
  expect(startOf(`%%kernel --a \\\n --b\n\n${kernel}\nadd(1)`, kernel)).toBe(3);
  expect(startOf(`%%kernel\n${kernel.replace("x\n", "y\n")}`, kernel)).toBe(-1);
  expect(startOf("", "")).toBe(-1);
});

/** A cell with an editor and the panes of its kernel. */
function cellWithPanes() {
  const trace = addTrace();
  const text = `%%kernel --grid 3\n${trace.strings[0]}`;
  const { cell, view, questions } = editorOf(text);
  const host = document.createElement("div");
  host.className = "wb-host";
  cell.append(host);
  const viewer = mount(host, bundleOf({ traces: [trace] }));
  return { cell, view, host, viewer, questions };
}

const linesOf = (view: EditorView, mark: string) =>
  [...view.dom.querySelectorAll(`.cm-line.wb-typing-${mark}`)].map((line) =>
    line.textContent?.trim(),
  );

test("a row pinned in a pane marks its line in the cell, wherever that is by now", () => {
  const { view, host, viewer } = cellWithPanes();
  const click = () =>
    host.querySelector<HTMLElement>('.wb-scroller[data-stage="tile"] [data-row="3"]')!.click();
  click();
  expect(linesOf(view, "pin0")).toEqual(["x = tl.load(x_ptr + offs, mask=mask)"]);
  click();
  expect(linesOf(view, "pin0")).toEqual([]);
  type(view, 0, "\n\n");
  click();
  expect(linesOf(view, "pin0")).toEqual(["x = tl.load(x_ptr + offs, mask=mask)"]);
  click();
  type(view, view.state.doc.toString().indexOf("mask ="), "new_");
  click();
  expect(linesOf(view, "pin0")).toEqual([]); // the panes show another text
  const from = view.state.doc.toString().indexOf("new_");
  view.dispatch({ changes: { from, to: from + "new_".length } });
  vi.advanceTimersByTime(100);
  expect(linesOf(view, "pin0")).toEqual(["x = tl.load(x_ptr + offs, mask=mask)"]);
  viewer.end();
  expect(linesOf(view, "pin0")).toEqual([]);
  view.destroy();
});

test("the cursor's line is marked in the panes, and nothing once it is elsewhere", () => {
  const { host, viewer, view } = cellWithPanes();
  const root = host.querySelector(".wb")!;
  const told: Chosen[] = [];
  document.addEventListener(CHOSEN, (event) => told.push((event as CustomEvent<Chosen>).detail));
  const point = (line: number | null) =>
    root.dispatchEvent(
      new CustomEvent(POINTED, { detail: { text: view.state.doc.toString(), line } }),
    );
  const marked = () => host.querySelectorAll('[class*="wb-hover"]').length;
  point(4);
  expect(marked()).toBeGreaterThan(1);
  expect(told.at(-1)?.hover).toEqual([]); // the editor shows its own cursor
  point(0);
  expect(marked()).toBe(0);
  point(4);
  point(null);
  expect(marked()).toBe(0);
  viewer.end();
  view.destroy();
});

test("panes of another cell mark nothing here", () => {
  const { view } = editorOf(TEXT);
  const { host, viewer, view: other } = cellWithPanes();
  host.querySelector<HTMLElement>('.wb-scroller[data-stage="tile"] [data-row="3"]')!.click();
  expect(linesOf(view, "pin0")).toEqual([]);
  expect(linesOf(other, "pin0")).toHaveLength(1);
  viewer.end();
  view.destroy();
  other.destroy();
});
