// The list of keys that `?` opens.
import { button, make, treeOf, uniqueId } from "./dom";
import { KEYS } from "./texts";

export interface KeyList {
  element: HTMLElement;
  toggle(): void;
  /** True if the list was open. */
  hide(): boolean;
}

export function makeKeyList(signal: AbortSignal): KeyList {
  const id = uniqueId("keys");
  let opener: Element | null = null;
  const hide = (): boolean => {
    if (element.hidden) return false;
    element.hidden = true;
    if (opener instanceof HTMLElement) opener.focus();
    return true;
  };
  const close = button("close", { class: "wb-toggle" }, hide, signal);
  const element = make(
    "section",
    { class: "wb-keys", role: "dialog", "aria-labelledby": id },
    make("h3", { id }, "Keys"),
    make(
      "dl",
      {},
      ...KEYS.flatMap(([keys, action]) => [make("dt", {}, keys), make("dd", {}, action)]),
    ),
    close,
  );
  element.hidden = true;
  return {
    element,
    hide,
    toggle() {
      if (hide()) return;
      opener = treeOf(element).activeElement;
      element.hidden = false;
      close.focus();
    },
  };
}
