// The live spec explorer: search, tree, samples, details and the box to try a value.

import { Channel, arrived, button, clamp, h, inWords, keyboard, toggle, unpacked, visualizer } from "../_core/core.js";
import { shapeLegend, treeView } from "../_core/treeview.js";
import { detailsPane, hasKernel } from "./details.js";
import { paintRow, rowElement, traits, wholeRow } from "./row.js";

const MOST_SEED = 2 ** 31 - 1;

export default visualizer("spec-explorer", async ({ model, root, own, listen }) => {
  const data = await arrived(model, "payload");
  const pictures = unpacked(data.pictures);
  const rows = data.rows.map((row) => wholeRow(data, row));
  const seed = own(new Channel(model, "seed", (v) => clamp(Math.round(Number(v) || 0), 0, MOST_SEED)));
  const selected = own(new Channel(model, "selected", (v) => (Array.isArray(v) ? v : [])));
  const drawn = () => JSON.parse(model.get("samples"));
  let samples = drawn();
  let showSamples = true;
  const drawnOf = (row) => (showSamples ? samples.rows[rows.indexOf(row)] ?? null : null);
  const details = own(detailsPane(model, pictures, drawnOf));
  let atLeaves = data.leaves;
  // Where Composites outnumber leaves, it opens with leaves, and what differs.
  const leafRows = rows.flatMap((row, i) => (row.node && !row.diff ? [] : [i]));
  const domainHead = h("div", {});
  const tree = own(treeView({
    rows, name: "entries of the spec", heads: [h("div", {}, "key"), h("div", {}, "spec"), domainHead, h("div", {}, "gymnasium space")],
    label: "search keys, classes, dtypes, shapes", traits, flagged: (row) => Boolean(row.diff),
    flags: ["Differences", "show only what differs from the other spec"], opening: () => (atLeaves ? leafRows : null),
    build: (row, i, place) => rowElement(row, i, place, atLeaves),
    update: () => {},
    paint: (element, row) => paintRow(element, row, pictures, drawnOf(row)),
    onSelect: (row) => {
      details.show(row);
      selected.set(row ? row.path : []);
    },
  }));
  // For screen readers: what is seen of it is in the head of the table and in the field of the seed.
  const words = h("span", { class: "spec-drawn rlnb-sr", role: "status" });
  const { search, folds, only, count } = tree.tools;
  const repaint = () => {
    words.textContent = `${samples.words}, seed ${seed.value}`;
    domainHead.textContent = showSamples ? `domain, ${samples.words}` : "domain";
    tree.repaint();
    details.drawn();
  };
  listen("change:samples", () => { samples = drawn(); repaint(); });
  const arrange = () => {
    tree.el.classList.toggle("spec-leaves", atLeaves);
    tree.el.style.setProperty("--spec-key", `${data.widths[atLeaves ? "leaf" : "key"]}px`);
    tree.el.style.setProperty("--spec-kind", `${data.widths.kind}px`);
  };
  const showWhole = (on) => {
    atLeaves = !on;
    whole.set(on);
    arrange();
    tree.filter();
  };
  const whole = toggle("Whole tree", "show the Composites that hold the entries, too", false, showWhole);
  folds?.classList.add("spec-folds");
  const shapes = rows.map((row) => row.dims);
  root.append(h("div", { class: "rlnb-bar", role: "toolbar", "aria-label": "tree and samples" },
    search, data.leaves ? whole : null, folds, only, count,
    sampleTools({ seed, kernel: hasKernel(model), words, show: (on) => { showSamples = on; repaint(); } }),
    shapes.flat().some(([role]) => role !== "f") ? shapeLegend(shapes) : null), tree.el, details.el, inWords(data.words));

  const common = { c: ["copy the code", () => details.copy()], "/": ["search", tree.find], t: ["try a value", () => details.focus()] };
  keyboard(tree.focusable, tree.keys);
  keyboard(root, common, tree.focusable);
  const select = (path) => {
    const row = rows.find((other) => other.path.join("\0") === path.join("\0"));
    if (atLeaves && path.length && row?.node && !row.diff) showWhole(true);
    if (!atLeaves || path.length) tree.select(path);
    else details.show(rows[0]);
  };
  selected.subscribe((path, origin) => { if (origin !== "here") select(path); });
  arrange();
  repaint();
  select(selected.value);
});

function sampleTools({ seed, kernel, words, show }) {
  const field = h("input", { type: "number", class: "rlnb-field", min: 0, max: MOST_SEED, value: seed.value, "aria-label": "seed of the samples", disabled: !kernel });
  field.addEventListener("change", () => { if (field.value !== "") seed.set(Number(field.value)); field.value = seed.value; });
  seed.subscribe((value) => { field.value = value; });
  const again = button({
    text: "Draw again", label: "draw again", disabled: !kernel, onclick: () => seed.set((seed.value + 1) % MOST_SEED),
    title: kernel ? "draw again, with the next seed" : "drawing again needs a Python kernel; these samples were stored",
  });
  return h("span", { class: "rlnb-group spec-tools" }, toggle("Random samples", "show random samples of the domains; they are not data of an environment", true, show), again,
    h("label", { class: "rlnb-picker" }, "seed", field), words);
}
