// The live spec explorer: search, tree, samples, details and the box to try a value.

import { Channel, button, clamp, h, keyboard, visualizer } from "../_core/core.js";
import { shapeLegend } from "../_core/shape.js";
import { inWords, toggle, treeTools } from "../_core/treetools.js";
import { treeView } from "../_core/treeview.js";
import { hasKernel } from "./ask.js";
import { detailsPane } from "./details.js";
import { paintRow, rowElement } from "./row.js";
import { drawnWords, keyWidth, kindWidth, leafRows, traits } from "./tree.js";

let made = 0;
const MOST_SEED = 2 ** 31 - 1;

export default visualizer("spec-explorer", ({ model, root, own, listen }) => {
  const data = JSON.parse(model.get("payload"));
  const { rows } = data;
  const place = new Map(rows.map((row, i) => [row, i]));
  const seed = own(new Channel(model, "seed", (v) => clamp(Math.round(Number(v) || 0), 0, MOST_SEED)));
  const selected = own(new Channel(model, "selected", (v) => (Array.isArray(v) ? v : [])));
  let samples = JSON.parse(model.get("samples"));
  let showSamples = true;
  const drawnOf = (row) => (showSamples ? samples[place.get(row)] ?? null : null);
  const details = own(detailsPane(model, data.pictures));
  let current = null;
  let atLeaves = data.leaves;
  const domainHead = h("div", {});
  const tree = own(treeView({
    rows, name: "entries of the spec", id: `spec-${(made += 1)}`, heights: [37, 60], nodeHeights: [26, 26], narrow: 640,
    header: h("div", {}, h("div", {}, "key"), h("div", {}, "spec"), domainHead, h("div", {}, "gymnasium space")),
    traits, flagged: (row) => Boolean(row.diff), opening: () => (atLeaves ? leafRows(rows) : null),
    build: (row, i, place) => rowElement(row, i, place, atLeaves),
    update: () => {},
    paint: (element, row) => paintRow(element, row, data.pictures, drawnOf(row)),
    onSelect: (row) => {
      current = row;
      details.show(row, row && drawnOf(row));
      selected.set(row ? row.path : []);
    },
  }));
  tree.el.style.setProperty("--spec-key", `${keyWidth(rows, atLeaves)}px`);
  tree.el.style.setProperty("--spec-kind", `${kindWidth(rows)}px`);
  tree.el.classList.toggle("spec-leaves", atLeaves);
  // For screen readers: what is seen of it is in the head of the table and in the field of the seed.
  const words = h("span", { class: "spec-drawn rlnb-sr", role: "status" });
  const tools = treeTools(tree, rows, "search keys, classes, dtypes, shapes", ["Differences", "show only what differs from the other spec"]);
  const repaint = () => {
    words.textContent = `${drawnWords(samples)}, seed ${seed.value}`;
    domainHead.textContent = showSamples ? `domain, ${drawnWords(samples)}` : "domain";
    tree.repaint();
    if (current) details.drawn(drawnOf(current));
  };
  listen("change:samples", () => { samples = JSON.parse(model.get("samples")); repaint(); });
  const showWhole = (on) => {
    atLeaves = !on;
    whole.set(on);
    tree.el.classList.toggle("spec-leaves", atLeaves);
    tree.el.style.setProperty("--spec-key", `${keyWidth(rows, atLeaves)}px`);
    tools.filter();
  };
  const whole = toggle("Whole tree", "show the Composites that hold the entries, too", false, showWhole);
  tools.folds?.classList.add("spec-folds");
  const bar = h("div", { class: "rlnb-bar", role: "toolbar", "aria-label": "tree and samples" }, ...[tools.search,
    data.leaves ? whole : null, tools.folds, tools.only, tools.count,
    sampleTools({ seed, kernel: hasKernel(model), words, show: (on) => { showSamples = on; repaint(); } }), legendOf(rows)].filter(Boolean));
  root.append(bar, tree.el, details.el, inWords(data.words));

  const common = { c: ["copy the code", () => details.copy()], "/": ["search", tools.find], t: ["try a value", () => details.focus()] };
  const inTree = (key) => [tree.keys[key][0], (event) => { if (!atLeaves) tree.keys[key][1](event); }];
  keyboard(tree.focusable, { ...tree.keys, ArrowLeft: inTree("ArrowLeft"), ArrowRight: inTree("ArrowRight"), ...common });
  keyboard(root, common);
  const select = (path) => {
    const row = rows.find((other) => other.path.join("\0") === path.join("\0"));
    if (atLeaves && path.length && row?.node && !row.diff) showWhole(true);
    if (!atLeaves || path.length) tree.select(path);
    else details.show(current = rows[0], null);
  };
  selected.subscribe((path, origin) => { if (origin !== "here") select(path); });
  repaint();
  select(selected.value);
});

/** The colours of shapes, where there is more than one. */
function legendOf(rows) {
  const shapes = rows.map((row) => row.dims);
  return shapes.flat().some(([role]) => role !== "f") ? shapeLegend(shapes) : null;
}

function sampleTools({ seed, kernel, words, show }) {
  const field = h("input", { type: "number", class: "rlnb-field spec-seed", min: 0, max: MOST_SEED, value: seed.value, "aria-label": "seed of the samples", disabled: !kernel });
  field.addEventListener("change", () => { if (field.value !== "") seed.set(Number(field.value)); field.value = seed.value; });
  seed.subscribe((value) => { field.value = value; });
  const again = button({
    text: "Draw 200 samples", label: "draw 200 samples", onclick: () => seed.set((seed.value + 1) % MOST_SEED),
    title: kernel ? "draw anew, with the next seed" : "drawing anew needs a Python kernel; these samples were stored",
  });
  again.disabled = !kernel;
  return h("span", { class: "rlnb-group spec-tools" }, toggle("Random samples", "show random samples of the domains; they are not data of an environment", true, show), again,
    h("label", { class: "spec-label" }, "seed", field), words);
}
