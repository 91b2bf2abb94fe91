// What an editor shows: underlined problems, what is held under the pointer, lines chosen in panes.
import { type Extension, type Range, StateEffect, StateField } from "@codemirror/state";
import { Decoration, type DecorationSet, EditorView, hoverTooltip } from "@codemirror/view";
import { type Look, type Problem, rangeOf } from "./protocol";

interface Held {
  from: number;
  to: number;
  text: string;
}

interface Wrong {
  from: number;
  to: number;
  problem: Problem;
}

/** What is known of the text, with offsets that move with it. */
export interface Knowledge {
  problems: readonly Wrong[];
  held: readonly Held[];
  underlines: DecorationSet;
}

const NOTHING: Knowledge = { problems: [], held: [], underlines: Decoration.none };

/** What a look says of the text that it was asked about. */
export const setLook = StateEffect.define<Look | null>();

export const knowledge = StateField.define<Knowledge>({
  create: () => NOTHING,
  update(before, transaction) {
    let now = before;
    if (transaction.docChanged && now !== NOTHING) {
      const { changes } = transaction;
      const moved = <T extends { from: number; to: number }>(all: readonly T[]): T[] =>
        all.flatMap((one) => {
          if (changes.touchesRange(one.from, one.to)) return []; // it is not what was looked at
          return [{ ...one, from: changes.mapPos(one.from, 1), to: changes.mapPos(one.to, -1) }];
        });
      now = known(moved(now.problems), moved(now.held));
    }
    for (const effect of transaction.effects) {
      if (effect.is(setLook)) now = read(effect.value, transaction.newDoc);
    }
    return now;
  },
  provide: (field) => EditorView.decorations.from(field, ({ underlines }) => underlines),
});

function read(look: Look | null, doc: Parameters<typeof rangeOf>[0]): Knowledge {
  if (!look) return NOTHING;
  const problems = look.problems.flatMap((problem) => {
    const range = rangeOf(doc, problem.place);
    return range ? [{ ...range, problem }] : [];
  });
  const held = look.seen.flatMap(([line, column, endLine, endColumn, text]) => {
    const range = rangeOf(doc, [line, column, endLine, endColumn]);
    return range ? [{ ...range, text: look.texts[text] ?? "" }] : [];
  });
  return known(problems, held);
}

function known(problems: Wrong[], held: Held[]): Knowledge {
  const marks = problems.map(({ from, to, problem }) =>
    UNDERLINES[problem.severity].range(from, to),
  );
  return { problems, held, underlines: Decoration.set(marks, true) };
}

const UNDERLINES = {
  error: Decoration.mark({ class: "wb-typing-error" }),
  warning: Decoration.mark({ class: "wb-typing-warning" }),
};

/** Problems that touch a place, and what the innermost expression around it holds. */
export function knownAt(
  { problems, held }: Knowledge,
  at: number,
): { problems: Wrong[]; held: Held | undefined } {
  const around = held.filter(({ from, to }) => from <= at && at <= to);
  const inner = around.reduce<Held | undefined>(
    (best, one) => (best && best.to - best.from <= one.to - one.from ? best : one),
    undefined,
  );
  return { problems: problems.filter(({ from, to }) => from <= at && at <= to), held: inner };
}

const hover = hoverTooltip((view, at) => {
  const { problems, held } = knownAt(view.state.field(knowledge), at);
  if (problems.length === 0 && !held) return null;
  const from = Math.min(...[...problems, ...(held ? [held] : [])].map((one) => one.from));
  return {
    pos: Math.max(from, view.state.doc.lineAt(at).from),
    above: true,
    create: () => ({ dom: tooltip(problems, held) }),
  };
});

function tooltip(problems: readonly Wrong[], held: Held | undefined): HTMLElement {
  const line = (name: string, text: string): HTMLElement => {
    const element = document.createElement("div");
    element.className = name;
    element.textContent = text; // user strings are in it
    return element;
  };
  const dom = line("wb-typing-tooltip", "");
  for (const { problem } of problems) {
    const { severity, code, text, help } = problem;
    dom.append(line(`wb-typing-${severity}-text`, `${severity} ${code}: ${text}`));
    if (help) dom.append(line("wb-typing-help", `help: ${help}`));
  }
  if (held) {
    const [head = "", ...rest] = held.text.split("\n");
    dom.append(line("wb-typing-head", head));
    if (rest.length > 0) dom.append(line("wb-typing-about", rest.join("\n")));
  }
  return dom;
}

// -- lines that are chosen in panes --------------------------------------------------------------
export interface ChosenLines {
  hover: readonly number[]; // from 1
  pins: readonly (readonly number[])[];
}

export const setLines = StateEffect.define<ChosenLines>();

const MOST_PINS = 4;
const HOT = Decoration.line({ class: "wb-typing-hot" });
const PINNED = Array.from({ length: MOST_PINS }, (_, slot) =>
  Decoration.line({ class: `wb-typing-pin${slot}` }),
);

export const chosenLines = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(before, transaction) {
    let now = before.map(transaction.changes);
    for (const effect of transaction.effects) {
      if (!effect.is(setLines)) continue;
      const { newDoc: doc } = transaction;
      const of = (lines: readonly number[], mark: Decoration): Range<Decoration>[] =>
        lines.filter((n) => n >= 1 && n <= doc.lines).map((n) => mark.range(doc.line(n).from));
      const pins = effect.value.pins.slice(0, MOST_PINS);
      now = Decoration.set(
        [
          ...pins.flatMap((lines, slot) => of(lines, PINNED[slot] ?? HOT)),
          ...of(effect.value.hover, HOT),
        ],
        true,
      );
    }
    return now;
  },
  provide: (field) => EditorView.decorations.from(field),
});

const bar = (colour: string, style: string) => ({
  boxShadow: style === "solid" ? `inset 3px 0 ${colour}` : "none",
  borderLeft: style === "solid" ? "none" : `3px dotted ${colour}`,
  backgroundColor: `color-mix(in srgb, ${colour} 22%, transparent)`,
});

// The colours of the panes (style.css); problems have those of JupyterLab's theme.
const look = EditorView.baseTheme({
  ".wb-typing-error": {
    textDecoration: "underline wavy var(--jp-error-color1, #d32f2f)",
    textDecorationSkipInk: "none",
    textUnderlineOffset: "3px",
  },
  ".wb-typing-warning": {
    textDecoration: "underline wavy var(--jp-warn-color1, #b26a00)",
    textDecorationSkipInk: "none",
    textUnderlineOffset: "3px",
  },
  ".wb-typing-hot": bar("#56B4E9", "dotted"),
  ".wb-typing-pin0": bar("#E69F00", "solid"),
  ".wb-typing-pin1": bar("#009E73", "solid"),
  ".wb-typing-pin2": bar("#CC79A7", "solid"),
  ".wb-typing-pin3": bar("#0072B2", "solid"),
  ".cm-tooltip:has(> .wb-typing-tooltip)": { border: "none", backgroundColor: "transparent" },
  ".wb-typing-tooltip": {
    maxWidth: "72ch",
    maxHeight: "24em",
    overflow: "auto",
    padding: "6px 10px",
    whiteSpace: "pre-wrap",
    fontFamily: "var(--jp-code-font-family, monospace)",
    fontSize: "var(--jp-code-font-size, 13px)",
    lineHeight: "1.4",
    color: "var(--jp-content-font-color1, #1b1f24)",
    backgroundColor: "var(--jp-layout-color1, #fff)",
    border: "1px solid var(--jp-border-color1, #bdbdbd)",
    borderRadius: "4px",
    boxShadow: "var(--jp-elevation-z4, 0 2px 6px rgb(0 0 0 / 30%))",
  },
  ".wb-typing-error-text, .wb-typing-warning-text": { fontWeight: "600" },
  ".wb-typing-error-text": {
    borderLeft: "3px solid var(--jp-error-color1, #d32f2f)",
    paddingLeft: "6px",
  },
  ".wb-typing-warning-text": {
    borderLeft: "3px solid var(--jp-warn-color1, #b26a00)",
    paddingLeft: "6px",
  },
  ".wb-typing-help": { paddingLeft: "9px" },
  ".wb-typing-help + .wb-typing-head, .wb-typing-error-text + .wb-typing-head, .wb-typing-warning-text + .wb-typing-head":
    {
      marginTop: "6px",
      paddingTop: "6px",
      borderTop: "1px solid var(--jp-border-color2, #e0e0e0)",
    },
  ".wb-typing-about": { marginTop: "4px" },
});

export const marks: Extension = [knowledge, chosenLines, hover, look];
