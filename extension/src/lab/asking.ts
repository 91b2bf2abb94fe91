// One kernel's end of the comm: one question at a time, only while the kernel is idle, and of each
// editor its latest text alone. A kernel in which workbench is not loaded is left alone until it has
// executed something.
import { type Look, lookOf, TARGET, VERSION } from "./protocol";

const PATIENCE = 1000; // ms that an answer may come behind the kernel's idle

interface Signal<Args> {
  connect(slot: (sender: unknown, args: Args) => void): unknown;
}

/** What is needed of JupyterLab's IComm. */
export interface Comm {
  open(): unknown;
  send(data: { v: number; id: number; text: string }): unknown;
  onMsg: (message: { content: { data: unknown } }) => unknown;
  onClose: (message: unknown) => unknown;
}

/** What is needed of JupyterLab's IKernelConnection. */
export interface Kernel {
  readonly status: string;
  createComm(target: string): Comm;
  readonly statusChanged: Signal<string>;
  readonly iopubMessage: Signal<{ header: { msg_type: string } }>;
}

export type Answered = (look: Look | null) => void;

export interface Asker {
  /** Ask about a text when the kernel has time; a later question of the same `who` replaces it. */
  ask(who: object, text: string, answered: Answered): void;
  /** Forget what `who` has asked. */
  forget(who: object): void;
}

/** Ask one kernel; `executed` is called when it may know more than before. */
export function makeAsker(kernel: Kernel, executed: () => void): Asker {
  const waiting = new Map<object, { text: string; answered: Answered }>();
  let comm: Comm | undefined;
  let open: { id: number; who: object; answered: Answered } | undefined;
  let latest = 0;
  let absent = false;
  let running = false;

  const reset = (isAbsent: boolean): void => {
    comm = undefined;
    open = undefined;
    absent = isAbsent;
  };
  const connect = (): Comm => {
    const made = kernel.createComm(TARGET);
    made.onClose = () => {
      if (made === comm) reset(true);
    };
    made.onMsg = ({ content: { data } }) => {
      const look = made === comm && open ? lookOf(data, open.id) : undefined;
      if (look === undefined) return;
      const { answered } = open as { answered: Answered };
      open = undefined;
      answered(look);
      pump();
    };
    made.open();
    return made;
  };
  /** The kernel is through with a question and has not answered: it was interrupted, say. */
  const lose = (id: number): void => {
    if (open?.id !== id) return;
    open = undefined;
    pump();
  };
  const pump = (): void => {
    if (absent || open || kernel.status !== "idle") return;
    const [next] = waiting;
    if (!next) return;
    const [who, { text, answered }] = next;
    waiting.delete(who);
    latest += 1;
    open = { id: latest, who, answered };
    const { id } = open;
    try {
      comm ??= connect();
      const { done } = (comm.send({ v: VERSION, id, text }) ?? {}) as { done?: Promise<unknown> };
      const soon = (): void => void setTimeout(() => lose(id), PATIENCE);
      done?.then(soon, soon);
    } catch {
      reset(true); // the connection is going: a new kernel gets a new asker
    }
  };
  kernel.iopubMessage.connect((_, { header }) => {
    if (header.msg_type === "execute_input") running = true;
  });
  kernel.statusChanged.connect((_, status) => {
    if (status === "restarting" || status === "autorestarting" || status === "dead") {
      running = false;
      reset(true);
    } else if (status === "idle") {
      if (running) {
        running = false;
        absent = false;
        executed();
      }
      pump();
    }
  });
  return {
    ask(who, text, answered) {
      waiting.delete(who); // to the end of the line
      waiting.set(who, { text, answered });
      pump();
    },
    forget(who) {
      waiting.delete(who);
      if (open?.who === who) open.answered = () => undefined;
    },
  };
}
