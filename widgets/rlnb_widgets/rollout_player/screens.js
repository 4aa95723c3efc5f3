// What is seen: one large frame with what came next, two compared, or a grid of small ones.

import { h, text } from "../_core/core.js";
import { frameSource, frameView, nextFrame } from "./frames.js";
import { episodeAt, namesAt, turnWords } from "./strips.js";

/** An environment at a step: its episode, and whose turn it is, or the return so far. */
function summary(head, columns, e, t) {
  if (namesAt(head, columns, e, t)[0] === "padding") return "has ended";
  const episode = `episode ${episodeAt(head, columns, e, t).split(" ")[0]}`;
  if (head.turns) return `${episode}, ${turnWords(head, columns, e, t, false, true)}`;
  const sums = head.returns.slice(0, 4).map((c) => text(columns[c][e * head.steps + t])).join(", ");
  return sums ? `${episode}, ${head.returns.length > 1 ? "returns" : "return"} ${sums}` : episode;
}

/** Build the frames: { el, update }, update() after the playhead moved or another environment was `selected`. */
export function screensPanel(head, columns, blob, pictures, playhead, selected, own) {
  const stages = [];
  const source = frameSource(head, blob, pictures, () => stages.forEach((s) => s.invalidate()));
  const many = head.labels.length > 1;
  const seen = source.kind !== "none";
  const captions = [];

  const screen = (frameAt) => {
    if (!seen) return null;
    stages.push(own(frameView(source, frameAt, { class: "rlnb-screen" })));
    return stages.at(-1).el;
  };

  const cell = (name, e) => {
    const caption = h("span", { class: "rlnb-caption" });
    const button = h("button", { type: "button", class: "rlnb-cell", title: `show ${name} below`, onclick: () => selected.set(e) },
      screen(() => [e * head.steps + playhead.t]), caption);
    captions.push((t) => {
      const words = summary(head, columns, e, t);
      caption.replaceChildren(h("b", {}, name), ` ${words.replace("episode", "ep.")}`);
      button.setAttribute("aria-label", `${name}, ${words}`);
      button.setAttribute("aria-pressed", String(e === selected.value));
    });
    return button;
  };

  const figure = (name, next, frameAt) => {
    const caption = h("figcaption", { class: "rlnb-caption" });
    captions.push((t) => {
      const words = turnWords(head, columns, 0, t, next);
      caption.replaceChildren(h("b", {}, name), ` at ${(t + Number(next)).toLocaleString("en")}${words && `: ${words}`}`);
    });
    return h("figure", { class: next ? "rlnb-then" : "rlnb-now" }, screen(frameAt), caption);
  };

  const el = h("div", { class: `rlnb-screens ${many ? "rlnb-grid" : ""} ${head.parting ? "rlnb-pair" : ""}` });
  el.style.setProperty("--rlnb-ratio", source.width / source.height);
  if (many) {
    el.setAttribute("role", "group");
    el.setAttribute("aria-label", head.parting ? "two rollouts" : "environments");
    el.append(...head.labels.map(cell));
  } else if (seen) {
    el.append(figure("root", false, () => [playhead.t]), figure('"next"', true, () => [nextFrame(head, 0, playhead.t), true]));
  }
  if (head.frames.note) el.append(h("p", { class: seen ? "rlnb-note" : "rlnb-note rlnb-empty" }, head.frames.note));

  const update = () => {
    for (const caption of captions) caption(playhead.t);
    for (const s of stages) s.invalidate();
  };
  return { el, update };
}
