// The pane below the tree: everything about the selected entry, its domain drawn large, and the box to try a value.

import { button, h, surface } from "../_core/core.js";
import { copier } from "../_core/copy.js";
import { shapeOf } from "../_core/shape.js";
import { keyCode, label, printable } from "../_core/tree.js";
import { fact } from "./answer.js";
import { askBox } from "./ask.js";
import { columnsOf, paramsOf } from "./lanes.js";

const PICKABLE = 24; // numbers that a click may set at once

/** Make the pane. Returns { el, show(row, samples), drawn(samples), copy(), focus(), destroy() }. */
export function detailsPane(model, pictures) {
  const title = h("div", { class: "rlnb-title" });
  const facts = h("div", { class: "spec-facts" });
  const more = h("div", { class: "rlnb-quiet spec-more" });
  const names = h("div", { class: "spec-names" });
  const picture = h("div", { class: "spec-picture" });
  const status = h("div", { class: "rlnb-status", role: "status", "aria-live": "polite" });
  let current = null;
  let samples = null;
  let dots = null;
  let chart = null;
  const ask = askBox(model, (found) => { dots = found; chart?.invalidate(); });
  const left = h("div", { class: "spec-block" }, picture, more);
  const el = h("div", { class: "rlnb-details", role: "region", "aria-label": "the selected entry" },
    h("div", { class: "spec-top" }, title, status), facts, h("div", { class: "spec-blocks" }, left, ask.el));
  const copy = copier(status);

  const size = () => current.dims.reduce((all, [, n]) => all * Math.max(n, 0), 1);
  const canPick = () => ask.ready && Boolean(current?.lanes) && !current.more && size() > 0 && size() <= PICKABLE;
  const draw = () => {
    chart?.destroy();
    chart = null;
    picture.replaceChildren();
    const { lanes } = current;
    if (!lanes) return;
    const list = pictures[current.picture].large;
    chart = surface(list, (name) => columnsOf(lanes, samples, dots)(name), {
      params: () => paramsOf(lanes), class: `spec-large${canPick() ? " spec-pickable" : ""}`, "aria-label": `the domain of ${label(current)}: ${printable(current.domain)}`,
    });
    chart.el.addEventListener("click", (event) => {
      const hit = canPick() ? chart.at(event) : null;
      if (hit) ask.click(Number(hit.name.slice(4)), hit.value);
    });
    const tall = `${list.height / lanes.length}px`;
    names.replaceChildren(...lanes.filter((lane) => lane.label).map((lane) => nameOf(lane, tall)));
    if (names.childElementCount) picture.append(names);
    picture.append(chart.el);
  };

  const show = (row, drawn) => {
    current = row;
    samples = drawn;
    dots = null;
    status.replaceChildren();
    el.hidden = !row;
    if (!row) return;
    title.replaceChildren(h("strong", {}, printable(row.path.at(-1) ?? row.name)), ` ${printable(row.words)}`);
    facts.replaceChildren(...factsOf(row, copy));
    ask.show(row);
    draw();
    describe();
  };
  const describe = () => {
    const notes = [];
    if (current.more) notes.push(`+${current.more} more`);
    if (samples?.n) notes.push(`bars: ${samples.n} draws of rand(), not data`);
    if (samples?.note) notes.push(samples.note);
    if (canPick()) notes.push("click to pick");
    more.textContent = notes.join(" · ");
    left.hidden = !chart && notes.length === 0;
  };

  return {
    el,
    show,
    drawn(next) { samples = next; if (current) { describe(); chart?.invalidate(); } },
    copy: () => current && copy(current.code),
    focus: () => ask.focus(),
    destroy() { chart?.destroy(); ask.destroy(); },
  };
}

/** Which elements a lane is about, and what they may be. */
function nameOf(lane, tall) {
  const name = h("div", { class: "spec-lane-name" }, h("span", { class: "rlnb-quiet" }, lane.label), h("span", {}, lane.text));
  name.style.height = tall;
  return name;
}

function factsOf(row, copy) {
  const found = [];
  const whole = (...about) => { found.push(fact(...about)); found.at(-1).classList.add("spec-whole"); };
  if (row.diff) found.push(h("ul", { class: "rlnb-findings" }, ...row.diff.map((d) => h("li", {}, d.text))));
  if (!row.elsewhere) {
    const { code } = row;
    const buttons = [button({ text: "copy", label: "copy the code", title: "copy the code (c)", onclick: () => copy(code) })];
    if (row.path.length) buttons.push(button({ text: "copy key", label: "copy the key", onclick: () => copy(keyCode(row.path)) }));
    whole("code", h("code", { class: "rlnb-code", "data-code": "" }, code), ...buttons);
  }
  found.push(fact("spec", row.kind, row.dtype ? ` · ${row.dtype} ` : " · shape ", shapeOf(row.dims), row.device ? ` · ${row.device}` : ""));
  found.push(fact("domain", printable(row.brief ?? row.domain)));
  if (row.note) whole("repr", printable(row.note));
  whole("gymnasium", ...(row.space === undefined ? ["none: ", row.why] : [h("code", { class: "rlnb-code spec-long", title: row.space }, printable(row.space))]));
  return found;
}
