// What is seen: one large frame with what came next, two compared, or a grid of small ones.

import { h } from "../_core/core.js";
import { frameSource, frameView, nextFrame } from "./frames.js";

const TALLEST = 130; // Pixels; frames, controls and strips fit on a laptop's screen together.

/**
 * Build the frames. `focused()` is the environment in focus, `focus(e)` changes it.
 *
 * Returns { el, update, destroy }; update(t) after the playhead or the focus changed.
 */
export function screensPanel(head, blob, pictures, { focused, focus, t: stepNow, summary, turn }) {
  const stages = [];
  const source = frameSource(head, blob, pictures, () => stages.forEach((s) => s.invalidate()));
  const many = head.labels.length > 1;
  const seen = source.kind !== "none";
  const wide = Math.round((TALLEST * source.width) / source.height);
  const captions = [];

  const screen = (frameAt) => {
    if (!seen) return null;
    stages.push(frameView(source, frameAt, { class: "rlnb-screen", style: `max-width:${wide}px` }));
    return stages.at(-1).el;
  };

  const cell = (name, e) => {
    const caption = h("span", { class: "rlnb-caption" });
    const button = h("button", { type: "button", class: "rlnb-cell", title: `show ${name} below`, onclick: () => focus(e) },
      screen(() => [e * head.steps + stepNow()]), caption);
    captions.push((t) => {
      const words = summary(e, t);
      caption.replaceChildren(h("b", {}, name), ` ${words.replace("episode", "ep.")}`);
      button.setAttribute("aria-label", `${name}, ${words}`);
      button.setAttribute("aria-pressed", String(e === focused()));
    });
    return button;
  };

  const figure = (name, next, frameAt) => {
    const caption = h("figcaption", { class: "rlnb-caption" });
    captions.push((t) => {
      const words = turn(t, next);
      caption.replaceChildren(h("b", {}, name), ` at ${(t + Number(next)).toLocaleString("en")}${words && `: ${words}`}`);
    });
    return h("figure", { class: next ? "rlnb-then" : "rlnb-now" }, screen(frameAt), caption);
  };

  const el = h("div", { class: `rlnb-screens ${many ? "rlnb-grid" : ""} ${head.parting ? "rlnb-pair" : ""}` });
  if (many) {
    el.setAttribute("role", "group");
    el.setAttribute("aria-label", head.parting ? "two rollouts" : "environments");
    el.append(...head.labels.map(cell));
  } else if (seen) {
    // What two frames do not need is the table's.
    el.style.setProperty("--rlnb-screens", `${2 * Math.max(wide, 160) + 12}px`);
    el.append(figure("root", false, () => [stepNow()]), figure('"next"', true, () => [nextFrame(head, 0, stepNow()), true]));
  }
  if (head.frames.note) el.append(h("p", { class: seen ? "rlnb-note" : "rlnb-note rlnb-empty" }, head.frames.note));

  return {
    el,
    update(t) {
      for (const caption of captions) caption(t);
      for (const s of stages) s.invalidate();
    },
    destroy: () => stages.forEach((s) => s.destroy()),
  };
}
