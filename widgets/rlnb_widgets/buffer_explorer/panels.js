// The parts that are text: the components, the cell that is selected, the memory.

import { factList, h } from "../_core/core.js";
import { ageOf, cellOf, chipWords, filledIn, n, rowsOf, short, weight } from "./values.js";

const MOST_CHIPS = 24;

/** A long name with places where a line may end: before its capital letters. */
const breakable = (name) => name.split(/(?=[A-Z][a-z])/).flatMap((part) => [part, h("wbr")]);

/** Writer, storage, sampler and transform, in the order in which data passes through them. */
export function boxesPanel() {
  const list = h("div", { class: "be-boxes", role: "list", "aria-label": "the components of the buffer, in the order in which data passes through them" });
  const update = ({ boxes }) => list.replaceChildren(...boxes.flatMap(([role, name, settings]) => [
    h("span", { class: "be-arrow", "aria-hidden": "true" }, "→"),
    h("div", { class: "be-box", role: "listitem", "data-role": role },
      h("div", { class: "rlnb-note rlnb-small" }, role), h("div", { class: "be-name" }, ...breakable(name)),
      ...settings.map(([key, value]) => h("div", {}, h("span", { class: "rlnb-note" }, key), ` ${value}`))),
  ]).slice(1));
  return { el: h("section", { class: "be-panel" }, list), update };
}

/** What is known of an item, as [name, value] pairs. */
export function facts(m, row, column, beta) {
  if (row >= m.length) return [["holds", "nothing yet"]];
  const cell = cellOf(m, row);
  const [from, to] = rowsOf(m, cell);
  const at = column * m.cells + cell;
  const many = to - from > 1;
  const where = many ? ` (rows ${n(from)} to ${n(to - 1)})` : "";
  const age = ageOf(m, row);
  const found = [["age", age === null ? "not known" : age === 0 ? "the newest" : `${n(age)} written after it`]];
  if (m.ordered) {
    found.unshift(["written as", `row ${n(m.written - 1 - age)}, counted from the first`]);
    found.push(["in order of time", `${n((row - m.first + m.size) % m.size)} of ${n(m.length - 1)}`]);
  }
  for (const arc of m.arcs) {
    const step = (row - arc.start + m.size) % m.size;
    if (arc.column !== column || step >= arc.length) continue;
    const ends = `${arc.begun ? "" : ", its beginning may be gone"}${arc.ended ? "" : ", it goes on"}`;
    found.push(["trajectory", `${m.named ? `id ${arc.id}, ` : ""}step ${n(step)} of its ${n(arc.length)} here${ends}`]);
  }
  if (m.batches) found.push(["drawn", `${n(m.draws[at])}, ${m.expected.length ? `${short(m.expected[at])} expected` : "expected: not known"}${where}`]);
  if (m.priorities?.total > 0) {
    const p = m.priorities.sums[at] / Math.max(filledIn(m, cell), 1);
    found.push([many ? "priorities, mean" : "stored priority", `${short(p)}${where}`], ["drawn with probability", short(p / m.priorities.total)],
      [`weight at beta ${beta.toFixed(2)}`, short(weight(p, m.priorities.least, beta))]);
  }
  return found;
}

/** The selected cell, and the items of the last sample to choose from: { el, fields, update }; the fields go to the controls. */
export function cellPanel({ onRow, onColumn }) {
  const field = (name, onchange) => h("input", {
    type: "number", min: 0, step: 1, class: "rlnb-field be-number", "aria-label": `${name} that is selected`, onchange: (event) => onchange(Math.round(Number(event.target.value) || 0)),
  });
  const [number, column] = [field("row", onRow), field("column", onColumn)];
  const columnLabel = h("label", { class: "be-label" }, " column ", column);
  const fields = h("span", { class: "rlnb-group" }, h("label", { class: "be-label" }, "row ", number), columnLabel);
  const body = h("dl", { class: "rlnb-facts", "aria-live": "polite" });
  const chips = h("div", { class: "be-chips", role: "group", "aria-label": "items of the last sample" });
  const el = h("div", { class: "be-cell" }, body, chips);
  const chipOf = (m) => ([r, c], i) => {
    const [written, label] = chipWords(m, i);
    const onclick = () => { onRow(r); onColumn(c); };
    return h("button", { type: "button", class: "rlnb-button rlnb-small be-chip", "data-row": r, "data-column": c, "aria-label": label, onclick }, written);
  };
  const note = (words) => h("span", { class: "rlnb-note" }, words);
  let seen = null;
  const update = (m, row, col, beta) => {
    columnLabel.hidden = m.all === 1;
    for (const [input, size, value] of [[number, m.size, row], [column, m.columns, col]]) {
      input.max = String(size - 1);
      if (document.activeElement !== input) input.value = String(value);
    }
    body.replaceChildren(...factList(facts(m, row, col, beta)));
    if (seen !== m) {
      const shown = m.sampled.slice(0, MOST_CHIPS);
      const more = m.drawnCount - m.times.slice(0, shown.length).reduce((all, times) => all + times, 0);
      chips.replaceChildren(...(shown.length ? [note("this sample:")] : []), ...shown.map(chipOf(m)),
        ...(m.sampled.length > shown.length ? [note(`and ${n(more)} more`)] : []));
    }
    seen = m;
    for (const chip of chips.querySelectorAll(".be-chip")) {
      chip.setAttribute("aria-pressed", String(Number(chip.dataset.row) === row && Number(chip.dataset.column) === col));
    }
  };
  return { el, fields, update };
}

/** Memory by entry; chart() is the surface of its bars. */
export function memoryPanel({ chart }) {
  const [total, more] = [0, 1].map(() => h("p", { class: "rlnb-note rlnb-small" }));
  const el = h("section", { class: "be-panel", "data-part": "memory" }, total, chart().el, more);
  const update = ({ memory: { keys, ...said } }) => {
    [total.textContent, more.textContent] = [said.total, said.note];
    chart().el.ariaLabel = `memory by entry: ${keys.join(", ")}`;
  };
  return { el, update };
}
