// One trait as the page sees it: changed here at once, shared with linked visualizers, told to Python now and then.

import { throttle } from "./data.js";

const PYTHON_MS = 40; // At most 25 messages a second.
const ECHO_MS = 400; // For so long after a linked visualizer moved us, Python's word about it is old news.

// Widgets of one page do not share a module, so linked channels meet at an object that hangs on the page itself. Its events
// are named after the links.
const links = () => (globalThis.__rlnbLinks ??= new EventTarget());
const outboxes = new WeakMap();

function outbox(model) {
  if (!outboxes.has(model)) {
    const values = new Map();
    const send = throttle(() => {
      if (values.size === 0) return;
      for (const [name, value] of values) model.set(name, value);
      values.clear();
      model.save_changes();
    }, PYTHON_MS);
    outboxes.set(model, { put(name, value) { values.set(name, value); send(); }, holds: (name) => values.has(name), send });
  }
  return outboxes.get(model);
}

const same = (a, b) => a === b || (Array.isArray(a) && Array.isArray(b) && String(a) === String(b));

export class Channel {
  /** `clean` turns any value that arrives into a legal one. */
  constructor(model, name, clean = (value) => value) {
    this.model = model;
    this.name = name;
    this.clean = clean;
    this.value = clean(model.get(name));
    this.listeners = new Set();
    this.movedByLink = -Infinity;
    this.onModel = () => this.fromModel();
    this.onLinks = () => this.join();
    model.on(`change:${name}`, this.onModel);
    model.on("change:_links", this.onLinks);
    this.join();
  }

  /** Change the value from this visualizer: its listeners, the linked ones and Python hear of it. */
  set(value) {
    if (!this.takes(value)) return;
    outbox(this.model).put(this.name, this.value);
    this.tell(value, "here");
  }

  /** fn(value, origin) is called on every change; origin is "here", "link" or "python". Returns a function that stops it. */
  subscribe(fn) {
    this.listeners.add(fn);
    return () => this.listeners.delete(fn);
  }

  fromLink({ detail: { from, value } }) {
    if (from === this) return;
    this.movedByLink = performance.now();
    if (this.takes(value)) this.notify("link");
  }

  fromModel() {
    if (outbox(this.model).holds(this.name) || performance.now() - this.movedByLink < ECHO_MS) return;
    if (this.takes(this.model.get(this.name))) this.tell(this.value, "python");
  }

  /** Take a value over, and return whether it is another one. */
  takes(value) {
    const before = this.value;
    this.value = this.clean(value);
    return !same(this.value, before);
  }

  notify(origin) { for (const fn of [...this.listeners]) fn(this.value, origin); }

  tell(value, origin) {
    this.notify(origin);
    for (const key of this.joined) links().dispatchEvent(new CustomEvent(key, { detail: { from: this, value } }));
  }

  /** Follow the links that the model names now, and those before no more. */
  join() {
    this.leaving?.abort();
    this.leaving = new AbortController();
    const own = (this.model.get("_links") ?? []).filter(([name]) => name === this.name);
    // Two visualizers may tie traits of different names: the third part says under which name they meet.
    this.joined = own.map(([name, id, shared = name]) => `${shared}/${id}`);
    for (const key of this.joined) links().addEventListener(key, (event) => this.fromLink(event), { signal: this.leaving.signal });
  }

  destroy() {
    this.leaving.abort();
    this.listeners.clear();
    this.model.off(`change:${this.name}`, this.onModel);
    this.model.off("change:_links", this.onLinks);
    outbox(this.model).send.flush();
  }
}
