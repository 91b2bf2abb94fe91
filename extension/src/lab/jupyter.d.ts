// What the plugin needs of JupyterLab's packages. JupyterLab has them when it loads the extension;
// they are not installed for their types alone.
declare module "@jupyterlab/codemirror" {
  import type { Extension, StateEffect } from "@codemirror/state";
  import type { Token } from "@lumino/coreutils";

  export interface IEditorExtensionRegistry {
    addExtension(entry: {
      name: string;
      factory(): {
        instance(value: unknown): Extension;
        reconfigure(value: unknown): StateEffect<unknown> | null;
      };
    }): void;
  }
  export const IEditorExtensionRegistry: Token<IEditorExtensionRegistry>;
}

declare module "@jupyterlab/notebook" {
  import type { Token } from "@lumino/coreutils";
  import type { Widget } from "@lumino/widgets";

  export interface NotebookPanel extends Widget {
    sessionContext: { session: { kernel: object | null } | null };
  }
  export interface INotebookTracker {
    find(test: (panel: NotebookPanel) => boolean): NotebookPanel | undefined;
  }
  export const INotebookTracker: Token<INotebookTracker>;
}
