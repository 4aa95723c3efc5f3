// The live inspector: the chain as boxes, one of them open, a reset or step chosen; arrow keys move through both.

import { arrived, button, Channel, clamp, h, keyboard, legend, select, surface, uniqueId, unpacked, visualizer } from "../_core/core.js";
import { crossing, split, spoken } from "./lanes.js";

const SIGNS = { new: "+", removed: "−", changed: "~", same: "", lost: "" };

export default visualizer("transform-inspector", async ({ model, root, own, listen }) => {
  let data = await arrived(model, "payload");
  const last = () => data.boxes.length - 1;
  const box = own(new Channel(model, "box", (value) => clamp(Math.round(Number(value)) || 0, -1, last())));
  const moment = own(new Channel(model, "moment", (value) => clamp(Math.round(Number(value)) || 0, 0, Math.max(data.moments.length - 1, 0))));
  const chain = h("div", { class: "ti-chain", role: "listbox", tabindex: 0, "aria-orientation": "horizontal", "aria-label": "the boxes of the chain, from the base env outwards" });
  const bar = h("div", { class: "rlnb-bar" });
  const words = h("p", { class: "ti-words rlnb-note", "aria-live": "polite" });
  const details = h("div", { class: "ti-details" });
  const id = uniqueId("box");

  root.append(bar, chain, words, details);
  if (data.note) root.append(h("p", { class: "rlnb-error" }, data.note));
  const move = (by) => () => box.set(box.value + by);
  const turn = (by) => () => moment.set(moment.value + by);
  keyboard(root, {
    ArrowLeft: ["box before", move(-1)], ArrowRight: ["box after", move(1)],
    Home: ["base env", () => box.set(-1)], End: ["last box", () => box.set(last())],
    ArrowUp: ["reset or step before", turn(-1)], ArrowDown: ["reset or step after", turn(1)],
  }, chain);

  const current = () => data.moments[moment.value] ?? null;

  // Buttons stay as they are, so that the one in focus keeps it; the list of moments is filled anew when one is added.
  const ask = (what) => () => model.send({ do: what });
  const moments = select({ options: [], value: "", label: "the reset or step shown (up and down)", onchange: (value) => moment.set(Number(value)) });
  const running = Boolean(model.widget_manager) && !data.note;
  bar.append(...[
    moments,
    running ? h("span", { class: "rlnb-group" },
      button({ text: "Step", solid: true, label: "step a copy of the env", onclick: ask("step") }),
      button({ text: "Reset", solid: true, label: "reset a copy of the env", onclick: ask("reset") })) : null,
    legend(data.ways),
  ].filter(Boolean));

  /** How a box, or the base env at -1, took part in the moment: "passed", "failed" or "unreached". */
  const fateOf = (i) => current()?.fates[i + 1] ?? "passed";
  // Each box is a picture by itself, so that they wrap where there is less room.
  const cards = data.words.map((words, k) => {
    const i = k - 1;
    const params = () => ({ chosen: Number(box.value === i), failed: 0, unreached: 0, [fateOf(i)]: 1 });
    return own(surface(null, null, { params, class: "ti-box", role: "option", id: `${id}-${i}`, "data-box": i, title: words, onclick: () => box.set(i) }));
  });
  chain.append(...cards.map(({ el }) => el));

  function fill() {
    const lists = unpacked(data.cards);
    cards.forEach((card, k) => card.show(lists[k]));
    moments.replaceChildren(...data.moments.map((m, i) => h("option", { value: String(i) }, `${m.label}${m.error ? " (stopped)" : ""}`)));
    moments.hidden = data.moments.length === 0;
    update();
  }

  function fillChain() {
    cards.forEach(({ el, invalidate }, k) => {
      const fate = fateOf(k - 1);
      el.dataset.fate = fate;
      el.ariaLabel = fate === "passed" ? data.words[k] : `${data.words[k]}\n${fate}`;
      el.ariaSelected = String(k - 1 === box.value);
      invalidate();
    });
    chain.setAttribute("aria-activedescendant", `${id}-${box.value}`);
  }

  function valueCell(value) {
    if (!value) return h("td", { class: "rlnb-note" }, "—");
    const source = value[4] === null ? null : data.pictures[value[4]];
    return h("td", {}, source ? h("img", { class: "ti-thumb", src: source, alt: `${value[0]} as a picture` }) : null,
      h("div", { class: "ti-value" }, value[3]), h("div", { class: "rlnb-note" }, value[2]));
  }

  const table = (heads, lines) => h("table", { class: "rlnb-data" },
    heads && h("thead", {}, h("tr", {}, ...heads.map((head) => h("th", { scope: "col" }, head)))), h("tbody", {}, ...lines));
  const section = (title, ...content) => h("section", { class: "ti-grid", "aria-label": title }, h("h4", {}, title), ...content);
  const list = (title, pairs, cell) => section(title,
    table(null, pairs.map(([key, what]) => h("tr", { "data-key": key }, h("th", { scope: "row" }, key), cell(what)))));

  function grid(title, heads, rows, cell) {
    if (!rows) return h("p", { class: "rlnb-note" }, `${title}: nothing arrived.`);
    const { told, quiet } = split(rows);
    const line = (row) => h("tr", { "data-kind": row[1], "data-key": row[0] },
      h("th", { scope: "row" }, ...(row[1] === "same" ? [row[0]]
        : [h("span", { class: "ti-sign", "aria-hidden": "true" }, SIGNS[row[1]]), row[0], h("span", { class: "rlnb-note" }, ` ${row[1]}`)])),
      cell(row[2]), cell(row[3]));
    const all = (some) => table(["key", ...heads], some.map(line));
    return section(title, told.length ? all(told) : h("p", { class: "rlnb-note" }, "nothing changes"),
      quiet.length ? h("details", {}, h("summary", { class: "rlnb-note" }, `${quiet.length} unchanged`), all(quiet)) : null);
  }

  const specCell = (text) => h("td", { class: text ? null : "rlnb-note" }, text || "—");

  function fillDetails() {
    const now = current();
    const i = box.value;
    details.replaceChildren(...(i < 0 ? baseDetails(now) : boxDetails(data.boxes[i], i, now)).filter(Boolean));
  }

  function stopped(now, i) {
    if (fateOf(i) !== "failed") return null;
    return h("div", { class: "rlnb-error", role: "alert" }, h("strong", {}, `${now.stopped}: `), now.error);
  }

  function baseDetails(now) {
    const specs = (title, changes) => list(title, changes.map(([key, , , spec]) => [key, spec]), specCell);
    const values = now?.forward[0] ?? null;
    return [
      h("div", { class: "ti-head" }, h("code", {}, "env.base_env"), " ", h("span", { class: "rlnb-note" }, data.about)), stopped(now, -1),
      h("div", { class: "ti-columns" }, specs("specs of its outputs", data.given), specs("specs of its inputs", data.taken),
        values && list(`${now.label}: outputs`, values.map((value) => [value[0], value]), valueCell)),
    ];
  }

  function boxDetails(b, i, now) {
    const out = now ? grid(`${now.label}, out of the env: values`, ["before the box", "after it"], crossing(now.forward[i], now.forward[i + 1]), valueCell) : null;
    const inward = now && b.invertible ? grid(`${now.label}, into the env: values`, ["outside", "inside"], crossing(now.inverse[i + 1], now.inverse[i]), valueCell) : null;
    return [
      h("div", { class: "ti-head" }, h("code", {}, b.code), " ", h("b", {}, b.name), " ", h("span", { class: "rlnb-note" }, b.settings)),
      h("p", { class: "ti-cut rlnb-note" }, h("code", {}, `${b.code}.parent`), ` is what comes before the dashed line: ${data.env}${i ? ` with ${i === 1 ? "the box" : `the ${i} boxes`} before this one` : " with no transform"}.`),
      stopped(now, i), b.error ? h("div", { class: "rlnb-error", role: "alert" }, b.error) : null,
      h("div", { class: "ti-columns" },
        out, now?.what === "reset" && b.invertible ? h("p", { class: "rlnb-note" }, "A reset takes no action: the inverse has nothing to do.") : inward,
        grid("specs of the env's outputs", ["before the box", "after it"], b.output, specCell),
        b.input.some((change) => change[1] !== "same") || b.invertible ? grid("specs of the env's inputs", ["outside", "inside"], b.input, specCell) : null),
    ];
  }

  function update() {
    moments.value = String(moment.value);
    fillChain();
    fillDetails();
    words.textContent = spoken(data, box.value, current());
    Object.assign(root.dataset, { box: box.value, moment: moment.value, moments: data.moments.length });
  }
  listen("change:payload", async () => {
    data = await arrived(model, "payload");
    moment.fromModel(); // a moment of these data may have come before them
    fill();
  });
  for (const channel of [box, moment]) channel.subscribe(update);
  fill();
});
