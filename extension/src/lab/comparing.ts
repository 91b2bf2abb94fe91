// Carries what maps ask to the kernel of their notebook, over a comm (workbench/magics/swept.py has the
// other end). Only a map's key and a number go there.
import { ASKED, type Asked, type Reply } from "../asked";

const TARGET = "workbench.asked";
const VERSION = 1;

/** What is needed of JupyterLab's IKernelConnection. */
export interface AskedKernel {
  createComm(target: string): {
    open(): unknown;
    send(data: Record<string, string | number>): unknown;
    onMsg: (message: { content: { data: unknown } }) => unknown;
    onClose: (message: unknown) => unknown;
  };
}

type Comm = ReturnType<AskedKernel["createComm"]>;

/** Answer the maps of `page`; `kernelOf` names the kernel of an element's notebook. */
export function answerMaps(
  page: Document,
  kernelOf: (element: Element) => AskedKernel | undefined,
): void {
  const comms = new WeakMap<AskedKernel, Comm>();
  const waiting = new Map<number, (reply: Reply) => void>();
  let latest = 0;
  const connect = (kernel: AskedKernel): Comm => {
    const known = comms.get(kernel);
    if (known) return known;
    const comm = kernel.createComm(TARGET);
    comm.onMsg = ({ content: { data } }) => {
      const reply = data as (Reply & { v?: number; id?: number }) | null;
      if (reply?.v !== VERSION || reply.id === undefined) return;
      waiting.get(reply.id)?.(reply);
      waiting.delete(reply.id);
    };
    comm.onClose = () => {
      comms.delete(kernel);
      for (const tell of waiting.values()) {
        tell({ why: "this kernel does not know the map any more: run %whatif again" });
      }
      waiting.clear();
    };
    comm.open();
    comms.set(kernel, comm);
    return comm;
  };
  page.addEventListener(ASKED, (event) => {
    const { key, square, answered } = (event as CustomEvent<Asked>).detail;
    const kernel = event.target instanceof Element ? kernelOf(event.target) : undefined;
    if (!kernel) return;
    event.preventDefault();
    latest += 1;
    waiting.set(latest, answered);
    try {
      connect(kernel).send({ v: VERSION, id: latest, key, square });
    } catch {
      waiting.delete(latest);
      comms.delete(kernel);
      answered({ why: "the kernel cannot be asked now" });
    }
  });
}
