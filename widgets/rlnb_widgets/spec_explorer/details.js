// The pane below the tree: everything about the selected entry, its domain drawn large, and the box to try a value.

import { button, copier, h, surface, uniqueId } from "../_core/core.js";
import { keyCode, label, shownKeys } from "../_core/tree.js";
import { shapeOf } from "../_core/treeview.js";
import { columnOf } from "./row.js";

const PICKABLE = 24; // numbers that a click may set at once
const WAIT = 250; // after the last key
const PATIENCE = 5000;

/** Make the pane; drawnOf(row) are the samples of a row. Returns { el, show(row), drawn(), copy(), focus(), destroy() }, drawn() after others came. */
export function detailsPane(model, pictures, drawnOf) {
  const [title, facts, more] = ["rlnb-title", "rlnb-blocks spec-facts", "rlnb-note spec-more"].map((name) => h("div", { class: name }));
  const picture = h("div", { class: "spec-large", role: "group" });
  const status = h("div", { class: "rlnb-status rlnb-note", role: "status", "aria-live": "polite" });
  let current = null;
  let dots = null;
  let charts = []; // of each lane
  const ask = askBox(model, (found) => { dots = found; charts.forEach((chart) => chart.invalidate()); });
  const left = h("div", { class: "spec-block" }, picture, more);
  const el = h("div", { class: "rlnb-details", role: "region", "aria-label": "the selected entry" },
    h("div", { class: "spec-top" }, title, status), facts, h("div", { class: "rlnb-blocks spec-blocks" }, left, ask.el));
  const copy = copier(status);

  const canPick = () => {
    const size = current.dims.reduce((all, [, n]) => all * Math.max(n, 0), 1);
    return ask.ready && current.large && !current.more && size > 0 && size <= PICKABLE;
  };
  // Which elements a lane is about, and what they may be.
  const nameOf = ([elements, text]) => h("div", { class: "spec-lane-name" }, h("span", { class: "rlnb-note" }, elements), h("span", {}, text));
  const chartOf = (list, lane) => {
    const [low, high] = current.views?.[lane] ?? [];
    const chart = surface(list, (name) => columnOf(lane, drawnOf(current), dots)(name), { params: () => ({ low, high }) });
    chart.el.addEventListener("click", (event) => {
      const hit = canPick() ? chart.at(event) : null;
      if (hit) ask.click(lane, hit.value);
    });
    return chart;
  };
  const draw = () => {
    charts.forEach((chart) => chart.destroy());
    charts = (current.large ?? []).map((number, lane) => chartOf(pictures[number], lane));
    picture.hidden = !charts.length;
    picture.classList.toggle("spec-pickable", Boolean(canPick()));
    picture.setAttribute("aria-label", `the domain of ${label(current)}: ${current.domain}`);
    picture.replaceChildren(...charts.flatMap(({ el: drawn }, lane) => (current.names ? [nameOf(current.names[lane]), drawn] : [drawn])));
  };

  const describe = () => {
    const samples = drawnOf(current);
    const notes = [
      current.more && `+${current.more} more`, samples?.n && `bars: ${samples.n} draws of rand(), not data`, samples?.note, canPick() && "click to pick",
    ].filter(Boolean);
    more.textContent = notes.join(" · ");
    left.hidden = !charts.length && notes.length === 0;
  };
  const show = (row) => {
    current = row;
    dots = null;
    status.replaceChildren();
    el.hidden = !row;
    if (!row) return;
    title.replaceChildren(h("strong", {}, shownKeys(row).at(-1) ?? row.name), ` ${row.words}`);
    facts.replaceChildren(...factsOf(row, copy));
    ask.show(row);
    draw();
    describe();
  };

  return {
    el,
    show,
    drawn() { if (current) { describe(); charts.forEach((chart) => chart.invalidate()); } },
    copy: () => current && copy(current.code),
    focus: () => ask.focus(),
    destroy() { charts.forEach((chart) => chart.destroy()); ask.destroy(); },
  };
}

function factsOf(row, copy) {
  const whole = (...about) => { const made = fact(...about); made.classList.add("spec-whole"); return made; };
  const found = row.diff ? [h("ul", { class: "rlnb-findings" }, ...row.diff.map(([, text]) => h("li", {}, text)))] : [];
  if (!row.elsewhere) {
    found.push(whole("code", h("code", { class: "rlnb-code", "data-code": "" }, row.code),
      button({ text: "copy", label: "copy the code", title: "copy the code (c)", onclick: () => copy(row.code) }),
      row.path.length ? button({ text: "copy key", label: "copy the key", onclick: () => copy(keyCode(row.path)) }) : null));
  }
  found.push(fact("spec", row.kind, row.dtype ? ` · ${row.dtype} ` : " · shape ", shapeOf(row.dims), row.device ? ` · ${row.device}` : ""));
  found.push(fact("domain", row.brief ?? row.domain));
  if (row.note) found.push(whole("repr", row.note));
  const space = row.space === undefined ? ["none: ", row.why] : [h("code", { class: "rlnb-code spec-long", title: row.space }, row.space)];
  return [...found, whole("gymnasium", ...space)];
}

/** Whether there is a kernel behind this page; a page written by to_html has none. */
export const hasKernel = (model) => Boolean(model.widget_manager);

/** A line with a name and what is known of it. */
const fact = (name, ...content) => h("div", { class: "spec-fact" }, h("span", { class: "rlnb-note" }, name), h("div", { class: "rlnb-what" }, ...content));

/** A part of a line: code, or text of a kind. */
const partOf = ([kind, text, title = null]) => h(kind === "code" ? "code" : "div", { class: kind === "code" ? "rlnb-code" : `spec-${kind}`, title }, text);

/** Make the box. onDots(dots or null) is told where the value lies. Returns { el, ready, show(row), click(lane, place), focus(), destroy() }. */
function askBox(model, onDots) {
  const id = uniqueId("ask");
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
