// The bar of tabs with its find box. ARIA tabs with automatic activation.
import { button, copyToClipboard, make, uniqueId } from "../dom";
import { COPY_REFUSED, REPORT, REPORT_COPIED } from "../texts";
import type { MountTab, Tab, TabServices } from "./tab";

/** A tab as the bar needs it. */
export interface TabEntry {
  id: string;
  title: string;
  label: string; // a count beside the title, or nothing
  filtered: boolean; // whether the find box means anything there
  mount: MountTab;
}

export interface TabBar {
  element: HTMLElement;
  panels: HTMLElement[];
  select(id: string): void;
  focusFilter(): void;
}

/** A tab's content is made when first shown, then only hidden. */
export function makeTabs(known: TabEntry[], services: TabServices, tabs: Map<string, Tab>): TabBar {
  const { state, signal } = services;
  const entries = known.map(({ id, title, label, filtered, mount }) => {
    const panelId = uniqueId("panel");
    const tab = make(
      "button",
      {
        type: "button",
        role: "tab",
        id: `${panelId}-tab`,
        "aria-controls": panelId,
        "data-tab": id,
      },
      title,
      label !== "" && make("span", { class: "wb-count" }, label),
    );
    const panel = make("div", {
      role: "tabpanel",
      id: panelId,
      class: "wb-panel",
      tabindex: "-1",
      "aria-labelledby": tab.id,
    });
    return { id, tab, panel, filtered, mount };
  });
  const list = make(
    "div",
    { role: "tablist", "aria-label": "Kernel views" },
    ...entries.map(({ tab }) => tab),
  );
  const box = make("input", {
    type: "search",
    class: "wb-filter",
    "aria-label": "Find in this tab",
    placeholder: "find  /",
    spellcheck: "false",
  });
  const found = make("span", { class: "wb-muted wb-found-count", "aria-live": "polite" });
  const select = (id: string): void => {
    for (const entry of entries) {
      const chosen = entry.id === id;
      entry.tab.setAttribute("aria-selected", String(chosen));
      entry.tab.tabIndex = chosen ? 0 : -1;
      entry.panel.hidden = !chosen;
      if (chosen && !tabs.has(id)) tabs.set(id, mountSafely(entry.mount, entry.panel, services));
    }
    state.tab = id;
    box.hidden = found.hidden = !entries.some((entry) => entry.id === id && entry.filtered);
    box.value = state.filter.get(id) ?? "";
    found.textContent = box.value === "" ? "" : (tabs.get(id)?.filter?.(box.value) ?? "");
  };
  for (const { id, tab } of entries) tab.addEventListener("click", () => select(id), { signal });
  list.addEventListener(
    "keydown",
    (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step || event.altKey) return;
      event.preventDefault();
      const at = entries.findIndex(({ id }) => id === state.tab);
      const next = entries[(at + step + entries.length) % entries.length];
      if (!next) return;
      select(next.id);
      next.tab.focus();
    },
    { signal },
  );
  box.addEventListener(
    "input",
    () => {
      state.filter.set(state.tab, box.value);
      found.textContent = tabs.get(state.tab)?.filter?.(box.value) ?? "";
    },
    { signal },
  );
  box.addEventListener(
    "keydown",
    (event) => {
      if (event.key === "Enter") tabs.get(state.tab)?.next?.(event.shiftKey ? -1 : 1);
      else if (event.key === "Escape" && box.value !== "") {
        box.value = "";
        box.dispatchEvent(new Event("input"));
      } else return;
      event.preventDefault();
      event.stopPropagation(); // also from the notebook: Shift+Enter would run the cell
    },
    { signal },
  );
  return {
    element: make(
      "div",
      { class: "wb-tabs" },
      list,
      make("span", { class: "wb-grow" }),
      found,
      box,
    ),
    panels: entries.map(({ panel }) => panel),
    select,
    focusFilter: () => box.focus(),
  };
}

/** Mount a tab; a fault in it leaves the other tabs usable and can be reported. */
function mountSafely(mountTab: MountTab, panel: HTMLElement, services: TabServices): Tab {
  try {
    return mountTab(panel, services);
  } catch (error) {
    const report =
      error instanceof Error ? `${error.message}\n${error.stack ?? ""}` : String(error);
    console.error(error);
    const copy = button(
      REPORT,
      { class: "wb-toggle" },
      () =>
        void copyToClipboard(report).then(
          () => {
            copy.textContent = REPORT_COPIED;
          },
          () => {
            copy.textContent = COPY_REFUSED;
          },
        ),
      services.signal,
    );
    panel.replaceChildren(
      make(
        "div",
        { class: "wb-fault", role: "alert" },
        make(
          "p",
          {},
          "This tab could not be shown. That is a fault of the viewer; the other tabs work.",
        ),
        make("pre", {}, report),
        copy,
      ),
    );
    return {};
  }
}
