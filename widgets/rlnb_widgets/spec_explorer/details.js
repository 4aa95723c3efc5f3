// The pane below the tree: everything about the selected entry, its domain drawn large, and the box to try a value.

import { button, h, surface } from "../_core/core.js";
import { copier } from "../_core/copy.js";
import { shapeOf } from "../_core/shape.js";
import { keyCode, label, printable } from "../_core/tree.js";
import { askBox, fact } from "./ask.js";
import { columnOf } from "./row.js";

const PICKABLE = 24; // numbers that a click may set at once

/** Make the pane; drawnOf(row) are the samples of a row. Returns { el, show(row), drawn(), copy(), focus(), destroy() }, drawn() after others came. */
export function detailsPane(model, pictures, drawnOf) {
  const [title, facts, more, picture] = ["rlnb-title", "rlnb-blocks spec-facts", "rlnb-quiet spec-more", "spec-picture"].map((name) => h("div", { class: name }));
  const status = h("div", { class: "rlnb-status", role: "status", "aria-live": "polite" });
  let current = null;
  let dots = null;
  let chart = null;
  const ask = askBox(model, (found) => { dots = found; chart?.invalidate(); });
  const left = h("div", { class: "spec-block" }, picture, more);
  const el = h("div", { class: "rlnb-details", role: "region", "aria-label": "the selected entry" },
    h("div", { class: "spec-top" }, title, status), facts, h("div", { class: "rlnb-blocks spec-blocks" }, left, ask.el));
  const copy = copier(status);

  const canPick = () => {
    const size = current.dims.reduce((all, [, n]) => all * Math.max(n, 0), 1);
    return ask.ready && current.picture !== undefined && !current.more && size > 0 && size <= PICKABLE;
  };
  const draw = () => {
    chart?.destroy();
    chart = null;
    picture.replaceChildren();
    if (current.picture === undefined) return;
    const { params, names } = current;
    const list = pictures[current.picture].large;
    chart = surface(list, (name) => columnOf(drawnOf(current), dots)(name), {
      params: () => params, class: `spec-large${canPick() ? " spec-pickable" : ""}`, "aria-label": `the domain of ${label(current)}: ${printable(current.domain)}`,
    });
    chart.el.addEventListener("click", (event) => {
      const hit = canPick() ? chart.at(event) : null;
      if (hit) ask.click(Number(hit.name.slice(4)), hit.value);
    });
    // Which elements a lane is about, and what they may be.
    const nameOf = ([elements, text]) => h("div", { class: "spec-lane-name", style: `height:${list.height / names.length}px` }, h("span", { class: "rlnb-quiet" }, elements), h("span", {}, text));
    picture.append(...(names.length ? [h("div", { class: "spec-names" }, ...names.map(nameOf))] : []), chart.el);
  };

  const describe = () => {
    const samples = drawnOf(current);
    const notes = [
      current.more && `+${current.more} more`, samples?.n && `bars: ${samples.n} draws of rand(), not data`, samples?.note, canPick() && "click to pick",
    ].filter(Boolean);
    more.textContent = notes.join(" · ");
    left.hidden = !chart && notes.length === 0;
  };
  const show = (row) => {
    current = row;
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

  return {
    el,
    show,
    drawn() { if (current) { describe(); chart?.invalidate(); } },
    copy: () => current && copy(current.code),
    focus: () => ask.focus(),
    destroy() { chart?.destroy(); ask.destroy(); },
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
  found.push(fact("domain", printable(row.brief ?? row.domain)));
  if (row.note) found.push(whole("repr", printable(row.note)));
  const space = row.space === undefined ? ["none: ", row.why] : [h("code", { class: "rlnb-code spec-long", title: row.space }, printable(row.space))];
  return [...found, whole("gymnasium", ...space)];
}
