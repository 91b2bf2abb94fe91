// What the user chose: ops under the pointer, and up to four pins of their own colours.

export const MOST_PINS = 4;

/** A pinned run of rows and the ops they came from. */
export interface Pin {
  stage: string;
  from: number;
  to: number;
  ops: ReadonlySet<number>;
}

export interface Choice {
  hover: ReadonlySet<number>;
  pins: readonly Pin[];
  origin: string; // the stage that asked
  reveal: boolean; // only pin and keyboard scroll other panes; hover never does
  note: string; // what the last action wants to say, e.g. that a row has no link
}

export interface Selection {
  readonly choice: Choice;
  /** Mark what is linked to `ops` until the pointer leaves; the keyboard also reveals it. */
  point(origin: string, ops: ReadonlySet<number>, reveal?: boolean): void;
  /** Pin rows; the same rows again unpin them. `add` keeps the other pins. */
  pin(pin: Pin, add: boolean, note?: string): void;
  /** Let the newest pin reach another row of its stage. */
  extend(pin: Pin): void;
  clear(origin: string, note?: string): void;
  /** Tell every listener again: a pane that was opened later draws the pins too. */
  refresh(): void;
  subscribe(listener: (choice: Choice) => void, signal: AbortSignal): void;
}

const NOTHING: ReadonlySet<number> = new Set();

export function createSelection(): Selection {
  let choice: Choice = { hover: NOTHING, pins: [], origin: "", reveal: false, note: "" };
  const listeners = new Set<(choice: Choice) => void>();
  const set = (change: Partial<Choice>): void => {
    choice = { ...choice, reveal: false, note: "", ...change };
    for (const listener of listeners) listener(choice);
  };
  return {
    get choice() {
      return choice;
    },
    point(origin, ops, reveal = false) {
      if (ops.size === 0 && choice.hover.size === 0) return; // nothing to mark, nothing to clear
      set({ hover: ops, origin, reveal });
    },
    pin(pin, add, note = "") {
      const same = (other: Pin): boolean =>
        other.stage === pin.stage && other.from === pin.from && other.to === pin.to;
      const others = choice.pins.filter((other) => !same(other));
      const again = others.length < choice.pins.length;
      const kept = add ? others.slice(-(MOST_PINS - 1)) : [];
      const pins = again || pin.ops.size === 0 ? (add ? others : []) : [...kept, pin];
      set({ hover: NOTHING, pins, origin: pin.stage, reveal: true, note });
    },
    extend(pin) {
      const pins = pin.ops.size === 0 ? choice.pins : [...choice.pins.slice(0, -1), pin];
      set({ hover: NOTHING, pins, origin: pin.stage, reveal: true });
    },
    clear(origin, note = "") {
      set({ hover: NOTHING, pins: [], origin, note });
    },
    refresh() {
      set({ note: choice.note });
    },
    subscribe(listener, signal) {
      listeners.add(listener);
      signal.addEventListener("abort", () => listeners.delete(listener));
    },
  };
}
