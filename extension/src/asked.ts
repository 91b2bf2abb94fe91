// Between a map and whoever can ask the kernel that made it: an event of the page, so that neither knows
// the other's code.

/** From a map, bubbling: it wants to know of a square. Whoever can ask a kernel prevents the default. */
export const ASKED = "workbench-asked";

export interface Reply {
  why?: string;
  output?: Record<string, unknown>;
}

export interface Asked {
  key: string;
  square: number;
  answered(reply: Reply): void;
}
