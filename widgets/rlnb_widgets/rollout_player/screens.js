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
  const frameWidth = Math.max(Math.round((TALLEST * source.width) / source.height), 160);
  const style = `max-width:${Math.round((TALLEST * source.width) / source.height)}px`;
  const captions = [];

  const screen = (frameAt) => {
    if (!seen) return null;
    stages.push(frameView(source, frameAt, { class: "rlnb-screen", style }));
    return stages.at(-1).el;
  };

  const cell = (e) => {
    const caption = h("span", { class: "rlnb-caption" });
    const button = h("button", { type: "button", class: "rlnb-cell", title: `show ${head.labels[e]} below`, onclick: () => focus(e) },
      screen(() => [e * head.steps + stepNow()]), caption);
    captions.push((t) => {
      const words = summary(e, t);
      caption.replaceChildren(h("b", {}, head.labels[e]), ` ${words.replace("episode", "ep.")}`);
      button.setAttribute("aria-label", `${head.labels[e]}, ${words}`);
      button.setAttribute("aria-pressed", String(e === focused()));
    });
    return button;
  };

  const single = () => {
    const nowCaption = h("figcaption", { class: "rlnb-caption" });
    const nextCaption = h("figcaption", { class: "rlnb-caption" });
    const now = screen(() => [stepNow()]);
    const next = screen(() => [nextFrame(head, 0, stepNow()), true]);
    captions.push((t) => {
      const said = (words) => (words ? `: ${words}` : "");
      nowCaption.replaceChildren(h("b", {}, "root"), ` at ${t.toLocaleString("en")}${said(turn(t, false))}`);
      nextCaption.replaceChildren(h("b", {}, '"next"'), ` at ${(t + 1).toLocaleString("en")}${said(turn(t, true))}`);
    });
    return [h("figure", { class: "rlnb-now" }, now, nowCaption), h("figure", { class: "rlnb-then" }, next, nextCaption)];
  };

  const el = h("div", { class: `rlnb-screens ${many ? "rlnb-grid" : ""} ${head.parting ? "rlnb-pair" : ""}` });
  if (many) {
    el.setAttribute("role", "group");
    el.setAttribute("aria-label", head.parting ? "two rollouts" : "environments");
    el.append(...head.labels.map((_, e) => cell(e)));
  } else if (seen) {
    // What two frames do not need is the table's.
    el.style.setProperty("--rlnb-screens", `${2 * frameWidth + 12}px`);
    el.append(...single());
  }
  if (head.frames.note) {
    el.append(h("p", { class: seen ? "rlnb-note" : "rlnb-note rlnb-empty" }, head.frames.note));
  }

  return {
    el,
    update(t) {
      for (const caption of captions) caption(t);
      for (const s of stages) s.invalidate();
    },
    destroy: () => stages.forEach((s) => s.destroy()),
  };
}
