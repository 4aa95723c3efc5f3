// Try a value: typed or picked, answered by Python.

import { button, h } from "../_core/core.js";
import { answerBlock } from "./answer.js";

const WAIT = 250; // after the last key
const PATIENCE = 5000;

let made = 0;

/** Whether there is a kernel behind this page; a page written by to_html has none. */
export function hasKernel(model) {
  return Boolean(model.widget_manager);
}

/** Make the box. onDots(dots or null) is told where the value lies. Returns { el, show(row), click(lane, place), destroy }. */
export function askBox(model, onDots) {
  const id = `ask-${(made += 1)}-${Math.random().toString(36).slice(2, 8)}`;
  const kernel = hasKernel(model);
  const field = h("input", {
    type: "text", class: "rlnb-field spec-typed", spellcheck: "false", autocomplete: "off", "aria-label": "a value to try",
    placeholder: "a value, such as [0.5, 2.0]", disabled: !kernel,
  });
  const picks = h("div", { class: "spec-picks", role: "group", "aria-label": "values to pick" });
  const out = h("div", { role: "status", "aria-live": "polite" });
  const note = h("p", { class: "rlnb-note" }, "To try a value, a Python kernel is needed: run the notebook, or call try_value in code.");
  const head = h("div", { class: "spec-heading" }, "Try a value");
  const el = h("div", { class: "spec-ask" }, head, kernel ? field : note, kernel ? picks : null, out);
  let row = null;
  let asked = 0;
  let timer = 0;
  let patience = 0;
  const kept = new Map();

  const send = (question) => {
    clearTimeout(timer);
    clearTimeout(patience);
    asked += 1;
    el.setAttribute("data-asked", asked);
    model.send({ ask: `${id}:${asked}`, path: row.path, ...question });
    patience = setTimeout(() => out.replaceChildren(h("p", { class: "rlnb-note" }, "No answer yet: the kernel is busy, or gone.")), PATIENCE);
  };
  const typed = (at = WAIT) => {
    clearTimeout(timer);
    kept.set(row, field.value);
    if (field.value.trim() === "") {
      asked += 1; // an answer on its way is for what is gone
      clearTimeout(patience);
      clear();
      return;
    }
    timer = setTimeout(() => send({ text: field.value }), at);
  };
  const clear = () => { out.replaceChildren(); el.removeAttribute("data-in"); onDots(null); };

  const onMessage = (message) => {
    if (message?.answer !== `${id}:${asked}`) return;
    clearTimeout(patience);
    if (message.error !== undefined) {
      out.replaceChildren(h("p", { class: "spec-error" }, message.error));
      el.setAttribute("data-in", "error");
      onDots(null);
      return;
    }
    if (field.value !== message.text && document.activeElement !== field) field.value = message.text;
    kept.set(row, field.value);
    out.replaceChildren(answerBlock(message));
    el.setAttribute("data-in", String(message.in));
    onDots(message.dots);
  };
  model.on("msg:custom", onMessage);
  field.addEventListener("input", () => typed());
  field.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.key === "Enter") { event.preventDefault(); typed(0); }
    if (event.key === "Escape" && field.value) { event.preventDefault(); field.value = ""; typed(0); }
  });

  return {
    el,
    get ready() { return kernel && row !== null && !row.elsewhere; },
    click: (lane, place) => send({ text: field.value, click: [lane, place] }),
    focus: () => field.focus(),
    show(next) {
      clearTimeout(timer);
      clearTimeout(patience);
      asked += 1;
      row = next;
      clear();
      el.hidden = !row || Boolean(row.elsewhere) || row.kind === "None";
      if (el.hidden || !kernel) return;
      picks.replaceChildren(...row.picks.map((pick) => button({ text: pick, label: `try: ${pick}`, title: `try: ${pick}`, onclick: () => send({ pick }) })));
      field.value = kept.get(row) ?? "";
      if (field.value) typed(0);
    },
    destroy() { clearTimeout(timer); clearTimeout(patience); model.off("msg:custom", onMessage); },
  };
}
