// The pane below the tree: everything about the selected entry, its domain drawn large, and the box to try a value.

import { button, h } from "../_core/core.js";
import { copier } from "../_core/copy.js";
import { shapeOf } from "../_core/shape.js";
import { keyCode, label, printable } from "../_core/tree.js";
import { askBox } from "./ask.js";
import { valueAt, withPicked } from "./lanes.js";
import { drawLarge, laneHeight, largeBoxes } from "./picture.js";

const SHORT = new Set(["spec", "domain"]); // facts that stand beside one another
const PICKABLE = 24; // numbers that a click may set at once

/** Make the pane. Returns { el, show(row, samples), paint(), copy(), focus(), destroy() }. */
export function detailsPane(model, color, seed) {
  const title = h("div", { class: "rlnb-title" });
  const facts = h("div", { class: "spec-facts" });
  const canvas = h("canvas", { class: "spec-large", "aria-hidden": "true" });
  const more = h("div", { class: "rlnb-quiet spec-more" });
  const names = h("div", { class: "spec-names" });
  const picture = h("div", { class: "spec-picture" }, names, h("div", { class: "spec-drawing" }, canvas));
  const status = h("div", { class: "rlnb-status", role: "status", "aria-live": "polite" });
  let current = null;
  let samples = null;
  let dots = null;
  const ask = askBox(model, (found) => { dots = found; paint(); });
  const left = h("div", { class: "spec-block" }, picture, more);
  const el = h("div", { class: "rlnb-details", role: "region", "aria-label": "the selected entry" },
    h("div", { class: "spec-top" }, title, status), facts, h("div", { class: "spec-blocks" }, left, ask.el));
  const copy = copier(status);

  const shape = () => current.dims.map(([, size]) => size);
  const canPick = () => ask.ready && Boolean(current?.lanes) && !current.more && shape().every((n) => n > 0) && shape().reduce((a, b) => a * b, 1) <= PICKABLE;
  const paint = () => {
    if (current?.lanes && canvas.clientWidth) drawLarge(canvas, current.lanes, samples, dots, color());
  };
  canvas.addEventListener("click", (event) => {
    if (!canPick()) return;
    const bounds = canvas.getBoundingClientRect();
    const i = Math.min(Math.floor((event.clientY - bounds.top) / laneHeight(current.lanes.length)), current.lanes.length - 1);
    const lane = current.lanes[i];
    const found = valueAt(lane, event.clientX - bounds.left, largeBoxes(current.lanes, canvas.clientWidth)[i]);
    if (found !== null) ask.type(withPicked(ask.text(), shape(), current.lanes, lane, found));
  });
  const resize = new ResizeObserver(paint);
  resize.observe(picture);

  const show = (row, drawn) => {
    current = row;
    samples = drawn;
    dots = null;
    status.replaceChildren();
    el.hidden = !row;
    if (!row) return;
    title.replaceChildren(h("strong", {}, label(row)), ` ${printable(row.words)}`);
    facts.replaceChildren(...factsOf(row, copy));
    const lanes = row.lanes ?? [];
    const tall = `${laneHeight(lanes.length)}px`;
    picture.hidden = lanes.length === 0;
    canvas.style.height = `calc(${lanes.length} * ${tall})`;
    names.replaceChildren(...lanes.filter((lane) => lane.label).map((lane) => nameOf(lane, tall)));
    names.hidden = names.childElementCount === 0;
    ask.show(row);
    canvas.classList.toggle("spec-pickable", canPick());
    describe();
    paint();
  };
  const describe = () => {
    const notes = [];
    if (current.more) notes.push(`+${current.more} more`);
    if (samples?.n) notes.push(`bars: random samples, not data of an environment: rand((${samples.n},)) after torch.manual_seed(${seed()})`);
    if (samples?.note) notes.push(samples.note);
    if (canPick()) notes.push("click to pick");
    more.textContent = notes.join(" · ");
    more.hidden = notes.length === 0;
    left.hidden = picture.hidden && more.hidden;
  };

  return {
    el,
    show,
    paint,
    drawn(next) { samples = next; if (current) { describe(); paint(); } },
    copy: () => current && copy(current.code),
    focus: () => ask.focus(),
    destroy() { resize.disconnect(); ask.destroy(); },
  };
}

/** Which elements a lane is about, and what they may be. */
function nameOf(lane, tall) {
  const name = h("div", { class: "spec-lane-name" }, h("span", { class: "rlnb-quiet" }, lane.label), h("span", {}, lane.text));
  name.style.height = tall;
  return name;
}

function factsOf(row, copy) {
  const fact = (what, ...content) => h("div", { class: SHORT.has(what) ? "spec-fact" : "spec-fact spec-whole" }, h("span", { class: "rlnb-quiet" }, what), h("div", { class: "rlnb-what" }, ...content));
  const found = [];
  if (row.diff) found.push(h("ul", { class: "rlnb-findings" }, ...row.diff.map((d) => h("li", {}, d.text))));
  if (!row.elsewhere) {
    const { code } = row;
    const buttons = [button({ text: "copy", label: "copy the code", title: "copy the code (c)", onclick: () => copy(code) })];
    if (row.path.length) buttons.push(button({ text: "copy key", label: "copy the key", onclick: () => copy(keyCode(row.path)) }));
    found.push(fact("code", h("code", { class: "rlnb-code", "data-code": "" }, code), ...buttons));
  }
  found.push(fact("spec", row.kind, row.dtype ? ` · ${row.dtype} ` : " · shape ", shapeOf(row.dims), row.device ? ` · ${row.device}` : ""));
  found.push(fact("domain", printable(row.brief ?? row.domain)));
  if (row.note) found.push(fact("repr", printable(row.note)));
  found.push(row.space === undefined ? fact("gymnasium", "none: ", row.why) : fact("gymnasium", h("code", { class: "rlnb-code spec-long", title: row.space }, printable(row.space))));
  return found;
}
