// Try a value: typed or picked, answered by Python.

import { button, h } from "../_core/core.js";

const WAIT = 250; // after the last key
const PATIENCE = 5000;

let made = 0;

/** Whether there is a kernel behind this page; a page written by to_html has none. */
export const hasKernel = (model) => Boolean(model.widget_manager);

/** A line with a name and what is known of it. */
export const fact = (name, ...content) => h("div", { class: "spec-fact" }, h("span", { class: "rlnb-quiet" }, name), h("div", { class: "rlnb-what" }, ...content));

/** A part of a line: code, or text of a kind. */
const partOf = ([kind, text, title = null]) => h(kind === "code" ? "code" : "div", { class: kind === "code" ? "rlnb-code" : `spec-${kind}`, title }, text);

/** Make the box. onDots(dots or null) is told where the value lies. Returns { el, ready, show(row), click(lane, place), focus(), destroy() }. */
export function askBox(model, onDots) {
  const id = `ask-${(made += 1)}-${Math.random().toString(36).slice(2, 8)}`;
  const kernel = hasKernel(model);
  const field = h("input", {
    type: "text", class: "rlnb-field spec-typed", spellcheck: "false", autocomplete: "off", "aria-label": "a value to try",
    placeholder: "a value, such as [0.5, 2.0]",
  });
  const picks = h("div", { class: "spec-picks", role: "group", "aria-label": "values to pick" });
  const out = h("div", { role: "status", "aria-live": "polite" });
  const note = h("p", { class: "rlnb-note" }, "To try a value, a Python kernel is needed: run the notebook, or call try_value in code.");
  const el = h("div", { class: "spec-ask" }, h("strong", {}, "Try a value"), ...(kernel ? [field, picks] : [note]), out);
  let row = null;
  let asked = 0;
  let timer = 0; // until what is typed is sent, and then until one should know that no answer came
  const kept = new Map();

  /** Wait for nothing any more: an answer on its way is for what is gone. */
  const forget = () => { clearTimeout(timer); asked += 1; };
  const tell = (verdict, dots, ...words) => {
    out.replaceChildren(...words);
    if (verdict === null) el.removeAttribute("data-in");
    else el.setAttribute("data-in", verdict);
    onDots(dots);
  };
  const send = (question) => {
    forget();
    el.setAttribute("data-asked", asked);
    model.send({ ask: `${id}:${asked}`, path: row.path, ...question });
    timer = setTimeout(() => out.replaceChildren(h("p", { class: "rlnb-note" }, "No answer yet: the kernel is busy, or gone.")), PATIENCE);
  };
  const typed = (at = WAIT) => {
    forget();
    kept.set(row, field.value);
    if (field.value.trim()) timer = setTimeout(() => send({ text: field.value }), at);
    else tell(null, null);
  };

  const onMessage = (message) => {
    if (message?.answer !== `${id}:${asked}`) return;
    clearTimeout(timer);
    if (message.error !== undefined) return tell("error", null, h("p", { class: "spec-error" }, message.error));
    if (document.activeElement !== field) field.value = message.text;
    kept.set(row, field.value);
    tell(message.in, message.dots, ...message.lines.map(([name, ...parts]) => fact(name, ...parts.map(partOf))));
  };
  model.on("msg:custom", onMessage);
  field.addEventListener("input", () => typed());
  field.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.key !== "Enter" && !(event.key === "Escape" && field.value)) return;
    event.preventDefault();
    if (event.key === "Escape") field.value = "";
    typed(0);
  });

  return {
    el,
    get ready() { return kernel && row !== null && !row.elsewhere; },
    click: (lane, place) => send({ text: field.value, click: [lane, place] }),
    focus: () => field.focus(),
    show(next) {
      forget();
      row = next;
      tell(null, null);
      el.hidden = !row || Boolean(row.elsewhere) || row.kind === "None";
      if (el.hidden || !kernel) return;
      picks.replaceChildren(...row.picks.map((pick) => button({ text: pick, label: `try: ${pick}`, title: `try: ${pick}`, onclick: () => send({ pick }) })));
      field.value = kept.get(row) ?? "";
      if (field.value) typed(0);
    },
    destroy() { clearTimeout(timer); model.off("msg:custom", onMessage); },
  };
}
