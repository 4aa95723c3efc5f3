// Everything a visualizer's own module may import, in one place.
export { arrived, bytes, clamp, inflated, plural, text, typed } from "./data.js";
export { stage } from "./canvas.js";
export { Channel } from "./channel.js";
export {
  button, copier, drag, factList, guarded, h, hIn, inWords, keyButton, keyboard, legend, noteList, select, tellSlider, toggle, uniqueId,
} from "./dom.js";
export { framed, motion, reducedMotion } from "./frames.js";
export { cutText, duration, search, textWidth } from "./measures.js";
export { columnsOf, hitAt, paint, paintOnce, surface, unpacked } from "./paint.js";
export { tabs } from "./tabs.js";
export { markStrip, timelineBar } from "./timeline.js";
export { visualizer } from "./widget.js";
