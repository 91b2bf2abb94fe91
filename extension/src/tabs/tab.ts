// What every tab is: a function that fills its panel and returns what the keyboard may ask of it.

import type { Links } from "../links";
import type { Selection } from "../selection";
import type { OpTable, StageView } from "../stages";
import type { Comparison, Route, Trace, Walk } from "../trace";

/** What a viewer keeps when it is painted anew: another target, a new run of the cell. */
export interface ViewerState {
  trace: number;
  show: readonly string[]; // panes that the kernel's author asked for
  tab: string;
  open: Map<string, string[]>; // target -> stages shown
  filter: Map<string, string>; // tab -> text in its box
  sideBySide: boolean;
  onlyChanging: boolean;
  pass: Map<string, number>; // target -> chosen pass
  compared: string; // the stage that is compared, "" for the first that differs
  onlyDifferences: boolean;
  stop: number; // of the way that is followed
  place: number; // the step of a program, -1 for the one that was asked for
}

export interface TabServices {
  trace: Trace;
  traces: readonly Trace[]; // all of the viewer, this one among them
  // What was asked of the traces, if anything:
  compare?: Comparison | undefined; // of both
  follow?: Route | undefined;
  step?: Walk | undefined;
  stages: readonly StageView[];
  ops: OpTable;
  links: Links;
  selection: Selection;
  state: ViewerState;
  /** The tooltip of ops. */
  describe(ops: ReadonlySet<number>): string;
  /** Show a tab; `stage` opens that pane, `place` goes to the source row. */
  go(to: { tab: string; stage?: string; line?: number; op?: number }): void;
  signal: AbortSignal;
}

export interface Tab {
  /** Text of the filter box changed; returns what to say beside it. */
  filter?(text: string): string;
  /** Enter in the filter box. */
  next?(step: 1 | -1): void;
  /** A key that no pane took; true if the tab did. */
  key?(event: KeyboardEvent): boolean;
  /** Another place of the viewer asks to see this stage, row or op. */
  show?(to: { stage?: string; line?: number; op?: number }): void;
  /** The text that Copy takes. */
  copy?(): string;
}

export type MountTab = (panel: HTMLElement, services: TabServices) => Tab;
