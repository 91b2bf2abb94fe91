import { afterEach, beforeEach, expect, test } from "vitest";
import { followTheme, isDark } from "../src/theme";

let root: HTMLElement;
let end: AbortController;
beforeEach(() => {
  root = document.createElement("div");
  root.className = "probe";
  document.body.replaceChildren(root);
  end = new AbortController();
});
afterEach(() => {
  end.abort();
  for (const style of document.head.querySelectorAll("style.late")) style.remove();
});

const frames = (): Promise<void> =>
  new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())));
const background = (colour: string): HTMLStyleElement => {
  const style = document.createElement("style");
  style.className = "late";
  style.textContent = `.probe { background-color: ${colour}; }`;
  return style;
};

test("dark is a matter of luminance; transparent counts as light", () => {
  expect(isDark("rgb(17, 17, 17)")).toBe(true);
  expect(isDark("rgb(0, 0, 255)")).toBe(true);
  expect(isDark("rgb(255, 255, 0)")).toBe(false);
  expect(isDark("transparent")).toBe(false);
  expect(isDark("rgba(0, 0, 0, 0)")).toBe(false);
});

test("a black page without any marks is dark", () => {
  document.body.style.backgroundColor = "rgb(0, 0, 0)";
  followTheme(root, end.signal);
  expect(root.style.colorScheme).toBe("dark");
  document.body.style.backgroundColor = "";
});

test("a style sheet that comes after the viewer turns it dark", async () => {
  followTheme(root, end.signal);
  expect(root.style.colorScheme).toBe("light");
  document.head.append(background("rgb(17, 17, 17)"));
  await frames();
  expect(root.style.colorScheme).toBe("dark");
});

test("so does one that is in the page already and arrives later", async () => {
  const link = document.createElement("link");
  document.head.append(link);
  followTheme(root, end.signal);
  await frames();
  root.style.backgroundColor = "rgb(17, 17, 17)"; // what the sheet brings
  link.dispatchEvent(new Event("load"));
  await frames();
  expect(root.style.colorScheme).toBe("dark");
  link.remove();
});

test("an ended viewer looks no more", async () => {
  followTheme(root, end.signal);
  end.abort();
  document.head.append(background("rgb(17, 17, 17)"));
  await frames();
  expect(root.style.colorScheme).toBe("light");
});

test("a page that paints no viewer is asked by its marks, then by what lies behind", async () => {
  const page = document.documentElement;
  page.setAttribute("theme", "dark"); // Colab
  followTheme(root, end.signal);
  expect(root.style.colorScheme).toBe("dark");
  page.setAttribute("theme", "light");
  await frames();
  expect(root.style.colorScheme).toBe("light");
  page.removeAttribute("theme");
  document.body.classList.add("dark"); // marimo
  await frames();
  expect(root.style.colorScheme).toBe("dark");
  document.body.classList.remove("dark");
  document.body.style.backgroundColor = "rgb(30, 30, 30)";
  await frames();
  expect(root.style.colorScheme).toBe("dark");
  document.body.style.backgroundColor = "";
  await frames();
  expect(root.style.colorScheme).toBe("light");
});

test("a host's own colours count before its marks", () => {
  root.style.setProperty("--vscode-editor-background", "#1f1f1f");
  root.style.backgroundColor = "rgb(31, 31, 31)";
  document.body.dataset.theme = "light";
  followTheme(root, end.signal);
  expect(root.style.colorScheme).toBe("dark");
  delete document.body.dataset.theme;
});
