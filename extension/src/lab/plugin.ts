// The JupyterLab and Notebook 7 plugin: what is known of `%%kernel` cells while they are written.
// Where it is not loaded (VS Code, Colab), Tab and Shift+Tab ask the kernel for the same.
import type { EditorView } from "@codemirror/view";
import { IEditorExtensionRegistry } from "@jupyterlab/codemirror";
import { INotebookTracker } from "@jupyterlab/notebook";
import { type Asker, type Kernel, makeAsker } from "./asking";
import { type AskedKernel, answerMaps } from "./comparing";
import { followers, following } from "./following";
import { marks } from "./marks";

const plugin = {
  id: "@workbench/jupyterlab:typing",
  description: "Underlines errors of %%kernel cells, shows types, links the cell with its panes",
  autoStart: true,
  requires: [IEditorExtensionRegistry, INotebookTracker],
  activate(_: unknown, registry: IEditorExtensionRegistry, notebooks: INotebookTracker): void {
    const askers = new WeakMap<object, Asker>();
    const refresh = (): void => {
      for (const follower of followers) follower.refresh();
    };
    const askerOf = (view: EditorView): Asker | undefined => {
      const panel = notebooks.find(({ node }) => node.contains(view.dom));
      const kernel = panel?.sessionContext.session?.kernel;
      if (!kernel) return undefined;
      let asker = askers.get(kernel);
      if (!asker) {
        asker = makeAsker(kernel as Kernel, refresh);
        askers.set(kernel, asker);
      }
      return asker;
    };
    answerMaps(document, (element) => {
      const panel = notebooks.find(({ node }) => node.contains(element));
      return (panel?.sessionContext.session?.kernel ?? undefined) as AskedKernel | undefined;
    });
    const extension = [marks, following(askerOf)];
    registry.addExtension({
      name: "workbench:typing",
      factory: () => ({ instance: () => extension, reconfigure: () => null }),
    });
  },
};

export default plugin;
