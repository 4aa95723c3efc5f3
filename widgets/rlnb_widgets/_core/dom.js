// Small builders for the page: elements, buttons, icons, the keyboard, and the box that says what went wrong.

// Paths on a 16 x 16 grid.
const ICONS = {
  play: "M5 3l8 5-8 5z",
  pause: "M4 3h3v10H4zM9 3h3v10H9z",
  first: "M3 3h2v10H3zM13 3v10L6 8z",
  last: "M11 3h2v10h-2zM3 3l7 5-7 5z",
  back: "M11 3v10L4 8z",
  forward: "M5 3l7 5-7 5z",
  back10: "M8 3v10L2 8zM14 3v10L8 8z",
  forward10: "M2 3l6 5-6 5zM8 3l6 5-6 5z",
  loop: "M4 4h6V2l4 3-4 3V6H4v3H2V6a2 2 0 012-2zm8 8H6v2l-4-3 4-3v2h6V7h2v3a2 2 0 01-2 2z",
  previous: "M10.5 3.5L6 8l4.5 4.5-1.5 1.5-6-6 6-6z",
  whole: "M2 2h5v2H4v3H2zM9 2h5v5h-2V4H9zM2 9h2v3h3v2H2zM12 9h2v5H9v-2h3z",
  part: "M5 2h2v5H2V5h3zM9 2h2v3h3v2H9zM2 9h5v5H5v-3H2zM9 9h5v2h-3v3H9z",
  next: "M5.5 3.5L10 8l-4.5 4.5 1.5 1.5 6-6-6-6z",
};

/** Make an element: h("div", { class: "x", onclick: fn }, child, "text"). Strings become text, never markup. */
export const h = (tag, attributes, ...children) => made(document.createElement(tag), attributes, children);

/** Make an element of another language, such as SVG, by its name space. */
export const hIn = (space, tag, attributes, ...children) => made(document.createElementNS(space, tag), attributes, children);

function made(element, attributes = {}, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** An id that no other place has: a notebook is one page, and each of its widgets has these modules for itself. */
export const uniqueId = (name) => `rlnb-${name}-${Math.random().toString(36).slice(2)}`;

/** One of the named icons, in the colour of the text around it. */
export function icon(name) {
  const space = "http://www.w3.org/2000/svg";
  return hIn(space, "svg", { viewBox: "0 0 16 16", "aria-hidden": "true", class: "rlnb-icon" }, hIn(space, "path", { d: ICONS[name] }));
}

/**
 * A button; `label` is its name for screen readers, `title` may add the key. A solid one is what starts
 * something; `class` is one of the visualizer's own.
 */
export function button({ icon: name = null, text = null, label = text, title = label, solid = false, class: own = "", ...attributes }) {
  const classes = `rlnb-button${solid ? " rlnb-solid" : ""}${name ? "" : " rlnb-worded"}${own && ` ${own}`}`;
  return h("button", { type: "button", class: classes, "aria-label": label, title, ...attributes }, name ? icon(name) : null, text);
}

const SIGNS = { " ": "space", ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓", PageUp: "Page Up", PageDown: "Page Down" };

/** How a key is written. */
export const signOf = (key) => SIGNS[key] ?? key;

/** A button that has a key: `keys`, which go to `keyboard`, get it. The list of keys calls it `label`. */
export function keyButton(keys, key, { title, ...shown }) {
  keys[key] = [shown.label, shown.onclick];
  return button({ ...shown, title: `${title ?? shown.label} (${signOf(key)})` });
}

/** A drop-down list of [value, text] pairs. */
export function select({ options, value, label, onchange }) {
  const list = h("select", { class: "rlnb-select", "aria-label": label, title: label });
  for (const [key, shown] of options) list.append(h("option", { value: key }, shown));
  list.value = String(value);
  list.addEventListener("change", () => onchange(list.value));
  return list;
}

/** A button that is on or off; flip(on) hears of it. `set(on)` shows the state without a call. */
export function toggle(text, title, on, flip) {
  const turn = () => {
    const now = made.getAttribute("aria-pressed") !== "true";
    made.set(now);
    flip(now);
  };
  const made = button({ text, label: text, title, onclick: turn });
  made.set = (now) => made.setAttribute("aria-pressed", String(now));
  made.set(on);
  return made;
}

/** A model in words, a paragraph for each part. */
export const inWords = (parts) => h("details", { class: "rlnb-inwords" }, h("summary", {}, "In words"), ...parts.map((part) => h("p", {}, part)));

/** Log what went wrong, and return what is shown in place of a crash. */
export function errorBox(error) {
  console.error(error);
  return h("div", { class: "rlnb-error", role: "alert" }, h("strong", {}, "This cannot be drawn."), " ", error.message ?? String(error));
}

/** Call a part's update; where it fails, say so in its place and leave the others alone. */
export function guarded(part, ...values) {
  if (part.failed) return;
  try {
    part.update(...values);
  } catch (error) {
    part.failed = true;
    part.el.replaceChildren(errorBox(error));
  }
}

/** Let pick(event) choose while the main button is pressed on `el`; where it returns false on the press, nothing is dragged. */
export function drag(el, pick) {
  el.addEventListener("pointerdown", (event) => { if (event.button === 0 && pick(event) !== false) el.setPointerCapture(event.pointerId); });
  el.addEventListener("pointermove", (event) => { if (el.hasPointerCapture(event.pointerId)) pick(event); });
}

/** Say where an element with the role of a slider stands. */
export function tellSlider(el, last, now, words) {
  for (const [name, value] of Object.entries({ valuemin: 0, valuemax: last, valuenow: now, valuetext: words })) el.setAttribute(`aria-${name}`, value);
}

/** Pairs of name and text, one below the other. */
export const factList = (pairs) => pairs.flatMap(([name, text]) => [h("dt", {}, name), h("dd", { "data-fact": name }, text)]);

/** A legend, a list of [mark, meaning] pairs: a mark is the role of a box, an SVG of Python's, or empty for a heading. */
export const legend = (items, name = "legend") => h("ul", { class: "rlnb-key", "aria-label": name }, ...items.map(([mark, words]) => {
  if (!mark) return h("li", {}, h("b", {}, words));
  const item = h("li", {}, h("span", { class: "rlnb-swatch", style: `background:var(--rlnb-${mark})`, "aria-hidden": "true" }), words);
  if (mark.startsWith("<svg")) item.firstChild.outerHTML = mark; // made of roles and numbers, with escaped texts
  return item;
}));

/** The notes below a visualizer; tell(notes) shows others. */
export function noteList(notes = []) {
  const el = h("ul", { class: "rlnb-note rlnb-notes" });
  const tell = (all) => { el.replaceChildren(...all.map((note) => h("li", {}, note))); el.hidden = !all.length; };
  tell(notes);
  return { el, tell };
}

/** Make a function that copies a text and says so in `status`; a field to copy from is where the page may not write to the clipboard. */
export function copier(status) {
  return async (text) => {
    try {
      await navigator.clipboard.writeText(text);
      status.replaceChildren("copied ", h("code", {}, text));
    } catch {
      const field = h("input", { class: "rlnb-field rlnb-copy", readonly: true, value: text, "aria-label": "press Ctrl+C to copy" });
      status.replaceChildren(field, " press Ctrl+C to copy");
      field.focus();
      field.select();
    }
  };
}

const FOCUSABLE = "a[href], button, input, label, select, summary, textarea, [tabindex]";
const TYPED = "textarea, input:not([type=number], [type=range], [type=checkbox])"; // where "?" is a letter

/** Whether the focus must stay after a click on `target`: it lies in something that takes it, or text is being selected. */
export function keepsFocus(root, target) {
  const own = target.closest(FOCUSABLE);
  return (own !== null && own !== root && root.contains(own)) || root.ownerDocument.getSelection()?.isCollapsed === false;
}

const usable = (element) => element.isConnected && !element.disabled && element.tabIndex >= 0 && element.checkVisibility();

/** Give the focus to `root` where a press lands on nothing that takes it, and where what has it is disabled, hidden or removed. */
export function holdFocus(root) {
  root.tabIndex = -1;
  root.addEventListener("focusout", ({ target, relatedTarget }) => {
    if (relatedTarget) return;
    requestAnimationFrame(() => {
      const { activeElement, body } = root.ownerDocument;
      if (activeElement !== body || usable(target)) return;
      root.focus({ preventScroll: true });
    });
  });
}

// What the keys of an element do, for the help of its visualizer.
const told = new WeakMap();

const PLACES = { tablist: "in the tabs", tree: "in the rows" };
// The keys that play and move, as the help lists them before all others.
const FIRST = [" ", "ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "PageUp", "PageDown", "Home", "End", "Enter", "Backspace"];
const rank = ([key]) => (FIRST.includes(key) ? FIRST.indexOf(key) : FIRST.length);

/**
 * The keys of a visualizer: a Map of where they work, empty for everywhere in it, to a Map of what they do to a list of
 * keys. What a key does everywhere is not listed again for one place. Those that play and move come first.
 */
export function keysOf(root) {
  const found = new Map();
  for (const element of [root, ...root.querySelectorAll("[data-lm-suppress-shortcuts]")]) {
    const place = element === root ? "" : PLACES[element.getAttribute("role")] ?? element.getAttribute("aria-label") ?? "";
    for (const [key, words, when] of (told.get(element) ?? []).toSorted((a, b) => rank(a) - rank(b))) {
      if (when && !when()) continue;
      if (place && found.get("")?.get(words)?.includes(key)) continue;
      if (!found.has(place)) found.set(place, new Map());
      const keys = found.get(place);
      keys.set(words, [...new Set([...(keys.get(words) ?? []), key])]);
    }
  }
  return found;
}

/**
 * Let `root` take keys: actions maps KeyboardEvent.key to [what it does in words, function, whether it does so now].
 *
 * JupyterLab listens for single letters and arrows too; it leaves them alone only where the focused element itself
 * carries the attribute, so it is put on whatever inside `root` takes the focus. Keys not listed stay the page's.
 * A press on what takes no focus itself, a picture or a margin, focuses `home`.
 */
export function keyboard(root, actions, home = null) {
  const mark = (event) => event.target.setAttribute("data-lm-suppress-shortcuts", "true");
  root.setAttribute("data-lm-suppress-shortcuts", "true");
  told.set(root, [...(told.get(root) ?? []), ...Object.entries(actions).map(([key, [words, , when]]) => [key, words, when])]);
  root.addEventListener("focusin", mark);
  // On click, which comes last: JupyterLab moves the focus when the button goes down and when it comes up.
  if (home) root.addEventListener("click", (event) => { if (!keepsFocus(root, event.target)) home.focus({ preventScroll: true }); });
  root.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.matches(event.key === "?" ? TYPED : "select, input, textarea")) return;
    if (event.target.matches("button, summary") && (event.key === " " || event.key === "Enter")) return;
    const action = actions[event.key];
    if (!action || action[2]?.() === false) return;
    event.preventDefault();
    event.stopPropagation();
    action[1](event);
  });
}
