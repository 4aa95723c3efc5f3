// The standalone timeline: the controls over a strip of marks.

import { keyboard, markStrip, timelineBar, visualizer } from "./core.js";

export default visualizer("timeline", ({ model, root, playhead, own, listen }) => {
  const marks = () => model.get("marks") ?? {};
  const bar = own(timelineBar(playhead, marks));
  const strip = own(markStrip(model.get("_list"), playhead, marks));
  root.append(bar.el, strip.el);
  keyboard(root, bar.keys, strip.el);

  const update = () => { strip.update(); root.dataset.t = playhead.t; };
  for (const name of ["marks", "_list"]) {
    listen(`change:${name}`, () => { strip.show(model.get("_list")); bar.paint(); update(); });
  }
  own(playhead.subscribe(update));
  update();
});
