// A model without a kernel: the few calls that a widget's module makes, answered in the page.
const state = JSON.parse(document.getElementById("rlnb-state").textContent);
for (const [name, value] of Object.entries(state)) {
  if (value && typeof value === "object" && typeof value.__bytes__ === "string") {
    const raw = atob(value.__bytes__);
    const bytes = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i); // Uint8Array.from takes a second for ten megabytes
    state[name] = new DataView(bytes.buffer);
  }
}
const heard = new Map();
const emit = (event) => { for (const fn of [...(heard.get(event) ?? [])]) fn(); };
const model = {
  get: (name) => state[name],
  set(name, value) {
    if (state[name] === value) return;
    state[name] = value;
    emit(`change:${name}`);
    emit("change");
  },
  on(event, fn) { if (!heard.has(event)) heard.set(event, new Set()); heard.get(event).add(fn); },
  off(event, fn) { if (fn) heard.get(event)?.delete(fn); else heard.delete(event); },
  save_changes() {},
  send() {},
  widget_manager: null,
};
const widget = typeof __widget === "function" ? await __widget() : __widget;
await widget.initialize?.({ model });
await widget.render?.({ model, el: document.getElementById("rlnb-root") });
