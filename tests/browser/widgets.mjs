// What a front end's widget manager does, as far as anywidget needs it: runs in the page. The module of
// anywidget is the one that its package brings (AMD); models have a comm or, in a saved notebook, none.
export const manager = () => {
  class Events {
    #listeners = [];
    on(name, call, context) {
      this.#listeners.push({ name, call, context });
    }
    once(name, call) {
      this.on(name, call);
    }
    off(name, call, context) {
      this.#listeners = this.#listeners.filter(
        (one) =>
          (name && one.name !== name) || (call && one.call !== call) || (context && one.context !== context),
      );
    }
    trigger(name, ...told) {
      for (const one of this.#listeners) if (one.name === name) one.call.apply(one.context, told);
    }
  }
  class DOMWidgetModel extends Events {
    constructor(id, state, live) {
      super();
      Object.assign(this, { id, state: { ...state }, live, widget_manager: {} });
      this.initialize();
    }
    initialize() {}
    get(name) {
      return this.state[name];
    }
    set(name, value) {
      this.state[name] = value;
    }
    save_changes() {}
    send(content) {
      // As @jupyter-widgets/base does: without a comm nothing happens.
      if (this.live) window.toKernel(this.id, { method: "custom", content });
    }
    async _handle_comm_msg({ data, buffers }) {
      if (data.method === "custom") this.trigger("msg:custom", data.content, buffers);
      if (data.method === "update") this.state = { ...this.state, ...withBuffers(data, buffers) };
    }
  }
  class DOMWidgetView {
    constructor(model, el) {
      Object.assign(this, { model, el, $el: { empty: () => el.replaceChildren() } });
    }
    remove() {}
  }
  const bytes = (text, plain) => {
    const array = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    return plain ? array : new DataView(array.buffer);
  };
  const withBuffers = ({ state, buffer_paths: paths = [] }, buffers) => {
    const filled = { ...state };
    paths.forEach(([name], i) => {
      filled[name] = buffers[i];
    });
    return filled;
  };
  const models = new Map();
  let classes;
  window.define = (_needs, make) => {
    classes = make({ DOMWidgetModel, DOMWidgetView });
  };
  /** Plain: Colab's manager gives Uint8Arrays where others give DataViews. */
  window.widgets = {
    async render(id, opening, place, { live, plain }) {
      let model = models.get(id);
      if (!model) {
        const buffers = opening.buffers.map((text) => bytes(text, plain));
        model = new classes.AnyModel(id, withBuffers(opening, buffers), live);
        models.set(id, model);
      }
      await new classes.AnyView(model, place).render();
    },
    receive(id, data, buffers, plain) {
      const decoded = buffers.map((text) => bytes(text, plain));
      return models.get(id)?._handle_comm_msg({ data, buffers: decoded });
    },
  };
};
