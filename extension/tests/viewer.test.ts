import { beforeEach, expect, test, vi } from "vitest";
import { bundleOf } from "../src/envelope";
import { compileTimes, factsOf, traceLabels } from "../src/header";
import { viewOps, viewStages } from "../src/stages";
import { isStale } from "../src/stale";
import { problemsOf } from "../src/tabs/problems";
import { copyRows, defaultOpen } from "../src/tabs/stages";
import type { Trace } from "../src/trace";
import { mount, type Viewer } from "../src/viewer";
import { ADD_ACCESS, addTrace } from "./fixture";

let host: HTMLElement;
beforeEach(() => {
  host = document.createElement("div");
  document.body.replaceChildren(host);
});

const show = (...traces: Trace[]): Viewer => mount(host, bundleOf({ traces }));
const openTab = (name: string): void =>
  host.querySelector<HTMLElement>(`[role=tab][data-tab="${name}"]`)!.click();
const pressed = (): string[] =>
  [...host.querySelectorAll<HTMLElement>('.wb-toggle[data-stage][aria-pressed="true"]')].map(
    (toggle) => toggle.dataset.stage ?? "",
  );
const launchOn = (device: string) => ({ t: 0, grid: [1], device });
const press = (key: string): void => {
  const inside = host.querySelector<HTMLElement>(".wb-scroller")!;
  inside.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
};

test("a pinned source line is told in words, with the line of the cell", () => {
  show(addTrace());
  host.querySelector<HTMLElement>('.wb-scroller[data-stage="source"] [data-row="3"]')!.click();
  expect(host.querySelector(".wb-status")!.textContent).toBe(
    "Pinned Python line 5: 1 op → 1 Tile IR row, 1 PTX row",
  );
});

test("an error of a launch or a check opens the problems, its place leads to the source", () => {
  const error = {
    code: "K601",
    severity: "error" as const,
    text: "out differs from x + y: 1 of 7 elements",
    span: [0, 7, 5, 7, 43] as [number, number, number, number, number],
    help: "use --grid 3",
  };
  show(addTrace({ runs: { errors: [error] } }));
  const chosen = host.querySelector<HTMLElement>('[role=tab][aria-selected="true"]')!;
  expect(chosen.dataset.tab).toBe("problems");
  const row = host.querySelector<HTMLElement>('[data-severity="error"]')!;
  expect(row.querySelector(".wb-excerpt")!.textContent).toContain("tl.store(out_ptr + offs");
  expect(row.textContent).toContain("help: use --grid 3");
  row.querySelector<HTMLElement>(".wb-place")!.click();
  expect(host.querySelector(".wb-status")!.textContent).toMatch(/^Pinned Python line 7/);
});

test("times of a busy machine are shown with a warning", () => {
  const bench = (others: number) => ({
    name: "add",
    kind: "self" as const,
    axis: "n",
    x: [64],
    milliseconds: [[1, 1, 1, 20]] as [number, number, number, number][],
    bytes: [1000],
    env: { device: "a CPU", others },
  });
  show(addTrace({ runs: { benches: [bench(0.6)] } }));
  openTab("performance");
  expect(host.querySelector(".wb-warning")!.textContent).toContain("60 % of the processor");
  show(addTrace({ runs: { benches: [bench(0.05)] } }));
  openTab("performance");
  expect(host.querySelector(".wb-warning")).toBeNull();
});

test("a search is a table with the fastest in front and its options to paste", () => {
  const rows = [
    { config: { BM: 64, warps: 4 }, milliseconds: 2, state: "ok" as const, registers: 40 },
    { config: { BM: 512, warps: 4 }, state: "rejected" as const, why: "too much shared memory" },
    { config: { BM: 128, warps: 8 }, milliseconds: 1, state: "ok" as const, registers: 90 },
  ];
  show(
    addTrace({ runs: { launches: [launchOn("cpu")], tunes: [{ axes: ["BM"], rows, best: 2 }] } }),
  );
  openTab("performance");
  const section = [...host.querySelectorAll("section")].find(
    (one) => one.querySelector("h3")?.textContent === "Tuning",
  )!;
  expect(section.querySelector("code")!.textContent).toBe("--set BM=128 --set warps=8");
  const cells = [...section.querySelectorAll("tbody tr")].map((row) =>
    [...row.querySelectorAll("th, td")].map((cell) => cell.textContent),
  );
  expect(cells).toEqual([
    ["128", "8", "1 ms", "90", "best"],
    ["64", "4", "2 ms", "40", "ok"],
    ["512", "4", "–", "–", "rejected: too much shared memory"],
  ]);
});

test("choosing the other target keeps the tab and shows its stages", () => {
  const cpu = addTrace();
  cpu.kernel = { ...cpu.kernel, target: "cpu" };
  cpu.stages = [...cpu.stages.slice(0, 2), { id: "asm", text: 2, lang: "asm" }];
  show(cpu, addTrace());
  expect(traceLabels([cpu, addTrace()])).toEqual(["cpu", "sm_90a"]);
  openTab("performance");
  host.querySelectorAll<HTMLElement>(".wb-targets button")[1]!.click();
  expect(host.querySelector('[role=tab][aria-selected="true"]')!.textContent).toContain(
    "Performance",
  );
  openTab("stages");
  expect(host.querySelector('[data-stage="ptx"]')).not.toBeNull();
});

test("what was not run here is told of the target where it was", () => {
  const cpu = addTrace();
  cpu.kernel = { ...cpu.kernel, target: "cpu" };
  cpu.runs = {
    checks: [
      { ok: true, ref: "x + y", rtol: 0, atol: 0, wrong: 0, total: 7, max_abs: 0, max_rel: 0 },
    ],
  };
  const gpu = addTrace({ runs: { skipped: [{ what: "launch", why: "no CUDA device" }] } });
  expect(factsOf(gpu, [cpu, gpu]).at(-1)).toMatchObject({ label: "cpu check", value: "✓ ok" });
  show(gpu, cpu);
  openTab("performance");
  expect(host.querySelector(".wb-scroll p")!.textContent).toBe(
    "Not run on sm_90a (launch: no CUDA device). These runs are on cpu:",
  );
  expect(host.querySelector(".wb-verdict")!.textContent).toBe("✓ 7 of 7 elements agree with x + y");
});

test("an update keeps the open panes", () => {
  const viewer = show(addTrace());
  expect(pressed()).toEqual(["source", "tile", "ptx"]);
  press("2");
  expect(pressed()).toEqual(["source", "ptx"]);
  viewer.update(bundleOf(addTrace()));
  expect(pressed()).toEqual(["source", "ptx"]);
});

test("panes asked for are open first; missing stages are not opened by themselves", () => {
  const trace = addTrace();
  trace.strings.push("");
  trace.stages.push({ id: "sass", text: 5, lang: "sass", state: "missing", note: "pip install x" });
  const stages = viewStages(trace);
  expect(defaultOpen(stages)).toEqual(["source", "ptx", "tile"]);
  expect(defaultOpen(stages, ["tile", "sass"])).toEqual(["tile", "sass"]);
  expect(defaultOpen(stages, ["source"])).toEqual(["source"]);
  expect(defaultOpen(stages, ["source", "asm"])).toEqual(["source", "ptx", "tile"]);
});

test("what nobody measured is unknown on a GPU and absent on the CPU", () => {
  const gpu = factsOf(addTrace());
  expect(gpu.find(({ label }) => label === "regs")?.value).toBe("unknown");
  const cpu = addTrace({ resources: { shared_bytes: 0 } });
  cpu.stages = cpu.stages.slice(0, 2);
  expect(factsOf(cpu)).toEqual([]);
});

test("a viewer in a part of the page that its host keeps apart has its style and its keys there", () => {
  const part = host.attachShadow({ mode: "open" });
  const inner = document.createElement("div");
  part.append(inner);
  mount(inner, bundleOf({ traces: [addTrace()] }));
  expect(part.getElementById("wb-style")).not.toBeNull();
  const list = (): HTMLElement => part.querySelector<HTMLElement>(".wb-keys")!;
  const opener = part.querySelector<HTMLElement>('[role=tab][aria-selected="true"]')!;
  opener.focus();
  const scroller = part.querySelector<HTMLElement>(".wb-scroller")!;
  scroller.dispatchEvent(new KeyboardEvent("keydown", { key: "?", bubbles: true }));
  expect(list().hidden).toBe(false);
  scroller.dispatchEvent(new KeyboardEvent("keydown", { key: "?", bubbles: true }));
  expect(part.activeElement).toBe(opener);
});

test("the header tells resources, times and the verdict", () => {
  const trace = addTrace({
    resources: {
      registers: 40,
      spill_store_bytes: 16,
      shared_bytes: 1024,
      dynamic_shared_bytes: 512,
      occupancy: { warps: 16, max: 64, limit: "registers" },
    },
    runs: {
      checks: [
        { ok: false, ref: "x + y", rtol: 0, atol: 0, wrong: 1, total: 7, max_abs: 1, max_rel: 1 },
      ],
    },
  });
  const told = factsOf(trace).map(({ label, value }) => `${label} ${value}`);
  expect(told).toEqual([
    "regs 40",
    "spills 16 B",
    "shared 1.5 kB",
    "occupancy 25 % (registers)",
    "check ✗ failed",
  ]);
  expect(compileTimes(trace)).toEqual([{ name: "PTX", milliseconds: 2.5 }]);
});

test("problems come worst first, and a click goes to the source line", () => {
  const trace = addTrace({
    remarks: [
      { code: "R1", severity: "applied", text: "done", op: 3 },
      { code: "R2", severity: "missed", text: "could not", op: 3 },
    ],
    errors: [
      {
        code: "K302",
        severity: "error",
        text: "inner sizes differ",
        span: [0, 5, 5, 5, 9],
        help: "use the same BK",
      },
    ],
  });
  trace.runs = { skipped: [{ what: "launch", why: "no CUDA device" }] };
  expect(problemsOf(trace).map(({ severity }) => severity)).toEqual([
    "error",
    "skipped",
    "missed",
    "applied",
  ]);
  show(trace);
  openTab("problems");
  const places = [...host.querySelectorAll<HTMLElement>(".wb-problems .wb-place")];
  expect(places.map(({ textContent }) => textContent)).toEqual(["In[3]:5", "In[3]:5", "In[3]:5"]);
  expect(host.querySelector(".wb-excerpt")!.textContent).toBe(
    "    x = tl.load(x_ptr + offs, mask=mask)\n    ^^^^",
  );
  places[0]!.click();
  expect(host.querySelector(".wb-status")!.textContent).toContain("Pinned Python line 5");
});

test("one remark at several places is one problem with several links", () => {
  const note = { code: "", severity: "note", text: "not portable" } as const;
  const trace = addTrace({ remarks: [3, 4, 4].map((op) => ({ ...note, op })) });
  expect(problemsOf(trace).length).toBe(1);
  show(trace);
  openTab("problems");
  const places = [...host.querySelectorAll<HTMLElement>(".wb-problems .wb-place")];
  expect(places.map(({ textContent }) => textContent)).toEqual(["In[3]:5", "In[3]:6"]);
});

test("a failed compile without stages opens on its problems", () => {
  const trace = addTrace({
    errors: [{ code: "K203", severity: "error", text: "no function 'lod'" }],
  });
  trace.stages = trace.stages.slice(0, 1);
  show(trace);
  expect(host.querySelector('[role=tab][aria-selected="true"]')!.textContent).toContain("Problems");
});

test("copied rows name the source lines that they came from", () => {
  const trace = addTrace();
  const ptx = viewStages(trace)[2]!;
  expect(copyRows(ptx, [0, 2], { ops: viewOps(trace), trace })).toBe(
    "ld.global.f32 %f1, [%rd1];  // In[3]:6\nadd.f32 %f3, %f1, %f2;  // In[3]:8",
  );
});

test("the pass list is filtered, and shows what changed", () => {
  const trace = addTrace();
  trace.strings.push("%0 = tile.a\n%1 = tile.b", "%0 = tile.b");
  const [before, after] = [5, 6];
  trace.passes = [
    { name: "remove_dead", pipe: "tile", milliseconds: 0.1, changed: true, before, after },
    { name: "idle", pipe: "tile", milliseconds: 0.1, changed: false, before: after, after },
  ];
  show(trace);
  openTab("passes");
  const names = (): (string | null)[] =>
    [...host.querySelectorAll(".wb-pass-name")].map(({ textContent }) => textContent);
  expect(names()).toEqual(["remove_dead"]);
  host.querySelector<HTMLInputElement>(".wb-check input")!.click();
  expect(names()).toEqual(["remove_dead", "idle"]);
  expect(host.querySelectorAll(".wb-removed").length).toBe(2);
  expect(host.querySelectorAll(".wb-added").length).toBe(1);
  const box = host.querySelector<HTMLInputElement>(".wb-filter")!;
  box.value = "idl";
  box.dispatchEvent(new Event("input"));
  expect(names()).toEqual(["idle"]);
});

test("a pass shows the rules that it applied, with their identities and places", () => {
  const trace = addTrace();
  trace.strings.push("%0 = tile.a\n%1 = tile.b", "%0 = tile.b");
  const rules = [{ name: "add-zero", identity: "x + 0 = x", ops: [3, 4, 3] }];
  trace.passes = [
    {
      name: "canonicalize",
      pipe: "tile",
      milliseconds: 1,
      changed: true,
      before: 5,
      after: 6,
      rules,
    },
    { name: "other", pipe: "tile", milliseconds: 1, changed: true, before: 6, after: 5 },
  ];
  show(trace);
  openTab("passes");
  const shown = host.querySelector<HTMLDetailsElement>(".wb-rules")!;
  expect(shown.querySelector("summary")!.textContent).toBe("1 rule applied 3 times");
  expect(shown.querySelector("code")!.textContent).toBe("x + 0 = x");
  const places = [...shown.querySelectorAll<HTMLElement>(".wb-place")];
  expect(places.map(({ textContent }) => textContent)).toEqual(["In[3]:5", "In[3]:6"]);
  host.querySelector<HTMLElement>("[data-pass='1']")!.click();
  expect(host.querySelector(".wb-rules")).toBeNull();
  expect(host.querySelectorAll(".wb-problems li").length).toBe(0);
});

test("pins reach the passes, the problems and the programs", () => {
  const trace = addTrace({
    access: ADD_ACCESS,
    remarks: [
      { code: "R1", severity: "missed", text: "of the load", op: 3 },
      { code: "R2", severity: "missed", text: "of its line", span: [0, 7, 5, 7, 9] },
    ],
  });
  trace.strings.push("%0 = tile.load\n%1 = tile.b", "%0 = tile.load");
  trace.passes = [
    {
      name: "drop",
      pipe: "tile",
      milliseconds: 1,
      changed: true,
      before: 5,
      after: 6,
      before_rows: [
        [0, 1, [3]],
        [1, 1, [6]],
      ],
      rows: [[0, 1, [3]]],
      del: [6],
    },
  ];
  show(trace);
  const pinned = (within: string): (string | null)[] =>
    [...host.querySelectorAll(`${within} .wb-pin0`)].map(({ textContent }) => textContent);
  for (const tab of ["passes", "problems", "programs", "stages"]) openTab(tab);
  host.querySelector<HTMLElement>('.wb-scroller[data-stage="source"] [data-row="3"]')!.click();
  expect(pinned(".wb-problems").join()).toContain("of the load");
  expect(pinned(".wb-problems").join()).not.toContain("of its line");
  expect(pinned(".wb-list")).toEqual([]);
  expect(pinned(".wb-diff").join()).toContain("%0 = tile.load");
  host.querySelector<HTMLElement>('.wb-diff [data-ops="6"]')!.click();
  expect(pinned(".wb-list").join()).toContain("drop");
  expect(pinned(".wb-problems").join()).toContain("of its line");
  expect(host.querySelectorAll(".wb-pictures > .wb-pin0").length).toBe(1);
});

test("side by side, both halves are rows of one width", () => {
  const trace = addTrace();
  trace.strings.push("%0 = tile.a\n%1 = tile.b", "%0 = tile.b");
  trace.passes = [{ name: "p", pipe: "tile", milliseconds: 1, changed: true, before: 5, after: 6 }];
  show(trace);
  openTab("passes");
  host.querySelector<HTMLElement>(".wb-mode")!.click();
  expect(host.querySelector(".wb-halves")).not.toBeNull();
  const [left, right] = host.querySelector(".wb-pair")!.children;
  expect([left, right].map((half) => half?.querySelector(".wb-shifted") !== null)).toEqual([
    true,
    true,
  ]);
});

test("an edited cell is stale, whatever stands around its kernel", () => {
  const trace = addTrace();
  const source = trace.strings[0]!;
  expect(isStale(`%%kernel --grid 3\n${source}  \n\nadd[(3,)](x)`, trace)).toBe(false);
  expect(isStale(source.replace("x + y", "x * y"), trace)).toBe(true);
  trace.sources[0]!.file = "kernels.py";
  expect(isStale("import kernels", trace)).toBe(false);
  const viewer = show(addTrace());
  const badge = (): boolean => !host.querySelector<HTMLElement>(".wb-stale")!.hidden;
  expect(badge()).toBe(false);
  viewer.cellText("%bench add");
  expect(badge()).toBe(false);
  viewer.cellText("%%kernel\nsomething else");
  expect(badge()).toBe(true);
  viewer.update(bundleOf({ traces: [addTrace()] }));
  expect(badge()).toBe(true);
  viewer.cellText(source);
  expect(badge()).toBe(false);
});

test("the end of a viewer leaves nothing behind", () => {
  const viewer = show(addTrace());
  viewer.end();
  expect(host.childElementCount).toBe(0);
});

test("a page without a clipboard, as over plain http, says that it cannot copy", async () => {
  Object.defineProperty(navigator, "clipboard", { value: undefined, configurable: true });
  const refused = "The browser does not let this page copy";
  show(addTrace());
  const edit = host.querySelector<HTMLElement>(".wb-edit")!;
  edit.click();
  await vi.waitFor(() => expect(edit.textContent).toBe(refused));
  const said = vi.spyOn(console, "error").mockImplementation(() => {});
  const broken = addTrace();
  host.replaceChildren();
  show(broken);
  Object.defineProperty(broken, "passes", {
    get() {
      throw new Error("no passes");
    },
  });
  openTab("passes");
  const copy = host.querySelector<HTMLElement>(".wb-fault .wb-toggle")!;
  copy.click();
  await vi.waitFor(() => expect(copy.textContent).toBe(refused));
  said.mockRestore();
});
