// Follows one editor: asks about its text when it rests, and tells the panes of its cell where the
// cursor is. Typing pays for a timer and nothing else.
import type { Extension } from "@codemirror/state";
import { type EditorView, type PluginValue, ViewPlugin, type ViewUpdate } from "@codemirror/view";
import { CHOSEN, type Chosen, POINTED, type Pointed, startOf } from "../cell";
import type { Asker } from "./asking";
import { setLines, setLook } from "./marks";
import { isKernelCell } from "./protocol";

const REST = 300; // ms without a change before a text is asked about
const SHORT_REST = 60; // ms before the panes follow the cursor
const HEAD = 400; // letters in which the magic's name must stand

export interface Follower {
  /** The kernel knows more than before: ask again, if anybody looks at this editor. */
  refresh(): void;
}

/** All editors that are followed. */
export const followers = new Set<Follower>();

/** Follow each editor; `askerOf` names the kernel of an editor, undefined while it has none. */
export function following(askerOf: (view: EditorView) => Asker | undefined): Extension {
  return ViewPlugin.define((view) => new Following(view, askerOf));
}

class Following implements PluginValue, Follower {
  readonly #view: EditorView;
  readonly #askerOf: (view: EditorView) => Asker | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #pointing: ReturnType<typeof setTimeout> | undefined;
  #asker: Asker | undefined;
  #asked = false; // about the text as it is now
  #shown = false; // something is drawn
  #line: number | null = null;
  #last: { root: Node; chosen: Chosen } | undefined; // what the panes said last
  #changed = false; // the text, since then

  constructor(view: EditorView, askerOf: (view: EditorView) => Asker | undefined) {
    this.#view = view;
    this.#askerOf = askerOf;
    followers.add(this);
    document.addEventListener(CHOSEN, this.#chosen);
  }

  update(update: ViewUpdate): void {
    if (update.docChanged) {
      this.#asked = false;
      this.#changed = true;
      this.#schedule(REST);
    } else if (update.focusChanged && update.view.hasFocus && !this.#asked) this.#schedule(0);
    if (update.selectionSet || update.focusChanged || update.docChanged) {
      clearTimeout(this.#pointing);
      this.#pointing = setTimeout(this.#point, SHORT_REST);
    }
  }

  refresh(): void {
    this.#asked = false;
    if (this.#view.hasFocus || this.#shown) this.#schedule(0);
  }

  destroy(): void {
    clearTimeout(this.#timer);
    clearTimeout(this.#pointing);
    this.#asker?.forget(this);
    followers.delete(this);
    document.removeEventListener(CHOSEN, this.#chosen);
  }

  #schedule(rest: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(this.#ask, rest);
  }

  #isKernelCell(): boolean {
    return isKernelCell(this.#view.state.sliceDoc(0, HEAD));
  }

  #ask = (): void => {
    if (!this.#isKernelCell()) {
      if (this.#shown) this.#show(null);
      return;
    }
    const asker = this.#askerOf(this.#view);
    if (asker !== this.#asker) this.#asker?.forget(this);
    this.#asker = asker;
    if (!asker) return;
    this.#asked = true;
    const { doc } = this.#view.state;
    asker.ask(this, doc.toString(), (look) => {
      // An answer about another text is no answer: the next question is on its way already.
      if (this.#view.state.doc.eq(doc)) this.#show(look);
    });
  };

  #show(look: Parameters<typeof setLook.of>[0]): void {
    this.#shown = look !== null;
    this.#view.dispatch({ effects: setLook.of(look) });
  }

  /** Tell the panes below which line the cursor is on, once per line. */
  #point = (): void => {
    if (this.#last && (this.#changed || !this.#last.root.isConnected)) this.#mark();
    const { state, hasFocus, dom } = this.#view;
    const line = hasFocus ? state.doc.lineAt(state.selection.main.head).number - 1 : null;
    if (line === this.#line) return;
    if (line !== null && !this.#isKernelCell()) return;
    this.#line = line;
    const detail: Pointed = { text: state.doc.toString(), line };
    for (const root of dom.closest(".jp-CodeCell")?.querySelectorAll(".wb") ?? []) {
      root.dispatchEvent(new CustomEvent(POINTED, { detail }));
    }
  };

  /** Something was chosen in panes: mark its lines if they are panes of this cell. */
  #chosen = (event: Event): void => {
    const cell = this.#view.dom.closest(".jp-CodeCell");
    if (!cell || !(event.target instanceof Node) || !cell.contains(event.target)) return;
    this.#last = { root: event.target, chosen: (event as CustomEvent<Chosen>).detail };
    this.#mark();
  };

  /** Mark the lines of what is chosen, as far as the panes show the text that stands here. */
  #mark(): void {
    if (!this.#last) return;
    const { root, chosen } = this.#last;
    const { text, hover, pins } = chosen;
    const start = root.isConnected ? startOf(this.#view.state.doc.toString(), text) : -1;
    const lines = (rows: readonly number[]): number[] =>
      start < 0 ? [] : rows.map((row) => start + row + 1);
    this.#view.dispatch({ effects: setLines.of({ hover: lines(hover), pins: pins.map(lines) }) });
    this.#changed = false;
    if (!root.isConnected) this.#last = undefined;
  }
}
