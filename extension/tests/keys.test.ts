import { expect, test } from "vitest";
import { keepKeys } from "../src/keys";

test("the notebook sees only its own keys", () => {
  const outer = document.body.appendChild(document.createElement("div"));
  const root = outer.appendChild(document.createElement("div"));
  keepKeys(root, new AbortController().signal);
  const seen: string[] = [];
  outer.addEventListener("keydown", (event) => seen.push(event.key));
  const press = (key: string, more: KeyboardEventInit = {}): boolean =>
    root.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, ...more }));
  for (const key of ["b", "d", "ArrowDown", "Enter", "Escape", "F6"]) press(key);
  for (const key of ["Tab", "F5"]) press(key);
  press("Enter", { shiftKey: true });
  press("s", { ctrlKey: true });
  expect(seen).toEqual(["Tab", "F5", "Enter", "s"]);
});
