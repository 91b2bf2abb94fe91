// The Stages tab: one to four panes side by side, a toggle for each stage, widths by separator.
import { linkedRows } from "../counted";
import { button, copyToClipboard, make } from "../dom";
import { overrideCell } from "../offers";
import { ROW_HEIGHT } from "../panes/rows";
import { mountStage, type StagePane } from "../panes/stage";
import type { StageView } from "../stages";
import { COPY_REFUSED, count, EDIT, EDIT_COPIED, STAGE_TITLES } from "../texts";
import type { StageId } from "../trace";
import type { Tab, TabServices } from "./tab";

const MOST_PANES = 4;
const NARROW = 900; // px; below it one pane and the toggles as a selector
const LEAST_SHARE = 0.12; // of the width that a pane keeps when its neighbour grows
const STEP = 0.04;
const TITLE_HEIGHT = 26; // px
const LOWEST = 180; // px; short kernels leave no empty panes
const HIGHEST = "var(--wb-panes-most, 440px)"; // a page of its own allows more (page.py)

/** The stages open at first: those asked for, else what the reader compares most. */
export function defaultOpen(stages: readonly StageView[], asked: readonly string[] = []): string[] {
  const exist = asked.filter((id) => stages.some((stage) => stage.id === id)).slice(0, MOST_PANES);
  // Asked for with the other target in mind, as SASS on a CPU: one pane alone compares nothing.
  if (exist.length > 0 && exist.length >= Math.min(2, asked.length)) return exist;
  const present = new Set(stages.filter(({ lines }) => lines.length > 0).map(({ id }) => id));
  const wish = present.has("asm") ? ["source", "tile", "asm"] : ["source", "gpu", "sass"];
  const open = wish.filter((id) => present.has(id));
  for (const id of ["ptx", "llvm", "tile", "gpu"]) {
    if (open.length < Math.min(3, present.size) && present.has(id) && !open.includes(id)) {
      open.push(id);
    }
  }
  return open.length > 0 ? open : stages.slice(0, 1).map(({ id }) => id);
}

export function mountStages(panel: HTMLElement, services: TabServices): Tab {
  const { stages, selection, state, trace, signal } = services;
  const target = trace.kernel.target;
  const known = state.open.get(target)?.filter((id) => stages.some((stage) => stage.id === id));
  let open: string[] = known && known.length > 0 ? known : defaultOpen(stages, state.show);
  const shares = new Map<string, number>();
  const panes = make("div", { class: "wb-panes" });
  const bar = make("div", { class: "wb-bar", role: "toolbar", "aria-label": "Stages to show" });
  let shown = new AbortController();
  let mounted: StagePane[] = [];
  let active = "";
  let narrow = false;
  signal.addEventListener("abort", () => shown.abort());

  const visible = (): StageView[] => {
    const chosen = stages.filter(({ id }) => open.includes(id));
    if (!narrow || chosen.length < 2) return chosen;
    return chosen.filter(({ id }, i) => (open.includes(active) ? id === active : i === 0));
  };
  const toggles = stages.map((stage, i) => {
    const toggle = button(
      make("span", {}, stage.title),
      {
        class: "wb-toggle",
        "data-stage": stage.id,
        "data-state": stage.state,
        title: stage.note || `${count(stage.lines.length, "row")} · key ${i + 1}`,
      },
      () => toggleStage(stage.id),
      signal,
    );
    return toggle;
  });
  const coverage = make("span", { class: "wb-coverage" }, coverageOf(stages));
  bar.append(...toggles, coverage);
  panel.append(bar, panes);

  const layOut = (): void => {
    const weights = visible().map(({ id }) => shares.get(id) ?? 1);
    const total = weights.reduce((sum, weight) => sum + weight, 0);
    panes.querySelectorAll<HTMLElement>(".wb-pane").forEach((pane, i) => {
      pane.style.flexGrow = String((weights[i] ?? 1) / total);
    });
  };
  const show = (): void => {
    shown.abort(); // ends the old panes' listeners and subscriptions
    shown = new AbortController();
    const chosen = visible();
    const longest = Math.max(...chosen.map(({ lines }) => lines.length));
    const wanted = TITLE_HEIGHT + (longest + 1) * ROW_HEIGHT;
    panes.style.height = `min(${HIGHEST}, ${Math.max(LOWEST, wanted)}px)`;
    const controls = chosen.map(() => make("div", { class: "wb-pane" }));
    panes.replaceChildren();
    controls.forEach((pane, i) => {
      if (i > 0) panes.append(separator(chosen[i - 1]?.id ?? "", chosen[i]?.id ?? ""));
      panes.append(pane);
    });
    mounted = chosen.map((stage, i) =>
      mountStage(
        controls[i] as HTMLElement,
        stage,
        {
          links: services.links,
          selection,
          describe: services.describe,
          onFocus: (id) => {
            active = id;
          },
        },
        shown.signal,
      ),
    );
    chosen.forEach((stage, i) => {
      const title = (controls[i] as HTMLElement).querySelector(".wb-title");
      const cell = overrideCell(services.trace.kernel, stage.id, stage.lines);
      if (cell !== null) title?.append(editButton(stage.title, cell, shown.signal));
    });
    stages.forEach(({ id }, i) => {
      toggles[i]?.setAttribute("aria-pressed", String(chosen.some((stage) => stage.id === id)));
    });
    state.open.set(target, open);
    layOut();
    selection.refresh(); // a pin outlives its pane
  };
  const toggleStage = (id: string): void => {
    if (narrow) {
      if (!open.includes(id)) open = [...open, id].slice(-MOST_PANES);
      active = id;
    } else if (open.includes(id)) {
      if (open.length > 1) open = open.filter((other) => other !== id);
    } else {
      open = [...open, id].slice(-MOST_PANES);
    }
    show();
  };
  /** Move the border between two panes by a share of the whole width. */
  const move = (left: string, right: string, by: number): void => {
    const all = visible().map(({ id }) => id);
    const total = all.reduce((sum, id) => sum + (shares.get(id) ?? 1), 0);
    const least = LEAST_SHARE * total;
    const [a, b] = [shares.get(left) ?? 1, shares.get(right) ?? 1];
    const grown = Math.max(least, Math.min(a + b - least, a + by * total));
    for (const id of all) if (!shares.has(id)) shares.set(id, 1);
    shares.set(left, grown);
    shares.set(right, a + b - grown);
    layOut();
  };
  const separator = (left: string, right: string): HTMLElement => {
    const title = (id: string): string => STAGE_TITLES[id as StageId] ?? id;
    const line = make("div", {
      class: "wb-separator",
      role: "separator",
      tabindex: "0",
      "aria-orientation": "vertical",
      "aria-label": `Border between ${title(left)} and ${title(right)}`,
      "aria-valuenow": "50",
    });
    const tell = (): void => {
      const [a, b] = [shares.get(left) ?? 1, shares.get(right) ?? 1];
      line.setAttribute("aria-valuenow", String(Math.round((100 * a) / (a + b))));
    };
    const listen = { signal: shown.signal };
    line.addEventListener(
      "keydown",
      (event) => {
        const by = { ArrowLeft: -STEP, ArrowRight: STEP }[event.key];
        if (by === undefined) return;
        event.preventDefault();
        event.stopPropagation();
        move(left, right, by);
        tell();
      },
      listen,
    );
    line.addEventListener(
      "pointerdown",
      (event) => {
        line.setPointerCapture(event.pointerId);
        event.preventDefault();
        let from = event.clientX;
        const drag = (moved: PointerEvent): void => {
          move(left, right, (moved.clientX - from) / panes.clientWidth);
          from = moved.clientX;
          tell();
        };
        line.addEventListener("pointermove", drag, listen);
        line.addEventListener("pointerup", () => line.removeEventListener("pointermove", drag), {
          once: true,
          signal: shown.signal,
        });
      },
      listen,
    );
    return line;
  };
  const pane = (id: string): StagePane | undefined => mounted.find(({ stage }) => stage.id === id);
  const focused = (): StagePane | undefined => pane(active) ?? mounted[0];

  panel.addEventListener(
    "keydown",
    (event) => {
      const by = { ArrowLeft: -STEP, ArrowRight: STEP }[event.key];
      if (!event.altKey || by === undefined || mounted.length < 2) return;
      event.preventDefault(); // else the browser goes back a page
      event.stopPropagation();
      const ids = mounted.map(({ stage }) => stage.id);
      const at = Math.max(0, ids.indexOf(active));
      if (at + 1 < ids.length) move(ids[at] ?? "", ids[at + 1] ?? "", by);
      else move(ids[at - 1] ?? "", ids[at] ?? "", -by);
    },
    { signal },
  );
  new ResizeObserver(([entry]) => {
    const width = entry?.contentRect.width ?? 0;
    const now = width > 0 && width < NARROW;
    if (now === narrow) return;
    narrow = now;
    show();
  }).observe(panel);
  show();

  return {
    filter(text) {
      const hits = mounted.map((each) => each.find(text));
      if (text === "") return "";
      return mounted.map(({ stage }, i) => `${stage.title} ${hits[i]}`).join(" · ");
    },
    next: (step) => focused()?.findNext(step),
    key(event) {
      if (event.key === "F6") {
        const at = mounted.findIndex(({ stage }) => stage.id === active);
        mounted[(at + 1) % mounted.length]?.focus();
        return true;
      }
      const digit = Number.parseInt(event.key, 10);
      const chosen = event.key.length === 1 ? stages[digit - 1] : undefined;
      if (!chosen) return false;
      toggleStage(chosen.id);
      (pane(chosen.id) ?? mounted[0])?.focus();
      return true;
    },
    show({ stage, line, op }) {
      if (stage && !open.includes(stage)) toggleStage(stage);
      const at = pane(stage ?? "source") ?? mounted[0];
      if (line !== undefined) at?.goTo(line - at.stage.firstLine);
      else if (op !== undefined) {
        selection.pin({ stage: "", from: op, to: op, ops: new Set([op]) }, false);
      }
      at?.focus();
    },
    copy() {
      const from = focused();
      if (!from) return "";
      return copyRows(from.stage, from.rowsToCopy(), services);
    },
  };
}

/** "links: 655 of 667 SASS rows" of the last stage that has rows: how far the links reach. */
function coverageOf(stages: readonly StageView[]): string {
  const last = stages.findLast(({ lines, id }) => lines.length > 0 && id !== "source");
  if (!last) return "";
  const [have, all] = linkedRows(last).map((n) => n.toLocaleString("en-US"));
  return `linked: ${have} of ${all} ${last.title} rows`;
}

const COMMENTS: Record<string, string> = { python: "#", ast: "#", llvm: ";", asm: "#" };

/** Rows as text, each with the source lines that it came from. */
export function copyRows(
  stage: StageView,
  rows: readonly number[],
  { ops, trace }: Pick<TabServices, "ops" | "trace">,
): string {
  const sign = COMMENTS[stage.lang] ?? "//";
  return rows
    .map((row) => {
      const text = stage.lines[row] ?? "";
      if (stage.id === "source") return text;
      const places = new Set(
        (stage.opsOfRow[row] ?? []).flatMap((op) => {
          const place = ops.place(op);
          if (!place || place[0] < 0) return [];
          return [`${trace.sources[place[0]]?.file ?? trace.kernel.file}:${place[1]}`];
        }),
      );
      return places.size > 0 ? `${text}  ${sign} ${[...places].join(", ")}` : text;
    })
    .join("\n");
}

/** A button that copies the cell in which a stage is edited. */
function editButton(title: string, cell: string, signal: AbortSignal): HTMLButtonElement {
  const edit = button(
    EDIT,
    { class: "wb-edit", title: `Copy a %%override cell with this ${title}` },
    () =>
      void copyToClipboard(cell).then(
        () => {
          edit.textContent = EDIT_COPIED;
        },
        () => {
          edit.textContent = COPY_REFUSED;
        },
      ),
    signal,
  );
  return edit;
}
