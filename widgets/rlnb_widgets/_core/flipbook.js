// The Flipbook: one picture for each step under a playhead, in the colours of the page.

import { h, keyboard, timelineBar, visualizer } from "./core.js";

export default visualizer("flipbook", ({ model, root, playhead, own }) => {
  const pictures = model.get("_pictures");
  const captions = model.get("_captions");
  const bar = own(timelineBar(playhead, () => ({}), model.get("_unit")));
  const slider = h("input", { class: "rlnb-slider", type: "range", min: 0, max: playhead.last, step: 1, "aria-label": model.get("_unit") });
  slider.addEventListener("input", () => playhead.seek(Number(slider.value)));
  // The pictures bring style sheets and ids of their own, which must not reach the page.
  const page = h("div", { class: "rlnb-leaf" });
  const leaf = page.attachShadow({ mode: "open" });
  const words = h("p", { class: "rlnb-note", "aria-live": "polite" });
  root.append(bar.el, slider, page, words);
  keyboard(root, bar.keys, slider);

  let shown = -1;
  const update = () => {
    const t = playhead.t;
    if (t === shown) return;
    shown = t;
    leaf.innerHTML = pictures[t];
    words.textContent = captions[t];
    slider.value = String(t);
    root.setAttribute("data-t", String(t));
  };
  own(playhead.subscribe(update));
  update();
});
