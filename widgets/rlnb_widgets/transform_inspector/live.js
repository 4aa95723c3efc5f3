// The live inspector: the chain as boxes, one of them open, a reset or step chosen; arrow keys move through both.

import { button, Channel, clamp, h, keyboard, legend, select, uniqueId, visualizer } from "../_core/core.js";
import { crossing, fate, split, spoken } from "./lanes.js";

const SIGNS = { new: "+", removed: "−", changed: "~", same: "", lost: "" };
const MOST_KEYS = 3; // in a box; all of them are in the tables below
const keyList = (keys) => (keys.length ? keys.slice(0, MOST_KEYS).join(", ") + (keys.length > MOST_KEYS ? ` and ${keys.length - MOST_KEYS} more` : "") : "—");

export default visualizer("transform-inspector", ({ model, root, own, listen }) => {
  let data = JSON.parse(model.get("payload"));
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

  function fillMoments() {
    moments.replaceChildren(...data.moments.map((m, i) => h("option", { value: String(i) }, `${m.label}${m.error ? " (stopped)" : ""}`)));
    moments.hidden = data.moments.length === 0;
  }

  function fillChain() {
    const now = current();
    const card = (i, title, lines) => {
      const state = fate(now, i, data.boxes.length);
      const chosen = i === box.value;
      return h("div", {
        class: "ti-box", title: [title, ...lines.map(([what, keys]) => `${what} ${keys.join(", ") || "nothing"}`)].join("\n"), role: "option", id: `${id}-${i}`, "aria-selected": String(chosen), "data-box": i, "data-fate": state,
        onclick: () => box.set(i),
      }, h("div", { class: "ti-name" }, title), ...lines.filter(([, keys], i) => i < 2 || keys.length).map(([what, keys]) => h("div", { class: "ti-keys" }, h("span", { class: "rlnb-note" }, `${what} `), keyList(keys))),
      state === "failed" ? h("div", { class: "ti-failed" }, "stopped here") : null,
      state === "unreached" ? h("div", { class: "rlnb-note" }, "not reached") : null);
    };
    const keysOf = (changes) => changes.map((change) => change[0]);
    const parts = [card(-1, data.env, [["gives", keysOf(data.given)], ["takes", keysOf(data.taken)]])];
    data.boxes.forEach((b, i) => {
      const cut = i === box.value;
      const gap = h("div", { class: "ti-gap", "aria-hidden": "true", "data-cut": cut ? "1" : null, title: cut ? `${b.code}.parent ends here` : null },
        h("span", { class: "ti-out" }, "→"), b.invertible ? h("span", { class: "ti-in" }, "←") : null);
      const inverse = b.inverseWrites.length ? [["inverse reads", b.inverseReads], ["inverse writes", b.inverseWrites]] : [];
      parts.push(h("div", { class: "ti-link", role: "presentation" }, gap, card(i, b.title, [["reads", b.reads], ["writes", b.writes], ...inverse])));
    });
    chain.replaceChildren(...parts);
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
      h("th", { scope: "row" }, h("span", { class: "ti-sign", "aria-hidden": "true" }, SIGNS[row[1]]), row[0], row[1] === "same" ? null : h("span", { class: "rlnb-note" }, ` ${row[1]}`)),
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
    if (!now || fate(now, i, data.boxes.length) !== "failed") return null;
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
      h("p", { class: "ti-cut rlnb-note" }, h("code", {}, `${b.code}.parent`), ` is what is left of the dashed line: ${data.env}${i ? ` with ${i === 1 ? "the box" : `the ${i} boxes`} before this one` : " with no transform"}.`),
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
  listen("change:payload", () => { data = JSON.parse(model.get("payload")); fillMoments(); update(); });
  for (const channel of [box, moment]) channel.subscribe(update);
  fillMoments();
  update();
});
